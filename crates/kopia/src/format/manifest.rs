//! Manifests in contents with prefix `m` (kopia: repo/manifest).

use super::FormatError;
use super::json::{ArrayWriter, ObjectWriter, Reader};
use super::time::UnixNanos;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{Read, Write};

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
    let mut plain = Vec::new();
    flate2::bufread::MultiGzDecoder::new(content)
        .take(limit as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|error| FormatError::new(STRUCTURE, format!("it cannot be unpacked ({error})")))?;
    if plain.len() > limit {
        return Err(FormatError::new(STRUCTURE, format!("it is longer than {limit} bytes")));
    }
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
    let text = reader.raw()?;
    serde_json::from_str(&text).map_err(|error| reader.error(format!("labels are no map of strings ({error})")))
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
