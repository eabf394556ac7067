//! Providers of the storage of locations: built in, or plugins.

use super::plugins::{AWS, BUILT_IN_STORES, Plugins};
use anyhow::{Context, Result};
use async_trait::async_trait;
use lifeboat_api::BackupStorageLocation;
use lifeboat_api::well_known::ANNOTATION_BUCKET_ID;
use lifeboat_bucket::{BlobStore, BucketNotes, Deadlined, Deadlines, Directory, Gates, Prefixed};
use lifeboat_control::{LocationAccess, Providers};
use lifeboat_install::DIRECTORY_PROVIDER;
use lifeboat_s3::{CredentialsFile, S3, S3Config};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The name of a provider, of which one may be called by a short name too.
fn full_name(provider: &str) -> &str {
    if provider == "aws" { AWS } else { provider }
}

/// Returns true if no plugin is needed for the storage of a provider.
pub(crate) fn is_built_in(provider: &str) -> bool {
    BUILT_IN_STORES.contains(&full_name(provider))
}

/// Opens the storage of locations: by a program where one is used, else what is built in.
#[derive(Debug)]
pub(crate) struct StorageProviders {
    directory_root: Option<PathBuf>,
    gates: Gates,
    /// For one request with all its attempts.
    patience: Duration,
    /// Plugins that provide all other storage; `None` outside a server.
    plugins: Option<Arc<Plugins>>,
}

impl StorageProviders {
    pub(crate) fn new(directory_root: Option<&Path>, patience: Duration) -> Result<Self> {
        let canonical = |root: &Path| {
            root.canonicalize().with_context(|| format!("--directory-root {}: it must be there", root.display()))
        };
        let directory_root = directory_root.map(canonical).transpose()?;
        Ok(Self { directory_root, gates: Gates::default(), patience, plugins: None })
    }

    /// The same, and the object stores of plugins.
    pub(crate) fn with_plugins(self, plugins: Arc<Plugins>) -> Self {
        Self { plugins: Some(plugins), ..self }
    }

    async fn s3(&self, location: &BackupStorageLocation, access: LocationAccess) -> Result<S3, String> {
        let storage = &location.spec.object_storage;
        let mut config = S3Config::from_velero(&storage.bucket, &location.spec.config)?;
        config.patience = Some(self.patience);
        if let Some(pem) = access.ca_bundle {
            config.ca_bundle = Some(pem);
        }
        if let Some(secret) = access.credentials {
            let no_text = |_| "the Secret with the credentials of the location is no text".to_owned();
            let text = String::from_utf8(secret).map_err(no_text)?;
            config.credentials_file = Some(CredentialsFile::Text(text));
        }
        S3::connect(config).await.map_err(|e| e.to_string())
    }

    /// Opens the directory of a location. Callers wait for a storage that hangs no longer than for any other bucket;
    /// hanging calls use only a part of the threads.
    async fn directory(&self, location: &BackupStorageLocation) -> Result<Deadlined, String> {
        let root = self.directory_root.clone().ok_or(
            "directories are not served: start the server with --directory-root, the directory that holds them",
        )?;
        let bucket = location.spec.object_storage.bucket.clone();
        let path = location.spec.config.get("path").filter(|path| !path.is_empty()).cloned();
        let path = path.ok_or("config.path is missing: the directory that holds the bucket's folder")?;
        if bucket.is_empty() || Path::new(&bucket).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(format!("objectStorage.bucket {bucket:?} is no name of a folder"));
        }
        // One that was a bucket before is not made anew where it is missing.
        let known = location.metadata.annotations.get(ANNOTATION_BUCKET_ID).cloned();
        let gate = self.gates.of(&Path::new(&path).join(&bucket));
        let late = format!("config.path {path}: the storage has not answered for {} s", self.patience.as_secs());
        let opened =
            timeout(self.patience, gate.run(move || open_below(&root, &path, &bucket, known.as_deref()))).await;
        let directory = opened.map_err(|_| late)?.map_err(|died| died.to_string())??;
        let deadlines = Deadlines { answer: self.patience, silence: self.patience };
        Ok(Deadlined::new(Arc::new(directory.through(gate)), deadlines))
    }
}

/// Opens the folder of a bucket in a directory, which must be below the root. It is made where it is missing, unless it was the bucket of
/// this ID before.
fn open_below(root: &Path, path: &str, bucket: &str, known: Option<&str>) -> Result<Directory, String> {
    // Links are followed before it is compared; the store itself follows none below it.
    let base = Path::new(path).canonicalize().map_err(|e| format!("config.path {path}: {e}"))?;
    if !base.starts_with(root) {
        return Err(format!("config.path {path} is not below the server's --directory-root {}", root.display()));
    }
    let folder = base.join(bucket);
    let notes = BucketNotes {
        known,
        forget: format!("take the annotation {ANNOTATION_BUCKET_ID} off the location"),
        // A folder that is missing has no ID that could be added.
        add: String::new(),
    };
    if !folder.is_dir()
        && let Some(why) = notes.refusal(None)
    {
        return Err(format!("the directory {} is not there: {why}", folder.display()));
    }
    Directory::open(folder).map_err(|e| e.to_string())
}

#[async_trait]
impl Providers for StorageProviders {
    async fn open(
        &self,
        location: &BackupStorageLocation,
        access: LocationAccess,
    ) -> Result<Arc<dyn BlobStore>, String> {
        let provider = location.spec.provider.as_str();
        let store: Arc<dyn BlobStore> = match (full_name(provider), &self.plugins) {
            ("", _) => return Err("object storage provider name must not be empty".to_owned()),
            (_, Some(plugins)) if plugins.has_store(provider) => plugins.object_store(location, access).await?,
            (AWS, _) => Arc::new(self.s3(location, access).await?),
            (DIRECTORY_PROVIDER, _) => Arc::new(self.directory(location).await?),
            (other, plugins) => {
                let elsewhere = match plugins {
                    Some(_) => "no plugin of this server has it: add it with `plugin add IMAGE`",
                    None => "those of plugins are known to the server alone",
                };
                return Err(format!(
                    "there is no provider {other:?}: built in are {}, and {elsewhere}",
                    BUILT_IN_STORES.join(" and ")
                ));
            }
        };
        let prefix = location.spec.object_storage.prefix.trim_matches('/');
        Ok(if prefix.is_empty() { store } else { Arc::new(Prefixed::new(store, format!("{prefix}/"))) })
    }

    fn may_keep(&self, location: &BackupStorageLocation) -> bool {
        !self.is_directory(location)
    }

    fn is_directory(&self, location: &BackupStorageLocation) -> bool {
        location.spec.provider == DIRECTORY_PROVIDER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn directories_stay_below_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::create_dir_all(folder.path().join("out")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("out"), root.join("link")).unwrap();
        let opened = |root: Option<&Path>| StorageProviders::new(root, Duration::from_secs(60));
        let providers = opened(Some(&root)).unwrap();
        let open = async |path: PathBuf, bucket: &str| {
            let mut location = BackupStorageLocation::default();
            location.spec.config.insert("path".into(), path.display().to_string());
            location.spec.object_storage.bucket = bucket.into();
            providers.directory(&location).await.map(drop)
        };
        assert_eq!(open(root.join("in"), "b").await, Ok(()));
        assert_eq!(open(root.clone(), "b").await, Ok(()));
        for (path, bucket, expected) in [
            (folder.path().join("out"), "b", "is not below the server's --directory-root"),
            (root.join("link"), "b", "is not below the server's --directory-root"),
            (root.join("in/../../out"), "b", "is not below the server's --directory-root"),
            (root.join("nowhere"), "b", "No such file or directory"),
            (root.join("in"), "..", "is no name of a folder"),
            (root.join("in"), "/etc", "is no name of a folder"),
            (root.join("in"), "", "is no name of a folder"),
        ] {
            let why = open(path.clone(), bucket).await.unwrap_err();
            assert!(why.contains(expected), "{} {bucket}: {why}", path.display());
        }
        assert!(opened(None).unwrap().directory(&BackupStorageLocation::default()).await.is_err());
        assert!(opened(Some(&root.join("missing"))).is_err());
    }
}
