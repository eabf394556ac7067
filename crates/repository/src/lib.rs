//! The kopia repositories of volumes in a storage location, as Velero lays them out (kopia-and-data-path.md B.2).
//!
//! There is one repository for each namespace whose volumes are saved, below `kopia/NAMESPACE/` of the location's prefix. [`ensure`]
//! makes it in the bucket, or sees that it is there; [`open`] opens it, [`delete_snapshots`] deletes what a backup has in it, and
//! [`maintain`] gives its space back. Nothing here knows a cluster.

mod clock;
mod deletion;
mod maintain;
mod marker;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
mod volume_repository;

pub use clock::repository_clock;
pub use deletion::{DeletedSnapshot, DeletedSnapshots, SnapshotOwner, delete_snapshots};
pub use maintain::{MAINTENANCE_ERROR, MaintenanceSummary, maintain};
pub use volume_repository::{
    CLIENT_NAME, DEFAULT_PASSWORD, EnsureOptions, RepositoryError, WriterOptions, blobs_of, ensure, open, prefix_of,
};
