//! A file that is open.

use lifeboat_mover::FileReader;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

/// A file that is open. Readings of it wait for each other.
#[derive(Debug)]
pub struct OpenFile {
    /// Its inode.
    pub(crate) inode: u64,
    /// Its length.
    pub(crate) size: u64,
    pub(crate) reader: Mutex<FileReader>,
    /// The right to read ahead, which few files have at once.
    pub(crate) ahead: Option<OwnedSemaphorePermit>,
}
