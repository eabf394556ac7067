//! The cluster that lets a backup go when its time is over: the one that has made it, because it alone knows what the
//! backup is for.

use super::taken_over::{is_of_another_cluster, source_cluster};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupStorageLocation, Time, well_known};
use std::collections::HashMap;

/// A cluster of which no backup in a location is younger, by the last look at it, is taken for gone.
const UNSEEN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// An older look says nothing of what is there now.
const RECENT: SignedDuration = SignedDuration::from_hours(24);

/// When the newest backup of each other cluster in each location ended, as this cluster sees it.
#[derive(Debug)]
pub struct Sightings<'b> {
    /// The UID of this cluster; empty when unknown.
    this: &'b str,
    /// By the cluster and the location.
    newest: HashMap<(&'b str, &'b str), Timestamp>,
}

impl<'b> Sightings<'b> {
    /// Gathers the sightings from these backups.
    pub fn of(backups: impl IntoIterator<Item = &'b Backup>, this: &'b str) -> Self {
        let mut seen = HashMap::new();
        for backup in backups {
            let (Some(cluster), status) = (source_cluster(backup), &backup.status) else { continue };
            let Some(end) = status.completion_timestamp.or(status.start_timestamp).map(Time::timestamp) else {
                continue;
            };
            let newest = seen.entry((cluster, backup.spec.storage_location.as_str())).or_insert(end);
            *newest = end.max(*newest);
        }
        Self { this, newest: seen }
    }

    /// The UID of the cluster to which it is left to let a backup go; `None` where this one does. A cluster whose backups nobody could
    /// tell from its claims, such as one of Velero, is not known.
    pub fn expires_elsewhere<'a>(
        &self,
        backup: &'a Backup,
        location: Option<&BackupStorageLocation>,
        now: Timestamp,
    ) -> Option<&'a str> {
        let cluster = source_cluster(backup).filter(|_| is_of_another_cluster(backup, self.this))?;
        let is_told =
            location.is_some_and(|location| location.metadata.says_true(well_known::ANNOTATION_EXPIRE_OTHERS));
        let seen = self.newest.get(&(cluster, backup.spec.storage_location.as_str()));
        // What came since the last sync is not known: a server that was away for weeks has seen nobody.
        let looked = location.and_then(|location| location.status.last_synced_time).map(Time::timestamp);
        let looked = looked.filter(|at| now.duration_since(*at) < RECENT);
        let is_unseen = |seen: &Timestamp| looked.is_some_and(|at| at.min(now).duration_since(*seen) > UNSEEN);
        let is_gone = seen.is_some_and(is_unseen);
        (!is_told && (has_snapshots(backup) || !is_gone)).then_some(cluster)
    }
}

/// Returns true if parts of a backup may lie outside of its bucket, where only its own cluster reaches them. A backup
/// with a known cluster was made by Lifeboat, so its moved data and the volumes of its pods are counted as operations.
fn has_snapshots(backup: &Backup) -> bool {
    let status = &backup.status;
    let made = [
        status.volume_snapshots_attempted,
        status.volume_snapshots_completed,
        status.csi_volume_snapshots_attempted,
        status.csi_volume_snapshots_completed,
        status.backup_item_operations_attempted,
    ];
    made.into_iter().any(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::super::taken_over::{note_source_cluster, note_taken_over};
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-{text}T00:00:00Z").parse().unwrap()
    }

    fn backup(source: Option<&str>, is_own: bool, ended: &str) -> Backup {
        let mut backup = Backup::default();
        note_taken_over(&mut backup.metadata, is_own);
        note_source_cluster(&mut backup.metadata, source);
        backup.spec.storage_location = "main".into();
        backup.status.completion_timestamp = Some(Time::new(at(ended)));
        backup
    }

    #[test]
    fn a_backup_goes_by_the_cluster_that_has_made_it() {
        let now = at("06-30");
        let synced = |when: &str| {
            let mut location = BackupStorageLocation::default();
            location.status.last_synced_time = Some(Time::new(at(when)));
            location
        };
        let plain = || synced("06-30");
        let with = |value: &str| {
            let mut location = plain();
            location.metadata.annotations.insert(well_known::ANNOTATION_EXPIRE_OTHERS.into(), value.into());
            location
        };
        let snapshots = |mut backup: Backup| {
            backup.status.csi_volume_snapshots_attempted = 1;
            backup
        };
        let moved = |mut backup: Backup| {
            backup.status.backup_item_operations_attempted = 1;
            backup
        };
        for (what, backup, location, newest, expected) in [
            ("our own", backup(Some("a"), true, "06-01"), Some(plain()), "06-29", None),
            ("of nobody known, as all of Velero", backup(None, false, "01-01"), Some(plain()), "06-29", None),
            ("of another cluster", backup(Some("a"), false, "01-01"), Some(plain()), "06-29", Some("a")),
            ("of one that is not seen", backup(Some("a"), false, "01-01"), Some(plain()), "05-30", None),
            ("of one that was seen", backup(Some("a"), false, "01-01"), Some(plain()), "05-31", Some("a")),
            (
                "of one that nobody looked for",
                backup(Some("a"), false, "01-01"),
                Some(synced("06-28")),
                "05-30",
                Some("a"),
            ),
            (
                "where nobody has ever looked",
                backup(Some("a"), false, "01-01"),
                Some(BackupStorageLocation::default()),
                "05-30",
                Some("a"),
            ),
            ("with snapshots", snapshots(backup(Some("a"), false, "01-01")), Some(plain()), "01-01", Some("a")),
            ("with moved data", moved(backup(Some("a"), false, "01-01")), Some(plain()), "01-01", Some("a")),
            ("as told", snapshots(backup(Some("a"), false, "01-01")), Some(with("true")), "06-29", None),
            ("told otherwise", backup(Some("a"), false, "01-01"), Some(with("false")), "06-29", Some("a")),
            ("without a location", backup(Some("a"), false, "01-01"), None, "06-29", Some("a")),
        ] {
            let mut of_another_location = self::backup(Some("a"), false, "06-29");
            of_another_location.spec.storage_location = "else".into();
            let all = [backup.clone(), self::backup(Some("a"), false, newest), of_another_location];
            let seen = Sightings::of(&all, "");
            assert_eq!(seen.expires_elsewhere(&backup, location.as_ref(), now), expected, "{what}");
            let (itself, another) = (Sightings::of(&all, "a"), Sightings::of(&all, "b"));
            assert_eq!(itself.expires_elsewhere(&backup, location.as_ref(), now), None, "{what}: here is cluster a");
            let copied = source_cluster(&backup).filter(|_| what == "our own").or(expected);
            assert_eq!(another.expires_elsewhere(&backup, location.as_ref(), now), copied, "{what}: here is cluster b");
        }
    }
}
