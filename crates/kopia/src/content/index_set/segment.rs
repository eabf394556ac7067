//! Sorted records in memory or in a file of the scratch space.

use super::record::{Form, Record};
use crate::KopiaError;
use crate::format::content_id::ContentId;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// About the bytes of a page.
const PAGE: usize = 16 << 10;

/// The folder for files, and what all segments share.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
    counter: AtomicU64,
    pages: Mutex<Pages>,
}

impl Scratch {
    /// A folder of this process alone, and the most bytes of pages that are kept.
    pub(crate) fn new(folder: &Path, page_bytes: u64) -> Self {
        let limit = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        let pages = Pages { kept: HashMap::new(), order: VecDeque::new(), bytes: 0, limit };
        Self { folder: folder.to_owned(), counter: AtomicU64::new(0), pages: Mutex::new(pages) }
    }

    fn error(&self, attempt: &'static str) -> impl FnOnce(std::io::Error) -> KopiaError {
        let path = self.folder.clone();
        move |source| KopiaError::Scratch { attempt, path, source }
    }

    /// Makes a file without a name: it goes with its last reader, also when the process is killed.
    fn file(&self) -> Result<(File, u64), KopiaError> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("index-{number}"));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(self.error("make a file"))?;
        std::fs::remove_file(&path).map_err(self.error("remove the name of a file"))?;
        Ok((file, number))
    }

    #[cfg(test)]
    pub(crate) fn page_bytes(&self) -> usize {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

/// Pages that were read last, up to a number of bytes.
#[derive(Debug)]
struct Pages {
    kept: HashMap<(u64, u64), Arc<[u8]>>,
    order: VecDeque<(u64, u64)>,
    bytes: usize,
    limit: usize,
}

impl Pages {
    fn keep(&mut self, key: (u64, u64), page: &Arc<[u8]>) {
        if page.len() > self.limit || self.kept.insert(key, page.clone()).is_some() {
            return;
        }
        self.bytes += page.len();
        self.order.push_back(key);
        while self.bytes > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.kept.remove(&oldest).map_or(0, |page| page.len());
        }
    }
}

/// Sorted records, each content once.
#[derive(Debug)]
pub(crate) struct Segment {
    form: Form,
    records: u64,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    File {
        file: File,
        number: u64,
        /// The first key of each page.
        fences: Vec<u8>,
        scratch: Arc<Scratch>,
    },
}

impl Segment {
    pub(crate) fn len(&self) -> u64 {
        self.records
    }

    /// True where the records are in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.bytes, Bytes::Memory(_))
    }

    /// The bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        match &self.bytes {
            Bytes::Memory(bytes) => bytes.capacity(),
            Bytes::File { fences, .. } => fences.capacity(),
        }
    }

    fn per_page(&self) -> u64 {
        (PAGE / self.form.size()) as u64
    }

    fn damaged(&self) -> KopiaError {
        KopiaError::Damaged { what: "the scratch space".to_owned(), why: "it is not as it was written".to_owned() }
    }

    /// Reads a page of a file, `keep` for later look-ups.
    fn page(&self, page: u64, keep: bool) -> Result<Arc<[u8]>, KopiaError> {
        let Bytes::File { file, number, scratch, .. } = &self.bytes else { return Err(self.damaged()) };
        let key = (*number, page);
        if keep && let Some(kept) = scratch.pages.lock().unwrap_or_else(PoisonError::into_inner).kept.get(&key) {
            return Ok(kept.clone());
        }
        let first = page * self.per_page();
        let records = self.records.saturating_sub(first).min(self.per_page());
        // At most a page.
        let mut bytes = vec![0; usize::try_from(records).unwrap_or(0) * self.form.size()];
        file.read_exact_at(&mut bytes, first * self.form.size() as u64).map_err(scratch.error("read an index"))?;
        let bytes: Arc<[u8]> = bytes.into();
        if keep {
            scratch.pages.lock().unwrap_or_else(PoisonError::into_inner).keep(key, &bytes);
        }
        Ok(bytes)
    }

    /// The number of the first record whose key is not before `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> Result<u64, KopiaError> {
        match &self.bytes {
            Bytes::Memory(bytes) => Ok(lower_bound(bytes, self.form.size(), key) as u64),
            Bytes::File { fences, .. } => {
                // The first page whose first key is not before it; the record may be in the page before that.
                let page = lower_bound(fences, self.form.key_size(), key) as u64;
                let Some(before) = page.checked_sub(1) else { return Ok(0) };
                let bytes = self.page(before, true)?;
                Ok(before * self.per_page() + lower_bound(&bytes, self.form.size(), key) as u64)
            }
        }
    }

    /// Finds a record and its number.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<(u64, Record)>, KopiaError> {
        let number = self.lower_bound(key)?;
        if number >= self.records {
            return Ok(None);
        }
        let record = self.with_record(number, |bytes| bytes.starts_with(key).then(|| self.form.read(bytes)))?;
        match record {
            None => Ok(None),
            Some(record) => Ok(Some((number, record.ok_or_else(|| self.damaged())?))),
        }
    }

    fn with_record<T>(&self, number: u64, with: impl FnOnce(&[u8]) -> T) -> Result<T, KopiaError> {
        let size = self.form.size();
        match &self.bytes {
            Bytes::Memory(bytes) => {
                let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(size);
                bytes.get(at..at.saturating_add(size)).map(with).ok_or_else(|| self.damaged())
            }
            Bytes::File { .. } => {
                let page = self.page(number / self.per_page(), true)?;
                // Less than the records of a page.
                let at = usize::try_from(number % self.per_page()).unwrap_or(0) * size;
                page.get(at..at + size).map(with).ok_or_else(|| self.damaged())
            }
        }
    }
}

/// The number of the first item of `size` bytes that does not begin with bytes before `key`.
fn lower_bound(items: &[u8], size: usize, key: &[u8]) -> usize {
    let (mut low, mut high) = (0, items.len() / size);
    while low < high {
        let middle = low + (high - low) / 2;
        let item = items.get(middle * size..).unwrap_or_default();
        if item.get(..key.len()).unwrap_or(item) < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// A walk over the records of a segment.
#[derive(Debug)]
pub(crate) struct Cursor {
    segment: Arc<Segment>,
    next: u64,
    page: Option<(u64, Arc<[u8]>)>,
}

impl Cursor {
    pub(crate) fn at(segment: Arc<Segment>, next: u64) -> Self {
        Self { segment, next, page: None }
    }

    /// The number of the record that comes next.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    pub(crate) fn next(&mut self) -> Result<Option<Record>, KopiaError> {
        let segment = &*self.segment;
        if self.next >= segment.records {
            return Ok(None);
        }
        let number = self.next;
        self.next += 1;
        let read = |bytes: &[u8]| segment.form.read(bytes);
        let record = if segment.is_in_memory() {
            segment.with_record(number, read)?
        } else {
            let page = number / segment.per_page();
            if self.page.as_ref().is_none_or(|(kept, _)| *kept != page) {
                self.page = Some((page, segment.page(page, false)?));
            }
            // Less than the records of a page.
            let at = usize::try_from(number % segment.per_page()).unwrap_or(0) * segment.form.size();
            let bytes = self.page.as_ref().and_then(|(_, bytes)| bytes.get(at..at + segment.form.size()));
            bytes.and_then(read)
        };
        record.map(Some).ok_or_else(|| segment.damaged())
    }
}

/// Writes a segment record by record, in the order of IDs. It stays in memory up to `memory` bytes.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    form: Form,
    scratch: Arc<Scratch>,
    memory: usize,
    buffer: Vec<u8>,
    records: u64,
    spilled: Option<Spilled>,
}

#[derive(Debug)]
struct Spilled {
    file: File,
    number: u64,
    fences: Vec<u8>,
}

/// The bytes that are written to a file at once.
const BUFFER: usize = 256 << 10;

impl SegmentWriter {
    pub(crate) fn new(form: Form, scratch: Arc<Scratch>, memory: usize) -> Self {
        Self { form, scratch, memory, buffer: Vec::new(), records: 0, spilled: None }
    }

    pub(crate) fn push(&mut self, record: &Record) -> Result<(), KopiaError> {
        let before = self.buffer.len();
        if !self.form.write(record, &mut self.buffer) {
            self.buffer.truncate(before);
            let why = "its hash is longer than those of this repository".to_owned();
            return Err(KopiaError::Damaged { what: format!("the index entry of content {}", record.id), why });
        }
        let per_page = (PAGE / self.form.size()) as u64;
        if let Some(spilled) = &mut self.spilled {
            if self.records.is_multiple_of(per_page) {
                let key = self.buffer.get(before..before + self.form.key_size()).unwrap_or_default();
                spilled.fences.extend_from_slice(key);
            }
            if self.buffer.len() >= BUFFER {
                spilled.file.write_all(&self.buffer).map_err(self.scratch.error("write an index"))?;
                self.buffer.clear();
            }
        } else if self.buffer.len() > self.memory {
            self.spill()?;
        }
        self.records += 1;
        Ok(())
    }

    fn spill(&mut self) -> Result<(), KopiaError> {
        let (mut file, number) = self.scratch.file()?;
        file.write_all(&self.buffer).map_err(self.scratch.error("write an index"))?;
        let page = PAGE / self.form.size() * self.form.size();
        let fences = self.buffer.chunks(page).flat_map(|page| page.get(..self.form.key_size()).unwrap_or_default());
        let fences = fences.copied().collect();
        self.buffer = Vec::with_capacity(BUFFER + self.form.size());
        self.spilled = Some(Spilled { file, number, fences });
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Segment, KopiaError> {
        let Self { form, scratch, mut buffer, records, spilled, .. } = self;
        let bytes = match spilled {
            None => {
                buffer.shrink_to_fit();
                Bytes::Memory(buffer)
            }
            Some(Spilled { mut file, number, mut fences }) => {
                file.write_all(&buffer).map_err(scratch.error("write an index"))?;
                fences.shrink_to_fit();
                Bytes::File { file, number, fences, scratch }
            }
        };
        Ok(Segment { form, records, bytes })
    }
}

/// The key of an ID in a form; `None` where no record of that form can have it.
pub(crate) fn key_of(form: Form, id: &ContentId) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(form.key_size());
    form.write_key(id, &mut key).then_some(key)
}
