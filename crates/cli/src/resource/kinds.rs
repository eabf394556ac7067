//! The kinds that are listed and made.

use super::ListedKind;
use super::keep::annotated;
use anyhow::Result;
use lifeboat_api::{Backup, BackupRepository, BackupStorageLocation, Restore, Schedule, VolumeSnapshotLocation};

impl ListedKind for Backup {}
impl ListedKind for BackupRepository {}
impl ListedKind for BackupStorageLocation {}
impl ListedKind for Restore {}
impl ListedKind for VolumeSnapshotLocation {}

impl ListedKind for Schedule {
    fn for_definition_without(&self, fields: &[String]) -> Result<Option<Self>> {
        let lacks_only_rules = fields == ["spec.retention"] && self.spec.retention.is_some();
        lacks_only_rules.then(|| annotated(self)).transpose()
    }
}
