//! Velero's delete item action of CSI snapshots (velero: internal/delete/actions/csi): removes the snapshots that a
//! backup keeps in the storage.

use crate::method::csi::answer::{failed, text};
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::clean::remove_content;
use crate::method::csi::delete::group_delete::{ArchivedSnapshots, GroupDeletion};
use crate::method::csi::delete::settle::{ContentOf, Deletion, delete_by_content, temporary_name};
use crate::method::csi::delete::unproven::{Unproven, not_seen_before, only_named, used_by};
use crate::method::csi::group_handle::GroupHandle;
use crate::method::csi::names::DELETE_ACTIONS;
use crate::method::csi::objects::{SNAPSHOT_API, SNAPSHOT_CONTENT_FINALIZER, SnapshotTypes};
use crate::method::csi::reference::Reference;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, DeleteItemAction};
use lifeboat_api::well_known::LABEL_BACKUP_NAME;
use lifeboat_api::{Backup, NamespacedName, is_of_another_cluster, label_value};
use lifeboat_cluster::{Cluster, WriteBody};
use lifeboat_object::Catalog;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that a driver may take to delete a snapshot.
const DELETED: Duration = Duration::from_secs(120);
/// The first and the longest pause between two looks at a content.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(3)];

/// The actions, in the order in which they are called, for a backup whose archive has these snapshots. In a cluster
/// that serves no snapshots they fail: nothing there can delete them. Snapshots that are not known to be gone when they
/// have succeeded are added to `unproven`.
#[must_use]
pub fn delete_actions(
    cluster: &Cluster,
    catalog: &Catalog,
    archived: ArchivedSnapshots,
    unproven: &Unproven,
) -> Vec<Arc<dyn DeleteItemAction>> {
    let groups = GroupDeletion::new(archived, unproven);
    vec![Arc::new(ContentAction { cluster: cluster.clone(), types: SnapshotTypes::of(catalog), groups })]
}

/// `velero.io/csi-volumesnapshotcontent-delete`: tells the driver, by a VolumeSnapshotContent made for that, to delete
/// the snapshot of an archived content, and waits until it has.
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
        let Some(archived) = ArchivedSnapshot::of(item, self.groups.archived(), backup) else {
            let handle = text(item, "/status/snapshotHandle");
            if !handle.is_empty() && self.groups.archived().has_only_name(item, &backup.metadata.name) {
                self.groups.unproven().add(item, handle, only_named());
            }
            return Ok(());
        };
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
            ObjectInCluster::OfAnother { why } => {
                self.groups.unproven().add(item, archived.handle, why);
                Ok(())
            }
            ObjectInCluster::Gone => self.delete_by_handle(types, &archived).await,
            ObjectInCluster::Ours { snapshot } => self.delete_live(types, &archived, snapshot).await,
        }
    }
}

/// The snapshot that goes with the backup, as its archived content describes it.
struct ArchivedSnapshot<'a> {
    content: &'a Value,
    name: &'a str,
    handle: &'a str,
    driver: &'a str,
    /// Facts about all snapshots of the archive.
    all: &'a ArchivedSnapshots,
    backup: &'a Backup,
}

impl<'a> ArchivedSnapshot<'a> {
    /// `None` when the backup has not taken it, or there is no snapshot behind it.
    fn of(content: &'a Value, all: &'a ArchivedSnapshots, backup: &'a Backup) -> Option<Self> {
        let handle = text(content, "/status/snapshotHandle");
        let is_ours = all.is_own(content, &backup.metadata.name);
        (is_ours && !handle.is_empty()).then(|| Self {
            content,
            name: text(content, "/metadata/name"),
            handle,
            driver: text(content, "/spec/driver"),
            all,
            backup,
        })
    }

    /// The name of the content by which the snapshot is deleted.
    fn temporary_name(&self) -> String {
        temporary_name(&self.backup.metadata.uid, self.driver, self.handle)
    }

    /// A content for the same snapshot, without a VolumeSnapshot. Its annotations name the secrets that the driver
    /// needs.
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
        let mut labels = json!({LABEL_BACKUP_NAME: label_value(&self.backup.metadata.name)});
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

/// The object in the cluster under the name of an archived content.
#[derive(Debug, PartialEq, Eq)]
enum ObjectInCluster {
    /// There is no such object, or it is of another snapshot.
    Gone,
    /// The content that was archived, and its VolumeSnapshot, if that is there.
    Ours { snapshot: Option<NamespacedName> },
    /// The same snapshot, as an object of a user or of a restore, which stays.
    OfAnother { why: String },
}

/// Annotation of contents of drivers whose csi-snapshotters run on the nodes: the node.
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";

impl ContentAction {
    async fn live(
        &self,
        types: &SnapshotTypes,
        archived: &ArchivedSnapshot<'_>,
    ) -> Result<ObjectInCluster, ActionError> {
        let api = SnapshotApi { cluster: &self.cluster, types };
        let Some(live) = api.read(&types.contents, None, archived.name).await.map_err(failed)? else {
            return Ok(ObjectInCluster::Gone);
        };
        if !stands_for(&live, archived) {
            return Ok(ObjectInCluster::Gone);
        }
        let Reference { namespace, name, .. } = Reference::to_snapshot(&live);
        let snapshot = api.read(&types.snapshots, Some(namespace), name).await.map_err(failed)?;
        Ok(archived.live(&live, snapshot.as_ref()))
    }

    /// Deletes a snapshot whose objects the backup could not take out of the cluster.
    async fn delete_live(
        &self,
        types: &SnapshotTypes,
        archived: &ArchivedSnapshot<'_>,
        snapshot: Option<NamespacedName>,
    ) -> Result<(), ActionError> {
        let api = SnapshotApi { cluster: &self.cluster, types };
        match snapshot {
            Some(NamespacedName { namespace, name }) => {
                api.set_policy(&types.contents, archived.name, DeletionPolicy::Delete).await.map_err(failed)?;
                self.cluster.delete(&types.snapshots, Some(&namespace), &name).await.map_err(failed)?;
            }
            None => remove_content(api, archived.name, DeletionPolicy::Delete).await.map_err(failed)?,
        }
        self.delete_content(types, archived.name, archived).await
    }

    async fn delete_by_handle(
        &self,
        types: &SnapshotTypes,
        archived: &ArchivedSnapshot<'_>,
    ) -> Result<(), ActionError> {
        let name = archived.temporary_name();
        let wanted = WriteBody::of(archived.temporary(types).to_string().into());
        match self.cluster.create(&types.contents, None, &name, wanted).await {
            Ok(_) => {}
            // An attempt before has made it.
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(failed(e)),
        }
        let of = ContentOf { resource: &types.contents, name: &name, field: "snapshotHandle", handle: archived.handle };
        match delete_by_content(&self.cluster, of, DELETED).await.map_err(failed)? {
            Deletion::Left(content) => Err(archived.not_deleted(&content)),
            Deletion::Done { was_seen } => {
                // Which cluster this is may not be known: then the marks of the backup say it.
                let this = self.cluster.uid().await.unwrap_or_default();
                if !was_seen && is_of_another_cluster(archived.backup, &this) {
                    self.groups.unproven().add(archived.content, archived.handle, not_seen_before());
                }
                Ok(())
            }
        }
    }

    /// Deletes a content, and waits until its driver has deleted the snapshot.
    async fn delete_content(
        &self,
        types: &SnapshotTypes,
        name: &str,
        archived: &ArchivedSnapshot<'_>,
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

impl ArchivedSnapshot<'_> {
    /// Tells whose the content of the cluster for the same snapshot is, with its VolumeSnapshot, if that is there.
    fn live(&self, content: &Value, snapshot: Option<&Value>) -> ObjectInCluster {
        let Reference { namespace, name, .. } = Reference::to_snapshot(content);
        let is_own = |object: &Value| self.all.is_own(object, &self.backup.metadata.name);
        match snapshot {
            Some(snapshot) if is_own(snapshot) => {
                ObjectInCluster::Ours { snapshot: Some(NamespacedName::new(namespace, name)) }
            }
            Some(_) => ObjectInCluster::OfAnother { why: used_by("VolumeSnapshot", namespace, name) },
            None if is_own(content) => ObjectInCluster::Ours { snapshot: None },
            None => ObjectInCluster::OfAnother { why: used_by("VolumeSnapshotContent", "cluster", self.name) },
        }
    }

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

/// Returns true if a content of the cluster under the name of the archived one is of the same snapshot.
fn stands_for(live: &Value, archived: &ArchivedSnapshot<'_>) -> bool {
    text(live, "/status/snapshotHandle") == archived.handle && text(live, "/spec/driver") == archived.driver
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::ObjectMeta;
    use lifeboat_api::well_known::{LABEL_BACKUP_UID, LABEL_RESTORE_NAME};
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
        let all = ArchivedSnapshots::default();
        let archived = ArchivedSnapshot::of(&content, &all, &backup).unwrap();
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
        assert_ne!(ArchivedSnapshot::of(&content, &all, &another).unwrap().temporary_name(), name);
    }

    #[test]
    fn only_what_the_backup_has_taken_goes_with_it() {
        let (backup, mut of_user, mut of_another, mut untaken) = (backup(), content(), content(), content());
        of_user["metadata"]["labels"] = Value::Null;
        of_another["metadata"]["labels"][LABEL_BACKUP_NAME] = "weekly".into();
        untaken["status"]["snapshotHandle"] = Value::Null;
        for (what, content) in [("a user", &of_user), ("another backup", &of_another), ("not taken", &untaken)] {
            assert!(ArchivedSnapshot::of(content, &ArchivedSnapshots::default(), &backup).is_none(), "{what}");
        }
    }

    #[test]
    fn a_snapshot_that_has_only_the_name_of_a_backup_is_not_its_own() {
        let labelled = |labels: Value| {
            let mut content = content();
            content["metadata"]["labels"] = labels;
            content
        };
        let own = labelled(json!({LABEL_BACKUP_NAME: "nightly", LABEL_BACKUP_UID: "u"}));
        let mut all = ArchivedSnapshots::of("u");
        all.take(&own);
        let of_old_velero = ArchivedSnapshots::of("u");
        let backup = backup();
        for (what, labels, with_uids, without) in [
            ("its own", json!({LABEL_BACKUP_NAME: "nightly", LABEL_BACKUP_UID: "u"}), true, true),
            ("one of the name before it", json!({LABEL_BACKUP_NAME: "nightly", LABEL_BACKUP_UID: "t"}), false, false),
            ("only the name", json!({LABEL_BACKUP_NAME: "nightly"}), false, true),
            ("restored", json!({LABEL_BACKUP_NAME: "nightly", LABEL_RESTORE_NAME: "r"}), false, false),
            (
                "restored by Velero",
                json!({LABEL_BACKUP_NAME: "nightly", LABEL_BACKUP_UID: "u", LABEL_RESTORE_NAME: "r"}),
                false,
                false,
            ),
            ("a user's", Value::Null, false, false),
        ] {
            let content = labelled(labels);
            let is_its = |all: &ArchivedSnapshots| ArchivedSnapshot::of(&content, all, &backup).is_some();
            assert_eq!((is_its(&all), is_its(&of_old_velero)), (with_uids, without), "{what}");
        }
        let archived = ArchivedSnapshot::of(&own, &all, &backup).unwrap();
        let restored = json!({"metadata": {"labels": {LABEL_BACKUP_NAME: "nightly", LABEL_RESTORE_NAME: "r"}}});
        let of_user = json!({"metadata": {"labels": {"x": "y"}}});
        let stays = |kind: &str, of: &str| ObjectInCluster::OfAnother {
            why: used_by(kind, of, if of == "shop" { "s" } else { "snapcontent-1" }),
        };
        let ours = |snapshot: Option<(&str, &str)>| ObjectInCluster::Ours {
            snapshot: snapshot.map(|(a, b)| NamespacedName::new(a, b)),
        };
        assert_eq!(archived.live(&own, Some(&own)), ours(Some(("shop", "s"))));
        assert_eq!(archived.live(&own, Some(&restored)), stays("VolumeSnapshot", "shop"));
        assert_eq!(archived.live(&own, Some(&of_user)), stays("VolumeSnapshot", "shop"));
        assert_eq!(archived.live(&own, None), ours(None));
        assert_eq!(archived.live(&labelled(Value::Null), None), stays("VolumeSnapshotContent", "cluster"));
    }

    #[test]
    fn velero_snapshots_go_with_their_backup_also_beside_a_group_with_its_uid() {
        let member = |uid: &str| {
            json!({"metadata": {"namespace": "shop", "name": "db", "labels": {LABEL_BACKUP_NAME: "nightly", LABEL_BACKUP_UID: uid}},
                "status": {"boundVolumeSnapshotContentName": "snapcontent-of-group"}})
        };
        let (backup, single) = (backup(), content());
        for uid in ["u", "of-another"] {
            let mut all = ArchivedSnapshots::of("u");
            all.take(&member(uid));
            all.take(&single);
            assert!(ArchivedSnapshot::of(&single, &all, &backup).is_some(), "{uid}");
            let mut of_group = content();
            of_group["metadata"] = json!({"name": "snapcontent-of-group"});
            assert_eq!(ArchivedSnapshot::of(&of_group, &all, &backup).is_some(), uid == "u");
        }
    }

    #[test]
    fn a_snapshot_with_the_name_alone_is_told_where_others_have_the_uid() {
        let with = |labels: Value| {
            let mut content = content();
            content["metadata"]["labels"] = labels;
            content
        };
        let (mut tells, silent) = (ArchivedSnapshots::of("u"), ArchivedSnapshots::of("u"));
        tells.take(&with(json!({LABEL_BACKUP_UID: "u"})));
        for (what, labels, expected) in [
            ("only the name", json!({LABEL_BACKUP_NAME: "nightly"}), true),
            ("another name", json!({LABEL_BACKUP_NAME: "weekly"}), false),
            ("restored", json!({LABEL_BACKUP_NAME: "nightly", LABEL_RESTORE_NAME: "r"}), false),
            ("another's", json!({LABEL_BACKUP_NAME: "nightly", LABEL_BACKUP_UID: "v"}), false),
            ("a user's", Value::Null, false),
        ] {
            let content = with(labels);
            let told = |all: &ArchivedSnapshots| all.has_only_name(&content, "nightly");
            assert_eq!((told(&tells), told(&silent)), (expected, false), "{what}");
        }
    }

    #[test]
    fn a_live_content_is_the_archived_one_when_it_stands_for_the_same() {
        let (backup, archived) = (backup(), content());
        let all = ArchivedSnapshots::default();
        let archived = ArchivedSnapshot::of(&archived, &all, &backup).unwrap();
        assert!(stands_for(&content(), &archived));
        for (pointer, value) in [("/status/snapshotHandle", "snap-2"), ("/spec/driver", "e")] {
            let mut live = content();
            *live.pointer_mut(pointer).unwrap() = value.into();
            assert!(!stands_for(&live, &archived), "{pointer}");
        }
    }
}
