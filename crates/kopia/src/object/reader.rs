//! Reading of one object, from any offset.

use super::extent::{Extent, read_extent};
use super::extents::{extents_from, length};
use crate::KopiaError;
use crate::content::Contents;
use crate::format::object_id::ObjectId;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use tokio::sync::Mutex;

/// An open object with its length. It goes on from where the last reading ended, so that reading forward takes each
/// listing and content once; going back begins at the listing again. Concurrent readings wait for each other.
#[derive(Debug)]
pub struct ObjectReader {
    contents: Contents,
    object: ObjectId,
    length: u64,
    place: Mutex<Position>,
}

/// Where the last reading ended.
#[derive(Default)]
struct Position {
    /// The extents beyond `current`, and the end of that.
    beyond: Option<(u64, BoxStream<'static, Result<Extent, KopiaError>>)>,
    current: Option<(Extent, Bytes)>,
}

impl std::fmt::Debug for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Position").field("current", &self.current.as_ref().map(|(extent, _)| extent)).finish()
    }
}

impl ObjectReader {
    /// Opens an object.
    ///
    /// # Errors
    /// A listing that is missing or damaged; those of the bucket.
    pub async fn open(contents: &Contents, object: &ObjectId) -> Result<Self, KopiaError> {
        let length = length(contents, object).await?;
        Ok(Self { contents: contents.clone(), object: *object, length, place: Mutex::default() })
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True for an object without bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Reads up to `length` bytes from `offset`; fewer at the end only.
    ///
    /// # Errors
    /// A content that is missing or damaged; those of the bucket.
    pub async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, KopiaError> {
        let end = offset.saturating_add(length as u64).min(self.length);
        let mut place = self.place.lock().await;
        let mut out = BytesMut::new();
        let mut at = offset;
        while at < end {
            let piece = self.piece_at(&mut place, at).await?;
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
            at += wanted as u64;
            if out.is_empty() && at == end {
                return Ok(piece.slice(..wanted));
            }
            out.extend_from_slice(piece.get(..wanted).unwrap_or_default());
        }
        Ok(out.freeze())
    }

    /// The bytes from an offset to the end of its extent, at least one.
    async fn piece_at(&self, place: &mut Position, at: u64) -> Result<Bytes, KopiaError> {
        let holds = |extent: &Extent| extent.start <= at && at - extent.start < extent.length;
        if let Some((extent, bytes)) = place.current.as_ref().filter(|(extent, _)| holds(extent)) {
            return Ok(bytes.slice(usize::try_from(at - extent.start).unwrap_or(usize::MAX)..));
        }
        // Where this fails nothing is kept.
        let mut beyond = match place.beyond.take() {
            Some((reached, beyond)) if reached <= at => beyond,
            _ => extents_from(&self.contents, &self.object, at),
        };
        place.current = None;
        while let Some(extent) = beyond.try_next().await? {
            if holds(&extent) {
                let bytes = read_extent(&self.contents, &extent).await?;
                let piece = bytes.slice(usize::try_from(at - extent.start).unwrap_or(usize::MAX)..);
                place.beyond = Some((extent.start + extent.length, beyond));
                place.current = Some((extent, bytes));
                return Ok(piece);
            }
        }
        let why = format!("its {} bytes end at {at}", self.length);
        Err(KopiaError::damaged(format!("object {}", self.object), why))
    }
}
