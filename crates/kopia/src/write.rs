//! Writing above contents: a new repository, manifests, and the writer as a whole.

use crate::blobs::layout::Layout;
use crate::content::writer::{ContentWriter, Written};
use crate::crypto::Password;
use crate::format::repository::NewRepository;
use crate::format::snapshot::SnapshotDocument;
use crate::object::writer::{ObjectOptions, ObjectWriter};
use crate::options::{Random, WriteOptions};
use crate::{KopiaError, Repository};
use lifeboat_bucket::BlobStore;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Repository {
    /// Makes a repository in a bucket: `kopia.blobcfg` first, `kopia.repository` last. The layout is that of `.shards` where
    /// there is one. Nothing else is written: the parameters of maintenance come with the writer that sets them.
    ///
    /// # Errors
    /// A repository or other data that is there already, in either layout; parameters that kopia refuses; those of the
    /// bucket.
    pub async fn create(
        _store: Arc<dyn BlobStore>,
        _password: &Password,
        _new: &NewRepository,
        _random: &Random,
        _layout: &Layout,
    ) -> Result<(), KopiaError> {
        todo!()
    }

    /// A writer. Clones of it are one writer; tasks share them.
    ///
    /// # Errors
    /// A repository whose indexes were read from packs; settings of object lock that cannot be read; those of the bucket.
    pub async fn writer(&self, _options: WriteOptions) -> Result<RepositoryWriter, KopiaError> {
        todo!()
    }
}

/// A writer of a repository. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct RepositoryWriter {
    contents: ContentWriter,
}

impl RepositoryWriter {
    /// The writer of its contents.
    pub fn contents(&self) -> &ContentWriter {
        &self.contents
    }

    /// The repository that is written.
    pub fn repository(&self) -> &Repository {
        todo!()
    }

    /// Begins an object.
    pub fn object(&self, _options: ObjectOptions) -> ObjectWriter {
        todo!()
    }

    /// Adds a manifest to those that the next flush writes; gives its ID.
    ///
    /// # Errors
    /// Labels without a `type`; an earlier failure of the writer.
    pub fn put_manifest(&self, _labels: BTreeMap<String, String>, _data: Box<RawValue>) -> Result<String, KopiaError> {
        todo!()
    }

    /// Adds the deletion of a manifest to what the next flush writes.
    ///
    /// # Errors
    /// An earlier failure of the writer.
    pub fn delete_manifest(&self, _id: &str) -> Result<(), KopiaError> {
        todo!()
    }

    /// Adds the manifest of a snapshot, with the labels by which kopia finds it; gives its ID.
    ///
    /// # Errors
    /// A tag whose key is a label of its own; a document that kopia could not read; an earlier failure of the writer.
    pub fn save_snapshot(&self, _document: &SnapshotDocument) -> Result<String, KopiaError> {
        todo!()
    }

    /// Writes all that is pending: packs, then the index, and then the marker of the session goes. What it gives is counted
    /// from the call before.
    ///
    /// # Errors
    /// Errors of the bucket. What was not flushed is lost then, and every later call fails for the same reason; nothing that
    /// was flushed refers to what is not there.
    pub async fn flush(&self) -> Result<Written, KopiaError> {
        todo!()
    }
}
