//! The `BackupRepository` of a namespace in a location.

use lifeboat_api::well_known::{LABEL_REPOSITORY_TYPE, LABEL_STORAGE_LOCATION, LABEL_VOLUME_NAMESPACE};
use lifeboat_api::{
    BackupRepository, BackupRepositorySpec, BackupStorageLocation, Duration, UploaderType, label_value,
};
use std::collections::BTreeMap;

/// The type of the repositories: the word of the label and of the name.
const KOPIA: &str = "kopia";

/// The name of the resource: `NAMESPACE-LOCATION-kopia`.
#[must_use]
pub fn resource_name(volume_namespace: &str, location: &str) -> String {
    format!("{volume_namespace}-{location}-{KOPIA}")
}

/// The resource for the volumes of a namespace in a location, in the namespace of the location, with its labels. It has the
/// frequency of maintenance `0s`, which the server fills in.
#[must_use]
pub fn backup_repository(volume_namespace: &str, location: &BackupStorageLocation) -> BackupRepository {
    let mut repository = BackupRepository::default();
    let location_name = &location.metadata.name;
    repository.metadata.name = resource_name(volume_namespace, location_name);
    repository.metadata.namespace = location.metadata.namespace.clone();
    repository.metadata.labels = labels(volume_namespace, location_name);
    repository.spec = BackupRepositorySpec {
        volume_namespace: volume_namespace.to_owned(),
        backup_storage_location: location_name.clone(),
        repository_type: UploaderType::Kopia,
        maintenance_frequency: Duration::ZERO,
        ..BackupRepositorySpec::default()
    };
    repository
}

/// Returns true if a resource is that of the volumes of this namespace in this location. Its labels decide, never its name.
#[must_use]
pub fn is_same(repository: &BackupRepository, volume_namespace: &str, location: &str) -> bool {
    let has = &repository.metadata.labels;
    labels(volume_namespace, location).iter().all(|(key, value)| has.get(key) == Some(value))
}

fn labels(volume_namespace: &str, location: &str) -> BTreeMap<String, String> {
    let labels = [
        (LABEL_VOLUME_NAMESPACE, label_value(volume_namespace)),
        (LABEL_STORAGE_LOCATION, label_value(location)),
        (LABEL_REPOSITORY_TYPE, KOPIA.to_owned()),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn location(name: &str) -> BackupStorageLocation {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = name.to_owned();
        location.metadata.namespace = "velero".to_owned();
        location
    }

    #[test]
    fn the_resource_is_the_one_that_velero_makes() {
        let made = serde_json::to_value(backup_repository("shop", &location("default"))).unwrap();
        let labels = json!({
            "velero.io/repository-type": "kopia",
            "velero.io/storage-location": "default",
            "velero.io/volume-namespace": "shop",
        });
        assert_eq!(
            (&made["metadata"]["name"], &made["metadata"]["namespace"], &made["metadata"]["labels"]),
            (&json!("shop-default-kopia"), &json!("velero"), &labels)
        );
        let spec = json!({
            "volumeNamespace": "shop", "backupStorageLocation": "default", "repositoryType": "kopia", "maintenanceFrequency": "0s",
        });
        assert_eq!(made["spec"], spec);
    }

    #[test]
    fn a_resource_is_known_by_its_labels_also_by_long_ones() {
        let long = "n".repeat(70);
        let mut made = backup_repository(&long, &location("default"));
        made.metadata.name = "renamed".to_owned();
        assert!(is_same(&made, &long, "default"));
        assert!(!is_same(&made, "shop", "default") && !is_same(&made, &long, "other"));
        made.metadata.labels.insert(LABEL_REPOSITORY_TYPE.to_owned(), "restic".to_owned());
        assert!(!is_same(&made, &long, "default"));
    }
}
