//! Splitters: where a stream is cut into contents (kopia: repo/splitter). All 23 names of the format.

use crate::format::FormatError;

/// A splitter of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitterAlgorithm {
    /// Cuts every so many bytes.
    Fixed(u32),
    /// Cuts by a buzhash of 32 bits over 64 bytes, about every so many bytes (a power of two).
    Buzhash(u32),
    /// Cuts by a Rabin-Karp hash of 64 bits over 64 bytes.
    RabinKarp(u32),
}

impl SplitterAlgorithm {
    /// The splitter of a name; the empty name is `FIXED`.
    ///
    /// # Errors
    /// A name that is not known.
    pub fn parse(name: &str) -> Result<Self, FormatError> {
        todo!()
    }
    /// The longest chunk.
    pub fn max_chunk(&self) -> u32 {
        todo!()
    }
    /// A new splitter at the beginning of a stream.
    pub fn begin(&self) -> Splitter {
        todo!()
    }
}

/// A splitter inside a stream. The cuts do not depend on how the stream is fed.
#[derive(Debug)]
pub struct Splitter {}

impl Splitter {
    /// Looks for the end of the current chunk in the next bytes of the stream; `Some(n)`: it ends after `n` of them, and
    /// the rest is to be fed again. `None`: all of them belong to it.
    pub fn next_cut(&mut self, bytes: &[u8]) -> Option<usize> {
        todo!()
    }
}
