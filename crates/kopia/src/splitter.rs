//! Splitters: where a stream is cut into contents (kopia: repo/splitter). All 23 names of the format.
//!
//! A dynamic splitter cuts where the hash of the last 64 bytes has zeros at its end, but no chunk is shorter than half the
//! average, or longer than twice it. Most of the time goes into the hash, so that what cannot be cut is not hashed at all,
//! and the rest in four lanes side by side.

mod buzhash;
mod rabin_karp;
mod rolling;

use crate::format::FormatError;
use buzhash::Buzhash;
use rabin_karp::RabinKarp;
use rolling::{WINDOW, Window};

/// The sizes in names of splitters.
const SIZES: [(&str, u32); 7] = [
    ("128K", 128 << 10),
    ("256K", 256 << 10),
    ("512K", 512 << 10),
    ("1M", 1 << 20),
    ("2M", 2 << 20),
    ("4M", 4 << 20),
    ("8M", 8 << 20),
];

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
        Self::from_name(name).ok_or_else(|| FormatError::new("splitter", format!("the name {name:?} is not known")))
    }

    fn from_name(name: &str) -> Option<Self> {
        let size = |text: &str| {
            let found = SIZES.iter().find(|(known, _)| *known == text);
            found.map(|(_, size)| *size)
        };
        match name {
            "" | "FIXED" => return Some(Self::Fixed(4 << 20)),
            "DYNAMIC" => return Some(Self::Buzhash(4 << 20)),
            _ => {}
        }
        if let Some(rest) = name.strip_prefix("FIXED-") {
            return size(rest).map(Self::Fixed);
        }
        let (average, hash) = name.strip_prefix("DYNAMIC-")?.split_once('-')?;
        let average = size(average)?;
        match hash {
            "BUZHASH" => Some(Self::Buzhash(average)),
            "RABINKARP" => Some(Self::RabinKarp(average)),
            _ => None,
        }
    }
    /// All names of the format.
    pub fn names() -> Vec<String> {
        let mut names = vec!["FIXED".to_owned(), "DYNAMIC".to_owned()];
        for (size, _) in SIZES {
            names.push(format!("FIXED-{size}"));
            names.push(format!("DYNAMIC-{size}-BUZHASH"));
            names.push(format!("DYNAMIC-{size}-RABINKARP"));
        }
        names
    }
    /// The longest chunk.
    pub fn max_chunk(&self) -> u32 {
        match self {
            Self::Fixed(size) => *size,
            Self::Buzhash(average) | Self::RabinKarp(average) => average.saturating_mul(2),
        }
    }
    /// A new splitter at the beginning of a stream.
    pub fn begin(&self) -> Splitter {
        let dynamic = |average: u32| Dynamic {
            min: average as usize / 2,
            max: (average as usize).saturating_mul(2).max(1),
            mask: average.saturating_sub(1),
            length: 0,
            window: Window::default(),
        };
        Splitter(match self {
            Self::Fixed(size) => State::Fixed { size: (*size as usize).max(1), length: 0 },
            Self::Buzhash(average) => State::Buzhash(dynamic(*average)),
            Self::RabinKarp(average) => State::RabinKarp(dynamic(*average)),
        })
    }
}

/// A splitter inside a stream. The cuts do not depend on how the stream is fed.
#[derive(Debug, Clone)]
pub struct Splitter(State);

#[derive(Debug, Clone)]
enum State {
    Fixed { size: usize, length: usize },
    Buzhash(Dynamic),
    RabinKarp(Dynamic),
}

impl Splitter {
    /// Looks for the end of the current chunk in the next bytes of the stream; `Some(n)`: it ends after `n` of them, and
    /// the rest is to be fed again. `None`: all of them belong to it.
    pub fn next_cut(&mut self, bytes: &[u8]) -> Option<usize> {
        match &mut self.0 {
            State::Fixed { size, length } => {
                let missing = *size - *length;
                if bytes.len() < missing {
                    *length += bytes.len();
                    return None;
                }
                *length = 0;
                Some(missing)
            }
            State::Buzhash(dynamic) => dynamic.next_cut::<Buzhash>(bytes),
            State::RabinKarp(dynamic) => dynamic.next_cut::<RabinKarp>(bytes),
        }
    }
}

/// The state of a dynamic splitter.
#[derive(Debug, Clone)]
struct Dynamic {
    min: usize,
    max: usize,
    mask: u32,
    /// The bytes of the current chunk so far.
    length: usize,
    /// The last of them, from 64 bytes before the first that may end the chunk.
    window: Window,
}

impl Dynamic {
    fn next_cut<H: rolling::Rolling>(&mut self, bytes: &[u8]) -> Option<usize> {
        // No cut depends on what lies before: the window of the first byte that may end a chunk begins here. All sizes of
        // the format are far longer than the window.
        let skipped = self.min.saturating_sub(WINDOW).saturating_sub(self.length);
        let Some(rest) = bytes.get(skipped..).filter(|rest| !rest.is_empty()) else {
            self.length += bytes.len();
            return None;
        };
        let length = self.length + skipped;
        // The bytes of `rest` before the first that may end the chunk, and the last one that must.
        let untested = self.min.saturating_sub(length + 1);
        let last = (self.max - length).min(rest.len());
        let cut =
            self.window.find::<H>(&rest[..last], untested, self.mask).or((length + last == self.max).then_some(last));
        match cut {
            Some(end) => {
                self.length = 0;
                self.window = Window::default();
                Some(skipped + end)
            }
            None => {
                self.window.keep(rest);
                self.length = length + rest.len();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SplitterAlgorithm;

    #[test]
    fn a_name_gives_its_splitter_and_an_unknown_one_an_error() {
        let vectors = [
            ("", SplitterAlgorithm::Fixed(4 << 20)),
            ("FIXED", SplitterAlgorithm::Fixed(4 << 20)),
            ("FIXED-128K", SplitterAlgorithm::Fixed(128 << 10)),
            ("DYNAMIC", SplitterAlgorithm::Buzhash(4 << 20)),
            ("DYNAMIC-8M-BUZHASH", SplitterAlgorithm::Buzhash(8 << 20)),
            ("DYNAMIC-1M-RABINKARP", SplitterAlgorithm::RabinKarp(1 << 20)),
        ];
        for (name, expected) in vectors {
            assert_eq!(SplitterAlgorithm::parse(name), Ok(expected));
        }
        for name in
            ["fixed", "FIXED-", "FIXED-3M", "DYNAMIC-", "DYNAMIC-4M", "DYNAMIC-4M-", "DYNAMIC-4M-BUZHASH-2", "X"]
        {
            assert!(SplitterAlgorithm::parse(name).is_err(), "{name}");
        }
        assert_eq!(SplitterAlgorithm::names().len(), 23);
    }

    #[test]
    fn sizes_that_no_name_has_neither_panic_nor_give_empty_chunks() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| ((number * number) >> 3) as u8).collect();
        for size in [0, 1, 2, 63, 64, 100, 127, 128, 1000] {
            for algorithm in
                [SplitterAlgorithm::Fixed(size), SplitterAlgorithm::Buzhash(size), SplitterAlgorithm::RabinKarp(size)]
            {
                let mut splitter = algorithm.begin();
                let mut rest = bytes.as_slice();
                while let Some(length) = splitter.next_cut(rest) {
                    assert!(length > 0 && length <= algorithm.max_chunk().max(1) as usize, "{algorithm:?}");
                    rest = &rest[length..];
                }
            }
        }
    }
}
