//! The rows of snapshot locations.

use crate::table::TableKind;
use jiff::Timestamp;
use lifeboat_api::{ObjectMeta, VolumeSnapshotLocation};

impl TableKind for VolumeSnapshotLocation {
    const COLUMNS: &'static [&'static str] = &["NAME", "PROVIDER"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        vec![self.metadata.name.clone(), self.spec.provider.clone()]
    }
}
