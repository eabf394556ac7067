//! Deletes the groups of snapshots that a backup keeps in the storage. Drivers delete a group as a whole, and must be told all of its
//! snapshots: an archive says both (docs/formats/README.md).

use crate::method::csi::answer::{failed, text};
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::backup::members::GROUP_CONTENT_FINALIZER;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::delete::settle::{ContentOf, Deletion, delete_by_content, temporary_name};
use crate::method::csi::delete::unproven::{Unproven, not_seen_before, used_by};
use crate::method::csi::group_handle::GroupHandle;
use crate::method::csi::objects::GROUP_SNAPSHOT_API;
use crate::method::csi::reference::Reference;
use lifeboat_action::{ActionError, ActionErrorKind};
use lifeboat_api::well_known::{
    ANNOTATION_VOLUME_GROUP_SNAPSHOT_MEMBERS, ANNOTATION_VOLUME_SNAPSHOT_HANDLE, LABEL_BACKUP_NAME, LABEL_BACKUP_UID,
    LABEL_RESTORE_NAME,
};
use lifeboat_api::{Backup, is_of_another_cluster, label_value};
use lifeboat_cluster::WriteBody;
use lifeboat_object::first_names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest time that a driver may take to delete a group.
const DELETED: Duration = Duration::from_secs(120);
/// The annotations by which the csi-snapshotter finds the Secret for the deletion of a group, and of a member.
const SECRETS: [(&str, &str); 2] = [
    ("groupsnapshot.storage.kubernetes.io/deletion-secret-name", "snapshot.storage.kubernetes.io/deletion-secret-name"),
    (
        "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace",
        "snapshot.storage.kubernetes.io/deletion-secret-namespace",
    ),
];

/// The snapshots in the archive of a backup: the groups that they belong to, and the VolumeSnapshots that the backup
/// has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchivedSnapshots {
    backup_uid: String,
    groups: BTreeMap<GroupHandle, ArchivedGroup>,
    /// The names of the contents of the VolumeSnapshots that the backup has taken.
    taken: BTreeSet<String>,
    /// True when any of its contents has the UID of the backup, as all have that Lifeboat has taken. Velero labels the
    /// snapshots of groups so, and neither others nor contents.
    tells_uids: bool,
}

/// A group in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ArchivedGroup {
    /// The driver's names of its snapshots.
    snapshots: BTreeSet<String>,
    /// The claims that they are of, as far as they are in the backup.
    claims: BTreeSet<String>,
}

impl ArchivedSnapshots {
    /// Begins with an empty archive, of a backup with this UID in its objects.
    #[must_use]
    pub fn of(backup_uid: &str) -> Self {
        Self { backup_uid: backup_uid.to_owned(), ..Self::default() }
    }

    /// Returns true if the archive has a VolumeSnapshot of this content that the backup has taken. The content is
    /// labelled after that, and a content that could not be labelled is the backup's all the same.
    fn has_taken(&self, content: &Value) -> bool {
        self.taken.contains(text(content, "/metadata/name"))
    }

    /// Returns true if the backup of this name has taken the snapshot behind an object: the UID tells, for the name may
    /// have been another backup's before, and an object that a restore makes has the name of its backup too. Without
    /// any UID in the archive the name has to do.
    pub(crate) fn is_own(&self, object: &Value, backup: &str) -> bool {
        // Velero's restores leave the UID of the backup on what they make.
        if label(object, LABEL_RESTORE_NAME).is_some() {
            return false;
        }
        match label(object, LABEL_BACKUP_UID) {
            Some(uid) => uid == self.backup_uid,
            None if self.has_taken(object) => true,
            None => !self.tells_uids && has_name(object, backup),
        }
    }

    /// Returns true if an object has the name of this backup, and nothing more says whose it is, in an archive in which
    /// the backup's own contents have its UID.
    pub(crate) fn has_only_name(&self, object: &Value, backup: &str) -> bool {
        let says_more = [LABEL_RESTORE_NAME, LABEL_BACKUP_UID].iter().any(|key| label(object, key).is_some());
        self.tells_uids && !says_more && !self.has_taken(object) && has_name(object, backup)
    }

    /// Takes in an object of the archive: a VolumeSnapshot or a VolumeSnapshotContent. Others say nothing.
    pub fn take(&mut self, object: &Value) {
        let content = text(object, "/status/boundVolumeSnapshotContentName");
        let is_own = label(object, LABEL_BACKUP_UID).is_some_and(|uid| uid == self.backup_uid);
        // A content has no namespace.
        self.tells_uids |= is_own && text(object, "/metadata/namespace").is_empty();
        if !content.is_empty() && is_own {
            self.taken.insert(content.to_owned());
        }
        let annotation = |key: &str| object["metadata"]["annotations"][key].as_str().unwrap_or_default();
        let (of_content, of_snapshot) = (GroupHandle::of_content(object), GroupHandle::of_archived(object));
        let snapshot = match of_content {
            Some(_) => text(object, "/status/snapshotHandle"),
            None => annotation(ANNOTATION_VOLUME_SNAPSHOT_HANDLE),
        };
        let Some(group) = of_content.or(of_snapshot) else { return };
        let group = self.groups.entry(group).or_default();
        let all: Vec<String> =
            serde_json::from_str(annotation(ANNOTATION_VOLUME_GROUP_SNAPSHOT_MEMBERS)).unwrap_or_default();
        let own = (!snapshot.is_empty()).then(|| snapshot.to_owned());
        group.snapshots.extend(all.into_iter().chain(own));
        let claim = text(object, "/spec/source/persistentVolumeClaimName");
        if !claim.is_empty() {
            group.claims.insert(format!("{}/{claim}", text(object, "/metadata/namespace")));
        }
    }
}

/// A label of an object; `None` also when it is empty.
fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str().filter(|value| !value.is_empty())
}

fn has_name(object: &Value, backup: &str) -> bool {
    label(object, LABEL_BACKUP_NAME) == Some(label_value(backup).as_str())
}

/// Deletes groups, each once, however many of its members ask for it.
pub(crate) struct GroupDeletion {
    archived: ArchivedSnapshots,
    unproven: Unproven,
    /// Groups that a member has asked for, except those that are tried again.
    begun: Mutex<BTreeSet<GroupHandle>>,
}

impl GroupDeletion {
    pub(crate) fn new(archived: ArchivedSnapshots, unproven: &Unproven) -> Self {
        Self { archived, unproven: unproven.clone(), begun: Mutex::default() }
    }

    /// Snapshots that are not known to be gone.
    pub(crate) fn unproven(&self) -> &Unproven {
        &self.unproven
    }

    /// The snapshots in the archive.
    pub(crate) fn archived(&self) -> &ArchivedSnapshots {
        &self.archived
    }

    /// Deletes the group of an archived content, and waits until its driver has. A group that another member has asked
    /// for is left to that one.
    ///
    /// # Errors
    /// The reason for which it was not deleted, with the claims whose snapshots are in it.
    pub(crate) async fn delete(
        &self,
        api: SnapshotApi<'_>,
        group: GroupHandle,
        content: &Value,
        backup: &Backup,
    ) -> Result<(), ActionError> {
        if !self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(group.clone()) {
            return Ok(());
        }
        let archived = self.archived.groups.get(&group).cloned().unwrap_or_default();
        let one = GroupToDelete { backup, group: &group, archived: &archived, content, all: self };
        let Some(of) = &api.types.groups else {
            let why = format!("the cluster does not serve {GROUP_SNAPSHOT_API}, and without it no driver is told");
            return Err(one.not_deleted(&why));
        };
        let groups = Groups { api, groups: of };
        let deleted = one.delete(groups).await;
        deleted.map_err(|e| {
            if matches!(e.kind, ActionErrorKind::Passing | ActionErrorKind::Gone) {
                // The caller asks again, and must not hear that another one has.
                self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
            }
            ActionError { message: one.message(&e.message), ..e }
        })
    }
}

/// A group that is being deleted.
struct GroupToDelete<'a> {
    backup: &'a Backup,
    group: &'a GroupHandle,
    archived: &'a ArchivedGroup,
    /// The archived content of a member.
    content: &'a Value,
    all: &'a GroupDeletion,
}

impl GroupToDelete<'_> {
    async fn delete(&self, groups: Groups<'_>) -> Result<(), ActionError> {
        let item = |e: crate::method::csi::error::CsiError| ActionError::item(e.to_string());
        // What the backup could not take out of the cluster is deleted as what it is.
        for content in groups.contents(|content| self.is_its_content(content)).await.map_err(item)? {
            let group = Reference::to_group(&content);
            let live = groups.group(group.namespace, group.name).await.map_err(item)?;
            let Some(live) = live.filter(|live| group.is_to(live)) else { continue };
            if !self.all.archived.is_own(&live, &self.backup.metadata.name) {
                let why = used_by("VolumeGroupSnapshot", group.namespace, group.name);
                self.all.unproven.add(self.content, &self.group.handle, why);
                return Ok(());
            }
            groups.remove(group.namespace, group.name).await.map_err(item)?;
        }
        self.delete_by_handle(groups).await
    }

    fn is_its_content(&self, content: &Value) -> bool {
        text(content, "/spec/driver") == self.group.driver
            && text(content, "/status/volumeGroupSnapshotHandle") == self.group.handle
            && !Reference::to_group(content).uid.is_empty()
    }

    /// Makes a content for the group, without a VolumeGroupSnapshot, deletes it, and waits until its driver has deleted
    /// the group.
    async fn delete_by_handle(&self, groups: Groups<'_>) -> Result<(), ActionError> {
        let (cluster, resource, name) = (groups.api.cluster, &groups.groups.contents, self.temporary_name());
        let wanted = WriteBody::of(self.temporary(groups).to_string().into());
        match cluster.create(resource, None, &name, wanted).await {
            Ok(_) => {}
            // An attempt before has made it.
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(failed(e)),
        }
        let of = ContentOf { resource, name: &name, field: "volumeGroupSnapshotHandle", handle: &self.group.handle };
        let content = match delete_by_content(cluster, of, DELETED).await.map_err(failed)? {
            Deletion::Left(content) => content,
            Deletion::Done { was_seen } => {
                // Which cluster this is may not be known: then the marks of the backup say it.
                let this = cluster.uid().await.unwrap_or_default();
                if !was_seen && is_of_another_cluster(self.backup, &this) {
                    self.all.unproven.add(self.content, &self.group.handle, not_seen_before());
                }
                return Ok(());
            }
        };
        let said = match text(&content, "/status/error/message") {
            "" => {
                "nothing; do the driver and its csi-snapshotter run, with CSIVolumeGroupSnapshot switched on? its log says more"
            }
            said => said,
        };
        Err(ActionError::item(format!(
            "its driver has not done it within {} s; it says on the VolumeGroupSnapshotContent {name}: {said}",
            DELETED.as_secs()
        )))
    }

    /// The name of the content by which the group is deleted.
    fn temporary_name(&self) -> String {
        temporary_name(&self.backup.metadata.uid, &self.group.driver, &self.group.handle)
    }

    fn temporary(&self, groups: Groups<'_>) -> Value {
        let (resource, name) = (&groups.groups.contents, self.temporary_name());
        let mut annotations = serde_json::Map::new();
        for (of_group, of_member) in SECRETS {
            if let Some(value) = self.content["metadata"]["annotations"][of_member].as_str() {
                annotations.insert(of_group.to_owned(), value.into());
            }
        }
        json!({
            "apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": name, "labels": {LABEL_BACKUP_NAME: label_value(&self.backup.metadata.name)},
                "annotations": annotations, "finalizers": [GROUP_CONTENT_FINALIZER]},
            "spec": {
                "driver": self.group.driver, "deletionPolicy": DeletionPolicy::Delete.as_str(),
                "source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": self.group.handle,
                    "volumeSnapshotHandles": self.archived.snapshots}},
                "volumeGroupSnapshotRef": {"kind": groups.groups.groups.kind, "namespace": name, "name": name}},
        })
    }

    fn not_deleted(&self, why: &str) -> ActionError {
        ActionError::item(self.message(why))
    }

    fn message(&self, why: &str) -> String {
        let GroupHandle { driver, handle } = self.group;
        let (count, claims) = (self.archived.snapshots.len(), self.archived.claims.iter().cloned().collect::<Vec<_>>());
        let claims = if claims.is_empty() { "claims that are not known".to_owned() } else { first_names(&claims) };
        format!(
            "the group {handle} of the driver {driver}, with {count} snapshots, of {claims}, was not deleted from the storage: {why}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::ObjectMeta;

    fn snapshot(claim: &str, handle: &str, all: &Value) -> Value {
        json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "shop", "name": claim, "annotations": {
                "velero.io/csi-driver-name": "d", "velero.io/csi-volumegroupsnapshot-handle": "g",
                "velero.io/csi-volumesnapshot-handle": handle, "lifeboat.io/volume-group-snapshot-members": all}},
            "spec": {"source": {"persistentVolumeClaimName": claim}}})
    }

    fn content(handle: &str, group: &Value) -> Value {
        json!({"kind": "VolumeSnapshotContent", "metadata": {"name": handle, "annotations": {
                "snapshot.storage.kubernetes.io/deletion-secret-name": "key",
                "snapshot.storage.kubernetes.io/deletion-secret-namespace": "vault"}},
            "spec": {"driver": "d"}, "status": {"snapshotHandle": handle, "volumeGroupSnapshotHandle": group}})
    }

    #[test]
    fn an_archive_says_which_snapshots_a_group_has_also_one_of_velero() {
        let mut groups = ArchivedSnapshots::default();
        let single = json!({"metadata": {"annotations": {"velero.io/csi-driver-name": "d", "velero.io/csi-volumesnapshot-handle": "x"}}});
        for object in [
            snapshot("a", "s-a", &json!("[\"s-a\",\"s-b\",\"s-outside\"]")),
            content("s-a", &json!("g")),
            // As Velero's archives have them.
            snapshot("b", "s-b", &Value::Null),
            content("s-b", &json!("g")),
            content("s-other", &json!("h")),
            content("s-single", &Value::Null),
            single,
            json!("odd"),
        ] {
            groups.take(&object);
        }
        let of = |snapshots: &[&str], claims: &[&str]| ArchivedGroup {
            snapshots: snapshots.iter().map(|&s| s.to_owned()).collect(),
            claims: claims.iter().map(|&s| s.to_owned()).collect(),
        };
        let key = |handle: &str| GroupHandle { driver: "d".into(), handle: handle.into() };
        let expected = BTreeMap::from([
            (key("g"), of(&["s-a", "s-b", "s-outside"], &["shop/a", "shop/b"])),
            (key("h"), of(&["s-other"], &[])),
        ]);
        assert_eq!(groups, ArchivedSnapshots { groups: expected, ..ArchivedSnapshots::default() });
        assert_eq!(GroupHandle::of_content(&content("s-a", &json!("g"))), Some(key("g")));
        assert_eq!(GroupHandle::of_content(&content("s-single", &Value::Null)), None);
    }

    #[test]
    fn a_content_without_label_is_known_by_its_snapshot() {
        let mut archived = ArchivedSnapshots::of("u");
        let snapshot = |content: &str, labels: Value| {
            json!({"metadata": {"namespace": "n", "name": "s", "labels": labels},
                "status": {"boundVolumeSnapshotContentName": content}})
        };
        archived.take(&snapshot("ours", json!({"velero.io/backup-uid": "u"})));
        // Of a backup that had the same name.
        archived.take(&snapshot("of-another", json!({"velero.io/backup-name": "b", "velero.io/backup-uid": "v"})));
        archived.take(&snapshot("restored", json!({"velero.io/backup-name": "b"})));
        archived.take(&snapshot("of-a-user", Value::Null));
        let is_taken = |name: &str| archived.has_taken(&json!({"metadata": {"name": name}}));
        assert_eq!(
            ["ours", "of-another", "restored", "of-a-user", "unknown"].map(is_taken),
            [true, false, false, false, false]
        );
    }

    #[test]
    fn a_group_that_cannot_be_deleted_is_named_with_its_claims() {
        let metadata = ObjectMeta { name: "nightly".into(), uid: "u".into(), ..ObjectMeta::default() };
        let backup = Backup { metadata, ..Backup::default() };
        let group = GroupHandle { driver: "d".into(), handle: "g".into() };
        let archived = ArchivedGroup {
            snapshots: ["s-a".to_owned(), "s-b".to_owned()].into(),
            claims: ["shop/a".to_owned()].into(),
        };
        let member = content("s-a", &json!("g"));
        let all = GroupDeletion::new(ArchivedSnapshots::default(), &Unproven::default());
        let one = GroupToDelete { backup: &backup, group: &group, archived: &archived, content: &member, all: &all };
        let expected =
            "the group g of the driver d, with 2 snapshots, of shop/a, was not deleted from the storage: it is busy";
        assert_eq!(one.not_deleted("it is busy").message, expected);
        assert_eq!(one.temporary_name().len(), 34);
    }
}
