//! Velero's backup item actions of CSI snapshots (velero: pkg/backup/actions/csi).

use crate::inventory::Verdicts;
use crate::method::csi::answer::{failed, text};
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::backup::listed_snapshots::Bound;
use crate::method::csi::backup::members::leave_group;
use crate::method::csi::backup::moves::ClaimToMove;
use crate::method::csi::backup::outcomes::{TakenGroup, TakenSnapshot};
use crate::method::csi::backup::snapshots::CsiSnapshots;
use crate::method::csi::content::{DeletionPolicy, SnapshotContent};
use crate::method::csi::metadata::{annotate, label};
use crate::method::csi::names::BACKUP_ACTIONS;
use crate::method::csi::objects::{SNAPSHOT_API, is_snapshot_of};
use crate::method::csi::secret::named_secret;
use crate::verdict::DriverSnapshot;
use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, OperationProgress,
};
use lifeboat_api::well_known::{
    ANNOTATION_BACKUP_MUST_INCLUDE, ANNOTATION_CSI_DRIVER_NAME, ANNOTATION_DATA_UPLOAD_NAME,
    ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAME, ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAMESPACE,
    ANNOTATION_SNAPSHOTTER_SECRET_NAME, ANNOTATION_SNAPSHOTTER_SECRET_NAMESPACE,
    ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE, ANNOTATION_VOLUME_GROUP_SNAPSHOT_MEMBERS,
    ANNOTATION_VOLUME_SNAPSHOT_HANDLE, ANNOTATION_VOLUME_SNAPSHOT_RESTORE_SIZE, ANNOTATION_VSC_DELETION_POLICY,
    LABEL_BACKUP_NAME, LABEL_BACKUP_UID, LABEL_VOLUME_SNAPSHOT_NAME,
};
use lifeboat_api::{Backup, BackupPhase, NamespacedName, Time, label_value};
use lifeboat_cluster::MergePatch;
use lifeboat_object::{GroupResource, Item, ObjectKey, Quantity};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The actions, in the order in which they are called.
#[must_use]
pub fn actions(snapshots: &CsiSnapshots, verdicts: &Arc<Verdicts>) -> Vec<Arc<dyn BackupItemAction>> {
    vec![
        Arc::new(ClaimAction { snapshots: snapshots.clone(), verdicts: Arc::clone(verdicts) }),
        Arc::new(SnapshotAction { snapshots: snapshots.clone() }),
        Arc::new(SecretAction {
            name: BACKUP_ACTIONS[2],
            resource: "volumesnapshotclasses.snapshot.storage.k8s.io",
            annotations: [ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAME, ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAMESPACE],
        }),
        Arc::new(SecretAction {
            name: BACKUP_ACTIONS[3],
            resource: "volumesnapshotcontents.snapshot.storage.k8s.io",
            annotations: [ANNOTATION_SNAPSHOTTER_SECRET_NAME, ANNOTATION_SNAPSHOTTER_SECRET_NAMESPACE],
        }),
    ]
}

fn finalizes(backup: &Backup) -> bool {
    matches!(backup.status.phase, Some(BackupPhase::Finalizing | BackupPhase::FinalizingPartiallyFailed))
}

/// `velero.io/csi-pvc-backupper`: a claim names the snapshot of its volume, or the DataUpload that moves the data out of it; its
/// backup waits for that. A claim whose snapshot failed is saved all the same, and the failure is reported once, with the volume.
///
/// compat: Velero leaves such a claim out, and the pods that mount it.
struct ClaimAction {
    snapshots: CsiSnapshots,
    verdicts: Arc<Verdicts>,
}

impl ClaimAction {
    fn snapshot(&self, claim: &NamespacedName) -> Option<DriverSnapshot<'_>> {
        self.verdicts.driver_snapshot(self.verdicts.of_claim(claim)?)
    }

    /// Gives the data of a snapshot to a data mover. The objects of the snapshot are not in the backup.
    async fn move_data(&self, item: Value, taken: &TakenSnapshot, data_mover: &str) -> BackupItemOutput {
        let key = key_of(&item);
        let Some(claim) = self.verdicts.claim(&key) else { return BackupItemOutput::unchanged(item) };
        let volume = claim.volume.as_ref().and_then(|name| self.verdicts.volume(name));
        let Some(upload) = self.snapshots.moves().begin(ClaimToMove { claim, volume }, taken, data_mover).await else {
            return BackupItemOutput::unchanged(item);
        };
        let (mut item, upload_key) = (item, upload.key());
        annotate(&mut item, &[(ANNOTATION_DATA_UPLOAD_NAME, format!("{}/{}", upload.namespace, upload.name))]);
        BackupItemOutput {
            operation_id: upload.operation_id,
            post_operation_items: vec![upload_key],
            ..BackupItemOutput::changed(item)
        }
    }
}

fn key_of(claim: &Value) -> NamespacedName {
    NamespacedName::new(text(claim, "/metadata/namespace"), text(claim, "/metadata/name"))
}

#[async_trait]
impl BackupItemAction for ClaimAction {
    fn name(&self) -> &str {
        BACKUP_ACTIONS[0]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["persistentvolumeclaims"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let BackupItemInput { mut item, backup } = input;
        let key = key_of(&item);
        let Some(wanted) = self.snapshot(&key).filter(|_| !finalizes(backup)) else {
            return Ok(BackupItemOutput::unchanged(item));
        };
        let Some(Ok(taken)) = self.snapshots.taken(&key).await else { return Ok(BackupItemOutput::unchanged(item)) };
        if let Some(data_mover) = wanted.data_mover {
            let mut output = self.move_data(item, &taken, data_mover).await;
            if !output.operation_id.is_empty() {
                name_snapshot(&mut output.item, &taken.name, backup);
            }
            return Ok(output);
        }
        name_snapshot(&mut item, &taken.name, backup);
        raise_request(&mut item, &taken.content);
        let snapshots = GroupResource::new(SNAPSHOT_API, "volumesnapshots");
        let additional_items = vec![ObjectKey::new(snapshots, Some(&key.namespace), &taken.name)];
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::changed(item) })
    }

    async fn progress(&self, operation_id: &str, _: &Backup) -> Result<OperationProgress, ActionError> {
        self.snapshots.moves().progress(operation_id).await
    }

    async fn cancel(&self, operation_id: &str, _: &Backup) -> Result<(), ActionError> {
        self.snapshots.moves().cancel(operation_id).await
    }

    fn named_if_unchanged(&self, item: &Item, _: &Backup) -> Option<Vec<ObjectKey>> {
        let (namespace, name) = (item.head.namespace.clone().unwrap_or_default(), item.head.name.clone());
        self.snapshot(&NamespacedName { namespace, name }).is_none().then(Vec::new)
    }
}

/// Names on a claim the snapshot of its volume.
fn name_snapshot(claim: &mut Value, snapshot: &str, backup: &Backup) {
    let labels =
        [(LABEL_VOLUME_SNAPSHOT_NAME, label_value(snapshot)), (LABEL_BACKUP_NAME, label_value(&backup.metadata.name))];
    label(claim, &labels);
    let annotations =
        [(LABEL_VOLUME_SNAPSHOT_NAME, snapshot.to_owned()), (ANNOTATION_BACKUP_MUST_INCLUDE, "true".to_owned())];
    annotate(claim, &annotations);
}

/// A claim that asks for less than a volume from the snapshot needs could not be restored.
fn raise_request(claim: &mut Value, content: &SnapshotContent) {
    let Some(needed) = Quantity::parse(&content.restore_size.to_string()) else { return };
    let Some(requests) = claim.pointer_mut("/spec/resources/requests").and_then(Value::as_object_mut) else { return };
    let asked = requests.get("storage").and_then(Value::as_str).and_then(Quantity::parse);
    if asked.is_some_and(|asked| needed.exceeds(asked)) {
        requests.insert("storage".to_owned(), content.restore_quantity().into());
    }
}

/// `velero.io/csi-volumesnapshot-backupper`: notes on a VolumeSnapshot the snapshot in the storage behind it. A
/// snapshot that the backup has taken is noted in the cluster too, and its backup waits until it is ready.
///
/// compat: Velero treats the snapshots that users have taken like its own: it labels their contents, takes them out of the cluster
/// at the end of the backup, and deletes what lies in the storage with the backup. Here they belong to their users.
struct SnapshotAction {
    snapshots: CsiSnapshots,
}

impl SnapshotAction {
    /// The snapshot behind a VolumeSnapshot; read from the cluster where this process has not taken it. `None` while it
    /// is bound to no content.
    async fn stands_for(&self, snapshot: &Value) -> Result<Option<StandsFor>, ActionError> {
        if let Some(taken) =
            self.snapshots.named(text(snapshot, "/metadata/namespace"), text(snapshot, "/metadata/name"))
        {
            let mut content = taken.content.clone();
            // An attempt before may have noted it, and let the content keep the snapshot then.
            if let Some(noted) = snapshot["metadata"]["annotations"][ANNOTATION_VSC_DELETION_POLICY].as_str() {
                noted.clone_into(&mut content.deletion_policy);
            }
            return Ok(Some(StandsFor { content, group: taken.group.clone() }));
        }
        let name = text(snapshot, "/status/boundVolumeSnapshotContentName");
        if name.is_empty() {
            return Ok(None);
        }
        let content = self.content(name).await?;
        let content = content.ok_or_else(|| ActionError::item(format!("its VolumeSnapshotContent {name} is gone")))?;
        Ok(Some(StandsFor { content, group: None }))
    }

    /// A VolumeSnapshot, as the look at all of the backup has seen it, or read alone when it was not seen. A
    /// VolumeSnapshot that is gone is still bound to the content that keeps its snapshot.
    async fn snapshot(&self, namespace: &str, name: &str) -> Result<Bound, ActionError> {
        let look = self.snapshots.look().await?;
        if let Some(seen) = look.snapshot(namespace, name) {
            return Ok(seen.clone());
        }
        let api = self.snapshots.api();
        let found = api.read(&api.types.snapshots, Some(namespace), name).await.map_err(failed)?;
        match (found, look.kept_of(namespace, name)) {
            (Some(found), _) => Ok(Bound::of(&found)),
            (None, Some(content)) => Ok(Bound { content: content.to_owned(), error: String::new() }),
            (None, None) => Err(ActionError::item(format!("the VolumeSnapshot {namespace}/{name} is gone"))),
        }
    }

    /// The same of a content.
    async fn content_named(&self, name: &str) -> Result<SnapshotContent, ActionError> {
        if let Some(seen) = self.snapshots.look().await?.content(name) {
            return Ok(seen.clone());
        }
        let content = self.content(name).await?;
        content.ok_or_else(|| ActionError::item(format!("the VolumeSnapshotContent {name} is gone")))
    }

    async fn content(&self, name: &str) -> Result<Option<SnapshotContent>, ActionError> {
        let api = self.snapshots.api();
        let found = api.read(&api.types.contents, None, name).await.map_err(failed)?;
        Ok(found.as_ref().map(SnapshotContent::of))
    }

    /// Saves a snapshot that the backup has taken, and begins to wait until it is ready.
    async fn save_own(
        &self,
        mut item: Value,
        of: &StandsFor,
        backup: &Backup,
    ) -> Result<BackupItemOutput, ActionError> {
        leave_group(&mut item);
        let (namespace, name) = (text(&item, "/metadata/namespace"), text(&item, "/metadata/name"));
        let [snapshot, of_content] =
            [key("volumesnapshots", Some(namespace), name), key("volumesnapshotcontents", None, &of.content.name)];
        self.note_in_cluster(&snapshot, &of.notes(), &of_content, backup).await?;
        if let Some(group) = &of.group {
            self.snapshots.keep_group(namespace, group).await;
        }
        let operation_id = format!("{namespace}/{name}/{}", Time::new(self.snapshots.now()));
        self.snapshots.note_operation(namespace, name, &operation_id);
        let post_operation_items = vec![snapshot, of_content];
        Ok(BackupItemOutput { operation_id, post_operation_items, ..with_content(item, of) })
    }

    /// Notes on a VolumeSnapshot in the cluster the snapshot behind it, and lets its content keep that: from now on
    /// nothing is lost when somebody deletes the VolumeSnapshot, or its namespace.
    async fn note_in_cluster(
        &self,
        snapshot: &ObjectKey,
        annotations: &[(&str, String)],
        content: &ObjectKey,
        backup: &Backup,
    ) -> Result<(), ActionError> {
        let SnapshotApi { cluster, types } = self.snapshots.api();
        let annotations: Map<String, Value> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect();
        let patch = MergePatch::of(json!({"metadata": {"annotations": annotations}}).to_string().into());
        let namespace = snapshot.namespace.as_deref();
        cluster.patch(&types.snapshots, namespace, &snapshot.name, patch).await.map_err(failed)?;
        let labels =
            json!({LABEL_BACKUP_NAME: label_value(&backup.metadata.name), LABEL_BACKUP_UID: backup.metadata.uid});
        let kept = json!({"metadata": {"labels": labels}, "spec": {"deletionPolicy": DeletionPolicy::Retain.as_str()}});
        let patch = MergePatch::of(kept.to_string().into());
        // compat: an error of this is none of the snapshot; Velero finds the content by its name too.
        if let Err(e) = cluster.patch(&types.contents, None, &content.name, patch).await {
            self.snapshots.tell_unkept(content, &e);
        }
        Ok(())
    }
}

fn key(resource: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new(SNAPSHOT_API, resource), namespace, name)
}

/// A VolumeSnapshot with notes on the snapshot behind it, and with its class and its content beside it.
fn with_content(mut item: Value, of: &StandsFor) -> BackupItemOutput {
    let class = text(&item, "/spec/volumeSnapshotClassName");
    let class = (!class.is_empty()).then(|| key("volumesnapshotclasses", None, class));
    let additional_items = class.into_iter().chain([key("volumesnapshotcontents", None, &of.content.name)]).collect();
    annotate(&mut item, &of.notes());
    annotate(&mut item, &[(ANNOTATION_BACKUP_MUST_INCLUDE, "true".to_owned())]);
    BackupItemOutput { additional_items, ..BackupItemOutput::changed(item) }
}

/// The snapshot in the storage behind a VolumeSnapshot.
struct StandsFor {
    content: SnapshotContent,
    /// The group that it was taken with by this backup.
    group: Option<Arc<TakenGroup>>,
}

impl StandsFor {
    /// The annotations that note it on the VolumeSnapshot.
    fn notes(&self) -> Vec<(&'static str, String)> {
        let Self { content, group } = self;
        let mut notes = vec![(ANNOTATION_VSC_DELETION_POLICY, content.deletion_policy.clone())];
        if !content.handle.is_empty() {
            notes.push((ANNOTATION_VOLUME_SNAPSHOT_HANDLE, content.handle.clone()));
            notes.push((ANNOTATION_CSI_DRIVER_NAME, content.driver.clone()));
        }
        if content.restore_size > 0 {
            notes.push((ANNOTATION_VOLUME_SNAPSHOT_RESTORE_SIZE, content.restore_quantity()));
        }
        if !content.group_handle.is_empty() {
            notes.push((ANNOTATION_VOLUME_GROUP_SNAPSHOT_HANDLE, content.group_handle.clone()));
        }
        if let Some(group) = group {
            notes.push((ANNOTATION_VOLUME_GROUP_SNAPSHOT_MEMBERS, json!(group.snapshots).to_string()));
        }
        notes
    }
}

#[async_trait]
impl BackupItemAction for SnapshotAction {
    fn name(&self) -> &str {
        BACKUP_ACTIONS[1]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["volumesnapshots.snapshot.storage.k8s.io"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let BackupItemInput { mut item, backup } = input;
        if finalizes(backup) {
            let is_changed = is_snapshot_of(backup, &item) && leave_group(&mut item);
            return Ok(if is_changed { BackupItemOutput::changed(item) } else { BackupItemOutput::unchanged(item) });
        }
        let of = self.stands_for(&item).await?;
        match (is_snapshot_of(backup, &item), of) {
            (true, Some(of)) => self.save_own(item, &of, backup).await,
            (true, None) => {
                Err(ActionError::item("it is not bound to a VolumeSnapshotContent: its driver has not taken it"))
            }
            (false, Some(of)) => Ok(with_content(item, &of)),
            // It holds nothing yet.
            (false, None) => Ok(BackupItemOutput::unchanged(item)),
        }
    }

    async fn progress(&self, operation_id: &str, _: &Backup) -> Result<OperationProgress, ActionError> {
        let mut parts = operation_id.splitn(3, '/');
        let (Some(namespace), Some(name), Some(started)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ActionError::item(format!("{operation_id} is no operation of a snapshot")));
        };
        let snapshot = self.snapshot(namespace, name).await?;
        let now = self.snapshots.now();
        // compat: an error of its driver does not end it: drivers try again, and its backup waits as long as operations may take.
        let progress = |completed: bool, error: &str| OperationProgress {
            completed,
            description: if completed { String::new() } else { error.to_owned() },
            started: started.parse().ok(),
            updated: Some(now),
            ..OperationProgress::default()
        };
        if snapshot.content.is_empty() {
            return Ok(progress(false, &snapshot.error));
        }
        let content = self.content_named(&snapshot.content).await?;
        let error = if snapshot.error.is_empty() { &content.error } else { &snapshot.error };
        Ok(progress(content.is_ready == Some(true), error))
    }
}

/// Names the Secret that an object's annotations name.
struct SecretAction {
    name: &'static str,
    resource: &'static str,
    /// The annotation with its name, and the annotation with its namespace.
    annotations: [&'static str; 2],
}

#[async_trait]
impl BackupItemAction for SecretAction {
    fn name(&self) -> &str {
        self.name
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&[self.resource])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let BackupItemInput { mut item, backup } = input;
        match named_secret(&item, self.annotations).filter(|_| !finalizes(backup)) {
            None => Ok(BackupItemOutput::unchanged(item)),
            Some(secret) => {
                annotate(&mut item, &[(ANNOTATION_BACKUP_MUST_INCLUDE, "true".to_owned())]);
                Ok(BackupItemOutput { additional_items: vec![secret], ..BackupItemOutput::changed(item) })
            }
        }
    }
}

#[cfg(test)]
mod tests;
