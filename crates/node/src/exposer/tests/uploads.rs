use super::{config, download, pod_of, upload};
use crate::config::{BackupClaim, NodeAgentConfig};
use crate::exposer::backup_claim::{SnapshotSource, VolumeUsers, backup_claim, os_of, topology};
use crate::exposer::moved_snapshot::MovedSnapshot;
use crate::exposer::placement::{AllowedNodes, Placement, place};
use crate::exposer::pod::MoverVolume;
use crate::fairness::BusyNode;
use lifeboat_api::NodeOs;
use serde_json::{Value, json};

#[test]
fn the_pod_of_an_upload_reads_its_claim_and_is_spread_over_the_nodes() {
    // All else is as in the pod of a download.
    let mut expected = pod_of(&download(json!({})), &NodeAgentConfig::default(), |_| {});
    let owner = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "name": "du-1", "uid": "du-uid", "controller": true});
    let group = json!("snapshot-exposer");
    expected["metadata"] = json!({
        "name": "du-1", "namespace": "velero", "ownerReferences": [owner],
        "labels": {
            "velero.io/data-upload": "du-1", "velero.io/exposer-pod-group": group, "azure.workload.identity/use": "true",
        },
        "annotations": {"iam.amazonaws.com/role": "r"},
    });
    let spread = &mut expected["spec"]["topologySpreadConstraints"][0];
    spread["labelSelector"]["matchLabels"]["velero.io/exposer-pod-group"] = group;
    expected["spec"]["volumes"][3] = json!({"name": "du-uid", "persistentVolumeClaim": {"claimName": "du-1"}});
    let container = &mut expected["spec"]["containers"][0];
    container["name"] = json!("du-uid");
    container["args"] = json!([
        "data-mover",
        "backup",
        "--volume-path=/du-uid",
        "--volume-mode=Filesystem",
        "--data-upload=du-1",
        "--resource-timeout=10m0s",
        "--log-level=debug",
    ]);
    container["securityContext"]["capabilities"] = json!({"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]});
    container["volumeMounts"][3] = json!({"name": "du-uid", "mountPath": "/du-uid"});
    assert_eq!(pod_of(&upload(json!({})), &NodeAgentConfig::default(), |_| {}), expected);
    // A claim that can only be read is mounted so, and keeps its labels where that is asked for.
    let read_only = pod_of(&upload(json!({})), &NodeAgentConfig::default(), |parts| {
        let name = "du-1".to_owned();
        parts.volume = MoverVolume::Claim { name, is_block: false, is_read_only: true, without_relabeling: true };
    });
    expected["spec"]["volumes"][3]["persistentVolumeClaim"]["readOnly"] = json!(true);
    expected["spec"]["containers"][0]["volumeMounts"][3]["readOnly"] = json!(true);
    expected["spec"]["securityContext"]["seLinuxOptions"] = json!({"type": "spc_t"});
    assert_eq!(read_only, expected);
    let device = pod_of(&upload(json!({})), &NodeAgentConfig::default(), |parts| {
        parts.volume = MoverVolume::claim("du-1", true);
    });
    let container = &device["spec"]["containers"][0];
    assert_eq!(container["volumeDevices"], json!([{"name": "du-uid", "devicePath": "/du-uid"}]));
    assert!(container["args"].as_array().unwrap().contains(&json!("--volume-mode=Block")));
}

#[test]
fn each_zone_of_the_source_demands_the_configured_nodes_too() {
    let config = config(json!({"loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "fast"}}}]}));
    let zone = |name: &str| json!({"key": "zone", "operator": "In", "values": [name]});
    let class = |mode: &str| json!({"volumeBindingMode": mode});
    let terms = json!([
        {"matchExpressions": [zone("a")]}, {"matchExpressions": [zone("b")], "matchFields": [{"key": "metadata.name"}]},
    ]);
    let volume = json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
    let late = class("WaitForFirstConsumer");
    assert_eq!(json!(topology(Some(&late), Some(&volume))), terms);
    for (class, volume) in [(Some(&class("Immediate")), Some(&volume)), (None, Some(&volume)), (Some(&late), None)] {
        assert_eq!(topology(class, volume), Vec::<Value>::new());
    }
    let pod = pod_of(&upload(json!({})), &config, |parts| {
        parts.placement = Placement::Any(AllowedNodes {
            selector: parts.config.affinity_of("any").cloned(),
            topology: topology(Some(&late), Some(&volume)),
            avoided: vec!["n1".to_owned()],
            ..AllowedNodes::default()
        });
    });
    let needed = [
        json!({"key": "disk", "operator": "In", "values": ["fast"]}),
        json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}),
        json!({"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}),
    ];
    let of = |name: &str| json!([zone(name), needed[0], needed[1], needed[2]]);
    let expected = json!([
        {"matchExpressions": of("a")}, {"matchExpressions": of("b"), "matchFields": [{"key": "metadata.name"}]},
    ]);
    let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(required["nodeSelectorTerms"], expected);
}

#[test]
fn the_claim_of_an_upload_is_made_from_the_snapshot_as_configured() {
    let transfer = upload(json!({}));
    let claim = |mode: &str| json!({"spec": {"volumeMode": mode, "resources": {"requests": {"storage": "3Gi"}}, "accessModes": ["ReadWriteMany"]}});
    let moved = |size: &str, mode: &str| MovedSnapshot {
        restore_size: size.into(),
        volume_mode: mode.into(),
        ..MovedSnapshot::default()
    };
    let made = |claim: Option<&Value>, moved: &MovedSnapshot, settings: &BackupClaim| {
        backup_claim(&transfer, &SnapshotSource { claim, class: "fast", moved, settings })
    };
    let plain = BackupClaim::default();
    let mut expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "du-1", "namespace": "velero", "ownerReferences": [transfer.owner_reference()]},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "8Gi"}},
            "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "du-1"},
        },
    });
    assert_eq!(made(Some(&claim("Filesystem")), &moved("8Gi", ""), &plain), Ok(expected.clone()));
    let all = config(json!({"backupPVC": {"fast": {
        "storageClass": "cheap", "readOnly": true, "spcNoRelabeling": true, "annotations": {"a": "b"},
    }}}));
    expected["metadata"]["annotations"] = json!({"a": "b"});
    expected["spec"]["accessModes"] = json!(["ReadOnlyMany"]);
    expected["spec"]["storageClassName"] = json!("cheap");
    expected["spec"]["volumeMode"] = json!("Block");
    assert_eq!(made(Some(&claim("Block")), &moved("8Gi", ""), &all.backup_claims["fast"]), Ok(expected));
    // A driver that says no size, and a claim that is gone.
    let size =
        |made: Result<Value, String>| made.map(|claim| claim["spec"]["resources"]["requests"]["storage"].clone());
    for none in ["", "0"] {
        assert_eq!(size(made(Some(&claim("Block")), &moved(none, ""), &plain)), Ok(json!("3Gi")));
    }
    assert_eq!(size(made(None, &moved("8Gi", "Block"), &plain)), Ok(json!("8Gi")));
    // The storage has rounded up what was asked for, or not told.
    for (capacity, expected) in [("5Gi", "5Gi"), ("2Gi", "3Gi"), ("", "3Gi"), ("0", "3Gi")] {
        let mut claim = claim("Filesystem");
        claim["status"] = json!({"capacity": {"storage": capacity}});
        assert_eq!(size(made(Some(&claim), &moved("", ""), &plain)), Ok(json!(expected)), "{capacity}");
        assert_eq!(size(made(Some(&claim), &moved("8Gi", ""), &plain)), Ok(json!("8Gi")), "{capacity}");
    }
    let gone = "the claim of the snapshot is gone, and the snapshot does not say";
    assert_eq!(made(None, &moved("8Gi", ""), &plain), Err(format!("{gone} if its volume is a device")));
    assert_eq!(made(None, &moved("", "Block"), &plain), Err(format!("{gone} how large its volume is")));
    // Velero's mover of blocks reads the device of a volume with a file system, too.
    let by_blocks = upload(json!({"datamover": "velero-block"}));
    for (claim, mode) in [(Some(claim("Filesystem")), ""), (None, "Filesystem"), (None, "")] {
        let moved = moved("8Gi", mode);
        let source = SnapshotSource { claim: claim.as_ref(), class: "fast", moved: &moved, settings: &plain };
        assert_eq!(backup_claim(&by_blocks, &source).unwrap()["spec"]["volumeMode"], "Block");
    }
}

#[test]
fn the_system_of_an_uploads_node_follows_from_who_uses_the_volume() {
    let node = |os: &str| json!({"metadata": {"labels": {"kubernetes.io/os": os}}});
    let class = |file_system: &str| json!({"parameters": {"csi.storage.k8s.io/fstype": file_system}});
    let (ntfs, ext4) = (class("ntfs"), class("ext4"));
    for (is_block, nodes, class, expected) in [
        (false, vec![], None, NodeOs::Linux),
        (false, vec![], Some(&ntfs), NodeOs::Windows),
        (false, vec![], Some(&ext4), NodeOs::Linux),
        (false, vec![json!({}), node("windows")], Some(&ext4), NodeOs::Windows),
        (false, vec![node("linux")], Some(&ntfs), NodeOs::Linux),
        (true, vec![node("windows")], Some(&ntfs), NodeOs::Linux),
    ] {
        assert_eq!(os_of(VolumeUsers { is_block, nodes: &nodes, class }), expected);
    }
}

#[test]
fn a_mover_prefers_a_node_with_fewer_bytes_to_move() {
    let busy = [("n1", 100), ("n2", 25)].map(|(node, weight)| BusyNode { node: node.to_owned(), weight }).to_vec();
    let mut spec = json!({});
    place(&Placement::Any(AllowedNodes { busy, ..AllowedNodes::default() }), None, false, &mut spec);
    let preference = |node: &str, weight: u64| {
        let other = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]});
        json!({"weight": weight, "preference": {"matchExpressions": [other]}})
    };
    let expected = json!([preference("n1", 100), preference("n2", 25)]);
    assert_eq!(spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"], expected);
}
