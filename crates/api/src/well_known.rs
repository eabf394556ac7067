//! Labels and annotations with a meaning (api-and-controllers.md 2.2 and 2.3).

/// On restored objects and others: the backup, shortened by [`crate::label_value`].
pub const LABEL_BACKUP_NAME: &str = "velero.io/backup-name";
/// UID of the backup.
pub const LABEL_BACKUP_UID: &str = "velero.io/backup-uid";
/// On restored objects: the restore, shortened by [`crate::label_value`].
pub const LABEL_RESTORE_NAME: &str = "velero.io/restore-name";
/// On backups: the schedule that made it.
pub const LABEL_SCHEDULE_NAME: &str = "velero.io/schedule-name";
/// On backups: the storage location, shortened by [`crate::label_value`].
pub const LABEL_STORAGE_LOCATION: &str = "velero.io/storage-location";
/// `true` on any object keeps it out of backups; on a namespace, all in it.
pub const LABEL_EXCLUDE_FROM_BACKUP: &str = "velero.io/exclude-from-backup";
/// Default key that groups claims for a group snapshot.
pub const LABEL_VOLUME_GROUP: &str = "velero.io/volume-group";
/// Version of the cluster a backup was made of, such as `v1.34.4`.
pub const ANNOTATION_SOURCE_VERSION: &str = "velero.io/source-cluster-k8s-gitversion";
/// Its major version.
pub const ANNOTATION_SOURCE_MAJOR: &str = "velero.io/source-cluster-k8s-major-version";
/// Its minor version.
pub const ANNOTATION_SOURCE_MINOR: &str = "velero.io/source-cluster-k8s-minor-version";
/// The resource timeout a backup ran with.
pub const ANNOTATION_RESOURCE_TIMEOUT: &str = "velero.io/resource-timeout";
/// On an object in a backup: `true` or `false` decides for it whether its status is restored.
pub const ANNOTATION_RESTORE_STATUS: &str = "velero.io/restore-status";
/// Who runs the namespace for Argo CD.
pub const LABEL_ARGOCD_MANAGED_BY: &str = "argocd.argoproj.io/managed-by";
