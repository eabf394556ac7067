//! Objects of which a snapshot knows that they are whole.

use lifeboat_kopia::format::object_id::ObjectId;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The most objects that are known to be whole: some 5 MB.
const MOST_KNOWN: usize = 65_536;

/// Objects with listings that were looked through in this snapshot, and are whole.
#[derive(Debug, Default)]
pub(super) struct WholeObjects(Mutex<HashSet<ObjectId>>);

impl WholeObjects {
    pub(super) fn has(&self, object: &ObjectId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(object)
    }

    pub(super) fn add(&self, object: ObjectId) {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.len() < MOST_KNOWN {
            objects.insert(object);
        }
    }
}
