//! Proves a backup: every file against the manifest, every object against the index.

use crate::archive::Archive;
use crate::change::folder;
use crate::open::OpenOptions;
use crate::{Store, StoreError};
use futures::TryStreamExt;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar::{FileDigest, Manifest};
use lifeboat_bucket::{BlobStore, BucketError};
use lifeboat_object::chain;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Files that were read and compared.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Objects that were read and compared.
    pub objects: u64,
    /// True when there is a manifest to compare with; without one (Velero's backups) only the archive is read.
    pub has_manifest: bool,
    /// Problems; empty when the backup is proved.
    pub problems: Vec<VerifyProblem>,
}

/// A problem of a file or object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyProblem {
    /// The file or object.
    pub what: String,
    /// The problem.
    pub problem: String,
}

/// The number of times that a backup is read again that is rewritten while it is read.
const READINGS: usize = 3;

impl Store {
    /// Reads every byte of a backup and compares it with what was written.
    ///
    /// # Errors
    /// [`StoreError::NoBackup`], and [`StoreError::Bucket`] when the bucket cannot be read at all; damage is not an
    /// error but in [`Verification::problems`].
    pub async fn verify(&self, name: &str, options: &OpenOptions) -> Result<Verification, StoreError> {
        let key = BackupFile::Manifest.key(name);
        for _ in 0..READINGS {
            let before = self.read(&key).await?;
            let found = self.verify_once(name, options).await?;
            // A backup that is finalized meanwhile has been read half before and half after that.
            if found.problems.is_empty() || self.read(&key).await? == before {
                return Ok(found);
            }
        }
        self.verify_once(name, options).await
    }

    async fn verify_once(&self, name: &str, options: &OpenOptions) -> Result<Verification, StoreError> {
        let backup = self.backup(name).await?;
        let mut out = Verification::default();
        let key = BackupFile::Manifest.key(name);
        if let Some(bytes) = self.read(&key).await? {
            match serde_json::from_slice::<Manifest>(&bytes) {
                Ok(manifest) => {
                    out.has_manifest = true;
                    if manifest.backup_uid != backup.metadata.uid {
                        out.add(&key, "it belongs to another backup");
                    }
                    self.verify_files(name, &manifest, &mut out).await?;
                    self.verify_objects(name, options, Some(&manifest), &mut out).await?;
                    return Ok(out);
                }
                Err(e) => out.add(&key, &format!("it is not valid JSON: {e}")),
            }
        }
        self.verify_objects(name, options, None, &mut out).await?;
        Ok(out)
    }

    async fn verify_files(&self, name: &str, manifest: &Manifest, out: &mut Verification) -> Result<(), StoreError> {
        for (file, expected) in &manifest.files {
            let key = format!("{}{file}", folder(name));
            match self.digest(&key).await {
                Ok(found) if manifest.admits(file, &found) => {
                    out.files += 1;
                    out.bytes += found.size;
                }
                Ok(found) if found.size != expected.size => {
                    out.add(&key, &format!("it has {} bytes, {} were written", found.size, expected.size));
                }
                Ok(_) => out.add(&key, "its content is not what was written (SHA-256 differs)"),
                Err(e) if e.is_not_found() => out.add(&key, "it is missing"),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    pub(crate) async fn digest(&self, key: &str) -> Result<FileDigest, BucketError> {
        let mut stream = self.bucket.get(key, None).await?;
        let mut hasher = Sha256::new();
        let mut size = 0;
        while let Some(piece) = stream.try_next().await? {
            hasher.update(&piece);
            size += piece.len() as u64;
        }
        Ok(FileDigest { size, sha256: hex::encode(hasher.finalize()) })
    }

    async fn verify_objects(
        &self,
        name: &str,
        options: &OpenOptions,
        manifest: Option<&Manifest>,
        out: &mut Verification,
    ) -> Result<(), StoreError> {
        let key = BackupFile::Tarball.key(name);
        let archive = match self.open_archive(name, options).await {
            Ok(archive) => archive,
            Err(StoreError::Bucket(e)) => return Err(e.into()),
            Err(e) => {
                out.add(&key, &chain(&e));
                return Ok(());
            }
        };
        let found = match count_objects(&archive).await {
            Ok(found) => found,
            Err(StoreError::Bucket(e)) if e.is_retryable() => return Err(e.into()),
            Err(e) => {
                out.add(&key, &chain(&e));
                return Ok(());
            }
        };
        out.objects = found.values().sum();
        if manifest.is_some_and(|manifest| !manifest.admits_counts(&found)) {
            out.add(&key, "it does not hold as many objects of each type as were written");
        }
        Ok(())
    }
}

async fn count_objects(archive: &Archive) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut tasks = JoinSet::new();
    let mut contents = archive.read((0..archive.rows().len()).collect(), &mut tasks);
    let mut found = BTreeMap::new();
    while let Some(item) = contents.next().await? {
        if let Some(row) = archive.row(item.row) {
            *found.entry(row.resource.to_string()).or_default() += 1;
        }
    }
    Ok(found)
}

impl Verification {
    fn add(&mut self, what: &str, problem: &str) {
        self.problems.push(VerifyProblem { what: what.to_owned(), problem: problem.to_owned() });
    }
}
