//! The contents of the bucket that were promised, and those that are there.

use crate::support::gunzip;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A backup that has completed.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) name: String,
    /// The UID of the cluster.
    pub(super) cluster: String,
    pub(super) schedule: String,
    /// When it began, by the clock of its server, which may be wrong: of backups that are no runs the newest is the one
    /// that began last.
    pub(super) began: Timestamp,
}

/// The files of a restore.
#[derive(Debug)]
pub(super) struct Restore {
    /// The UID of the cluster that has made them.
    pub(super) cluster: String,
    /// A digest of its results.
    pub(super) digest: String,
    pub(super) backup: String,
}

/// A backup among those of its schedule.
#[derive(Debug)]
struct Member {
    began: Timestamp,
    name: String,
    /// It was made while the schedule had rules, which its record says.
    has_rules: bool,
    /// It is certain to stay.
    is_kept: bool,
}

/// Backups of one schedule of one cluster, as its rules count them.
#[derive(Debug, Default)]
struct Group {
    /// The newest last.
    all: Vec<Member>,
    /// The number of those that stay.
    keeps: usize,
}

impl Group {
    fn of(schedule: &str) -> Self {
        // Without rules the newest stays.
        let keeps = if schedule == PLAIN { 1 } else { KEEPS };
        Self { keeps, ..Self::default() }
    }

    fn add(&mut self, backup: &Backup, has_rules: bool) {
        let (began, name) = (backup.began, backup.name.clone());
        self.all.push(Member { began, name, has_rules, is_kept: has_rules });
        self.all.sort_by(|a, b| (a.began, &a.name).cmp(&(b.began, &b.name)));
        self.settle();
    }

    /// Marks backups as not kept that may be gone from now on, by the rules of the schedule, or, where these are gone,
    /// by those of the newest record: they keep up to that one. Each may be in force, now and later. Backups that no
    /// rules keep may be there too, and take places.
    fn settle(&mut self) {
        let record = self.all.iter().rposition(|member| member.has_rules);
        let count = self.all.len();
        for (place, member) in self.all.iter_mut().enumerate() {
            let by_schedule = count - place <= self.keeps;
            let by_record = record.is_some_and(|record| place <= record && record - place < self.keeps);
            let is_newest = place + 1 == count;
            member.is_kept &= by_schedule && (by_record || is_newest);
        }
    }

    fn kept(&self) -> impl Iterator<Item = &String> {
        self.all.iter().filter(|member| member.is_kept).map(|member| &member.name)
    }
}

/// All promises that were made.
#[derive(Debug, Default)]
pub(super) struct Model {
    backups: Vec<Backup>,
    groups: BTreeMap<(String, String), Group>,
    held: BTreeSet<String>,
    /// No rules and no hold keep them: all of a schedule but the newest go.
    free: BTreeSet<String>,
    /// The restores whose files lie in the bucket, by their names.
    pub(super) restores: BTreeMap<String, Restore>,
}

/// The schedule that never has rules. Another one has none while definitions without such a field are applied, and has
/// them again.
pub(super) const PLAIN: &str = "plain";

/// Number of backups that the schedule keeps.
const KEEPS: usize = 2;

impl Model {
    pub(super) fn made(&mut self, backup: Backup, has_rules: bool) {
        if backup.schedule == PLAIN {
            self.free.insert(backup.name.clone());
        }
        let group = (backup.cluster.clone(), backup.schedule.clone());
        let group = self.groups.entry(group).or_insert_with(|| Group::of(&backup.schedule));
        group.add(&backup, has_rules || backup.schedule == PLAIN);
        self.backups.push(backup);
    }

    pub(super) fn held(&mut self, name: &str) {
        self.held.insert(name.to_owned());
        self.free.remove(name);
    }

    pub(super) fn is_held(&self, name: &str) -> bool {
        self.held.contains(name)
    }

    /// Of these names, those of backups that this cluster has made.
    pub(super) fn own_in(&self, names: &[String], cluster: &str) -> Vec<String> {
        let is_own = |name: &&String| self.backups.iter().any(|one| one.name == **name && one.cluster == cluster);
        names.iter().filter(is_own).cloned().collect()
    }

    /// Somebody has asked for its deletion.
    pub(super) fn deleted(&mut self, name: &str) {
        self.free.remove(name);
        for group in self.groups.values_mut() {
            group.all.retain(|member| member.name != name);
        }
    }

    /// All that must be in the bucket.
    pub(super) fn kept(&self) -> Vec<String> {
        self.groups.values().flat_map(Group::kept).chain(&self.held).cloned().collect()
    }

    /// All that must not stay in the bucket, as long as these clusters are there: what a lost one has made stays.
    pub(super) fn free(&self, clusters: &[&str]) -> BTreeSet<String> {
        let newest: BTreeSet<&String> =
            self.groups.values().filter_map(|group| group.all.last()).map(|member| &member.name).collect();
        let is_here = |name: &String| {
            self.backups.iter().any(|one| one.name == *name && clusters.contains(&one.cluster.as_str()))
        };
        self.free.iter().filter(|name| !newest.contains(name) && is_here(name)).cloned().collect()
    }

    /// A restore has ended. One under the name of another cluster's is refused, and leaves its files as they are.
    pub(super) fn restored(&mut self, name: &str, phase: &str, found: Restore) {
        match self.restores.get(name) {
            Some(before) if before.cluster != found.cluster => {
                let owner = &before.cluster;
                assert!(
                    phase.starts_with("Failed"),
                    "a cluster restored as {name}, which is of cluster {owner}: {phase}"
                );
                assert_eq!(before.digest, found.digest, "a cluster changed the results of {name} of cluster {owner}");
            }
            _ => drop(self.restores.insert(name.to_owned(), found)),
        }
    }

    pub(super) fn restore_deleted(&mut self, name: &str, cluster: &str) {
        if self.restores.get(name).is_some_and(|before| before.cluster == cluster) {
            self.restores.remove(name);
        }
    }
}

/// Returns true if a backup is in a bucket: its record is there.
pub(super) fn is_in(bucket: &Path, backup: &str) -> bool {
    bucket.join("backups").join(backup).join("velero-backup.json").is_file()
}

/// When the time of a backup is over, as its record says; `None` when it has none.
pub(super) fn end_of(bucket: &Path, backup: &str) -> Option<Timestamp> {
    let record = std::fs::read(bucket.join("backups").join(backup).join("velero-backup.json")).ok()?;
    let record: Value = serde_json::from_slice(&record).expect("a record");
    record["status"]["expiration"].as_str().map(|end| end.parse().expect("a time"))
}

/// An annotation in the record of a backup.
pub(super) fn annotation_of(bucket: &Path, backup: &str, name: &str) -> Option<String> {
    let record = std::fs::read(bucket.join("backups").join(backup).join("velero-backup.json")).ok()?;
    let record: Value = serde_json::from_slice(&record).ok()?;
    record["metadata"]["annotations"][name].as_str().map(str::to_owned)
}

/// A digest of the results of a restore; `None` when there are none.
pub(super) fn digest_of_results(bucket: &Path, restore: &str) -> Option<String> {
    let file = bucket.join("restores").join(restore).join(format!("restore-{restore}-results.gz"));
    std::fs::read(file).ok().map(|bytes| hex::encode(Sha256::digest(bytes)))
}

/// The snapshots that records of backups name, or notes beside the claim of one that was not finished.
pub(super) fn snapshots_that_are_known(bucket: &Path) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for folder in entries(&bucket.join("backups")) {
        for file in entries(&folder) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = match () {
                () if name.ends_with("-volumesnapshots.json.gz") => gunzip(&file),
                () if name.starts_with("lifeboat-") && name.ends_with(".json") => {
                    std::fs::read(&file).unwrap_or_default()
                }
                () => continue,
            };
            if let Ok(value) = serde_json::from_slice::<Value>(&text) {
                note_names(&value, &mut known);
            }
        }
    }
    known
}

/// All texts in JSON that are names of snapshots.
fn note_names(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.starts_with("snapshot-of-") => drop(names.insert(text.clone())),
        Value::Array(all) => all.iter().for_each(|one| note_names(one, names)),
        Value::Object(all) => all.values().for_each(|one| note_names(one, names)),
        _ => {}
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Velero's own definitions of its kinds, which have none of our fields.
pub(super) fn definitions_of_velero() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/api/tests/golden/crds");
    let read = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).expect("a definition")).expect("JSON");
    entries(&folder).into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")).map(read).collect()
}
