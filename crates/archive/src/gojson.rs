//! JSON as Go's `encoding/json` writes it: `<`, `>`, `&`, U+2028 and U+2029 escaped inside strings
//! (velero: pkg/persistence/object_store.go).

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use std::io;

/// Writes a value compactly, as in the `*.json.gz` files, without a trailing newline. The writer gets many small
/// pieces.
///
/// # Errors
/// When the value cannot be JSON, for example a map whose keys are no strings, and those of the writer.
pub fn write<T: Serialize + ?Sized>(writer: impl io::Write, value: &T) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(writer, GoFormatter(CompactFormatter)))
}

/// Encodes a value indented by two blanks, as `velero-backup.json`, without a trailing newline.
///
/// # Errors
/// When the value cannot be JSON, for example a map whose keys are no strings.
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, GoFormatter(PrettyFormatter::new())))?;
    Ok(out)
}

struct GoFormatter<F>(F);

impl<F: Formatter> Formatter for GoFormatter<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut from = 0;
        for (at, c) in fragment.char_indices() {
            if matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') {
                writer.write_all(&fragment.as_bytes()[from..at])?;
                write!(writer, "\\u{:04x}", u32::from(c))?;
                from = at + c.len_utf8();
            }
        }
        writer.write_all(&fragment.as_bytes()[from..])
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }
    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }
    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }
    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }
    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }
    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }
    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn escapes_what_go_escapes() {
        let value = json!({"a<": "<a href='x'>&amp;</a> é\u{2028}\n\"", "n": [1.5, null]});
        let mut out = Vec::new();
        write(&mut out, &value).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"a\u003c":"\u003ca href='x'\u003e\u0026amp;\u003c/a\u003e é\u2028\n\"","n":[1.5,null]}"#
        );
        assert_eq!(
            to_vec_pretty(&json!({"a": [], "b": {}, "c": [1]})).unwrap(),
            b"{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1\n  ]\n}"
        );
    }
}
