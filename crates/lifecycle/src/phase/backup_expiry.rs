//! The expiry of each backup, for people: when it goes, or why it stays. Gathers the facts from which `expiry.rs`
//! decides.

use super::expiry::{ExpiryFacts, ExpiryOutcome, Obstacle, becomes};
use super::facts::stands_for;
use super::keep::Keeper;
use super::kept_backups::{KeptBackups, ScheduleLookup, keepers};
use super::kept_by::schedule_label;
use super::location::{NoLocation, is_readable, location_of};
use super::member::ScheduleMember;
use super::others::Sightings;
use super::request::{ByBackup, Requests, claims_waited_for, way_out_of_claims};
use super::restore::has_ended;
use super::taken_over::{is_of_another_cluster, source_cluster};
use super::writable::spares_until;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, BackupStorageLocation, DeleteBackupRequest, KeptBy, Restore, Schedule};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All that decides it, of one namespace.
#[derive(Clone, Debug, Default)]
pub struct ExpiryInput {
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
    /// The UID of the cluster; empty when unknown.
    pub cluster: String,
}

impl ExpiryInput {
    /// The location of a backup.
    ///
    /// # Errors
    /// [`NoLocation`].
    pub fn location_of(&self, backup: &Backup) -> Result<&BackupStorageLocation, NoLocation> {
        location_of(backup, &self.locations)
    }

    /// Tells whether another cluster has made a backup, as far as is known.
    #[must_use]
    pub fn is_of_another_cluster(&self, backup: &Backup) -> bool {
        is_of_another_cluster(backup, &self.cluster)
    }

    /// A backup of a schedule, with what the rest says of it; `requests` are those for it.
    pub fn member<'b>(&self, backup: &'b Backup, requests: Requests) -> ScheduleMember<'b> {
        ScheduleMember {
            backup,
            deletion_is_asked: requests.cannot_be_withdrawn(),
            is_readable: self.location_of(backup).is_ok_and(is_readable),
            is_own: !self.is_of_another_cluster(backup),
        }
    }
}

/// A backup with its expiry and the reasons for it.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupExpiry {
    /// The backup.
    pub backup: Backup,
    /// The name of its schedule, when that is there.
    pub schedule: Option<String>,
    /// True when this cluster has made it, as far as is known.
    pub is_own: bool,
    /// The UID of the other cluster that has made it, where that is known.
    pub source: Option<String>,
    /// The time that it stands for: of the run that it was made for, or else when it began.
    pub stands_for: Option<Timestamp>,
    /// The reasons that keep it.
    pub keepers: Vec<Keeper>,
    /// Its expiry.
    pub becomes: ExpiryOutcome,
    /// For what its deletion waits that is asked for, for people: claims from its snapshots that have no volume yet, or a restore elsewhere.
    pub waits_for: Option<String>,
}

impl BackupExpiry {
    /// Returns true if the schedule of the backup keeps it: its rules, here or in the cluster that has made it, or because it is the last
    /// good one.
    #[must_use]
    pub fn is_kept_by_schedule(&self) -> bool {
        let by_rules = |keeper: &Keeper| !matches!(keeper, Keeper::Hold(_));
        let has_rules = |said: KeptBy| said.released.is_none() && said.rules.is_some();
        let recorded = KeptBy::of(&self.backup.metadata).filter(|_| !self.is_own).and_then(Result::ok);
        self.keepers.iter().any(by_rules) || recorded.is_some_and(has_rules)
    }
}

/// Says of each backup, in the order of `lists.backups`, when it goes or what keeps it. `zone` is that of schedules that name none.
#[must_use]
pub fn expiries(lists: &ExpiryInput, zone: &TimeZone, now: Timestamp) -> Vec<BackupExpiry> {
    let requests: ByBackup<'_> = lists.requests.iter().collect();
    let sightings = Sightings::of(&lists.backups, &lists.cluster);
    let labels: BTreeMap<String, &Schedule> =
        lists.schedules.iter().map(|schedule| (schedule.label(), schedule)).collect();
    let mut by_schedule: BTreeMap<Cow<'_, str>, Vec<ScheduleMember<'_>>> = BTreeMap::new();
    for backup in &lists.backups {
        let Some(label) = schedule_label(backup) else { continue };
        by_schedule.entry(label).or_default().push(lists.member(backup, requests.of(backup)));
    }
    let kept: BTreeMap<Cow<'_, str>, KeptBackups> = by_schedule
        .into_iter()
        .map(|(label, members)| {
            let gone = ScheduleLookup::Gone { label: &label };
            let lookup = labels.get(&*label).map_or(gone, |schedule| ScheduleLookup::Here(schedule));
            let kept = KeptBackups::of(lookup, zone, &members);
            (label, kept)
        })
        .collect();
    let restores = lists.restores.iter().filter(|restore| !has_ended(restore));
    let restores: BTreeMap<&str, &Restore> =
        restores.map(|restore| (restore.spec.backup_name.as_str(), restore)).collect();
    let expiry = |backup: &Backup| {
        let label = schedule_label(backup);
        let label = label.as_deref();
        let location = lists.location_of(backup);
        let elsewhere = sightings.expires_elsewhere(backup, location.clone().ok(), now).map(str::to_owned);
        let kept = label.and_then(|label| kept.get(label)).filter(|_| elsewhere.is_none());
        let around = ExpiryFacts {
            spared_until: location.as_ref().ok().and_then(|location| spares_until(location, now)),
            obstacle: Obstacle::of(location),
            requests: requests.of(backup),
            keepers: keepers(backup, kept, now),
            restore: restores.get(backup.metadata.name.as_str()).map(|restore| restore.metadata.name.clone()),
            elsewhere,
            note: None,
        };
        let name = label.and_then(|label| labels.get(label)).map(|schedule| schedule.metadata.name.clone());
        let becomes = becomes(backup, &around, now);
        BackupExpiry {
            stands_for: stands_for(name.as_deref().or(label).unwrap_or_default(), backup),
            schedule: name,
            is_own: !lists.is_of_another_cluster(backup),
            source: source_cluster(backup).filter(|_| lists.is_of_another_cluster(backup)).map(str::to_owned),
            waits_for: (becomes == ExpiryOutcome::Going).then(|| waits_for(&requests, backup)).flatten(),
            becomes,
            keepers: around.keepers,
            backup: backup.clone(),
        }
    };
    lists.backups.iter().map(expiry).collect()
}

/// The obstacles for which a requested deletion of a backup waits, for people.
fn waits_for(requests: &ByBackup<'_>, backup: &Backup) -> Option<String> {
    let claims = requests.waiting_for_claims(backup).and_then(|request| {
        let claims = claims_waited_for(request)?;
        Some(format!("claims that have no volume yet ({claims}): {}", way_out_of_claims(request)))
    });
    claims.or_else(|| requests.restore_waited_for(backup).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::super::writable::note_writable;
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
        let mut lists = ExpiryInput::default();
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
        add("held-for-now", "main", status("Failed", over), held());
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
                read(json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest",
                    "metadata": {"name": name, "creationTimestamp": "2026-11-22T11:00:00Z", "annotations": {"lifeboat.io/waits-for-claims": "2026-11-22T11:00:00Z shop/data"}},
                    "spec": {"backupName": name}, "status": {"phase": phase}}))
            })
            .into();
        lists.locations = ["main", "sealed"]
            .map(|name| {
                let mut location = BackupStorageLocation::default();
                location.metadata.name = name.into();
                location.spec.default = name == "main";
                location.status.phase = Some(BackupStorageLocationPhase::Available);
                note_writable(&mut location, "2026-11-21T00:00:00Z".parse().unwrap());
                location
            })
            .into();
        lists.locations[1].spec.access_mode = Some(lifeboat_api::BackupStorageLocationAccessMode::ReadOnly);
        let (over, later): (Timestamp, Timestamp) = (over.parse().unwrap(), later.parse().unwrap());
        let blocked = ExpiryOutcome::Blocked;
        let expected = [
            ("nightly-20261121030000", "", ExpiryOutcome::Goes(over)),
            ("nightly-20261122030000", "kept by schedule nightly: last good", ExpiryOutcome::Kept),
            ("held", "held until 2026-11-23T11:00:00Z", blocked(Obstacle::ReadOnly("sealed".into()))),
            ("held-for-now", "held until 2026-11-23T11:00:00Z", ExpiryOutcome::Kept),
            ("runs", "held until 2026-11-23T11:00:00Z", ExpiryOutcome::Runs),
            ("going", "", ExpiryOutcome::Goes(over)),
            ("asked", "held until 2026-11-23T11:00:00Z", ExpiryOutcome::Going),
            ("sealed", "", blocked(Obstacle::ReadOnly("sealed".into()))),
            ("lost", "", blocked(Obstacle::NoLocation(NoLocation::Named("nowhere".into())))),
            ("by-default", "", ExpiryOutcome::Goes(over)),
            ("read", "", ExpiryOutcome::Read { restore: "r".into() }),
            ("later", "", ExpiryOutcome::Goes(later)),
            ("for-ever", "", ExpiryOutcome::Stays),
        ];
        let found = expiries(&lists, &TimeZone::UTC, now);
        let waiting: Vec<_> =
            found.iter().filter_map(|f| Some((&*f.backup.metadata.name, f.waits_for.as_deref()?))).collect();
        let told = "claims that have no volume yet (shop/data): use each of these claims in a pod, or delete it, otherwise it goes on at \
                    2026-12-22T11:00:00Z";
        assert_eq!(waiting, [("asked", told)]);
        let found: Vec<(&str, String, ExpiryOutcome)> = found
            .iter()
            .map(|f| (f.backup.metadata.name.as_str(), super::super::keep::describe(&f.keepers), f.becomes.clone()))
            .collect();
        assert_eq!(found, expected.map(|(name, kept, becomes)| (name, kept.to_owned(), becomes)));
    }
}
