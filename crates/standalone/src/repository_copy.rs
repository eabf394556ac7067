//! The copy of a volume of a backup in a repository, looked up from a bucket or through the cluster.

use crate::backup_source::options;
use crate::bucket_url;
use crate::cluster_location::{location, open_location_here};
use anyhow::{Context, Result, anyhow};
use lifeboat_api::well_known::{KEY_REPOSITORY_PASSWORD, LABEL_BACKUP_UID, SECRET_REPOSITORY};
use lifeboat_api::{Backup, GROUP};
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::BlobStore;
use lifeboat_object::GroupResource;
use lifeboat_store::{Store, StoreError};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::missing;
use lifeboat_volume::{CopyRecords, RepositoryCopy, VolumeFiles};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinSet;

pub use lifeboat_volume::{VolumeName, VolumeOwner};

/// A volume of a backup, and the way to it.
#[derive(Clone, Copy, Debug)]
pub struct VolumeRequest<'a> {
    /// The name of the backup.
    pub backup: &'a str,
    /// The namespace of the volume.
    pub namespace: &'a str,
    /// The claim or the pod's volume.
    pub of: &'a VolumeOwner,
    /// The URL of the bucket; `None` for the backup's storage location in the cluster.
    pub bucket: Option<&'a str>,
    /// True when the password of the repository is known already.
    pub has_password: bool,
}

/// The repository of a volume, and the snapshot in it.
pub struct FoundCopy {
    /// The bucket of the location.
    pub bucket: Arc<dyn BlobStore>,
    /// The copy in it.
    pub copy: RepositoryCopy,
    /// The password of the repository, where the cluster was asked for it.
    pub password: Option<String>,
}

impl VolumeRequest<'_> {
    /// Finds the copy. Archives are copied into `folder` where they have no index.
    ///
    /// # Errors
    /// When there is no such backup, it cannot be read, or it has no copy of the volume in a repository.
    pub async fn find(self, globals: &Globals, folder: &Path) -> Result<FoundCopy> {
        let (bucket, password) = match self.bucket {
            Some(url) => (bucket_url::open_existing("--bucket", url, globals.patience()).await?, None),
            None => self.through_cluster(globals).await?,
        };
        let store = Store::new(Arc::clone(&bucket)).with_patience(globals.patience());
        let Self { backup, namespace, of, .. } = self;
        let records = records(&store, backup, folder).await?;
        let copy = records.find(namespace, of);
        let copy = copy.map_err(|why| {
            anyhow!("the backup {backup:?} has no copy of the volume {namespace}/{of} that can be read: {why}")
        })?;
        Ok(FoundCopy { bucket, copy, password })
    }

    /// The bucket of the backup's storage location, and the password of its repositories.
    async fn through_cluster(self, globals: &Globals) -> Result<(Arc<dyn BlobStore>, Option<String>)> {
        let client = globals.client().await?;
        let backup = client.get::<Backup>(self.backup).await?.ok_or_else(|| missing::<Backup>(self.backup))?;
        let location = location(&backup.spec.storage_location, &client).await?;
        let opened = open_location_here(&location, &client, globals).await;
        let bucket = opened.context("open the bucket of the backup; --bucket names it as this machine reaches it")?;
        if self.has_password {
            return Ok((bucket, None));
        }
        let read = client.secret(SECRET_REPOSITORY, KEY_REPOSITORY_PASSWORD).await;
        let password = read.map_err(|why| {
            anyhow!("the password of the repositories cannot be read: {why}; --password-file names a file that has it")
        })?;
        let password = String::from_utf8(password).map_err(|_| {
            anyhow!(
                "the password in the Secret {SECRET_REPOSITORY} is no text; --password-file names a file that has it"
            )
        })?;
        Ok((bucket, Some(password.trim().to_owned())))
    }
}

/// Reads the records of a backup about its volumes.
async fn records(store: &Store, name: &str, folder: &Path) -> Result<CopyRecords> {
    let record = store.backup(name).await?;
    let files = VolumeFiles {
        infos: store.backup_file(name, BackupFile::VolumeInfo).await?.unwrap_or_default(),
        native: store.backup_file(name, BackupFile::VolumeSnapshots).await?.flatten().unwrap_or_default(),
        pod_volumes: store.backup_file(name, BackupFile::PodVolumeBackups).await?.flatten().unwrap_or_default(),
        snapshots: store.backup_file(name, BackupFile::CsiVolumeSnapshots).await?.flatten().unwrap_or_default(),
    };
    // The volume information has the snapshots of what was moved; before Velero 1.13 there was none.
    let uploads = if files.infos.is_empty() { uploads(store, &record, folder).await } else { Ok(Vec::new()) };
    let uploads = uploads.with_context(|| format!("read the DataUploads of the backup {name:?}"))?;
    Ok(CopyRecords { files, uploads })
}

/// Reads the DataUploads of a backup. One that belongs to another backup, and was saved as any object, is none of them.
async fn uploads(store: &Store, backup: &Backup, folder: &Path) -> Result<Vec<Value>, StoreError> {
    let archive = store.open_archive(&backup.metadata.name, &options(folder)).await?;
    let kind = GroupResource::new(GROUP, "datauploads");
    let rows = archive.rows().enumerate().filter(|(_, row)| *row.resource == kind).map(|(number, _)| number).collect();
    let mut tasks = JoinSet::new();
    let mut items = archive.read(rows, &mut tasks);
    let mut uploads = Vec::new();
    while let Some(item) = items.next().await? {
        let upload: Value = serde_json::from_slice(&item.body).unwrap_or_default();
        let of = upload["metadata"]["labels"][LABEL_BACKUP_UID].as_str();
        if of.is_none_or(|uid| uid == backup.metadata.uid) {
            uploads.push(upload);
        }
    }
    Ok(uploads)
}
