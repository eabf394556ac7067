//! Contents: found through the indexes, read from packs.
//!
//! The indexes that count are found by the rules of epochs ([`epochs`]) or of the legacy manager; their union lies sorted
//! on scratch ([`index_set`]), never in the heap as a whole. What is to be read is planned by packs ([`read_plan`]).

use crate::KopiaError;
use crate::format::content_id::ContentId;
use crate::format::index::Entry;
use bytes::Bytes;

pub mod epochs;
pub mod index_set;
pub mod legacy;
pub mod read_plan;
pub mod recovery;

/// The contents of a repository, as of the last refresh.
#[derive(Debug)]
pub struct Contents {}

impl Contents {
    /// Lists and loads the indexes that count now. Called by itself when the last refresh is more than 15 minutes old.
    ///
    /// # Errors
    /// Those of the bucket and of the scratch space; an index that is damaged.
    pub async fn refresh(&self) -> Result<(), KopiaError> {
        todo!()
    }
    /// Finds the entry that counts for a content; deleted ones too, until the watermark has passed them.
    ///
    /// # Errors
    /// Those of the scratch space; an index that is damaged.
    pub fn find(&self, id: &ContentId) -> Result<Option<Entry>, KopiaError> {
        todo!()
    }
    /// Walks all entries in the order of IDs, `prefix` alone where it is given.
    pub fn scan(&self, prefix: Option<u8>) -> index_set::Scan<'_> {
        todo!()
    }
    /// Reads one content: decrypted, decompressed, its length and hash compared.
    ///
    /// # Errors
    /// A content that is missing or damaged; those of the bucket.
    pub async fn read(&self, id: &ContentId) -> Result<Bytes, KopiaError> {
        todo!()
    }
}
