//! Resources that make no sense: the server brings each of them to its end, whatever is in it and whoever dies
//! meanwhile, and none of them keeps a good one waiting.

use crate::faults::{config_maps, namespace};
use crate::ground::{Ground, Server};
use crate::random::{seeds, splitmix};
use crate::support::eventually;
use lifeboat_testbed::Proxy;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The kinds that the server acts on, and types beside them that it must leave alone; the first ones are made more
/// often.
const KINDS: [&str; 8] = [
    "Backup",
    "Restore",
    "BackupStorageLocation",
    "DeleteBackupRequest",
    "DownloadRequest",
    "ServerStatusRequest",
    "VolumeSnapshotLocation",
    "Schedule",
];

/// Texts that somebody may take for something else: a label, a list, a path, a pattern, a command, a form.
const ODD: [&str; 32] = [
    "",
    " ",
    ",",
    "a,b",
    "$(id)",
    "`id`",
    "; reboot",
    "../../etc/passwd",
    "/",
    ".",
    "..",
    "*",
    "**",
    "[",
    "a\nb",
    "a\u{0}b",
    "ünï",
    "🚢",
    "\u{202e}b",
    "-",
    "-x",
    "Has Space",
    "UPPER_case",
    "%s%n",
    "{{.}}",
    "null",
    r#"{"a": 1}"#,
    "a=b",
    "a/b",
    "a/b/c",
    "http://127.0.0.1:1",
    "velero",
];
const DURATIONS: [&str; 12] =
    ["0s", "1ns", "-1h", "-1ns", "1h", "30d", "", "9999999h", "1h30m", "1.5s", "99999999999999999999h", "soon"];
const NUMBERS: [i64; 7] = [0, 1, -1, 7, 2_147_483_647, -2_147_483_648, i64::MAX];
const NAMESPACES: [&str; 6] = ["shop", "*", "sho*", "nowhere", "kube-system", "velero"];
const TYPES: [&str; 7] =
    ["configmaps", "*", "pods", "deployments.apps", "persistentvolumes", "nope", "nope.example.com"];
/// Writes that the server makes for ever: to the Lease, for checks of locations, and for answers whose time is over.
const ROUTINE: [&str; 4] = ["/leases/", "/backupstoragelocations/", "/events", "/serverstatusrequests/"];
/// The backup that makes sense, and its location.
const GOOD: &str = "good";
/// Number of names that objects have, so small that they refer to each other.
const NAMED: u64 = 12;

/// So many servers die at least.
const DEATHS: usize = 5;
/// The time in which all comes to its end once nobody dies any more, also on a busy machine.
const IN_PEACE: Duration = Duration::from_secs(180);

/// Everything there is of the kinds, by kind and name.
type All = BTreeMap<(String, String), Value>;

/// Makes objects by chance; the same seed makes the same ones.
struct Maker {
    state: u64,
    /// The schema of the spec of each kind.
    schemas: BTreeMap<String, Value>,
    /// Specs that make sense, to be spoilt in some of their fields.
    sensible: BTreeMap<&'static str, Vec<Value>>,
}

impl Maker {
    fn new(seed: u64, sensible: BTreeMap<&'static str, Vec<Value>>) -> Self {
        let schema = |crd: &Value| {
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            Some((crd["spec"]["names"]["kind"].as_str()?.to_owned(), schema.clone()))
        };
        Self {
            state: seed.wrapping_mul(1 << 20),
            schemas: lifeboat_api::crds().iter().filter_map(schema).collect(),
            sensible,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(1);
        splitmix(self.state) % bound.max(1)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(all.len() as u64)).ok()?;
        all.get(index)
    }

    fn word(&mut self, all: &[&str]) -> String {
        self.pick(all).map(|word| (*word).to_owned()).unwrap_or_default()
    }

    fn odd(&mut self) -> String {
        match self.below(12) {
            0 => "x".repeat(64),
            1 => "x".repeat(300),
            2 => format!("{}.", "é".repeat(150)),
            _ => self.word(&ODD),
        }
    }

    /// The name of one that may be there, or of none.
    fn reference(&mut self, prefix: &str) -> String {
        if self.one_in(5) { self.odd() } else { format!("{prefix}-{}", self.below(NAMED)) }
    }

    fn text(&mut self, kind: &str, field: &str) -> String {
        if ["ttl", "Timeout", "timeout", "Frequency", "frequency", "Period"].iter().any(|part| field.contains(part)) {
            return self.word(&DURATIONS);
        }
        let is_sensible = !self.one_in(3);
        match field {
            // The good one is to stay.
            "backupName" | "name" if kind == "DeleteBackupRequest" => self.reference("backup"),
            "backupName" | "name" if is_sensible && self.one_in(2) => GOOD.to_owned(),
            "backupName" => self.reference("backup"),
            "name" if kind == "DownloadRequest" => {
                let prefix = self.word(&["backup", "restore"]);
                self.reference(&prefix)
            }
            "scheduleName" => self.reference("schedule"),
            "storageLocation" if is_sensible => GOOD.to_owned(),
            "storageLocation" | "volumeSnapshotLocations" => self.reference("backupstoragelocation"),
            "provider" if is_sensible => self.word(&["aws", "velero.io/aws", "lifeboat.io/directory", "gcp"]),
            field if is_sensible && field.contains("amespaces") => self.word(&NAMESPACES),
            field if is_sensible && field.contains("Resources") => self.word(&TYPES),
            _ => self.odd(),
        }
    }

    /// A value of this schema, or nearly.
    fn value(&mut self, kind: &str, field: &str, schema: &Value) -> Value {
        if schema["nullable"] == true && self.one_in(10) {
            return Value::Null;
        }
        match schema["type"].as_str() {
            Some("boolean") => json!(self.one_in(2)),
            Some("integer") => json!(self.pick(&NUMBERS)),
            Some("array") => {
                let count = self.below(4);
                (0..count).map(|_| self.value(kind, field, &schema["items"])).collect()
            }
            Some("object") => self.object(kind, field, schema),
            _ => match schema["enum"].as_array().filter(|_| !self.one_in(20)) {
                Some(words) => self.pick(words).cloned().unwrap_or_default(),
                None => json!(self.text(kind, field)),
            },
        }
    }

    fn object(&mut self, kind: &str, field: &str, schema: &Value) -> Value {
        let mut out = Map::new();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_given = if required.contains(&json!(name)) { !self.one_in(30) } else { self.one_in(3) };
            // Cancelled at once is over at once.
            if is_given && (name != "cancel" || self.one_in(4)) {
                out.insert(name.clone(), self.value(kind, name, schema));
            }
        }
        if schema["additionalProperties"].is_object() {
            for _ in 0..self.below(3) {
                let key = if field == "namespaceMapping" { self.word(&NAMESPACES) } else { self.odd() };
                out.insert(key, self.value(kind, field, &schema["additionalProperties"]));
            }
        }
        Value::Object(out)
    }

    /// A spec that is all chance, or one that makes sense but for some fields.
    fn spec(&mut self, kind: &str) -> Value {
        let schema = self.schemas.get(kind).cloned().unwrap_or_default();
        let sensible = self.sensible.get(kind).cloned().unwrap_or_default();
        let sensible = if self.one_in(3) { None } else { self.pick(&sensible).cloned() };
        let Some(mut spec) = sensible else { return self.object(kind, "spec", &schema) };
        let fields: Vec<&String> =
            schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
        for _ in 0..self.below(4) {
            if let Some(field) = self.pick(&fields) {
                spec[field.as_str()] = self.value(kind, field, &schema["properties"][field.as_str()]);
            }
        }
        spec
    }

    fn name(&mut self, kind: &str, number: u64) -> String {
        let prefix = kind.to_lowercase();
        match self.below(20) {
            // Too long for a label.
            0 => format!("{prefix}-{number}-{}", "x".repeat(150)),
            1 => format!("{prefix}.{number}.{}.z", "y".repeat(60)),
            2 => self.odd(),
            _ => format!("{prefix}-{number}"),
        }
    }

    fn resource(&mut self, number: u64) -> Value {
        let common = self.one_in(2);
        let kind = self.word(if common { &KINDS[..3] } else { &KINDS });
        let mut metadata = json!({"name": self.name(&kind, number / 3), "namespace": "velero"});
        if self.one_in(8) {
            let key =
                self.word(&["a", "velero.io/storage-location", "velero.io/schedule-name", "velero.io/backup-name"]);
            metadata["labels"] = json!({key: self.word(&["", "x", GOOD, "backup-1"])});
        }
        if self.one_in(8) {
            metadata["annotations"] = json!({"lifeboat.io/attempt": self.odd()});
        }
        let mut spec = self.spec(&kind);
        if kind == "VolumeSnapshotLocation" {
            // Of several for one provider a backup has to name one, or is refused, as with Velero: also the good one.
            spec["provider"] = json!(format!("provider-{number}"));
        }
        json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    }
}

/// Servers of which one dies now and then, and comes again. They reach the cluster through a proxy.
struct Team<'a> {
    ground: &'a Ground,
    seed: u64,
    api: Proxy,
    kubeconfig: PathBuf,
    servers: Vec<Server>,
    deaths: usize,
    last: Instant,
}

impl<'a> Team<'a> {
    fn start(ground: &'a Ground, seed: u64) -> Self {
        let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "nonsense").expect("a proxy");
        let mut team = Self { ground, seed, api, kubeconfig, servers: Vec::new(), deaths: 0, last: Instant::now() };
        team.servers = (0..3).map(|number| team.server(number)).collect();
        team
    }

    fn server(&self, number: usize) -> Server {
        // What cannot be reached is not waited for. The Lease is short, so that another server leads before that one
        // dies too.
        let flags = [
            "--lease-duration=3s",
            "--request-timeout=5s",
            "--terminating-resource-timeout=5s",
            "--resource-timeout=5s",
        ];
        self.ground.server_with(&format!("server-{number}"), &self.kubeconfig, &flags)
    }

    /// Kills the next server, when the last death was five seconds ago. Of three each lives for fifteen: time enough to
    /// lead.
    fn disturb(&mut self) {
        if self.last.elapsed() < Duration::from_secs(5) {
            return;
        }
        let number = self.deaths % self.servers.len();
        self.servers.remove(number).kill();
        self.servers.insert(number, self.server(number));
        self.deaths += 1;
        self.last = Instant::now();
    }

    /// Makes some objects, and gives how many of them the API server takes: what it refuses is not of interest.
    fn create(&self, some: &[Value]) -> usize {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": some});
        let file = self.ground.directories.path().join("some.json");
        std::fs::write(&file, list.to_string()).expect("write");
        let made = self.ground.kubectl().printed(&["create", "--validate=false", "-f", &file.display().to_string()]);
        made.expect("kubectl").lines().filter(|line| line.ends_with(" created")).count()
    }

    /// Kills on for this time at most until all is over, and gives everything as it is then.
    fn until_over(&mut self, disturbed: Duration) -> All {
        let began = Instant::now();
        loop {
            let all = all(self.ground);
            let left: Vec<String> =
                all.iter().filter(|((kind, _), object)| !is_over(kind, object)).map(|(_, o)| o.to_string()).collect();
            if left.is_empty() && self.deaths >= DEATHS {
                return all;
            }
            let (seed, count) = (self.seed, left.len());
            assert!(
                began.elapsed() < disturbed + IN_PEACE,
                "seed {seed}: {count} do not come to an end:\n{}",
                left.join("\n")
            );
            if began.elapsed() < disturbed {
                self.disturb();
            }
            pause();
        }
    }

    /// Waits until nothing is written any more for longer than any of the server's short periods; a few looks, because
    /// who comes to lead looks at everything once more.
    fn until_quiet(&self, mut before: All) {
        for look in 1.. {
            let _ = self.api.take_seen();
            std::thread::park_timeout(Duration::from_secs(11));
            let after = all(self.ground);
            let same =
                |key: &(String, String), object: &Value| after.get(key).is_none_or(|o| settled(o) == settled(object));
            let changed: Vec<String> = before
                .iter()
                .filter(|(key, object)| !same(key, object))
                .map(|(key, object)| format!("{object}\n  became {}", after[key]))
                .collect();
            let writes: Vec<String> = self
                .api
                .take_seen()
                .into_iter()
                .filter(|seen| seen.method != "GET" && !ROUTINE.iter().any(|path| seen.path.contains(path)))
                .map(|seen| format!("{} {}", seen.method, seen.path))
                .collect();
            if changed.is_empty() && writes.is_empty() {
                return;
            }
            assert!(look < 4, "seed {}: written again and again: {writes:?}\n{}", self.seed, changed.join("\n"));
            before = after;
        }
    }
}

fn good_backup() -> Value {
    json!({"storageLocation": GOOD, "includedNamespaces": ["shop"]})
}

fn pause() {
    std::thread::park_timeout(Duration::from_millis(500));
}

fn all(ground: &Ground) -> All {
    let kinds = KINDS.map(|kind| format!("{}s.velero.io", kind.to_lowercase())).join(",");
    let out = ground.bed.kubectl(&["get", &kinds, "--namespace=velero", "--output=json"]);
    let list: Value = serde_json::from_str(&out).expect("a list");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.into_iter().map(|item| ((text(&item["kind"]), text(&item["metadata"]["name"])), item)).collect()
}

/// Returns true if the server has nothing more to do with an object.
fn is_over(kind: &str, object: &Value) -> bool {
    let status = &object["status"];
    let phase = status["phase"].as_str().unwrap_or_default();
    match kind {
        // Some expire as soon as they end.
        "Backup" | "Restore" => {
            matches!(phase, "FailedValidation" | "Completed" | "PartiallyFailed" | "Failed" | "Deleting")
        }
        "Schedule" => matches!(phase, "Enabled" | "FailedValidation") || object["spec"]["paused"] == true,
        "BackupStorageLocation" => matches!(phase, "Available" | "Unavailable"),
        // The definitions of Velero 1.18 have no phase for a download of nothing: it has a time to go.
        "DownloadRequest" => phase == "Processed" || status["expiration"].is_string(),
        "DeleteBackupRequest" | "ServerStatusRequest" => phase == "Processed",
        _ => true,
    }
}

/// The parts of an object that must not change any more when all is over: locations are checked and searched for ever.
fn settled(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] == "BackupStorageLocation" {
        for (parent, field) in [
            ("/metadata", "resourceVersion"),
            ("/metadata", "generation"),
            ("/metadata", "managedFields"),
            ("/status", "lastValidationTime"),
            ("/status", "lastSyncedTime"),
        ] {
            if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
                fields.remove(field);
            }
        }
    }
    object
}

/// The number of objects in each phase of each kind.
fn outcomes(all: &All) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for ((kind, _), object) in all {
        let phase = object["status"]["phase"].as_str().unwrap_or("-");
        *out.entry(format!("{kind} {phase}")).or_default() += 1;
    }
    out
}

#[allow(clippy::print_stdout, reason = "who repeats a run wants to know what it has met")]
fn say(what: &str) {
    println!("{what}");
}

/// So many objects by chance, with a good backup in the middle.
fn nonsense(seed: u64, count: u64, disturbed: Duration) {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    ground.create(&json!({"apiVersion": "v1", "kind": "List", "items": config_maps("shop", 20).collect::<Vec<_>>()}));
    ground.directory(GOOD, &json!({"default": true}));
    let sensible_location = |kind: &str, name: &str| ground.get(kind, name)["spec"].clone();
    ground.s3_location("s3", ground.s3.endpoint());
    let sensible = BTreeMap::from([
        ("Backup", vec![good_backup(), json!({})]),
        ("Restore", vec![json!({"backupName": GOOD}), json!({"backupName": "backup-1"})]),
        (
            "BackupStorageLocation",
            vec![sensible_location("backupstoragelocation", GOOD), sensible_location("backupstoragelocation", "s3")],
        ),
    ]);
    let mut team = Team::start(&ground, seed);
    let mut maker = Maker::new(seed, sensible);
    let objects: Vec<Value> = (0..count).map(|number| maker.resource(number)).collect();
    let (first, last) = objects.split_at(objects.len() / 2);
    let mut taken = 0;
    for some in first.chunks(10) {
        taken += team.create(some);
        team.disturb();
    }
    ground.velero("Backup", GOOD, &good_backup());
    let mut rest = last.chunks(10);
    let began = Instant::now();
    eventually("the end of the good backup", || {
        taken += rest.next().map_or(0, |some| team.create(some));
        // Then all stay alive, so that it can end within the time that is waited for.
        if began.elapsed() < Duration::from_secs(30) {
            team.disturb();
        }
        let status = &ground.get("backup", GOOD)["status"];
        let phase = status["phase"].as_str().unwrap_or_default();
        assert!(!matches!(phase, "FailedValidation" | "PartiallyFailed" | "Failed"), "seed {seed}: {status}");
        phase == "Completed"
    });
    for some in rest {
        taken += team.create(some);
        team.disturb();
        pause();
    }
    assert!(taken as u64 * 2 > count, "seed {seed}: only {taken} of {count} were taken");
    let all = team.until_over(disturbed);
    say(&format!("seed {seed}: {taken} of {count} taken, {} deaths: {:?}", team.deaths, outcomes(&all)));
    team.until_quiet(all);
}

#[test]
fn what_makes_no_sense_comes_to_an_end_and_holds_nothing_up() {
    nonsense(1, 100, Duration::from_secs(30));
}

#[test]
#[ignore = "takes some minutes for each seed: make test-long"]
fn long_what_makes_no_sense_comes_to_an_end_and_holds_nothing_up() {
    for seed in seeds(2) {
        nonsense(seed, 600, Duration::from_secs(200));
    }
}
