//! The restic repository format, read: repositories of versions 1 and 2, as Velero up to 1.16 wrote them.
//!
//! A repository is a set of files in a bucket: `config`, `keys/`, `snapshots/`, `index/`, `data/` and `locks/`. All but
//! the keys are encrypted and authenticated with one master key, which each file of `keys/` holds under a password. Packs
//! in `data/` hold blobs: pieces of files, and trees (one directory each). An index says in which pack a blob lies. The
//! name of a blob is the SHA-256 of its bytes.
//!
//! [`format`] is pure: bytes to values. [`Repository`] opens a repository, reads its index into bounded memory, and gives
//! snapshots, directories and pieces of files; [`read_plan`] reads many blobs with few requests.
//!
//! Nothing is ever written, no lock either: a `restic prune` at the same time may delete what is being read, so that
//! [`Repository::locks`] tells who is at work.
//!
//! A repository is untrusted input: sizes are capped, and nothing in it makes this room panic.

mod cache;
mod choose;
pub mod crypto;
mod error;
pub mod format;
mod id;
mod index;
mod limits;
mod paths;
pub mod read_plan;
mod repository;
mod tasks;

pub use choose::choose;
pub use error::ResticError;
pub use id::Id;
pub use index::Location;
pub use repository::open::{Lock, OpenOptions};
pub use repository::{Extent, Repository, Snapshot};
