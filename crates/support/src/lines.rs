//! Writes the lines of a log into a part of the bundle, after removing secrets from each line.

use super::bundle::Part;
use super::clean::clean_line;
use anyhow::Result;
use std::io::Write;

/// Bytes of a log at most.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes of a line that are looked at together; what is longer is cut, and a secret on the cut may stay.
const LONGEST_LINE: usize = 1 << 20;

/// Takes pieces of a log, whose lines may begin in one and end in another.
pub(super) struct CleanLines {
    part: Part,
    open: Vec<u8>,
}

impl CleanLines {
    pub(super) fn new(part: Part) -> Self {
        Self { part, open: Vec::new() }
    }

    /// Takes a piece; false when the log is too large, so that no more is taken.
    pub(super) fn write(&mut self, piece: &[u8]) -> Result<bool> {
        for bytes in piece.split_inclusive(|byte| *byte == b'\n') {
            self.open.extend_from_slice(bytes);
            if self.open.ends_with(b"\n") || self.open.len() > LONGEST_LINE {
                self.close()?;
            }
        }
        if self.part.bytes <= MOST_BYTES {
            return Ok(true);
        }
        writeln!(self.part, "\n-- what follows is left out: the log is larger than {MOST_BYTES} bytes --")?;
        Ok(false)
    }

    /// The part, with what is left of the last line.
    pub(super) fn finish(mut self) -> Result<Part> {
        self.close()?;
        Ok(self.part)
    }

    fn close(&mut self) -> Result<()> {
        let line = clean_line(&String::from_utf8_lossy(&self.open));
        self.open.clear();
        self.part.write_all(line.as_bytes())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cleaned_wherever_its_pieces_begin() {
        let mut lines = CleanLines::new(Part::new().unwrap());
        for piece in ["one tok", "en=ab", "c two\nlast pass", "word=x"] {
            assert!(lines.write(piece.as_bytes()).unwrap());
        }
        let text = lines.finish().unwrap().text();
        assert_eq!(text, "one token=<removed> two\nlast password=<removed>");
    }
}
