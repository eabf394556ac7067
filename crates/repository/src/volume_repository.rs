//! The repository itself, in the bucket of its location.

use crate::marker::{Marker, put_marker, read_marker};
use lifeboat_bucket::{BlobStore, Prefixed};
use lifeboat_kopia::blobs::Blobs;
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::blob_name::FORMAT;
use lifeboat_kopia::format::maintenance::MaintenanceParameters;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::maintenance::set_parameters;
use lifeboat_kopia::{KopiaError, OpenOptions, Random, Repository, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

/// The user and the host under which all of Velero's processes write into a repository
/// (velero: pkg/repository/udmrepo/repo_options.go).
pub const CLIENT_NAME: &str = "default";

/// The password that Velero gives to its repositories, unless its Secret had another one before.
pub const DEFAULT_PASSWORD: &str = "static-passw0rd";

/// The owner of the maintenance of Velero's repositories.
pub(crate) const OWNER: &str = "default@default";
/// The most bytes of `kopia.repository`.
const MAX_FORMAT: u64 = 1 << 20;
/// The most puts at once of the writer that sets the parameters of maintenance.
const UPLOADS: usize = 2;

/// Options with which a repository is made.
#[derive(Clone)]
pub struct EnsureOptions {
    /// False for a location that is only read: nothing is made, and a repository without Velero's marker is taken as it is.
    pub may_create: bool,
    /// The interval of full maintenance, `fullMaintenanceInterval` of the configuration.
    pub full_maintenance: Option<Duration>,
    /// The options with which a repository is made, and opened where it has to be finished.
    pub writer: WriterOptions,
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
    /// Its maintenance belongs to somebody else.
    #[error(
        "its maintenance is owned by {owner:?}, and Velero's owner is {OWNER}: let that one maintain it, or hand it over with \
         `lifeboat repo maintenance set --owner {OWNER}`"
    )]
    OwnedByOthers {
        /// The owner.
        owner: String,
    },
    /// The format or the bucket.
    #[error(transparent)]
    Kopia(#[from] KopiaError),
}

impl RepositoryError {
    /// Returns true where the bucket did not answer for as long as it was tried: a later attempt may succeed.
    #[must_use]
    pub fn is_bucket_unavailable(&self) -> bool {
        matches!(self, Self::Kopia(error) if error.is_bucket_unavailable())
    }

    /// Returns true if the repository does not open with the password.
    #[must_use]
    pub fn is_wrong_password(&self) -> bool {
        matches!(self, Self::Kopia(KopiaError::WrongPassword { .. }))
    }
}

/// Options with which a repository is opened to be written.
#[derive(Clone)]
pub struct WriterOptions {
    /// The source of random bytes.
    pub random: Random,
    /// The clock, and the folder, memory and threads.
    pub open: OpenOptions,
}

/// The place of a namespace's repository in the bucket of a location, below the location's own prefix (velero:
/// pkg/repository/config/config.go).
#[must_use]
pub fn prefix_of(volume_namespace: &str) -> String {
    format!("kopia/{volume_namespace}/")
}

/// The blobs of the repository of a namespace, from the bucket of a location below its prefix.
#[must_use]
pub fn blobs_of(location: Arc<dyn BlobStore>, volume_namespace: &str) -> Arc<dyn BlobStore> {
    Arc::new(Prefixed::new(location, prefix_of(volume_namespace)))
}

/// Makes the repository where it is missing, or sees that it is there and that this password opens it
/// (velero: pkg/repository/udmrepo/kopialib/repo_init.go). Done again after a crash it goes on where it was: the format
/// comes first, then the parameters of maintenance, and last the marker.
///
/// # Errors
/// [`RepositoryError`]; a wrong password is a [`KopiaError::WrongPassword`].
pub async fn ensure(
    blobs: Arc<dyn BlobStore>,
    password: &Password,
    options: &EnsureOptions,
) -> Result<(), RepositoryError> {
    let password = trimmed(password);
    let described = || blobs.describe();
    if Blobs::open(blobs.clone()).await?.read_if_there(FORMAT, MAX_FORMAT).await?.is_none() {
        if !options.may_create {
            return Err(RepositoryError::ReadOnly { repository: described() });
        }
        create(blobs.clone(), &password, &options.writer.random).await?;
    }
    let format = Repository::read_format(blobs.clone(), password.clone(), options.writer.open.clock.clone()).await?;
    match read_marker(&Blobs::open(blobs.clone()).await?, &format.unique_id).await? {
        Marker::Own => Ok(()),
        Marker::Foreign => Err(RepositoryError::ForeignMarker { repository: described() }),
        Marker::Missing if !options.may_create => Ok(()),
        Marker::Missing => {
            let repository = Repository::open(blobs.clone(), password, options.writer.open.clone()).await?;
            own_maintenance(&repository, options).await?;
            Ok(put_marker(repository.blobs(), &format.unique_id).await?)
        }
    }
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
    Ok(Repository::open(blobs, trimmed(&password), options).await?)
}

/// Makes the format, with Velero's parameters. That another one was faster is no error.
async fn create(blobs: Arc<dyn BlobStore>, password: &Password, random: &Random) -> Result<(), RepositoryError> {
    match Repository::create(blobs, password, &NewRepository::default(), random, &Layout::Flat).await {
        Ok(()) | Err(KopiaError::RepositoryExists { .. }) => Ok(()),
        Err(KopiaError::NotEmpty { location, key }) => {
            Err(RepositoryError::NotEmpty { repository: location, found: key })
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes Velero's name the owner of the maintenance, unless it is already.
async fn own_maintenance(repository: &Repository, options: &EnsureOptions) -> Result<(), KopiaError> {
    if repository.maintenance_parameters().await?.owner == OWNER {
        return Ok(());
    }
    let mut parameters = MaintenanceParameters { owner: OWNER.to_owned(), ..MaintenanceParameters::default() };
    if let Some(interval) = options.full_maintenance {
        parameters.full.interval = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
    }
    let write = write_options(&options.writer, UPLOADS);
    set_parameters(&repository.writer(write).await?, &parameters).await
}

/// Options of a writer with Velero's name, which has the memory and threads with which the repository is opened.
pub(crate) fn write_options(WriterOptions { random, open }: &WriterOptions, uploads: usize) -> WriteOptions {
    WriteOptions {
        user: CLIENT_NAME.to_owned(),
        host: CLIENT_NAME.to_owned(),
        random: random.clone(),
        threads: open.threads,
        memory: open.memory,
        uploads,
    }
}

/// The password without the white space around it, which editors and shells leave in Secrets.
pub(crate) fn trimmed(password: &Password) -> Password {
    Password::new(String::from_utf8_lossy(password.as_bytes()).trim().to_owned())
}
