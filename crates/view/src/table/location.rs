//! The rows of backup storage locations.

use crate::table::TableKind;
use jiff::Timestamp;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, ObjectMeta};
use lifeboat_terminal::output::table::time;

impl TableKind for BackupStorageLocation {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "PROVIDER", "BUCKET/PREFIX", "PHASE", "LAST VALIDATED", "ACCESS MODE", "DEFAULT"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let (spec, status) = (&self.spec, &self.status);
        let storage = &spec.object_storage;
        let slash = if storage.prefix.is_empty() { "" } else { "/" };
        vec![
            self.metadata.name.clone(),
            spec.provider.clone(),
            format!("{}{slash}{}", storage.bucket, storage.prefix),
            status.phase.map_or("Unknown", BackupStorageLocationPhase::as_str).to_owned(),
            status.last_validation_time.map_or_else(|| "Unknown".to_owned(), |at| time(Some(at))),
            spec.access_mode.map_or("ReadWrite", BackupStorageLocationAccessMode::as_str).to_owned(),
            if spec.default { "true".to_owned() } else { String::new() },
        ]
    }
}
