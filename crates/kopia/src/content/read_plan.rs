//! Reads planned by packs: many contents with few requests.
//!
//! What is to be read is a list of (content, where it goes). It is sorted by pack and offset; neighbours become one ranged
//! request (gaps up to 256 KiB are read along), many are in flight, each piece is decrypted and verified on a thread and
//! handed to the sink. One file of 400 GB, 77,000 small ones, a device, `cat` and `verify` are the same plan with another
//! sink.

use crate::KopiaError;
use crate::format::content_id::ContentId;
use bytes::Bytes;

/// A content that somebody wants; `tag` says what for, and may come twice with one content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<T> {
    /// The content.
    pub content: ContentId,
    /// The place where its bytes go.
    pub tag: T,
}

/// Limits of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// The bytes in flight and decrypted: taken before a request, returned after the sink has taken the piece.
    pub memory: u64,
    /// The most requests at once.
    pub requests: usize,
    /// The longest gap between two contents of a pack that is read along.
    pub gap: u32,
    /// The longest range of one request.
    pub range: u64,
}

/// The sink of a plan. Called from several threads, in no order; an error ends the reading.
pub trait Sink<T>: Send + Sync {
    /// Takes the plain bytes of a content for all tags that asked for it.
    ///
    /// # Errors
    /// Those of the sink, which end the plan.
    fn take(&self, bytes: &Bytes, tags: &[T]) -> Result<(), KopiaError>;
    /// Takes note that a content cannot be had. `Ok` goes on with the rest.
    ///
    /// # Errors
    /// Where the rest is of no use.
    fn fail(&self, error: KopiaError, tags: Vec<T>) -> Result<(), KopiaError>;
}
