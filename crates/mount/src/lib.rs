//! Snapshots of a repository as a file system of this machine, which can be read and not changed (FUSE).
//!
//! [`Tree`] answers questions about directories and files, and knows nothing of the kernel. The kernel's questions are
//! handed to it by [`Mount`]. A file is read where it is looked into: nothing is restored before.

mod attributes;
mod error;
mod file_system;
mod listing;
mod mounted;
mod names;
mod open_file;
mod pieces;
mod tree;

pub use attributes::{NodeAttributes, NodeKind};
pub use error::{MountError, TreeError};
pub use listing::ListedEntry;
pub use mounted::{Mount, MountOptions};
pub use open_file::OpenFile;
pub use tree::{ROOT, Roots, Tree, TreeOptions};
