//! Velero's restore item actions of CSI snapshots (velero: pkg/restore/actions/csi): claims are made from the snapshots
//! that their backup keeps in the storage.

use crate::class::SnapshotClass;
use crate::method::csi::answer::{failed, text};
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::error::CsiError;
use crate::method::csi::metadata::annotate;
use crate::method::csi::names::{RESTORE_ACTIONS, restored_name};
use crate::method::csi::objects::{GROUP_SNAPSHOT_API, SNAPSHOT_API, SnapshotTypes};
use crate::method::csi::reference::Reference;
use crate::method::csi::restore::annotated::is_named_by_annotations;
use crate::method::csi::secret::named_secret;
use crate::method::data_movement::restore::{self as data_movement, await_volume};
use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, OperationProgress, RestoreItemAction, RestoreItemInput, RestoreItemOutput,
};
use lifeboat_api::well_known::{
    ANNOTATION_DATA_UPLOAD_NAME, ANNOTATION_RESTORE_MUST_INCLUDE, ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAME,
    ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAMESPACE, ANNOTATION_SNAPSHOTTER_SECRET_NAME,
    ANNOTATION_SNAPSHOTTER_SECRET_NAMESPACE, ANNOTATION_VSC_DELETION_POLICY, LABEL_BACKUP_UID,
    LABEL_DYNAMIC_PV_RESTORE, LABEL_VOLUME_SNAPSHOT_NAME, RESTORE_WAIT,
};
use lifeboat_api::{NamespacedName, Restore};
use lifeboat_cluster::Cluster;
use lifeboat_object::{ApiResource, Catalog, GroupResource, ObjectKey};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// The snapshots of the backup, as far as its restore knows them.
#[derive(Clone)]
pub struct SnapshotsOfBackup {
    /// Tells whether the backup holds an object.
    pub holds: Arc<dyn Fn(&ObjectKey) -> bool + Send + Sync>,
    /// Claims whose snapshot failed when the backup was made: nothing is restored from one.
    pub failed: BTreeSet<NamespacedName>,
    /// The drivers of the snapshots, by claim of the backup, as far as they are recorded.
    pub drivers: BTreeMap<NamespacedName, String>,
    /// Tells whether a data mover brings the data of a claim of the backup back.
    pub is_moved: Arc<dyn Fn(&Value) -> bool + Send + Sync>,
}

/// The actions, in the order in which they are called, for a cluster that serves these types. They only read the cluster, and
/// remember what they have read: make them anew for each restore.
#[must_use]
pub fn restore_actions(
    cluster: &Cluster,
    catalog: &Catalog,
    snapshots: SnapshotsOfBackup,
) -> Vec<Arc<dyn RestoreItemAction>> {
    let types = SnapshotTypes::of(catalog);
    let find = |group: &str, name: &str| catalog.find(&GroupResource::new(group, name)).cloned();
    vec![
        Arc::new(ClaimAction {
            cluster: cluster.clone(),
            claims: find("", "persistentvolumeclaims"),
            storage_classes: find("storage.k8s.io", "storageclasses"),
            is_served: types.is_some(),
            snapshots,
            provisioners: Mutex::default(),
        }),
        Arc::new(SnapshotAction),
        Arc::new(ClassAction),
        Arc::new(ContentAction { cluster: cluster.clone(), types, classes: OnceCell::new() }),
        Arc::new(GroupAction),
    ]
}

/// The action that knows of the operations that a restore has begun for claims, for their progress alone.
#[must_use]
pub fn operations_of_claims(cluster: &Cluster) -> Arc<dyn RestoreItemAction> {
    let snapshots = SnapshotsOfBackup {
        holds: Arc::new(|_| false),
        failed: BTreeSet::new(),
        drivers: BTreeMap::new(),
        is_moved: Arc::new(|_| false),
    };
    Arc::new(ClaimAction {
        cluster: cluster.clone(),
        claims: None,
        storage_classes: None,
        is_served: false,
        snapshots,
        provisioners: Mutex::default(),
    })
}

/// The name of the VolumeSnapshot that holds the data of a claim of a backup; `None` when it has none, or when the data was moved out
/// of it.
#[must_use]
pub fn snapshot_of_claim(claim: &Value) -> Option<&str> {
    let annotation = |key: &str| claim["metadata"]["annotations"].get(key).and_then(Value::as_str);
    if annotation(ANNOTATION_DATA_UPLOAD_NAME).is_some_and(|name| !name.is_empty()) {
        return None;
    }
    annotation(LABEL_VOLUME_SNAPSHOT_NAME).filter(|name| !name.is_empty())
}

/// The same object without the names that follow from the UID of the restore, which a plan does not know; `None` when it has none.
#[must_use]
pub fn without_restored_names(object: &Value) -> Option<Value> {
    let is_restored = |name: &Value| name.as_str().is_some_and(|name| name.len() == 64 && hex::decode(name).is_ok());
    let places: &[&str] = match object["kind"].as_str() {
        Some("Pod" | "PersistentVolumeClaim") if awaits_data(object).is_some() => {
            let mut out = object.clone();
            if let Some(value) = awaits_data(object).and_then(|place| out.pointer_mut(&place)) {
                *value = Value::Null;
            }
            return Some(out);
        }
        Some("VolumeSnapshot") => &["/metadata/name", "/spec/source/volumeSnapshotContentName"],
        Some("VolumeSnapshotContent") => &["/metadata/name", "/spec/volumeSnapshotRef/name"],
        Some("PersistentVolumeClaim") => &["/spec/dataSource/name"],
        _ => return None,
    };
    let has = |place: &&&str| object.pointer(place).is_some_and(is_restored);
    places.iter().any(|place| has(&place)).then(|| {
        let mut out = object.clone();
        for place in places {
            if let Some(name) = out.pointer_mut(place)
                && is_restored(name)
            {
                *name = Value::Null;
            }
        }
        out
    })
}

/// The place of what an object has by the UID of the restore in which it waits for data from a repository.
fn awaits_data(object: &Value) -> Option<String> {
    let (selector, wait) = ("/spec/selector/matchLabels", "/spec/initContainers/0");
    let has_label = object.pointer(selector).is_some_and(|labels| labels.get(LABEL_DYNAMIC_PV_RESTORE).is_some());
    if has_label && object["kind"] == "PersistentVolumeClaim" {
        return Some(format!("{selector}/{}", LABEL_DYNAMIC_PV_RESTORE.replace('/', "~1")));
    }
    let waits = object.pointer(wait).is_some_and(|container| container["name"] == RESTORE_WAIT);
    (waits && object["kind"] == "Pod").then(|| format!("{wait}/args"))
}

/// Returns true if the user wants no volumes from snapshots.
fn leaves_volumes(restore: &Restore) -> bool {
    restore.spec.restore_pvs == Some(false)
}

/// Takes off the label by which the deletion of the backup finds what its attempts have left in the cluster: a restored object stays.
fn leave_backup(item: &mut Value) {
    if let Some(labels) = item.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(LABEL_BACKUP_UID);
    }
}

/// Goes on with an object after others of the backup, past all filters.
fn after(mut item: Value, additional_items: Vec<ObjectKey>) -> RestoreItemOutput {
    annotate(&mut item, &[(ANNOTATION_RESTORE_MUST_INCLUDE, "true".to_owned())]);
    RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) }
}

/// `velero.io/csi-pvc-restorer`: a claim asks for a volume from the snapshot of its data.
struct ClaimAction {
    cluster: Cluster,
    claims: Option<Arc<ApiResource>>,
    storage_classes: Option<Arc<ApiResource>>,
    /// True when the cluster serves VolumeSnapshots.
    is_served: bool,
    snapshots: SnapshotsOfBackup,
    /// The provisioners of storage classes that were asked for; `None` for a class that is not there.
    provisioners: Mutex<HashMap<String, Option<String>>>,
}

impl ClaimAction {
    /// Returns true if a claim of the name is in the cluster and stays there.
    async fn stays(&self, namespace: &str, name: &str) -> Result<bool, ActionError> {
        let Some(claims) = &self.claims else { return Ok(false) };
        Ok(self.cluster.get(claims, Some(namespace), name).await.map_err(failed)?.is_some_and(|claim| stays(&claim)))
    }

    /// Refuses a claim that would wait for ever, because nothing can make a volume for it from its snapshot.
    async fn check(&self, claim: &NamespacedName, item: &Value, snapshot: &ObjectKey) -> Result<(), ActionError> {
        if !self.is_served {
            return Err(ActionError::item(
                "its data is in a CSI snapshot, and the cluster does not serve VolumeSnapshots: install the snapshot controller, or \
                 restore with --restore-volumes=false to get an empty volume",
            ));
        }
        if !(self.snapshots.holds)(snapshot) {
            return Err(ActionError::item(format!("its data is in {snapshot}, which is not in the backup")));
        }
        // Without a name the cluster's default class is taken.
        let Some(class) = item.pointer("/spec/storageClassName").and_then(Value::as_str) else { return Ok(()) };
        let Some(resource) = &self.storage_classes else { return Ok(()) };
        let driver = self.snapshots.drivers.get(claim).map_or("", String::as_str);
        match self.provisioner(resource, class).await? {
            Some(provisioner) if driver.is_empty() || provisioner == driver => Ok(()),
            Some(provisioner) => Err(ActionError::item(format!(
                "its snapshot is of the driver {driver}, and its storage class {class:?} of {provisioner}, which cannot read it: map the \
                 class to one of {driver} (velero.io/change-storage-class)"
            ))),
            // It comes with the restore.
            None if (self.snapshots.holds)(&ObjectKey::new(resource.group_resource(), None, class)) => Ok(()),
            None => Err(ActionError::item(format!(
                "its storage class {class:?} is not in the cluster, so that no volume can be made from its snapshot: make the class, or \
                 map it to another one (velero.io/change-storage-class)"
            ))),
        }
    }

    async fn provisioner(&self, resource: &ApiResource, class: &str) -> Result<Option<String>, ActionError> {
        let known = || self.provisioners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provisioner) = known().get(class) {
            return Ok(provisioner.clone());
        }
        let body = self.cluster.get(resource, None, class).await.map_err(failed)?;
        let found = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
        let provisioner = found.map(|class| text(&class, "/provisioner").to_owned());
        known().insert(class.to_owned(), provisioner.clone());
        Ok(provisioner)
    }
}

/// Returns true if a claim is not being deleted. In the place of one that is, another is made, which is to have the
/// data.
fn stays(claim: &[u8]) -> bool {
    let deleted = |claim: &Value| !claim["metadata"]["deletionTimestamp"].is_null();
    serde_json::from_slice::<Value>(claim).is_ok_and(|claim| !deleted(&claim))
}

#[async_trait]
impl RestoreItemAction for ClaimAction {
    fn name(&self) -> &str {
        RESTORE_ACTIONS[0]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["persistentvolumeclaims"])
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let RestoreItemInput { mut item, item_from_backup, restore } = input;
        let is_moved = (self.snapshots.is_moved)(item_from_backup);
        let Some(snapshot) = snapshot_of_claim(item_from_backup).or(is_moved.then_some("")) else {
            return Ok(RestoreItemOutput::with(item));
        };
        let namespace = text(item_from_backup, "/metadata/namespace");
        let claim = NamespacedName::new(namespace, text(item_from_backup, "/metadata/name"));
        let target = restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
        if self.snapshots.failed.contains(&claim) {
            return Ok(RestoreItemOutput::with(item));
        }
        if !item["spec"].is_object() || self.stays(target, &claim.name).await? {
            return Ok(RestoreItemOutput::with(item));
        }
        if is_moved {
            if !leaves_volumes(restore) {
                await_volume(&mut item, restore, target, &claim.name);
            }
            return Ok(RestoreItemOutput::with(item));
        }
        let key = ObjectKey::new(GroupResource::new(SNAPSHOT_API, "volumesnapshots"), Some(namespace), snapshot);
        if !leaves_volumes(restore) {
            self.check(&claim, &item, &key).await?;
        }
        if let Some(spec) = item["spec"].as_object_mut() {
            ["volumeName", "dataSource", "dataSourceRef"].iter().for_each(|field| drop(spec.remove(*field)));
        }
        if leaves_volumes(restore) {
            return Ok(RestoreItemOutput::with(item));
        }
        let name = restored_name(&restore.metadata.uid, namespace, snapshot);
        item["spec"]["dataSource"] = json!({"apiGroup": SNAPSHOT_API, "kind": "VolumeSnapshot", "name": name});
        Ok(after(item, vec![key]))
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, _: &Restore) -> bool {
        // It changes no claim that is there.
        true
    }

    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        data_movement::progress(operation_id, restore, &self.cluster).await
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<(), ActionError> {
        data_movement::cancel(operation_id, restore, &self.cluster).await
    }
}

/// The reason for which nothing can be restored from a snapshot, and advice.
const UNTAKEN: &str = "its driver had not taken it when the backup was made, so it holds no data; restore from another backup, or without \
                       it (--restore-volumes=false)";

/// `velero.io/csi-volumesnapshot-restorer`: binds a VolumeSnapshot to the snapshot in the storage, instead of asking
/// for a new snapshot.
///
/// compat: also those of users get another name, and their contents the policy Retain.
struct SnapshotAction;

#[async_trait]
impl RestoreItemAction for SnapshotAction {
    fn name(&self) -> &str {
        RESTORE_ACTIONS[1]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["volumesnapshots.snapshot.storage.k8s.io"])
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let RestoreItemInput { mut item, item_from_backup, restore } = input;
        if leaves_volumes(restore) {
            return Ok(RestoreItemOutput::skip());
        }
        let backup = |pointer: &str| text(item_from_backup, pointer);
        let (namespace, name) = (backup("/metadata/namespace"), backup("/metadata/name"));
        let content = backup("/status/boundVolumeSnapshotContentName");
        let is_named = is_named_by_annotations(item_from_backup);
        if content.is_empty() && !is_named {
            let why = format!(
                "the backup does not say which VolumeSnapshotContent {namespace}/{name} is bound to: {UNTAKEN}"
            );
            return Err(ActionError::item(why));
        }
        let restored = restored_name(&restore.metadata.uid, namespace, name);
        item["metadata"]["name"] = restored.as_str().into();
        item["spec"] = json!({"source": {"volumeSnapshotContentName": restored}});
        annotate(&mut item, &[(ANNOTATION_VSC_DELETION_POLICY, DeletionPolicy::Retain.as_str().to_owned())]);
        leave_backup(&mut item);
        if content.is_empty() {
            // Its content is made beside it.
            return Ok(RestoreItemOutput::with(item));
        }
        let contents = GroupResource::new(SNAPSHOT_API, "volumesnapshotcontents");
        Ok(after(item, vec![ObjectKey::new(contents, None, content)]))
    }

    fn is_pure(&self) -> bool {
        true
    }
}

/// `velero.io/csi-volumesnapshotclass-restorer`: a class comes after the Secret that it names.
struct ClassAction;

#[async_trait]
impl RestoreItemAction for ClassAction {
    fn name(&self) -> &str {
        RESTORE_ACTIONS[2]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["volumesnapshotclasses.snapshot.storage.k8s.io"])
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        if leaves_volumes(input.restore) {
            return Ok(RestoreItemOutput::skip());
        }
        let names = [ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAME, ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAMESPACE];
        let additional_items = named_secret(input.item_from_backup, names).into_iter().collect();
        Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(input.item) })
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, restore: &Restore) -> bool {
        !leaves_volumes(restore)
    }
}

/// `velero.io/csi-volumesnapshotcontent-restorer`: a content names the snapshot in the storage, and leaves it there
/// when it is deleted.
struct ContentAction {
    cluster: Cluster,
    types: Option<SnapshotTypes>,
    classes: OnceCell<Vec<SnapshotClass>>,
}

impl ContentAction {
    /// The name of the first class of a driver.
    async fn class(&self, driver: &str) -> Result<Option<&str>, ActionError> {
        let Some(types) = &self.types else { return Ok(None) };
        let load = || async {
            let mut classes = SnapshotApi { cluster: &self.cluster, types }.classes().await?;
            classes.sort_by(|a, b| a.name.cmp(&b.name));
            Ok::<_, CsiError>(classes)
        };
        let classes = self.classes.get_or_try_init(load).await.map_err(failed)?;
        Ok(classes.iter().find(|class| class.driver == driver).map(|class| class.name.as_str()))
    }
}

#[async_trait]
impl RestoreItemAction for ContentAction {
    fn name(&self) -> &str {
        RESTORE_ACTIONS[3]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["volumesnapshotcontents.snapshot.storage.k8s.io"])
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let RestoreItemInput { mut item, item_from_backup, restore } = input;
        if leaves_volumes(restore) {
            return Ok(RestoreItemOutput::skip());
        }
        let backup = |pointer: &str| text(item_from_backup, pointer);
        let handle = backup("/status/snapshotHandle");
        if handle.is_empty() {
            let name = backup("/metadata/name");
            return Err(ActionError::item(format!("{name} has no snapshot handle in the backup: {UNTAKEN}")));
        }
        let Reference { namespace, name: snapshot, .. } = Reference::to_snapshot(item_from_backup);
        let target = restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
        let name = restored_name(&restore.metadata.uid, namespace, snapshot);
        item["metadata"]["name"] = name.as_str().into();
        leave_backup(&mut item);
        item["spec"]["source"] = json!({"snapshotHandle": handle});
        item["spec"]["deletionPolicy"] = DeletionPolicy::Retain.as_str().into();
        let reference = &mut item["spec"]["volumeSnapshotRef"];
        reference["name"] = name.as_str().into();
        reference["namespace"] = target.into();
        if let Some(reference) = reference.as_object_mut() {
            ["uid", "resourceVersion"].iter().for_each(|field| drop(reference.remove(*field)));
        }
        let class = self.class(backup("/spec/driver")).await?;
        match (class, item["spec"].as_object_mut()) {
            (Some(class), Some(spec)) => drop(spec.insert("volumeSnapshotClassName".to_owned(), class.into())),
            (None, Some(spec)) => drop(spec.remove("volumeSnapshotClassName")),
            (_, None) => {}
        }
        let names = [ANNOTATION_SNAPSHOTTER_SECRET_NAME, ANNOTATION_SNAPSHOTTER_SECRET_NAMESPACE];
        let additional_items = named_secret(item_from_backup, names).into_iter().collect();
        Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
    }

    fn is_pure(&self) -> bool {
        true
    }
}

/// `lifeboat.io/csi-volumegroupsnapshot-restorer`: a group that was taken is not asked for again. Its members come back
/// by themselves, and a content for the group is made where that is needed.
struct GroupAction;

#[async_trait]
impl RestoreItemAction for GroupAction {
    fn name(&self) -> &str {
        RESTORE_ACTIONS[4]
    }

    fn applies_to(&self) -> ActionScope {
        let types = ["volumegroupsnapshots", "volumegroupsnapshotcontents"];
        let types = types.map(|name| format!("{name}.{GROUP_SNAPSHOT_API}"));
        ActionScope::resources(&types.each_ref().map(String::as_str))
    }

    async fn execute(&self, _: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        Ok(RestoreItemOutput::skip())
    }

    fn is_pure(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
