//! Velero's form of a block device: its words and lengths, and the options of who writes it (velero:
//! pkg/uploader/block).

use lifeboat_kopia::format::time::UnixNanos;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// The tag that names the uploader.
pub(crate) const UPLOADER_TAG: &str = "snapshot-uploader";
/// The value of that tag for block devices.
pub(crate) const BLOCK_UPLOADER: &str = "velero-block";
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
    pub parent: String,
    /// The ranges of bytes that may have changed, in any order. All other bytes are as they are in the earlier
    /// snapshot.
    pub ranges: Vec<Range<u64>>,
}

/// A range of a list of changes. Storages say more of it than that.
#[derive(Deserialize)]
struct ListedRange {
    offset: u64,
    length: u64,
}

impl BlockChanges {
    /// Reads ranges from a list such as `[{"offset": 0, "length": 4096}]`.
    ///
    /// # Errors
    /// The reason for which it is no such list.
    pub fn read_ranges(text: &[u8]) -> Result<Vec<Range<u64>>, String> {
        let listed: Vec<ListedRange> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let range = |ListedRange { offset, length }: &ListedRange| match offset.checked_add(*length) {
            Some(end) => Ok(*offset..end),
            None => Err(format!("{length} bytes at {offset} end beyond all devices")),
        };
        listed.iter().map(range).collect()
    }
}

/// True for the tags of a snapshot by the uploader of blocks.
#[must_use]
pub fn is_saved_as_blocks(tags: &BTreeMap<String, String>) -> bool {
    tags.get(UPLOADER_TAG).is_some_and(|value| value == BLOCK_UPLOADER)
}

/// The length of a device that is saved as so many bytes of whole blocks, as the tags of its snapshot have it; that of the
/// blocks where they have none.
///
/// # Errors
/// The tag, where it is no length of such a device.
pub(crate) fn device_length(tags: &BTreeMap<String, String>, padded: u64) -> Result<u64, String> {
    let Some(text) = tags.get(LENGTH) else { return Ok(padded) };
    let fits = |length: &u64| *length > 0 && length.div_ceil(BLOCK).checked_mul(BLOCK) == Some(padded);
    text.parse().ok().filter(fits).ok_or_else(|| text.clone())
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
    fn the_tag_of_a_length_fits_the_blocks_or_counts_for_nothing() {
        let length = |text: &str, padded: u64| {
            device_length(&BTreeMap::from([(LENGTH.to_owned(), text.to_owned())]), padded).ok()
        };
        let mib = |count: u64| count * BLOCK;
        assert_eq!(device_length(&BTreeMap::new(), mib(3)), Ok(mib(3)));
        let fitting = ["3145728", "2097153"].map(|text| length(text, mib(3)));
        assert_eq!(fitting, [Some(mib(3)), Some(mib(2) + 1)]);
        let wrong = ["0", "5", "2097152", "3145729", "18446744073709551615", "-1", "", "3 MiB"];
        assert_eq!(wrong.map(|text| length(text, mib(3))), [None; 8]);
    }

    #[test]
    fn a_device_is_called_like_its_source_in_one_word() {
        let name = |source: &str| BlockForm::of(source).name;
        let names = ["shop/data", "/dev/vg\\x", "--a--b//", "/", ""].map(name);
        assert_eq!(names, ["shop-data", "dev-vg-x", "a--b", "device", "device"]);
    }
}
