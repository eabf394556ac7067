//! Keys of etcd: noted once, and put back later.
//!
//! A control plane takes ten seconds of processor time to start, and most tests need one that nobody has used. So its keys
//! are noted when it is new; later whatever was added is deleted and whatever has changed is written back, behind the
//! API server, which learns of it by its watches as of any other change.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// The client of one etcd, by its JSON gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Etcd {
    pub(crate) port: u16,
}

/// The keys of a new control plane.
#[derive(Debug)]
pub(crate) struct Baseline {
    /// Value and the revision at which it was written last.
    keys: BTreeMap<Vec<u8>, (Vec<u8>, i64)>,
}

/// Keys that the API server renews by itself all the time.
const RENEWED: [&[u8]; 3] =
    [b"/registry/leases/kube-system/apiserver-", b"/registry/masterleases/", b"/registry/leases/kube-node-lease/"];

/// Keys of objects whose controllers remember by name which pods they expect, for minutes: an object of the same name would
/// get no pods in the next test.
const REMEMBERED: [&[u8]; 7] = [
    b"/registry/controllers/",
    b"/registry/cronjobs/",
    b"/registry/daemonsets/",
    b"/registry/deployments/",
    b"/registry/jobs/",
    b"/registry/replicasets/",
    b"/registry/statefulsets/",
];

/// Keys of objects that controllers make once in each namespace, where they find none of the name in their memory. All that a
/// transaction deletes has one revision, and a watch that begins again within it passes over the rest. So each of these is
/// deleted by itself.
const LOOKED_UP: [(&[u8], &[u8]); 2] =
    [(b"/registry/configmaps/", b"/kube-root-ca.crt"), (b"/registry/serviceaccounts/", b"/default")];

/// Keys of one request.
const PAGE: usize = 10_000;

/// Operations of one transaction; etcd allows 128.
const OPERATIONS: usize = 100;

/// The time that one request may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Baseline {
    /// True where both have the same keys of the same revisions.
    pub(crate) fn differs_in_nothing(&self, other: &Self) -> bool {
        let revisions = |baseline: &Self| -> Vec<(Vec<u8>, i64)> {
            let keys = baseline.keys.iter().filter(|(key, _)| !is_renewed(key));
            keys.map(|(key, (_, revision))| (key.clone(), *revision)).collect()
        };
        revisions(self) == revisions(other)
    }
}

impl Etcd {
    /// Notes all keys with their values.
    pub(crate) fn baseline(self) -> Result<Baseline> {
        let mut keys = BTreeMap::new();
        self.each_key(false, |key, pair| {
            keys.insert(key, (bytes(pair, "value")?, revision(pair)?));
            Ok(())
        })?;
        Ok(Baseline { keys })
    }

    /// Deletes and writes back what differs from the baseline, and gives the number of keys that differed.
    pub(crate) fn put_back(self, baseline: &mut Baseline) -> Result<usize> {
        let mut seen: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        self.each_key(true, |key, pair| {
            seen.insert(key, revision(pair)?);
            Ok(())
        })?;
        if seen.keys().any(|key| REMEMBERED.iter().any(|prefix| key.starts_with(prefix))) {
            bail!("controllers remember workloads of this control plane");
        }
        let mut operations = Vec::new();
        let mut differed = 0;
        for key in seen.keys().filter(|key| is_looked_up(key) && !baseline.keys.contains_key(*key)) {
            differed += 1;
            self.call("txn", &json!({"success": [delete(KeyRange { first: key.clone(), last: key.clone() })]}))?;
        }
        seen.retain(|key, _| !is_looked_up(key) || baseline.keys.contains_key(key));
        let mut run: Option<KeyRange> = None;
        for key in seen.keys().filter(|key| !is_renewed(key)) {
            if baseline.keys.contains_key(key) {
                operations.extend(run.take().map(delete));
            } else {
                differed += 1;
                let first = run.map_or_else(|| key.clone(), |run| run.first);
                run = Some(KeyRange { first, last: key.clone() });
            }
        }
        operations.extend(run.take().map(delete));
        for some in operations.chunks(OPERATIONS) {
            self.call("txn", &json!({"success": some}))?;
        }
        let mut written = Vec::new();
        for (key, (value, revision)) in &baseline.keys {
            if !is_renewed(key) && seen.get(key) != Some(revision) {
                differed += 1;
                let put = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
                written.push((key.clone(), json!({"requestPut": put})));
            }
        }
        for some in written.chunks(OPERATIONS) {
            let puts: Vec<&Value> = some.iter().map(|(_, put)| put).collect();
            let done = self.call("txn", &json!({"success": puts}))?;
            // All that a transaction writes has its revision.
            let revision = number(&done["header"]["revision"])?;
            for (key, _) in some {
                if let Some(known) = baseline.keys.get_mut(key) {
                    known.1 = revision;
                }
            }
        }
        Ok(differed)
    }

    /// Writes keys with their values.
    pub(crate) fn put(self, keys: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        for some in keys.chunks(OPERATIONS) {
            let put = |(key, value): &(Vec<u8>, Vec<u8>)| json!({"requestPut": {"key": STANDARD.encode(key), "value": STANDARD.encode(value)}});
            let puts: Vec<Value> = some.iter().map(put).collect();
            self.call("txn", &json!({"success": puts}))?;
        }
        Ok(())
    }

    /// Reads all keys of one revision, in their order.
    fn each_key(self, keys_only: bool, mut each: impl FnMut(Vec<u8>, &Value) -> Result<()>) -> Result<()> {
        let mut from = b"/".to_vec();
        let mut at = Value::Null;
        loop {
            let mut request = json!({"key": STANDARD.encode(&from), "range_end": STANDARD.encode(b"0"), "limit": PAGE, "keys_only": keys_only});
            if !at.is_null() {
                request["revision"] = at.clone();
            }
            let page = self.call("range", &request)?;
            at = page["header"]["revision"].clone();
            let pairs = page["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
            for pair in pairs {
                let key = bytes(pair, "key")?;
                from = [key.as_slice(), &[0]].concat();
                each(key, pair)?;
            }
            if page["more"] != true {
                return Ok(());
            }
        }
    }

    fn call(self, what: &str, request: &Value) -> Result<Value> {
        let body = request.to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).context("reach etcd")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // In this version of HTTP the end of the answer is the end of the connection.
        let length = body.len();
        write!(
            stream,
            "POST /v3/kv/{what} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).with_context(|| format!("read what etcd answers to {what}"))?;
        let end = answer.windows(4).position(|part| part == b"\r\n\r\n").context("etcd answered no head")?;
        let (head, body) = (String::from_utf8_lossy(&answer[..end]).into_owned(), &answer[end + 4..]);
        if head.split(' ').nth(1) != Some("200") {
            bail!("etcd refused {what}: {head}\n{}", String::from_utf8_lossy(body));
        }
        serde_json::from_slice(body).with_context(|| format!("the answer of etcd to {what} is no JSON"))
    }
}

/// True for a key that changes by itself.
fn is_renewed(key: &[u8]) -> bool {
    RENEWED.iter().any(|prefix| key.starts_with(prefix))
}

/// True for a key of an object that a controller makes in each namespace.
fn is_looked_up(key: &[u8]) -> bool {
    LOOKED_UP.iter().any(|(prefix, name)| key.starts_with(prefix) && key.ends_with(name))
}

/// Keys that follow one another.
struct KeyRange {
    first: Vec<u8>,
    last: Vec<u8>,
}

/// The operation that deletes all keys from the first to the last.
fn delete(KeyRange { first, last }: KeyRange) -> Value {
    let end = [last.as_slice(), &[0]].concat();
    json!({"requestDeleteRange": {"key": STANDARD.encode(first), "range_end": STANDARD.encode(end)}})
}

fn bytes(pair: &Value, field: &str) -> Result<Vec<u8>> {
    Ok(STANDARD.decode(pair[field].as_str().unwrap_or_default())?)
}

fn revision(pair: &Value) -> Result<i64> {
    number(&pair["mod_revision"])
}

/// A number of 64 bits, which the gateway writes as text.
fn number(text: &Value) -> Result<i64> {
    text.as_str().unwrap_or_default().parse().context("etcd answered without a revision")
}
