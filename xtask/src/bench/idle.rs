//! A server with many Backups, in many locations of which some hang: how long it takes to begin, and what it costs when
//! there is nothing to do. And the table of these Backups.

use super::audit::Audit;
use super::bed::{Bed, MeasuredServer, SERVER_NAMESPACE, pause};
use super::programs::Programs;
use super::report::{Measured, Times};
use super::rows::Row;
use anyhow::{Context, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use lifeboat_testbed::{Proxy, S3Server, Seen};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The bucket of each location in a directory, and of all those in the S3 server.
const BUCKET: &str = "bucket";
/// The default interval at which a server syncs a location.
const PERIOD: Duration = Duration::from_secs(60);
/// The longest delay of a sync after its interval: it is noted in whole seconds, and looked for with kubectl.
const SLACK: Duration = Duration::from_secs(5);
/// For so long requests are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// The most requests a second.
const REQUESTS_A_SECOND: f64 = 3.0;
/// Lists of one location of the S3 server within the window, at most: two a visit, and two visits may fall into it.
const LISTS: usize = 4;
/// Requests by which the store of one location is probed, at most (`Store::probe`).
const PROBE: usize = 4;
/// Time limit of the first pass.
const PATIENCE: Duration = Duration::from_secs(180);
/// Backups that another cluster puts into buckets while some locations hang.
const NEW: [&str; 3] = ["new-first", "new-middle", "new-last"];

/// The place of a location's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    Directory,
    /// In an S3 server, whose requests are counted.
    Counted,
    /// At an address that takes connections and never answers.
    Hangs,
}

/// A location of the row.
#[derive(Clone, Debug)]
struct BenchLocation {
    name: String,
    lies: Lies,
}

/// Makes a location for each hundred Backups, and ten at least. In every ten, one hangs, and the requests of another
/// are counted.
fn locations(objects: usize) -> Vec<BenchLocation> {
    let lies = |number: usize| match number % 10 {
        8 => Lies::Counted,
        9 => Lies::Hangs,
        _ => Lies::Directory,
    };
    let count = (objects / 100).max(10);
    (0..count).map(|number| BenchLocation { name: format!("location-{number:03}"), lies: lies(number) }).collect()
}

/// A Backup as it lies in the cluster and in a bucket.
fn backup(name: &str, location: &str, start: Timestamp) -> Result<Value> {
    let time = |hours: i64, seconds: i64| -> Result<String> {
        Ok(format!("{:.0}", start.checked_add(SignedDuration::from_hours(hours) + SignedDuration::from_secs(seconds))?))
    };
    Ok(json!({
        "apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": name, "namespace": SERVER_NAMESPACE,
            "labels": {"velero.io/storage-location": location, "velero.io/schedule-name": format!("nightly-{location}")},
            "annotations": {"lifeboat.io/attempt": "1", "velero.io/resource-timeout": "10m0s",
                "velero.io/source-cluster-k8s-gitversion": "v1.34.4", "velero.io/source-cluster-k8s-major-version": "1",
                "velero.io/source-cluster-k8s-minor-version": "34"}},
        "spec": {"includedNamespaces": ["shop", "payments"], "storageLocation": location, "ttl": "720h0m0s",
            "csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s", "defaultVolumesToFsBackup": false,
            "snapshotMoveData": false, "hooks": {}, "metadata": {}},
        "status": {"phase": "Completed", "version": 1, "formatVersion": "1.1.0", "attempt": 1,
            "startTimestamp": time(0, 0)?, "completionTimestamp": time(0, 42)?, "expiration": time(720, 0)?,
            "progress": {"itemsBackedUp": 1234, "totalItems": 1234}, "hookStatus": {}}
    }))
}

/// Backups of all ages, none of which is over while this lasts, spread over the locations: each with its location and
/// its name.
fn backups(objects: usize, all: &[BenchLocation], now: Timestamp) -> Result<Vec<(&BenchLocation, String, Value)>> {
    let oldest = SignedDuration::from_hours(29 * 24).as_secs();
    let made = |index: usize| -> Result<(&BenchLocation, String, Value)> {
        let location = all.get(index % all.len()).context("a location")?;
        let age = SignedDuration::from_secs(oldest * index as i64 / objects as i64);
        let name = format!("nightly-{index:05}");
        let object = backup(&name, &location.name, now.checked_sub(age)?)?;
        Ok((location, name, object))
    };
    (0..objects).map(made).collect()
}

/// The path of a type at the API server.
fn path(plural: &str) -> String {
    format!("/apis/velero.io/v1/namespaces/{SERVER_NAMESPACE}/{plural}")
}

/// Makes objects of one kind in the cluster.
fn create(bed: &Bed<'_>, folder: &Path, path: &str, objects: &[Value]) -> Result<()> {
    let file = folder.join("objects.jsonl");
    let lines: Vec<String> = objects.iter().map(Value::to_string).collect();
    std::fs::write(&file, lines.join("\n"))?;
    let pass = bed.floor_create_lines(path, &file)?;
    ensure!(pass.requests == objects.len() as u64, "of {} objects {} were created", objects.len(), pass.requests);
    Ok(())
}

/// The buckets of all locations.
struct Buckets {
    folder: PathBuf,
    s3: S3Server,
    /// Stands before the S3 server.
    counted: Proxy,
    /// The address that never answers.
    silent: String,
}

impl Buckets {
    fn start(folder: &Path) -> Result<Self> {
        let s3 = S3Server::start()?;
        s3.make_bucket(BUCKET)?;
        let counted = Proxy::start(s3.endpoint(), None)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let silent = format!("http://{}", listener.local_addr()?);
        // Holds all connections until the benchmark ends.
        std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
        Ok(Self { folder: folder.to_owned(), s3, counted, silent })
    }

    /// The folder of a bucket's backup; none where nothing can be put.
    fn folder(&self, location: &BenchLocation, backup: &str) -> Option<PathBuf> {
        let BenchLocation { name, lies } = location;
        match lies {
            Lies::Directory => Some(self.folder.join(name).join(BUCKET).join("backups").join(backup)),
            Lies::Counted => Some(self.s3.file(BUCKET, &format!("{name}/backups/{backup}"))),
            Lies::Hangs => None,
        }
    }

    fn put(&self, location: &BenchLocation, name: &str, record: &Value) -> Result<()> {
        let Some(folder) = self.folder(location, name) else { return Ok(()) };
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        // It is there at once, as an object of a bucket is.
        let hidden = folder.join(".lifeboat-tmp-bench");
        std::fs::write(&hidden, record.to_string())?;
        std::fs::rename(&hidden, folder.join("velero-backup.json"))?;
        Ok(())
    }

    /// The resource of a location; the first is the default.
    fn resource(&self, number: usize, location: &BenchLocation) -> Value {
        let BenchLocation { name, lies } = location;
        let s3 = |url: &str| {
            json!({"provider": "aws", "objectStorage": {"bucket": BUCKET, "prefix": name},
                "credential": {"name": "cloud", "key": "cloud"},
                "config": {"region": self.s3.region(), "s3ForcePathStyle": "true", "s3Url": url}})
        };
        let spec = match lies {
            Lies::Directory => json!({"provider": "lifeboat.io/directory", "default": number == 0,
                "objectStorage": {"bucket": BUCKET}, "config": {"path": self.folder.join(name)}}),
            Lies::Counted => s3(self.counted.url()),
            Lies::Hangs => s3(&self.silent),
        };
        json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": name, "namespace": SERVER_NAMESPACE}, "spec": spec})
    }

    fn secret(&self) -> Value {
        let text = format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            self.s3.access_key(),
            self.s3.secret_key()
        );
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": SERVER_NAMESPACE},
            "stringData": {"cloud": text}})
    }
}

/// From the start of a server to the end of its first look into all buckets that answer; then a minute in which nothing
/// happens; then a few new backups.
pub(crate) fn run_server(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.prepare_for_server()?;
    let all = locations(row.objects);
    let buckets = Buckets::start(folder.path())?;
    let now = Timestamp::now();
    fill(&bed, folder.path(), &buckets, &backups(row.objects, &all, now)?)?;
    let resources: Vec<Value> = all.iter().enumerate().map(|(n, location)| buckets.resource(n, location)).collect();
    create(&bed, folder.path(), &format!("/api/v1/namespaces/{SERVER_NAMESPACE}/secrets"), &[buckets.secret()])?;
    create(&bed, folder.path(), &path("backupstoragelocations"), &resources)?;
    bed.settle()?;
    let floor = bed.floor_list(&[path("backups")])?;

    let audit = Audit::begin(&bed.plane)?;
    let began = Instant::now();
    let server = bed.start_server()?;
    until("the first sync of all locations that answer", PATIENCE, || all_are_synced(&bed, &all))?;
    let seconds = began.elapsed().as_secs_f64();
    let (busy, peak) = (server.processor_seconds()?, server.peak_mib()?);
    let first = (audit.end(&bed.plane)?.requests, lists_only(&without_probes(buckets.counted.take_seen(), &all)?)?);
    let idle = Idle::of(&bed, &buckets, &server, &all)?;
    let late = new_ones_appear(&bed, &buckets, &all)?;
    let found = bed.plane.kubectl().try_run(&["get", "backups", "--namespace", SERVER_NAMESPACE, "--output=name"])?;
    let expected = row.objects + NEW.len();
    ensure!(found.lines().count() == expected, "there are {} Backups, not {expected}", found.lines().count());
    let note = format!(
        "{} requests and {} lists until then, {busy:.1} s of a processor, {peak:.0} MiB; idle: {:.1} requests/s, {} lists of {} \
         locations, {:.1} % of a processor; a new backup is seen after {late:.0} s at most; the floor lists the Backups",
        first.0, first.1, idle.requests, idle.lists, idle.counted, idle.busy
    );
    let times = Times { walls: vec![seconds], empty: 0.0, floors: vec![floor.seconds] };
    Ok(Measured::new(row, &times, server.peak_mib()?, note))
}

/// Puts the Backups into the cluster and into the buckets.
fn fill(bed: &Bed<'_>, folder: &Path, buckets: &Buckets, all: &[(&BenchLocation, String, Value)]) -> Result<()> {
    for (location, name, object) in all {
        buckets.put(location, name, object)?;
    }
    let objects: Vec<Value> = all.iter().map(|(_, _, object)| object.clone()).collect();
    create(bed, folder, &path("backups"), &objects)
}

/// Returns true if the server has looked into every bucket that answers.
fn all_are_synced(bed: &Bed<'_>, all: &[BenchLocation]) -> Result<bool> {
    let text = bed.plane.kubectl().try_run(&["get", "--raw", &path("backupstoragelocations")])?;
    let list: Value = serde_json::from_str(&text).context("the locations")?;
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let synced = items.iter().filter(|location| location["status"]["lastSyncedTime"].is_string());
    let synced: BTreeSet<&str> = synced.filter_map(|location| location["metadata"]["name"].as_str()).collect();
    Ok(all
        .iter()
        .filter(|location| location.lies != Lies::Hangs)
        .all(|location| synced.contains(location.name.as_str())))
}

/// The cost of a server that has nothing to do.
struct Idle {
    /// Requests to the API server a second.
    requests: f64,
    /// Requests to the S3 server.
    lists: usize,
    /// For so many locations.
    counted: usize,
    /// Of a processor, in percent.
    busy: f64,
}

impl Idle {
    fn of(bed: &Bed<'_>, buckets: &Buckets, server: &MeasuredServer<'_>, all: &[BenchLocation]) -> Result<Self> {
        let counted = all.iter().filter(|location| location.lies == Lies::Counted).count();
        let (audit, before, began) = (Audit::begin(&bed.plane)?, server.processor_seconds()?, Instant::now());
        let _ = buckets.counted.take_seen();
        until("the end of the window", 2 * WINDOW, || Ok(began.elapsed() >= WINDOW))?;
        let passed = began.elapsed().as_secs_f64();
        let busy = (server.processor_seconds()? - before) / passed * 100.0;
        let lists = lists_only(&buckets.counted.take_seen())?;
        let requests = audit.end(&bed.plane)?.requests as f64 / passed;
        ensure!(requests <= REQUESTS_A_SECOND, "an idle server makes {requests:.1} requests a second");
        ensure!(lists <= counted * LISTS, "an idle server makes {lists} lists of {counted} locations a minute");
        Ok(Self { requests, lists, counted, busy })
    }
}

/// Takes out the requests by which a server finds out, once for each location, whether its store keeps conditions on
/// puts.
///
/// # Errors
/// There are more of them than one probe of each location makes.
fn without_probes(seen: Vec<Seen>, all: &[BenchLocation]) -> Result<Vec<Seen>> {
    let (probes, others): (Vec<Seen>, Vec<Seen>) = seen
        .into_iter()
        .partition(|seen| seen.path.contains("/metadata/lifeboat-probe-") || seen.path.contains("?delete"));
    let most = PROBE * all.iter().filter(|location| location.lies == Lies::Counted).count();
    ensure!(probes.len() <= most, "the server makes {} requests to probe stores, more than {most}", probes.len());
    Ok(others)
}

/// Counts the requests, and refuses any that is not a list: no file of a known backup may be read again.
fn lists_only(seen: &[Seen]) -> Result<usize> {
    match seen.iter().find(|seen| seen.method != "GET" || !seen.path.contains("list-type=2")) {
        Some(other) => bail!("nothing is new in the buckets, and the server asks for {} {}", other.method, other.path),
        None => Ok(seen.len()),
    }
}

/// Puts new backups into the first, a middle and the last bucket that is a directory, and gives after how many seconds
/// the last of them is in the cluster.
fn new_ones_appear(bed: &Bed<'_>, buckets: &Buckets, all: &[BenchLocation]) -> Result<f64> {
    let directories: Vec<&BenchLocation> = all.iter().filter(|location| location.lies == Lies::Directory).collect();
    let last = directories.len().saturating_sub(1);
    let began = Instant::now();
    for (name, at) in NEW.into_iter().zip([0, last / 2, last]) {
        let location = directories.get(at).context("a location in a directory")?;
        buckets.put(location, name, &backup(name, &location.name, Timestamp::now())?)?;
    }
    let flags = ["--namespace", SERVER_NAMESPACE, "--ignore-not-found", "--output=name"];
    let get = [&["get", "backups"][..], &NEW, &flags].concat();
    let kubectl = bed.plane.kubectl();
    until("a new backup in each of three buckets", PERIOD + SLACK, || {
        Ok(kubectl.try_run(&get)?.lines().count() == NEW.len())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn until(what: &str, patience: Duration, holds: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + patience;
    while !holds()? {
        if Instant::now() > end {
            bail!("{what} did not come within {} s", patience.as_secs());
        }
        pause();
    }
    Ok(())
}

/// The table of all Backups, beside the floor of their list.
pub(crate) fn run_get(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.prepare_for_server()?;
    let all = locations(row.objects);
    let objects: Vec<Value> =
        backups(row.objects, &all, Timestamp::now())?.into_iter().map(|(_, _, object)| object).collect();
    create(&bed, folder.path(), &path("backups"), &objects)?;
    bed.settle()?;
    let measured = bed.in_turn(&[path("backups")], |_| {
        let run = bed.command(&["get", "backups"])?;
        // With its heading.
        let lines = run.stdout.lines().count();
        ensure!(lines == row.objects + 1, "the table of {} Backups has {lines} lines", row.objects);
        Ok(run)
    })?;
    let note = format!("{}; the whole command counts", measured.floor.listed());
    Ok(measured.measured(row, 0.0, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_locations_hangs_and_backups_are_of_all_ages() {
        let all = locations(10_000);
        let count = |lies| all.iter().filter(|location| location.lies == lies).count();
        assert_eq!([Lies::Directory, Lies::Counted, Lies::Hangs].map(count), [80, 10, 10]);
        assert_eq!(locations(100).len(), 10, "in small there is one of each too");
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let made = backups(10_000, &all, now).unwrap();
        let time = |at: usize, field: &str| made[at].2["status"][field].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert_eq!(time(0, "startTimestamp"), now);
        assert!(made.iter().enumerate().all(|(at, _)| time(at, "expiration") > now), "nothing expires meanwhile");
        let week = SignedDuration::from_hours(7 * 24);
        assert!(now.duration_since(time(9_999, "startTimestamp")) > week * 4);
        assert_eq!(made[101].0.name, "location-001");
        assert_eq!(made[101].2["metadata"]["labels"]["velero.io/storage-location"], "location-001");
    }
}
