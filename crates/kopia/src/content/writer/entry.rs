//! Entries whose index is not written yet.

use crate::KopiaError;
use crate::content::index_set::{IndexSet, Record};
use crate::format::content_id::ContentId;
use crate::format::index::{Entry, MAX_LENGTH, MAX_OFFSET};
use crate::format::time::UnixNanos;
use std::sync::Arc;

/// An entry without its ID. The name of a pack is shared by all entries in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) timestamp: u64,
    pub(super) is_deleted: bool,
    pub(super) pack: Arc<str>,
    pub(super) offset: u32,
    pub(super) packed_length: u32,
    pub(super) original_length: u32,
    pub(super) compression: u32,
    pub(super) format_version: u8,
    pub(super) key: u8,
}

impl Pending {
    /// The entry of a set that counts, or would if the watermark had not passed it.
    pub(super) fn committed(set: &IndexSet, id: &ContentId) -> Result<Option<Self>, KopiaError> {
        Ok(set.locate_any(id)?.map(|found| {
            let record = found.record;
            Self {
                timestamp: record.timestamp,
                is_deleted: record.is_deleted,
                pack: set.pack_name(record.pack).into(),
                offset: record.offset,
                packed_length: record.packed_length,
                original_length: record.original_length,
                compression: record.compression,
                format_version: record.format_version,
                key: record.key,
            }
        }))
    }

    pub(super) fn entry(&self, id: &ContentId) -> Entry {
        Entry {
            id: *id,
            timestamp: self.timestamp,
            is_deleted: self.is_deleted,
            pack: self.pack.as_ref().to_owned(),
            offset: self.offset,
            packed_length: self.packed_length,
            original_length: self.original_length,
            compression: self.compression,
            format_version: self.format_version,
            key: self.key,
        }
    }

    /// The entry as a record, for decoding: its pack has no number.
    pub(super) fn record(&self, id: &ContentId) -> Record {
        Record::new(&self.entry(id), u32::MAX)
    }

    /// True where `self` counts and not `other`, as in an index.
    pub(super) fn wins_over(&self, other: &Self) -> bool {
        let rank = |entry: &Self| (entry.timestamp, !entry.is_deleted);
        (rank(self), self.pack.as_ref()) > (rank(other), other.pack.as_ref())
    }

    /// Refuses what an index cannot tell, before a pack is written that none can tell of.
    pub(super) fn check(&self, id: &ContentId) -> Result<(), KopiaError> {
        let refuse = |why: &str| Err(KopiaError::refused(format!("store content {id}"), why));
        if self.packed_length >= MAX_LENGTH || self.original_length >= MAX_LENGTH {
            return refuse("it has 256 MiB or more, which no index can tell");
        }
        if self.offset >= MAX_OFFSET {
            return refuse("its pack has 1 GiB or more before it, which no index can tell");
        }
        if u32::try_from(self.timestamp).is_err() {
            return refuse("its time is after the year 2106, which no index can tell: look at the clock");
        }
        Ok(())
    }
}

/// The time of a new entry of a content: now, but later than its last one.
pub(super) fn next_timestamp(now: UnixNanos, last: Option<&Pending>) -> u64 {
    let now = u64::try_from(now.seconds()).unwrap_or(0);
    last.map_or(now, |last| now.max(last.timestamp.saturating_add(1)))
}
