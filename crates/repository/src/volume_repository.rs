//! The repository itself, in the bucket of its location.

use lifeboat_bucket::BlobStore;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::{KopiaError, OpenOptions, Random, Repository};
use std::sync::Arc;
use std::time::Duration;

/// The user and the host under which all of Velero's processes write into a repository (B.2.5).
pub const CLIENT_NAME: &str = "default";

/// Options with which a repository is made.
#[derive(Clone)]
pub struct EnsureOptions {
    /// False for a location that is only read: nothing is made, and a repository without Velero's marker is taken as it is.
    pub may_create: bool,
    /// The interval of full maintenance, `fullMaintenanceInterval` of the configuration.
    pub full_maintenance: Option<Duration>,
    /// The source of random bytes.
    pub random: Random,
}

/// The reason why a repository cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// It is not there, and the location is read only.
    #[error("there is no repository in {repository}, and its location is read-only")]
    ReadOnly {
        /// The place.
        repository: String,
    },
    /// Something else lies where it is to be made.
    #[error("there is data in {repository} that is no repository: {found}; nothing was changed")]
    NotEmpty {
        /// The place.
        repository: String,
        /// The first blob.
        found: String,
    },
    /// Its marker is that of another repository.
    #[error("{repository} has the marker of another repository: it was copied or replaced in part")]
    ForeignMarker {
        /// The place.
        repository: String,
    },
    /// The format or the bucket.
    #[error(transparent)]
    Kopia(#[from] KopiaError),
}

/// The blobs of the repository of a namespace, from the bucket of a location below its prefix.
#[must_use]
pub fn blobs_of(location: Arc<dyn BlobStore>, volume_namespace: &str) -> Arc<dyn BlobStore> {
    todo!()
}

/// Makes the repository where it is missing, or sees that it is there and that this password opens it (B.2.4). Done again after a
/// crash it goes on where it was.
///
/// # Errors
/// [`RepositoryError`]; a wrong password is a [`KopiaError::WrongPassword`].
pub async fn ensure(
    blobs: Arc<dyn BlobStore>,
    password: &Password,
    options: &EnsureOptions,
) -> Result<(), RepositoryError> {
    todo!()
}

/// Opens the repository, which must be there.
///
/// # Errors
/// [`RepositoryError`]; a wrong password is a [`KopiaError::WrongPassword`].
pub async fn open(
    blobs: Arc<dyn BlobStore>,
    password: Password,
    options: OpenOptions,
) -> Result<Repository, RepositoryError> {
    todo!()
}
