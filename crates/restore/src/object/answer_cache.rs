//! Answers of actions about objects that are tried again later: an action with side effects is asked once.

use crate::object::desired::DesiredObject;
use crate::state::lock::lock;
use std::collections::HashMap;
use std::sync::Mutex;

/// Bytes that all objects which are kept have as text. What has no room is forgotten, and the actions are asked again.
const MOST: usize = 8 << 20;

/// Objects as the actions have answered, by the row of the archive.
#[derive(Default)]
pub(crate) struct AnswerCache(Mutex<CachedAnswers>);

#[derive(Default)]
struct CachedAnswers {
    bytes: usize,
    by_row: HashMap<usize, (usize, DesiredObject)>,
}

impl AnswerCache {
    /// Keeps an object until it is taken.
    pub(crate) fn keep(&self, row: usize, object: DesiredObject) {
        let bytes = object.item.to_string().len();
        let mut inner = lock(&self.0);
        if inner.bytes + bytes <= MOST {
            inner.bytes += bytes;
            inner.by_row.insert(row, (bytes, object));
        }
    }

    /// Takes an object, to try it again.
    pub(crate) fn take(&self, row: usize) -> Option<DesiredObject> {
        let mut inner = lock(&self.0);
        let (bytes, object) = inner.by_row.remove(&row)?;
        inner.bytes -= bytes;
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_not_kept() {
        let kept = AnswerCache::default();
        let object = |bytes: usize| DesiredObject { item: "x".repeat(bytes - 2).into(), ..DesiredObject::default() };
        kept.keep(1, object(MOST));
        kept.keep(2, object(2));
        let taken = [1, 1, 2].map(|row| kept.take(row).is_some());
        assert_eq!(taken, [true, false, false]);
        kept.keep(2, object(MOST));
        assert!(kept.take(2).is_some(), "what is taken makes room");
    }
}
