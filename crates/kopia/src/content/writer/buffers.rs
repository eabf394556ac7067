//! Buffers that are used again: memory that is new takes the kernel as long as encrypting what comes into it.

use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shorter buffers are not kept: the allocator has them at hand.
pub(super) const MIN_KEPT: usize = 1 << 20;

/// Buffers that nobody uses just now.
pub(super) struct Buffers {
    most: usize,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Keeps so many buffers at most.
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer for so many bytes.
    pub(super) fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes < MIN_KEPT {
            return Vec::with_capacity(bytes);
        }
        let mut kept = self.lock();
        // The shortest that is long enough, so that the long ones are there for what needs them.
        let long_enough = kept.iter().enumerate().filter(|(_, buffer)| buffer.capacity() >= bytes);
        let found = long_enough.min_by_key(|(_, buffer)| buffer.capacity()).map(|(at, _)| at);
        let found = found.map(|at| kept.swap_remove(at));
        drop(kept);
        // The next one may be a little longer; what is not written takes no memory.
        found.unwrap_or_else(|| Vec::with_capacity(bytes.checked_next_power_of_two().unwrap_or(bytes)))
    }

    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() < MIN_KEPT {
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

    #[test]
    fn a_buffer_comes_back_with_the_last_part_of_its_bytes() {
        let buffers = Buffers::new(2);
        let mut buffer = buffers.take(MIN_KEPT);
        buffer.resize(MIN_KEPT, 7);
        let at = buffer.as_ptr();
        let mut rest = Bytes::from(buffer);
        let first = rest.split_to(10);
        buffers.give_bytes(first.clone());
        drop(first);
        assert_eq!(buffers.lock().len(), 0);
        buffers.give_bytes(rest);
        assert_eq!(buffers.lock().len(), 1);
        let again = buffers.take(MIN_KEPT);
        assert_eq!(again.as_ptr(), at);
    }

    #[test]
    fn a_buffer_that_was_filled_to_its_end_comes_back() {
        let buffers = Buffers::new(1);
        let mut buffer = buffers.take(MIN_KEPT);
        buffer.resize(buffer.capacity(), 7);
        buffers.give_bytes(Bytes::from(buffer));
        assert_eq!(
            buffers.lock().iter().map(|buffer| (buffer.len(), buffer.capacity())).collect::<Vec<_>>(),
            [(0, MIN_KEPT)]
        );
        buffers.give_bytes(Bytes::from_static(&[0; 16]));
        assert_eq!(buffers.lock().len(), 1, "what nobody has allocated is nobody's buffer");
    }

    #[test]
    fn the_shortest_buffer_that_is_long_enough_is_taken() {
        let buffers = Buffers::new(2);
        let (long, short) = (Vec::with_capacity(8 << 20), Vec::with_capacity(2 << 20));
        let (at_long, at_short) = (long.as_ptr(), short.as_ptr());
        buffers.give(long);
        buffers.give(short);
        let taken = [buffers.take(2 << 20), buffers.take(2 << 20)];
        assert_eq!(taken.each_ref().map(Vec::as_ptr), [at_short, at_long]);
    }

    #[test]
    fn a_buffer_comes_back_empty_where_it_is_long_enough_and_nobody_has_it() {
        let buffers = Buffers::new(1);
        let mut buffer = buffers.take(3 << 20);
        assert_eq!(buffer.capacity(), 4 << 20);
        buffer.resize(3 << 20, 7);
        let at = buffer.as_ptr();
        let bytes = Bytes::from(buffer);
        let other = bytes.clone();
        buffers.give_bytes(bytes);
        assert_eq!(buffers.take(2 << 20).capacity(), 2 << 20);
        buffers.give_bytes(other);
        // There is room for one.
        buffers.give(Vec::with_capacity(16 << 20));
        assert_eq!(buffers.take(5 << 20).capacity(), 8 << 20);
        let again = buffers.take(4 << 20);
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (at, 0, 4 << 20));
        assert_eq!(buffers.take(10).capacity(), 10);
    }
}
