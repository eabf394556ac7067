//! Output of a backup: entries of the archive, its members, and the record that makes the backup exist.

pub(crate) mod archive_upload;
pub(crate) mod entry;
pub(crate) mod entry_sender;
pub(crate) mod limits;
pub(crate) mod seal;
pub(crate) mod write;
