//! Writing of objects: cut into contents, listed where there are several.

use crate::KopiaError;
use crate::compression::Compression;
use crate::content::writer::ContentWriter;
use crate::format::object_id::ObjectId;
use crate::splitter::SplitterAlgorithm;
use bytes::Bytes;

/// Options of an object that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectOptions {
    /// The prefix of its contents: none for data of files, `k` for directories.
    pub prefix: Option<u8>,
    /// The compression of its contents.
    pub compression: Option<Compression>,
    /// The compression of its listing.
    pub metadata_compression: Option<Compression>,
    /// The splitter; `None` for that of the repository.
    pub splitter: Option<SplitterAlgorithm>,
}

/// An object in the making. What it has begun ends when it is dropped.
#[derive(Debug)]
pub struct ObjectWriter {}

impl ObjectWriter {
    /// Adds the next bytes of the object. Contents are stored side by side, as far as the memory of the writer reaches; the
    /// failure of one is told by this or a later call.
    ///
    /// # Errors
    /// Those of [`ContentWriter::write`].
    pub async fn write(&mut self, _bytes: Bytes) -> Result<(), KopiaError> {
        todo!()
    }

    /// The ID of what was written so far, cut at the end of the last finished chunk; `None` where no chunk is finished. The
    /// object goes on.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn checkpoint(&mut self) -> Result<Option<ObjectId>, KopiaError> {
        todo!()
    }

    /// Stores the rest and gives the ID of the object.
    ///
    /// # Errors
    /// As [`ObjectWriter::write`].
    pub async fn finish(self) -> Result<ObjectId, KopiaError> {
        todo!()
    }
}

/// The object whose bytes are those of several, one after the other: a listing of their contents. Of one part it is that part.
///
/// # Errors
/// No parts; a part that is missing or damaged; those of [`ContentWriter::write`].
pub async fn concatenate(
    _writer: &ContentWriter,
    _parts: &[ObjectId],
    _options: ObjectOptions,
) -> Result<ObjectId, KopiaError> {
    todo!()
}
