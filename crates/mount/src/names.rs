//! Names of a directory, by which entries are found.

use lifeboat_mover::restore::name_refusal;
use lifeboat_mover::tree::SourceEntry;
use std::cmp::Ordering;
use std::ffi::OsStr;

/// The most bytes of a name that the kernel takes.
const LONGEST: usize = 255;

/// True for a name that an entry of a directory can have.
fn is_usable(name: &OsStr) -> bool {
    name_refusal(name).is_none() && name.len() <= LONGEST
}

/// The order of the entries by their names, without those whose name cannot be one or was there before.
#[derive(Debug, Default)]
pub(crate) struct NameOrder {
    /// Positions of entries, in the order of their names.
    sorted: Vec<u32>,
}

impl NameOrder {
    /// Sorts the names of entries.
    pub(crate) fn of(entries: &[SourceEntry]) -> Self {
        let usable = entries.iter().enumerate().filter(|(_, entry)| is_usable(&entry.name));
        let mut sorted: Vec<u32> = usable.filter_map(|(position, _)| u32::try_from(position).ok()).collect();
        // Of several entries with one name the first counts: the sort keeps their order.
        sorted.sort_by(|a, b| name_at(entries, *a).cmp(&name_at(entries, *b)));
        sorted.dedup_by(|later, first| name_at(entries, *later) == name_at(entries, *first));
        Self { sorted }
    }

    /// The position of the entry with a name.
    pub(crate) fn position(&self, entries: &[SourceEntry], name: &OsStr) -> Option<usize> {
        let by_name = |position: &u32| name_at(entries, *position).map_or(Ordering::Less, |at| at.cmp(name));
        let found = self.sorted.binary_search_by(by_name).ok()?;
        self.sorted.get(found).map(|position| *position as usize)
    }

    /// The positions of all entries that can be found, in the order of their names.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.sorted
    }
}

fn name_at(entries: &[SourceEntry], position: u32) -> Option<&OsStr> {
    entries.get(position as usize).map(|entry| entry.name.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_or_that_was_there_before_is_not_found() {
        let entry = |name: &str, size| {
            let mut entry = SourceEntry::directory(name.into());
            entry.size = size;
            entry
        };
        let long = "n".repeat(256);
        let entries: Vec<_> = ["b", "..", "a/b", "", "a", "b", "nul\0", &long, &long[1..]]
            .iter()
            .zip(0..)
            .map(|(name, size)| entry(name, size))
            .collect();
        let names = NameOrder::of(&entries);
        assert_eq!(names.positions(), [4, 0, 8]);
        let found = |name: &str| names.position(&entries, OsStr::new(name));
        let positions = ["a", "b", "c", "..", "", &long, &long[1..]].map(found);
        assert_eq!(positions, [Some(4), Some(0), None, None, None, None, Some(8)]);
    }
}
