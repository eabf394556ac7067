//! A cluster, its server, and what users do with both.

use super::model::{Backup, PLAIN, annotation_of};
use crate::ground::{Ground, Server};
use crate::server::plugins::DISK;
use crate::support::{Run, comes_to_be_within, program, run, until_types_are_served, with_object};
use lifeboat_testbed::with_wrong_clock;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Seconds for which a backup is kept that nothing else keeps.
const TTL: i64 = 20;
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
/// Time limit of a backup or restore, including a server that is started while the Lease of the one before lasts.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// A cluster with a server that is there, is paused, or is not there.
pub(super) struct Cluster {
    pub(super) ground: Ground,
    pub(super) uid: String,
    pub(super) number: usize,
    pub(super) server: Option<Server>,
    pub(super) is_paused: bool,
    pub(super) starts: usize,
    pub(super) backups: usize,
    /// The number of times that it was made anew with another UID.
    made_anew: usize,
    /// The schedule with rules, under its name of now; `None` when it is deleted.
    pub(super) nightly: Option<String>,
    /// Where both clusters have their bucket, their snapshots and the plugin.
    pub(super) folder: PathBuf,
    pub(super) bucket: PathBuf,
}

impl Cluster {
    pub(super) fn prepare(ground: Ground, number: usize, folder: &Path) -> Self {
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
        let mut cluster = Self {
            ground,
            uid,
            number,
            server: None,
            is_paused,
            starts,
            backups,
            made_anew: 0,
            nightly,
            folder,
            bucket,
        };
        cluster.install();
        cluster
    }

    /// Makes what a user makes after an installation.
    pub(super) fn install(&mut self) {
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

    pub(super) fn schedule(&self, name: &str, keep_last: Option<u32>) {
        let mut spec = json!({"schedule": "@every 1000h", "template": {"includedNamespaces": ["shop"], "ttl": format!("{TTL}s"),
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

    pub(super) fn start(&mut self, shift: i64) {
        self.starts += 1;
        let plugins = self.folder.join("plugins").display().to_string();
        let name = format!("server-{}", self.starts);
        let flags = [&FLAGS[..], &["--plugin-dir", &plugins, "--identity", &name]].concat();
        let mut command = self.ground.server_command(&self.ground.bed.plane.kubeconfig(), &flags);
        with_wrong_clock(&mut command, shift).expect("a clock");
        self.server = Some(self.ground.start_server(command, &name));
    }

    pub(super) fn kill(&mut self) {
        self.is_paused = false;
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    pub(super) fn pause(&mut self, is_paused: bool) {
        if let Some(server) = &self.server {
            server.signal(if is_paused { "STOP" } else { "CONT" });
            self.is_paused = is_paused;
        }
    }

    /// Starts another server where the last one has ended by itself, as one does whose Lease is over when it goes on
    /// after a pause.
    pub(super) fn tend(&mut self) {
        let has_ended = |server: &mut Server| server.0.try_wait().expect("its state").is_some();
        if self.server.as_mut().is_some_and(has_ended) {
            self.start(0);
        }
    }

    pub(super) fn works(&self) -> bool {
        self.server.is_some() && !self.is_paused
    }

    pub(super) fn lifeboat(&self, line: &str) -> Run {
        let mut command = Command::new(program());
        command.args(line.split(' ')).env("KUBECONFIG", self.ground.bed.plane.kubeconfig());
        run(&mut command)
    }

    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let out = self.ground.bed.kubectl(&["get", kind, "-n", "velero", "-o", "jsonpath={.items[*].metadata.name}"]);
        out.split_whitespace().map(str::to_owned).collect()
    }

    /// Takes away everything that the server knows, as whoever deletes its namespace does.
    pub(super) fn lose_everything(&mut self) {
        self.kill();
        // No server takes the finalizers off.
        for restore in self.names("restores") {
            let patch = ["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#];
            self.ground.bed.kubectl(&[&["patch", "restore", &restore, "-n", "velero"], &patch[..]].concat());
        }
        self.ground.bed.kubectl(&["delete", "namespace", "velero", "--timeout=180s"]);
        self.ground.bed.kubectl(&["create", "namespace", "velero"]);
    }

    /// Applies definitions, those of Velero or ours.
    pub(super) fn define(&self, definitions: &[Value]) {
        for definition in definitions {
            let applied = self.ground.bed.plane.client().apply(definition);
            applied.unwrap_or_else(|e| panic!("{e:#}: {definition}"));
        }
        let names: Vec<&str> = definitions.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        until_types_are_served(&self.ground.bed.plane, &names);
    }

    /// Makes a backup of a schedule.
    pub(super) fn begin_backup(&mut self, schedule: &str) -> String {
        self.backups += 1;
        let name = format!("of-{}-{}", self.number, self.backups);
        let made = self.lifeboat(&format!("backup create {name} --from-schedule {schedule}"));
        assert_eq!(made.code, 0, "{made:?}");
        name
    }

    /// Waits for the end of a backup, and until its record says its rules; `None` when its time was over before anybody
    /// saw its end.
    pub(super) fn end_backup(&mut self, name: String, schedule: &str, has_rules: bool) -> Option<Backup> {
        let mut status = Value::Null;
        let ended = comes_to_be_within(LIMIT, || {
            self.tend();
            let backup = self.ground.get("backup", &name);
            status = backup["status"].clone();
            backup.is_null() || !status["completionTimestamp"].is_null() || status["phase"] == "FailedValidation"
        });
        assert!(ended, "{name}: {status}: {}", self.log());
        if status.is_null() {
            return None;
        }
        assert_eq!(status["phase"], "Completed", "{name}: {status}: {}", self.log());
        let is_noted = || {
            self.tend();
            annotation_of(&self.bucket, &name, "lifeboat.io/kept-by").is_some()
        };
        assert!(!has_rules || comes_to_be_within(LIMIT, is_noted), "{name} does not say its rules: {}", self.log());
        let began = status["startTimestamp"].as_str().expect("its begin").parse().expect("a time");
        Some(Backup { name, cluster: self.uid.clone(), schedule: schedule.to_owned(), began })
    }

    /// Gives the cluster another UID, as one has that is made anew.
    pub(super) fn become_another(&mut self) {
        self.made_anew += 1;
        let mut namespace = self.ground.get_in("", "namespace", "kube-system");
        self.uid = format!("00000000-0000-4000-800{}-{:012}", self.number, self.made_anew);
        namespace["metadata"]["uid"] = self.uid.clone().into();
        for field in ["resourceVersion", "managedFields"] {
            namespace["metadata"].as_object_mut().expect("metadata").remove(field);
        }
        self.ground.bed.plane.store(&[namespace]).expect("another UID");
    }

    pub(super) fn until_gone(&mut self, kind: &str, name: &str) {
        let is_gone = comes_to_be_within(LIMIT, || {
            self.tend();
            self.ground.get(kind, name).is_null()
        });
        assert!(is_gone, "{kind} {name} stays: {}", self.log());
    }

    /// The logs of the servers that were started last.
    pub(super) fn log(&self) -> String {
        let first = self.starts.saturating_sub(3) + 1;
        (first..=self.starts).map(|start| self.ground.log(&format!("server-{start}"))).collect::<Vec<_>>().join("---\n")
    }

    /// Returns true if a schedule has rules, as far as the present definitions show them.
    pub(super) fn has_rules(&self, schedule: &str) -> bool {
        !self.ground.get("schedule", schedule)["spec"]["retention"].is_null()
    }
}
