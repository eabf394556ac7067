//! The `BackupRepository` resource (velero: pkg/apis/velero/v1).

use crate::schema::{object, resource, words};
use crate::well_known::{
    KEY_REPOSITORY_PASSWORD, LABEL_REPOSITORY_TYPE, LABEL_STORAGE_LOCATION, LABEL_VOLUME_NAMESPACE, SECRET_REPOSITORY,
};
use crate::{Duration, Time, UploaderType, label_value};
use std::collections::BTreeMap;

resource! {
    /// A repository for the volumes of one namespace in one storage location.
    BackupRepository, "backuprepositories", "v1",
    /// Which repository.
    BackupRepositorySpec,
    /// The state of the repository, as the server reports it.
    BackupRepositoryStatus
}

object! {
    /// Which repository.
    pub struct BackupRepositorySpec {
        /// The namespace whose volumes it holds.
        volume_namespace: String = "volumeNamespace" required;
        /// The storage location it lies in.
        backup_storage_location: String = "backupStorageLocation" required;
        /// Its format.
        repository_type: UploaderType = "repositoryType";
        /// The address of a restic repository (deprecated).
        restic_identifier: String = "resticIdentifier";
        /// Interval between maintenance runs.
        maintenance_frequency: Duration = "maintenanceFrequency" required;
        /// Settings of the repository.
        repository_config: BTreeMap<String, String> = "repositoryConfig" nullable;
    }
}

/// The type of the repositories that are made: the word of the label and of the name.
const KOPIA: &str = "kopia";

impl BackupRepository {
    /// The next step where a repository does not open with the password in the Secret of all repositories. The other is the
    /// password that Velero gives its own.
    #[must_use]
    pub fn wrong_password_advice(of_velero: &str) -> String {
        format!(
            "the Secret {SECRET_REPOSITORY}, key {KEY_REPOSITORY_PASSWORD}, has to have the password that this repository was made with \
             (that of Velero is {of_velero} where nobody has set another)"
        )
    }

    /// The resource in this namespace for the volumes of a namespace in a location, named `NAMESPACE-LOCATION-kopia`, with its
    /// labels. It has the frequency of maintenance `0s`, which the server fills in.
    #[must_use]
    pub fn for_volumes(namespace: &str, volume_namespace: &str, location: &str) -> Self {
        let mut repository = Self::default();
        repository.metadata.name = format!("{volume_namespace}-{location}-{KOPIA}");
        namespace.clone_into(&mut repository.metadata.namespace);
        repository.metadata.labels = Self::labels_for(volume_namespace, location);
        repository.spec = BackupRepositorySpec {
            volume_namespace: volume_namespace.to_owned(),
            backup_storage_location: location.to_owned(),
            repository_type: UploaderType::Kopia,
            ..BackupRepositorySpec::default()
        };
        repository
    }

    /// The labels by which the resource for the volumes of a namespace in a location is found.
    #[must_use]
    pub fn labels_for(volume_namespace: &str, location: &str) -> BTreeMap<String, String> {
        let labels = [
            (LABEL_VOLUME_NAMESPACE, label_value(volume_namespace)),
            (LABEL_STORAGE_LOCATION, label_value(location)),
            (LABEL_REPOSITORY_TYPE, KOPIA.to_owned()),
        ];
        labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Returns true if it is that of the volumes of this namespace in this location. Its labels decide, never its name.
    #[must_use]
    pub fn is_for(&self, volume_namespace: &str, location: &str) -> bool {
        let has = &self.metadata.labels;
        Self::labels_for(volume_namespace, location).iter().all(|(key, value)| has.get(key) == Some(value))
    }
}

words! {
    /// The phase of a repository; absent means `New`.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupRepositoryPhase {
        New,
        Ready,
        NotReady,
    }
}

object! {
    /// The state of a repository, and its last maintenance runs.
    pub struct BackupRepositoryStatus {
        /// Phase.
        phase: Option<BackupRepositoryPhase> = "phase";
        /// Reason for which the repository cannot be used.
        message: String = "message";
        /// When it was last maintained.
        last_maintenance_time: Option<Time> = "lastMaintenanceTime" nullable;
        /// The latest maintenance runs, the oldest first.
        recent_maintenance: Vec<BackupRepositoryMaintenanceStatus> = "recentMaintenance";
    }
}

words! {
    /// The outcome of a maintenance run.
    #[allow(missing_docs, reason = "the words are Velero's")]
    pub enum BackupRepositoryMaintenanceResult {
        Succeeded,
        Failed,
    }
}

object! {
    /// A maintenance run.
    pub struct BackupRepositoryMaintenanceStatus {
        /// The outcome.
        result: Option<BackupRepositoryMaintenanceResult> = "result";
        /// When it began.
        start_timestamp: Option<Time> = "startTimestamp" nullable;
        /// When it ended.
        complete_timestamp: Option<Time> = "completeTimestamp" nullable;
        /// Error message.
        message: String = "message";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_resource_is_the_one_that_velero_makes() {
        let made = serde_json::to_value(BackupRepository::for_volumes("velero", "shop", "default")).unwrap();
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
        let mut made = BackupRepository::for_volumes("velero", &long, "default");
        made.metadata.name = "renamed".to_owned();
        assert!(made.is_for(&long, "default"));
        assert!(!made.is_for("shop", "default") && !made.is_for(&long, "other"));
        made.metadata.labels.insert(LABEL_REPOSITORY_TYPE.to_owned(), "restic".to_owned());
        assert!(!made.is_for(&long, "default"));
    }
}
