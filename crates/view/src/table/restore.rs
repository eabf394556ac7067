//! The rows of restores.

use crate::table::TableKind;
use jiff::Timestamp;
use lifeboat_api::{ObjectMeta, Restore, RestorePhase};
use lifeboat_terminal::output::table::{selector, time};

impl TableKind for Restore {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "BACKUP", "STATUS", "STARTED", "COMPLETED", "ERRORS", "WARNINGS", "CREATED", "SELECTOR"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let status = &self.status;
        let phase = status.phase.map_or("New", RestorePhase::as_str);
        let deleting = if self.metadata.deletion_timestamp.is_some() { " (Deleting)" } else { "" };
        vec![
            self.metadata.name.clone(),
            self.spec.backup_name.clone(),
            format!("{phase}{deleting}"),
            time(status.start_timestamp),
            time(status.completion_timestamp),
            status.errors.to_string(),
            status.warnings.to_string(),
            time(self.metadata.creation_timestamp),
            selector(self.spec.label_selector.as_ref()),
        ]
    }
}
