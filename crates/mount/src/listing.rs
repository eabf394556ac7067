//! A directory that was read whole.

use crate::attributes::NodeAttributes;
use crate::names::NameOrder;
use lifeboat_mover::tree::SourceEntry;
use std::ffi::{OsStr, OsString};

/// An entry, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its inode.
    pub inode: u64,
    /// Its name.
    pub name: OsString,
    /// Its attributes.
    pub attributes: NodeAttributes,
}

/// The entries of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryListing {
    /// In the order of the repository.
    entries: Vec<SourceEntry>,
    names: NameOrder,
    /// The inode of the first entry; those of the others follow.
    first: u64,
}

impl DirectoryListing {
    pub(crate) fn new(entries: Vec<SourceEntry>, first: u64) -> Self {
        Self { names: NameOrder::of(&entries), entries, first }
    }

    /// The entry with an inode.
    pub(crate) fn entry(&self, inode: u64) -> Option<&SourceEntry> {
        let position = usize::try_from(inode.checked_sub(self.first)?).ok()?;
        self.entries.get(position)
    }

    /// The inode and entry with a name.
    pub(crate) fn find(&self, name: &OsStr) -> Option<(u64, &SourceEntry)> {
        let position = self.names.position(&self.entries, name)?;
        Some((self.first + position as u64, self.entries.get(position)?))
    }

    /// The entries from the place `from` on, in the order of their names.
    pub(crate) fn listed_from(&self, from: usize) -> impl Iterator<Item = ListedEntry> + '_ {
        let positions = self.names.positions().get(from..).unwrap_or_default();
        positions.iter().filter_map(|position| {
            let entry = self.entries.get(*position as usize)?;
            let inode = self.first + u64::from(*position);
            Some(ListedEntry { inode, name: entry.name.clone(), attributes: NodeAttributes::of(entry) })
        })
    }

    /// The number of entries that cannot be found: their name cannot be one of a file, or was there before.
    pub(crate) fn hidden(&self) -> usize {
        self.entries.len() - self.names.positions().len()
    }
}
