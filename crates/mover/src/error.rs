//! Errors of this room.

use lifeboat_kopia::KopiaError;
use std::path::PathBuf;

/// An error that ends the whole transfer. Errors of single entries are in the report.
#[derive(Debug, thiserror::Error)]
pub enum MoverError {
    /// The repository.
    #[error(transparent)]
    Repository(#[from] KopiaError),
    /// The target as a whole: it is missing, read-only, or no folder.
    #[error("{path}: cannot {attempt}: {source}")]
    Target {
        /// The attempted action, such as "open it".
        attempt: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The source as a whole: it is missing, or cannot be read.
    #[error("{path}: cannot {attempt}: {source}")]
    Source {
        /// The attempted action, such as "open it".
        attempt: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The target has no space left.
    #[error("{path}: cannot {attempt}: {source}. Make space and restore again: what is there is kept")]
    Full {
        /// The attempted action.
        attempt: &'static str,
        /// The path at which it was noticed.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Options that do not fit together or to the target.
    #[error("{0}")]
    Refused(String),
}
