//! The rows of backups.

use crate::table::TableKind;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, ObjectMeta, Time};
use lifeboat_terminal::output::table::{selector, time, until};

impl TableKind for Backup {
    const COLUMNS: &'static [&'static str] = &[
        "NAME",
        "STATUS",
        "ERRORS",
        "WARNINGS",
        "CREATED",
        "EXPIRES",
        "STORAGE LOCATION",
        "QUEUE POSITION",
        "SELECTOR",
    ];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let status = &self.status;
        let phase = match status.phase {
            _ if self.metadata.deletion_timestamp.is_some() => "Deleting",
            Some(phase) => phase.as_str(),
            None => "New",
        };
        let ttl = SignedDuration::from_nanos(self.spec.ttl.nanoseconds());
        let end = status
            .expiration
            .map(Time::timestamp)
            .or_else(|| status.start_timestamp?.timestamp().checked_add(ttl).ok());
        vec![
            self.metadata.name.clone(),
            phase.to_owned(),
            status.errors.to_string(),
            status.warnings.to_string(),
            time(status.start_timestamp),
            until(end, now),
            self.spec.storage_location.clone(),
            if status.queue_position == 0 { String::new() } else { status.queue_position.to_string() },
            selector(self.spec.label_selector.as_ref()),
        ]
    }

    /// Sorts by name; backups of one schedule with the newest first.
    fn sort(backups: &mut [Self]) {
        fn series(name: &str) -> Option<(&str, &str)> {
            let (prefix, stamp) = name.rsplit_once('-')?;
            (stamp.len() == 14 && stamp.bytes().all(|b| b.is_ascii_digit())).then_some((prefix, stamp))
        }
        backups.sort_by(|a, b| {
            let (a, b) = (a.metadata.name.as_str(), b.metadata.name.as_str());
            match (series(a), series(b)) {
                (Some((p, x)), Some((q, y))) if p == q => y.cmp(x),
                _ => a.cmp(b),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupPhase;

    #[test]
    fn a_row_is_that_of_velero() {
        let at = |text: &str| Time::new(text.parse().unwrap());
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        let now = at("2026-11-21T10:00:00Z").timestamp();
        assert_eq!(backup.cells(now), ["b", "New", "0", "0", "n/a", "n/a", "", "", "<none>"]);
        backup.status.phase = Some(BackupPhase::PartiallyFailed);
        backup.status.errors = 2;
        backup.status.queue_position = 3;
        backup.status.expiration = Some(at("2026-11-22T09:00:00Z"));
        backup.spec.storage_location = "default".into();
        assert_eq!(backup.cells(now), ["b", "PartiallyFailed", "2", "0", "n/a", "23h", "default", "3", "<none>"]);
        backup.metadata.deletion_timestamp = Some(at("2026-11-21T09:00:00Z"));
        assert_eq!(backup.cells(now)[1], "Deleting");
    }

    #[test]
    fn backups_of_a_schedule_stand_newest_first() {
        let names = |names: &[&str]| -> Vec<Backup> {
            names
                .iter()
                .map(|name| {
                    let mut b = Backup::default();
                    b.metadata.name = (*name).into();
                    b
                })
                .collect()
        };
        let mut all = names(&["b", "a-20260101000000", "a-20260201000000", "a-x", "c"]);
        Backup::sort(&mut all);
        let got: Vec<&str> = all.iter().map(|b| b.metadata.name.as_str()).collect();
        assert_eq!(got, ["a-20260201000000", "a-20260101000000", "a-x", "b", "c"]);
    }
}
