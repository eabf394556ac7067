//! Limits of reading.

/// Limits of the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// The bytes in flight and decrypted. A request that is larger than that goes alone.
    pub memory: u64,
    /// The most requests at once.
    pub requests: usize,
    /// The threads that decrypt.
    pub threads: usize,
    /// The longest gap between two blobs of a pack that is read along.
    pub gap: u64,
    /// The longest range of one request, but for a single blob that is longer.
    pub range: u64,
    /// The blobs that are sorted at once.
    pub window: usize,
}

impl ReadLimits {
    /// Limits for so much memory and so many threads.
    #[must_use]
    pub fn new(memory: u64, threads: usize) -> Self {
        let range = (memory / 8).clamp(256 << 10, 16 << 20);
        Self { memory, requests: 32, threads: threads.max(1), gap: 256 << 10, range, window: 1 << 13 }
    }
}
