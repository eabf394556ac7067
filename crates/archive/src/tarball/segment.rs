//! The parts of an archive: tar that is filled with objects, and the gzip members that become of it.

use crate::deflate::Likeness;
use crate::entry::{ObjectEntry, hash_of_pieces};
use crate::gzip::Packer;
use crate::index::content::Row;
use crate::index::write::RowLines;
use crate::path::{PathError, encode};
use crate::tar_header::{BLOCK, append_body, append_file, append_header};
use std::ops::Range;

/// Tar bytes after which a segment is closed: large enough to compress well, small enough to fetch for one object.
pub const SEGMENT_SIZE: usize = 1 << 20;
/// A body of this size or more is compressed once for both of its paths. The compressor looks back 32 KiB, so it would not
/// see that the second copy repeats the first. For a smaller body, the headers of two more gzip members cost more.
pub(super) const COMPRESSED_ONCE: u64 = 32 << 10;

/// A piece of the tar, up to about [`SEGMENT_SIZE`] bytes, and the rows of its objects.
#[derive(Debug, Default)]
pub struct Segment {
    tar: Vec<u8>,
    again: Vec<Repetition>,
    /// Bytes of tar that stand in the segment once and in the archive twice.
    repeated: usize,
    /// The parts of the tar that are like a part shortly before them.
    alike: Vec<Likeness>,
    /// Headers of the last object, under its plain path and its versioned one.
    headers: [Range<usize>; 2],
    rows: RowLines,
}

/// A repetition: after the byte `at` of the tar, its bytes `body` come once more.
#[derive(Debug)]
struct Repetition {
    body: Range<usize>,
    at: usize,
}

impl Segment {
    /// Adds `metadata/version`, which has to be the first file of the first segment.
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
            self.again.push(Repetition { body, at: self.tar.len() });
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
        self.rows.push(object, offset, length, hash_of_pieces(&object.body));
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

    /// Returns true if nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tar.is_empty()
    }

    /// Returns true if the segment has enough bytes to be compressed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= SEGMENT_SIZE
    }

    /// Compresses the segment. It is empty afterwards, and keeps its memory for the next objects.
    #[must_use]
    pub fn compress(&mut self, packer: &mut Packer) -> Member {
        let (tar_length, rows) = (self.len() as u64, std::mem::take(&mut self.rows));
        let mut gzip = Vec::new();
        let mut from = 0;
        for Repetition { body, at } in std::mem::take(&mut self.again) {
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

    /// Compresses a part of the tar, which is read without the others.
    fn append(&self, part: Range<usize>, packer: &mut Packer, gzip: &mut Vec<u8>) {
        let inside = |one: &&Likeness| one.at >= part.start + one.distance && one.at + one.length <= part.end;
        let alike = self.alike.iter().filter(inside).map(|one| Likeness { at: one.at - part.start, ..*one });
        packer.append_member(&self.tar[part.clone()], &alike.collect::<Vec<_>>(), gzip);
    }
}

/// A compressed segment.
#[derive(Debug)]
pub struct Member {
    pub(super) gzip: Vec<u8>,
    pub(super) tar_length: u64,
    pub(super) rows: RowLines,
}

impl Member {
    /// A member copied out of another archive of Lifeboat's, with its rows in the index there.
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

    /// The number of objects in it.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

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
