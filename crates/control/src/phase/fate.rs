//! What becomes of each backup, for people: when it goes, or why it stays.

use super::backup::is_running;
use super::expiry::{Obstacle, end};
use super::hold::Hold;
use super::keep::{Keeper, Kept, stands_for};
use super::request::{deletion_is_asked, is_whole};
use super::restore::has_ended;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, BackupStorageLocation, DeleteBackupRequest, Restore, Schedule, well_known};
use std::collections::BTreeMap;

/// All that decides it, of one namespace.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// The backups.
    pub backups: Vec<Backup>,
    /// The schedules.
    pub schedules: Vec<Schedule>,
    /// The requests to delete backups.
    pub requests: Vec<DeleteBackupRequest>,
    /// The storage locations.
    pub locations: Vec<BackupStorageLocation>,
    /// The restores.
    pub restores: Vec<Restore>,
}

/// What becomes of a backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Fate {
    /// The backup.
    pub backup: Backup,
    /// The name of its schedule, when that is there.
    pub schedule: Option<String>,
    /// The time that it stands for: of the run that it was made for, or else when it began.
    pub of: Option<Timestamp>,
    /// What keeps it.
    pub keepers: Vec<Keeper>,
    /// What becomes of it.
    pub becomes: Becomes,
}

/// What becomes of a backup, if nothing changes but the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// It goes at this time, which may be over.
    Goes(Timestamp),
    /// Its deletion is asked for.
    Going,
    /// Something keeps it.
    Kept,
    /// It is in progress, and comes to its end first.
    Runs,
    /// Its time is over, and nothing can be deleted from this location.
    Blocked {
        /// The location.
        location: String,
        /// Why not.
        obstacle: Obstacle,
    },
    /// Its time is over, and it goes when this restore, which reads it, has ended.
    Read {
        /// The name of the restore.
        restore: String,
    },
    /// It has no expiration.
    Stays,
}

/// Tells it of all backups, in their order. `zone` is that of schedules that name none.
#[must_use]
pub fn fates(lists: &Lists, zone: &TimeZone, now: Timestamp) -> Vec<Fate> {
    let asked: Vec<bool> = lists.backups.iter().map(|backup| deletion_is_asked(backup, &lists.requests)).collect();
    let schedules: BTreeMap<String, (&Schedule, Option<Kept>)> = lists
        .schedules
        .iter()
        .map(|schedule| {
            let label = schedule.label();
            let all = lists.backups.iter().zip(asked.iter().copied());
            let own = all.filter(|(backup, _)| label_of(backup) == Some(label.as_str()));
            let kept = Kept::of(schedule, zone, own);
            (label, (schedule, kept))
        })
        .collect();
    let fate = |(backup, asked): (&Backup, bool)| {
        let schedule = label_of(backup).and_then(|label| schedules.get(label));
        let hold = Hold::at(&backup.metadata, now).map(Keeper::Hold);
        let rules = schedule.and_then(|(_, kept)| kept.as_ref()?.keeper(backup));
        let keepers: Vec<Keeper> = hold.into_iter().chain(rules).filter(|_| is_whole(backup)).collect();
        let name = schedule.map(|(schedule, _)| schedule.metadata.name.clone());
        Fate {
            of: stands_for(name.as_deref().unwrap_or_default(), backup),
            schedule: name,
            becomes: becomes(backup, (asked, !keepers.is_empty()), lists, now),
            keepers,
            backup: backup.clone(),
        }
    };
    lists.backups.iter().zip(asked.iter().copied()).map(fate).collect()
}

fn label_of(backup: &Backup) -> Option<&str> {
    backup.metadata.labels.get(well_known::LABEL_SCHEDULE_NAME).map(String::as_str)
}

fn becomes(backup: &Backup, (is_asked, is_kept): (bool, bool), lists: &Lists, now: Timestamp) -> Becomes {
    if is_asked || backup.metadata.deletion_timestamp.is_some() {
        return Becomes::Going;
    }
    if is_running(backup) {
        return Becomes::Runs;
    }
    if is_kept {
        return Becomes::Kept;
    }
    let Some(end) = end(backup) else { return Becomes::Stays };
    if end > now {
        return Becomes::Goes(end);
    }
    let name = &backup.spec.storage_location;
    let location = location_of(backup, &lists.locations);
    match Obstacle::of(location) {
        None => {
            let reads = |restore: &&Restore| restore.spec.backup_name == backup.metadata.name && !has_ended(restore);
            let restore = lists.restores.iter().find(reads);
            restore.map_or(Becomes::Goes(end), |restore| Becomes::Read { restore: restore.metadata.name.clone() })
        }
        Some(obstacle) => {
            let name = location.map_or(name, |location| &location.metadata.name);
            Becomes::Blocked { location: name.clone(), obstacle }
        }
    }
}

/// The location of a backup: the default one where it names none.
#[must_use]
pub fn location_of<'l>(backup: &Backup, locations: &'l [BackupStorageLocation]) -> Option<&'l BackupStorageLocation> {
    let name = &backup.spec.storage_location;
    locations
        .iter()
        .find(|location| if name.is_empty() { location.spec.default } else { location.metadata.name == *name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupStorageLocationPhase;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_backup_goes_or_has_a_reason_to_stay() {
        let now: Timestamp = "2026-11-22T12:00:00Z".parse().unwrap();
        let (over, later) = ("2026-11-22T11:00:00Z", "2026-11-23T11:00:00Z");
        let mut lists = Lists::default();
        let mut add = |name: &str, location: &str, status: Value, annotations: Value| {
            let (schedule, _) = name.split_once('-').unwrap_or_default();
            let labels = json!({"velero.io/schedule-name": schedule});
            lists.backups.push(read(json!({"apiVersion": "velero.io/v1", "kind": "Backup",
                "metadata": {"name": name, "uid": name, "labels": labels, "annotations": annotations},
                "spec": {"storageLocation": location}, "status": status})));
        };
        let status = |phase: &str, end: &str| json!({"phase": phase, "expiration": end});
        let held = || json!({"lifeboat.io/hold-until": later});
        add("nightly-20261121030000", "main", status("Completed", over), json!({}));
        add("nightly-20261122030000", "main", status("Completed", later), json!({}));
        add("held", "sealed", status("Failed", over), held());
        add("runs", "main", status("InProgress", over), held());
        add("going", "main", status("Deleting", over), held());
        add("asked", "main", status("Completed", over), held());
        add("sealed", "sealed", status("Completed", over), json!({}));
        add("lost", "nowhere", status("Completed", over), json!({}));
        add("by-default", "", status("Completed", over), json!({}));
        add("read", "main", status("Completed", over), json!({}));
        add("later", "nowhere", status("Completed", later), json!({}));
        add("for-ever", "main", json!({"phase": "Completed"}), json!({}));
        lists
            .schedules
            .push(read(json!({"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 3 * * *", "retention": {}}})));
        lists.restores.push(read(json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "r"},
            "spec": {"backupName": "read"}, "status": {"phase": "InProgress"}})));
        lists
            .restores
            .push(read(json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "ended"},
            "spec": {"backupName": "by-default"}, "status": {"phase": "Completed"}})));
        lists.requests = ["asked", "going"]
            .map(|name| {
                let phase = if name == "asked" { "New" } else { "Processed" };
                read(json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest", "metadata": {"name": name},
                    "spec": {"backupName": name}, "status": {"phase": phase}}))
            })
            .into();
        lists.locations = ["main", "sealed"]
            .map(|name| {
                let mut location = BackupStorageLocation::default();
                location.metadata.name = name.into();
                location.spec.default = name == "main";
                location.status.phase = Some(BackupStorageLocationPhase::Available);
                location
            })
            .into();
        lists.locations[1].spec.access_mode = Some(lifeboat_api::BackupStorageLocationAccessMode::ReadOnly);
        let (over, later): (Timestamp, Timestamp) = (over.parse().unwrap(), later.parse().unwrap());
        let blocked = |location: &str, obstacle| Becomes::Blocked { location: location.into(), obstacle };
        let expected = [
            ("nightly-20261121030000", "", Becomes::Goes(over)),
            ("nightly-20261122030000", "kept by schedule nightly: last good", Becomes::Kept),
            ("held", "held until 2026-11-23T11:00:00Z", Becomes::Kept),
            ("runs", "held until 2026-11-23T11:00:00Z", Becomes::Runs),
            ("going", "", Becomes::Goes(over)),
            ("asked", "held until 2026-11-23T11:00:00Z", Becomes::Going),
            ("sealed", "", blocked("sealed", Obstacle::ReadOnly)),
            ("lost", "", blocked("nowhere", Obstacle::NoLocation)),
            ("by-default", "", Becomes::Goes(over)),
            ("read", "", Becomes::Read { restore: "r".into() }),
            ("later", "", Becomes::Goes(later)),
            ("for-ever", "", Becomes::Stays),
        ];
        let found = fates(&lists, &TimeZone::UTC, now);
        let found: Vec<(&str, String, Becomes)> = found
            .iter()
            .map(|f| (f.backup.metadata.name.as_str(), super::super::keep::told(&f.keepers), f.becomes.clone()))
            .collect();
        assert_eq!(found, expected.map(|(name, kept, becomes)| (name, kept.to_owned(), becomes)));
    }
}
