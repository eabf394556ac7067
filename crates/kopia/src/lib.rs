//! The kopia repository format: read, written, maintained.
//!
//! A repository is a set of blobs in a bucket. Four layers stand on each other, each knows the one below it only:
//!
//! | layer | unit | room |
//! |---|---|---|
//! | blobs | immutable byte string under a name | [`blobs`], both storage layouts |
//! | contents | encrypted piece of at most some MiB, found by the keyed hash of its bytes | [`content`] |
//! | objects | byte string of any length: one content, or a listing of others | [`object`] |
//! | manifests, snapshots | small JSON documents with labels; a tree of directories | [`manifest`], [`snapshot`] |
//!
//! [`format`] is pure: bytes to values and back, one file for each structure, with its golden vectors. [`crypto`],
//! [`compression`] and [`splitter`] are the algorithms. Nothing above [`content`] knows the name of a pack or an
//! index.
//!
//! A repository is untrusted input: sizes are capped, and nothing in it makes this room panic. Start reading at
//! [`Repository::open`], writing at [`Repository::create`] and [`Repository::writer`].

pub mod blobs;
pub mod compression;
pub mod content;
pub mod crypto;
mod error;
pub mod format;
mod guard;
mod lost_indexes;
pub mod maintenance;
pub mod manifest;
mod marks;
pub mod object;
mod object_lock;
mod options;
mod password;
pub mod progress;
mod repository;
pub mod snapshot;
pub mod splitter;
pub mod statistics;
mod tasks;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod testing;
pub mod verify;
mod write;

pub use error::KopiaError;
pub use guard::Clock;
pub use options::{Random, WriteOptions};
pub use password::{PasswordChanged, PasswordRequest};
pub use repository::{OpenOptions, Repository};
pub use write::RepositoryWriter;
