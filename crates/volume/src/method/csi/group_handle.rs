//! Reads from objects the group in the storage that a snapshot was taken with.

use super::answer::text;
use lifeboat_api::well_known::{ANNOTATION_CSI_DRIVER_NAME, ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE};
use serde_json::Value;

/// The driver and its name of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupHandle {
    /// The driver.
    pub driver: String,
    /// Its name of the group.
    pub handle: String,
}

impl GroupHandle {
    /// The group that a VolumeSnapshotContent says that it is of; `None` when it was taken by itself.
    pub(crate) fn of_content(content: &Value) -> Option<Self> {
        Self::new(text(content, "/spec/driver"), text(content, "/status/volumeGroupSnapshotHandle"))
    }

    /// The group that is noted on a VolumeSnapshot of a backup; `None` when it was taken by itself.
    #[must_use]
    pub fn of_archived(snapshot: &Value) -> Option<Self> {
        let annotation = |key: &str| snapshot["metadata"]["annotations"][key].as_str().unwrap_or_default();
        Self::new(annotation(ANNOTATION_CSI_DRIVER_NAME), annotation(ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE))
    }

    fn new(driver: &str, handle: &str) -> Option<Self> {
        let is_one = !driver.is_empty() && !handle.is_empty();
        is_one.then(|| Self { driver: driver.to_owned(), handle: handle.to_owned() })
    }
}
