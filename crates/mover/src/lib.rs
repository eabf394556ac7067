//! Volume bytes between a file system or block device and a repository. No cluster is known here.
//!
//! Snapshots go into repositories of kopia's format; restores come from those of restic, too: [`tree`] has what both give.
//!
//! [`restore`] brings a tree, a file or a device back; the way of the bytes is a plan by packs
//! ([`lifeboat_kopia::content::read_plan`]), whatever the target is. [`snapshot()`] saves one. [`Progress`] counts for whoever
//! shows it. [`protocol`] has the words between a mover's pod and its node agent.

mod block_form;
mod error;
mod failure;
mod file_reader;
mod file_system;
mod handles;
mod page_cache;
mod progress;
pub mod protocol;
pub mod restore;
pub mod snapshot;
pub mod tree;

pub use error::{MoverError, RepositoryError};
pub use file_reader::{FilePiece, FileReader};
pub use file_system::{SUPERBLOCKS, find_file_system};
pub use progress::{Progress, Totals};
