//! The bytes of a file to be stored: in memory, or in another place from which they can be read any number of times.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lifeboat_archive::sidecar::FileDigest;
use lifeboat_bucket::{BucketError, ByteStream, ErrorKind};
use sha2::{Digest, Sha256};
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Bytes that are read at once.
pub(crate) const PIECE: usize = 1 << 20;
/// The most bytes that are put as a whole: a bucket tries these again itself, and asks each time whether it still may.
const WHOLE: u64 = 4 << 20;

/// The bytes of a file that is to be stored. They can be read again, so that storing them can be tried again
/// without all of them in memory.
#[derive(Clone, Default)]
pub struct Content(Vec<Part>);

#[derive(Clone)]
enum Part {
    Bytes(Bytes),
    Elsewhere { length: u64, read: ReadAt },
}

/// Reads at most so many bytes from this one on, on a thread that may wait.
type ReadAt = Arc<dyn Fn(u64, usize) -> io::Result<Bytes> + Send + Sync>;

impl Content {
    /// Creates content of so many bytes that a function reads: it is asked for at most so many (never more than there
    /// are, and at most 1 MiB) from this offset on, and gives at least one. It may wait for a disk. The bytes that it
    /// gives must not change.
    #[must_use]
    pub fn read_by(length: u64, read: impl Fn(u64, usize) -> io::Result<Bytes> + Send + Sync + 'static) -> Self {
        Self(vec![Part::Elsewhere { length, read: Arc::new(read) }])
    }

    /// The first bytes of a file that nothing changes meanwhile.
    pub(crate) fn of_file(file: File, length: u64) -> Self {
        Self::read_by(length, move |at, most| {
            let mut piece = vec![0; most];
            file.read_exact_at(&mut piece, at)?;
            Ok(piece.into())
        })
    }

    /// This, and the other behind it.
    #[must_use]
    pub fn followed_by(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Bytes of it.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.0.iter().map(Part::length).sum()
    }

    /// All of it, when it is in memory or small.
    pub(crate) async fn whole(&self, key: &str) -> Result<Option<Bytes>, BucketError> {
        if let [Part::Bytes(bytes)] = self.0.as_slice() {
            return Ok(Some(bytes.clone()));
        }
        if self.length() > WHOLE {
            return Ok(None);
        }
        let mut whole = Vec::new();
        let mut pieces = self.pieces(key);
        while let Some(piece) = pieces.try_next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole.into()))
    }

    /// Computes the size and hash, before the content is stored under a key.
    pub(crate) async fn digest(&self, key: &str) -> Result<FileDigest, BucketError> {
        let mut hasher = Sha256::new();
        let mut pieces = self.pieces(key);
        while let Some(piece) = pieces.try_next().await? {
            hasher.update(&piece);
        }
        Ok(FileDigest { size: self.length(), sha256: hex::encode(hasher.finalize()) })
    }

    /// Its bytes from the first to the last, read as they are asked for. `key` is where they are stored, for errors.
    pub(crate) fn pieces(&self, key: &str) -> ByteStream {
        let key = key.to_owned();
        let pieces = futures::stream::iter(self.0.clone()).map(Part::pieces).flatten();
        pieces.map_err(move |source| unreadable(&key, &source)).boxed()
    }
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Elsewhere { length, .. } => *length,
        }
    }

    fn pieces(self) -> BoxStream<'static, io::Result<Bytes>> {
        let (length, read) = match self {
            Self::Bytes(bytes) => return futures::stream::once(async { Ok(bytes) }).boxed(),
            Self::Elsewhere { length, read } => (length, read),
        };
        futures::stream::try_unfold(0, move |at| {
            let read = Arc::clone(&read);
            async move {
                let most = usize::try_from(length - at).map_or(PIECE, |left| left.min(PIECE));
                if most == 0 {
                    return Ok(None);
                }
                let piece = spawn_blocking(move || read(at, most)).await.map_err(io::Error::other)??;
                if piece.is_empty() || piece.len() > most {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let next = at + piece.len() as u64;
                Ok(Some((piece, next)))
            }
        })
        .boxed()
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self(vec![Part::Bytes(bytes)])
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl Debug for Content {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("length", &self.length()).finish_non_exhaustive()
    }
}

fn unreadable(key: &str, source: &io::Error) -> BucketError {
    BucketError {
        kind: ErrorKind::Other,
        operation: "put",
        key: key.to_owned(),
        store: "scratch space".to_owned(),
        message: format!("what is to be stored cannot be read: {source}"),
        source: None,
    }
}
