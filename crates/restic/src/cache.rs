//! Trees that were read last, up to a number of bytes.

use crate::Id;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Approximate memory of an entry beside its bytes.
const OVERHEAD: usize = 200;

/// Plain blobs. The oldest go first.
#[derive(Debug)]
pub(crate) struct BlobCache {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    blobs: HashMap<Id, Bytes>,
    order: VecDeque<Id>,
    bytes: usize,
}

impl BlobCache {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: usize::try_from(limit).unwrap_or(usize::MAX), kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &Id) -> Option<Bytes> {
        self.lock().blobs.get(id).cloned()
    }

    pub(crate) fn keep(&self, id: Id, bytes: &Bytes) {
        let size = bytes.len() + OVERHEAD;
        // One that is large beside the whole would push out all others.
        if size > self.limit / 4 {
            return;
        }
        let mut kept = self.lock();
        if kept.blobs.insert(id, bytes.clone()).is_some() {
            return;
        }
        kept.order.push_back(id);
        kept.bytes += size;
        while kept.bytes > self.limit
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.bytes -= kept.blobs.remove(&oldest).map_or(0, |bytes| bytes.len() + OVERHEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_blobs_go_when_the_bytes_are_too_many() {
        let cache = BlobCache::new(2000);
        let ids = [1, 2, 3, 4, 5].map(|n| Id([n; 32]));
        for id in ids {
            cache.keep(id, &Bytes::from(vec![0; 300]));
            cache.keep(id, &Bytes::from(vec![0; 300]));
        }
        assert_eq!(ids.map(|id| cache.get(&id).is_some()), [false, true, true, true, true]);
        cache.keep(ids[0], &Bytes::from(vec![0; 301]));
        assert!(cache.get(&ids[0]).is_none(), "it is a quarter of all");
    }
}
