//! A backup as the store of an API server: kubectl on the cluster as it was.
//!
//! [`BackupStore`] is an [`ObjectStore`](lifeboat_sandbox::ObjectStore) that cannot be written to. It serves the types of the backup, each in
//! the version in which it was saved, and their objects, byte for byte; types that the backup does not hold are there, and empty.
//!
//! [`Diff`] compares two of them.
//!
//! What is in memory is the archive's index, about 100 bytes for each object, and the objects of the page that is being
//! read. Objects are read from the archive in ranges when they are asked for.

mod contents;
mod diff;
mod rows;
mod store;
mod types;

pub use contents::TypeContents;
pub use diff::{Change, ChangedObject, Diff, DiffCounts, DiffScope};
pub use store::BackupStore;
