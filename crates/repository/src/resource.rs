//! The `BackupRepository` of a namespace in a location.

use lifeboat_api::{BackupRepository, BackupStorageLocation};

/// The name of the resource: `NAMESPACE-LOCATION-kopia`.
#[must_use]
pub fn resource_name(volume_namespace: &str, location: &str) -> String {
    format!("{volume_namespace}-{location}-kopia")
}

/// The resource for the volumes of a namespace in a location, in the namespace of the location, with its labels. It has the
/// frequency of maintenance `0s`, which the server fills in.
#[must_use]
pub fn backup_repository(volume_namespace: &str, location: &BackupStorageLocation) -> BackupRepository {
    todo!()
}

/// Returns true if a resource is that of the volumes of this namespace in this location. Its labels decide, never its name.
#[must_use]
pub fn is_same(repository: &BackupRepository, volume_namespace: &str, location: &str) -> bool {
    todo!()
}
