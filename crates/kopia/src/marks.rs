//! A set of numbers in one bit each.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of numbers below a bound: 50 million take 6 MiB.
#[derive(Debug)]
pub(crate) struct Marks {
    words: Vec<AtomicU64>,
}

impl Marks {
    /// No number below `bound`.
    pub(crate) fn new(bound: u64) -> Self {
        let words = usize::try_from(bound.div_ceil(64)).unwrap_or(0);
        Self { words: std::iter::repeat_with(AtomicU64::default).take(words).collect() }
    }

    /// Adds a number; true where it was not there.
    pub(crate) fn add(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|word| self.words.get(word));
        let bit = 1 << (number % 64);
        // A number beyond the bound is never known.
        word.is_none_or(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// True where a number was added.
    pub(crate) fn has(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|word| self.words.get(word));
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let marks = Marks::new(130);
        let added = [0, 63, 64, 129, 0, 63, 64, 129, 1].map(|number| marks.add(number));
        assert_eq!(added, [true, true, true, true, false, false, false, false, true]);
        assert_eq!([0, 2, 129, 130, u64::MAX].map(|number| marks.has(number)), [true, false, true, false, false]);
    }
}
