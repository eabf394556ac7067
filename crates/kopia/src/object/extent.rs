//! One content of an object.

use crate::KopiaError;
use crate::content::read_plan::Wanted;
use crate::content::{Contents, decompress_object};
use crate::format::content_id::ContentId;
use crate::tasks::blocking;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

/// The contents that are read ahead of the caller.
const AHEAD: usize = 4;

/// A piece of an object that is one content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The offset in the object.
    pub start: u64,
    /// The length. The content may have more bytes than that, which do not belong to the object.
    pub length: u64,
    /// True where the content is to be decompressed once more (`Z`).
    pub is_compressed: bool,
    /// The content.
    pub content: ContentId,
}

impl Extent {
    /// The content as something that is wanted from a plan of reads.
    pub fn wanted<T>(&self, tag: T) -> Wanted<T> {
        let Self { length, is_compressed, content, .. } = *self;
        Wanted { content, is_compressed, length, tag }
    }
}

/// Reads extents in their order, some ahead.
pub(super) fn bytes_of(
    contents: Contents,
    extents: BoxStream<'static, Result<Extent, KopiaError>>,
) -> BoxStream<'static, Result<Bytes, KopiaError>> {
    let read = move |extent| {
        let contents = contents.clone();
        async move { read_extent(&contents, &extent).await }
    };
    extents.map_ok(read).try_buffered(AHEAD).boxed()
}

/// Reads the bytes of one extent.
///
/// # Errors
/// A content that is missing or damaged; those of the bucket.
pub async fn read_extent(contents: &Contents, extent: &Extent) -> Result<Bytes, KopiaError> {
    let bytes = decompressed(contents, extent).await?;
    match usize::try_from(extent.length).ok().filter(|length| *length <= bytes.len()) {
        Some(length) => Ok(bytes.slice(..length)),
        None => {
            let why = format!("it has {} bytes, the object that it is a part of needs {}", bytes.len(), extent.length);
            Err(KopiaError::damaged(format!("content {}", extent.content), why))
        }
    }
}

/// Reads the content of an extent whole, decompressed where the object is.
pub(super) async fn decompressed(contents: &Contents, extent: &Extent) -> Result<Bytes, KopiaError> {
    let bytes = contents.read(&extent.content).await?;
    if !extent.is_compressed {
        return Ok(bytes);
    }
    let content = extent.content;
    blocking(move || decompress_object(&content, &bytes)).await
}
