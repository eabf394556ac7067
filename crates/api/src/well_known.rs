//! Labels, annotations and finalizers with a meaning (velero: pkg/apis/velero/v1/labels_annotations.go).

// Labels.

/// On restored objects and others: the backup, shortened by [`crate::label_value`].
pub const LABEL_BACKUP_NAME: &str = "velero.io/backup-name";
/// UID of the backup.
pub const LABEL_BACKUP_UID: &str = "velero.io/backup-uid";
/// On restored objects: the restore, shortened by [`crate::label_value`].
pub const LABEL_RESTORE_NAME: &str = "velero.io/restore-name";
/// UID of the restore.
pub const LABEL_RESTORE_UID: &str = "velero.io/restore-uid";
/// On backups: the schedule that made it.
pub const LABEL_SCHEDULE_NAME: &str = "velero.io/schedule-name";
/// On backups and repositories: the storage location, shortened by [`crate::label_value`].
pub const LABEL_STORAGE_LOCATION: &str = "velero.io/storage-location";
/// On repositories: the namespace whose volumes they hold, shortened by [`crate::label_value`].
pub const LABEL_VOLUME_NAMESPACE: &str = "velero.io/volume-namespace";
/// On repositories: their format.
pub const LABEL_REPOSITORY_TYPE: &str = "velero.io/repository-type";
/// On volume restores: UID of the pod.
pub const LABEL_POD_UID: &str = "velero.io/pod-uid";
/// On volume backups, volume restores and uploads: UID of the claim.
pub const LABEL_PVC_UID: &str = "velero.io/pvc-uid";
/// On data mover pods: the upload.
pub const LABEL_DATA_UPLOAD: &str = "velero.io/data-upload";
/// On data mover pods: the download.
pub const LABEL_DATA_DOWNLOAD: &str = "velero.io/data-download";
/// On data mover pods: the volume backup.
pub const LABEL_POD_VOLUME_BACKUP: &str = "velero.io/pod-volume-backup";
/// On data mover pods: the volume restore.
pub const LABEL_POD_VOLUME_RESTORE: &str = "velero.io/pod-volume-restore";
/// `true` on a ConfigMap that holds the id of a moved snapshot.
pub const LABEL_DATA_UPLOAD_SNAPSHOT_INFO: &str = "velero.io/data-upload-snapshot-info";
/// On uploads and downloads: the asynchronous operation they carry out.
pub const LABEL_ASYNC_OPERATION_ID: &str = "velero.io/async-operation-id";
/// On the result of an upload: the claim, written `namespace.name`.
pub const LABEL_PVC_NAMESPACE_NAME: &str = "velero.io/pvc-namespace-name";
/// On the result of an upload: `DataUpload`.
pub const LABEL_RESOURCE_USAGE: &str = "velero.io/resource-usage";
/// `true` on any object keeps it out of backups; on a namespace, all in it.
pub const LABEL_EXCLUDE_FROM_BACKUP: &str = "velero.io/exclude-from-backup";
/// Default key that groups claims for a group snapshot.
pub const LABEL_VOLUME_GROUP: &str = "velero.io/volume-group";
/// In the selector of a restored claim: the volume that is made for it.
pub const LABEL_DYNAMIC_PV_RESTORE: &str = "velero.io/dynamic-pv-restore";
/// Name of the VolumeSnapshot; used as annotation too.
pub const LABEL_VOLUME_SNAPSHOT_NAME: &str = "velero.io/volume-snapshot-name";
/// On a VolumeSnapshotClass: the one to take for its driver.
pub const LABEL_VOLUME_SNAPSHOT_CLASS: &str = "velero.io/csi-volumesnapshot-class";
/// `true` on a VolumeGroupSnapshotClass: the one to take for its driver.
pub const LABEL_VOLUME_GROUP_SNAPSHOT_CLASS: &str = "velero.io/csi-volumegroupsnapshot-class";
/// `true` on volume backups, volume restores, uploads and downloads while they are prepared.
pub const LABEL_EXPOSE_ON_GOING: &str = "velero.io/expose-on-going";
/// On data mover pods: `snapshot-exposer` or `generic-restore-exposer`.
pub const LABEL_EXPOSER_POD_GROUP: &str = "velero.io/exposer-pod-group";
/// On Secrets and ConfigMaps copied for a data mover: UID of the upload or download.
pub const LABEL_BACKUP_PVC_SECRET: &str = "velero.io/backup-pvc-secret";
/// On maintenance jobs and their pods: the repository.
pub const LABEL_REPO_NAME: &str = "velero.io/repo-name";
/// On backups: why an expired one is still there.
pub const LABEL_GC_FAILURE: &str = "velero.io/gc-failure";
/// On a ConfigMap: it configures a plugin, which a second label names.
pub const LABEL_PLUGIN_CONFIG: &str = "velero.io/plugin-config";
/// `velero` on everything an installation consists of.
pub const LABEL_COMPONENT: &str = "component";
/// `velero` on the pods of the server.
pub const LABEL_DEPLOY: &str = "deploy";
/// `node-agent` or `node-agent-windows` on the pods of the node agent.
pub const LABEL_NAME: &str = "name";
/// `node-agent` on the pods of the node agent; they are found by it.
pub const LABEL_ROLE: &str = "role";
/// The DaemonSet of the node agent on Linux nodes, and the value of [`LABEL_ROLE`] on the pods of all node agents.
pub const NODE_AGENT: &str = "node-agent";
/// The DaemonSet of the node agent on Windows nodes.
pub const NODE_AGENT_WINDOWS: &str = "node-agent-windows";
/// Handed on from the server's pod to the pods it starts.
pub const LABEL_AZURE_WORKLOAD_IDENTITY: &str = "azure.workload.identity/use";
/// The Argo CD instance that manages the namespace.
pub const LABEL_ARGOCD_MANAGED_BY: &str = "argocd.argoproj.io/managed-by";

// Annotations.

/// On backups of the command line: they went by resource policies of a file, which no ConfigMap holds; an addition of Lifeboat.
pub const ANNOTATION_RESOURCE_POLICIES: &str = "lifeboat.io/resource-policies";
/// On backups: until when they are held, a time of RFC 3339, or [`HOLD_FOREVER`]; an addition of Lifeboat.
pub const ANNOTATION_HOLD: &str = "lifeboat.io/hold-until";
/// On backups: the hold that their record in the bucket was seen to have or given last; an addition of Lifeboat.
pub const ANNOTATION_HOLD_RECORDED: &str = "lifeboat.io/hold-recorded";
/// A value of [`ANNOTATION_HOLD`]: until it is released.
pub const HOLD_FOREVER: &str = "forever";
/// A value of [`ANNOTATION_HOLD`] in the record of a backup: it is held no more.
pub const HOLD_RELEASED: &str = "released";
/// On backups that were made from what a bucket holds: which cluster has made them, [`TAKEN_OVER_OWN`] or [`TAKEN_OVER_OTHER`]; an
/// addition of Lifeboat.
pub const ANNOTATION_TAKEN_OVER: &str = "lifeboat.io/taken-over";
/// A value of [`ANNOTATION_TAKEN_OVER`]: the claim in the bucket is of this cluster.
pub const TAKEN_OVER_OWN: &str = "this-cluster";
/// A value of [`ANNOTATION_TAKEN_OVER`]: the claim is of another cluster, or nothing says of which.
pub const TAKEN_OVER_OTHER: &str = "another-cluster";
/// On backups that were made from what a bucket holds: the UID of the cluster that has made them, as their claim says; missing where
/// nothing says it, as for those of Velero. On those that a server makes: its own cluster. On restores from a schedule: the UID of the
/// cluster whose backups count, or `any`; without it, this one's alone. An addition of Lifeboat.
pub const ANNOTATION_SOURCE_CLUSTER: &str = "lifeboat.io/source-cluster";
/// On backups, and in their record: the rules of the schedule that keep them, as JSON ([`KeptBy`](crate::KeptBy)); an addition of
/// Lifeboat.
pub const ANNOTATION_KEPT_BY: &str = "lifeboat.io/kept-by";
/// On backups, and in their record: the number of namespaced objects that they hold; an addition of Lifeboat.
pub const ANNOTATION_NAMESPACED_ITEMS: &str = "lifeboat.io/namespaced-items";
/// On schedules: the percentage of the objects of the backup before, below which a backup is not good for their
/// retention; an addition of Lifeboat.
pub const ANNOTATION_SHRINK_THRESHOLD: &str = "lifeboat.io/shrink-threshold";
/// On storage locations: the time since which a server has seen that they can be written, with the UID of the location
/// and the place that this holds for; an addition of Lifeboat.
pub const ANNOTATION_WRITABLE_SINCE: &str = "lifeboat.io/writable-since";
/// On storage locations: the backups in its bucket that have no Backup here, as JSON (`waiting`, `sameName`, `damaged`); an addition of
/// Lifeboat.
pub const ANNOTATION_PASSED_OVER: &str = "lifeboat.io/passed-over";
/// `true` on a ServerStatusRequest: asks what the next backups of schedules would do with volumes; an addition of Lifeboat.
pub const ANNOTATION_EXPLAIN_VOLUMES: &str = "lifeboat.io/explain-volumes";
/// On a ServerStatusRequest: the answer to that, as JSON; an addition of Lifeboat.
pub const ANNOTATION_NEXT_BACKUPS: &str = "lifeboat.io/next-backups";
/// `true` on storage locations: backups that another cluster has made go from there too when their time is over; an addition of
/// Lifeboat.
pub const ANNOTATION_EXPIRE_OTHERS: &str = "lifeboat.io/expire-backups-of-other-clusters";
/// Lets the policy `update` put an older definition of a type over a newer one, on a restore, when it is `true`.
pub const ANNOTATION_UPDATE_DEFINITIONS: &str = "lifeboat.io/update-definitions";
/// Lets the policy `update` write the labels of the restore also to objects that are as in the backup, on a restore, when it is `true`.
pub const ANNOTATION_RELABEL: &str = "lifeboat.io/relabel";
/// `true` on restores: PersistentVolumes that their claims have released are bound to these again; an addition of Lifeboat.
pub const ANNOTATION_REBIND_RELEASED: &str = "lifeboat.io/rebind-released";
/// `true` on restores: PersistentVolumes of another cluster are made again on the storage that it may use; an addition of Lifeboat.
pub const ANNOTATION_REUSE_VOLUMES: &str = "lifeboat.io/reuse-volumes";
/// `true` on restores: claims whose data cannot be brought back are made empty; an addition of Lifeboat.
pub const ANNOTATION_ALLOW_EMPTY_VOLUMES: &str = "lifeboat.io/allow-empty-volumes";
/// On DataDownloads: the UID of the claim in the cluster that is to have the data. An addition of Lifeboat.
pub const ANNOTATION_TARGET_CLAIM_UID: &str = "lifeboat.io/target-claim-uid";
/// `true` on claims that a restore has made and whose files have not come yet. A later restore may fill them. An addition of Lifeboat.
pub const ANNOTATION_AWAITS_FILES: &str = "lifeboat.io/awaits-files";
/// On the pods and Secrets of movers that a restore without a server has started: the name of the restore. An addition of Lifeboat.
pub const LABEL_MOVER_OF_RESTORE: &str = "lifeboat.io/mover-of-restore";
/// On the pods and Secrets of such movers: the time after which their restore has given them up, whatever became of it. An addition of
/// Lifeboat.
pub const ANNOTATION_MOVER_DEADLINE: &str = "lifeboat.io/mover-deadline";
/// On the reader pods of backups, through which the files of claims are read that no running pod mounts: the name of the backup. An
/// addition of Lifeboat.
pub const LABEL_READER_OF_BACKUP: &str = "lifeboat.io/reader-of-backup";
/// `true` on PodVolumeBackups whose pod is not in the backup, such as a reader pod: a restore fills the claim without a pod. An addition
/// of Lifeboat.
pub const ANNOTATION_BY_READER_POD: &str = "lifeboat.io/by-reader-pod";
/// `true` on restores: files of repositories are also written into claims that were in the cluster before; an addition of Lifeboat.
pub const ANNOTATION_OVERWRITE_VOLUMES: &str = "lifeboat.io/overwrite-volumes";
/// On repositories: a digest of the place that their location named when they were found ready there. An addition of Lifeboat.
pub const ANNOTATION_REPOSITORY_PLACE: &str = "lifeboat.io/repository-place";
/// On repositories: the reports of the last quick and the last full maintenance; an addition of Lifeboat.
pub const ANNOTATION_LAST_MAINTENANCE: &str = "lifeboat.io/last-maintenance";
/// On storage locations that are directories: which bucket the directory is, as the marker in it says. One without the marker, or with
/// another, is not used. An addition of Lifeboat.
pub const ANNOTATION_BUCKET_ID: &str = "lifeboat.io/bucket-id";
/// `true` on requests to delete a backup: the deletion waits for restores that read it, and for claims that were restored from its snapshots and
/// have no volume yet, instead of being refused. An addition of Lifeboat.
pub const ANNOTATION_WAIT_FOR_RESTORES: &str = "lifeboat.io/wait-for-restores";
/// `true` on requests to delete a backup that expiry has made: one that has not begun is withdrawn when something keeps the backup, or its time
/// is not over any more. An addition of Lifeboat.
pub const ANNOTATION_BY_EXPIRY: &str = "lifeboat.io/by-expiry";
/// On requests to delete a backup that wait: the claims that were restored from its snapshots and have no volume yet, for people. An addition
/// of Lifeboat.
pub const ANNOTATION_WAITS_FOR_CLAIMS: &str = "lifeboat.io/waits-for-claims";
/// On requests to delete a backup that wait: the restore of another cluster or namespace, or of a command, that reads the backup, for people. An
/// addition of Lifeboat.
pub const ANNOTATION_WAITS_FOR_RESTORE: &str = "lifeboat.io/waits-for-restore";
/// On schedules: their retention as JSON, where their definition has no such field; an addition of Lifeboat.
pub const ANNOTATION_RETENTION: &str = "lifeboat.io/retention";
/// Version of the cluster a backup was made of, such as `v1.34.4`.
pub const ANNOTATION_SOURCE_VERSION: &str = "velero.io/source-cluster-k8s-gitversion";
/// Its major version.
pub const ANNOTATION_SOURCE_MAJOR: &str = "velero.io/source-cluster-k8s-major-version";
/// Its minor version.
pub const ANNOTATION_SOURCE_MINOR: &str = "velero.io/source-cluster-k8s-minor-version";
/// The resource timeout a backup ran with.
pub const ANNOTATION_RESOURCE_TIMEOUT: &str = "velero.io/resource-timeout";
/// On backups: the ConfigMap of the server whose volume policies took part.
pub const ANNOTATION_GLOBAL_VOLUME_POLICY: &str = "velero.io/global-backup-volume-policy-configmap";
/// On backups and restores: how long volume backups and restores may take.
pub const ANNOTATION_POD_VOLUME_TIMEOUT: &str = "velero.io/pod-volume-timeout";
/// On pods: volumes to save through the file system, separated by commas.
pub const ANNOTATION_BACKUP_VOLUMES: &str = "backup.velero.io/backup-volumes";
/// On pods: volumes not to save through the file system, separated by commas.
pub const ANNOTATION_BACKUP_VOLUMES_EXCLUDES: &str = "backup.velero.io/backup-volumes-excludes";
/// Set by a backup action on the object it returns: leave it out.
pub const ANNOTATION_SKIP_FROM_BACKUP: &str = "velero.io/skip-from-backup";
/// Set by a backup action on the object it returns: its additional objects are saved whatever the filters say.
pub const ANNOTATION_BACKUP_MUST_INCLUDE: &str = "backup.velero.io/must-include-additional-items";
/// `true`, set by a restore action: its additional objects are restored whatever the filters say.
pub const ANNOTATION_RESTORE_MUST_INCLUDE: &str = "restore.velero.io/must-include-additional-items";
/// On claims, between backup actions: the volume is not one of CSI.
pub const ANNOTATION_SKIPPED_NO_CSI_PV: &str = "backup.velero.io/skipped-no-csi-pv";
/// On volume backups: the claim.
pub const ANNOTATION_PVC_NAME: &str = "velero.io/pvc-name";
/// On pods of old backups, followed by the name of a volume: its restic snapshot.
pub const ANNOTATION_SNAPSHOT_PREFIX: &str = "snapshot.velero.io/";
/// On VolumeSnapshots in a backup: the snapshot in the storage system.
pub const ANNOTATION_VOLUME_SNAPSHOT_HANDLE: &str = "velero.io/csi-volumesnapshot-handle";
/// On VolumeSnapshots in a backup: how large a volume made of it must be.
pub const ANNOTATION_VOLUME_SNAPSHOT_RESTORE_SIZE: &str = "velero.io/csi-volumesnapshot-restore-size";
/// On VolumeSnapshots in a backup: the CSI driver.
pub const ANNOTATION_CSI_DRIVER_NAME: &str = "velero.io/csi-driver-name";
/// On VolumeSnapshots in a backup: deletion policy of the content.
pub const ANNOTATION_VSC_DELETION_POLICY: &str = "velero.io/csi-vsc-deletion-policy";
/// On VolumeSnapshots in a backup: the group snapshot in the storage system.
pub const ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE: &str = "velero.io/csi-volumegroupsnapshot-handle";
/// On VolumeSnapshots in a backup: the snapshots in the storage system of all volumes of its group, as a JSON list; an addition of
/// Lifeboat.
pub const ANNOTATION_VOLUME_GROUP_SNAPSHOT_MEMBERS: &str = "lifeboat.io/volume-group-snapshot-members";
/// On claims: the VolumeSnapshotClass to take.
pub const ANNOTATION_VOLUME_SNAPSHOT_CLASS: &str = "velero.io/csi-volumesnapshot-class";
/// On backups, followed by a CSI driver in lower case: the VolumeSnapshotClass to take.
pub const ANNOTATION_VOLUME_SNAPSHOT_CLASS_PREFIX: &str = "velero.io/csi-volumesnapshot-class_";
/// On claims: the VolumeGroupSnapshotClass to take.
pub const ANNOTATION_VOLUME_GROUP_SNAPSHOT_CLASS: &str = "velero.io/csi-volume-group-snapshot-class";
/// On backups, followed by a CSI driver: the VolumeGroupSnapshotClass to take.
pub const ANNOTATION_VOLUME_GROUP_SNAPSHOT_CLASS_PREFIX: &str = "velero.io/csi-volumegroupsnapshot-class_";
/// `true` on the VolumeSnapshotClass to take when nothing else decides.
pub const ANNOTATION_DEFAULT_VOLUME_SNAPSHOT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// On a VolumeSnapshotClass: a Secret that belongs to it.
pub const ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-list-secret-name";
/// Namespace of that Secret.
pub const ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-list-secret-namespace";
/// On a VolumeSnapshotContent: a Secret that belongs to it.
pub const ANNOTATION_SNAPSHOTTER_SECRET_NAME: &str = "csi.storage.k8s.io/snapshotter-secret-name";
/// Namespace of that Secret.
pub const ANNOTATION_SNAPSHOTTER_SECRET_NAMESPACE: &str = "csi.storage.k8s.io/snapshotter-secret-namespace";
/// On backups and restores that a server works on: the number of times that its work was begun. It is what counts;
/// `status.attempt` shows it where the definition has that field, which Velero's have not. An addition of Lifeboat.
pub const ANNOTATION_ATTEMPT: &str = "lifeboat.io/attempt";
/// On pending backups and restores: the time since which the server cannot reach what it needs. It is taken off when that
/// is reached. An addition of Lifeboat.
pub const ANNOTATION_UNREACHABLE: &str = "lifeboat.io/unreachable-since";
/// On transfers of volumes: the movers that were killed on their way and started again, as JSON; an addition of Lifeboat.
pub const ANNOTATION_KILLED_MOVERS: &str = "lifeboat.io/killed-movers";
/// On downloads: the volume that is brought to its claim, as JSON; an addition of Lifeboat.
pub const ANNOTATION_DELIVERY: &str = "lifeboat.io/delivery";
/// On copies of snapshots that are moved: the snapshot that they are copies of, as JSON; an addition of Lifeboat.
pub const ANNOTATION_MOVED_SNAPSHOT: &str = "lifeboat.io/moved-snapshot";
/// On resources of movers: when bytes or files were last moved; an addition of Lifeboat.
pub const ANNOTATION_MOVED_AT: &str = "lifeboat.io/moved-at";
/// On resources of movers: the files that are done and the files in all, as `3/9`; an addition of Lifeboat.
pub const ANNOTATION_MOVED_FILES: &str = "lifeboat.io/moved-files";
/// On resources of movers that wait: when those that they wait for last moved bytes or files; an addition of Lifeboat.
pub const ANNOTATION_OTHERS_MOVED_AT: &str = "lifeboat.io/others-moved-at";
/// On copies of Secrets and ConfigMaps for data movers: the beginning of the annotations of the transfers that use one. The UID of the transfer
/// follows, and the value is its kind and name; an addition of Lifeboat.
pub const ANNOTATION_PREFIX_COPIED_FOR: &str = "copied-for.lifeboat.io/";
/// On copies of snapshots that are moved: the volume that was made of them; an addition of Lifeboat.
pub const ANNOTATION_MADE_VOLUME: &str = "lifeboat.io/made-volume";
/// On claims in a backup: the upload, written `namespace/name`.
pub const ANNOTATION_DATA_UPLOAD_NAME: &str = "velero.io/data-upload-name";
/// On an object in a backup: `true` or `false` decides for it whether its status is restored.
pub const ANNOTATION_RESTORE_STATUS: &str = "velero.io/restore-status";
/// On a volume that was renamed by a restore: its name in the backup.
pub const ANNOTATION_ORIGINAL_PV_NAME: &str = "velero.io/original-pv-name";
/// Handed on from the server's pod to the pods it starts.
pub const ANNOTATION_IAM_ROLE: &str = "iam.amazonaws.com/role";

// Annotations of pods that say which hooks to run.

/// On pods, for the command to run before the pod is saved: its container; `pre.` goes first.
pub const ANNOTATION_BACKUP_HOOK_CONTAINER: &str = "hook.backup.velero.io/container";
/// On pods, for the command to run before the pod is saved: the command; `pre.` goes first.
pub const ANNOTATION_BACKUP_HOOK_COMMAND: &str = "hook.backup.velero.io/command";
/// On pods, for the command to run before the pod is saved: `Continue` or `Fail` when it fails; `pre.` goes first.
pub const ANNOTATION_BACKUP_HOOK_ON_ERROR: &str = "hook.backup.velero.io/on-error";
/// On pods, for the command to run before the pod is saved: how long it may take; `pre.` goes first.
pub const ANNOTATION_BACKUP_HOOK_TIMEOUT: &str = "hook.backup.velero.io/timeout";
/// On pods, for the command to run before the pod is saved: its container.
pub const ANNOTATION_BACKUP_PRE_HOOK_CONTAINER: &str = "pre.hook.backup.velero.io/container";
/// On pods, for the command to run before the pod is saved: the command.
pub const ANNOTATION_BACKUP_PRE_HOOK_COMMAND: &str = "pre.hook.backup.velero.io/command";
/// On pods, for the command to run before the pod is saved: `Continue` or `Fail` when it fails.
pub const ANNOTATION_BACKUP_PRE_HOOK_ON_ERROR: &str = "pre.hook.backup.velero.io/on-error";
/// On pods, for the command to run before the pod is saved: how long it may take.
pub const ANNOTATION_BACKUP_PRE_HOOK_TIMEOUT: &str = "pre.hook.backup.velero.io/timeout";
/// On pods, for the command to run after the pod was saved: its container.
pub const ANNOTATION_BACKUP_POST_HOOK_CONTAINER: &str = "post.hook.backup.velero.io/container";
/// On pods, for the command to run after the pod was saved: the command.
pub const ANNOTATION_BACKUP_POST_HOOK_COMMAND: &str = "post.hook.backup.velero.io/command";
/// On pods, for the command to run after the pod was saved: `Continue` or `Fail` when it fails.
pub const ANNOTATION_BACKUP_POST_HOOK_ON_ERROR: &str = "post.hook.backup.velero.io/on-error";
/// On pods, for the command to run after the pod was saved: how long it may take.
pub const ANNOTATION_BACKUP_POST_HOOK_TIMEOUT: &str = "post.hook.backup.velero.io/timeout";
/// On pods, after their restore: container of the command to run.
pub const ANNOTATION_RESTORE_HOOK_CONTAINER: &str = "post.hook.restore.velero.io/container";
/// On pods, after their restore: command to run.
pub const ANNOTATION_RESTORE_HOOK_COMMAND: &str = "post.hook.restore.velero.io/command";
/// On pods, after their restore: `Continue` or `Fail` when the command fails.
pub const ANNOTATION_RESTORE_HOOK_ON_ERROR: &str = "post.hook.restore.velero.io/on-error";
/// On pods, after their restore: how long the command may take.
pub const ANNOTATION_RESTORE_HOOK_EXEC_TIMEOUT: &str = "post.hook.restore.velero.io/exec-timeout";
/// On pods, after their restore: how long to wait for the container.
pub const ANNOTATION_RESTORE_HOOK_WAIT_TIMEOUT: &str = "post.hook.restore.velero.io/wait-timeout";
/// On pods, after their restore: whether to wait until the container is ready.
pub const ANNOTATION_RESTORE_HOOK_WAIT_FOR_READY: &str = "post.hook.restore.velero.io/wait-for-ready";
/// On pods, for the init container their restore adds: image.
pub const ANNOTATION_INIT_HOOK_CONTAINER_IMAGE: &str = "init.hook.restore.velero.io/container-image";
/// On pods, for the init container their restore adds: name.
pub const ANNOTATION_INIT_HOOK_CONTAINER_NAME: &str = "init.hook.restore.velero.io/container-name";
/// On pods, for the init container their restore adds: command.
pub const ANNOTATION_INIT_HOOK_COMMAND: &str = "init.hook.restore.velero.io/command";
/// On pods, for the init container their restore adds: how long to wait for it.
pub const ANNOTATION_INIT_HOOK_TIMEOUT: &str = "init.hook.restore.velero.io/timeout";

// Finalizers.

/// On restores: their files in the object store go first.
pub const FINALIZER_RESTORE: &str = "restores.velero.io/external-resources-finalizer";
/// On uploads and downloads: the objects that were prepared for them go first.
pub const FINALIZER_DATA_PATH: &str = "velero.io/data-upload-download-finalizer";
/// On volume backups and restores: the objects that were prepared for them go first.
pub const FINALIZER_POD_VOLUME: &str = "velero.io/pod-volume-finalizer";
/// On VolumeSnapshotContents of other versions: removed, never added.
pub const FINALIZER_VSC_PROTECT: &str = "velero.io/volume-snapshot-content-protect-finalizer";
/// A header of every answer: it shows that the server answered, and not another program that listens at this address of
/// another machine.
pub const HEADER_DOWNLOAD: &str = "lifeboat-download";
/// Where plans are asked for.
pub const PLAN_PATH: &str = "/v1/plans/restore";
/// Put on a request by a client that does not reach the bucket: the URL shall be one of the server.
pub const ANNOTATION_THROUGH_SERVER: &str = "lifeboat.io/through-server";

// Objects of an installation.

/// The Secret with the password of all repositories, and its key.
pub const SECRET_REPOSITORY: &str = "velero-repo-credentials";
/// The key of the password in [`SECRET_REPOSITORY`].
pub const KEY_REPOSITORY_PASSWORD: &str = "repository-password";

/// The init container of a restored pod that waits for the files of the pod's volumes.
pub const RESTORE_WAIT: &str = "restore-wait";
/// Its name in pods that were restored by Velero up to 1.9.
pub const RESTIC_WAIT: &str = "restic-wait";
/// The folder of the node agent's container in which it sees the directories of its node's pods.
pub const HOST_PODS: &str = "/host_pods";
/// The folder of a container for what memory cannot hold.
pub const SCRATCH_FOLDER: &str = "/scratch";
/// The environment variable that names [`SCRATCH_FOLDER`] to the program.
pub const VARIABLE_SCRATCH: &str = "VELERO_SCRATCH_DIR";
/// The environment variable that tells a mover the number of its attempt; an addition of Lifeboat.
pub const VARIABLE_MOVER_ATTEMPT: &str = "LIFEBOAT_MOVER_ATTEMPT";

// Values of fields.

/// In `spec.provider` of a storage location: its buckets are folders of a volume. An addition of ours.
pub const PROVIDER_DIRECTORY: &str = "lifeboat.io/directory";
