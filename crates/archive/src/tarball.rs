//! The archive of a backup: an ordinary tar.gz made of independent gzip members, with an index beside it.
//!
//! Three steps that a pipeline can spread over threads: fill a [`Segment`] with objects, [`Segment::compress`] it
//! (pure CPU, any thread), and [`Assembler::append`] the resulting members in any order. `docs/formats/tarball.md`
//! has the bytes.

use crate::deflate::Likeness;
use crate::gzip::Packer;
use crate::index::{IndexWriter, Row, RowLines};
use crate::path::{PathError, encode};
use crate::tar_header::{BLOCK, append_body, append_end, append_file, append_header};
use lifeboat_object::GroupResource;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Tar bytes after which a segment is closed: large enough to compress well, small enough to fetch for one object.
pub const SEGMENT_SIZE: usize = 1 << 20;
/// A body of this size is compressed once for both of its paths. The compressor looks back 32 KiB, so it would not see
/// that the second copy is one; for a smaller body, the headers of two more gzip members would cost more than that.
const COMPRESSED_ONCE: u64 = 32 << 10;

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
    /// Its JSON, with `apiVersion` and `kind`: two pieces that stand one after the other.
    pub body: [&'a [u8]; 2],
}

/// Up to about [`SEGMENT_SIZE`] bytes of tar, and what stands in it.
#[derive(Debug, Default)]
pub struct Segment {
    tar: Vec<u8>,
    again: Vec<Again>,
    /// Bytes of tar that come again.
    repeated: usize,
    /// What in the tar is like something shortly before it.
    alike: Vec<Likeness>,
    /// Headers of the last object, under its plain path and its versioned one.
    headers: [Range<usize>; 2],
    rows: RowLines,
}

/// After the byte `at` of the tar, its bytes `body` come once more.
#[derive(Debug)]
struct Again {
    body: Range<usize>,
    at: usize,
}

impl Segment {
    /// Adds `metadata/version`; it belongs first into the first segment.
    pub fn push_version(&mut self, mtime: u64) {
        append_file(&mut self.tar, "metadata/version", &[crate::FORMAT_VERSION.as_bytes(), b"\n"], mtime);
    }

    /// Adds an object under its plain path (when the version is the preferred one) and its versioned path, adjacent.
    ///
    /// # Errors
    /// [`PathError::Escapes`] when a name is no path component; nothing is added.
    pub fn push_object(&mut self, object: &ObjectEntry<'_>, mtime: u64) -> Result<(), PathError> {
        let path = |version| encode(object.resource, object.namespace, object.name, version);
        let plain = path(None)?;
        let versioned = path(Some((object.version, object.preferred)))?;
        let (offset, length) = (self.len() as u64, object.body.iter().map(|piece| piece.len() as u64).sum());
        if object.preferred && length >= COMPRESSED_ONCE {
            // With its headers, and without a doubling of what is large already.
            self.tar.reserve_exact(object.body.iter().map(|piece| piece.len()).sum::<usize>() + 8 * BLOCK);
            append_header(&mut self.tar, &plain, length, mtime);
            let start = self.tar.len();
            append_body(&mut self.tar, &object.body);
            let body = start..self.tar.len();
            append_header(&mut self.tar, &versioned, length, mtime);
            self.repeated += body.len();
            self.again.push(Again { body, at: self.tar.len() });
        } else {
            let mut first = None;
            if object.preferred {
                self.push_header(0, &plain, length, mtime);
                first = Some(self.tar.len());
                append_body(&mut self.tar, &object.body);
            }
            self.push_header(1, &versioned, length, mtime);
            let at = self.tar.len();
            append_body(&mut self.tar, &object.body);
            if let Some(first) = first {
                self.alike.push(Likeness { at, length: self.tar.len() - at, distance: at - first });
            }
        }
        self.rows.push(object, offset, length, hash(&object.body));
        Ok(())
    }

    /// Appends a header, which differs from the last one of its kind in the name, hardly more.
    fn push_header(&mut self, kind: usize, path: &str, size: u64, mtime: u64) {
        let at = self.tar.len();
        append_header(&mut self.tar, path, size, mtime);
        let before = std::mem::replace(&mut self.headers[kind], at..self.tar.len());
        if before.len() == self.tar.len() - at {
            self.alike.push(Likeness { at, length: before.len(), distance: at - before.start });
        }
    }

    /// Bytes of tar so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tar.len() + self.repeated
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tar.is_empty()
    }

    /// Whether it is time to close it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= SEGMENT_SIZE
    }

    /// Compresses what is in it; it is empty afterwards, and keeps its memory for the next objects.
    #[must_use]
    pub fn compress(&mut self, packer: &mut Packer) -> Member {
        let (tar_length, rows) = (self.len() as u64, std::mem::take(&mut self.rows));
        let mut gzip = Vec::new();
        let mut from = 0;
        for Again { body, at } in std::mem::take(&mut self.again) {
            self.append(from..body.start, packer, &mut gzip);
            let first = gzip.len();
            let packed = packer.member(&self.tar[body.clone()]);
            // This and its copy, and the headers: mostly all of it.
            gzip.reserve_exact(2 * packed.len() + 1024);
            gzip.extend_from_slice(packed);
            let packed = first..gzip.len();
            gzip.extend_from_slice(packer.member(&self.tar[body.end..at]));
            gzip.extend_from_within(packed);
            from = at;
        }
        if from < self.tar.len() {
            self.append(from..self.tar.len(), packer, &mut gzip);
        }
        self.tar.clear();
        self.alike.clear();
        self.headers = [0..0, 0..0];
        self.repeated = 0;
        Member { gzip, tar_length, rows }
    }
}

impl Segment {
    /// Compresses a part of the tar, which is read without the others.
    fn append(&self, part: Range<usize>, packer: &mut Packer, gzip: &mut Vec<u8>) {
        let inside = |one: &&Likeness| one.at >= part.start + one.distance && one.at + one.length <= part.end;
        let alike = self.alike.iter().filter(inside).map(|one| Likeness { at: one.at - part.start, ..*one });
        packer.append_member(&self.tar[part.clone()], &alike.collect::<Vec<_>>(), gzip);
    }
}

/// The hash of an entry's body as the index holds it: the first 16 bytes of SHA-256.
#[must_use]
pub fn entry_hash(body: &[u8]) -> [u8; 16] {
    hash(&[body])
}

fn hash(pieces: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    let mut out = [0; 16];
    out.copy_from_slice(&hasher.finalize()[..16]);
    out
}

/// A compressed segment.
#[derive(Debug)]
pub struct Member {
    gzip: Vec<u8>,
    tar_length: u64,
    rows: RowLines,
}

impl Member {
    /// A member as it stands in another archive of ours, with its rows there.
    #[must_use]
    pub fn copied<'a>(gzip: Vec<u8>, tar_length: u64, rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut lines = RowLines::default();
        for row in rows {
            let object = ObjectEntry {
                resource: &row.resource,
                version: &row.version,
                preferred: row.preferred,
                namespace: row.namespace(),
                name: &row.name,
                body: [&[], &[]],
            };
            lines.push(&object, row.offset.into(), row.length.into(), row.hash);
        }
        Self { gzip, tar_length, rows: lines }
    }

    /// How many objects stand in it.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.rows.len()
    }
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
    pub fn finish(self) -> (Vec<u8>, TarballSummary, Vec<u8>) {
        self.finish_unlike(u64::MAX)
    }

    /// [`Assembler::finish`] with an archive that has not this size, so that the index of the one that had it is not taken for
    /// an index of this one.
    #[must_use]
    pub fn finish_unlike(mut self, size: u64) -> (Vec<u8>, TarballSummary, Vec<u8>) {
        let mut end = Vec::new();
        append_end(&mut end);
        let mut last = Packer::new(1).member(&end).to_vec();
        if self.size + last.len() as u64 == size {
            // Of nothing: it decompresses to no byte more.
            last.extend_from_slice(Packer::new(1).member(&[]));
        }
        let last = self.take(last, end.len() as u64);
        let summary = TarballSummary {
            size: self.size,
            sha256: hex::encode(self.hasher.finalize()),
            objects: self.index.objects(),
        };
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
                    body: [b"{\"p\"", b":1}"],
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
                        body: [version.as_bytes(), b""],
                    },
                    7,
                )
                .unwrap();
        }
        let mut assembler = Assembler::new();
        let mut packer = Packer::new(3);
        let mut bytes = assembler.append(first.compress(&mut packer));
        bytes.extend(assembler.append(second.compress(&mut packer)));
        let (last, summary, index) = assembler.finish();
        bytes.extend(last);

        assert_eq!(summary.size, bytes.len() as u64);
        assert_eq!(summary.sha256, hex::encode(Sha256::digest(&bytes)));
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

        let index = Index::read(index.as_slice(), summary.size, ReadLimits::default()).unwrap();
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
    fn a_large_body_that_is_compressed_once_stands_under_both_paths() {
        let pods = GroupResource::new("", "pods");
        let once = usize::try_from(COMPRESSED_ONCE).unwrap();
        let (mut segment, mut packer) = (Segment::default(), Packer::new(1));
        let (mut assembler, mut bytes, mut expected) = (Assembler::new(), Vec::new(), BTreeMap::new());
        // The segment is used again, and a large body stands first, last, beside another, and alone.
        for (number, sizes) in [vec![once, 7, once - 1], vec![9, once + 1, 100_000], vec![once]].iter().enumerate() {
            for size in sizes {
                let name = format!("{number}-{size}");
                let body: Vec<u8> = (0..*size).map(|n| ((n * n) >> 9) as u8).collect();
                for (version, preferred) in [("v1", true), ("v1beta1", false)] {
                    let (resource, namespace, name) = (&pods, None, name.as_str());
                    let (one, other) = body.split_at(size / 3);
                    let body = [one, other];
                    let entry = ObjectEntry { resource, version, preferred, namespace, name, body };
                    segment.push_object(&entry, 7).unwrap();
                }
                for directory in ["", "v1-preferredversion/", "v1beta1/"] {
                    expected.insert(format!("resources/pods/{directory}cluster/{name}.json"), body.clone());
                }
            }
            bytes.extend(assembler.append(segment.compress(&mut packer)));
            assert!(segment.is_empty());
        }
        let (last, summary, index) = assembler.finish();
        bytes.extend(last);

        let mut reader = TarReader::new(capped(bytes.as_slice(), 1 << 24), ReadLimits::default());
        let (mut got, mut body) = (BTreeMap::new(), Vec::new());
        while let Some(entry) = reader.next_file(&mut body).unwrap() {
            got.insert(entry.name, body.clone());
        }
        assert_eq!(got.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(got == expected, "a body differs");

        let index = Index::read(index.as_slice(), summary.size, ReadLimits::default()).unwrap();
        assert_eq!(index.rows().count(), 14);
        for row in index.rows() {
            let member = &index.members[row.member as usize];
            let from = usize::try_from(member.offset).unwrap();
            let tar = unpack(&bytes[from..from + usize::try_from(member.length).unwrap()], member.tar_length).unwrap();
            let directory = if row.preferred { "v1-preferredversion" } else { "v1beta1" };
            let path = format!("resources/pods/{directory}/cluster/{}.json", row.name);
            assert!(index.extract(&tar, row).unwrap() == expected[&path], "{path}");
        }
    }

    #[test]
    fn a_name_that_escapes_adds_nothing() {
        let mut segment = Segment::default();
        let pods = GroupResource::new("", "pods");
        let entry = ObjectEntry {
            resource: &pods,
            version: "v1",
            preferred: true,
            namespace: None,
            name: "../x",
            body: [b""; 2],
        };
        assert!(segment.push_object(&entry, 0).is_err());
        assert!(segment.is_empty());
    }
}
