//! `<backup>-index.json.gz`: where each object stands in the archive. `docs/formats/index.md` has the shape.

use crate::gzip::capped;
use crate::path::{ArchivePath, ObjectPath, VersionDir};
use crate::tar_reader::{ReadLimits, TarReader};
use crate::tarball::{TarballSummary, entry_hash, hex};
use flate2::Compression;
use flate2::write::GzEncoder;
use lifeboat_object::{GroupResource, ObjectKey};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::io::{BufReader, Read, Write};
use std::sync::Arc;

/// Value of `format`.
pub const INDEX_FORMAT: &str = "lifeboat.io/index/v1";

/// One object on the way into the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// Which object.
    pub key: ObjectKey,
    /// The version it is stored in.
    pub version: String,
    /// Whether that is the preferred one.
    pub preferred: bool,
    /// Offset of its first tar header within the member.
    pub offset: u64,
    /// Bytes of its JSON.
    pub length: u64,
    /// [`entry_hash`] of its JSON.
    pub hash: [u8; 16],
}

/// Writes the index while members come in; holds it compressed, so that memory grows by a few bytes per object.
pub(crate) struct IndexWriter {
    out: GzEncoder<Vec<u8>>,
    members: Vec<[u64; 3]>,
    objects: u64,
}

impl IndexWriter {
    pub(crate) fn new() -> Self {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        put(&mut out, format!("{{\"format\":\"{INDEX_FORMAT}\",\"objects\":[").as_bytes());
        Self { out, members: Vec::new(), objects: 0 }
    }

    pub(crate) fn member(&mut self, offset: u64, length: u64, tar_length: u64, rows: &[IndexRow]) {
        let member = self.members.len();
        self.members.push([offset, length, tar_length]);
        let mut line = Vec::new();
        for row in rows {
            line.clear();
            line.extend_from_slice(if self.objects == 0 { b"\n" } else { b",\n" });
            let fields = (
                row.key.resource.to_string(),
                &row.version,
                u8::from(row.preferred),
                row.key.namespace.as_deref().unwrap_or(""),
                &row.key.name,
                member,
                row.offset,
                row.length,
                hex(&row.hash),
            );
            // Strings and numbers into a Vec: cannot fail.
            let _ = serde_json::to_writer(&mut line, &fields);
            put(&mut self.out, &line);
            self.objects += 1;
        }
    }

    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    pub(crate) fn finish(mut self, summary: &TarballSummary, tar_length: u64) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Tarball<'a> {
            size: u64,
            sha256: &'a str,
            objects: u64,
            tar_length: u64,
        }
        let tarball = Tarball { size: summary.size, sha256: &summary.sha256, objects: summary.objects, tar_length };
        put(&mut self.out, b"\n],\"members\":");
        let _ = serde_json::to_writer(&mut self.out, &self.members);
        put(&mut self.out, b",\"tarball\":");
        let _ = serde_json::to_writer(&mut self.out, &tarball);
        put(&mut self.out, b"}\n");
        self.out.finish().unwrap_or_default()
    }
}

/// Compressing into a Vec cannot fail.
fn put(out: &mut GzEncoder<Vec<u8>>, bytes: &[u8]) {
    let _ = out.write_all(bytes);
}

/// Where a gzip member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRange {
    /// Offset in the tar.gz.
    pub offset: u64,
    /// Bytes in the tar.gz.
    pub length: u64,
    /// Bytes when decompressed.
    pub tar_length: u64,
}

/// One object of a loaded index; type, namespace and version names are shared between rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its type.
    pub resource: Arc<GroupResource>,
    /// The version it is stored in.
    pub version: Arc<str>,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Box<str>,
    /// Whether the version is the preferred one.
    pub preferred: bool,
    /// Which of [`Index::members`].
    pub member: u32,
    /// Offset of its first tar header within the member.
    pub offset: u32,
    /// Bytes of its JSON.
    pub length: u32,
    /// [`entry_hash`] of its JSON.
    pub hash: [u8; 16],
}

impl Row {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new((*self.resource).clone(), self.namespace(), &*self.name)
    }

    /// The namespace, if it has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }
}

/// A loaded index.
#[derive(Debug)]
pub struct Index {
    rows: Vec<Row>,
    /// The gzip members of the archive.
    pub members: Vec<MemberRange>,
    /// The archive it belongs to.
    pub tarball: TarballSummary,
}

/// Why an index is not used. The archive itself may still be fine: read it as a stream.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Not readable, not of this format, or beyond the limit.
    #[error("the index cannot be read")]
    Json(#[from] serde_json::Error),
    /// A row points outside the archive.
    #[error("the index is inconsistent: {0}")]
    Inconsistent(String),
    /// The archive holds something else than the index says.
    #[error("the archive does not match its index at {0}")]
    Mismatch(String),
}

impl Index {
    /// Reads an index file, at most `limit` bytes of decompressed JSON, and checks that every row and member lies
    /// inside the archive.
    ///
    /// # Errors
    /// [`IndexError::Json`], [`IndexError::Inconsistent`].
    pub fn read(gzip: impl Read, limit: u64) -> Result<Self, IndexError> {
        let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(64 << 10, capped(gzip, limit)));
        let index = json.deserialize_index()?;
        json.end()?;
        index.check()?;
        Ok(index)
    }

    /// Builds an index from rows that were found by reading an archive (a transcoded one).
    #[must_use]
    pub fn from_parts(rows: Vec<Row>, members: Vec<MemberRange>, tarball: TarballSummary) -> Self {
        Self { rows, members, tarball }
    }

    /// All rows, in the order of the archive.
    pub fn rows(&self) -> std::slice::Iter<'_, Row> {
        self.rows.iter()
    }

    /// The row with this number.
    #[must_use]
    pub fn row(&self, number: usize) -> Option<&Row> {
        self.rows.get(number)
    }

    /// The JSON of a row out of its decompressed member: used only if the tar path and the hash agree.
    ///
    /// # Errors
    /// [`IndexError::Mismatch`].
    pub fn extract(&self, member: &[u8], row: &Row) -> Result<Vec<u8>, IndexError> {
        let mismatch = || IndexError::Mismatch(row.key().to_string());
        let tar = member.get(row.offset as usize..).ok_or_else(mismatch)?;
        let mut reader = TarReader::new(tar, ReadLimits::default());
        let mut body = Vec::new();
        let entry = reader.next_file(&mut body).map_err(|_| mismatch())?.ok_or_else(mismatch)?;
        let version = VersionDir { version: row.version.to_string(), preferred: row.preferred };
        let expected = ObjectPath { key: row.key(), version: (!row.preferred).then_some(version) };
        if entry.path != ArchivePath::Object(expected) || entry_hash(&body) != row.hash {
            return Err(mismatch());
        }
        Ok(body)
    }

    fn check(&self) -> Result<(), IndexError> {
        let mut end = 0;
        for (number, member) in self.members.iter().enumerate() {
            if member.offset != end {
                return Err(IndexError::Inconsistent(format!("member {number} does not follow the one before")));
            }
            end = end.saturating_add(member.length);
        }
        if end > self.tarball.size {
            return Err(IndexError::Inconsistent("members reach beyond the archive".to_owned()));
        }
        for row in &self.rows {
            let inside = self
                .members
                .get(row.member as usize)
                .is_some_and(|m| u64::from(row.offset) + u64::from(row.length) <= m.tar_length);
            if !inside {
                return Err(IndexError::Inconsistent(format!("{} lies outside its member", row.key())));
            }
        }
        if self.rows.len() as u64 != self.tarball.objects {
            return Err(IndexError::Inconsistent("the number of objects is not that of the archive".to_owned()));
        }
        Ok(())
    }
}

/// Keeps one copy of each type, version and namespace name.
#[derive(Default)]
pub struct Interner {
    resources: HashMap<String, Arc<GroupResource>>,
    texts: HashMap<String, Arc<str>>,
}

impl Interner {
    /// The shared group-resource.
    pub fn resource(&mut self, text: &str) -> Option<Arc<GroupResource>> {
        if let Some(found) = self.resources.get(text) {
            return Some(found.clone());
        }
        let parsed = Arc::new(text.parse().ok()?);
        self.resources.insert(text.to_owned(), Arc::clone(&parsed));
        Some(parsed)
    }

    /// The shared text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(found) = self.texts.get(text) {
            return found.clone();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&shared));
        shared
    }
}

trait DeserializeIndex {
    fn deserialize_index(&mut self) -> Result<Index, serde_json::Error>;
}

impl<R: Read> DeserializeIndex for serde_json::Deserializer<serde_json::de::IoRead<R>> {
    fn deserialize_index(&mut self) -> Result<Index, serde_json::Error> {
        de::Deserializer::deserialize_map(self, IndexVisitor)
    }
}

struct IndexVisitor;

impl<'de> Visitor<'de> for IndexVisitor {
    type Value = Index;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an index of format {INDEX_FORMAT}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Index, A::Error> {
        #[derive(Deserialize)]
        struct Tarball {
            size: u64,
            sha256: String,
            objects: u64,
        }
        let (mut rows, mut members, mut tarball, mut format) = (None, None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "format" => format = Some(map.next_value::<String>()?),
                "objects" => rows = Some(map.next_value_seed(Rows(Interner::default()))?),
                "members" => members = Some(map.next_value::<Vec<[u64; 3]>>()?),
                "tarball" => tarball = Some(map.next_value::<Tarball>()?),
                _ => {
                    map.next_value::<de::IgnoredAny>()?;
                }
            }
        }
        if format.as_deref() != Some(INDEX_FORMAT) {
            return Err(de::Error::custom(format!("the format is not {INDEX_FORMAT}")));
        }
        let tarball = tarball.ok_or_else(|| de::Error::missing_field("tarball"))?;
        Ok(Index {
            rows: rows.ok_or_else(|| de::Error::missing_field("objects"))?,
            members: members
                .ok_or_else(|| de::Error::missing_field("members"))?
                .into_iter()
                .map(|[offset, length, tar_length]| MemberRange { offset, length, tar_length })
                .collect(),
            tarball: TarballSummary { size: tarball.size, sha256: tarball.sha256, objects: tarball.objects },
        })
    }
}

struct Rows(Interner);

impl<'de> DeserializeSeed<'de> for Rows {
    type Value = Vec<Row>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows {
    type Value = Vec<Row>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of an index")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
        type Fields = (String, String, u8, String, Box<str>, u32, u32, u32, String);
        let mut rows = Vec::new();
        while let Some((resource, version, preferred, namespace, name, member, offset, length, hash)) =
            seq.next_element::<Fields>()?
        {
            rows.push(Row {
                resource: self.0.resource(&resource).ok_or_else(|| de::Error::custom("a row has no type"))?,
                version: self.0.text(&version),
                namespace: self.0.text(&namespace),
                name,
                preferred: preferred != 0,
                member,
                offset,
                length,
                hash: parse_hash(&hash).ok_or_else(|| de::Error::custom("a row has no valid hash"))?,
            });
        }
        Ok(rows)
    }
}

fn parse_hash(text: &str) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gzip::pack;
    use proptest::prelude::*;

    fn read(json: &str) -> Result<Index, IndexError> {
        Index::read(pack(json.as_bytes()).as_slice(), 1 << 20)
    }

    #[test]
    fn refuses_rows_that_point_elsewhere() {
        let index = |objects: &str, members: &str| {
            format!(
                r#"{{"format":"{INDEX_FORMAT}","objects":[{objects}],"members":{members},"tarball":{{"size":100,"sha256":"","objects":1}}}}"#
            )
        };
        let row = |member: u32, length: u32| {
            format!(r#"["pods","v1",1,"a","p",{member},512,{length},"00112233445566778899aabbccddeeff"]"#)
        };
        assert!(read(&index(&row(0, 10), "[[0,100,2048]]")).is_ok());
        for (json, expected) in [
            (index(&row(1, 10), "[[0,100,2048]]"), "the index is inconsistent: pods/a/p lies outside its member"),
            (index(&row(0, 2048), "[[0,100,2048]]"), "the index is inconsistent: pods/a/p lies outside its member"),
            (index(&row(0, 10), "[[0,101,2048]]"), "the index is inconsistent: members reach beyond the archive"),
            (index(&row(0, 10), "[[1,50,2048]]"), "the index is inconsistent: member 0 does not follow the one before"),
            (index("", "[]"), "the index is inconsistent: the number of objects is not that of the archive"),
            (index(&row(0, 10).replace("00", "0"), "[[0,100,2048]]"), "the index cannot be read"),
            ("{}".to_owned(), "the index cannot be read"),
        ] {
            assert_eq!(read(&json).unwrap_err().to_string(), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in r#"[\[\]{}",:a-z0-9]{0,120}"#) {
            let _ = read(&text);
            let _ = read(&format!(r#"{{"format":"{INDEX_FORMAT}","objects":{text}}}"#));
        }
    }
}
