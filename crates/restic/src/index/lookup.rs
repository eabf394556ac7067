//! Looking up blobs in an index that is complete.

use super::location::Location;
use super::record::{BlobRecord, SIZE, bucket};
use crate::{Id, ResticError};
use std::cmp::Ordering;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The buckets by the first two bytes of an ID, which is random.
pub(super) const BUCKETS: usize = 1 << 16;
/// The most records that are read at once to find one.
const READ_AT_ONCE: u64 = 512;

/// An index that is complete.
#[derive(Debug)]
pub(crate) struct BlobIndex {
    pub(super) packs: Vec<Id>,
    pub(super) records: Records,
    /// The first record of each bucket, and the number of all.
    pub(super) buckets: Vec<u64>,
    pub(super) folder: PathBuf,
}

/// The records of an index, sorted.
#[derive(Debug)]
pub(super) enum Records {
    Memory(Vec<u8>),
    File(File),
}

impl BlobIndex {
    /// The name of a pack.
    pub(crate) fn pack(&self, number: u32) -> Option<&Id> {
        self.packs.get(number as usize)
    }

    /// The blobs in it; one that several packs have counts several times.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        self.buckets.last().copied().unwrap_or(0)
    }

    /// Finds a blob. This may read from the scratch space.
    pub(crate) fn find(&self, id: &Id) -> Result<Option<Location>, ResticError> {
        let number = bucket(id);
        let (Some(&start), Some(&end)) = (self.buckets.get(number), self.buckets.get(number + 1)) else {
            return Ok(None);
        };
        let (mut start, mut end) = (start, end);
        // IDs are random, and only a repository that is made for it has so many in one bucket.
        while end - start > READ_AT_ONCE {
            let middle = start + (end - start) / 2;
            let bytes = self.read(middle, 1)?;
            let Some(record) = BlobRecord::parse(&bytes) else { return Ok(None) };
            match record.id.cmp(id) {
                Ordering::Less => start = middle + 1,
                Ordering::Equal => return Ok(Some(record.location)),
                Ordering::Greater => end = middle,
            }
        }
        let bytes = self.read(start, end - start)?;
        Ok(bytes
            .chunks(SIZE)
            .filter_map(BlobRecord::parse)
            .find(|record| record.id == *id)
            .map(|record| record.location))
    }

    /// Reads records.
    fn read(&self, first: u64, count: u64) -> Result<Vec<u8>, ResticError> {
        let (offset, length) = (first * SIZE as u64, count as usize * SIZE);
        match &self.records {
            Records::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(bytes.get(start..start.saturating_add(length)).unwrap_or_default().to_vec())
            }
            Records::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, offset).map_err(|source| ResticError::Scratch {
                    attempt: "read the index",
                    path: self.folder.clone(),
                    source,
                })?;
                Ok(bytes)
            }
        }
    }
}
