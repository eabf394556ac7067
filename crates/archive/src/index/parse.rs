//! Parses the JSON of an index as it comes: only the parsed rows stay in memory.

use super::check::Bounds;
use super::content::{INDEX_FORMAT, IndexContent, MemberRange, Row, TarballSummary};
use hex::FromHex;
use lifeboat_object::GroupResource;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// Parses JSON that says no more than the bounds allow.
pub(super) fn parse(json: impl Read, bounds: Bounds) -> Result<IndexContent, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_reader(json);
    let content = json.deserialize_map(ContentVisitor(bounds))?;
    json.end()?;
    Ok(content)
}

/// Keeps one copy of each type, version and namespace name.
#[derive(Default)]
struct Interner {
    resources: HashMap<String, Arc<GroupResource>>,
    texts: HashMap<String, Arc<str>>,
}

impl Interner {
    /// The shared group-resource.
    fn resource(&mut self, text: &str) -> Option<Arc<GroupResource>> {
        if let Some(found) = self.resources.get(text) {
            return Some(found.clone());
        }
        let parsed = Arc::new(text.parse().ok()?);
        self.resources.insert(text.to_owned(), Arc::clone(&parsed));
        Some(parsed)
    }

    /// The shared text.
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(found) = self.texts.get(text) {
            return found.clone();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&shared));
        shared
    }
}

struct ContentVisitor(Bounds);

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = IndexContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an index of format {INDEX_FORMAT}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IndexContent, A::Error> {
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
        Ok(IndexContent {
            rows: rows.ok_or_else(|| de::Error::missing_field("objects"))?,
            members: members.ok_or_else(|| de::Error::missing_field("members"))?,
            tarball: TarballSummary { size: tarball.size, sha256: tarball.sha256, objects: tarball.objects },
        })
    }
}

/// Parses the members, at most so many.
struct Members(u64);

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Vec<MemberRange>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
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

/// Parses the rows, at most so many.
struct Rows(Interner, u64);

impl<'de> DeserializeSeed<'de> for Rows {
    type Value = Vec<Row>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
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
