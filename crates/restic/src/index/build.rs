//! An index in the making: records are sorted in runs, and the runs are merged.

use super::location::Location;
use super::lookup::{BUCKETS, BlobIndex, Records};
use super::record::{BlobRecord, SIZE, bucket};
use crate::format::FormatError;
use crate::format::index::{Blob, Pack};
use crate::format::stored::MAX_PLAIN;
use crate::{Id, ResticError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An index in the making.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    folder: PathBuf,
    /// The most records in memory.
    limit: usize,
    packs: Vec<Id>,
    records: Vec<BlobRecord>,
    runs: Vec<File>,
    files: u64,
}

impl IndexBuilder {
    /// An empty one, with a folder of this process alone, and the most bytes of records in memory.
    pub(crate) fn new(folder: &Path, memory: u64) -> Self {
        let limit = usize::try_from(memory).unwrap_or(usize::MAX) / (2 * SIZE);
        let folder = folder.to_owned();
        Self { folder, limit: limit.max(1), packs: Vec::new(), records: Vec::new(), runs: Vec::new(), files: 0 }
    }

    /// Adds the blobs of a pack.
    pub(crate) fn add(&mut self, pack: &Pack) -> Result<(), ResticError> {
        let number = u32::try_from(self.packs.len()).map_err(|_| damaged(&pack.id, "the index has too many packs"))?;
        self.packs.push(pack.id);
        for blob in &pack.blobs {
            let location = location(number, blob).map_err(|e| damaged(&pack.id, e))?;
            self.records.push(BlobRecord { id: blob.id, location });
            if self.records.len() >= self.limit {
                self.spill()?;
            }
        }
        Ok(())
    }

    fn scratch(&self, attempt: &'static str) -> impl Fn(std::io::Error) -> ResticError + use<> {
        let path = self.folder.clone();
        move |source| ResticError::Scratch { attempt, path: path.clone(), source }
    }

    /// Makes a file without a name: it goes with its last reader, also when the process is killed.
    fn file(&mut self) -> Result<File, ResticError> {
        let path = self.folder.join(format!("restic-index-{}", self.files));
        self.files += 1;
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(self.scratch("make a file"))?;
        std::fs::remove_file(&path).map_err(self.scratch("remove the name of a file"))?;
        Ok(file)
    }

    /// Writes the records in memory as a sorted run.
    fn spill(&mut self) -> Result<(), ResticError> {
        let (file, failed) = (self.file()?, self.scratch("write an index"));
        self.records.sort_unstable();
        let mut out = BufWriter::new(file);
        for record in self.records.drain(..) {
            out.write_all(&record.bytes()).map_err(&failed)?;
        }
        let mut file = out.into_inner().map_err(|e| failed(e.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(&failed)?;
        self.runs.push(file);
        Ok(())
    }

    /// Ends the adding.
    pub(crate) fn finish(mut self) -> Result<BlobIndex, ResticError> {
        let mut buckets = Buckets::default();
        let records = if self.runs.is_empty() {
            self.records.sort_unstable();
            self.records.dedup();
            let mut bytes = Vec::with_capacity(self.records.len() * SIZE);
            for record in &self.records {
                buckets.count(&record.id);
                bytes.extend_from_slice(&record.bytes());
            }
            Records::Memory(bytes)
        } else {
            self.spill()?;
            Records::File(self.merge(&mut buckets)?)
        };
        Ok(BlobIndex { packs: self.packs, records, buckets: buckets.finish(), folder: self.folder })
    }

    fn merge(&mut self, buckets: &mut Buckets) -> Result<File, ResticError> {
        let (file, failed) = (self.file()?, self.scratch("merge an index"));
        let mut runs: Vec<BufReader<File>> = std::mem::take(&mut self.runs).into_iter().map(BufReader::new).collect();
        let mut heads = BinaryHeap::with_capacity(runs.len());
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(next(run).map_err(&failed)?.map(|record| Reverse((record, number))));
        }
        let mut out = BufWriter::new(file);
        let mut last = None;
        while let Some(Reverse((record, number))) = heads.pop() {
            if last != Some(record) {
                buckets.count(&record.id);
                out.write_all(&record.bytes()).map_err(&failed)?;
                last = Some(record);
            }
            if let Some(run) = runs.get_mut(number) {
                heads.extend(next(run).map_err(&failed)?.map(|record| Reverse((record, number))));
            }
        }
        out.into_inner().map_err(|e| failed(e.into_error()))
    }
}

/// The next record of a run.
fn next(run: &mut impl Read) -> std::io::Result<Option<BlobRecord>> {
    let mut bytes = [0; SIZE];
    match run.read_exact(&mut bytes) {
        Ok(()) => Ok(BlobRecord::parse(&bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

fn damaged(pack: &Id, why: impl std::fmt::Display) -> ResticError {
    ResticError::damaged(format!("the index of pack {pack}"), why)
}

/// The place of a blob, where it can be one.
fn location(pack: u32, blob: &Blob) -> Result<Location, FormatError> {
    let Blob { id, offset, length, uncompressed_length } = *blob;
    let bad = |why: &str| Err(FormatError::new(format_args!("blob {id} {why}")));
    let Some(plain_length) = blob.plain_length() else { return bad("is shorter than an encrypted text can be") };
    if offset.checked_add(length).is_none() {
        return bad("ends behind 4 GiB");
    }
    if plain_length.max(length) as usize > MAX_PLAIN {
        return bad("is longer than 1 GiB");
    }
    Ok(Location { pack, offset, length, plain_length, is_compressed: uncompressed_length != 0 })
}

/// The numbers of records by bucket.
struct Buckets(Vec<u64>);

impl Default for Buckets {
    fn default() -> Self {
        Self(vec![0; BUCKETS + 1])
    }
}

impl Buckets {
    fn count(&mut self, id: &Id) {
        if let Some(count) = self.0.get_mut(bucket(id) + 1) {
            *count += 1;
        }
    }

    /// Gives the first record of each bucket.
    fn finish(mut self) -> Vec<u64> {
        let mut sum = 0;
        for count in &mut self.0 {
            sum += *count;
            *count = sum;
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(bytes: &[u8]) -> Id {
        Id::of(bytes)
    }

    fn blob(name: u32, offset: u32, uncompressed_length: u32) -> Blob {
        Blob { id: id(&name.to_be_bytes()), offset, length: 100, uncompressed_length }
    }

    fn build(memory: u64, packs: &[Pack]) -> (tempfile::TempDir, BlobIndex) {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = IndexBuilder::new(folder.path(), memory);
        for pack in packs {
            builder.add(pack).unwrap();
        }
        let index = builder.finish().unwrap();
        (folder, index)
    }

    proptest! {
        #[test]
        fn an_index_in_a_file_finds_what_one_in_memory_finds(
            packs in proptest::collection::vec(proptest::collection::vec((0..40_u32, 0..3_u32), 0..30), 0..8),
            memory in 96..2000_u64,
        ) {
            let pack = |(number, blobs): (u8, &Vec<(u32, u32)>)| {
                let blobs = blobs.iter().zip(0_u32..).map(|(&(name, plain), at)| blob(name, at * 100, plain * 1000));
                Pack { id: Id([number; 32]), blobs: blobs.collect() }
            };
            let packs: Vec<Pack> = (0_u8..).zip(&packs).map(pack).collect();
            let (_folder, in_file) = build(memory, &packs);
            let (_other, in_memory) = build(1 << 20, &packs);
            prop_assert_eq!(in_file.len(), in_memory.len());
            for name in 0..45_u32 {
                let found = in_file.find(&id(&name.to_be_bytes())).unwrap();
                prop_assert_eq!(found, in_memory.find(&id(&name.to_be_bytes())).unwrap());
                let all = packs.iter().flat_map(|pack| pack.blobs.iter().map(|blob| (pack.id, blob)));
                let mut places = all.filter(|(_, blob)| blob.id == id(&name.to_be_bytes()));
                match found {
                    None => prop_assert!(places.next().is_none()),
                    Some(place) => {
                        let is_there = places.any(|(pack, blob)| {
                            in_file.pack(place.pack) == Some(&pack)
                                && blob.offset == place.offset
                                && blob.plain_length() == Some(place.plain_length)
                        });
                        prop_assert!(is_there);
                    }
                }
            }
        }
    }

    #[test]
    fn many_ids_with_the_same_beginning_are_found_too() {
        let blobs = (0..2000_u16).map(|number| {
            let mut id = [1; 32];
            id[30..].copy_from_slice(&number.to_be_bytes());
            Blob { id: Id(id), offset: u32::from(number), length: 40, uncompressed_length: 0 }
        });
        let pack = Pack { id: Id([9; 32]), blobs: blobs.collect() };
        for memory in [1 << 20, 4800] {
            let (_folder, index) = build(memory, std::slice::from_ref(&pack));
            for blob in &pack.blobs {
                assert_eq!(index.find(&blob.id).unwrap().map(|place| place.offset), Some(blob.offset));
            }
            assert_eq!(index.find(&Id([1; 32])).unwrap().map(|place| place.offset), Some(257));
            assert_eq!(index.find(&Id([2; 32])).unwrap(), None);
        }
    }

    #[test]
    fn a_blob_that_cannot_be_where_the_index_says_is_refused() {
        let why =
            |blob: Blob| location(0, &blob).map_err(|e| e.why.split_once(' ').unwrap().1[65..].to_owned()).unwrap_err();
        let usual = blob(1, 0, 0);
        assert_eq!(why(Blob { length: 31, ..usual.clone() }), "is shorter than an encrypted text can be");
        assert_eq!(why(Blob { offset: u32::MAX, ..usual.clone() }), "ends behind 4 GiB");
        assert_eq!(why(Blob { uncompressed_length: u32::MAX, ..usual }), "is longer than 1 GiB");
    }
}
