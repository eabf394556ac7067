//! Buffers that are used again: memory that is new takes the kernel as long as encrypting what comes into it.

use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The length of the pieces in which long files are read.
pub const PIECE: usize = 512 << 10;

/// Buffers of one length that nobody uses just now.
pub(super) struct Buffers {
    length: usize,
    most: usize,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Keeps so many buffers at most, each for `length` bytes.
    pub(super) fn new(length: usize, most: usize) -> Self {
        Self { length, most, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer for so many bytes. Where they are as many as each buffer has, it may be one that was used before.
    pub(super) fn take(&self, bytes: usize) -> Vec<u8> {
        let kept = if bytes == self.length { self.lock().pop() } else { None };
        kept.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() != self.length {
            return;
        }
        let mut kept = self.lock();
        if kept.len() < self.most {
            buffer.clear();
            kept.push(buffer);
        }
    }

    /// Takes back bytes that nobody else has.
    pub(super) fn give_bytes(&self, bytes: Bytes) {
        // They may be a part of a buffer that is longer: all of it comes back. `Bytes::clear` would free some.
        if let Ok(mut bytes) = bytes.try_into_mut() {
            // Without bytes nothing is copied.
            bytes.clear();
            self.give(Vec::from(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 1 << 20;

    fn filled(buffers: &Buffers) -> (Bytes, *const u8) {
        let mut buffer = buffers.take(LENGTH);
        buffer.resize(LENGTH, 7);
        let at = buffer.as_ptr();
        (buffer.into(), at)
    }

    #[test]
    fn a_buffer_comes_back_empty_when_nobody_else_has_it() {
        let buffers = Buffers::new(LENGTH, 1);
        let (bytes, at) = filled(&buffers);
        let other = bytes.clone();
        buffers.give_bytes(bytes);
        assert_eq!(buffers.lock().len(), 0);
        buffers.give_bytes(other);
        let again = buffers.take(LENGTH);
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (at, 0, LENGTH));
    }

    #[test]
    fn a_buffer_comes_back_with_the_last_part_of_its_bytes() {
        let buffers = Buffers::new(LENGTH, 2);
        let (mut rest, at) = filled(&buffers);
        let first = rest.split_to(10);
        buffers.give_bytes(first);
        assert_eq!(buffers.lock().len(), 0);
        buffers.give_bytes(rest);
        let again = buffers.take(LENGTH);
        assert_eq!(again.as_ptr(), at);
    }

    #[test]
    fn only_buffers_of_the_length_are_kept_and_no_more_than_wanted() {
        let buffers = Buffers::new(LENGTH, 1);
        for length in [LENGTH / 2, 2 * LENGTH] {
            assert_eq!(buffers.take(length).capacity(), length);
            buffers.give_bytes(vec![7; length].into());
        }
        buffers.give_bytes(Bytes::from_static(&[0; LENGTH]));
        assert_eq!(buffers.lock().len(), 0);
        for _ in 0..2 {
            buffers.give_bytes(vec![7; LENGTH].into());
        }
        assert_eq!(buffers.lock().len(), 1);
    }
}
