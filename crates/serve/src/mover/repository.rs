//! The repository of a transfer, opened with the rights and Secrets of the pod.

use super::failure::Failure;
use super::transfer::MoverEnv;
use lifeboat_api::well_known::{KEY_REPOSITORY_PASSWORD, SECRET_REPOSITORY};
use lifeboat_api::{BackupRepository, BackupStorageLocation, BackupStorageLocationAccessMode};
use lifeboat_bucket::BlobStore;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::{Clock, OpenOptions, Repository};
use lifeboat_repository::{
    DEFAULT_PASSWORD, EnsureOptions, MaintenanceSummary, RepositoryError, WriterOptions, blobs_of, ensure, maintain,
    open, repository_clock,
};
use std::sync::Arc;

/// The most memory for indexes and for contents that are under way.
const MEMORY: u64 = 96 << 20;

/// A repository before it is opened: its location, blobs and password.
pub(crate) struct VolumeRepository<'a> {
    env: &'a MoverEnv,
    namespace: &'a str,
    location: BackupStorageLocation,
    blobs: Arc<dyn BlobStore>,
    password: Password,
}

impl<'a> VolumeRepository<'a> {
    /// Finds the repository of a namespace's volumes in a location.
    pub(crate) async fn find(env: &'a MoverEnv, location: &str, namespace: &'a str) -> Result<Self, Failure> {
        let attempt = format!("open the repository of namespace {namespace} in the backup storage location {location}");
        let client = &env.client;
        let found = client.get::<BackupStorageLocation>(location).await.map_err(|e| Failure::new(&attempt, e))?;
        let found = found.ok_or_else(|| Failure::new(&attempt, "there is no such location in the namespace"))?;
        let access = client.storage_access(&found).await.map_err(|e| Failure::new(&attempt, e))?;
        let others = "plugins have no repositories of volumes";
        let bucket = lifeboat_provider::open_location(&found, access, &env.storage, others).await;
        let bucket = bucket.map_err(|e| Failure::new(&attempt, e))?;
        let (name, key) = (SECRET_REPOSITORY, KEY_REPOSITORY_PASSWORD);
        let password = client.secret(name, key).await.map_err(|e| Failure::new(&attempt, e))?;
        let password = Password::from_bytes(password)
            .ok_or_else(|| Failure::new(&attempt, format!("the password in Secret {name} is no text")))?;
        let blobs = blobs_of(bucket, namespace);
        Ok(Self { env, namespace, location: found, blobs, password })
    }

    /// Makes the repository and its resource where they are missing: a backup may be the first of its namespace.
    pub(super) async fn ensure(&self, threads: usize) -> Result<(), Failure> {
        let attempt = format!("make sure that {} is a repository", self.blobs.describe());
        let may_create = self.location.spec.access_mode != Some(BackupStorageLocationAccessMode::ReadOnly);
        if !may_create {
            let name = &self.location.metadata.name;
            return Err(Failure::Failed(format!(
                "the backup storage location {name} is read-only: nothing is saved there"
            )));
        }
        let of = &self.location.metadata;
        let resource = BackupRepository::for_volumes(&of.namespace, self.namespace, &of.name);
        let client = &self.env.client;
        let known = client.list::<BackupRepository>("").await.map_err(|e| Failure::new(&attempt, e))?;
        if !known.iter().any(|known| known.is_for(self.namespace, &of.name)) {
            client.create(&resource.metadata.name, &resource).await.map_err(|e| Failure::new(&attempt, e))?;
        }
        let options = EnsureOptions {
            may_create,
            full_maintenance: None,
            writer: WriterOptions { random: self.env.random.clone(), open: self.options(threads) },
        };
        ensure(self.blobs.clone(), &self.password, &options).await.map_err(|e| failed(&attempt, &e))
    }

    /// Opens the repository.
    pub(super) async fn open(&self, threads: usize) -> Result<Repository, Failure> {
        let attempt = format!("open the repository in {}", self.blobs.describe());
        let opened = open(self.blobs.clone(), self.password.clone(), self.options(threads)).await;
        opened.map_err(|e| failed(&attempt, &e))
    }

    /// Maintains the repository: what is due by its own schedule. It ends early when the pod is told to end.
    pub(crate) async fn maintain(&self) -> Result<MaintenanceSummary, Failure> {
        let attempt = format!("maintain the repository in {}", self.blobs.describe());
        if self.location.is_read_only() {
            let name = &self.location.metadata.name;
            return Err(Failure::new(&attempt, format!("the backup storage location {name} is read-only")));
        }
        let options = WriterOptions { random: self.env.random.clone(), open: self.options(self.env.threads) };
        let stopped = self.env.stop.cancelled();
        let maintained = Box::pin(maintain(self.blobs.clone(), &self.password, &options, stopped)).await;
        maintained.map_err(|e| failed(&attempt, &e))
    }

    fn options(&self, threads: usize) -> OpenOptions {
        OpenOptions {
            scratch: self.env.scratch.clone(),
            clock: clock(self.env),
            memory: MEMORY,
            threads,
            indexes: IndexSource::IndexBlobs,
        }
    }
}

fn failed(attempt: &str, error: &RepositoryError) -> Failure {
    let text = error.to_string();
    match error.is_wrong_password() {
        true => Failure::new(attempt, format!("{text}: {}", BackupRepository::wrong_password_advice(DEFAULT_PASSWORD))),
        false => Failure::from_storage(attempt, error),
    }
}

/// The clock of the mover, as repositories count.
pub(super) fn clock(env: &MoverEnv) -> Clock {
    let clock = env.clock.clone();
    repository_clock(move || clock())
}
