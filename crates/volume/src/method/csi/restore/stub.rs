//! Lets VolumeSnapshots of a group be restored without the group (velero: pkg/restore/actions/csi,
//! pkg/controller/restore_finalizer_controller.go).
//!
//! Drivers say of a snapshot which group it is of, and the snapshot-controller does not make a VolumeSnapshot ready as long as no
//! VolumeGroupSnapshotContent stands for that group. A restore makes such a content, a stub, and removes it when it ends.

use crate::method::csi::answer::text;
use crate::method::csi::api::{SnapshotApi, each, selected};
use crate::method::csi::content::{DeletionPolicy, SnapshotContent};
use crate::method::csi::delete::settle::{ContentOf, say_handle};
use crate::method::csi::error::CsiError;
use crate::method::csi::group_handle::GroupHandle;
use crate::method::csi::objects::{GroupTypes, SnapshotTypes};
use crate::method::csi::reference::Reference;
use lifeboat_api::well_known::LABEL_RESTORE_NAME;
use lifeboat_api::{Restore, label_value};
use lifeboat_cluster::{Cluster, MergePatch, WriteBody};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

/// The longest time that the csi-snapshotter may take to look at a stub.
const LOOKED: Duration = Duration::from_secs(5);

/// The name of the stub of a group, as Velero names it.
fn stub_name(restore_uid: &str, group: &GroupHandle) -> String {
    hex::encode(Sha256::digest(format!("{restore_uid}/{}", group.handle)))
}

/// A stub: it stands for a group in the storage, and takes nothing from it when it goes.
fn stub(restore: &Restore, group: &GroupHandle, of: StubOf<'_>, types: &GroupTypes, secret: &Value) -> Value {
    let name = stub_name(&restore.metadata.uid, group);
    let reference = format!("stub-vgs-{}", &name[..8]);
    json!({
        "apiVersion": types.contents.api_version(), "kind": types.contents.kind,
        "metadata": {"name": name, "labels": {LABEL_RESTORE_NAME: label_value(&restore.metadata.name)}, "annotations": secret},
        "spec": {
            "driver": group.driver, "deletionPolicy": DeletionPolicy::Retain.as_str(),
            "source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": group.handle, "volumeSnapshotHandles": of.snapshots}},
            "volumeGroupSnapshotRef": {"kind": types.groups.kind, "namespace": of.namespace, "name": reference}},
    })
}

/// The annotations by which the driver of a stub is told its Secret, by the first class of the driver: some, such as that of Ceph RBD, answer
/// no question about a group without it.
fn secret_of(driver: &str, mut classes: Vec<Value>) -> Value {
    classes.sort_by(|a, b| text(a, "/metadata/name").cmp(text(b, "/metadata/name")));
    let mut out = json!({});
    let Some(class) = classes.iter().find(|class| text(class, "/driver") == driver) else { return out };
    for (annotation, parameter) in SECRET {
        if let Some(value) = class["parameters"][parameter].as_str() {
            out[annotation] = value.into();
        }
    }
    out
}

/// Annotations of contents of groups, and the parameters of classes with the same.
const SECRET: [(&str, &str); 2] = [
    ("groupsnapshot.storage.kubernetes.io/deletion-secret-name", "csi.storage.k8s.io/group-snapshotter-secret-name"),
    (
        "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace",
        "csi.storage.k8s.io/group-snapshotter-secret-namespace",
    ),
];

/// The snapshots that a stub is made for.
#[derive(Clone, Copy, Debug)]
pub struct StubOf<'a> {
    /// The namespace into which the VolumeSnapshots are restored.
    pub namespace: &'a str,
    /// The driver's names of the snapshots.
    pub snapshots: &'a BTreeSet<String>,
}

/// Makes the stub of a group, unless it is there.
///
/// # Errors
/// [`CsiError`].
pub async fn make_stub(
    cluster: &Cluster,
    types: &GroupTypes,
    restore: &Restore,
    group: &GroupHandle,
    of: StubOf<'_>,
) -> Result<(), CsiError> {
    let name = stub_name(&restore.metadata.uid, group);
    let mut classes = Vec::new();
    // Without the right to list classes, only drivers that need a Secret fail, and say so.
    let _ = each(cluster, selected(&types.classes, String::new()), |class| classes.push(class)).await;
    let secret = secret_of(&group.driver, classes);
    let wanted = WriteBody::of(stub(restore, group, of, types, &secret).to_string().into());
    match cluster.create(&types.contents, None, &name, wanted).await {
        Ok(_) => {}
        Err(e) if e.is_already_exists() => {}
        Err(e) => return Err(e.into()),
    }
    let of =
        ContentOf { resource: &types.contents, name: &name, field: "volumeGroupSnapshotHandle", handle: &group.handle };
    // A driver need not answer questions about groups, so that the csi-snapshotter may never fill the status in.
    say_handle(cluster, of, LOOKED).await?;
    Ok(())
}

/// The stubs of a restore: the name of each, with the group that it stands for.
///
/// # Errors
/// [`CsiError`].
pub async fn stubs(
    cluster: &Cluster,
    types: &GroupTypes,
    restore: &Restore,
) -> Result<Vec<(String, GroupHandle)>, CsiError> {
    let of_restore = format!("{LABEL_RESTORE_NAME}={}", label_value(&restore.metadata.name));
    let mut out = Vec::new();
    let take = |content: Value| {
        let group = GroupHandle {
            driver: text(&content, "/spec/driver").to_owned(),
            handle: text(&content, "/spec/source/groupSnapshotHandles/volumeGroupSnapshotHandle").to_owned(),
        };
        let name = text(&content, "/metadata/name");
        // A restore of the name that was before may have left another one, which nobody else looks after.
        if Reference::to_group(&content).name.starts_with("stub-vgs-") && !group.handle.is_empty() {
            out.push((name.to_owned(), group));
        }
    };
    each(cluster, selected(&types.contents, of_restore), take).await?;
    Ok(out)
}

/// The readiness of a VolumeSnapshot of a group in a cluster that serves no groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready, becomes so without help, or is gone: nobody has to do anything for it.
    Ready,
    /// Its content is not ready yet.
    Waits,
}

/// Makes a restored VolumeSnapshot of a group ready where the cluster serves no VolumeGroupSnapshots: nothing can stand for its group
/// there, so that the snapshot-controller does not do it. It has the name of its content.
///
/// # Errors
/// [`CsiError`].
pub async fn make_ready(
    cluster: &Cluster,
    types: &SnapshotTypes,
    namespace: &str,
    name: &str,
) -> Result<Readiness, CsiError> {
    let api = SnapshotApi { cluster, types };
    let Some(snapshot) = api.read(&types.snapshots, Some(namespace), name).await? else {
        return Ok(Readiness::Ready);
    };
    if snapshot["status"]["readyToUse"] == true {
        return Ok(Readiness::Ready);
    }
    let Some(body) = api.read(&types.contents, None, name).await? else { return Ok(Readiness::Waits) };
    let content = SnapshotContent::of(&body);
    if content.is_ready != Some(true) {
        return Ok(Readiness::Waits);
    }
    if content.group_handle.is_empty() {
        // Its driver does not say that it is of a group, and nobody asks for that.
        return Ok(Readiness::Ready);
    }
    let (own, bound) = (text(&snapshot, "/metadata/uid"), text(&body, "/spec/volumeSnapshotRef/uid"));
    if bound.is_empty() {
        let patch = json!({"spec": {"volumeSnapshotRef": {"uid": own}}}).to_string();
        cluster.patch(&types.contents, None, name, MergePatch::of(patch.into())).await?;
    } else if bound != own {
        return Ok(Readiness::Waits);
    }
    let status = json!({"status": {"boundVolumeSnapshotContentName": name, "readyToUse": true,
        "restoreSize": content.restore_quantity()}});
    let subresource = types.snapshots.has_subresource("status").then_some("status");
    let patch = MergePatch { body: status.to_string().into(), subresource };
    cluster.patch(&types.snapshots, Some(namespace), name, patch).await?;
    Ok(Readiness::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::csi::objects::GROUP_SNAPSHOT_API;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    #[test]
    fn a_stub_stands_for_a_group_and_keeps_what_is_in_the_storage() {
        let of = |resource: &str, kind: &str| Arc::new(ApiResource::new(GROUP_SNAPSHOT_API, "v1", resource, kind));
        let types = GroupTypes {
            groups: of("volumegroupsnapshots", "VolumeGroupSnapshot"),
            contents: of("volumegroupsnapshotcontents", "VolumeGroupSnapshotContent"),
            classes: of("volumegroupsnapshotclasses", "VolumeGroupSnapshotClass"),
        };
        let archived = json!({"metadata": {"annotations": {"velero.io/csi-driver-name": "d", "velero.io/csi-volumegroupsnapshot-handle": "g"}}});
        let group = GroupHandle::of_archived(&archived).unwrap();
        assert_eq!(group, GroupHandle { driver: "d".into(), handle: "g".into() });
        assert_eq!(
            GroupHandle::of_archived(&json!({"metadata": {"annotations": {"velero.io/csi-driver-name": "d"}}})),
            None
        );
        let mut restore = Restore::default();
        (restore.metadata.name, restore.metadata.uid) = ("r".repeat(70), "u".into());
        let snapshots = BTreeSet::from(["s-a".to_owned(), "s-b".to_owned()]);
        let class = |name: &str, driver: &str, secret: &str| {
            json!({"metadata": {"name": name}, "driver": driver, "parameters": {"other": "x",
                "csi.storage.k8s.io/group-snapshotter-secret-name": secret, "csi.storage.k8s.io/group-snapshotter-secret-namespace": "ceph"}})
        };
        let secret =
            secret_of("d", vec![class("b", "d", "second"), class("a", "d", "first"), class("0", "e", "other")]);
        assert_eq!(secret_of("none", vec![class("a", "d", "first")]), json!({}));
        let made = stub(&restore, &group, StubOf { namespace: "copy", snapshots: &snapshots }, &types, &secret);
        let name = stub_name("u", &group);
        // compat: the name that Velero gives it, so that it finds it.
        assert_eq!(name, hex::encode(Sha256::digest("u/g")));
        let expected = json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
            "metadata": {"name": name, "labels": {"velero.io/restore-name": label_value(&"r".repeat(70))},
                "annotations": {"groupsnapshot.storage.kubernetes.io/deletion-secret-name": "first",
                    "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace": "ceph"}},
            "spec": {"driver": "d", "deletionPolicy": "Retain",
                "source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["s-a", "s-b"]}},
                "volumeGroupSnapshotRef": {"kind": "VolumeGroupSnapshot", "namespace": "copy", "name": format!("stub-vgs-{}", &name[..8])}}});
        assert_eq!(made, expected);
    }
}
