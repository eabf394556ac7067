//! The names of files in a repository of the usual layout.

use crate::Id;

/// The file with the parameters of the repository.
pub(crate) const CONFIG: &str = "config";
/// The folder of keys.
pub(crate) const KEYS: &str = "keys/";
/// The folder of snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots/";
/// The folder of indexes.
pub(crate) const INDEX: &str = "index/";
/// The folder of locks.
pub(crate) const LOCKS: &str = "locks/";

/// The file of a pack.
pub(crate) fn pack(id: &Id) -> String {
    let id = id.to_string();
    format!("data/{}/{id}", id.get(..2).unwrap_or_default())
}
