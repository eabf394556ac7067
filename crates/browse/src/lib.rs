//! A backup as the store of an API server: kubectl on the cluster as it was.
//!
//! [`BackupStore`] is an [`ObjectStore`](lifeboat_sandbox::ObjectStore) that cannot be written to. It serves the types of the backup, each in
//! the version in which it was saved, and their objects, byte for byte; types that the backup does not hold are there, and empty.
//!
//! [`Diff`] compares two of them, [`LiveDiff`] one with a cluster.
//!
//! [`History`] follows one object over all backups of a bucket. [`owned_by`] finds what an object of a backup owned.
//!
//! Memory holds the archive's index, about 100 bytes for each object, and the objects of the page that is being read.
//! Objects are read from the archive in ranges when they are asked for.

mod change;
mod contents;
mod diff;
mod diff_scope;
mod history;
mod history_scope;
mod history_type;
mod live;
mod live_cluster;
mod live_error;
mod live_lists;
mod live_plan;
mod noise;
mod object_state;
mod owned;
mod rows;
mod store;
mod timeline;
mod types;
mod value;

pub use change::{ChangedObject, DiffCounts, ObjectChange};
pub use contents::TypeContents;
pub use diff::Diff;
pub use diff_scope::DiffScope;
pub use history::{History, HistoryOptions};
pub use history_type::types_of_backups;
pub use live::LiveDiff;
pub use live_cluster::LiveCluster;
pub use live_error::LiveError;
pub use owned::owned_by;
pub use store::BackupStore;
pub use timeline::{HistoryEvent, HistoryEventKind};
