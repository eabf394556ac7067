//! Which backup a schedule stands for. Pure.

use crate::backup::{Backup, BackupPhase};
use crate::label::label_value;

/// The newest backup of a schedule that can be restored, by the time at which it began; with `partly` also one that has
/// partially failed.
pub fn newest_of_schedule<'a>(
    backups: impl IntoIterator<Item = &'a Backup>,
    schedule: &str,
    partly: bool,
) -> Option<&'a Backup> {
    // A label has room for 63 characters, a name for 253.
    let label = label_value(schedule);
    let is_of_schedule = |backup: &&Backup| backup.schedule_label() == Some(&*label);
    let is_usable = |backup: &&Backup| {
        let phase = backup.status.phase.filter(|phase| phase.has_contents());
        phase.is_some_and(|phase| partly || phase == BackupPhase::Completed)
    };
    let usable = backups.into_iter().filter(is_of_schedule).filter(is_usable);
    usable.max_by_key(|backup| backup.status.start_timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;
    use crate::well_known;

    fn backup(name: &str, schedule: &str, phase: Option<BackupPhase>, second: i64) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.to_owned();
        backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.to_owned(), label_value(schedule));
        backup.status.phase = phase;
        backup.status.start_timestamp = jiff::Timestamp::from_second(second).ok().map(Time::new);
        backup
    }

    #[test]
    fn it_is_the_newest_one_of_the_schedule_that_can_be_restored() {
        let long = "nightly-of-a-team-".repeat(8);
        let backups = [
            backup("old", "nightly", Some(BackupPhase::Completed), 1),
            backup("whole", "nightly", Some(BackupPhase::Completed), 2),
            backup("partial", "nightly", Some(BackupPhase::PartiallyFailed), 3),
            backup("failed", "nightly", Some(BackupPhase::Failed), 4),
            backup("new", "nightly", None, 5),
            backup("other", "weekly", Some(BackupPhase::Completed), 6),
            backup("long", &long, Some(BackupPhase::Completed), 7),
        ];
        for (schedule, partly, expected) in [
            ("nightly", false, Some("whole")),
            ("nightly", true, Some("partial")),
            (&*long, false, Some("long")),
            ("none", true, None),
        ] {
            let found = newest_of_schedule(&backups, schedule, partly);
            assert_eq!(found.map(|backup| &*backup.metadata.name), expected, "{schedule} {partly}");
        }
    }
}
