//! Names that objects have in the cluster, where actions have given them another one than in the backup.

use crate::state::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The names of objects that were made under another one, by their rows. A run again does not know those of the run before.
#[derive(Debug, Default)]
pub(crate) struct Renamed(Mutex<BTreeMap<usize, String>>);

impl Renamed {
    pub(crate) fn note(&self, row: usize, name: &str) {
        lock(&self.0).insert(row, name.to_owned());
    }

    pub(crate) fn take(&self) -> BTreeMap<usize, String> {
        std::mem::take(&mut *lock(&self.0))
    }
}
