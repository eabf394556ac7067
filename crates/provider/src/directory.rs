//! Directories: buckets that are folders of a volume of the server's pod, or of this machine.

use crate::provider::{Provider, ProviderSettings};
use crate::url::{UrlBucket, UrlError};
use async_trait::async_trait;
use lifeboat_api::BackupStorageLocation;
use lifeboat_api::well_known::{ANNOTATION_BUCKET_ID, PROVIDER_DIRECTORY};
use lifeboat_bucket::{BlobStore, BucketError, BucketNotes, Deadlined, Deadlines, Directory, StorageAccess};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The key of the directory that holds the folders of buckets.
const PATH: &str = "path";

/// Directories below the root that the server was given.
#[derive(Debug)]
pub(crate) struct DirectoryProvider;

#[async_trait]
impl Provider for DirectoryProvider {
    fn names(&self) -> &'static [&'static str] {
        &[PROVIDER_DIRECTORY]
    }

    fn config_keys(&self) -> &'static [&'static str] {
        &[PATH]
    }

    fn url_schemes(&self) -> &'static [&'static str] {
        &["", "file"]
    }

    fn url_forms(&self) -> &'static str {
        "a directory, file:///directory"
    }

    fn parse_url(&self, scheme: &str, rest: &str) -> Result<Box<dyn UrlBucket>, UrlError> {
        if scheme == "file" && !rest.starts_with('/') {
            let why = "write an absolute path after file://, such as file:///srv/bucket";
            return Err(UrlError::of(&format!("file://{rest}"), why));
        }
        Ok(Box::new(DirectoryUrl(PathBuf::from(rest))))
    }

    fn check(&self, location: &BackupStorageLocation) -> Result<(), String> {
        folder(location).map(drop)
    }

    /// Callers wait for a storage that hangs no longer than for any other bucket; hanging calls use only a part of the
    /// threads.
    async fn open(
        &self,
        location: &BackupStorageLocation,
        _: StorageAccess,
        settings: &ProviderSettings,
    ) -> Result<Arc<dyn BlobStore>, String> {
        let root = settings.directory_root.clone().ok_or(
            "directories are not served: start the server with --directory-root, the directory that holds them",
        )?;
        let (path, bucket) = folder(location)?;
        // One that was a bucket before is not made anew where it is missing.
        let known = location.metadata.annotations.get(ANNOTATION_BUCKET_ID).cloned();
        let gate = settings.gates.of(&Path::new(&path).join(&bucket));
        let late = format!("config.path {path}: the storage has not answered for {} s", settings.patience.as_secs());
        let opened = gate.run(move || open_below(&root, &path, &bucket, known.as_deref()));
        let opened = timeout(settings.patience, opened).await;
        let directory = opened.map_err(|_| late)?.map_err(|died| died.to_string())??;
        let deadlines = Deadlines { answer: settings.patience, silence: settings.patience };
        Ok(Arc::new(Deadlined::new(Arc::new(directory.through(gate)), deadlines)))
    }
}

/// The directory of a location, and the name of the bucket's folder in it.
fn folder(location: &BackupStorageLocation) -> Result<(String, String), String> {
    let bucket = location.spec.object_storage.bucket.clone();
    let path = location.spec.config.get(PATH).filter(|path| !path.is_empty()).cloned();
    let path = path.ok_or("config.path is missing: the directory that holds the bucket's folder")?;
    if bucket.is_empty() || Path::new(&bucket).components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(format!("objectStorage.bucket {bucket:?} is no name of a folder"));
    }
    Ok((path, bucket))
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

/// A directory of this machine.
#[derive(Debug)]
struct DirectoryUrl(PathBuf);

#[async_trait]
impl UrlBucket for DirectoryUrl {
    fn directory(&self) -> Option<&Path> {
        Some(&self.0)
    }

    async fn open(&self, _: Duration) -> Result<Arc<dyn BlobStore>, BucketError> {
        Ok(Arc::new(Directory::open(&self.0)?))
    }

    async fn files(&self) -> Result<BTreeMap<&'static str, Vec<u8>>, String> {
        Err("it is a directory of this machine, which no other reaches".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::Gates;

    #[tokio::test]
    async fn directories_stay_below_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::create_dir_all(folder.path().join("out")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("out"), root.join("link")).unwrap();
        let settings = |directory_root: Option<PathBuf>| ProviderSettings {
            directory_root,
            gates: Gates::default(),
            patience: Duration::from_secs(60),
        };
        let below = settings(Some(root.canonicalize().unwrap()));
        let open = async |path: PathBuf, bucket: &str| {
            let mut location = BackupStorageLocation::default();
            location.spec.config.insert(PATH.into(), path.display().to_string());
            location.spec.object_storage.bucket = bucket.into();
            DirectoryProvider.open(&location, StorageAccess::default(), &below).await.map(drop)
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
        let location = BackupStorageLocation::default();
        let why = DirectoryProvider.open(&location, StorageAccess::default(), &settings(None)).await.unwrap_err();
        assert!(why.starts_with("directories are not served"), "{why}");
    }
}
