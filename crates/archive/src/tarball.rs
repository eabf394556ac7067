//! The archive of a backup: an ordinary tar.gz made of independent gzip members, with an index beside it.
//!
//! Three steps that a pipeline can spread over threads: fill a [`Segment`] with objects, [`Segment::compress`] it
//! (pure CPU, any thread), and [`Assembler::append`] the resulting members in any order. `docs/formats/tarball.md`
//! has the bytes.

pub(crate) mod segment;

pub use crate::entry::{ObjectEntry, entry_hash};
pub use crate::index::content::TarballSummary;
pub use segment::{Member, SEGMENT_SIZE, Segment};

use crate::gzip::Packer;
use crate::index::write::IndexWriter;
use crate::tar_header::append_end;
use sha2::{Digest, Sha256};

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

    /// Appends a member and gives the bytes to upload. Members may come in any order.
    #[must_use]
    pub fn append(&mut self, member: Member) -> Vec<u8> {
        self.index.member(self.size, member.gzip.len() as u64, member.tar_length, &member.rows);
        self.take(member.gzip, member.tar_length)
    }

    /// Ends the archive. Gives the last bytes to upload, the summary of the archive, and the content of the index file.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, TarballSummary, Vec<u8>) {
        self.finish_unlike(u64::MAX)
    }

    /// Ends the archive like [`Assembler::finish`], with another size than the given one: a reader that meets the index of the
    /// archive of that size does not take it for the index of this one.
    #[must_use]
    pub fn finish_unlike(mut self, size: u64) -> (Vec<u8>, TarballSummary, Vec<u8>) {
        let mut end = Vec::new();
        append_end(&mut end);
        let mut last = Packer::new(1).member(&end).to_vec();
        if self.size + last.len() as u64 == size {
            // An empty member, which decompresses to nothing.
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
    use super::segment::COMPRESSED_ONCE;
    use super::*;
    use crate::gzip::{capped, unpack};
    use crate::index::Index;
    use crate::tar_reader::{ReadLimits, TarReader};
    use lifeboat_object::GroupResource;
    use std::collections::BTreeMap;

    #[test]
    fn members_may_complete_in_any_order() {
        let pods = GroupResource::new("", "pods");
        let crds = GroupResource::definitions();
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
}
