//! Errors of this room.

use lifeboat_bucket::ErrorKind;
use lifeboat_kopia::KopiaError;
use lifeboat_restic::ResticError;
use std::path::PathBuf;

/// An error that ends the whole transfer. Errors of single entries are in the report.
#[derive(Debug, thiserror::Error)]
pub enum MoverError {
    /// The repository.
    #[error(transparent)]
    Repository(#[from] KopiaError),
    /// A repository of restic's format.
    #[error(transparent)]
    Restic(#[from] ResticError),
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

impl MoverError {
    /// Returns true where the bucket did not answer for as long as it was tried: a later attempt may succeed.
    #[must_use]
    pub fn is_bucket_unavailable(&self) -> bool {
        match self {
            Self::Repository(error) => error.is_bucket_unavailable(),
            Self::Restic(ResticError::Bucket(error)) => error.is_retryable(),
            _ => false,
        }
    }
}

/// An error of the repository from which is read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// An error of a repository of kopia's format.
    #[error(transparent)]
    Kopia(#[from] KopiaError),
    /// An error of a repository of restic's format.
    #[error(transparent)]
    Restic(#[from] ResticError),
}

impl From<RepositoryError> for MoverError {
    fn from(error: RepositoryError) -> Self {
        match error {
            RepositoryError::Kopia(error) => error.into(),
            RepositoryError::Restic(error) => error.into(),
        }
    }
}

impl RepositoryError {
    /// An error that says the same, for each of several entries. The cause below is told once.
    pub(crate) fn repeat(&self) -> Self {
        match self {
            Self::Kopia(error) => error.repeat().into(),
            Self::Restic(error) => error.repeat().into(),
        }
    }

    /// Returns true if it concerns one entry; false where the whole repository does not answer.
    pub(crate) fn concerns_entry(&self) -> bool {
        match self {
            Self::Kopia(KopiaError::Damaged { .. } | KopiaError::Missing { .. } | KopiaError::Unsupported { .. })
            | Self::Restic(ResticError::Damaged { .. } | ResticError::Missing { .. }) => true,
            Self::Kopia(KopiaError::Bucket(error)) | Self::Restic(ResticError::Bucket(error)) => {
                !matches!(error.kind, ErrorKind::Transient | ErrorKind::Throttled)
            }
            _ => false,
        }
    }

    /// Returns true if somebody has asked to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self, Self::Kopia(KopiaError::Cancelled) | Self::Restic(ResticError::Cancelled))
    }
}
