//! The archive of a backup: an ordinary tar.gz made of independent gzip members, with an index beside it.
//!
//! Three steps that a pipeline can spread over threads: fill a [`Segment`] with objects, [`Segment::compress`] it
//! (pure CPU, any thread), and [`Assembler::append`] the resulting members in any order. `docs/formats/tarball.md`
//! has the bytes.

use crate::index::{IndexRow, IndexWriter};
use crate::path::{ObjectPath, PathError, VersionDir};
use crate::tar_header::{append_end, append_file};
use flate2::Compression;
use flate2::write::GzEncoder;
use lifeboat_object::{GroupResource, ObjectKey};
use sha2::{Digest, Sha256};
use std::io::Write;

/// Tar bytes after which a segment is closed: large enough to compress well, small enough to fetch for one object.
pub const SEGMENT_SIZE: usize = 1 << 20;

/// One object to be stored, with the bytes that will stand in the archive.
#[derive(Clone, Copy, Debug)]
pub struct ObjectEntry<'a> {
    /// Its type.
    pub resource: &'a GroupResource,
    /// The version the bytes are in, such as `v1`.
    pub version: &'a str,
    /// Whether that is the version the cluster prefers; such objects get the plain path too.
    pub preferred: bool,
    /// Its namespace.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its JSON, with `apiVersion` and `kind`.
    pub body: &'a [u8],
}

/// Up to about [`SEGMENT_SIZE`] bytes of tar, and what stands in it.
#[derive(Debug, Default)]
pub struct Segment {
    tar: Vec<u8>,
    rows: Vec<IndexRow>,
}

impl Segment {
    /// Adds `metadata/version`; it belongs first into the first segment.
    pub fn push_version(&mut self, mtime: u64) {
        append_file(&mut self.tar, "metadata/version", format!("{}\n", crate::FORMAT_VERSION).as_bytes(), mtime);
    }

    /// Adds an object under its plain path (when the version is the preferred one) and its versioned path, adjacent.
    ///
    /// # Errors
    /// [`PathError::Escapes`] when a name is no path component; nothing is added.
    pub fn push_object(&mut self, object: &ObjectEntry<'_>, mtime: u64) -> Result<(), PathError> {
        let key = ObjectKey::new(object.resource.clone(), object.namespace, object.name);
        let mut path = ObjectPath { key, version: None };
        let plain = path.encode()?;
        path.version = Some(VersionDir { version: object.version.to_owned(), preferred: object.preferred });
        let versioned = path.encode()?;
        let offset = self.tar.len() as u64;
        if object.preferred {
            append_file(&mut self.tar, &plain, object.body, mtime);
        }
        append_file(&mut self.tar, &versioned, object.body, mtime);
        self.rows.push(IndexRow {
            key: path.key,
            version: object.version.to_owned(),
            preferred: object.preferred,
            offset,
            length: object.body.len() as u64,
            hash: entry_hash(object.body),
        });
        Ok(())
    }

    /// Bytes of tar so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tar.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tar.is_empty()
    }

    /// Whether it is time to close it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.tar.len() >= SEGMENT_SIZE
    }

    /// Compresses the segment into one gzip member. Level 1 (fast) to 9 (small).
    #[must_use]
    pub fn compress(self, level: u32) -> Member {
        let gzip = gzip_member(&self.tar, level);
        Member { gzip, tar_length: self.tar.len() as u64, rows: self.rows }
    }
}

/// The hash of an entry's body as the index holds it: the first 16 bytes of SHA-256.
#[must_use]
pub fn entry_hash(body: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&Sha256::digest(body)[..16]);
    out
}

fn gzip_member(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::new(level));
    // Writing into a Vec cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// A compressed segment.
#[derive(Debug)]
pub struct Member {
    gzip: Vec<u8>,
    tar_length: u64,
    rows: Vec<IndexRow>,
}

/// What the finished archive is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarballSummary {
    /// Bytes of the tar.gz.
    pub size: u64,
    /// SHA-256 of the tar.gz, lower-case hexadecimal.
    pub sha256: String,
    /// Objects in it.
    pub objects: u64,
}

/// Joins members to the archive and writes the index along the way.
pub struct Assembler {
    size: u64,
    tar_length: u64,
    hasher: Sha256,
    index: IndexWriter,
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new()
    }
}

impl Assembler {
    /// An empty archive.
    #[must_use]
    pub fn new() -> Self {
        Self { size: 0, tar_length: 0, hasher: Sha256::new(), index: IndexWriter::new() }
    }

    /// Takes the next member, in whatever order members complete, and gives back the bytes to upload.
    #[must_use]
    pub fn append(&mut self, member: Member) -> Vec<u8> {
        self.index.member(self.size, member.gzip.len() as u64, member.tar_length, &member.rows);
        self.take(member.gzip, member.tar_length)
    }

    /// Ends the archive: the last bytes to upload, what it is, and the content of the index file.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, TarballSummary, Vec<u8>) {
        let mut end = Vec::new();
        append_end(&mut end);
        let last = gzip_member(&end, 1);
        let last = self.take(last, end.len() as u64);
        let summary =
            TarballSummary { size: self.size, sha256: hex(&self.hasher.finalize()), objects: self.index.objects() };
        let index = self.index.finish(&summary, self.tar_length);
        (last, summary, index)
    }

    fn take(&mut self, gzip: Vec<u8>, tar_length: u64) -> Vec<u8> {
        self.hasher.update(&gzip);
        self.size += gzip.len() as u64;
        self.tar_length += tar_length;
        gzip
    }
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gzip::{capped, unpack};
    use crate::index::Index;
    use crate::tar_reader::{ReadLimits, TarReader};
    use std::collections::BTreeMap;

    #[test]
    fn members_may_complete_in_any_order() {
        let pods = GroupResource::new("", "pods");
        let crds = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let mut first = Segment::default();
        first.push_version(7);
        first
            .push_object(
                &ObjectEntry {
                    resource: &pods,
                    version: "v1",
                    preferred: true,
                    namespace: Some("a"),
                    name: "p",
                    body: b"{\"p\":1}",
                },
                7,
            )
            .unwrap();
        let mut second = Segment::default();
        for (version, preferred) in [("v1", true), ("v1beta1", false)] {
            second
                .push_object(
                    &ObjectEntry {
                        resource: &crds,
                        version,
                        preferred,
                        namespace: None,
                        name: "c",
                        body: version.as_bytes(),
                    },
                    7,
                )
                .unwrap();
        }
        let mut assembler = Assembler::new();
        let mut bytes = assembler.append(first.compress(3));
        bytes.extend(assembler.append(second.compress(3)));
        let (last, summary, index) = assembler.finish();
        bytes.extend(last);

        assert_eq!(summary.size, bytes.len() as u64);
        assert_eq!(summary.sha256, hex(&Sha256::digest(&bytes)));
        let mut reader = TarReader::new(capped(bytes.as_slice(), 1 << 20), ReadLimits::default());
        let (mut got, mut body) = (BTreeMap::new(), Vec::new());
        while let Some(entry) = reader.next_file(&mut body).unwrap() {
            got.insert(entry.name, String::from_utf8(body.clone()).unwrap());
        }
        let expected: BTreeMap<String, String> = [
            ("metadata/version", "1.1.0\n"),
            ("resources/pods/namespaces/a/p.json", "{\"p\":1}"),
            ("resources/pods/v1-preferredversion/namespaces/a/p.json", "{\"p\":1}"),
            ("resources/customresourcedefinitions.apiextensions.k8s.io/cluster/c.json", "v1"),
            ("resources/customresourcedefinitions.apiextensions.k8s.io/v1-preferredversion/cluster/c.json", "v1"),
            ("resources/customresourcedefinitions.apiextensions.k8s.io/v1beta1/cluster/c.json", "v1beta1"),
        ]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .into();
        assert_eq!(got, expected);

        let index = Index::read(index.as_slice(), 1 << 20).unwrap();
        assert_eq!(index.tarball, summary);
        let found: Vec<(String, String, Vec<u8>)> = index
            .rows()
            .map(|row| {
                let member = &index.members[row.member as usize];
                let from = usize::try_from(member.offset).unwrap();
                let tar =
                    unpack(&bytes[from..from + usize::try_from(member.length).unwrap()], member.tar_length).unwrap();
                let body = index.extract(&tar, row).unwrap().to_vec();
                (row.key().to_string(), row.version.to_string(), body)
            })
            .collect();
        assert_eq!(
            found,
            vec![
                ("pods/a/p".to_owned(), "v1".to_owned(), b"{\"p\":1}".to_vec()),
                ("customresourcedefinitions.apiextensions.k8s.io/c".to_owned(), "v1".to_owned(), b"v1".to_vec()),
                (
                    "customresourcedefinitions.apiextensions.k8s.io/c".to_owned(),
                    "v1beta1".to_owned(),
                    b"v1beta1".to_vec()
                ),
            ]
        );
    }

    #[test]
    fn a_name_that_escapes_adds_nothing() {
        let mut segment = Segment::default();
        let pods = GroupResource::new("", "pods");
        let entry =
            ObjectEntry { resource: &pods, version: "v1", preferred: true, namespace: None, name: "../x", body: b"" };
        assert!(segment.push_object(&entry, 0).is_err());
        assert!(segment.is_empty());
    }
}
