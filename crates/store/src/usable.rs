//! The backups of a location that have something to read.

use crate::{BackupSummary, Store, StoreError};
use lifeboat_api::{Backup, BackupPhase};

/// The backups of a location, sorted by whether they can be read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsableBackups {
    /// Backups that have contents, by the names of their folders, in the order in which they were begun; a backup
    /// without a start time counts as the oldest.
    pub oldest_first: Vec<(String, Backup)>,
    /// The number of backups that have not ended, or have failed.
    pub left_out: usize,
    /// Names of backups whose record cannot be read, and why.
    pub unreadable: Vec<(String, String)>,
}

impl UsableBackups {
    /// Sorts backups.
    #[must_use]
    pub fn of(summaries: Vec<BackupSummary>) -> Self {
        let mut sorted = Self::default();
        for summary in summaries {
            match summary.backup {
                Ok(backup) if backup.status.phase.is_some_and(BackupPhase::has_contents) => {
                    sorted.oldest_first.push((summary.name, *backup));
                }
                Ok(_) => sorted.left_out += 1,
                Err(why) => sorted.unreadable.push((summary.name, why)),
            }
        }
        sorted.oldest_first.sort_by_key(|(name, backup)| (backup.status.start_timestamp, name.clone()));
        sorted
    }
}

impl Store {
    /// The backups that have something to read, and counts and names of the others.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] when the location cannot be listed.
    pub async fn usable_backups(&self) -> Result<UsableBackups, StoreError> {
        Ok(UsableBackups::of(self.backups().await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::Time;

    fn backup(name: &str, phase: Option<BackupPhase>, second: Option<i64>) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = name.to_owned();
        backup.status.phase = phase;
        backup.status.start_timestamp = second.map(|second| Time::new(jiff::Timestamp::from_second(second).unwrap()));
        backup
    }

    #[test]
    fn those_with_contents_are_in_the_order_of_time() {
        let all = [
            backup("a", Some(BackupPhase::Completed), Some(2)),
            backup("b", Some(BackupPhase::PartiallyFailed), Some(1)),
            backup("c", Some(BackupPhase::Failed), Some(3)),
            backup("d", Some(BackupPhase::InProgress), Some(4)),
            backup("e", None, None),
            backup("f", Some(BackupPhase::Completed), None),
            backup("g", Some(BackupPhase::Completed), Some(1)),
        ];
        let [a, b, _, _, _, f, g] = all.clone().map(|backup| (backup.metadata.name.clone(), backup));
        let summary =
            |backup: Backup| BackupSummary { name: backup.metadata.name.clone(), backup: Ok(Box::new(backup)) };
        let torn = BackupSummary { name: "torn".to_owned(), backup: Err("why".to_owned()) };
        assert_eq!(
            UsableBackups::of(all.into_iter().map(summary).chain([torn]).collect()),
            UsableBackups {
                oldest_first: vec![f, b, g, a],
                left_out: 3,
                unreadable: vec![("torn".to_owned(), "why".to_owned())],
            }
        );
    }
}
