//! Manifests in contents with prefix `m` (kopia: repo/manifest).

use super::FormatError;
use super::json::{ArrayWriter, ObjectWriter, Reader};
use super::time::UnixNanos;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::Write;

const STRUCTURE: &str = "manifest content";

/// A manifest, or the note of its deletion.
#[derive(Debug, Clone)]
pub struct ManifestEntry {
    /// 32 hex digits.
    pub id: String,
    /// The labels; `type` is always there. Empty for a deletion.
    pub labels: BTreeMap<String, String>,
    /// The time of the last change.
    pub modified: UnixNanos,
    /// True for the note of a deletion.
    pub is_deleted: bool,
    /// The document as it stands; `null` for a deletion.
    pub data: Box<RawValue>,
}

/// Equal field by field; the documents as text.
impl PartialEq for ManifestEntry {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, &self.labels, self.modified, self.is_deleted)
            == (&other.id, &other.labels, other.modified, other.is_deleted)
            && self.data.get() == other.data.get()
    }
}

/// Reads the manifests of one content (gzip of JSON), at most `limit` plain bytes.
///
/// # Errors
/// No manifests, or more bytes than `limit`.
pub fn parse(content: &[u8], limit: usize) -> Result<Vec<ManifestEntry>, FormatError> {
    let plain = crate::compression::gunzip(content, limit)?;
    parse_plain(&plain)
}

fn parse_plain(plain: &[u8]) -> Result<Vec<ManifestEntry>, FormatError> {
    let mut entries = Vec::new();
    let mut reader = Reader::new(STRUCTURE, plain);
    reader.object::<FormatError>(|reader, key| {
        if key != "entries" {
            return reader.skip();
        }
        reader.array::<FormatError>(|reader| {
            entries.push(parse_entry(reader)?);
            Ok(())
        })
    })?;
    reader.end()?;
    Ok(entries)
}

fn parse_entry(reader: &mut Reader<&[u8]>) -> Result<ManifestEntry, FormatError> {
    let mut entry = ManifestEntry {
        id: String::new(),
        labels: BTreeMap::new(),
        modified: UnixNanos::default(),
        is_deleted: false,
        data: RawValue::NULL.to_owned(),
    };
    reader.object::<FormatError>(|reader, key| {
        match key {
            "id" => entry.id = reader.string()?,
            "labels" => entry.labels = read_map(reader)?,
            "modified" => entry.modified = UnixNanos::parse_saturating(&reader.string()?)?,
            "deleted" => entry.is_deleted = reader.boolean()?,
            "data" => {
                let text = reader.raw()?;
                entry.data = RawValue::from_string(text)
                    .map_err(|error| reader.error(format!("a document is no JSON ({error})")))?;
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    if entry.id.is_empty() {
        return Err(reader.error("a manifest has no ID"));
    }
    Ok(entry)
}

/// Reads an object whose values are strings. Its keys keep their case.
pub(super) fn read_map(reader: &mut Reader<&[u8]>) -> Result<BTreeMap<String, String>, FormatError> {
    let mut map = BTreeMap::new();
    reader.map::<FormatError>(|reader, key| {
        map.insert(key, reader.string()?);
        Ok(())
    })?;
    Ok(map)
}

/// Writes one content with these manifests.
pub fn write(entries: &[ManifestEntry]) -> Vec<u8> {
    let mut plain = Vec::new();
    write_plain(&mut plain, entries);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    // Writing into memory does not fail.
    let _ = encoder.write_all(&plain);
    encoder.finish().unwrap_or_default()
}

fn write_plain(out: &mut Vec<u8>, entries: &[ManifestEntry]) {
    let mut document = ObjectWriter::begin(out);
    let mut list = ArrayWriter::begin(document.key("entries"));
    for entry in entries {
        let mut object = ObjectWriter::begin(list.item());
        object.string("id", &entry.id);
        if entry.is_deleted {
            object.plain("labels", "null");
        } else {
            write_map(object.key("labels"), &entry.labels);
        }
        object.quoted("modified", entry.modified);
        if entry.is_deleted {
            object.plain("deleted", true);
        }
        object.plain("data", entry.data.get());
        object.end();
    }
    list.end();
    document.end();
    out.push(b'\n');
}

/// Writes a map of strings in the order of its keys.
pub(super) fn write_map(out: &mut Vec<u8>, map: &BTreeMap<String, String>) {
    let mut object = ObjectWriter::begin(out);
    for (key, value) in map {
        object.string(key, value);
    }
    object.end();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: &str = "{\"entries\":[{\"id\":\"8e1a\",\"labels\":{\"Type\":\"x\",\"a\":\"\\u003c\",\"type\":\"maintenance\"},\"modified\":\"2026-11-21T00:04:44.19675009Z\",\"data\":{\"owner\":\"me\",\"n\":1.50}},{\"id\":\"b447\",\"labels\":null,\"modified\":\"2026-11-21T00:04:45Z\",\"deleted\":true,\"data\":null}]}\n";

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(plain).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn manifests_and_deletions_are_written_as_kopia_writes_them() {
        let entries = parse(&gzip(PLAIN.as_bytes()), 4096).expect("manifests");
        assert_eq!((entries[0].is_deleted, entries[1].is_deleted), (false, true));
        assert_eq!(entries[0].data.get(), r#"{"owner":"me","n":1.50}"#);
        assert_eq!(entries[0].labels.keys().collect::<Vec<_>>(), ["Type", "a", "type"]);
        let mut written = Vec::new();
        write_plain(&mut written, &entries);
        assert_eq!(String::from_utf8(written).as_deref(), Ok(PLAIN));
        assert_eq!(parse(&write(&entries), 4096), Ok(entries));
    }

    #[test]
    fn more_bytes_than_allowed_are_refused() {
        let content = gzip(PLAIN.as_bytes());
        assert!(parse(&content, PLAIN.len()).is_ok());
        assert!(parse(&content, PLAIN.len() - 1).is_err());
        assert!(parse(&gzip(&vec![b' '; 1 << 20]), 1000).is_err());
    }

    #[test]
    fn a_time_before_all_others_is_read() {
        let entries = parse_plain(br#"{"entries":[{"id":"a","modified":"0001-01-01T00:00:00Z"}]}"#);
        let modified = entries.map(|entries| entries[0].modified);
        assert_eq!(modified, Ok(UnixNanos(i64::MIN)));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_never_an_absence() {
        let plains = [
            "",
            "[]",
            r#"{"entries":{}}"#,
            r#"{"entries":[1]}"#,
            r#"{"entries":[{}]}"#,
            r#"{"entries":[{"id":""}]}"#,
            r#"{"entries":[{"id":1}]}"#,
            r#"{"entries":[{"id":"a","labels":{"x":1}}]}"#,
            r#"{"entries":[{"id":"a","modified":"x"}]}"#,
            r#"{"entries":[{"id":"a","deleted":"yes"}]}"#,
            r#"{"entries":[{"id":"a","data":}]}"#,
        ];
        for plain in plains {
            assert!(parse(&gzip(plain.as_bytes()), 4096).is_err(), "{plain}");
        }
        assert!(parse(PLAIN.as_bytes(), 4096).is_err());
    }

    proptest! {
        #[test]
        fn damaged_contents_never_give_other_manifests(at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<prop::sample::Index>()) {
            let mut content = gzip(PLAIN.as_bytes());
            let whole = parse(&content, 4096).expect("manifests");
            prop_assert!(parse(&content[..cut.index(content.len())], 4096).is_err());
            let at = at.index(content.len());
            content[at] ^= 1 << bit;
            if let Ok(entries) = parse(&content, 4096) {
                // Only what gzip tells about the file, such as its time, can differ.
                prop_assert_eq!(entries, whole);
            }
        }
    }
}
