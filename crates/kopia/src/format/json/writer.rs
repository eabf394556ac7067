//! JSON as Go's encoder writes it.

use super::text::Text;
use std::fmt::Display;
use std::io::Write;

/// Appends a JSON string. `text` may hold bytes that are no UTF-8: each of them becomes `\ufffd`.
pub fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        write_escaped(out, chunk.valid());
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

/// Appends a JSON string; the replaced characters of the text become `\ufffd` again, others stay as they are.
pub fn write_text(out: &mut Vec<u8>, text: &Text) {
    out.push(b'"');
    let mut rest = 0;
    for &position in text.replaced() {
        let position = position as usize;
        if let Some(part) = text.get(rest..position) {
            write_escaped(out, part);
            out.extend_from_slice(b"\\ufffd");
            rest = position + '\u{fffd}'.len_utf8();
        }
    }
    write_escaped(out, text.get(rest..).unwrap_or_default());
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut begin = 0;
    let mut at = 0;
    while at < bytes.len() {
        let (length, escape): (usize, &[u8]) = match bytes[at] {
            b'"' => (1, b"\\\""),
            b'\\' => (1, b"\\\\"),
            b'\n' => (1, b"\\n"),
            b'\r' => (1, b"\\r"),
            b'\t' => (1, b"\\t"),
            0x08 => (1, b"\\b"),
            0x0c => (1, b"\\f"),
            b'<' => (1, b"\\u003c"),
            b'>' => (1, b"\\u003e"),
            b'&' => (1, b"\\u0026"),
            0xe2 if bytes[at..].starts_with(&[0xe2, 0x80, 0xa8]) => (3, b"\\u2028"),
            0xe2 if bytes[at..].starts_with(&[0xe2, 0x80, 0xa9]) => (3, b"\\u2029"),
            control @ 0..0x20 => {
                out.extend_from_slice(&bytes[begin..at]);
                out.extend_from_slice(b"\\u00");
                for digit in [control >> 4, control & 15] {
                    out.push(b"0123456789abcdef"[usize::from(digit)]);
                }
                at += 1;
                begin = at;
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[begin..at]);
        out.extend_from_slice(escape);
        at += length;
        begin = at;
    }
    out.extend_from_slice(&bytes[begin..]);
}

/// A JSON object that is being written, field by field.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> ObjectWriter<'a> {
    /// Opens an object.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }
    /// Writes a key and gives the place for its value.
    pub fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        write_string(self.out, name.as_bytes());
        self.out.push(b':');
        self.out
    }
    /// Writes a string.
    pub fn string(&mut self, name: &str, text: &str) {
        write_string(self.key(name), text.as_bytes());
    }
    /// Writes a string, unless it is empty.
    pub fn string_unless_empty(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.string(name, text);
        }
    }
    /// Writes a value whose text is JSON: a number or a truth value.
    pub fn plain(&mut self, name: &str, value: impl Display) {
        let out = self.key(name);
        let _ = write!(out, "{value}");
    }
    /// Writes a number, unless it is 0.
    pub fn number_unless_zero(&mut self, name: &str, value: impl Into<i128>) {
        let value = value.into();
        if value != 0 {
            self.plain(name, value);
        }
    }
    /// Writes a time or another value as a string.
    pub fn quoted(&mut self, name: &str, value: impl Display) {
        let out = self.key(name);
        let _ = write!(out, "\"{value}\"");
    }
    /// Closes the object.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// A JSON array that is being written.
#[derive(Debug)]
pub struct ArrayWriter<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> ArrayWriter<'a> {
    /// Opens an array.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, is_empty: true }
    }
    /// Gives the place for the next item.
    pub fn item(&mut self) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out
    }
    /// Closes the array.
    pub fn end(self) {
        self.out.push(b']');
    }
}
