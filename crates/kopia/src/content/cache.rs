//! Contents that were read last, up to a number of bytes.

use crate::format::content_id::ContentId;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What an entry takes beside its bytes, about.
const OVERHEAD: usize = 200;

/// Plain contents. The oldest go first.
#[derive(Debug)]
pub(super) struct ContentCache {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    contents: HashMap<ContentId, Bytes>,
    order: VecDeque<ContentId>,
    bytes: usize,
}

impl ContentCache {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit: usize::try_from(limit).unwrap_or(usize::MAX), kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: &ContentId) -> Option<Bytes> {
        self.lock().contents.get(id).cloned()
    }

    pub(super) fn keep(&self, id: &ContentId, bytes: &Bytes) {
        let size = bytes.len() + OVERHEAD;
        // One that is large beside the whole would push out all others.
        if size > self.limit / 4 {
            return;
        }
        let mut kept = self.lock();
        if kept.contents.insert(*id, bytes.clone()).is_some() {
            return;
        }
        kept.order.push_back(*id);
        kept.bytes += size;
        while kept.bytes > self.limit
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.bytes -= kept.contents.remove(&oldest).map_or(0, |bytes| bytes.len() + OVERHEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::content_id::ContentHash;

    #[test]
    fn the_oldest_contents_go_when_the_bytes_are_too_many() {
        let ids = [1, 2, 3].map(|n| ContentId::new(Some(b'k'), ContentHash::new(&[n; 16]).unwrap()).unwrap());
        let cache = ContentCache::new(2000);
        for id in &ids {
            cache.keep(id, &Bytes::from(vec![0; 300]));
            cache.keep(id, &Bytes::from(vec![0; 300]));
        }
        assert_eq!(ids.map(|id| cache.get(&id).is_some()), [true; 3]);
        for n in 4..7 {
            let id = ContentId::new(None, ContentHash::new(&[n; 16]).unwrap()).unwrap();
            cache.keep(&id, &Bytes::from(vec![0; 200]));
        }
        assert_eq!(ids.map(|id| cache.get(&id).is_some()), [false, false, true]);
        cache.keep(&ids[0], &Bytes::from(vec![0; 301]));
        assert!(cache.get(&ids[0]).is_none(), "it is a quarter of all");
    }
}
