//! Two clusters with one bucket: whatever happens to either, what is kept stays, no snapshot is forgotten, and each cluster's restores
//! are its own.

mod model;

use crate::ground::{Ground, Server};
use crate::plugins::{DISK, put_plugin};
use crate::random_kills::{first_seed, number, splitmix};
use crate::support::{Run, comes_to_be_within, eventually, run, until_types_are_served, with_object};
use lifeboat_testbed::with_wrong_clock;
use model::{Backup, Model, PLAIN, Restore, digest_of_results, is_in, snapshots_that_are_known};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// So many steps are made; `LIFEBOAT_STEPS` says another number.
const STEPS: u64 = 200;
/// How long a backup is kept that nothing else keeps.
const TTL: &str = "20s";
const FLAGS: [&str; 10] = [
    "--lease-duration",
    "4s",
    "--garbage-collection-frequency",
    "2s",
    "--backup-sync-period",
    "2s",
    "--store-validation-frequency",
    "5s",
    "--item-operation-sync-frequency",
    "1s",
];
/// How long a backup or restore may take, a server that is started while the Lease of the one before lasts included.
const LIMIT: Duration = Duration::from_secs(90);
/// The names of all restores: both clusters use the same.
const RESTORES: [&str; 3] = ["one", "two", "three"];

/// A cluster with a server that is there, is paused, or is not there.
struct Cluster {
    ground: Ground,
    uid: String,
    number: usize,
    server: Option<Server>,
    is_paused: bool,
    starts: usize,
    backups: usize,
    /// The schedule with rules, under its name of now; `None` when it is deleted.
    nightly: Option<String>,
    /// Where both clusters have their bucket, their snapshots and the plugin.
    folder: PathBuf,
    bucket: PathBuf,
}

impl Cluster {
    fn prepare(ground: Ground, number: usize, folder: &Path) -> Self {
        ground.many("shop", 3);
        let size = json!({"storage": "1Gi"});
        ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": "pv-of-shop", "annotations": {DISK: format!("disk-{number}")}},
            "spec": {"capacity": size, "accessModes": ["ReadWriteMany"], "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "", "nfs": {"server": "nowhere.invalid", "path": "/"}}}));
        ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "pv-of-shop",
                "resources": {"requests": size}}}));
        let uid = ground.get_in("", "namespace", "kube-system")["metadata"]["uid"].as_str().expect("a UID").to_owned();
        let nightly = Some("nightly".to_owned());
        let (starts, backups, is_paused) = (0, 0, false);
        let (folder, bucket) = (folder.to_owned(), folder.join("shared").join("b"));
        let mut cluster =
            Self { ground, uid, number, server: None, is_paused, starts, backups, nightly, folder, bucket };
        cluster.install();
        cluster
    }

    /// Makes what a user makes after an installation.
    fn install(&mut self) {
        let text = |name: &str| self.folder.join(name).display().to_string();
        self.ground.velero(
            "BackupStorageLocation",
            "main",
            &json!({"default": true, "provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"},
                "config": {"path": text("shared")}}),
        );
        self.ground.velero(
            "VolumeSnapshotLocation",
            "disks",
            &json!({"provider": "example.io/disks", "config": {"folder": text("snapshots"), "each": "yes"}}),
        );
        self.schedule(PLAIN, None);
        self.schedule("nightly", Some(2));
        self.nightly = Some("nightly".to_owned());
    }

    fn schedule(&self, name: &str, keep_last: Option<u32>) {
        let mut spec = json!({"schedule": "@every 1000h", "template": {"includedNamespaces": ["shop"], "ttl": TTL,
            "storageLocation": "main"}});
        if let Some(number) = keep_last {
            spec["retention"] = json!({ "keepLast": number });
        }
        let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
            "metadata": {"name": name, "namespace": "velero"}, "spec": spec});
        // Definitions of Velero, which may be in force, have no rules.
        with_object(&self.ground.kubectl(), &["create", "--validate=ignore"], &schedule)
            .unwrap_or_else(|e| panic!("{e:#}"));
    }

    fn start(&mut self, shift: i64) {
        self.starts += 1;
        let plugins = self.folder.join("plugins").display().to_string();
        let flags = [&FLAGS[..], &["--plugin-dir", &plugins]].concat();
        let mut command = self.ground.server_command(&self.ground.bed.plane.kubeconfig(), &flags);
        with_wrong_clock(&mut command, shift).expect("a clock");
        self.server = Some(self.ground.start_server(command, &format!("server-{}", self.starts)));
    }

    fn kill(&mut self) {
        self.is_paused = false;
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    fn pause(&mut self, is_paused: bool) {
        if let Some(server) = &self.server {
            server.signal(if is_paused { "STOP" } else { "CONT" });
            self.is_paused = is_paused;
        }
    }

    /// Starts another server where the last one has ended by itself, as one does whose Lease is over when it goes on after a pause.
    fn tend(&mut self) {
        let has_ended = |server: &mut Server| server.0.try_wait().expect("its state").is_some();
        if self.server.as_mut().is_some_and(has_ended) {
            self.start(0);
        }
    }

    fn works(&self) -> bool {
        self.server.is_some() && !self.is_paused
    }

    fn lifeboat(&self, line: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        command.args(line.split(' ')).env("KUBECONFIG", self.ground.bed.plane.kubeconfig());
        run(&mut command)
    }

    fn names(&self, kind: &str) -> Vec<String> {
        let out = self.ground.bed.kubectl(&["get", kind, "-n", "velero", "-o", "jsonpath={.items[*].metadata.name}"]);
        out.split_whitespace().map(str::to_owned).collect()
    }

    /// Takes away everything that the server knows, as whoever deletes its namespace does.
    fn lose_everything(&mut self) {
        self.kill();
        // No server takes the finalizers off.
        for restore in self.names("restores") {
            let patch = ["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
            self.ground.bed.kubectl(&[&["patch", "restore", &restore, "-n", "velero"], &patch[..]].concat());
        }
        self.ground.bed.kubectl(&["delete", "namespace", "velero", "--timeout=60s"]);
        self.ground.bed.kubectl(&["create", "namespace", "velero"]);
    }

    /// Applies definitions, those of Velero or ours.
    fn define(&self, definitions: &[Value]) {
        for definition in definitions {
            let text = definition.to_string();
            let args = ["apply", "--server-side", "--force-conflicts"];
            with_object(&self.ground.kubectl(), &args, definition).unwrap_or_else(|e| panic!("{e:#}: {text}"));
        }
        let names: Vec<&str> = definitions.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        until_types_are_served(&self.ground.kubectl(), &names);
    }

    /// Makes a backup of a schedule and waits for its end; `None` when it did not complete.
    fn back_up(&mut self, schedule: &str) -> Option<Backup> {
        self.backups += 1;
        let name = format!("of-{}-{}", self.number, self.backups);
        let made = self.lifeboat(&format!("backup create {name} --from-schedule {schedule}"));
        assert_eq!(made.code, 0, "{made:?}");
        let mut status = Value::Null;
        let ended = comes_to_be_within(LIMIT, || {
            self.tend();
            status = self.ground.get("backup", &name)["status"].clone();
            !status["completionTimestamp"].is_null() || status["phase"] == "FailedValidation"
        });
        assert!(ended, "{name}: {status}: {}", self.log());
        assert_eq!(status["phase"], "Completed", "{name}: {status}: {}", self.log());
        Some(Backup { name, cluster: self.uid.clone(), schedule: schedule.to_owned() })
    }

    fn until_gone(&mut self, kind: &str, name: &str) {
        let is_gone = comes_to_be_within(LIMIT, || {
            self.tend();
            self.ground.get(kind, name).is_null()
        });
        assert!(is_gone, "{kind} {name} stays: {}", self.log());
    }

    /// The log of the server that was started last.
    fn log(&self) -> String {
        if self.starts == 0 { String::new() } else { self.ground.log(&format!("server-{}", self.starts)) }
    }
}

/// All that the test changes.
struct World {
    clusters: [Cluster; 2],
    model: Model,
    seed: u64,
    thrown: u64,
}

impl World {
    fn throw(&mut self, below: usize) -> usize {
        self.thrown += 1;
        let number = splitmix(self.seed.wrapping_add(self.thrown)) % below as u64;
        usize::try_from(number).expect("a number")
    }

    fn one_of(&mut self, names: &[String]) -> Option<String> {
        if names.is_empty() {
            return None;
        }
        let place = self.throw(names.len());
        Some(names[place].clone())
    }

    /// One random step, in words.
    fn step(&mut self) -> String {
        let number = self.throw(2);
        let what = self.throw(16);
        let works = self.clusters[number].works();
        let said = match what {
            0..=3 if works => self.back_up(number),
            4 | 5 if works => self.restore(number),
            6 if works => self.delete_restore(number),
            7 if works => self.hold(number),
            8 if works => self.delete_backup(number),
            9 | 10 => {
                let shift = [0, -600, 600][self.throw(3)];
                self.clusters[number].kill();
                self.clusters[number].start(shift);
                format!("is killed and started with a clock that is wrong by {shift} s")
            }
            11 => {
                self.clusters[number].pause(works);
                match (works, self.clusters[number].server.is_some()) {
                    (true, _) => "pauses".to_owned(),
                    (false, true) => "goes on".to_owned(),
                    (false, false) => "has no server that could go on".to_owned(),
                }
            }
            12 => self.change_schedule(number),
            13 => {
                let ours = self.throw(2) == 0;
                let definitions = if ours { lifeboat_api::crds() } else { model::definitions_of_velero() };
                self.clusters[number].define(&definitions);
                self.model.rules_change(&self.clusters[number].uid);
                format!("has definitions of {} applied", if ours { "Lifeboat" } else { "Velero" })
            }
            14 if self.throw(3) == 0 => {
                self.clusters[number].lose_everything();
                self.clusters[number].define(&lifeboat_api::crds());
                self.model.rules_change(&self.clusters[number].uid);
                self.clusters[number].install();
                self.clusters[number].start(0);
                "is installed anew, empty".to_owned()
            }
            15 => {
                self.clusters[number].ground.let_an_hour_pass("velero", "main");
                "has had its location for an hour".to_owned()
            }
            _ if works => "rests".to_owned(),
            _ => self.go_on(number),
        };
        format!("cluster {number} {said}")
    }

    /// What comes sooner or later where a server is paused or not there.
    fn go_on(&mut self, number: usize) -> String {
        if self.throw(3) > 0 {
            return "is away".to_owned();
        }
        if self.clusters[number].server.is_none() {
            self.clusters[number].start(0);
        }
        self.clusters[number].pause(false);
        "goes on".to_owned()
    }

    fn back_up(&mut self, number: usize) -> String {
        let nightly = self.clusters[number].nightly.clone().filter(|_| self.throw(3) > 0);
        let schedule = nightly.unwrap_or_else(|| PLAIN.to_owned());
        let has_rules = schedule != PLAIN && self.clusters[number].has_rules(&schedule);
        let Some(backup) = self.clusters[number].back_up(&schedule) else { return "made no backup".to_owned() };
        let said = format!("made {} of {schedule}", backup.name);
        self.model.made(backup, has_rules);
        said
    }

    fn restore(&mut self, number: usize) -> String {
        let name = RESTORES[self.throw(RESTORES.len())];
        let backups = self.clusters[number].names("backups");
        let cluster = &self.clusters[number];
        if !cluster.ground.get("restore", name).is_null() {
            return format!("has a restore {name}");
        }
        let Some(backup) = self.one_of(&backups) else { return "has nothing to restore".to_owned() };
        let cluster = &mut self.clusters[number];
        let line = format!(
            "restore create {name} --from-backup {backup} --include-resources configmaps --namespace-mappings shop:copy"
        );
        let made = cluster.lifeboat(&line);
        if made.code != 0 {
            return format!("could not restore {backup}: {}", made.err.trim());
        }
        let mut status = Value::Null;
        let ended = comes_to_be_within(LIMIT, || {
            cluster.tend();
            status = cluster.ground.get("restore", name)["status"].clone();
            let phase = status["phase"].as_str().unwrap_or_default();
            ["Completed", "PartiallyFailed", "Failed", "FailedValidation"].contains(&phase)
        });
        assert!(ended, "{name}: {status}: {}", cluster.log());
        let phase = status["phase"].as_str().unwrap_or_default().to_owned();
        if let Some(digest) = digest_of_results(&cluster.bucket, name) {
            self.model.restored(name, &phase, Restore { cluster: number, digest, backup: backup.clone() });
        }
        format!("restored {backup} as {name}: {phase}")
    }

    fn delete_restore(&mut self, number: usize) -> String {
        let names = self.clusters[number].names("restores");
        let Some(name) = self.one_of(&names) else { return "has no restore to delete".to_owned() };
        let deleted = self.clusters[number].lifeboat(&format!("restore delete {name} --confirm"));
        assert_eq!(deleted.code, 0, "{deleted:?}");
        self.clusters[number].until_gone("restore", &name);
        self.model.restore_deleted(&name, number);
        format!("deleted restore {name}")
    }

    fn hold(&mut self, number: usize) -> String {
        let backups = self.model.own_in(&self.clusters[number].names("backups"), &self.clusters[number].uid);
        let Some(name) = self.one_of(&backups) else { return "has nothing to hold".to_owned() };
        let cluster = &mut self.clusters[number];
        if cluster.lifeboat(&format!("backup hold {name}")).code != 0 {
            return format!("could not hold {name}");
        }
        let is_recorded = || {
            cluster.tend();
            let backup = cluster.ground.get("backup", &name);
            backup.is_null() || backup["metadata"]["annotations"]["lifeboat.io/hold-recorded"] == "forever"
        };
        assert!(comes_to_be_within(LIMIT, is_recorded), "the hold of {name} is not recorded: {}", cluster.log());
        if is_in(&cluster.bucket, &name) && !cluster.ground.get("backup", &name).is_null() {
            self.model.held(&name);
        }
        format!("holds {name}")
    }

    fn delete_backup(&mut self, number: usize) -> String {
        let backups = self.model.own_in(&self.clusters[number].names("backups"), &self.clusters[number].uid);
        let backups: Vec<String> = backups.into_iter().filter(|name| !self.model.is_held(name)).collect();
        let Some(name) = self.one_of(&backups) else { return "has nothing to delete".to_owned() };
        self.model.deleted(&name);
        let run = self.clusters[number].lifeboat(&format!("backup delete {name} --confirm"));
        assert!(run.code == 0 || run.err.contains("not found"), "{run:?}");
        self.clusters[number].until_gone("backup", &name);
        format!("deleted {name}")
    }

    fn change_schedule(&mut self, number: usize) -> String {
        let cluster = &mut self.clusters[number];
        match cluster.nightly.take() {
            Some(name) => {
                cluster.ground.bed.kubectl(&["delete", "schedule", &name, "-n", "velero", "--timeout=30s"]);
                format!("deleted schedule {name}")
            }
            None => {
                // The same name again, or another.
                let name = if cluster.backups.is_multiple_of(2) { "nightly" } else { "renamed" };
                cluster.schedule(name, Some(2));
                cluster.nightly = Some(name.to_owned());
                format!("made schedule {name}")
            }
        }
    }

    /// What has to be true at every moment.
    fn check(&mut self, step: &str) {
        let bucket = &self.clusters[0].bucket;
        // The restores of a backup go with it.
        self.model.restores.retain(|_, restore| is_in(bucket, &restore.backup));
        for name in self.model.kept() {
            assert!(is_in(bucket, &name), "after {step}: {name} is kept, and gone: {}", self.logs());
        }
        for (name, Restore { cluster, digest, .. }) in &self.model.restores {
            let now = digest_of_results(bucket, name);
            let is_there = now.as_ref() == Some(digest) || !is_in(bucket, &self.model.restores[name].backup);
            assert!(is_there, "after {step}: the results of restore {name} of cluster {cluster} are gone or others");
        }
    }

    fn logs(&self) -> String {
        self.clusters.each_ref().map(Cluster::log).join("\n-----\n")
    }
}

impl Cluster {
    /// Whether a schedule has rules, as the definitions of now let it be seen.
    fn has_rules(&self, schedule: &str) -> bool {
        !self.ground.get("schedule", schedule)["spec"]["retention"].is_null()
    }
}

#[test]
#[ignore = "takes a quarter of an hour: make test-long"]
fn long_two_clusters_with_one_bucket_lose_nothing_that_is_kept() {
    let first = first_seed();
    (first..first + 3).for_each(lives_of_two_clusters);
}

#[allow(clippy::print_stdout, reason = "who repeats the run needs the seed")]
fn lives_of_two_clusters(seed: u64) {
    let steps = number("LIFEBOAT_STEPS").unwrap_or(STEPS);
    println!("-- two clusters: {steps} steps, LIFEBOAT_SEED={seed}");
    let first = Ground::start();
    let second = Ground::beside(&first);
    let folder = second.directories.path().to_owned();
    for name in ["shared", "snapshots"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    put_plugin(&folder.join("plugins"));
    let bucket = folder.join("shared").join("b");
    let clusters = [Cluster::prepare(first, 0, &folder), Cluster::prepare(second, 1, &folder)];
    let mut world = World { clusters, model: Model::default(), seed, thrown: 0 };
    for cluster in &mut world.clusters {
        cluster.start(0);
    }
    for number in 0..steps {
        let step = format!("step {number} of seed {seed}: {}", world.step());
        println!("{step}");
        world.check(&step);
    }

    // The end: both servers work, with clocks that are right, and nothing holds their clean-up back.
    for cluster in &mut world.clusters {
        cluster.kill();
        cluster.define(&lifeboat_api::crds());
        cluster.start(0);
        cluster.ground.let_an_hour_pass("velero", "main");
    }
    let kept: BTreeSet<String> = world.model.kept().into_iter().collect();
    let mut left = Vec::new();
    let all_gone = comes_to_be_within(LIMIT, || {
        left = world.model.free().iter().filter(|name| is_in(&bucket, name)).cloned().collect();
        left.is_empty()
    });
    assert!(all_gone, "nothing keeps {left:?}, and they stay (seed {seed}): {}", world.logs());
    world.check("the end");
    for name in &kept {
        for cluster in &world.clusters {
            eventually(&format!("each cluster knows {name}"), || !cluster.ground.get("backup", name).is_null());
        }
    }
    let snapshots: BTreeSet<String> = std::fs::read_dir(folder.join("snapshots"))
        .expect("the snapshots")
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    let known = snapshots_that_are_known(&bucket);
    let unknown: Vec<&String> = snapshots.difference(&known).collect();
    assert!(unknown.is_empty(), "no record knows the snapshots {unknown:?} (seed {seed})");
    let lost: Vec<&String> = known.difference(&snapshots).collect();
    assert!(lost.is_empty(), "records know snapshots that are gone: {lost:?} (seed {seed})");
}
