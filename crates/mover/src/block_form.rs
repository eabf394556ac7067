//! Velero's form of a block device: its words and lengths, and the options of who writes it (velero:
//! pkg/uploader/block).

use lifeboat_kopia::format::time::UnixNanos;
use std::ops::Range;

/// The tag that names the uploader, and its value for block devices.
pub(crate) const UPLOADER: (&str, &str) = ("snapshot-uploader", "velero-block");
/// The tag with the length of the device.
pub(crate) const LENGTH: &str = "bdev-source-size";
/// The length of a block; the last one of a device is filled up with zeros.
pub(crate) const BLOCK: u64 = 1 << 20;
/// The time of all its entries: Go's zero time as the format writes it, which says nothing.
pub(crate) const NO_TIME: UnixNanos = UnixNanos(-6_795_364_578_871_345_152);
/// The name of a device whose source has none.
const NAMELESS: &str = "device";

/// The form of blocks, for a device or the image of one in a file.
///
/// Policies do not count for it: blocks are not compressed. The tags `snapshot-uploader` and `bdev-source-size` of the
/// snapshot are set. Velero takes unchanged blocks over from a snapshot only where its caller has set the tags
/// `cbt-change-id` and `cbt-volume-id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockForm {
    /// The name of the device in the snapshot.
    pub name: String,
    /// The changes since an earlier snapshot; `None` reads the whole device.
    pub changes: Option<BlockChanges>,
}

/// The changes of a device since an earlier snapshot of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChanges {
    /// The ID of the earlier snapshot. Where it is not there, not whole, of another source or another length, the whole
    /// device is read, and a warning of the report says why.
    pub since: String,
    /// The ranges of bytes that may have changed, in any order. All other bytes are as they are in the earlier
    /// snapshot.
    pub ranges: Vec<Range<u64>>,
}

impl BlockForm {
    /// The form for the source that Velero calls `NAMESPACE/CLAIM`, or any other path. The whole device is read.
    pub fn of(source: &str) -> Self {
        let name = source.replace(['/', '\\'], "-");
        let name = match name.trim_matches('-') {
            "" => NAMELESS,
            name => name,
        };
        Self { name: name.to_owned(), changes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_called_like_its_source_in_one_word() {
        let name = |source: &str| BlockForm::of(source).name;
        let names = ["shop/data", "/dev/vg\\x", "--a--b//", "/", ""].map(name);
        assert_eq!(names, ["shop-data", "dev-vg-x", "a--b", "device", "device"]);
    }
}
