//! `<backup>-index.json.gz`: where each object stands in the archive. `docs/formats/index.md` has the shape.

mod check;

use crate::gzip::{Packer, capped};
use crate::path::{ArchivePath, ObjectPath, VersionDir};
use crate::tar_reader::{ReadError, ReadLimits, TarReader};
use crate::tarball::{ObjectEntry, TarballSummary, entry_hash};
use check::Bounds;
use hex::FromHex;
use lifeboat_object::{GroupResource, ObjectKey};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::io::{BufReader, Read, Write};
use std::sync::Arc;

/// Value of `format`.
pub const INDEX_FORMAT: &str = "lifeboat.io/index/v1";

/// RowLines of the index on their way into it: text in which the number of their member is missing.
#[derive(Debug, Default)]
pub(crate) struct RowLines {
    text: Vec<u8>,
    /// Where the numbers go.
    gaps: Vec<usize>,
}

impl RowLines {
    /// Adds an object whose first header stands at this offset of the member, with the length and [`entry_hash`] of its JSON.
    pub(crate) fn push(&mut self, object: &ObjectEntry<'_>, offset: u64, length: u64, hash: [u8; 16]) {
        let GroupResource { group, resource } = object.resource;
        let out = &mut self.text;
        out.extend_from_slice(b",\n[");
        if group.is_empty() {
            json(out, resource);
        } else {
            json(out, &object.resource.to_string());
        }
        out.extend_from_slice(b",");
        json(out, object.version);
        out.extend_from_slice(if object.preferred { b",1," } else { b",0," });
        json(out, object.namespace.unwrap_or_default());
        out.extend_from_slice(b",");
        json(out, object.name);
        out.extend_from_slice(b",");
        self.gaps.push(out.len());
        // Writing into a Vec cannot fail.
        let _ = write!(out, ",{offset},{length},\"");
        let mut digits = [0; 32];
        let _ = hex::encode_to_slice(hash, &mut digits);
        out.extend_from_slice(&digits);
        out.extend_from_slice(b"\"]");
    }

    pub(crate) fn len(&self) -> usize {
        self.gaps.len()
    }
}

/// Strings and numbers into a Vec: that cannot fail.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let _ = serde_json::to_writer(out, value);
}

/// Bytes of JSON that are compressed together.
const PIECE: usize = 256 << 10;

/// Writes the index while members come in; holds it compressed, so that memory grows by a few bytes per object.
pub(crate) struct IndexWriter {
    /// Gzip members.
    out: Vec<u8>,
    packer: Packer,
    /// JSON that is not compressed yet.
    open: Vec<u8>,
    members: Vec<[u64; 3]>,
    objects: u64,
}

impl IndexWriter {
    pub(crate) fn new() -> Self {
        let open = format!("{{\"format\":\"{INDEX_FORMAT}\",\"objects\":[").into_bytes();
        Self { out: Vec::new(), packer: Packer::new(1), open, members: Vec::new(), objects: 0 }
    }

    pub(crate) fn member(&mut self, offset: u64, length: u64, tar_length: u64, rows: &RowLines) {
        let member = self.members.len().to_string();
        self.members.push([offset, length, tar_length]);
        // Each row begins with the comma after the one before it.
        let mut from = usize::from(self.objects == 0).min(rows.text.len());
        for gap in &rows.gaps {
            self.open.extend_from_slice(&rows.text[from..*gap]);
            self.open.extend_from_slice(member.as_bytes());
            from = *gap;
        }
        self.open.extend_from_slice(&rows.text[from..]);
        self.objects += rows.len() as u64;
        self.pack_when_full();
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
        let members = std::mem::take(&mut self.members);
        self.open.extend_from_slice(b"\n],\"members\":");
        json(&mut self.open, &members);
        self.open.extend_from_slice(b",\"tarball\":");
        json(&mut self.open, &tarball);
        self.open.extend_from_slice(b"}\n");
        self.pack();
        self.out
    }

    fn pack_when_full(&mut self) {
        if self.open.len() >= PIECE {
            self.pack();
        }
    }

    fn pack(&mut self) {
        self.out.extend_from_slice(self.packer.member(&self.open));
        self.open.clear();
    }
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
    limits: ReadLimits,
}

/// Why an index is not used. Unless the archive is refused, it may still be fine: read it as a stream.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Not readable, not of this format, or beyond the limit.
    #[error("the index cannot be read")]
    Json(#[from] serde_json::Error),
    /// It says what the archive cannot hold.
    #[error("the index is inconsistent: {0}")]
    Inconsistent(String),
    /// An object stands there twice in the same version.
    #[error("{0} stands in the archive twice")]
    Twice(String),
    /// The archive passes a bound.
    #[error(transparent)]
    Refused(ReadError),
    /// The archive holds something else than the index says.
    #[error("the archive does not match its index at {0}")]
    Mismatch(String),
}

impl Index {
    /// Reads an index file of an archive of so many bytes, and checks that it says nothing that the archive cannot hold,
    /// and that the archive passes no bound. The index itself is read only as far as these allow.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn read(gzip: impl Read, archive: u64, limits: ReadLimits) -> Result<Self, IndexError> {
        let bounds = Bounds { limits, archive };
        let json = capped(gzip, bounds.json());
        let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(64 << 10, json));
        let index = de::Deserializer::deserialize_map(&mut json, IndexVisitor(bounds))?;
        json.end()?;
        check::check(&index, bounds)?;
        Ok(index)
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
        // Nothing is read beyond what the row was checked for.
        let mut reader = TarReader::new(tar, ReadLimits { entry: u64::from(row.length), ..self.limits });
        let mut body = Vec::new();
        let entry = reader.next_file(&mut body).map_err(|_| mismatch())?.ok_or_else(mismatch)?;
        let version = VersionDir { version: row.version.to_string(), preferred: row.preferred };
        let expected = ObjectPath { key: row.key(), version: (!row.preferred).then_some(version) };
        let whole = body.len() == row.length as usize;
        if !whole || entry.path != ArchivePath::Object(expected) || entry_hash(&body) != row.hash {
            return Err(mismatch());
        }
        Ok(body)
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

struct IndexVisitor(Bounds);

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
                "objects" => rows = Some(map.next_value_seed(Rows(Interner::default(), self.0.rows()))?),
                "members" => members = Some(map.next_value_seed(Members(self.0.rows() + 1))?),
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
            members: members.ok_or_else(|| de::Error::missing_field("members"))?,
            tarball: TarballSummary { size: tarball.size, sha256: tarball.sha256, objects: tarball.objects },
            limits: self.0.limits,
        })
    }
}

/// At most so many.
struct Members(u64);

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Vec<MemberRange>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<MemberRange>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("members of an index")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some([offset, length, tar_length]) = seq.next_element::<[u64; 3]>()? {
            if members.len() as u64 == self.0 {
                return Err(de::Error::custom(format!("more than {} members", self.0)));
            }
            members.push(MemberRange { offset, length, tar_length });
        }
        Ok(members)
    }
}

/// At most so many.
struct Rows(Interner, u64);

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
            if rows.len() as u64 == self.1 {
                return Err(de::Error::custom(format!("more than {} rows", self.1)));
            }
            rows.push(Row {
                resource: self.0.resource(&resource).ok_or_else(|| de::Error::custom("a row has no type"))?,
                version: self.0.text(&version),
                namespace: self.0.text(&namespace),
                name,
                preferred: preferred != 0,
                member,
                offset,
                length,
                hash: <[u8; 16]>::from_hex(hash).map_err(|_| de::Error::custom("a row has no valid hash"))?,
            });
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gzip::pack;
    use proptest::prelude::*;

    fn read(json: &str) -> Result<Index, IndexError> {
        Index::read(pack(json.as_bytes()).as_slice(), 100, ReadLimits::default())
    }

    #[test]
    fn refuses_what_is_no_index() {
        for json in [
            "{}",
            r#"{"format":"lifeboat.io/index/v2","objects":[],"members":[],"tarball":{"size":100,"sha256":"","objects":0}}"#,
            r#"{"format":"lifeboat.io/index/v1","objects":[["pods","v1",1,"a","p",0,0,1,"0011"]],"members":[],"tarball":{"size":100,"sha256":"","objects":1}}"#,
        ] {
            assert_eq!(read(json).unwrap_err().to_string(), "the index cannot be read", "{json}");
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
