//! Indexes: where contents lie (kopia: repo/content/index/index_v1.go, index_v2.go, index_builder.go).
//!
//! An index is a sorted table of fixed-size records. Readers never load it as a whole: the header is read from the first
//! bytes, then records are read by number from any source of bytes.

mod build;
mod entry;
mod record;
mod shard;

use super::FormatError;
use super::content_id::ContentId;
use entry::STRUCTURE;
use record::{Layout, PackNames};

pub use build::{MAX_LENGTH, MAX_OFFSET, build};
pub use entry::{Entry, ReadAt};
pub use shard::{MAX_SHARD, build_shards, shard_count, shard_of};

/// An index of version 1 or 2, read by record.
#[derive(Debug)]
pub struct Index<R> {
    source: R,
    layout: Layout,
}

impl<R: ReadAt> Index<R> {
    /// Reads the header and checks that all tables lie inside the source. Trailing bytes are accepted.
    ///
    /// # Errors
    /// Other bytes than an index. The repository's `overhead` of its cipher is needed by version 1, which has no original length.
    pub fn open(source: R, overhead: u32) -> Result<Self, FormatError> {
        let layout = Layout::read(&source, overhead)?;
        Ok(Self { source, layout })
    }
    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.layout.count()
    }
    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads the entry with this number, in the order of IDs. A pack or format number that does not exist damages this
    /// entry alone.
    ///
    /// # Errors
    /// A record that is damaged, or a source that fails.
    pub fn entry(&self, number: u64) -> Result<Entry, FormatError> {
        if number >= self.len() {
            return Err(FormatError::new(STRUCTURE, format!("it has no entry {number}")));
        }
        let mut record = [0; record::MAX_RECORD];
        let record = &mut record[..self.layout.record_size()];
        record::read_exact(&self.source, self.layout.record_offset(number), record)?;
        self.layout.decode(&self.source, record, &mut PackNames::default())
    }
    /// Finds an entry by halving. An ID of another hash length is not there.
    ///
    /// # Errors
    /// As [`Index::entry`].
    pub fn find(&self, id: &ContentId) -> Result<Option<Entry>, FormatError> {
        let key_size = self.layout.key_size();
        if id.key_length() != key_size {
            return Ok(None);
        }
        let mut wanted = Vec::with_capacity(key_size);
        id.write_key(&mut wanted);
        let mut found = [0; record::MAX_RECORD];
        let found = &mut found[..key_size];
        let (mut first, mut end) = (0, self.len());
        while first < end {
            let middle = first + (end - first) / 2;
            record::read_exact(&self.source, self.layout.record_offset(middle), found)?;
            match wanted.as_slice().cmp(found) {
                std::cmp::Ordering::Equal => return self.entry(middle).map(Some),
                std::cmp::Ordering::Less => end = middle,
                std::cmp::Ordering::Greater => first = middle + 1,
            }
        }
        Ok(None)
    }
    /// Walks all entries in their order with few reads of the source.
    pub fn scan(&self) -> Scan<'_, R> {
        Scan { index: self, number: 0, block: Vec::new(), position: 0, names: PackNames::default() }
    }
}

/// A walk over all entries of an index. A damaged entry does not end it.
#[derive(Debug)]
pub struct Scan<'a, R> {
    index: &'a Index<R>,
    /// The number of the next entry.
    number: u64,
    /// Records that were read, the next one at `position`.
    block: Vec<u8>,
    position: usize,
    names: PackNames,
}

impl<R: ReadAt> Scan<'_, R> {
    const RECORDS_OF_A_BLOCK: u64 = 1024;

    fn fill(&mut self) -> Result<(), FormatError> {
        let layout = &self.index.layout;
        let records = (layout.count() - self.number).min(Self::RECORDS_OF_A_BLOCK);
        self.position = 0;
        self.block.resize(records as usize * layout.record_size(), 0);
        record::read_exact(&self.index.source, layout.record_offset(self.number), &mut self.block)
    }
}

impl<R: ReadAt> Iterator for Scan<'_, R> {
    type Item = Result<Entry, FormatError>;
    fn next(&mut self) -> Option<Self::Item> {
        let layout = &self.index.layout;
        if self.number >= layout.count() {
            return None;
        }
        if self.position >= self.block.len()
            && let Err(error) = self.fill()
        {
            // A source that fails once gives no further entries.
            self.number = layout.count();
            return Some(Err(error));
        }
        let end = self.position + layout.record_size();
        let entry = layout.decode(&self.index.source, &self.block[self.position..end], &mut self.names);
        self.position = end;
        self.number += 1;
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
