//! Finds the members and contents of a VolumeGroupSnapshot, and gives it its name (velero: pkg/backup/actions/csi).
//! Pure.

use crate::method::csi::answer::text;
use crate::method::csi::objects::{GROUP_SNAPSHOT_API, GroupTypes, SNAPSHOT_API};
use crate::method::csi::reference::Reference;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_BACKUP_UID};
use lifeboat_api::{Backup, label_value};
use lifeboat_object::Item;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The kind of what owns the snapshots of a group.
const KIND: &str = "VolumeGroupSnapshot";
/// The finalizer by which the snapshot-controller deletes the group in the storage with a VolumeGroupSnapshot. Ours
/// have it from the beginning: a group that is deleted before the controller has put it on would be gone before the
/// controller sees that, and objects that the controller makes for it meanwhile would stay.
pub(crate) const GROUP_FINALIZER: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
/// The same of VolumeGroupSnapshotContents, by which the csi-snapshotter does it.
pub(crate) const GROUP_CONTENT_FINALIZER: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
/// Annotation of VolumeGroupSnapshotContents that are to be deleted with their VolumeGroupSnapshot.
pub(crate) const GROUP_BEING_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
/// Annotation of VolumeSnapshotContents: the driver's name of the group.
pub(crate) const HANDLE_OF_GROUP: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
/// The finalizers of members that mean nothing without their group (velero: pkg/backup/actions/csi).
const MEMBER_FINALIZERS: [&str; 2] = [
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection",
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection",
];

/// Name and UID of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupName {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Returns true if an entry of `ownerReferences` names a group, in whatever version of the API: v1beta1, v1beta2, v1.
fn is_group(owner: &Value) -> bool {
    let group = owner["apiVersion"].as_str().unwrap_or_default().split('/').next();
    owner["kind"] == KIND && group == Some(GROUP_SNAPSHOT_API)
}

/// The group that owns a VolumeSnapshot.
pub(crate) fn owner(snapshot: &Value) -> Option<GroupName> {
    let owner = snapshot["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| is_group(owner))?;
    let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    Some(GroupName { name: text("name"), uid: text("uid") })
}

/// The name of the group that a VolumeSnapshot is of: the one that owns it, or that its status names.
pub(crate) fn group_of(snapshot: &Value) -> Option<String> {
    let named = || Some(text(snapshot, "/status/volumeGroupSnapshotName")).filter(|name| !name.is_empty());
    owner(snapshot).map(|owner| owner.name).or_else(|| named().map(str::to_owned))
}

/// Returns true if a VolumeSnapshot is a member of this group of its namespace.
pub(crate) fn is_member(snapshot: &Value, group: &GroupName) -> bool {
    match owner(snapshot) {
        Some(owner) => owner.uid == group.uid,
        None => group_of(snapshot).as_deref() == Some(&group.name),
    }
}

/// Takes off a VolumeSnapshot the fields that bind it to its group; returns true if there were any. A saved
/// VolumeSnapshot must not wait for a group that is in no cluster.
pub(crate) fn leave_group(snapshot: &mut Value) -> bool {
    if group_of(snapshot).is_none() {
        return false;
    }
    let Some(metadata) = snapshot.get_mut("metadata").and_then(Value::as_object_mut) else { return false };
    let mut is_changed = false;
    let mut keep = |field: &str, wanted: &dyn Fn(&Value) -> bool| {
        let Some(all) = metadata.get_mut(field).and_then(Value::as_array_mut) else { return };
        let before = all.len();
        all.retain(|one| wanted(one));
        is_changed |= all.len() < before;
        if all.is_empty() {
            metadata.remove(field);
        }
    };
    keep("ownerReferences", &|owner| !is_group(owner));
    keep("finalizers", &|finalizer| !MEMBER_FINALIZERS.iter().any(|one| finalizer == one));
    is_changed
}

/// Returns true if a VolumeGroupSnapshotContent is of this group.
pub(crate) fn is_content_of(content: &Value, uid: &str) -> bool {
    !uid.is_empty() && Reference::to_group(content).uid == uid
}

/// The most bytes of the readable part of a name.
const READABLE: usize = 63;

/// The part that the names of all groups of a backup have in common.
fn mark_of(backup_uid: &str) -> String {
    hex::encode(Sha256::digest(backup_uid))[..10].to_owned()
}

/// The name of the group of these claims (by their UIDs) in a backup. It begins as Velero's do, and ends with what follows from the
/// backup, the namespace, the label and the claims: an attempt that finds other claims takes another group.
pub(crate) fn name_of_group(backup_uid: &str, namespace: &str, value: &str, claims: &[&str]) -> String {
    let mut claims = claims.to_vec();
    claims.sort_unstable();
    let hash = Sha256::digest(format!("{backup_uid}/{namespace}/{value}/{}", claims.join("/")));
    // The values of labels may have more than names may.
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
    let readable: String = value.chars().map(fit).take(READABLE).collect();
    let readable = readable.trim_matches('-');
    let readable = if readable.is_empty() { "group" } else { readable };
    format!("velero-{readable}-{}-{}", mark_of(backup_uid), &hex::encode(hash)[..10])
}

/// Returns true if a group has a name that [`name_of_group`] gives for a backup.
pub(crate) fn is_named_for(backup_uid: &str, name: &str) -> bool {
    let mut parts = name.rsplit('-');
    let is_hash = parts.next().is_some_and(|part| part.len() == 10);
    !backup_uid.is_empty() && name.starts_with("velero-") && is_hash && parts.next() == Some(&mark_of(backup_uid))
}

/// Returns true if an object is a VolumeSnapshot that a backup has taken, by itself or with a group. A listed object is
/// older than the one that the backup works with, and may be of a claim that is gone.
#[must_use]
pub fn is_snapshot_of_backup(backup_uid: &str, item: &Item) -> bool {
    if backup_uid.is_empty() || item.resource.group != SNAPSHOT_API || item.resource.resource != "volumesnapshots" {
        return false;
    }
    let is_of_its_group = |snapshot: &Value| group_of(snapshot).is_some_and(|group| is_named_for(backup_uid, &group));
    item.head.labels.get(LABEL_BACKUP_UID).is_some_and(|uid| uid == backup_uid)
        // A member is labelled when all of them are there.
        || serde_json::from_slice(&item.body).as_ref().is_ok_and(is_of_its_group)
}

/// Returns true if an object is a VolumeGroupSnapshot that a backup takes, or the content of one. These are means of
/// the backup: restored, they would take a group of what is then in the cluster.
#[must_use]
pub fn is_group_of_backup(backup_uid: &str, item: &Item) -> bool {
    if item.resource.group != GROUP_SNAPSHOT_API {
        return false;
    }
    match item.resource.resource.as_str() {
        "volumegroupsnapshots" => is_named_for(backup_uid, &item.head.name),
        "volumegroupsnapshotcontents" => serde_json::from_slice::<Value>(&item.body)
            .is_ok_and(|content| is_named_for(backup_uid, Reference::to_group(&content).name)),
        _ => false,
    }
}

/// A group that is to be snapshotted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    /// The label that its claims have in common.
    pub(crate) label: (&'a str, &'a str),
    pub(crate) class: &'a str,
}

/// The VolumeGroupSnapshot (velero: pkg/backup/actions/csi).
pub(crate) fn group_snapshot(backup: &Backup, wanted: GroupRequest<'_>, types: &GroupTypes) -> Value {
    let (key, value) = wanted.label;
    json!({
        "apiVersion": types.groups.api_version(), "kind": types.groups.kind,
        "metadata": {"name": wanted.name, "namespace": wanted.namespace, "finalizers": [GROUP_FINALIZER], "labels": {
            key: value, LABEL_BACKUP_NAME: label_value(&backup.metadata.name), LABEL_BACKUP_UID: backup.metadata.uid}},
        "spec": {"volumeGroupSnapshotClassName": wanted.class, "source": {"selector": {"matchLabels": {key: value}}}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::ObjectMeta;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    fn owned(api_version: &str, kind: &str) -> Value {
        json!({"metadata": {"name": "s", "finalizers": [MEMBER_FINALIZERS[0], "example.com/mine", MEMBER_FINALIZERS[1]], "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"},
                {"apiVersion": api_version, "kind": kind, "name": "g", "uid": "2"}]}})
    }

    #[test]
    fn a_snapshot_of_a_backup_is_known_by_its_label_and_by_its_group() {
        let own = name_of_group("u", "n", "pair", &["1"]);
        let item = |resource: &str, uid: &str, group: &str| {
            let resource = ApiResource::new(SNAPSHOT_API, "v1", resource, "Any");
            let object = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "Any",
                "metadata": {"name": "s", "labels": {LABEL_BACKUP_UID: uid}}, "status": {"volumeGroupSnapshotName": group}});
            Item::parse(Arc::new(resource), object.to_string().into()).unwrap()
        };
        for (item, expected) in [
            (item("volumesnapshots", "u", ""), true),
            (item("volumesnapshots", "", &own), true),
            (item("volumesnapshots", "v", "users"), false),
            (item("volumesnapshots", "", &name_of_group("v", "n", "pair", &["1"])), false),
            (item("volumesnapshotclasses", "u", &own), false),
        ] {
            assert_eq!(is_snapshot_of_backup("u", &item), expected, "{item:?}");
        }
        assert!(!is_snapshot_of_backup("", &item("volumesnapshots", "", "")));
    }

    #[test]
    fn groups_of_a_backup_and_their_contents_are_known_by_the_groups_name() {
        let own = name_of_group("u", "n", "pair", &["1"]);
        let item = |resource: &str, kind: &str, name: &str, group: &str| {
            let resource = ApiResource::new(GROUP_SNAPSHOT_API, "v1", resource, kind);
            let object = json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": kind,
                "metadata": {"name": name}, "spec": {"volumeGroupSnapshotRef": {"name": group}}});
            Item::parse(Arc::new(resource), object.to_string().into()).unwrap()
        };
        let (group, content) = ("VolumeGroupSnapshot", "VolumeGroupSnapshotContent");
        for (item, expected) in [
            (item("volumegroupsnapshots", group, &own, ""), true),
            (item("volumegroupsnapshots", group, "users", ""), false),
            (item("volumegroupsnapshots", group, &name_of_group("v", "n", "pair", &["1"]), ""), false),
            (item("volumegroupsnapshotcontents", content, "groupsnapcontent-1", &own), true),
            (item("volumegroupsnapshotcontents", content, &own, "users"), false),
            (item("volumegroupsnapshotclasses", "VolumeGroupSnapshotClass", &own, &own), false),
        ] {
            assert_eq!(is_group_of_backup("u", &item), expected, "{:?}", item.head);
        }
    }

    #[test]
    fn a_snapshot_is_of_the_group_that_owns_it_in_any_version() {
        let group = GroupName { name: "g".into(), uid: "2".into() };
        for version in ["v1", "v1beta1", "v1beta2"] {
            let snapshot = owned(&format!("groupsnapshot.storage.k8s.io/{version}"), KIND);
            assert_eq!(owner(&snapshot).as_ref(), Some(&group), "{version}");
            assert!(is_member(&snapshot, &group), "{version}");
        }
        for (version, kind) in [("groupsnapshot.storage.k8s.io/v1", "Other"), ("example.com/v1", KIND), ("v1", KIND)] {
            let snapshot = owned(version, kind);
            assert!(owner(&snapshot).is_none() && !is_member(&snapshot, &group), "{version} {kind}");
        }
        let another = GroupName { uid: "3".into(), ..group.clone() };
        assert!(
            !is_member(&owned("groupsnapshot.storage.k8s.io/v1", KIND), &another),
            "one of the name that was before"
        );
        let named = json!({"metadata": {"name": "s"}, "status": {"volumeGroupSnapshotName": "g"}});
        assert!(is_member(&named, &group));
        assert!(!is_member(&json!({"status": {"volumeGroupSnapshotName": "h"}}), &group));
        assert!(!is_member(&json!({}), &GroupName { name: String::new(), uid: String::new() }));
    }

    #[test]
    fn what_is_saved_of_a_member_waits_for_no_group() {
        for version in ["v1", "v1beta1", "v1beta2"] {
            let mut snapshot = owned(&format!("groupsnapshot.storage.k8s.io/{version}"), KIND);
            assert!(leave_group(&mut snapshot), "{version}");
            let expected = json!({"metadata": {"name": "s", "finalizers": ["example.com/mine"], "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"}]}});
            assert_eq!(snapshot, expected, "{version}");
            assert!(!leave_group(&mut snapshot), "{version}");
        }
        let mut alone =
            json!({"metadata": {"finalizers": [MEMBER_FINALIZERS[1]]}, "status": {"volumeGroupSnapshotName": "g"}});
        assert!(leave_group(&mut alone));
        assert_eq!(alone["metadata"], json!({}));
        // One of no group keeps what its controller has put on it.
        let single = json!({"metadata": {"finalizers": [MEMBER_FINALIZERS[1]]}});
        let mut same = single.clone();
        assert!(!leave_group(&mut same) && same == single);
        assert!(!leave_group(&mut json!([])));
    }

    #[test]
    fn the_name_follows_from_backup_namespace_label_and_claims_and_is_one() {
        let name =
            |uid: &str, namespace: &str, value: &str, claims: &[&str]| name_of_group(uid, namespace, value, claims);
        let first = name("u", "n", "db", &["1", "2"]);
        assert_eq!(first, name("u", "n", "db", &["2", "1"]));
        assert!(first.starts_with("velero-db-") && first.len() == "velero-db-".len() + 21, "{first}");
        for other in [
            name("v", "n", "db", &["1", "2"]),
            name("u", "m", "db", &["1", "2"]),
            name("u", "n", "dc", &["1", "2"]),
            name("u", "n", "db", &["1"]),
        ] {
            assert_ne!(other, first);
        }
        // Velero's names are refused with such values, which labels may have.
        for (value, expected) in [("My_Group.1", "velero-my-group-1-"), ("_", "velero-group-"), ("-a-", "velero-a-")] {
            assert!(name("u", "n", value, &[]).starts_with(expected), "{value}");
        }
        assert!(name("u", "n", &"x".repeat(200), &[]).len() < 100);
        assert!(is_named_for("u", &first) && !is_named_for("v", &first) && !is_named_for("", &name("", "n", "a", &[])));
        assert!(!is_named_for("u", "velero-db-m6fhj") && !is_named_for("u", "mine"));
    }

    #[test]
    fn a_group_selects_its_claims_by_their_label_and_says_whose_it_is() {
        let of = |resource: &str, kind: &str| Arc::new(ApiResource::new(GROUP_SNAPSHOT_API, "v1beta2", resource, kind));
        let types = GroupTypes {
            groups: of("volumegroupsnapshots", KIND),
            contents: of("volumegroupsnapshotcontents", "VolumeGroupSnapshotContent"),
            classes: of("volumegroupsnapshotclasses", "VolumeGroupSnapshotClass"),
        };
        let metadata = ObjectMeta { name: "nightly".into(), uid: "u".into(), ..ObjectMeta::default() };
        let backup = Backup { metadata, ..Backup::default() };
        let wanted =
            GroupRequest { name: "velero-db-1", namespace: "shop", label: ("team/group", "db"), class: "fast" };
        let expected = json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshot",
            "metadata": {"name": "velero-db-1", "namespace": "shop", "finalizers": [GROUP_FINALIZER],
                "labels": {"team/group": "db", "velero.io/backup-name": "nightly", "velero.io/backup-uid": "u"}},
            "spec": {"volumeGroupSnapshotClassName": "fast", "source": {"selector": {"matchLabels": {"team/group": "db"}}}}});
        assert_eq!(group_snapshot(&backup, wanted, &types), expected);
        let content = json!({"spec": {"volumeGroupSnapshotRef": {"name": "velero-db-1", "uid": "7"}}});
        assert!(is_content_of(&content, "7") && !is_content_of(&content, "8") && !is_content_of(&json!({}), ""));
    }
}
