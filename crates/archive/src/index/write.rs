//! Writes the index while its archive is made.

use super::content::{INDEX_FORMAT, TarballSummary};
use crate::entry::ObjectEntry;
use crate::gzip::Packer;
use lifeboat_object::GroupResource;
use serde::Serialize;
use std::io::Write;

/// Rows on their way into the index: text in which the number of their member is missing.
#[derive(Debug, Default)]
pub(crate) struct RowLines {
    text: Vec<u8>,
    /// The offsets at which the numbers go.
    gaps: Vec<usize>,
}

impl RowLines {
    /// Adds an object whose first header stands at this offset of the member, with the length and hash of its JSON.
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

/// Appends the JSON of a string or of numbers, which cannot fail.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let _ = serde_json::to_writer(out, value);
}

/// Bytes of JSON that are compressed together.
const PIECE: usize = 256 << 10;

/// Writes the index while members come in. Holds it compressed, so that memory grows by a few bytes per object.
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
