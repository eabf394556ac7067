//! The snapshot that a VolumeSnapshotContent describes, and its deletion policy.

use super::answer::text;
use serde_json::Value;

/// The policy for the snapshot in the storage when its content is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionPolicy {
    /// It stays.
    Retain,
    /// The driver deletes it.
    Delete,
}

impl DeletionPolicy {
    /// The value of `spec.deletionPolicy`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Retain => "Retain",
            Self::Delete => "Delete",
        }
    }
}

/// A snapshot in the storage, as its VolumeSnapshotContent describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotContent {
    /// The name of the object.
    pub name: String,
    /// `Delete` or `Retain`.
    pub deletion_policy: String,
    /// The driver.
    pub driver: String,
    /// The driver's name of the snapshot; empty while it is not taken.
    pub handle: String,
    /// Bytes of a volume that is made from it; 0 when the driver does not say.
    pub restore_size: i64,
    /// True when volumes can be made from it; `None` when the driver does not say.
    pub is_ready: Option<bool>,
    /// The last error of its driver; empty for none.
    pub error: String,
    /// The driver's name of the group that it was taken with; empty for none.
    pub group_handle: String,
}

impl SnapshotContent {
    /// Reads one.
    #[must_use]
    pub fn of(content: &Value) -> Self {
        let text = |pointer: &str| text(content, pointer).to_owned();
        Self {
            name: text("/metadata/name"),
            deletion_policy: text("/spec/deletionPolicy"),
            driver: text("/spec/driver"),
            handle: text("/status/snapshotHandle"),
            restore_size: content.pointer("/status/restoreSize").and_then(Value::as_i64).unwrap_or_default(),
            is_ready: content.pointer("/status/readyToUse").and_then(Value::as_bool),
            error: text("/status/error/message"),
            group_handle: text("/status/volumeGroupSnapshotHandle"),
        }
    }

    /// Its size as a quantity, in the largest power of 1024 that it is a multiple of, as Velero writes it.
    #[must_use]
    pub fn restore_quantity(&self) -> String {
        let units = ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"];
        let mut scale = 1i64 << 60;
        for unit in units {
            if self.restore_size >= scale && self.restore_size % scale == 0 {
                return format!("{}{unit}", self.restore_size / scale);
            }
            scale >>= 10;
        }
        self.restore_size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_content_says_where_the_snapshot_is() {
        let content = json!({"metadata": {"name": "snapcontent-1"}, "spec": {"deletionPolicy": "Delete", "driver": "d"},
            "status": {"snapshotHandle": "snap-1", "restoreSize": 8_388_608, "readyToUse": true, "creationTime": 1,
                "error": {"message": "was slow"}, "volumeGroupSnapshotHandle": "group-1"}});
        let expected = SnapshotContent {
            name: "snapcontent-1".into(),
            deletion_policy: "Delete".into(),
            driver: "d".into(),
            handle: "snap-1".into(),
            restore_size: 8_388_608,
            is_ready: Some(true),
            error: "was slow".into(),
            group_handle: "group-1".into(),
        };
        assert_eq!(SnapshotContent::of(&content), expected);
        assert_eq!(SnapshotContent::of(&json!({"status": null})), SnapshotContent::default());
    }

    #[test]
    fn a_size_is_written_in_its_largest_unit() {
        for (size, expected) in [
            (0, "0"),
            (1, "1"),
            (1500, "1500"),
            (1024, "1Ki"),
            (8_388_608, "8Mi"),
            (1 << 30, "1Gi"),
            (3 << 29, "1536Mi"),
        ] {
            assert_eq!(
                SnapshotContent { restore_size: size, ..SnapshotContent::default() }.restore_quantity(),
                expected
            );
        }
    }
}
