//! Files of a transfer, as the annotation `lifeboat.io/moved-files` has them: the status of Velero's definitions has bytes alone.

use std::fmt;

/// Files that are done and in all, written `3/9`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedFiles {
    /// Done.
    pub done: i64,
    /// In all, as far as known.
    pub total: i64,
}

impl MovedFiles {
    /// Reads both numbers; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (done, total) = text.split_once('/')?;
        let number = |text: &str| text.parse::<i64>().ok().filter(|number| *number >= 0);
        Some(Self { done: number(done)?, total: number(total)? })
    }
}

impl fmt::Display for MovedFiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.done, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_transfer_are_read_as_they_were_written() {
        let files = MovedFiles { done: 3, total: 9 };
        assert_eq!((files.to_string().as_str(), MovedFiles::parse("3/9")), ("3/9", Some(files)));
        assert_eq!(["", "3", "3/", "/9", "-1/9", "a/b", "1/2/3"].map(MovedFiles::parse), [None; 7]);
    }
}
