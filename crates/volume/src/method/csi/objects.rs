//! The VolumeSnapshots that we make, and how they are found again.

use crate::class::SnapshotClass;
use crate::facts::Claim;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_BACKUP_UID, LABEL_RESTORE_NAME};
use lifeboat_api::{Backup, label_value};
use lifeboat_object::{ApiResource, Catalog, GroupResource};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The API group of snapshots.
pub const SNAPSHOT_API: &str = "snapshot.storage.k8s.io";

/// The API group of snapshots of several volumes.
pub const GROUP_SNAPSHOT_API: &str = "groupsnapshot.storage.k8s.io";

/// The types of snapshots of several volumes, as a cluster serves them, in whatever version.
#[derive(Clone, Debug)]
pub struct GroupTypes {
    /// VolumeGroupSnapshots.
    pub groups: Arc<ApiResource>,
    /// VolumeGroupSnapshotContents.
    pub contents: Arc<ApiResource>,
    /// VolumeGroupSnapshotClasses.
    pub classes: Arc<ApiResource>,
}

impl GroupTypes {
    /// Finds the types of a cluster; `None` when it does not serve them.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Option<Self> {
        let find = |name: &str| catalog.find(&GroupResource::new(GROUP_SNAPSHOT_API, name)).cloned();
        Some(Self {
            groups: find("volumegroupsnapshots")?,
            contents: find("volumegroupsnapshotcontents")?,
            classes: find("volumegroupsnapshotclasses")?,
        })
    }
}

/// The types of snapshots, as a cluster serves them.
#[derive(Clone, Debug)]
pub struct SnapshotTypes {
    /// VolumeSnapshots.
    pub snapshots: Arc<ApiResource>,
    /// VolumeSnapshotContents.
    pub contents: Arc<ApiResource>,
    /// VolumeSnapshotClasses.
    pub classes: Arc<ApiResource>,
    /// The types for snapshots of several volumes; `None` where they are not served.
    pub groups: Option<GroupTypes>,
}

impl SnapshotTypes {
    /// Finds the types of a cluster; `None` when it does not serve them.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Option<Self> {
        let find = |name: &str| catalog.find(&GroupResource::new(SNAPSHOT_API, name)).cloned();
        Some(Self {
            snapshots: find("volumesnapshots")?,
            contents: find("volumesnapshotcontents")?,
            classes: find("volumesnapshotclasses")?,
            groups: GroupTypes::of(catalog),
        })
    }
}

/// The finalizer that keeps a VolumeSnapshotContent until its driver has deleted the snapshot. The snapshot controller puts it on contents that are
/// bound; one that is made to be deleted has it from the beginning, or it would be gone before the driver sees it.
pub(crate) const SNAPSHOT_CONTENT_FINALIZER: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

/// Selects the VolumeSnapshots of a backup.
pub(crate) fn selector(backup_uid: &str) -> String {
    format!("{LABEL_BACKUP_UID}={backup_uid}")
}

/// The most bytes of a name.
const LONGEST: usize = 253;

/// The name of the snapshot of a claim in a backup: it begins as Velero's do, and ends with what follows from both.
pub(crate) fn name_of(backup_uid: &str, claim: &Claim) -> String {
    let hash = Sha256::digest(format!("{backup_uid}/{}/{}", claim.key, claim.uid));
    let hash = &hex::encode(hash)[..10];
    let name = claim.key.name.as_str();
    let room = LONGEST - "velero--".len() - hash.len();
    let name = name.get(..room.min(name.len())).unwrap_or(name);
    format!("velero-{}-{hash}", name.trim_end_matches(['-', '.']))
}

/// The VolumeSnapshot of a claim (velero: pkg/backup/actions/csi). Unlike Velero's it says by its labels which Backup
/// it is of.
pub(crate) fn snapshot_of(backup: &Backup, claim: &Claim, class: &SnapshotClass, types: &SnapshotTypes) -> Value {
    let mut labels = claim.labels.clone();
    // No restore has made the snapshot, though one may have made the claim.
    labels.remove(LABEL_RESTORE_NAME);
    labels.insert(LABEL_BACKUP_NAME.to_owned(), label_value(&backup.metadata.name));
    labels.insert(LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone());
    json!({
        "apiVersion": types.snapshots.api_version(), "kind": types.snapshots.kind,
        "metadata": {"name": name_of(&backup.metadata.uid, claim), "namespace": claim.key.namespace, "labels": labels},
        "spec": {"source": {"persistentVolumeClaimName": claim.key.name}, "volumeSnapshotClassName": class.name},
    })
}

/// Returns true if the labels of a VolumeSnapshot say, as [`snapshot_of`] writes them, that this backup has taken it.
pub(crate) fn is_snapshot_of(backup: &Backup, snapshot: &Value) -> bool {
    let uid = snapshot["metadata"]["labels"][LABEL_BACKUP_UID].as_str();
    !backup.metadata.uid.is_empty() && uid == Some(&backup.metadata.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::NamespacedName;

    fn claim(name: &str, uid: &str) -> Claim {
        let key = NamespacedName { namespace: "n".into(), name: name.into() };
        Claim { key, uid: uid.into(), ..Claim::default() }
    }

    #[test]
    fn a_snapshot_of_a_restored_claim_is_none_that_a_restore_has_made() {
        let mut restored = claim("c", "1");
        restored.labels = [(LABEL_RESTORE_NAME, "r"), (LABEL_BACKUP_NAME, "before"), ("app", "shop")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let mut backup = Backup::default();
        (backup.metadata.name, backup.metadata.uid) = ("b".into(), "u".into());
        let of = |name: &str, kind: &str| Arc::new(ApiResource::new(SNAPSHOT_API, "v1", name, kind));
        let types = SnapshotTypes {
            snapshots: of("volumesnapshots", "VolumeSnapshot"),
            contents: of("volumesnapshotcontents", "VolumeSnapshotContent"),
            classes: of("volumesnapshotclasses", "VolumeSnapshotClass"),
            groups: None,
        };
        let snapshot = snapshot_of(&backup, &restored, &SnapshotClass::default(), &types);
        let expected = json!({"app": "shop", LABEL_BACKUP_NAME: "b", LABEL_BACKUP_UID: "u"});
        assert_eq!(snapshot["metadata"]["labels"], expected);
    }

    #[test]
    fn a_snapshot_of_a_backup_is_known_by_its_uid() {
        let backup = |uid: &str| Backup {
            metadata: lifeboat_api::ObjectMeta { uid: uid.into(), ..Default::default() },
            ..Default::default()
        };
        let snapshot = |labels: Value| json!({"metadata": {"labels": labels}});
        let is_of = |uid: &str, labels: Value| is_snapshot_of(&backup(uid), &snapshot(labels));
        assert!(is_of("u", json!({LABEL_BACKUP_UID: "u"})));
        // One of another backup, of a user who has copied the name of the backup, of a user, and of nobody.
        assert!(!is_of("u", json!({LABEL_BACKUP_UID: "v"})));
        assert!(!is_of("u", json!({LABEL_BACKUP_NAME: "b"})));
        assert!(!is_of("u", Value::Null));
        assert!(!is_of("", json!({LABEL_BACKUP_UID: ""})));
    }

    #[test]
    fn the_name_follows_from_the_backup_and_the_claim() {
        let name = name_of("b", &claim("data", "u"));
        assert_eq!(name, name_of("b", &claim("data", "u")));
        assert!(name.starts_with("velero-data-") && name.len() == "velero-data-".len() + 10, "{name}");
        let others =
            [name_of("c", &claim("data", "u")), name_of("b", &claim("data", "v")), name_of("b", &claim("d", "u"))];
        assert!(others.iter().all(|other| *other != name), "{others:?}");
        let long = name_of("b", &claim(&"x.".repeat(126), "u"));
        assert!(long.len() <= 253 && !long.contains(".-"), "{long}");
    }
}
