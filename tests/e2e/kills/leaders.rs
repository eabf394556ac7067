//! Several servers, of which any may die, be cut off or be paused at any moment: what it was at is done once.

use crate::faults::{archived, in_parallel, namespace};
use crate::ground::{BUCKET, Ground, Server};
use crate::kills::commands::{PERCENTS, RESULT_FILES, listed_in, live, many};
use crate::random::{seeds, splitmix};
use crate::support::{ended, eventually, gunzip_json};
use lifeboat_archive::ReadLimits;
use lifeboat_bucket::Directory;
use lifeboat_store::{OpenOptions, Store};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule, Seen};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Servers of one namespace, the first of which speaks to the cluster through a proxy. The bucket is behind another
/// one.
struct Team<'a> {
    ground: &'a Ground,
    name: String,
    namespace: String,
    api: Proxy,
    s3: Proxy,
    leader: Server,
}

/// The Lease of a leader that loses it.
const SHORT_LEASE: &str = "--lease-duration=15s";

impl<'a> Team<'a> {
    /// A leader that has seen its storage location.
    fn start(ground: &'a Ground, name: &str) -> Self {
        Self::start_with(ground, name, &[])
    }

    /// The same with more flags for the leader.
    fn start_with(ground: &'a Ground, name: &str, flags: &[&str]) -> Self {
        let (name, space) = (name.to_owned(), format!("velero-{name}"));
        ground.create(&namespace(&space));
        ground.credentials(&space);
        let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
        ground.s3_location_in(&space, &name, s3.url());
        let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), &name).expect("a proxy");
        let flags = [&["--namespace", &space], flags].concat();
        let leader = ground.server_with(&format!("{name}-first"), &kubeconfig, &flags);
        for proxy in [&api, &s3] {
            proxy.victim(leader.0.id());
        }
        let team = Self { ground, name, namespace: space, api, s3, leader };
        team.until("backupstoragelocation", &team.name, "Available");
        team
    }

    /// Starts a server that waits for the leadership.
    fn replica(&self, number: usize) -> Server {
        let identity = format!("{}-{number}", self.name);
        self.ground.server_with(&identity, &self.ground.bed.plane.kubeconfig(), &["--namespace", &self.namespace])
    }

    fn until(&self, kind: &str, name: &str, phase: &str) -> Value {
        self.ground.until_in(&self.namespace, kind, name, phase)
    }

    fn back_up(&self) {
        // Without what a controller makes of Services, at its own pace, and what it says when it is too slow.
        let spec = json!({"includedNamespaces": ["many"], "storageLocation": self.name,
            "excludedResources": ["endpoints", "endpointslices.discovery.k8s.io", "events", "events.events.k8s.io"]});
        self.ground.velero_in(&self.namespace, "Backup", "b", &spec);
    }

    /// The namespace that a restore of this team writes.
    fn target(&self) -> String {
        format!("many-{}", self.name)
    }

    fn restore(&self) {
        let spec = json!({"backupName": "b", "namespaceMapping": {"many": self.target()}});
        self.ground.velero_in(&self.namespace, "Restore", "r", &spec);
    }

    fn delete(&self) {
        self.ground.velero_in(&self.namespace, "DeleteBackupRequest", "d", &json!({"backupName": "b"}));
    }

    fn file(&self, key: &str) -> PathBuf {
        self.ground.s3.file(BUCKET, &format!("{}/{key}", self.name))
    }

    /// The backup is whole and holds every object once; nothing else is left of it.
    fn assert_backup(&self, expected: &[String]) {
        let store = Store::new(Arc::new(Directory::open(self.file("")).expect("the folder")));
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let scratch = self.ground.directories.path().to_owned();
        let options = OpenOptions { limits: ReadLimits::default(), scratch, ignore_index: false };
        let found = runtime.block_on(store.verify("b", &options)).expect("the backup");
        assert!(found.has_manifest && found.files == 9 && found.problems.is_empty(), "{found:?}");
        assert_eq!(archived(&self.file("backups/b/b.tar.gz")), expected);
        let key = format!("{}/backups/b/b.tar.gz", self.name);
        assert_eq!(self.ground.s3.open_uploads(BUCKET, &key).expect("the uploads"), 0, "uploads are left open");
    }

    fn live(&self) -> BTreeMap<String, String> {
        live(self.ground.bed.plane.client(), &self.target())
    }

    /// Every object is there once, and those that were there before are the same ones.
    fn assert_restored(&self, before: &BTreeMap<String, String>, expected: &[String]) {
        let after = self.live();
        assert_eq!(after.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        let replaced: Vec<_> = before.iter().filter(|(name, uid)| after.get(*name) != Some(*uid)).collect();
        assert!(replaced.is_empty(), "made twice: {replaced:?}");
        assert_eq!(listed_in(&self.file("restores/r/restore-r-resource-list.json.gz")), expected);
        let results = gunzip_json(&self.file("restores/r/restore-r-results.gz"));
        assert_eq!(results, json!({"errors": {}, "warnings": {}}));
        let space = format!("--namespace={}", self.namespace);
        let left = self.ground.bed.kubectl(&["get", "configmaps", &space, "--output=name"]);
        assert_eq!(left.trim(), "configmap/kube-root-ca.crt", "the checkpoint of the restore is left");
    }

    /// Every file of the bucket with its size and time.
    fn files(&self) -> Vec<String> {
        let out = std::process::Command::new("find")
            .arg(self.file(""))
            .args(["-type", "f", "-printf", "%p %s %T@\n"])
            .output()
            .expect("find");
        let mut lines: Vec<String> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        assert!(!lines.is_empty());
        lines
    }
}

/// As the status tells it; the annotation must say the same.
fn attempt(object: &Value) -> i64 {
    let attempt = object["status"]["attempt"].as_i64().unwrap_or_default();
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/attempt"], attempt.to_string());
    attempt
}

/// 500 objects or a multiple of it, and what a backup of them holds.
fn ground(times: usize) -> (Ground, Vec<String>) {
    let ground = Ground::start();
    ground.create(&json!({"apiVersion": "v1", "kind": "List", "items": many(times)}));
    // What controllers put into every namespace, at their own pace.
    eventually("what every namespace has", || {
        let of = |kind: &str, name: &str| ground.get_in("many", kind, name).is_object();
        of("serviceaccount", "default") && of("configmap", "kube-root-ca.crt")
    });
    let team = Team::start(&ground, "undisturbed");
    team.back_up();
    team.until("backup", "b", "Completed");
    let expected = archived(&team.file("backups/b/b.tar.gz"));
    assert_eq!(expected.len(), 500 * times + 3);
    team.assert_backup(&expected);
    drop(team);
    (ground, expected)
}

/// Where a server dies.
#[derive(Clone, Debug)]
struct Death {
    /// At which request to the API server, or to the bucket.
    is_api: bool,
    method: &'static str,
    path: String,
    nth: u64,
    kill: Kill,
}

impl Death {
    fn script(&self, team: &Team<'_>) {
        let proxy = if self.is_api { &team.api } else { &team.s3 };
        proxy.script(vec![Rule::new(self.method, &self.path, Nth::Only(self.nth), Fault::Kill(self.kill))]);
    }
}

/// At these percentages of so many requests.
fn at_percents(method: &'static str, path: &str, requests: usize) -> Vec<Death> {
    let at = |percent: &usize| Death {
        is_api: true,
        method,
        path: path.to_owned(),
        nth: (requests * percent / 100).max(1) as u64,
        kill: Kill::Before,
    };
    PERCENTS.iter().map(at).collect()
}

/// At files that are published, in turn before and after the effect.
fn at_files<'a>(files: impl IntoIterator<Item = &'a str>) -> Vec<Death> {
    let kills = [Kill::Before, Kill::After].into_iter().cycle();
    let at =
        |(file, kill): (&str, Kill)| Death { is_api: false, method: "PUT", path: format!("*/{file}?*"), nth: 1, kill };
    files.into_iter().zip(kills).map(at).collect()
}

const BACKUP_FILES: [&str; 12] = [
    "lifeboat-claim.json",
    "b.tar.gz",
    "b-index.json.gz",
    "b-podvolumebackups.json.gz",
    "b-volumesnapshots.json.gz",
    "b-itemoperations.json.gz",
    "b-resource-list.json.gz",
    "b-volumeinfo.json.gz",
    "b-results.gz",
    "b-logs.gz",
    "lifeboat-manifest.json",
    "velero-backup.json",
];

/// Servers of different cases at once.
const AT_ONCE: usize = 6;

#[test]
fn a_backup_survives_its_server() {
    let (ground, expected) = ground(1);
    // Lists of the namespace: one of each type that it may hold.
    let team = Team::start(&ground, "counted");
    let _ = team.api.take_seen();
    team.back_up();
    team.until("backup", "b", "Completed");
    let lists = team.api.take_seen().iter().filter(|seen| seen.path.contains("/namespaces/many/")).count();
    drop(team);
    assert!(lists > 20, "{lists} lists");
    let deaths = [at_percents("GET", "*/namespaces/many/*", lists), at_files(BACKUP_FILES)].concat();
    let cases: Vec<(usize, Death)> = deaths.into_iter().enumerate().collect();
    in_parallel(AT_ONCE, &cases, |(n, death)| backup_survives(&ground, &format!("b{n}"), death, &expected));
}

fn backup_survives(ground: &Ground, name: &str, death: &Death, expected: &[String]) {
    let mut team = Team::start(ground, name);
    death.script(&team);
    team.back_up();
    ended(&mut team.leader.0);
    ground.end_lease(&team.namespace);
    let _next = team.replica(2);
    assert_eq!(attempt(&team.until("backup", "b", "Completed")), 2);
    team.assert_backup(expected);
}

fn restore_survives(ground: &Ground, name: &str, death: &Death, expected: &[String]) {
    let mut team = Team::start(ground, name);
    team.back_up();
    team.until("backup", "b", "Completed");
    // As if a schedule had made it: the restore notes that, and may still be begun again.
    let label = ["label", "backup", "b", "velero.io/schedule-name=nightly", "--namespace", &team.namespace];
    ground.bed.kubectl(&label);
    death.script(&team);
    team.restore();
    ended(&mut team.leader.0);
    let before = team.live();
    ground.end_lease(&team.namespace);
    let _next = team.replica(2);
    assert_eq!(attempt(&team.until("restore", "r", "Completed")), 2);
    team.assert_restored(&before, expected);
}

#[test]
fn a_restore_survives_its_server() {
    let (ground, _) = ground(1);
    let team = Team::start(&ground, "counted");
    team.back_up();
    team.until("backup", "b", "Completed");
    let _ = team.api.take_seen();
    team.restore();
    team.until("restore", "r", "Completed");
    let writes = team
        .api
        .take_seen()
        .iter()
        .filter(|seen| seen.method == "POST" && seen.path.contains("/namespaces/many-"))
        .count();
    let expected: Vec<String> = team.live().into_keys().collect();
    team.assert_restored(&BTreeMap::new(), &expected);
    drop(team);
    assert_eq!(expected.len(), 500);
    // The default service account is made by the restore or by its controller, whoever is first.
    assert!((500..=501).contains(&writes), "{writes} writes");
    let files = RESULT_FILES
        .map(|file| if file == "volumeinfo.json.gz" { format!("r-{file}") } else { format!("restore-r-{file}") });
    let deaths = [
        at_percents("POST", "*/namespaces/many-*", writes),
        at_files(files.iter().map(String::as_str)),
        vec![Death { is_api: false, method: "GET", path: "*/backups/b/b.tar.gz?*".into(), nth: 1, kill: Kill::Before }],
    ]
    .concat();
    let cases: Vec<(usize, Death)> = deaths.into_iter().enumerate().collect();
    in_parallel(AT_ONCE, &cases, |(n, death)| restore_survives(&ground, &format!("r{n}"), death, &expected));
}

/// A deletion takes backup, restores and files, whatever moment its server dies in.
fn deletion_survives(ground: &Ground, name: &str, death: &Death) {
    let mut team = Team::start(ground, name);
    team.back_up();
    team.until("backup", "b", "Completed");
    death.script(&team);
    team.delete();
    let space = team.namespace.clone();
    let is_gone = || ground.get_in(&space, "deletebackuprequest", "d").is_null();
    // It may be done with fewer requests than it took undisturbed.
    eventually("its end, or that of the deletion", || team.leader.0.try_wait().expect("wait").is_some() || is_gone());
    let _next = team.replica(2);
    eventually("the end of the deletion", || is_gone() && ground.get_in(&space, "backup", "b").is_null());
    let left: Vec<PathBuf> = std::fs::read_dir(team.file("backups"))
        .map(|found| found.flatten().map(|f| f.path()).collect())
        .unwrap_or_default();
    assert!(left.is_empty(), "{left:?}");
}

/// The work that a long test kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Backup,
    Restore,
    Deletion,
}

/// Random deaths of servers with 5,000 objects, by seed.
#[test]
#[ignore = "takes about a quarter of an hour: make test-long"]
fn long_any_request_of_a_server_may_be_the_last_one() {
    let seeds = seeds(100);
    let (ground, archived) = ground(10);
    let team = Team::start(&ground, "counted");
    let _ = (team.api.take_seen(), team.s3.take_seen());
    let count = |path: &str, seen: &[Seen]| seen.iter().filter(|seen| seen.path.contains(path)).count() as u64;
    team.back_up();
    team.until("backup", "b", "Completed");
    let (lists, puts) = (count("/namespaces/many/", &team.api.take_seen()), count("/backups/b/", &team.s3.take_seen()));
    team.restore();
    team.until("restore", "r", "Completed");
    let (writes, files) = (count("/namespaces/many-", &team.api.take_seen()), 5);
    let restored: Vec<String> = team.live().into_keys().collect();
    let _ = team.s3.take_seen();
    team.delete();
    let is_gone = || ground.get_in(&team.namespace, "deletebackuprequest", "d").is_null();
    eventually("the deletion", is_gone);
    let (steps, removals) =
        (count("/deletebackuprequests/d", &team.api.take_seen()), count("/server/", &team.s3.take_seen()));
    drop(team);
    let case = |seed: &u64| {
        let random = splitmix(*seed);
        let kill = if random & 1 == 0 { Kill::Before } else { Kill::After };
        let is_api = random & 2 == 0;
        let work = [Work::Backup, Work::Restore, Work::Deletion][(random >> 2) as usize % 3];
        let (path, most) = match (work, is_api) {
            (Work::Backup, true) => ("*/namespaces/many/*", lists),
            (Work::Backup, false) => ("*/backups/b/*", puts),
            (Work::Restore, true) => ("*/namespaces/many-*", writes),
            (Work::Restore, false) => ("*/restores/r/*", files),
            (Work::Deletion, true) => ("*/deletebackuprequests/d*", steps),
            (Work::Deletion, false) => ("*", removals),
        };
        let nth = (random >> 8) % (most * 9 / 10).max(1) + 1;
        (*seed, work, Death { is_api, method: "*", path: path.into(), nth, kill })
    };
    let cases: Vec<(u64, Work, Death)> = seeds.iter().map(case).collect();
    in_parallel(3, &cases, |(seed, work, death)| {
        let name = format!("s{seed}");
        match work {
            Work::Backup => backup_survives(&ground, &name, death, &archived),
            Work::Restore => restore_survives(&ground, &name, death, &restored),
            Work::Deletion => deletion_survives(&ground, &name, death),
        }
    });
}

/// The way in which a leader loses the leadership without dying, or dies with its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Its requests do not reach the API server.
    Unheard,
    /// The answers do not reach it.
    Deaf,
    /// It sees the name of another one in the Lease.
    Seen,
    /// It does not run for longer than its Lease lasts, then it does again.
    Paused,
    /// It is killed, and its successor too.
    Twice,
}

#[test]
fn who_has_lost_the_leadership_publishes_nothing() {
    let (ground, expected) = ground(1);
    in_parallel(5, &[Loss::Unheard, Loss::Deaf, Loss::Seen, Loss::Paused, Loss::Twice], |loss| {
        let mut team = Team::start_with(&ground, &format!("{loss:?}").to_lowercase(), &[SHORT_LEASE]);
        let second = team.replica(2);
        // The moment of the loss: the archive is stored, the rest is not. A leader looks at its Lease every two
        // seconds.
        let slow = Fault::Delay(Duration::from_secs(8));
        team.s3.script(vec![Rule::new("PUT", "*/b-index.json.gz?*", Nth::First(2), slow)]);
        team.back_up();
        eventually("the slow request", || team.s3.is_met());
        match loss {
            Loss::Unheard | Loss::Deaf => {
                let fault = if *loss == Loss::Unheard { Fault::CutBefore } else { Fault::CutAfter };
                team.api.script(vec![Rule::new("*", "*", Nth::Every, fault)]);
                let ended = ended(&mut team.leader.0);
                assert_eq!(ended.code(), Some(1), "it ends by itself");
            }
            Loss::Seen => {
                let patch = r#"{"spec":{"holderIdentity":"another_1"}}"#;
                let space = format!("--namespace={}", team.namespace);
                ground.bed.kubectl(&["patch", "lease", "lifeboat-server", &space, "--type=merge", "--patch", patch]);
                let ended = ended(&mut team.leader.0);
                assert_eq!(ended.code(), Some(1), "it ends by itself");
            }
            Loss::Paused => team.leader.signal("STOP"),
            Loss::Twice => {
                team.leader.0.kill().expect("kill");
                eventually("the second attempt", || attempt(&team.ground.get_in(&team.namespace, "backup", "b")) == 2);
                let _third = team.replica(3);
                second.kill();
                assert_eq!(attempt(&team.until("backup", "b", "Completed")), 3);
                return team.assert_backup(&expected);
            }
        }
        let done = team.until("backup", "b", "Completed");
        assert_eq!(attempt(&done), 2);
        team.assert_backup(&expected);
        if *loss == Loss::Paused {
            let files = team.files();
            team.leader.signal("CONT");
            assert_eq!(ended(&mut team.leader.0).code(), Some(1), "it ends by itself");
            assert_eq!(team.files(), files, "it published something");
            assert_eq!(team.ground.get_in(&team.namespace, "backup", "b"), done);
        }
        let log = team.ground.log(&format!("{}-first", team.name));
        assert!(log.contains("the lease lifeboat-server was lost"), "{log}");
    });
}
