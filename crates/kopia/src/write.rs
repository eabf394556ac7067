//! Writing above contents: a new repository, manifests, and the writer as a whole.

mod create;
mod creation_claim;
mod pending;

use crate::blobs::layout::Layout;
use crate::compression::Compression;
use crate::content::IndexSource;
use crate::content::writer::{ContentWriter, Written};
use crate::crypto::Password;
use crate::format::blob_name::{BLOB_CONFIG, PASSWORD_NOTE};
use crate::format::manifest::{ManifestEntry, write as write_manifests};
use crate::format::repository::{NewRepository, Retention, open_blob_config, retention_of_note};
use crate::format::snapshot::SnapshotDocument;
use crate::manifest::PREFIX;
use crate::object::writer::{ObjectOptions, ObjectWriter};
use crate::options::{Random, WriteOptions, random_bytes};
use crate::{KopiaError, Repository};
use lifeboat_bucket::BlobStore;
use pending::{new_manifest, outlast, snapshot_data, snapshot_labels, tombstone};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of `kopia.blobcfg`.
const MAX_CONFIG: u64 = 1 << 20;

impl Repository {
    /// Makes a repository in a bucket: `kopia.blobcfg` first, `kopia.repository` last. The layout is that of `.shards` where
    /// there is one. Nothing else is written: the parameters of maintenance come with the writer that sets them.
    ///
    /// # Errors
    /// A repository or other data that is there already, in either layout; parameters that kopia refuses; those of the
    /// bucket.
    pub async fn create(
        store: Arc<dyn BlobStore>,
        password: &Password,
        new: &NewRepository,
        random: &Random,
        layout: &Layout,
    ) -> Result<(), KopiaError> {
        create::create(store, password, new, random, layout).await
    }

    /// A writer. Clones of it are one writer; tasks share them.
    ///
    /// # Errors
    /// A repository whose indexes were read from packs; settings of object lock that cannot be read; those of the bucket.
    pub async fn writer(&self, options: WriteOptions) -> Result<RepositoryWriter, KopiaError> {
        if self.contents().source() == IndexSource::Packs {
            let why =
                "it was opened by the indexes in its packs, which tell of no deletions: open it by its index blobs";
            return Err(KopiaError::refused("write into the repository", why));
        }
        self.guard().check().await?;
        let retention = self.retention().await?;
        let inner = Inner {
            repository: self.clone(),
            contents: ContentWriter::new(self.contents(), options, retention),
            pending: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
        };
        Ok(RepositoryWriter { inner: Arc::new(inner) })
    }

    /// The object lock of the repository; `None` where it has none. While a change of the password has taken the settings
    /// away, or was cut off then, they come from its note.
    ///
    /// # Errors
    /// Settings that cannot be read; those of the bucket.
    pub(crate) async fn retention(&self) -> Result<Option<Retention>, KopiaError> {
        let (name, opened) = if let Some(stored) = self.blobs().read_if_there(BLOB_CONFIG, MAX_CONFIG).await? {
            (BLOB_CONFIG, open_blob_config(&self.format(), &stored))
        } else if let Some(note) = self.blobs().read_if_there(PASSWORD_NOTE, MAX_CONFIG).await? {
            (PASSWORD_NOTE, retention_of_note(&self.format(), &note))
        } else {
            return Ok(None);
        };
        opened.map_err(|e| KopiaError::damaged(format!("blob {name}"), e))
    }
}

/// A writer of a repository. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct RepositoryWriter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    repository: Repository,
    contents: ContentWriter,
    /// Manifests and deletions of the next flush, in the order in which they came.
    pending: Mutex<Vec<ManifestEntry>>,
    flushing: tokio::sync::Mutex<()>,
}

impl RepositoryWriter {
    fn pending(&self) -> MutexGuard<'_, Vec<ManifestEntry>> {
        self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer of its contents.
    pub fn contents(&self) -> &ContentWriter {
        &self.inner.contents
    }

    /// The repository that is written.
    pub fn repository(&self) -> &Repository {
        &self.inner.repository
    }

    /// Begins an object.
    pub fn object(&self, options: ObjectOptions) -> ObjectWriter {
        ObjectWriter::begin(&self.inner.contents, options)
    }

    /// Adds a manifest to those that the next flush writes; gives its ID.
    ///
    /// # Errors
    /// Labels without a `type`; an earlier failure of the writer.
    pub fn put_manifest(&self, labels: BTreeMap<String, String>, data: Box<RawValue>) -> Result<String, KopiaError> {
        let contents = &self.inner.contents;
        contents.check()?;
        let entry = new_manifest(random_bytes(&contents.options().random), labels, data, contents.now())?;
        let id = entry.id.clone();
        self.pending().push(entry);
        Ok(id)
    }

    /// Adds the deletion of a manifest to what the next flush writes.
    ///
    /// # Errors
    /// An earlier failure of the writer.
    pub fn delete_manifest(&self, id: &str) -> Result<(), KopiaError> {
        self.inner.contents.check()?;
        let entry = tombstone(id, self.inner.contents.now());
        self.pending().push(entry);
        Ok(())
    }

    /// Adds the manifest of a snapshot, with the labels by which kopia finds it; gives its ID.
    ///
    /// # Errors
    /// A tag whose key is a label of its own; a document that kopia could not read; an earlier failure of the writer.
    pub fn save_snapshot(&self, document: &SnapshotDocument) -> Result<String, KopiaError> {
        self.put_manifest(snapshot_labels(document)?, snapshot_data(document)?)
    }

    /// Writes all that is pending: packs, then the index, and then the marker of the session goes. What it gives is counted
    /// from the call before.
    ///
    /// # Errors
    /// Errors of the bucket; manifests after a long pause of the process, in which maintenance may have deleted what they
    /// refer to. What was not flushed is lost then, and every later call fails for the same reason; nothing that was flushed
    /// refers to what is not there.
    pub async fn flush(&self) -> Result<Written, KopiaError> {
        let _turn = self.inner.flushing.lock().await;
        let contents = &self.inner.contents;
        let mut entries = self.pending().clone();
        let count = entries.len();
        let refers = entries.iter().any(|entry| !entry.is_deleted);
        let pauses = refers.then(|| contents.begin_manifests());
        if count > 0 {
            if entries.iter().any(|entry| entry.is_deleted) {
                outlast(&mut entries, &self.inner.repository.manifests().await?);
            }
            // Kopia offers them to this compression; they are compressed already and mostly stay as they are.
            let bytes = write_manifests(&entries);
            contents.write(Some(PREFIX), bytes.into(), Some(Compression::ZstdFastest)).await?;
            // Those that came meanwhile are behind them.
            self.pending().drain(..count);
        }
        let written = contents.flush().await?;
        if let Some(pauses) = pauses {
            contents.end_manifests(pauses);
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
