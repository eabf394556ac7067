//! Contents that are wanted, the limits of reading them, and the sink that takes them.

use crate::KopiaError;
use crate::format::content_id::ContentId;
use crate::format::index::Entry;
use bytes::Bytes;

/// A content that somebody wants. One content may be wanted several times; within a window it is read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<T> {
    /// The content.
    pub content: ContentId,
    /// True where the bytes are to be decompressed once more, because the object was compressed as a whole (`Z`).
    pub is_compressed: bool,
    /// The fewest bytes that are expected; fewer are an error.
    pub length: u64,
    /// The place where its bytes go.
    pub tag: T,
}

impl<T> Wanted<T> {
    /// A whole content, of whatever length.
    pub fn whole(content: ContentId, tag: T) -> Self {
        Self { content, is_compressed: false, length: 0, tag }
    }
}

/// Limits of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// The bytes in flight and decrypted: taken before a request, returned after the sink has taken its pieces. A request
    /// that is larger than that goes alone.
    pub memory: u64,
    /// The most requests at once.
    pub requests: usize,
    /// The threads that decrypt.
    pub threads: usize,
    /// The longest gap between two contents of a pack that is read along.
    pub gap: u32,
    /// The longest range of one request, but for a single content that is longer.
    pub range: u64,
    /// The contents that are sorted at once. Each takes about 150 bytes, and its tag.
    pub window: usize,
}

impl ReadLimits {
    /// Limits for so much memory and so many threads.
    pub fn new(memory: u64, threads: usize) -> Self {
        let range = (memory / 8).clamp(256 << 10, 16 << 20);
        Self { memory, requests: 32, threads: threads.max(1), gap: 256 << 10, range, window: 1 << 16 }
    }
}

/// The sink of a plan. Called from several threads, in no order; an error ends the reading.
pub trait Sink<T>: Send + Sync + 'static {
    /// Takes note of the place where a content is about to be read, for one who asked for it.
    fn note_place(&self, _entry: &dyn Fn() -> Entry, _tag: &mut T) {}

    /// Takes the plain bytes of a content for all tags that asked for it.
    ///
    /// # Errors
    /// Errors of the sink, which end the plan.
    fn take(&self, bytes: &Bytes, tags: Vec<T>) -> Result<(), KopiaError>;

    /// Takes note that a content cannot be had. `Ok` goes on with the rest.
    ///
    /// # Errors
    /// Where the rest is of no use.
    fn fail(&self, error: KopiaError, tags: Vec<T>) -> Result<(), KopiaError>;
}
