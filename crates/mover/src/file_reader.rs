//! A file of a snapshot that is read from any place.

use crate::RepositoryError;
use crate::tree::{Object, Source, TreeExtent};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

/// The pieces that are read before a reader that goes forward asks for them.
const AHEAD: usize = 3;

/// The bytes of a file from a place on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece {
    /// The place of the first byte.
    pub start: u64,
    /// The bytes: what the repository has as one.
    pub bytes: Bytes,
}

/// A file of a snapshot that is read from any place. A reader that goes forward reads each piece once.
pub struct FileReader {
    source: Source,
    object: Object,
    reading: Option<OngoingRead>,
}

/// A reading that can go on.
struct OngoingRead {
    /// The end of the piece that was given last.
    reached: u64,
    /// True where pieces are read before they are asked for.
    is_ahead: bool,
    pieces: BoxStream<'static, Result<FilePiece, RepositoryError>>,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reached = self.reading.as_ref().map(|reading| reading.reached);
        f.debug_struct("FileReader").field("object", &self.object).field("reached", &reached).finish_non_exhaustive()
    }
}

impl FileReader {
    /// Begins to read a file. Nothing is read yet.
    #[must_use]
    pub fn new(source: &Source, object: &Object) -> Self {
        Self { source: source.clone(), object: object.clone(), reading: None }
    }

    /// Reads the piece that holds a place; `None` at the end of the file and beyond. Where `reads_ahead` is set, a reader that goes
    /// forward has three pieces more in memory. A call that is dropped leaves the reader as a new one.
    ///
    /// # Errors
    /// Bytes that are missing or damaged; those of the bucket.
    pub async fn piece_at(&mut self, at: u64, reads_ahead: bool) -> Result<Option<FilePiece>, RepositoryError> {
        let going_on = self.reading.take().filter(|reading| reading.reached == at);
        let is_ahead = reads_ahead && going_on.is_some();
        let mut reading = match going_on {
            Some(reading) if reading.is_ahead || !is_ahead => reading,
            _ => self.begin(at, is_ahead),
        };
        while let Some(piece) = reading.pieces.try_next().await? {
            reading.reached = piece.start + piece.bytes.len() as u64;
            if at < reading.reached {
                self.reading = Some(reading);
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    fn begin(&self, at: u64, is_ahead: bool) -> OngoingRead {
        let source = self.source.clone();
        let read = move |extent: TreeExtent| {
            let source = source.clone();
            async move {
                let start = extent.start;
                Ok(FilePiece { start, bytes: source.read_extent(&extent).await? })
            }
        };
        let pieces = self.source.extents_from(&self.object, at).map_ok(read);
        let pieces = pieces.try_buffered(if is_ahead { AHEAD } else { 1 }).boxed();
        OngoingRead { reached: at, is_ahead, pieces }
    }
}
