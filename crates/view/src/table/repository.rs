//! The rows of repositories.

use crate::table::TableKind;
use jiff::Timestamp;
use lifeboat_api::{BackupRepository, BackupRepositoryPhase, ObjectMeta};
use lifeboat_terminal::output::table::time;

impl TableKind for BackupRepository {
    const COLUMNS: &'static [&'static str] = &["NAME", "STATUS", "LAST MAINTENANCE"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let phase = self.status.phase.unwrap_or(BackupRepositoryPhase::New);
        let maintained = self.status.last_maintenance_time;
        let maintained = if maintained.is_some() { time(maintained) } else { "<never>".to_owned() };
        vec![self.metadata.name.clone(), phase.as_str().to_owned(), maintained]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_that_of_velero() {
        let now = Timestamp::UNIX_EPOCH;
        let mut repository = BackupRepository::default();
        repository.metadata.name = "shop-default-kopia".into();
        assert_eq!(repository.cells(now), ["shop-default-kopia", "New", "<never>"]);
        repository.status.phase = Some(BackupRepositoryPhase::NotReady);
        assert_eq!(repository.cells(now)[1], "NotReady");
    }
}
