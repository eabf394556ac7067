//! Files of `index/`: the packs, and the blobs in each of them.

use super::FormatError;
use crate::Id;
use crate::crypto::OVERHEAD;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A pack of an index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pack {
    /// The name of its file below `data/`.
    pub id: Id,
    /// The blobs in it.
    #[serde(default)]
    pub blobs: Vec<Blob>,
}

/// A blob of an index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Blob {
    /// Its name.
    pub id: Id,
    /// The offset in the pack.
    pub offset: u32,
    /// The bytes that it takes in the pack.
    pub length: u32,
    /// The plain bytes of one that is compressed; 0 for others.
    #[serde(default)]
    pub uncompressed_length: u32,
}

impl Blob {
    /// The plain bytes, where it can have any.
    #[must_use]
    pub fn plain_length(&self) -> Option<u32> {
        match self.uncompressed_length {
            0 => self.length.checked_sub(OVERHEAD as u32),
            length => Some(length),
        }
    }
}

/// Reads the packs of a plain file, one after the other. Other members, such as `supersedes`, are passed over.
///
/// # Errors
/// Other JSON; errors of `take`.
pub fn read(plain: &[u8], take: &mut dyn FnMut(Pack) -> Result<(), FormatError>) -> Result<(), FormatError> {
    let mut refused = None;
    let mut take = |pack: Pack| match take(pack) {
        Ok(()) => true,
        Err(error) => {
            refused = Some(error);
            false
        }
    };
    let mut deserializer = serde_json::Deserializer::from_slice(plain);
    let read = deserializer.deserialize_map(IndexFile(&mut take)).and_then(|()| deserializer.end());
    match (refused, read) {
        (Some(error), _) => Err(error),
        (None, read) => Ok(read?),
    }
}

struct IndexFile<'a>(&'a mut dyn FnMut(Pack) -> bool);
struct Packs<'a>(&'a mut dyn FnMut(Pack) -> bool);

impl<'de> Visitor<'de> for IndexFile<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index with the member packs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "packs" {
                map.next_value_seed(Packs(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Packs<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Packs<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of packs")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(pack) = sequence.next_element()? {
            if !(self.0)(pack) {
                return Err(serde::de::Error::custom("the pack is refused"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packs(text: &str) -> Result<Vec<Pack>, FormatError> {
        let mut packs = Vec::new();
        read(text.as_bytes(), &mut |pack| {
            packs.push(pack);
            Ok(())
        })?;
        Ok(packs)
    }

    #[test]
    fn an_index_lists_packs_and_the_places_of_blobs() {
        let (a, b, c) = ("aa".repeat(32), "bb".repeat(32), "cc".repeat(32));
        let text = format!(
            r#"{{"supersedes":["{c}"],"packs":[{{"id":"{a}","blobs":[
                {{"id":"{b}","type":"data","offset":0,"length":132}},
                {{"id":"{c}","type":"tree","offset":132,"length":70,"uncompressed_length":100}}]}}]}}"#
        );
        let [a, b, c] = [a, b, c].map(|id| id.parse().unwrap());
        let blobs = vec![
            Blob { id: b, offset: 0, length: 132, uncompressed_length: 0 },
            Blob { id: c, offset: 132, length: 70, uncompressed_length: 100 },
        ];
        assert_eq!(blobs.iter().map(Blob::plain_length).collect::<Vec<_>>(), [Some(100), Some(100)]);
        assert_eq!(packs(&text), Ok(vec![Pack { id: a, blobs }]));
        assert_eq!(packs(r#"{"packs":null}"#), Ok(Vec::new()));
        assert_eq!(packs("{}"), Ok(Vec::new()));
        for bad in ["[]", "", r#"{"packs":{}}"#, r#"{"packs":[]} x"#, r#"{"packs":[{"id":"aa"}]}"#] {
            assert!(packs(bad).is_err(), "{bad}");
        }
    }
}
