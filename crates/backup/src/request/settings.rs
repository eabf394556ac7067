//! Fills in defaults and validates what a user asked for (velero: pkg/controller/backup_controller.go).

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, BackupPhase, Duration, Features, Time, well_known};
use lifeboat_archive::FORMAT_VERSION;
use lifeboat_cluster::ServerVersion;
use lifeboat_hook::BackupHooks;
use lifeboat_object::Catalog;
use lifeboat_select::{BackupFilter, RulesText};

/// A backup to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// The resource as the user wrote it, with name, namespace and UID.
    pub backup: Backup,
    /// Settings that the server or the command line adds.
    pub settings: Settings,
}

/// Settings that are not of one backup.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Retention when the backup names none.
    pub default_ttl: Duration,
    /// Deadline of asynchronous operations when the backup names none.
    pub default_item_operation_timeout: Duration,
    /// Written into an annotation for actions to read.
    pub resource_timeout: Duration,
    /// Name of the storage location.
    pub storage_location: String,
    /// True when the files of volumes are saved unless a pod opts out, where the backup does not say.
    pub fs_backup_by_default: bool,
    /// True when the data of CSI snapshots is moved, where the backup does not say.
    pub moves_snapshot_data: bool,
    /// The label of claims that are snapshotted as a group, when the backup names none.
    pub volume_group_label: String,
    /// The most time that commands of annotations of pods may ask for; `None` for as much as those of a spec.
    pub max_hook_timeout: Option<Duration>,
    /// The backup of volumes by their files.
    pub movers: FileMoverSettings,
    /// Feature flags.
    pub features: Features,
    /// Compression level of the archive, 1 to 9.
    pub compression: u32,
    /// Bytes of memory for objects that are read and not yet uploaded.
    pub memory_budget: usize,
    /// The number of item blocks (objects that actions look at) that are worked on at once.
    pub item_block_workers: usize,
    /// Resource policies in place of a ConfigMap.
    pub resource_policies: Option<RulesText>,
    /// The ConfigMap, in the namespace of the backup, with the policies for the volumes of all backups; empty for none.
    pub global_volume_policies: String,
    /// True when an API server holds the Backup: its name is unique in its namespace then, and files that an earlier
    /// backup of the name left in the bucket are written over.
    pub served: bool,
    /// Write over the claim of a run that is known to be dead.
    pub take_over: bool,
    /// Name and version of this tool, for the manifest.
    pub tool: String,
}

/// Settings of the backup of volumes by their files.
#[derive(Clone, Debug)]
pub struct FileMoverSettings {
    /// Set when a node agent in the namespace of the backup may be used: a server makes the backup, and it is in the cluster.
    pub may_be_used: bool,
    /// Longest time for the files of all volumes of one backup.
    pub fs_backup_timeout: Duration,
    /// The image of the server, which reader pods have; empty when it is not known, and then that of its Deployment.
    pub image: String,
}

impl Default for FileMoverSettings {
    fn default() -> Self {
        Self { may_be_used: false, fs_backup_timeout: Duration::from_secs(4 * 3600), image: String::new() }
    }
}

/// The default of [`Settings::memory_budget`], in MiB.
pub const MEMORY_BUDGET_MIB: u32 = 24;

/// The default of [`Settings::item_block_workers`]: one for each processor, and a few where there are fewer, because they wait
/// more than they work.
fn item_block_workers() -> usize {
    std::thread::available_parallelism().map_or(4, |count| count.get().max(4))
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_ttl: Duration::from_secs(720 * 3600),
            default_item_operation_timeout: Duration::from_secs(4 * 3600),
            resource_timeout: Duration::from_secs(600),
            storage_location: "default".to_owned(),
            fs_backup_by_default: false,
            moves_snapshot_data: false,
            volume_group_label: well_known::LABEL_VOLUME_GROUP.to_owned(),
            max_hook_timeout: None,
            movers: FileMoverSettings::default(),
            features: Features::default(),
            compression: 1,
            memory_budget: (MEMORY_BUDGET_MIB as usize) << 20,
            item_block_workers: item_block_workers(),
            resource_policies: None,
            global_volume_policies: String::new(),
            served: false,
            take_over: false,
            tool: "lifeboat".to_owned(),
        }
    }
}

/// The reasons for which a backup was refused before anything was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backup is not valid: {}", .0.join("; "))]
pub struct ValidationErrors(pub Vec<String>);

/// Fills in every default, so that the stored resource shows what was done.
///
/// # Errors
/// Everything that is wrong with the request, at once.
pub(crate) fn prepare(request: &Request, version: &ServerVersion, now: Timestamp) -> Result<Backup, ValidationErrors> {
    let (backup, errors) = prepared(request, version, now);
    if errors.is_empty() { Ok(backup) } else { Err(ValidationErrors(errors)) }
}

/// The backup with every default filled in, in progress, and everything that is wrong with the request. An attempt that
/// was begun before keeps its times.
#[must_use]
pub fn prepared(request: &Request, version: &ServerVersion, now: Timestamp) -> (Backup, Vec<String>) {
    let mut backup = request.backup.clone();
    let settings = &request.settings;
    let spec = &mut backup.spec;
    if spec.ttl.is_zero() {
        spec.ttl = settings.default_ttl;
    }
    if spec.volume_group_snapshot_label_key.is_empty() {
        spec.volume_group_snapshot_label_key.clone_from(&settings.volume_group_label);
    }
    if spec.csi_snapshot_timeout.is_zero() {
        spec.csi_snapshot_timeout = Duration::from_secs(600);
    }
    if spec.item_operation_timeout.is_zero() {
        spec.item_operation_timeout = settings.default_item_operation_timeout;
    }
    if spec.default_volumes_to_restic == Some(true) {
        // The old name of the field counts more than the new one.
        spec.default_volumes_to_fs_backup = Some(true);
    }
    spec.default_volumes_to_fs_backup.get_or_insert(settings.fs_backup_by_default);
    spec.snapshot_move_data.get_or_insert(settings.moves_snapshot_data);
    if spec.storage_location.is_empty() {
        spec.storage_location.clone_from(&settings.storage_location);
    }
    if spec.included_namespaces.is_empty() {
        spec.included_namespaces = vec!["*".to_owned()];
    }
    let mut errors = BackupFilter::validate(spec);
    BackupFilter::auto_exclude(spec);
    // Types are not known yet; what is wrong with hooks does not depend on them.
    errors.extend(BackupHooks::new(&spec.hooks, &Catalog::default()).err().unwrap_or_default());
    let ttl = SignedDuration::from_nanos(backup.spec.ttl.nanoseconds());
    let location = lifeboat_api::label_value(&backup.spec.storage_location);
    backup.metadata.labels.insert(well_known::LABEL_STORAGE_LOCATION.to_owned(), location);
    for (key, value) in [
        (well_known::ANNOTATION_SOURCE_VERSION, &version.git_version),
        (well_known::ANNOTATION_SOURCE_MAJOR, &version.major),
        (well_known::ANNOTATION_SOURCE_MINOR, &version.minor),
        (well_known::ANNOTATION_RESOURCE_TIMEOUT, &settings.resource_timeout.to_string()),
    ] {
        backup.metadata.annotations.insert(key.to_owned(), value.clone());
    }
    if !settings.global_volume_policies.is_empty() {
        let key = well_known::ANNOTATION_GLOBAL_VOLUME_POLICY.to_owned();
        backup.metadata.annotations.insert(key, settings.global_volume_policies.clone());
    }
    let status = &mut backup.status;
    status.version = 1;
    FORMAT_VERSION.clone_into(&mut status.format_version);
    if status.start_timestamp.is_none() {
        status.expiration = now.checked_add(ttl).ok().map(Time::new);
        status.start_timestamp = Some(Time::new(now));
    }
    status.phase = Some(BackupPhase::InProgress);
    (backup, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_become_visible() {
        let request = Request { backup: Backup::default(), settings: Settings::default() };
        let version = ServerVersion { major: "1".into(), minor: "34".into(), git_version: "v1.34.4".into() };
        let backup = prepare(&request, &version, "2026-11-21T07:33:54.5Z".parse().unwrap()).unwrap();
        assert_eq!(
            serde_json::to_value(&backup).unwrap(),
            serde_json::json!({
                "kind": "Backup", "apiVersion": "velero.io/v1",
                "metadata": {
                    "labels": {"velero.io/storage-location": "default"},
                    "annotations": {
                        "velero.io/resource-timeout": "10m0s",
                        "velero.io/source-cluster-k8s-gitversion": "v1.34.4",
                        "velero.io/source-cluster-k8s-major-version": "1",
                        "velero.io/source-cluster-k8s-minor-version": "34"
                    }
                },
                "spec": {
                    "metadata": {}, "hooks": {}, "includedNamespaces": ["*"], "ttl": "720h0m0s",
                    "volumeGroupSnapshotLabelKey": "velero.io/volume-group", "storageLocation": "default",
                    "defaultVolumesToFsBackup": false, "csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s",
                    "snapshotMoveData": false,
                    "excludedClusterScopedResources": ["volumesnapshotcontents.snapshot.storage.k8s.io"],
                    "excludedNamespaceScopedResources": ["volumesnapshots.snapshot.storage.k8s.io"]
                },
                "status": {
                    "version": 1, "formatVersion": "1.1.0", "expiration": "2026-12-21T07:33:54Z", "phase": "InProgress",
                    "startTimestamp": "2026-11-21T07:33:54Z"
                }
            })
        );
    }
}
