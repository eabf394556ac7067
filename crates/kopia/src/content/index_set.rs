//! The union of the indexes that count, sorted, never in the heap as a whole.
//!
//! Entries are gathered into sorted runs of fixed-size records, in memory as long as it reaches and on scratch beyond, and
//! merged into one segment with a table of pack names. A refresh adds a segment of what is new; segments are merged when
//! there are several. A look-up finds its page in memory and reads that alone; pages are kept up to a number of bytes.

mod packs;
mod record;
mod segment;

use crate::KopiaError;
use crate::format::FormatError;
use crate::format::content_id::ContentId;
use crate::format::index::{Entry, Index, ReadAt};
use packs::PackTable;
use record::{Form, by_weight};
use segment::{Cursor, SegmentWriter, key_of};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) use record::Record;
pub(crate) use segment::{Scratch, Segment};

/// Segments beyond this number are merged.
const MAX_SEGMENTS: usize = 8;
/// The least memory of each part.
const MIN_MEMORY: u64 = 64 << 10;

/// Limits of the memory that an index set takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexMemory {
    /// The bytes in which entries are sorted while indexes are loaded.
    pub sorting: u64,
    /// The bytes up to which the sorted records stay in memory.
    pub records: u64,
    /// The bytes of pages that are kept.
    pub pages: u64,
}

impl IndexMemory {
    /// Divides so many bytes: half for sorting, which ends with the loading, the other for records or pages.
    pub fn within(bytes: u64) -> Self {
        let [sorting, records, pages] = [bytes / 2, bytes / 4, bytes / 8].map(|part| part.max(MIN_MEMORY));
        Self { sorting, records, pages }
    }
}

/// Where a content lies. Of a set: `number` is unique in it and less than [`IndexSet::len`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) record: Record,
    pub(crate) number: u64,
}

/// Sorted entries of contents, as of one load. Immutable.
#[derive(Debug)]
pub struct IndexSet {
    form: Form,
    memory: IndexMemory,
    scratch: Arc<Scratch>,
    packs: Arc<RwLock<PackTable>>,
    segments: Vec<Arc<Segment>>,
    watermark: u64,
    damaged_entries: u64,
    damaged_packs: u64,
}

impl IndexSet {
    /// A set without entries for hashes of so many bytes.
    pub(crate) fn empty(hash_length: usize, scratch: &Path, memory: IndexMemory) -> Self {
        Self {
            form: Form::new(hash_length),
            memory,
            scratch: Arc::new(Scratch::new(scratch, memory.pages)),
            packs: Arc::default(),
            segments: Vec::new(),
            watermark: 0,
            damaged_entries: 0,
            damaged_packs: 0,
        }
    }

    /// Begins a set without entries in the same scratch space.
    pub(crate) fn begin_another(&self) -> Builder {
        Builder { packs: Arc::default(), ..self.begin_again() }
    }

    /// Begins a set without entries in which packs have the same numbers as in this one.
    pub(crate) fn begin_again(&self) -> Builder {
        Builder { segments: Vec::new(), watermark: 0, damaged_entries: 0, damaged_packs: 0, ..self.add() }
    }

    /// The second up to which deleted entries count no more.
    pub(crate) fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Begins a set that has the entries of this one and more.
    pub(crate) fn add(&self) -> Builder {
        Builder {
            form: self.form,
            memory: self.memory,
            scratch: self.scratch.clone(),
            packs: self.packs.clone(),
            segments: self.segments.clone(),
            watermark: self.watermark,
            damaged_entries: self.damaged_entries,
            damaged_packs: self.damaged_packs,
            buffer: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// The number of records; a content may have several, in different segments.
    pub(crate) fn len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    /// The number of packs that an entry has named; numbers are below it.
    pub(crate) fn packs(&self) -> usize {
        self.packs.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The entries that could not be read, because their pack or format does not exist. Nothing may be deleted while there
    /// are such.
    pub fn damaged_entries(&self) -> u64 {
        self.damaged_entries
    }

    /// The packs without an index that can be read, in a recovery from the packs. Nothing may be deleted while there are such.
    pub fn damaged_packs(&self) -> u64 {
        self.damaged_packs
    }

    /// The bytes of memory that records, tables and kept pages take at most.
    pub fn memory(&self) -> usize {
        let segments: usize = self.segments.iter().map(|segment| segment.memory()).sum();
        let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner).memory();
        segments + packs + usize::try_from(self.memory.pages).unwrap_or(usize::MAX)
    }

    /// The number of a pack; `None` where no entry has named it.
    pub(crate) fn pack_number(&self, name: &str) -> Option<u32> {
        self.packs.read().unwrap_or_else(PoisonError::into_inner).find(name)
    }

    /// The name of a pack.
    pub(crate) fn pack_name(&self, number: u32) -> String {
        self.packs.read().unwrap_or_else(PoisonError::into_inner).name(number)
    }

    /// The end of the last content in a pack, as far as entries say.
    pub(crate) fn known_end(&self, pack: u32) -> u64 {
        self.packs.read().unwrap_or_else(PoisonError::into_inner).known_end(pack)
    }

    /// Finds the entry that counts. `None` also for one whose deletion the watermark has passed.
    ///
    /// # Errors
    /// Errors of the scratch space.
    pub fn find(&self, id: &ContentId) -> Result<Option<Entry>, KopiaError> {
        let location = self.locate(id)?;
        Ok(location.map(|found| found.record.into_entry(self.pack_name(found.record.pack))))
    }

    /// Finds where a content lies, as [`IndexSet::find`].
    pub(crate) fn locate(&self, id: &ContentId) -> Result<Option<Location>, KopiaError> {
        Ok(self.locate_any(id)?.filter(|found| self.counts(&found.record)))
    }

    /// Finds the entry that counts, also one whose deletion the watermark has passed: a writer's must be later than it.
    pub(crate) fn locate_any(&self, id: &ContentId) -> Result<Option<Location>, KopiaError> {
        let Some(key) = key_of(self.form, id) else { return Ok(None) };
        let mut best: Option<Location> = None;
        let mut base = 0;
        for segment in &self.segments {
            if let Some((number, record)) = segment.find(&key)? {
                let found = best.map_or(base + number, |best| best.number);
                let record = best.map_or(record, |best| self.heavier(best.record, record));
                best = Some(Location { record, number: found });
            }
            base += segment.len();
        }
        Ok(best)
    }

    fn heavier(&self, a: Record, b: Record) -> Record {
        let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner);
        if by_weight(&a, &b, &packs).is_le() { a } else { b }
    }

    fn counts(&self, record: &Record) -> bool {
        !record.is_deleted || record.timestamp > self.watermark
    }

    /// Walks all entries that count in the order of IDs: those with a prefix, `Some(0)` for those without one, `None` for
    /// all. Deleted ones are among them until the watermark has passed them.
    pub fn scan(self: &Arc<Self>, prefix: Option<u8>) -> Scan {
        let start = prefix.map_or(Ok(vec![0; self.segments.len()]), |prefix| {
            self.segments.iter().map(|segment| segment.lower_bound(&[prefix])).collect()
        });
        let merge = start.and_then(|start: Vec<u64>| {
            let cursors = self.segments.iter().zip(start).map(|(segment, at)| Cursor::at(segment.clone(), at));
            Merge::new(cursors.collect(), self.packs.clone())
        });
        Scan { set: self.clone(), merge: Some(merge), prefix }
    }
}

/// A walk over entries in the order of IDs.
#[derive(Debug)]
pub struct Scan {
    set: Arc<IndexSet>,
    merge: Option<Result<Merge, KopiaError>>,
    prefix: Option<u8>,
}

impl Scan {
    /// Gives the next entry as a location in the set, without the name of its pack.
    pub(crate) fn next_location(&mut self) -> Result<Option<Location>, KopiaError> {
        // After an error or the end there is nothing.
        let Some(merge) = self.merge.take() else { return Ok(None) };
        let mut merge = merge?;
        while let Some((record, from)) = merge.next()? {
            if self.prefix.is_some_and(|prefix| record.id.prefix().unwrap_or(0) != prefix) {
                break;
            }
            if self.set.counts(&record) {
                let base: u64 = self.set.segments.iter().take(from.cursor).map(|segment| segment.len()).sum();
                self.merge = Some(Ok(merge));
                return Ok(Some(Location { record, number: base + from.number }));
            }
        }
        Ok(None)
    }
}

impl Iterator for Scan {
    type Item = Result<Entry, KopiaError>;

    fn next(&mut self) -> Option<Self::Item> {
        let location = self.next_location().transpose()?;
        Some(location.map(|found| found.record.into_entry(self.set.pack_name(found.record.pack))))
    }
}

/// The place of a record: in the first of the cursors that have its content.
#[derive(Debug, Clone, Copy)]
struct RecordOrigin {
    cursor: usize,
    number: u64,
}

/// A walk over several sorted sequences as one, each content once, as the entry of it that counts.
#[derive(Debug)]
struct Merge {
    cursors: Vec<Cursor>,
    packs: Arc<RwLock<PackTable>>,
    heads: Vec<Option<Record>>,
    order: BinaryHeap<Reverse<(ContentId, usize)>>,
}

impl Merge {
    fn new(cursors: Vec<Cursor>, packs: Arc<RwLock<PackTable>>) -> Result<Self, KopiaError> {
        let heads = vec![None; cursors.len()];
        let mut merge = Self { cursors, packs, heads, order: BinaryHeap::new() };
        for number in 0..merge.cursors.len() {
            merge.advance(number)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, number: usize) -> Result<(), KopiaError> {
        if let (Some(cursor), Some(head)) = (self.cursors.get_mut(number), self.heads.get_mut(number)) {
            *head = cursor.next()?;
            if let Some(record) = head {
                self.order.push(Reverse((record.id, number)));
            }
        }
        Ok(())
    }

    fn take(&mut self, number: usize) -> Result<Option<(Record, RecordOrigin)>, KopiaError> {
        let record = self.heads.get_mut(number).and_then(Option::take);
        // The cursor stands behind it.
        let at = self.cursors.get(number).map_or(0, Cursor::position).saturating_sub(1);
        self.advance(number)?;
        Ok(record.map(|record| (record, RecordOrigin { cursor: number, number: at })))
    }

    fn next(&mut self) -> Result<Option<(Record, RecordOrigin)>, KopiaError> {
        let Some(Reverse((id, number))) = self.order.pop() else { return Ok(None) };
        let Some((mut best, origin)) = self.take(number)? else { return Ok(None) };
        // The heap gives the cursors of one content in their order.
        while let Some(Reverse((other, number))) = self.order.peek().copied()
            && other == id
        {
            self.order.pop();
            if let Some((record, _)) = self.take(number)? {
                let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner);
                if by_weight(&record, &best, &packs).is_lt() {
                    best = record;
                }
            }
        }
        Ok(Some((best, origin)))
    }
}

/// A set in the making.
#[derive(Debug)]
pub(crate) struct Builder {
    form: Form,
    memory: IndexMemory,
    scratch: Arc<Scratch>,
    packs: Arc<RwLock<PackTable>>,
    segments: Vec<Arc<Segment>>,
    watermark: u64,
    damaged_entries: u64,
    damaged_packs: u64,
    buffer: Vec<Record>,
    runs: Vec<Arc<Segment>>,
}

impl Builder {
    /// Adds all entries of an index. One that names a pack or format which does not exist is counted and left out.
    pub(crate) fn add_index<R: ReadAt>(&mut self, index: &Index<R>) -> Result<(), KopiaError> {
        for entry in index.scan() {
            match entry {
                Ok(entry) => self.add(&entry)?,
                Err(FormatError { .. }) => self.damaged_entries += 1,
            }
        }
        Ok(())
    }

    /// Counts a pack whose index cannot be read.
    pub(crate) fn add_damaged_pack(&mut self) {
        self.damaged_packs += 1;
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &Entry) -> Result<(), KopiaError> {
        let mut packs = self.packs.write().unwrap_or_else(PoisonError::into_inner);
        let pack = packs.number(&entry.pack);
        let pack = pack.ok_or_else(|| KopiaError::Unsupported { what: "more than 4 billion packs".to_owned() })?;
        packs.reaches(pack, entry.offset.saturating_add(entry.packed_length));
        drop(packs);
        self.buffer.push(Record::new(entry, pack));
        let limit = usize::try_from(self.memory.sorting).unwrap_or(usize::MAX) / size_of::<Record>();
        if self.buffer.len() >= limit.max(1) {
            let run = self.sorted_run()?;
            self.runs.push(Arc::new(run));
        }
        Ok(())
    }

    fn sorted_run(&mut self) -> Result<Segment, KopiaError> {
        let packs = self.packs.read().unwrap_or_else(PoisonError::into_inner);
        self.buffer.sort_unstable_by(|a, b| a.id.cmp(&b.id).then_with(|| by_weight(a, b, &packs)));
        // The first of equal ones is the one that counts.
        self.buffer.dedup_by(|later, first| later.id == first.id);
        let memory = usize::try_from(self.memory.records).unwrap_or(usize::MAX);
        // Where there is another run this one is merged with it soon, and needs no memory until then.
        let memory = if self.runs.is_empty() { memory } else { 0 };
        let mut writer = SegmentWriter::new(self.form, self.scratch.clone(), memory);
        for record in &self.buffer {
            writer.push(record)?;
        }
        self.buffer.clear();
        writer.finish()
    }

    fn merged(&self, segments: Vec<Arc<Segment>>) -> Result<Segment, KopiaError> {
        let memory = usize::try_from(self.memory.records).unwrap_or(usize::MAX);
        let mut writer = SegmentWriter::new(self.form, self.scratch.clone(), memory);
        let cursors = segments.into_iter().map(|segment| Cursor::at(segment, 0)).collect();
        let mut merge = Merge::new(cursors, self.packs.clone())?;
        while let Some((record, _)) = merge.next()? {
            writer.push(&record)?;
        }
        writer.finish()
    }

    /// Finishes the set. Deleted entries up to `watermark` count no more.
    pub(crate) fn finish(mut self, watermark: u64) -> Result<IndexSet, KopiaError> {
        if !self.buffer.is_empty() {
            let run = self.sorted_run()?;
            self.runs.push(Arc::new(run));
        }
        self.buffer = Vec::new();
        let mut runs = std::mem::take(&mut self.runs);
        if runs.len() > 1 {
            runs = vec![Arc::new(self.merged(runs)?)];
        }
        let mut segments = std::mem::take(&mut self.segments);
        segments.extend(runs);
        if segments.len() > MAX_SEGMENTS || self.exceeds_memory(&segments) {
            segments = vec![Arc::new(self.merged(segments)?)];
        }
        Ok(IndexSet {
            form: self.form,
            memory: self.memory,
            scratch: self.scratch,
            packs: self.packs,
            segments,
            // It never moves back.
            watermark: watermark.max(self.watermark),
            damaged_entries: self.damaged_entries,
            damaged_packs: self.damaged_packs,
        })
    }

    /// True where several segments in memory take more together than one may.
    fn exceeds_memory(&self, segments: &[Arc<Segment>]) -> bool {
        let in_memory = segments.iter().filter(|segment| segment.is_in_memory());
        let (count, bytes) = in_memory.fold((0, 0), |(count, bytes), segment| (count + 1, bytes + segment.memory()));
        count > 1 && bytes as u64 > self.memory.records
    }
}

#[cfg(test)]
mod tests;
