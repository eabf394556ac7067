//! Volumes that were saved as devices: by the uploader of files, and by Velero's for block devices (velero: pkg/uploader/block).
//!
//! Both are a directory with one file, the bytes of the device. The first calls it by the path of the device, which no file can have as its
//! name. The second calls it like a file, fills it up to whole blocks, and says in the tags of the snapshot what it is.

use super::target::only_file;
use crate::MoverError;
use crate::block_form::{LENGTH, device_length, is_saved_as_blocks};
use crate::tree::{EntryKind, Source, SourceEntry};
use std::collections::BTreeMap;

/// A device as it was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedDevice {
    /// The file with its bytes, and perhaps more.
    pub file: SourceEntry,
    /// The length of the device.
    pub length: u64,
    /// True when the device is that of a volume which may be mounted, as the block uploader saves it.
    pub may_have_files: bool,
}

/// The device that a snapshot with this root and these tags is of; `None` for the files of a volume.
///
/// # Errors
/// A snapshot of the block uploader that has not what those have, and the listing of the root.
pub async fn saved_device(
    source: &Source,
    root: &SourceEntry,
    tags: &BTreeMap<String, String>,
) -> Result<Option<SavedDevice>, MoverError> {
    let is_by_blocks = is_saved_as_blocks(tags);
    let file = match &root.kind {
        EntryKind::Directory => only_file(source, root).await?,
        // No volume with files is a file.
        EntryKind::File => Some(root.clone()),
        EntryKind::Symlink | EntryKind::Special(_) | EntryKind::Unknown(_) => None,
    };
    if !is_by_blocks {
        let is_device =
            |file: &SourceEntry| root.kind == EntryKind::File || file.name.as_encoded_bytes().contains(&b'/');
        return Ok(file.filter(is_device).map(|file| SavedDevice { length: file.size, file, may_have_files: false }));
    }
    let of = "a snapshot of the data mover velero-block";
    let Some(file) = file else {
        return Err(MoverError::Refused(format!("{of} is a directory with one file, and this one has something else")));
    };
    match device_length(tags, file.size) {
        Ok(length) => Ok(Some(SavedDevice { file, length, may_have_files: true })),
        Err(told) => {
            let size = file.size;
            Err(MoverError::Refused(format!(
                "{of} has the bytes of its device, filled up to whole MiB: this one has {size}, and its tag {LENGTH} says \
                 {told:?}"
            )))
        }
    }
}
