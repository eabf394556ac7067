//! Velero's delete item action of CSI snapshots (backup.md 5.2): removes what a backup keeps in the storage.

use super::answer::{failed, text};
use super::api::SnapshotApi;
use super::clean::remove_content;
use super::content::DeletionPolicy;
use super::group_delete::{ArchivedSnapshots, GroupDeletion};
use super::group_handle::GroupHandle;
use super::names::DELETE_ACTIONS;
use super::objects::{SNAPSHOT_API, SNAPSHOT_CONTENT_FINALIZER, SnapshotTypes};
use super::reference::Reference;
use super::settle::{ContentOf, delete_by_content, temporary_name};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, DeleteItemAction};
use lifeboat_api::well_known::LABEL_BACKUP_NAME;
use lifeboat_api::{Backup, label_value};
use lifeboat_cluster::{Cluster, Wanted};
use lifeboat_object::Catalog;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a driver may take to delete a snapshot.
const DELETED: Duration = Duration::from_secs(120);
/// Between two looks at a content, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(3)];

/// The actions, in the order in which they are called, for a backup whose archive has these snapshots. In a cluster that serves no
/// snapshots they fail: nothing there can delete them.
#[must_use]
pub fn delete_actions(
    cluster: &Cluster,
    catalog: &Catalog,
    archived: ArchivedSnapshots,
) -> Vec<Arc<dyn DeleteItemAction>> {
    let groups = GroupDeletion::new(archived);
    vec![Arc::new(ContentAction { cluster: cluster.clone(), types: SnapshotTypes::of(catalog), groups })]
}

/// `velero.io/csi-volumesnapshotcontent-delete`: tells the driver, by a VolumeSnapshotContent made for that, to delete the snapshot that an
/// archived one stands for, and waits until it has.
///
/// compat: Velero deletes the content after two seconds and does not wait for the driver: what that cannot delete is never told.
struct ContentAction {
    cluster: Cluster,
    types: Option<SnapshotTypes>,
    /// Snapshots of a group go with it, as drivers want it.
    groups: GroupDeletion,
}

#[async_trait]
impl DeleteItemAction for ContentAction {
    fn name(&self) -> &str {
        DELETE_ACTIONS[0]
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["volumesnapshotcontents.snapshot.storage.k8s.io"])
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError> {
        let Some(archived) = Archived::of(item, self.groups.archived(), backup) else { return Ok(()) };
        let types = self.types.as_ref().ok_or_else(|| {
            ActionError::item(format!(
                "the snapshot {} of the driver {} cannot be deleted: the cluster does not serve {SNAPSHOT_API}",
                archived.handle, archived.driver
            ))
        })?;
        if let Some(group) = GroupHandle::of_content(item) {
            return self.groups.delete(SnapshotApi { cluster: &self.cluster, types }, group, item, backup).await;
        }
        match self.live(types, &archived).await? {
            Live::OfUser => Ok(()),
            Live::Gone => self.delete_by_handle(types, &archived).await,
            Live::Ours { snapshot } => self.delete_live(types, &archived, snapshot).await,
        }
    }
}

/// What an archived content says of the snapshot that goes with the backup.
struct Archived<'a> {
    content: &'a Value,
    name: &'a str,
    handle: &'a str,
    driver: &'a str,
    /// The label that says which backup has taken it.
    label: String,
    backup_uid: &'a str,
}

impl<'a> Archived<'a> {
    /// `None` when the backup has not taken it, or it stands for nothing.
    fn of(content: &'a Value, all: &ArchivedSnapshots, backup: &'a Backup) -> Option<Self> {
        let (label, handle) = (label_value(&backup.metadata.name), text(content, "/status/snapshotHandle"));
        let is_ours =
            content["metadata"]["labels"][LABEL_BACKUP_NAME].as_str() == Some(&label) || all.has_taken(content);
        (is_ours && !handle.is_empty()).then(|| Self {
            content,
            name: text(content, "/metadata/name"),
            handle,
            driver: text(content, "/spec/driver"),
            label,
            backup_uid: &backup.metadata.uid,
        })
    }

    /// The name of the content by which the snapshot is deleted.
    fn temporary_name(&self) -> String {
        temporary_name(self.backup_uid, self.driver, self.handle)
    }

    /// A content that stands for the same snapshot, of no VolumeSnapshot. Its annotations name the secrets that the driver needs.
    fn temporary(&self, types: &SnapshotTypes) -> Value {
        let name = self.temporary_name();
        let annotations = &self.content["metadata"]["annotations"];
        let mut spec = json!({
            "driver": self.driver,
            "deletionPolicy": DeletionPolicy::Delete.as_str(),
            "source": {"snapshotHandle": self.handle},
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": name, "name": name},
        });
        if let Some(mode) = self.content.pointer("/spec/sourceVolumeMode").filter(|mode| !mode.is_null()) {
            spec["sourceVolumeMode"] = mode.clone();
        }
        let mut labels = json!({LABEL_BACKUP_NAME: self.label});
        // Of drivers whose csi-snapshotters run on the nodes, that of this node alone looks at the content.
        if let Some(node) = self.content["metadata"]["labels"][MANAGED_BY].as_str() {
            labels[MANAGED_BY] = node.into();
        }
        json!({
            "apiVersion": types.contents.api_version(), "kind": types.contents.kind,
            "metadata": {"name": name, "labels": labels, "annotations": annotations, "finalizers": [SNAPSHOT_CONTENT_FINALIZER]},
            "spec": spec,
        })
    }
}

/// What stands in the cluster under the name of an archived content.
#[derive(Debug, PartialEq, Eq)]
enum Live {
    /// Nothing, or what stands for something else.
    Gone,
    /// The content that was archived, and namespace and name of its VolumeSnapshot, if that is there.
    Ours { snapshot: Option<(String, String)> },
    /// A user's VolumeSnapshot is bound to it.
    OfUser,
}

/// On contents of drivers whose csi-snapshotters run on the nodes: the node.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

impl ContentAction {
    async fn live(&self, types: &SnapshotTypes, archived: &Archived<'_>) -> Result<Live, ActionError> {
        let api = SnapshotApi { cluster: &self.cluster, types };
        let Some(live) = api.read(&types.contents, None, archived.name).await.map_err(failed)? else {
            return Ok(Live::Gone);
        };
        if !stands_for(&live, archived) {
            return Ok(Live::Gone);
        }
        let Reference { namespace, name, .. } = Reference::to_snapshot(&live);
        let Some(snapshot) = api.read(&types.snapshots, Some(namespace), name).await.map_err(failed)? else {
            return Ok(Live::Ours { snapshot: None });
        };
        let label = snapshot["metadata"]["labels"][LABEL_BACKUP_NAME].as_str();
        Ok(if label == Some(&archived.label) {
            Live::Ours { snapshot: Some((namespace.to_owned(), name.to_owned())) }
        } else {
            Live::OfUser
        })
    }

    /// Deletes a snapshot whose objects the backup could not take out of the cluster.
    async fn delete_live(
        &self,
        types: &SnapshotTypes,
        archived: &Archived<'_>,
        snapshot: Option<(String, String)>,
    ) -> Result<(), ActionError> {
        let api = SnapshotApi { cluster: &self.cluster, types };
        match snapshot {
            Some((namespace, name)) => {
                api.set_policy(&types.contents, archived.name, DeletionPolicy::Delete).await.map_err(failed)?;
                self.cluster.delete(&types.snapshots, Some(&namespace), &name).await.map_err(failed)?;
            }
            None => remove_content(api, archived.name, DeletionPolicy::Delete).await.map_err(failed)?,
        }
        self.delete_content(types, archived.name, archived).await
    }

    async fn delete_by_handle(&self, types: &SnapshotTypes, archived: &Archived<'_>) -> Result<(), ActionError> {
        let name = archived.temporary_name();
        let wanted = Wanted::of(archived.temporary(types).to_string().into());
        match self.cluster.create(&types.contents, None, &name, wanted).await {
            Ok(_) => {}
            // An attempt before has made it.
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(failed(e)),
        }
        let of = ContentOf { resource: &types.contents, name: &name, field: "snapshotHandle", handle: archived.handle };
        let left = delete_by_content(&self.cluster, of, DELETED).await.map_err(failed)?;
        left.map_or(Ok(()), |content| Err(archived.not_deleted(&content)))
    }

    /// Deletes a content, and waits until its driver has deleted the snapshot.
    async fn delete_content(
        &self,
        types: &SnapshotTypes,
        name: &str,
        archived: &Archived<'_>,
    ) -> Result<(), ActionError> {
        let api = SnapshotApi { cluster: &self.cluster, types };
        api.cluster.delete(&types.contents, None, name).await.map_err(failed)?;
        let deadline = Instant::now() + DELETED;
        let [mut pause, longest] = PAUSES;
        while let Some(content) = api.read(&types.contents, None, name).await.map_err(failed)? {
            if Instant::now() + pause > deadline {
                return Err(archived.not_deleted(&content));
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
        Ok(())
    }
}

impl Archived<'_> {
    fn not_deleted(&self, content: &Value) -> ActionError {
        let (Self { handle, driver, .. }, name) = (self, text(content, "/metadata/name"));
        let said = match text(content, "/status/error/message") {
            "" => "nothing; are the driver, its csi-snapshotter and the snapshot controller running?",
            said => said,
        };
        ActionError::item(format!(
            "the driver {driver} has not deleted the snapshot {handle} within {} s; it says on the VolumeSnapshotContent {name}: {said}",
            DELETED.as_secs()
        ))
    }
}

/// Whether a content of the cluster is the one that was archived.
fn stands_for(live: &Value, archived: &Archived<'_>) -> bool {
    live["metadata"]["labels"][LABEL_BACKUP_NAME].as_str() == Some(&archived.label)
        && text(live, "/status/snapshotHandle") == archived.handle
        && text(live, "/spec/driver") == archived.driver
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::ObjectMeta;
    use lifeboat_object::ApiResource;

    fn backup() -> Backup {
        let metadata = ObjectMeta { name: "nightly".into(), uid: "u".into(), ..ObjectMeta::default() };
        Backup { metadata, ..Backup::default() }
    }

    fn content() -> Value {
        json!({"metadata": {"name": "snapcontent-1", "uid": "1", "resourceVersion": "7", "finalizers": [SNAPSHOT_CONTENT_FINALIZER],
                "labels": {LABEL_BACKUP_NAME: "nightly", "x": "y", MANAGED_BY: "node-1"},
                "annotations": {"snapshot.storage.kubernetes.io/deletion-secret-name": "key"}},
            "spec": {"driver": "d", "deletionPolicy": "Retain", "source": {"volumeHandle": "v"}, "sourceVolumeMode": "Block",
                "volumeSnapshotClassName": "gone", "volumeSnapshotRef": {"namespace": "shop", "name": "s", "uid": "2"}},
            "status": {"snapshotHandle": "snap-1", "readyToUse": true}})
    }

    fn types() -> SnapshotTypes {
        let of = |resource: &str, kind: &str| Arc::new(ApiResource::new(SNAPSHOT_API, "v1", resource, kind));
        SnapshotTypes {
            snapshots: of("volumesnapshots", "VolumeSnapshot"),
            contents: of("volumesnapshotcontents", "VolumeSnapshotContent"),
            classes: of("volumesnapshotclasses", "VolumeSnapshotClass"),
            groups: None,
        }
    }

    #[test]
    fn a_snapshot_is_deleted_by_a_content_of_its_own() {
        let (backup, content) = (backup(), content());
        let archived = Archived::of(&content, &ArchivedSnapshots::default(), &backup).unwrap();
        let name = archived.temporary_name();
        assert!(name.starts_with("velero-delete-") && name.len() == 34, "{name}");
        let expected = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": name, "labels": {LABEL_BACKUP_NAME: "nightly", MANAGED_BY: "node-1"},
                "annotations": {"snapshot.storage.kubernetes.io/deletion-secret-name": "key"}, "finalizers": [SNAPSHOT_CONTENT_FINALIZER]},
            "spec": {"driver": "d", "deletionPolicy": "Delete", "source": {"snapshotHandle": "snap-1"}, "sourceVolumeMode": "Block",
                "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": name, "name": name}}});
        assert_eq!(archived.temporary(&types()), expected);
        let mut another = backup.clone();
        another.metadata.uid = "v".into();
        assert_ne!(Archived::of(&content, &ArchivedSnapshots::default(), &another).unwrap().temporary_name(), name);
    }

    #[test]
    fn only_what_the_backup_has_taken_goes_with_it() {
        let (backup, mut of_user, mut of_another, mut untaken) = (backup(), content(), content(), content());
        of_user["metadata"]["labels"] = Value::Null;
        of_another["metadata"]["labels"][LABEL_BACKUP_NAME] = "weekly".into();
        untaken["status"]["snapshotHandle"] = Value::Null;
        for (what, content) in [("a user", &of_user), ("another backup", &of_another), ("not taken", &untaken)] {
            assert!(Archived::of(content, &ArchivedSnapshots::default(), &backup).is_none(), "{what}");
        }
    }

    #[test]
    fn a_live_content_is_the_archived_one_when_it_stands_for_the_same() {
        let (backup, archived) = (backup(), content());
        let archived = Archived::of(&archived, &ArchivedSnapshots::default(), &backup).unwrap();
        assert!(stands_for(&content(), &archived));
        for (pointer, value) in [
            ("/status/snapshotHandle", "snap-2"),
            ("/spec/driver", "e"),
            ("/metadata/labels/velero.io~1backup-name", "weekly"),
        ] {
            let mut live = content();
            *live.pointer_mut(pointer).unwrap() = value.into();
            assert!(!stands_for(&live, &archived), "{pointer}");
        }
    }
}
