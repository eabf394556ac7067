//! Copies an archive into scratch space, as it is or, without index, in our seekable form.

use crate::StoreError;
use crate::bridge::{NotDone, PieceReader, with_reader};
use crate::open::{OpenOptions, head};
use lifeboat_archive::gzip::{Packer, capped};
use lifeboat_archive::index::{Index, IndexError};
use lifeboat_archive::tarball::{Assembler, ObjectEntry, Segment};
use lifeboat_archive::{ArchivePath, ObjectPath, ReadError, TarReader};
use lifeboat_bucket::ByteStream;
use std::fs::File;
use std::io::{self, Read, Write};

/// Compression of a copy that is thrown away soon.
const LEVEL: u32 = 1;

/// A copy of an archive in our form.
pub(crate) struct Transcoded {
    pub(crate) index: Index,
    /// The index as it is written into files.
    pub(crate) index_file: Vec<u8>,
    pub(crate) copy: File,
}

/// Reads the whole archive once, checks every entry, and writes the copy.
///
/// Plain paths give the objects in the version they are stored in; the directories `<version>-preferredversion` hold
/// the same bytes again and are passed over; the other version directories give further rows.
pub(crate) async fn transcode(stream: ByteStream, key: &str, options: &OpenOptions) -> Result<Transcoded, StoreError> {
    let (owned, options) = (key.to_owned(), options.clone());
    with_reader(stream, move |reader| copy(reader, &owned, &options)).await.map_err(not_copied)
}

/// Copies an archive as it is; gives its size too. An archive whose packed size is above the limit for unpacked bytes
/// is refused.
pub(crate) async fn copied(stream: ByteStream, key: &str, options: &OpenOptions) -> Result<(File, u64), StoreError> {
    let (owned, options) = (key.to_owned(), options.clone());
    let write = move |reader: PieceReader| {
        let scratch = |source| StoreError::Scratch { place: options.scratch.display().to_string(), source };
        let mut file = new_file(&options)?;
        let most = options.limits.total;
        let size = io::copy(&mut reader.take(most.saturating_add(1)), &mut file).map_err(scratch)?;
        if size > most {
            let source = ReadError::Refused(format!("it has more than {most} bytes"));
            return Err(StoreError::Archive { key: owned, source });
        }
        Ok((file, size))
    };
    with_reader(stream, write).await.map_err(not_copied)
}

fn not_copied(why: NotDone<StoreError>) -> StoreError {
    match why {
        NotDone::Thread => StoreError::Worker("copying the archive into scratch space"),
        NotDone::Stream(e) => e.into(),
        NotDone::Work(e) => e,
    }
}

/// Creates a file without a name: it holds Secrets, and is gone when this process ends in any way.
fn new_file(options: &OpenOptions) -> Result<File, StoreError> {
    tempfile::tempfile_in(&options.scratch)
        .map_err(|source| StoreError::Scratch { place: options.scratch.display().to_string(), source })
}

fn copy(reader: PieceReader, key: &str, options: &OpenOptions) -> Result<Transcoded, StoreError> {
    let scratch = |source| StoreError::Scratch { place: options.scratch.display().to_string(), source };
    let refused = |source| StoreError::Archive { key: key.to_owned(), source };
    let mut file = new_file(options)?;
    let mut tar = TarReader::new(capped(reader, options.limits.total), options.limits);
    let mut assembler = Assembler::new();
    let mut segment = Segment::default();
    let mut packer = Packer::new(LEVEL);
    let mut body = Vec::new();
    while let Some(entry) = tar.next_file(&mut body).map_err(refused)? {
        let ArchivePath::Object(path) = entry.path else { continue };
        if path.version.as_ref().is_some_and(|v| v.preferred) {
            continue;
        }
        let version = checked_version(key, &path, &body)?;
        let object = ObjectEntry {
            resource: &path.key.resource,
            version: &version,
            preferred: path.version.is_none(),
            namespace: path.key.namespace.as_deref(),
            name: &path.key.name,
            body: [&body, &[]],
        };
        segment.push_object(&object, 0).map_err(|e| refused(e.into()))?;
        if segment.is_full() {
            let member = segment.compress(&mut packer);
            file.write_all(&assembler.append(member)).map_err(scratch)?;
        }
    }
    if !segment.is_empty() {
        file.write_all(&assembler.append(segment.compress(&mut packer))).map_err(scratch)?;
    }
    let (last, summary, index_file) = assembler.finish();
    file.write_all(&last).map_err(scratch)?;
    let index =
        Index::read(index_file.as_slice(), summary.size, options.limits.of_copy()).map_err(|source| match source {
            IndexError::Twice(_) => refused(ReadError::Refused(source.to_string())),
            source => StoreError::Index { key: key.to_owned(), source },
        })?;
    Ok(Transcoded { index, index_file, copy: file })
}

/// The version an entry is stored in: its directory says so, or the object itself.
fn checked_version(key: &str, path: &ObjectPath, body: &[u8]) -> Result<String, StoreError> {
    let head = head(key, &path.key, body)?;
    path.check(&head).map_err(|source| StoreError::Disagrees { key: key.to_owned(), source })?;
    Ok(match &path.version {
        Some(version) => version.version.clone(),
        None => {
            let api_version = head.api_version.unwrap_or_default();
            api_version.rsplit('/').next().filter(|v| !v.is_empty()).unwrap_or("v1").to_owned()
        }
    })
}
