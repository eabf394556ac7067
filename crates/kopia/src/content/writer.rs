//! Writing of contents: each once, into packs that an index follows.

use crate::KopiaError;
use crate::compression::Compression;
use crate::format::content_id::ContentId;
use crate::format::index::Entry;
use bytes::Bytes;

/// Counts of a writer, from one flush to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Contents that were stored.
    pub new_contents: u64,
    /// Their plain bytes.
    pub new_bytes: u64,
    /// Their bytes in packs: compressed and encrypted.
    pub stored_bytes: u64,
    /// Contents that were there already.
    pub reused_contents: u64,
    /// Their plain bytes.
    pub reused_bytes: u64,
    /// Contents that were marked deleted.
    pub deleted_contents: u64,
    /// Contents that were copied into another pack, and their bytes there.
    pub rewritten_contents: u64,
    /// The bytes of contents that were copied.
    pub rewritten_bytes: u64,
    /// Packs that were put.
    pub packs: u64,
    /// Their bytes.
    pub pack_bytes: u64,
    /// Index blobs that were put.
    pub index_blobs: u64,
    /// Their bytes.
    pub index_bytes: u64,
}

/// A writer of contents. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct ContentWriter {}

impl ContentWriter {
    /// Stores bytes, unless they are there already or another task is storing them. They are durable after the next flush.
    ///
    /// # Errors
    /// A prefix that is no letter `g` to `z`; bytes beyond what an index can tell; an earlier failure of the writer.
    pub async fn write(
        &self,
        _prefix: Option<u8>,
        _plain: Bytes,
        _compression: Option<Compression>,
    ) -> Result<ContentId, KopiaError> {
        todo!()
    }

    /// Marks a content deleted. One that is deleted already stays as it is.
    ///
    /// # Errors
    /// A content that does not exist; an earlier failure of the writer.
    pub async fn delete(&self, _id: &ContentId) -> Result<(), KopiaError> {
        todo!()
    }

    /// Copies a content as it is stored into a new pack, after its bytes were verified. A deleted one stays deleted.
    ///
    /// # Errors
    /// A content that is missing or damaged; an earlier failure of the writer.
    pub async fn rewrite(&self, _id: &ContentId) -> Result<(), KopiaError> {
        todo!()
    }

    /// Copies a deleted content as [`ContentWriter::rewrite`] does and marks it as live. One that is live stays as it is.
    ///
    /// # Errors
    /// As [`ContentWriter::rewrite`].
    pub async fn undelete(&self, _id: &ContentId) -> Result<(), KopiaError> {
        todo!()
    }

    /// The entry that counts for a content, pending ones included.
    ///
    /// # Errors
    /// Errors of the scratch space.
    pub fn find(&self, _id: &ContentId) -> Result<Option<Entry>, KopiaError> {
        todo!()
    }

    /// Reads a content, pending ones included.
    ///
    /// # Errors
    /// A content that is missing or damaged; those of the bucket.
    pub async fn read(&self, _id: &ContentId) -> Result<Bytes, KopiaError> {
        todo!()
    }

    /// Writes what is pending: packs, then the index, and then the marker of the session goes.
    ///
    /// # Errors
    /// Errors of the bucket. What was not flushed is lost then, and every later call fails for the same reason.
    pub async fn flush(&self) -> Result<Written, KopiaError> {
        todo!()
    }
}
