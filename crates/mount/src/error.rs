//! Errors of mounts.

use lifeboat_mover::RepositoryError;
use std::path::PathBuf;
use std::sync::Arc;

/// The reason why a question about the tree has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TreeError {
    /// There is no such entry.
    #[error("there is no such entry")]
    NotFound,
    /// The entry is no directory.
    #[error("it is no directory")]
    NotADirectory,
    /// The entry is a directory, which has no bytes.
    #[error("it is a directory")]
    IsADirectory,
    /// The entry is something else than what was asked for.
    #[error("it is of another type")]
    WrongType,
    /// The snapshot does not have the bytes.
    #[error("the snapshot does not have it: {0}")]
    Unreadable(String),
    /// The repository could not give them.
    #[error("{0}")]
    Repository(Arc<RepositoryError>),
}

impl From<RepositoryError> for TreeError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(Arc::new(error))
    }
}

/// The reason why a snapshot could not be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The folder is not there, or cannot be looked into.
    #[error("{} cannot be used to mount on: {source}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The folder has files, which the mount would hide.
    #[error("{} is not empty, and a mount would hide what is in it: name an empty folder", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refuses it.
    #[error(
        "{} cannot be mounted on: {source} (it needs /dev/fuse, and either the rights of root or the program fusermount3; --allow-other needs root or \
         user_allow_other in /etc/fuse.conf)", .folder.display()
    )]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file system ended by an error.
    #[error("the file system on {} ended: {source}", .folder.display())]
    Ended {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}
