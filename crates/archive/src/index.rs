//! `<backup>-index.json.gz`: where each object stands in the archive. `docs/formats/index.md` has the shape.

mod check;
pub(crate) mod content;
mod error;
mod parse;
pub(crate) mod write;

pub use content::{INDEX_FORMAT, MemberRange, Row, TarballSummary};
pub use error::IndexError;

use crate::entry::entry_hash;
use crate::gzip::capped;
use crate::path::{ArchivePath, ObjectPath, VersionDir};
use crate::tar_reader::{ReadLimits, TarReader};
use check::{Bounds, check};
use parse::parse;
use std::io::{BufReader, Read};

/// An index that was read and checked.
#[derive(Debug)]
pub struct Index {
    rows: Vec<Row>,
    /// The gzip members of the archive.
    pub members: Vec<MemberRange>,
    /// The archive it belongs to.
    pub tarball: TarballSummary,
    limits: ReadLimits,
}

impl Index {
    /// Reads the index of an archive that has `archive` bytes. Refuses an index that claims more than the archive can
    /// hold, and an archive beyond the limits. Reads no more of the index than both allow.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn read(gzip: impl Read, archive: u64, limits: ReadLimits) -> Result<Self, IndexError> {
        let bounds = Bounds { limits, archive };
        let json = BufReader::with_capacity(64 << 10, capped(gzip, bounds.json()));
        let content = parse(json, bounds)?;
        check(&content, bounds)?;
        Ok(Self { rows: content.rows, members: content.members, tarball: content.tarball, limits })
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

    /// Takes the JSON of a row out of its decompressed member, when the path and the hash there agree with the row.
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
