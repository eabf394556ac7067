//! Errors of this room.

use lifeboat_bucket::BucketError;
use std::fmt::Display;

/// An error of reading a repository. Messages name files, blobs and paths, never keys or passwords.
#[derive(Debug, thiserror::Error)]
pub enum ResticError {
    /// The bucket did not answer as needed; the class of the error is the bucket's.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The location holds no repository.
    #[error("{location} holds no restic repository: there is no file config, or nothing in keys/")]
    NotARepository {
        /// The location, as its store describes itself.
        location: String,
    },
    /// The password opens none of the keys.
    #[error("the password does not open the restic repository in {location}")]
    WrongPassword {
        /// The location, as its store describes itself.
        location: String,
    },
    /// The repository asks for something that this build does not know.
    #[error("the restic repository needs {what}, which this version cannot read")]
    Unsupported {
        /// The feature or version, in the repository's own word.
        what: String,
    },
    /// A file or blob does not hold what it should.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The file, blob or directory.
        what: String,
        /// The reason.
        why: String,
    },
    /// Something that is referred to is not there.
    #[error("{what} is missing in the repository")]
    Missing {
        /// The blob, pack, snapshot or path.
        what: String,
    },
    /// A text of the user fits nothing, or more than one snapshot.
    #[error("no snapshot is chosen by {text:?}: {why}")]
    NotChosen {
        /// The text.
        text: String,
        /// The reason, with the candidates.
        why: String,
    },
    /// The scratch space failed.
    #[error("{attempt} in the scratch space {path}: {source}")]
    Scratch {
        /// The attempted action, such as "write an index".
        attempt: &'static str,
        /// The folder.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The caller has asked to stop.
    #[error("the operation was cancelled")]
    Cancelled,
}

impl ResticError {
    /// An error that says the same, for each of several blobs that failed together. The cause below is told once.
    #[must_use]
    pub fn repeat(&self) -> Self {
        match self {
            Self::Bucket(error) => Self::Bucket(BucketError {
                kind: error.kind,
                operation: error.operation,
                key: error.key.clone(),
                store: error.store.clone(),
                message: error.message.clone(),
                source: None,
            }),
            Self::NotARepository { location } => Self::NotARepository { location: location.clone() },
            Self::WrongPassword { location } => Self::WrongPassword { location: location.clone() },
            Self::Unsupported { what } => Self::Unsupported { what: what.clone() },
            Self::Damaged { what, why } => Self::Damaged { what: what.clone(), why: why.clone() },
            Self::Missing { what } => Self::Missing { what: what.clone() },
            Self::NotChosen { text, why } => Self::NotChosen { text: text.clone(), why: why.clone() },
            Self::Scratch { attempt, path, source } => Self::Scratch {
                attempt,
                path: path.clone(),
                source: std::io::Error::new(source.kind(), source.to_string()),
            },
            Self::Cancelled => Self::Cancelled,
        }
    }

    /// An error of something whose bytes do not have their form.
    pub(crate) fn damaged(what: impl Into<String>, why: impl Display) -> Self {
        Self::Damaged { what: what.into(), why: why.to_string() }
    }
}
