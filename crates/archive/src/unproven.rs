//! Snapshots that perhaps stay in a storage though their backup was deleted (docs/formats/unproven.md).

use serde::{Deserialize, Serialize};

/// The format of [`UnprovenDeletions`].
pub const FORMAT: &str = "lifeboat.io/unproven-deletions/v1";

/// The snapshots of a deleted backup that are perhaps still in a storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenDeletions {
    /// [`FORMAT`].
    pub format: String,
    /// The backup.
    pub backup: String,
    /// Its UID.
    #[serde(rename = "backupUID")]
    pub backup_uid: String,
    /// The UID of the cluster that had made it; `None` where that is not known.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: Option<String>,
    /// When it was deleted.
    pub deleted: String,
    /// The snapshots.
    pub snapshots: Vec<UnprovenSnapshot>,
}

/// A snapshot in a storage, or a group of them, that may be there still after its backup was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnprovenSnapshot {
    /// The CSI driver.
    pub driver: String,
    /// The driver's name of it.
    pub handle: String,
    /// Namespace and name of the VolumeSnapshot that stood for it.
    pub snapshot: String,
    /// The reason for which it is not known, for people.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_list_reads_as_its_format_says() {
        let snapshot = UnprovenSnapshot {
            driver: "csi.example.com".to_owned(),
            handle: "snap-1".to_owned(),
            snapshot: "shop/one".to_owned(),
            why: "the driver does not know it".to_owned(),
        };
        let list = UnprovenDeletions {
            format: FORMAT.to_owned(),
            backup: "nightly".to_owned(),
            backup_uid: "u".to_owned(),
            cluster_uid: None,
            deleted: "2026-11-22T12:00:00Z".to_owned(),
            snapshots: vec![snapshot],
        };
        let json = json!({"format": "lifeboat.io/unproven-deletions/v1", "backup": "nightly", "backupUID": "u", "clusterUID": null,
            "deleted": "2026-11-22T12:00:00Z", "snapshots": [{"driver": "csi.example.com", "handle": "snap-1", "snapshot": "shop/one",
            "why": "the driver does not know it"}]});
        assert_eq!(serde_json::to_value(&list).unwrap(), json);
        assert_eq!(serde_json::from_value::<UnprovenDeletions>(json).unwrap(), list);
    }
}
