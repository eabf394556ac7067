//! The table of packs: names as numbers, in little memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Names of packs in one buffer; a number for each. Only grows.
#[derive(Debug, Default)]
pub(crate) struct PackTable {
    names: String,
    ends: Vec<u64>,
    /// For each the end of the last content in it, as far as entries say.
    known_ends: Vec<u32>,
    /// The last number with a hash, and for each number the one before it with the same.
    heads: HashMap<u64, u32>,
    before: Vec<u32>,
    hasher: RandomState,
}

/// No number.
const NONE: u32 = u32::MAX;

impl PackTable {
    /// The number of a name, where it has one.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.find_from(self.head(name), name)
    }

    /// Gives the number of a name, a new one where it has none. `None` when there are no numbers any more.
    pub(crate) fn number(&mut self, name: &str) -> Option<u32> {
        let head = self.head(name);
        if let Some(known) = self.find_from(head, name) {
            return Some(known);
        }
        let new = u32::try_from(self.ends.len()).ok().filter(|new| *new != NONE)?;
        self.names.push_str(name);
        self.ends.push(self.names.len() as u64);
        self.known_ends.push(0);
        self.before.push(head);
        self.heads.insert(self.hasher.hash_one(name), new);
        Some(new)
    }

    /// Notes that a content ends there.
    pub(crate) fn reaches(&mut self, number: u32, end: u32) {
        if let Some(known) = self.known_ends.get_mut(number as usize) {
            *known = end.max(*known);
        }
    }

    /// The end of the last content in a pack, as far as entries say.
    pub(crate) fn known_end(&self, number: u32) -> u64 {
        self.known_ends.get(number as usize).copied().map_or(0, u64::from)
    }

    fn head(&self, name: &str) -> u32 {
        self.heads.get(&self.hasher.hash_one(name)).copied().unwrap_or(NONE)
    }

    fn find_from(&self, mut number: u32, name: &str) -> Option<u32> {
        while number != NONE {
            if self.name(number) == name {
                return Some(number);
            }
            number = self.before.get(number as usize).copied().unwrap_or(NONE);
        }
        None
    }

    /// The name with this number; empty where there is none.
    pub(crate) fn name(&self, number: u32) -> &str {
        let number = number as usize;
        let end = self.ends.get(number).copied().unwrap_or(0);
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        self.names.get(range).unwrap_or_default()
    }

    /// The number of packs.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let each = size_of::<u64>() + 2 * size_of::<u32>();
        // An entry of the map: hash, number, and its share of free places.
        self.names.capacity() + self.ends.capacity() * each + self.heads.capacity() * 20
    }
}
