//! The outcome of each object of the action lane: the only state that the workers of that stage share.

use crate::actions::service_account::Digest;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Identifies an object for the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemId {
    /// It has this number in the index.
    Indexed(u32),
    /// It is not in the index.
    NotIndexed(Digest),
}

/// The outcome of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemState {
    /// A worker has begun it: another one, or this one when the objects that it needs lead back to it.
    Begun,
    /// It is on its way into the archive.
    Saved,
    /// It is not in the backup, and need not be.
    LeftOut,
    /// The cluster has no such object.
    Absent,
    /// It should be in the backup and is not, which stands in the results.
    Failed,
}

/// The states of all objects, so that each has its turn once, whichever worker comes to it first.
#[derive(Debug)]
pub(crate) struct ItemStates {
    all: Mutex<All>,
}

#[derive(Debug)]
struct All {
    indexed: Vec<Option<ItemState>>,
    not_indexed: HashMap<Digest, ItemState>,
}

impl ItemStates {
    /// Creates the states for an index with so many objects.
    pub(crate) fn new(indexed: usize) -> Self {
        Self { all: Mutex::new(All { indexed: vec![None; indexed], not_indexed: HashMap::new() }) }
    }

    /// Begins an object; gives its state when that was done before. An object that was left out is begun again when it
    /// must be there.
    pub(crate) fn begin(&self, who: ItemId, must_include: bool) -> Option<ItemState> {
        let mut all = self.lock();
        match all.of(who) {
            Some(ItemState::LeftOut) if must_include => {}
            Some(before) => return Some(before),
            None => {}
        }
        all.set(who, ItemState::Begun);
        None
    }

    pub(crate) fn settle(&self, who: ItemId, state: ItemState) {
        self.lock().set(who, state);
    }

    pub(crate) fn of(&self, who: ItemId) -> Option<ItemState> {
        self.lock().of(who)
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn of(&self, who: ItemId) -> Option<ItemState> {
        match who {
            ItemId::Indexed(number) => self.indexed.get(number as usize).copied().flatten(),
            ItemId::NotIndexed(digest) => self.not_indexed.get(&digest).copied(),
        }
    }

    fn set(&mut self, who: ItemId, state: ItemState) {
        match who {
            ItemId::Indexed(number) => {
                if let Some(before) = self.indexed.get_mut(number as usize) {
                    *before = Some(state);
                }
            }
            ItemId::NotIndexed(digest) => drop(self.not_indexed.insert(digest, state)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_turn_once() {
        for who in [ItemId::Indexed(1), ItemId::NotIndexed([7; 16])] {
            let states = ItemStates::new(2);
            assert_eq!((states.of(who), states.begin(who, true)), (None, None));
            assert_eq!((states.begin(who, true), states.of(who)), (Some(ItemState::Begun), Some(ItemState::Begun)));
            states.settle(who, ItemState::LeftOut);
            assert_eq!((states.begin(who, false), states.begin(who, true)), (Some(ItemState::LeftOut), None));
            states.settle(who, ItemState::Saved);
            assert_eq!((states.begin(who, true), states.of(ItemId::Indexed(0))), (Some(ItemState::Saved), None));
        }
    }
}
