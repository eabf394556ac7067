//! Cuts what a plugin prints into lines.

/// Longest line, as go-plugin has it. What is longer comes in fragments.
pub(crate) const LONGEST: usize = 64 << 10;

/// Lines in the making.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    buffer: Vec<u8>,
    /// True when fragments of the present line were given out already.
    is_long: bool,
}

/// A piece of what is printed, without the end of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePiece<'a> {
    /// A whole line.
    Line(&'a [u8]),
    /// A part of one that is too long.
    Fragment(&'a [u8]),
}

impl LineBuffer {
    /// Takes what comes next, and gives each piece that is complete with it.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(LinePiece<'_>)) {
        while !bytes.is_empty() {
            let room = LONGEST - self.buffer.len();
            let end = bytes.iter().take(room + 1).position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(room.min(bytes.len()));
            self.buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            match end {
                Some(_) => {
                    bytes = &bytes[1..];
                    self.give(&mut each);
                    self.is_long = false;
                }
                None if self.buffer.len() == LONGEST && !bytes.is_empty() => {
                    self.is_long = true;
                    self.give(&mut each);
                }
                None => {}
            }
        }
    }

    /// Gives what is left when nothing more comes.
    pub(crate) fn end(&mut self, mut each: impl FnMut(LinePiece<'_>)) {
        if !self.buffer.is_empty() {
            self.give(&mut each);
        }
    }

    fn give(&mut self, each: &mut impl FnMut(LinePiece<'_>)) {
        let piece = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        each(if self.is_long { LinePiece::Fragment(piece) } else { LinePiece::Line(piece) });
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines and fragments of a text that comes in parts of this size.
    fn cut(text: &[u8], size: usize) -> Vec<(bool, Vec<u8>)> {
        let (mut lines, mut out) = (LineBuffer::default(), Vec::new());
        let mut each = |piece: LinePiece<'_>| match piece {
            LinePiece::Line(line) => out.push((true, line.to_vec())),
            LinePiece::Fragment(part) => out.push((false, part.to_vec())),
        };
        for part in text.chunks(size) {
            lines.feed(part, &mut each);
        }
        lines.end(&mut each);
        out
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let line = |text: &str| (true, text.as_bytes().to_vec());
        for size in [1, 2, 3, 100] {
            assert_eq!(cut(b"a\n\nbc\r\nlast", size), [line("a"), line(""), line("bc"), line("last")]);
            assert_eq!(cut(b"a\n", size), [line("a")]);
        }
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_fragments_and_the_next_one_whole() {
        let exact = vec![b'x'; LONGEST];
        let long = vec![b'y'; 2 * LONGEST + 7];
        let text = [&exact[..], b"\n", &long, b"\n", b"z\n"].concat();
        let part = |length| (false, vec![b'y'; length]);
        let expected = [(true, exact), part(LONGEST), part(LONGEST), part(7), (true, b"z".to_vec())];
        for size in [1, 4096, LONGEST, text.len()] {
            assert!(cut(&text, size) == expected, "parts of {size} bytes");
        }
    }
}
