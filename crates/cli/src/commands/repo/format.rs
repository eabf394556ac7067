//! Formats of repositories, and where those of restic lie.

use clap::ValueEnum;
use lifeboat_bucket::{BlobStore, Prefixed};
use std::sync::Arc;

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RepositoryFormat {
    /// That of kopia
    Kopia,
    /// That of restic, which is read and never written
    Restic,
}

/// The part of a location's bucket that holds the repository of restic of a namespace.
pub(super) fn restic_of_velero(bucket: Arc<dyn BlobStore>, namespace: &str) -> Arc<dyn BlobStore> {
    Arc::new(Prefixed::new(bucket, restic_prefix(namespace)))
}

/// The prefix of that repository.
pub(super) fn restic_prefix(namespace: &str) -> String {
    format!("restic/{namespace}/")
}
