//! A cluster in which the snapshot controller acts at once, and an agent that may die after any step.

use super::upload;
use crate::exposer::handover::{HandoverStep, HandoverView, ReleaseStep, next_step, source_content};
use crate::exposer::moved_snapshot::MovedSnapshot;
use crate::exposer::upload_removal::{self, RemovalStep, RemovalView, made_volume};
use crate::transfer::{Transfer, TransferRequest};
use serde_json::{Value, json};

/// The most steps of a handover or a removal.
const MOST_STEPS: usize = 20;

#[derive(Clone, Debug, PartialEq)]
struct ScriptedCluster {
    source: Option<Value>,
    source_content: Option<Value>,
    copy: Option<Value>,
    copy_content: Option<Value>,
    claim: Option<Value>,
    volume: Option<Value>,
    /// The snapshot in the storage.
    has_snapshot: bool,
}

fn source() -> Value {
    json!({
        "metadata": {"name": "vs", "namespace": "shop", "uid": "vs-uid", "annotations": {"a": "b"}},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "snap"},
        "status": {"boundVolumeSnapshotContentName": "snapcontent-1", "readyToUse": true, "restoreSize": "8Mi"},
    })
}

fn content() -> Value {
    json!({
        "metadata": {
            "name": "snapcontent-1", "uid": "vsc-uid", "resourceVersion": "5",
            "labels": {"snapshot.storage.kubernetes.io/managed-by": "n1", "other": "x"},
            "annotations": {
                "snapshot.storage.kubernetes.io/deletion-secret-name": "s",
                "snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes",
            },
        },
        "spec": {
            "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "vol"}, "sourceVolumeMode": "Filesystem",
            "volumeSnapshotClassName": "snap", "volumeSnapshotRef": {"name": "vs", "namespace": "shop", "uid": "vs-uid"},
        },
        "status": {"snapshotHandle": "snap-1", "restoreSize": 8_388_608},
    })
}

fn apply(object: &mut Option<Value>, patch: &Value) {
    fn merge(into: &mut Value, patch: &Value) {
        match patch {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| merge(&mut into[key.as_str()], value)),
            other => *into = other.clone(),
        }
    }
    merge(object.as_mut().expect("an object to patch"), patch);
}

fn policy(content: Option<&Value>) -> &str {
    content.and_then(|content| content["spec"]["deletionPolicy"].as_str()).unwrap_or_default()
}

impl ScriptedCluster {
    fn new(is_in_group: bool) -> Self {
        let mut source = source();
        if is_in_group {
            source["status"]["volumeGroupSnapshotName"] = json!("group");
        }
        Self {
            source: Some(source),
            source_content: Some(content()),
            copy: None,
            copy_content: None,
            claim: None,
            volume: None,
            has_snapshot: true,
        }
    }

    /// The contents that an agent would look at.
    fn known_content(&self, transfer: &Transfer) -> Option<&Value> {
        let copies = [self.copy_content.as_ref(), self.copy.as_ref()];
        let name = source_content(transfer, self.source.as_ref(), copies);
        self.source_content.as_ref().filter(|content| content["metadata"]["name"] == name)
    }

    fn handover(&self, transfer: &Transfer) -> HandoverStep {
        let TransferRequest::DataUpload(spec) = &transfer.request else { panic!("no upload") };
        next_step(&HandoverView {
            transfer,
            spec,
            source: self.source.as_ref(),
            source_content: self.known_content(transfer),
            copy: self.copy.as_ref(),
            copy_content: self.copy_content.as_ref(),
        })
    }

    fn removal(&self, transfer: &Transfer, may_wait: bool) -> RemovalStep {
        let name = made_volume(self.claim.as_ref(), self.copy.as_ref());
        upload_removal::next_step(&RemovalView {
            transfer,
            claim: self.claim.as_ref(),
            volume: self.volume.as_ref().filter(|volume| volume["metadata"]["name"] == name),
            source: self.source.as_ref(),
            source_content: self.known_content(transfer),
            copy: self.copy.as_ref(),
            copy_content: self.copy_content.as_ref(),
            may_wait,
        })
    }

    /// The driver deletes the snapshot if this policy says so.
    fn content_goes(&mut self, policy: &str) {
        self.has_snapshot &= policy != "Delete";
    }

    fn release(&mut self, step: &ReleaseStep) {
        match step {
            ReleaseStep::PatchContent { name, patch } => {
                assert_eq!(name, "snapcontent-1");
                apply(&mut self.source_content, patch);
            }
            ReleaseStep::DeleteSource { uid } => {
                assert_eq!(uid, "vs-uid");
                self.source = None;
                if policy(self.source_content.as_ref()) == "Delete" {
                    self.source_content = None;
                    self.content_goes("Delete");
                }
            }
            ReleaseStep::DeleteContent { name, uid } => {
                assert_eq!((name.as_str(), uid.as_str()), ("snapcontent-1", "vsc-uid"));
                let policy = policy(self.source_content.as_ref()).to_owned();
                self.source_content = None;
                self.content_goes(&policy);
            }
            ReleaseStep::Wait(reason) => panic!("{reason}"),
        }
    }

    /// Does a step of a handover; gives false when it is done.
    fn hand_over(&mut self, transfer: &Transfer) -> bool {
        match self.handover(transfer) {
            HandoverStep::CreateSnapshot(mut object) => {
                object["metadata"]["uid"] = json!("copy-uid");
                self.copy = Some(object);
            }
            HandoverStep::CreateContent(mut object) => {
                object["metadata"]["uid"] = json!("content-uid");
                self.copy_content = Some(object);
            }
            HandoverStep::Release(step) => self.release(&step),
            HandoverStep::Done(_) => return false,
            other => panic!("{other:?}"),
        }
        true
    }

    /// Does a step of a removal; gives false when it is done.
    fn remove(&mut self, transfer: &Transfer) -> bool {
        match self.removal(transfer, true) {
            RemovalStep::PatchCopy(patch) => apply(&mut self.copy, &patch),
            RemovalStep::PatchCopyContent(patch) => apply(&mut self.copy_content, &patch),
            RemovalStep::PatchVolume(patch) => apply(&mut self.volume, &patch),
            RemovalStep::DeleteClaim { uid } => {
                assert_eq!(uid, "claim-uid");
                self.claim = None;
            }
            RemovalStep::Release(step) => self.release(&step),
            RemovalStep::DeleteCopy { uid } => {
                assert_eq!(uid, "copy-uid");
                self.copy = None;
            }
            RemovalStep::DeleteCopyContent { uid } => {
                assert_eq!(uid, "content-uid");
                let policy = policy(self.copy_content.as_ref()).to_owned();
                self.copy_content = None;
                self.content_goes(&policy);
            }
            RemovalStep::Wait(reason) => {
                // The storage deletes the volume.
                assert_eq!(reason, "the volume pv-1, which was made from the snapshot, is being deleted");
                assert_eq!((self.claim.as_ref(), self.has_snapshot), (None, true));
                assert_eq!(self.volume.take().unwrap()["spec"]["persistentVolumeReclaimPolicy"], "Delete");
            }
            RemovalStep::Done { left } => {
                assert_eq!(left, Vec::<String>::new());
                return false;
            }
        }
        true
    }

    /// The claim is made, and gets a volume of a class that retains volumes.
    fn provision(&mut self) {
        self.claim = Some(json!({"metadata": {"name": "du-1", "uid": "claim-uid"}, "spec": {"volumeName": "pv-1"}}));
        self.volume = Some(json!({
            "metadata": {
                "name": "pv-1", "resourceVersion": "9", "creationTimestamp": "2026-11-28T12:00:01Z",
                "annotations": {"pv.kubernetes.io/provisioned-by": "d"},
            },
            "spec": {
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "velero", "name": "du-1", "uid": "claim-uid"},
            },
        }));
    }
}

fn moved(is_in_group: bool) -> MovedSnapshot {
    MovedSnapshot {
        data_upload: "du-uid".into(),
        content: "snapcontent-1".into(),
        handle: "snap-1".into(),
        restore_size: "8Mi".into(),
        volume_mode: "Filesystem".into(),
        is_in_group,
    }
}

#[test]
fn a_snapshot_is_handed_over_and_never_without_a_content_that_owns_it() {
    let transfer = upload(json!({}));
    let mut cluster = ScriptedCluster::new(false);
    let mut steps = 0;
    while cluster.hand_over(&transfer) {
        steps += 1;
        let owners = [cluster.source_content.as_ref(), cluster.copy_content.as_ref()];
        assert!(cluster.has_snapshot && owners.iter().any(Option::is_some), "{cluster:?}");
        let is_deleting = |content: &&Value| policy(Some(content)) == "Delete";
        // From when the source goes, one content alone deletes the snapshot.
        if cluster.source.is_none() {
            assert_eq!(owners.into_iter().flatten().filter(is_deleting).count(), 1, "{cluster:?}");
        }
    }
    assert_eq!(steps, 5);
    assert_eq!(cluster.handover(&transfer), HandoverStep::Done(moved(false)));
    let note = serde_json::to_string(&moved(false)).unwrap();
    let copy = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {
            "name": "du-1", "namespace": "velero", "uid": "copy-uid",
            "annotations": {"a": "b", "lifeboat.io/moved-snapshot": note},
        },
        "spec": {"source": {"volumeSnapshotContentName": "du-1"}, "volumeSnapshotClassName": "snap"},
    });
    let reference = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "name": "du-1", "namespace": "velero",
        "uid": "copy-uid",
    });
    let copy_content = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {
            "name": "du-1", "uid": "content-uid", "labels": {"snapshot.storage.kubernetes.io/managed-by": "n1"},
            "annotations": {
                "snapshot.storage.kubernetes.io/deletion-secret-name": "s",
                "snapshot.storage.kubernetes.io/allow-volume-mode-change": "true", "lifeboat.io/moved-snapshot": note,
            },
            "finalizers": ["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"],
        },
        "spec": {
            "deletionPolicy": "Delete", "driver": "d", "source": {"snapshotHandle": "snap-1"},
            "volumeSnapshotClassName": "snap", "sourceVolumeMode": "Filesystem", "volumeSnapshotRef": reference,
        },
    });
    let expected = ScriptedCluster {
        source: None,
        source_content: None,
        copy: Some(copy),
        copy_content: Some(copy_content),
        claim: None,
        volume: None,
        has_snapshot: true,
    };
    assert_eq!(cluster, expected);
}

#[test]
fn the_snapshot_of_a_group_is_copied_and_left_to_its_group() {
    let transfer = upload(json!({}));
    let mut cluster = ScriptedCluster::new(true);
    while cluster.hand_over(&transfer) {}
    assert_eq!(cluster.handover(&transfer), HandoverStep::Done(moved(true)));
    assert_eq!(policy(cluster.copy_content.as_ref()), "Retain");
    cluster.provision();
    while cluster.remove(&transfer) {}
    assert_eq!(cluster, ScriptedCluster::new(true));
}

#[test]
fn each_sign_of_a_group_is_seen() {
    let transfer = upload(json!({}));
    let owner =
        json!([{"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshot", "uid": "g"}]);
    let of_source = [
        json!({"metadata": {"ownerReferences": owner}}),
        json!({"status": {"volumeGroupSnapshotName": "group"}}),
        json!({"metadata": {"annotations": {"velero.io/csi-volumegroupsnapshot-handle": "g"}}}),
    ];
    let of_content = [
        json!({"status": {"volumeGroupSnapshotHandle": "g"}}),
        json!({"metadata": {"annotations": {"groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle": "g"}}}),
    ];
    let of_source = of_source.into_iter().map(|patch| (patch, true));
    for (patch, is_source) in of_source.chain(of_content.into_iter().map(|patch| (patch, false))) {
        let mut cluster = ScriptedCluster::new(false);
        let object = if is_source { &mut cluster.source } else { &mut cluster.source_content };
        apply(object, &patch);
        let before = (cluster.source.clone(), cluster.source_content.clone());
        while cluster.hand_over(&transfer) {}
        assert_eq!(cluster.handover(&transfer), HandoverStep::Done(moved(true)), "{patch}");
        assert_eq!((cluster.source, cluster.source_content), before, "{patch}");
    }
}

#[test]
fn a_removal_after_any_step_leaves_nothing_and_deletes_the_snapshot() {
    let transfer = upload(json!({}));
    for retains in [false, true] {
        for steps in 0..=6 {
            let mut cluster = ScriptedCluster::new(false);
            if retains {
                // The class says so.
                cluster.source_content.as_mut().unwrap()["spec"]["deletionPolicy"] = json!("Retain");
            }
            for _ in 0..steps {
                if !cluster.hand_over(&transfer) {
                    cluster.provision();
                }
            }
            let mut removed = 0;
            while cluster.remove(&transfer) {
                removed += 1;
                assert!(removed < MOST_STEPS, "{cluster:?}");
            }
            assert!(!cluster.has_snapshot, "after {steps} steps: {cluster:?}");
            let ScriptedCluster { source, source_content, copy, copy_content, claim, volume, .. } = &cluster;
            let left = [source, copy, copy_content, claim, volume].into_iter().flatten().count();
            assert_eq!((left, source_content.as_ref()), (0, None), "after {steps} steps");
        }
    }
}

#[test]
fn a_snapshot_of_the_next_attempt_is_neither_taken_nor_removed() {
    let transfer = upload(json!({"metadata": {"creationTimestamp": "2026-11-28T12:00:00Z"}}));
    for (made, is_its_own) in [("2026-11-28T12:00:00Z", true), ("2026-11-28T12:00:01Z", false)] {
        let mut cluster = ScriptedCluster::new(false);
        cluster.source.as_mut().unwrap()["metadata"]["creationTimestamp"] = json!(made);
        assert_eq!(matches!(cluster.handover(&transfer), HandoverStep::CreateSnapshot(_)), is_its_own, "{made}");
        while cluster.remove(&transfer) {}
        assert_eq!(cluster.has_snapshot, !is_its_own, "{made}");
    }
}

#[test]
fn a_source_that_is_not_ready_is_waited_for_with_its_error() {
    let transfer = upload(json!({}));
    let step = |change: &dyn Fn(&mut ScriptedCluster)| {
        let mut cluster = ScriptedCluster::new(false);
        change(&mut cluster);
        cluster.handover(&transfer)
    };
    let name = "VolumeSnapshot shop/vs";
    let status = |status: Value| {
        move |cluster: &mut ScriptedCluster| cluster.source.as_mut().unwrap()["status"] = status.clone()
    };
    let waits = |why: &str| HandoverStep::Wait(format!("the {name} {why}"));
    let failed = |why: &str| HandoverStep::Failed(why.to_owned());
    let bound = "snapcontent-1";
    assert_eq!(step(&status(json!({}))), waits("is not ready"));
    let error = json!({"boundVolumeSnapshotContentName": bound, "readyToUse": false, "error": {"message": "quota"}});
    assert_eq!(step(&status(error)), waits("is not ready: quota"));
    let gone = failed("the VolumeSnapshot shop/vs, which is to be moved, is gone; make another backup");
    assert_eq!(step(&|cluster| cluster.source = None), gone);
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}});
    assert_eq!(step(&|cluster| apply(&mut cluster.source, &deleting)), gone);
    let without = failed("the VolumeSnapshotContent of the VolumeSnapshot shop/vs is gone");
    assert_eq!(step(&|cluster| cluster.source_content = None), without);
    let other = json!({"spec": {"volumeSnapshotRef": {"uid": "other"}}});
    let of_other = failed("the VolumeSnapshotContent of the VolumeSnapshot shop/vs is of another one");
    assert_eq!(step(&|cluster| apply(&mut cluster.source_content, &other)), of_other);
    let handle = json!({"status": {"snapshotHandle": ""}});
    let none = waits("has no snapshot in the storage yet");
    assert_eq!(step(&|cluster| apply(&mut cluster.source_content, &handle)), none);
}

#[test]
fn foreign_objects_of_the_name_of_the_copy_are_left_alone() {
    let transfer = upload(json!({}));
    let mut other = moved(false);
    other.data_upload = "another".into();
    let noted = json!({"metadata": {
        "name": "du-1", "uid": "x", "annotations": {"lifeboat.io/moved-snapshot": serde_json::to_string(&other).unwrap()},
    }});
    for foreign in [json!({"metadata": {"name": "du-1", "uid": "x"}}), noted] {
        let mut cluster = ScriptedCluster::new(false);
        cluster.copy = Some(foreign.clone());
        let why = "there is a VolumeSnapshot du-1 that belongs to something else; delete it if nobody needs its snapshot, and make another backup";
        assert_eq!(cluster.handover(&transfer), HandoverStep::Failed(why.to_owned()));
        cluster.copy_content = Some(foreign.clone());
        while cluster.remove(&transfer) {}
        assert_eq!((cluster.copy, cluster.copy_content), (Some(foreign.clone()), Some(foreign)));
        assert_eq!((cluster.source, cluster.has_snapshot), (None, false));
    }
}

#[test]
fn a_copy_that_a_node_agent_of_velero_has_made_is_taken_over() {
    let transfer = upload(json!({}));
    let mut cluster = ScriptedCluster::new(false);
    while cluster.hand_over(&transfer) {}
    for copy in [&mut cluster.copy, &mut cluster.copy_content].into_iter().flatten() {
        copy["metadata"]["annotations"].as_object_mut().unwrap().remove("lifeboat.io/moved-snapshot");
    }
    let HandoverStep::Done(known) = cluster.handover(&transfer) else { panic!("it is handed over") };
    assert_eq!((known.handle.as_str(), known.volume_mode.as_str()), ("snap-1", "Filesystem"));
    cluster.provision();
    let mut removed = 0;
    while cluster.remove(&transfer) {
        removed += 1;
        assert!(removed < MOST_STEPS, "{cluster:?}");
    }
    assert_eq!((cluster.copy, cluster.copy_content, cluster.has_snapshot), (None, None, false));
}

#[test]
fn a_copy_that_somebody_deletes_fails_the_upload_with_the_reason() {
    let transfer = upload(json!({}));
    let mut cluster = ScriptedCluster::new(false);
    while cluster.hand_over(&transfer) {}
    let gone = HandoverStep::Failed("the VolumeSnapshot du-1, the copy of the snapshot, was deleted".to_owned());
    assert_eq!(ScriptedCluster { copy: None, ..cluster.clone() }.handover(&transfer), gone);
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}});
    apply(&mut cluster.copy, &deleting);
    assert_eq!(cluster.handover(&transfer), gone);
    // A source that goes with its snapshot before it was told to keep it.
    let mut early = ScriptedCluster::new(false);
    for _ in 0..2 {
        early.hand_over(&transfer);
    }
    apply(&mut early.source_content, &deleting);
    let why = "the VolumeSnapshot shop/vs was deleted, and its driver deletes the snapshot in the storage";
    assert_eq!(early.handover(&transfer), HandoverStep::Failed(why.to_owned()));
}

#[test]
fn what_does_not_go_in_time_is_told_and_not_waited_for() {
    let transfer = upload(json!({}));
    let mut cluster = ScriptedCluster::new(false);
    while cluster.hand_over(&transfer) {}
    cluster.provision();
    for _ in 0..3 {
        cluster.remove(&transfer);
    }
    let waits = "the volume pv-1, which was made from the snapshot, is being deleted";
    assert_eq!(cluster.removal(&transfer, true), RemovalStep::Wait(waits.to_owned()));
    assert_eq!(cluster.removal(&transfer, false), RemovalStep::DeleteCopy { uid: "copy-uid".into() });
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}});
    apply(&mut cluster.copy, &deleting);
    apply(&mut cluster.copy_content, &deleting);
    let left = [
        waits,
        "the VolumeSnapshot du-1, the copy of the snapshot, is being deleted",
        "the VolumeSnapshotContent du-1, and its snapshot, are being deleted",
    ];
    assert_eq!(cluster.removal(&transfer, false), RemovalStep::Done { left: left.map(str::to_owned).to_vec() });
}
