mod histories;

use super::*;

struct Objects {
    volume: Value,
    claim: Option<Value>,
    target: Value,
    has_pod: bool,
    is_attached: bool,
}

fn objects() -> Objects {
    Objects {
        volume: json!({
            "metadata": {"name": "pv-1", "resourceVersion": "5"},
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"namespace": "velero", "name": "dd-1", "uid": "claim-uid"},
            },
        }),
        claim: Some(json!({"metadata": {"name": "dd-1"}})),
        target: json!({
            "metadata": {"namespace": "shop", "name": "data", "uid": "target-uid", "resourceVersion": "7"},
            "spec": {"selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}}},
            "status": {"phase": "Pending"},
        }),
        has_pod: true,
        is_attached: true,
    }
}

fn next(objects: &Objects) -> DeliveryStep {
    next_of(objects, None, None)
}

fn next_of(objects: &Objects, remade: Option<RemadeVolume>, made: Option<&Value>) -> DeliveryStep {
    next_step_of(objects, &delivery(remade), made)
}

fn delivery(remade: Option<RemadeVolume>) -> Delivery {
    Delivery {
        volume: "pv-1".into(),
        reclaim_policy: "Delete".into(),
        total_bytes: 7,
        files: 0,
        message: String::new(),
        begun: serde_json::from_value(json!("2026-11-28T12:00:00Z")).unwrap(),
        target_uid: "target-uid".into(),
        remade,
    }
}

fn next_step_of(objects: &Objects, delivery: &Delivery, made: Option<&Value>) -> DeliveryStep {
    let volume = Some(&objects.volume).filter(|volume| !volume.is_null());
    let spec = TargetVolumeSpec { pvc: "data".into(), namespace: "shop".into(), ..TargetVolumeSpec::default() };
    next_delivery_step(&DeliveryView {
        target_spec: &spec,
        delivery,
        target_uid: &delivery.target_uid,
        volume,
        remade: made,
        restore_claim: objects.claim.as_ref(),
        target: Some(&objects.target),
        has_pod: objects.has_pod,
        is_attached: objects.is_attached,
    })
}

#[test]
fn a_volume_goes_to_its_claim_step_by_step_and_keeps_its_policy() {
    let mut of = objects();
    let policy = |policy: &str| {
        DeliveryStep::PatchVolume(json!({
            "metadata": {"resourceVersion": "5"}, "spec": {"persistentVolumeReclaimPolicy": policy},
        }))
    };
    assert_eq!(next(&of), policy("Retain"));
    of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    assert_eq!(next(&of), DeliveryStep::RemovePod);
    of.has_pod = false;
    assert_eq!(next(&of), DeliveryStep::Wait("the volume pv-1 is being detached".into()));
    of.is_attached = false;
    assert_eq!(next(&of), DeliveryStep::RemoveClaim);
    of.claim = Some(json!({"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}}));
    let deleting = "the claim in which the volume was filled is being deleted";
    assert_eq!(next(&of), DeliveryStep::Wait(deleting.into()));
    of.claim = None;
    let annotations = json!({"pv.kubernetes.io/bind-completed": null, "pv.kubernetes.io/bound-by-controller": null});
    let bind =
        json!({"metadata": {"resourceVersion": "7", "annotations": annotations}, "spec": {"volumeName": "pv-1"}});
    assert_eq!(next(&of), DeliveryStep::PatchTarget(bind));
    of.target["spec"]["volumeName"] = json!("pv-1");
    let reserve = json!({
        "metadata": {
            "resourceVersion": "5", "labels": {"velero.io/dynamic-pv-restore": "x"},
            "annotations": {"pv.kubernetes.io/bound-by-controller": null},
        },
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data",
            "uid": "target-uid", "resourceVersion": null,
        }},
    });
    assert_eq!(next(&of), DeliveryStep::PatchVolume(reserve.clone()));
    // A reservation of a Lifeboat before this one is for whatever claim has the name.
    of.volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data"});
    assert_eq!(next(&of), DeliveryStep::PatchVolume(reserve));
    of.volume["spec"]["claimRef"]["uid"] = json!("target-uid");
    assert_eq!(next(&of), DeliveryStep::Wait("the target claim shop/data is being bound".into()));
    of.target["status"]["phase"] = json!("Bound");
    assert_eq!(next(&of), policy("Delete"));
    of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    assert_eq!(next(&of), DeliveryStep::Done);
}

#[test]
fn a_volume_that_was_filled_as_a_device_is_made_anew_for_a_file_system() {
    let mut of = objects();
    of.volume = json!({
        "metadata": {
            "name": "pv-1", "resourceVersion": "5", "uid": "pv-uid", "labels": {"zone": "z"},
            "annotations": {"pv.kubernetes.io/provisioned-by": "d", "pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}, "volumeMode": "Block",
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast",
            "claimRef": {"namespace": "velero", "name": "dd-1", "uid": "claim-uid"},
            "csi": {
                "driver": "d", "volumeHandle": "vol-1",
                "volumeAttributes": {"pool": "p", "storage.kubernetes.io/csiProvisionerIdentity": "1-d"},
            },
        },
    });
    (of.has_pod, of.is_attached) = (false, false);
    let remade = Some(remade_volume(&of.volume, &of.target, "pvc-dd".into(), "xfs"));
    // As any other it is retained, and released by its claim.
    assert!(matches!(next_of(&of, remade.clone(), None), DeliveryStep::PatchVolume(_)));
    of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    assert_eq!(next_of(&of, remade.clone(), None), DeliveryStep::RemoveClaim);
    of.claim = None;
    assert_eq!(next_of(&of, remade.clone(), None), DeliveryStep::RemoveVolume);
    of.volume["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
    let goes = "the volume pv-1, which one with a file system replaces, is being deleted";
    assert_eq!(next_of(&of, remade.clone(), None), DeliveryStep::Wait(goes.into()));
    of.volume = Value::Null;
    let mut made = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-dd", "labels": {"zone": "z", "velero.io/dynamic-pv-restore": "x"},
            "annotations": {"pv.kubernetes.io/provisioned-by": "d"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}, "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data",
                "uid": "target-uid",
            },
            "csi": {
                "driver": "d", "volumeHandle": "vol-1", "fsType": "xfs", "volumeAttributes": {"pool": "p"},
            },
        },
    });
    assert_eq!(next_of(&of, remade.clone(), None), DeliveryStep::CreateVolume(made.clone()));
    made["metadata"]["resourceVersion"] = json!("9");
    let bind = next_of(&of, remade.clone(), Some(&made));
    assert!(matches!(bind, DeliveryStep::PatchTarget(patch) if patch["spec"]["volumeName"] == "pvc-dd"));
    of.target["spec"]["volumeName"] = json!("pvc-dd");
    of.target["status"]["phase"] = json!("Bound");
    let policy = json!({
        "metadata": {"resourceVersion": "9"}, "spec": {"persistentVolumeReclaimPolicy": "Delete"},
    });
    assert_eq!(next_of(&of, remade.clone(), Some(&made)), DeliveryStep::PatchVolume(policy));
    made["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    assert_eq!(next_of(&of, remade.clone(), Some(&made)), DeliveryStep::Done);
    // Somebody has deleted it: the volume in the storage went with it.
    let gone = "the volume pv-1 with the restored data is gone";
    assert_eq!(next_of(&of, remade, None), DeliveryStep::Failed(gone.into()));
}

#[test]
fn a_volume_that_was_made_beside_the_first_one_is_the_only_one_in_the_end() {
    let mut of = objects();
    of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    let made = json!({
        "metadata": {"name": "pvc-dd", "resourceVersion": "9"},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "shop", "name": "data"}},
    });
    let remade = || Some(RemadeVolume { name: "pvc-dd".into(), fs_type: "xfs".into(), manifest: Value::Null });
    assert_eq!(next_of(&of, remade(), Some(&made)), DeliveryStep::RemoveVolume);
    of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    let deletes = "somebody has given the volume pv-1, of which it was made, the reclaim policy Delete, by which its data would be deleted";
    assert_eq!(next_of(&of, remade(), Some(&made)), DeliveryStep::Failed(deletes.into()));
}

#[test]
fn a_delivery_whose_target_is_lost_fails_with_the_reason() {
    let mut of = objects();
    of.target["spec"]["volumeName"] = json!("other");
    let other = "the target claim shop/data was bound to the volume other meanwhile";
    assert_eq!(next(&of), DeliveryStep::Failed(other.into()));
    of.target["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
    assert_eq!(next(&of), DeliveryStep::Failed("the target claim shop/data is gone".into()));
}

#[test]
fn a_claim_of_the_same_name_made_anew_does_not_get_the_data() {
    let mut of = objects();
    let another = "the target claim shop/data was deleted, and the claim that has its name now is another one";
    of.target["metadata"]["uid"] = json!("new-uid");
    assert_eq!(next(&of), DeliveryStep::Failed(another.into()));
}
