mod handover;
mod uploads;

use super::claim::{CACHE_LIMIT_MB, cache_claim, restore_claim};
use super::mover_user::MoverUser;
use super::placement::{AllowedNodes, Placement};
use super::pod::{MoverVolume, PodParts, mover_pod};
use crate::config::{CacheClaim, NodeAgentConfig};
use crate::template::{Template, TemplateError};
use crate::transfer::{Transfer, TransferKind};
use lifeboat_api::Duration;
use lifeboat_volume::mover_pod::MoverPlacement;
use serde_json::{Value, json};

fn download(spec: Value) -> Transfer {
    let mut all = json!({
        "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "backupStorageLocation": "default",
        "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "10m0s",
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": {"name": "dd-1", "namespace": "velero", "uid": "dd-uid"}, "spec": all});
    Transfer::parse(TransferKind::DataDownload, object.to_string().as_bytes()).unwrap()
}

fn upload(spec: Value) -> Transfer {
    let mut all = json!({
        "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
        "csiSnapshot": {"volumeSnapshot": "vs", "storageClass": "fast"}, "operationTimeout": "10m0s",
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": "du-1", "namespace": "velero", "uid": "du-uid", "creationTimestamp": "2026-11-28T12:00:00Z"}, "spec": all});
    Transfer::parse(TransferKind::DataUpload, object.to_string().as_bytes()).unwrap()
}

fn restore() -> Transfer {
    let spec = json!({
        "pod": {"namespace": "shop", "name": "db-0", "uid": "pod-uid"}, "volume": "data", "backupStorageLocation": "default",
        "repoIdentifier": "", "uploaderType": "kopia", "snapshotID": "k1", "sourceNamespace": "shop",
    });
    let object = json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeRestore", "metadata": {"name": "pvr-1", "namespace": "velero", "uid": "pvr-uid"}, "spec": spec});
    Transfer::parse(TransferKind::PodVolumeRestore, object.to_string().as_bytes()).unwrap()
}

fn backup() -> Transfer {
    let spec = json!({
        "node": "n1", "pod": {"namespace": "shop", "name": "db-0", "uid": "pod-uid"}, "volume": "data",
        "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
    });
    let object = json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": {"name": "pvb-1", "namespace": "velero", "uid": "pvb-uid"}, "spec": spec});
    Transfer::parse(TransferKind::PodVolumeBackup, object.to_string().as_bytes()).unwrap()
}

/// The DaemonSet of Velero, with a Secret for the bucket and what else movers inherit.
fn daemon_set() -> Value {
    json!({"metadata": {"name": "node-agent"}, "spec": {"template": {
        "metadata": {
            "labels": {"name": "node-agent", "azure.workload.identity/use": "true"},
            "annotations": {"iam.amazonaws.com/role": "r", "other": "x"},
        },
        "spec": {
            "serviceAccountName": "velero", "dnsPolicy": "ClusterFirst", "imagePullSecrets": [{"name": "pull"}],
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "other", "operator": "Exists"}],
            "volumes": [
                {"name": "host-pods", "hostPath": {"path": "/var/lib/kubelet/pods"}},
                {"name": "host-plugins", "hostPath": {"path": "/var/lib/kubelet/plugins"}},
                {"name": "own-authority", "hostPath": {"path": "/etc/ssl/own"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}},
            ],
            "containers": [{
                "name": "node-agent", "image": "velero:1", "args": ["node-agent", "server", "--log-level=debug", "--features="],
                "env": [{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}, {"name": "A", "value": "b"}],
                "envFrom": [{"secretRef": {"name": "more"}}],
                "volumeMounts": [
                    {"name": "host-pods", "mountPath": "/host_pods", "mountPropagation": "HostToContainer"},
                    {"name": "host-plugins", "mountPath": "/var/lib/kubelet/plugins"},
                    {"name": "own-authority", "mountPath": "/etc/ssl/own"},
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "cloud-credentials", "mountPath": "/credentials"},
                ],
                "resources": {"requests": {"cpu": "500m"}}, "securityContext": {"privileged": true},
            }],
        },
    }}})
}

fn config(text: Value) -> NodeAgentConfig {
    NodeAgentConfig::parse("c", &[("k".to_owned(), text.to_string())].into()).unwrap().config
}

fn pod_of(transfer: &Transfer, config: &NodeAgentConfig, changes: impl FnOnce(&mut PodParts<'_>)) -> Value {
    let template = Template::of(&daemon_set()).unwrap();
    let volume = match transfer.kind {
        TransferKind::PodVolumeRestore | TransferKind::PodVolumeBackup => {
            MoverVolume::HostPath("/var/lib/kubelet/pods/p/volumes/x/data".into())
        }
        TransferKind::DataDownload | TransferKind::DataUpload => MoverVolume::claim(&transfer.meta.name, false),
    };
    let placement = match transfer.kind {
        TransferKind::PodVolumeRestore | TransferKind::PodVolumeBackup => Placement::Pinned("n1".into()),
        TransferKind::DataDownload | TransferKind::DataUpload => Placement::Any(AllowedNodes::default()),
    };
    let resource_timeout = Duration::from_secs(600);
    let os = transfer.node_os();
    let mut parts = PodParts {
        transfer,
        template: &template,
        config,
        os,
        volume,
        placement,
        cache: None,
        user: None,
        resource_timeout,
    };
    changes(&mut parts);
    mover_pod(&parts)
}

fn security() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD"]},
    })
}

fn affinity(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}})
}

#[test]
fn the_pod_of_a_volume_restore_has_its_directory_of_the_node() {
    let owner = json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeRestore", "name": "pvr-1", "uid": "pvr-uid", "controller": true});
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "pvr-1", "namespace": "velero", "ownerReferences": [owner],
            "labels": {"velero.io/pod-volume-restore": "pvr-1", "azure.workload.identity/use": "true"},
            "annotations": {"iam.amazonaws.com/role": "r"},
        },
        "spec": {
            "nodeName": "n1", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "os": {"name": "linux"},
            "serviceAccountName": "velero", "dnsPolicy": "ClusterFirst", "imagePullSecrets": [{"name": "pull"}],
            "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            "affinity": affinity(json!([{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}])),
            "volumes": [
                {"name": "own-authority", "hostPath": {"path": "/etc/ssl/own"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}},
                {"name": "tmp", "emptyDir": {}},
                {"name": "pvr-uid", "hostPath": {"path": "/var/lib/kubelet/pods/p/volumes/x/data", "type": "Directory"}},
            ],
            "containers": [{
                "name": "pvr-uid", "image": "velero:1", "imagePullPolicy": "Never", "command": ["/velero"],
                "args": [
                    "pod-volume", "restore", "--volume-path=/pvr-uid", "--pod-volume-restore=pvr-1",
                    "--resource-timeout=10m0s", "--cache-volume-path=", "--log-level=debug",
                ],
                "env": [{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}, {"name": "A", "value": "b"}, {"name": "LIFEBOAT_MOVER_ATTEMPT", "value": "1"}],
                "envFrom": [{"secretRef": {"name": "more"}}],
                "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": security(),
                "volumeMounts": [
                    {"name": "own-authority", "mountPath": "/etc/ssl/own"},
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "cloud-credentials", "mountPath": "/credentials"},
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "pvr-uid", "mountPath": "/pvr-uid", "mountPropagation": "HostToContainer"},
                ],
            }],
        },
    });
    assert_eq!(pod_of(&restore(), &NodeAgentConfig::default(), |_| {}), expected);
    let privileged = pod_of(&restore(), &config(json!({"privilegedFsBackup": true})), |_| {});
    assert_eq!(privileged["spec"]["containers"][0]["securityContext"], json!({"privileged": true}));
}

#[test]
fn the_pod_of_a_volume_backup_reads_its_directory_and_cannot_write() {
    // All else is as in the pod of a restore.
    let mut expected = pod_of(&restore(), &NodeAgentConfig::default(), |_| {});
    let owner = json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "name": "pvb-1", "uid": "pvb-uid", "controller": true});
    expected["metadata"] = json!({
        "name": "pvb-1", "namespace": "velero", "ownerReferences": [owner],
        "labels": {"velero.io/pod-volume-backup": "pvb-1", "azure.workload.identity/use": "true"},
        "annotations": {"iam.amazonaws.com/role": "r"},
    });
    let path = "/var/lib/kubelet/pods/p/volumes/x/data";
    expected["spec"]["volumes"][4] = json!({"name": "pvb-uid", "hostPath": {"path": path, "type": "Directory"}});
    let container = &mut expected["spec"]["containers"][0];
    container["name"] = json!("pvb-uid");
    container["args"] = json!([
        "pod-volume",
        "backup",
        "--volume-path=/pvb-uid",
        "--pod-volume-backup=pvb-1",
        "--resource-timeout=10m0s",
        "--log-level=debug",
    ]);
    container["securityContext"]["capabilities"] = json!({"drop": ["ALL"], "add": ["DAC_READ_SEARCH"]});
    container["volumeMounts"][4] = json!({
        "name": "pvb-uid", "mountPath": "/pvb-uid", "mountPropagation": "HostToContainer", "readOnly": true,
    });
    assert_eq!(pod_of(&backup(), &NodeAgentConfig::default(), |_| {}), expected);
    let privileged = pod_of(&backup(), &config(json!({"privilegedFsBackup": true})), |_| {});
    assert_eq!(privileged["spec"]["containers"][0]["securityContext"], json!({"privileged": true}));
}

#[test]
fn the_pod_of_a_download_has_its_claim_and_no_host_path() {
    let owner = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "name": "dd-1", "uid": "dd-uid", "controller": true});
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"velero.io/exposer-pod-group": "generic-restore-exposer"}},
    }]);
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "dd-1", "namespace": "velero", "ownerReferences": [owner],
            "labels": {
                "velero.io/data-download": "dd-1", "velero.io/exposer-pod-group": "generic-restore-exposer",
                "azure.workload.identity/use": "true",
            },
            "annotations": {"iam.amazonaws.com/role": "r"},
        },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "os": {"name": "linux"},
            "serviceAccountName": "velero", "dnsPolicy": "ClusterFirst", "imagePullSecrets": [{"name": "pull"}],
            "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            "affinity": affinity(json!([{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}])),
            "topologySpreadConstraints": spread,
            "volumes": [
                {"name": "scratch", "emptyDir": {}},
                {"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}},
                {"name": "tmp", "emptyDir": {}},
                {"name": "dd-uid", "persistentVolumeClaim": {"claimName": "dd-1"}},
            ],
            "containers": [{
                "name": "dd-uid", "image": "velero:1", "imagePullPolicy": "Never", "command": ["/velero"],
                "args": [
                    "data-mover", "restore", "--volume-path=/dd-uid", "--volume-mode=Filesystem", "--data-download=dd-1",
                    "--resource-timeout=10m0s", "--cache-volume-path=", "--log-level=debug",
                ],
                "env": [{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}, {"name": "A", "value": "b"}, {"name": "LIFEBOAT_MOVER_ATTEMPT", "value": "1"}],
                "envFrom": [{"secretRef": {"name": "more"}}],
                "terminationMessagePolicy": "FallbackToLogsOnError", "securityContext": security(),
                "volumeMounts": [
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "cloud-credentials", "mountPath": "/credentials"},
                    {"name": "tmp", "mountPath": "/tmp"},
                    {"name": "dd-uid", "mountPath": "/dd-uid"},
                ],
            }],
        },
    });
    assert_eq!(pod_of(&download(json!({})), &NodeAgentConfig::default(), |_| {}), expected);
    // A privileged mode is one of host paths only.
    let unprivileged = pod_of(&download(json!({})), &config(json!({"privilegedFsBackup": true})), |_| {});
    assert_eq!(unprivileged, expected);
}

#[test]
fn every_key_of_the_configuration_is_seen_in_the_pod() {
    let resources = json!({"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "0", "memoryLimit": "1Gi"});
    let selector = json!({
        "matchLabels": {"disk": "fast"},
        "matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}, {"key": "zone", "operator": "In", "values": ["a"]}],
    });
    let config = config(json!({
        "loadAffinity": [{"nodeSelector": selector, "storageClass": "fast"}], "podResources": resources,
        "priorityClassName": "high", "podLabels": {"l": "1"}, "podAnnotations": {"n": "2"},
    }));
    let pod = pod_of(&download(json!({})), &config, |parts| {
        let selector = parts.config.affinity_of("fast").cloned();
        parts.placement = Placement::Any(AllowedNodes { selector, ..AllowedNodes::default() });
        parts.volume = MoverVolume::claim("dd-1", true);
        parts.cache = Some("dd-1-cache".into());
    });
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"velero.io/data-download": "dd-1", "velero.io/exposer-pod-group": "generic-restore-exposer", "l": "1"})
    );
    assert_eq!(pod["metadata"]["annotations"], json!({"n": "2"}));
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    assert_eq!(spec["priorityClassName"], "high");
    let terms = json!([
        {"key": "disk", "operator": "In", "values": ["fast"]}, {"key": "spot", "operator": "DoesNotExist"},
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]},
    ]);
    assert_eq!(spec["affinity"], affinity(terms));
    assert_eq!(container["resources"], json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}}));
    assert_eq!(container["volumeDevices"], json!([{"name": "dd-uid", "devicePath": "/dd-uid"}]));
    let cache = json!({"name": "cachedir", "persistentVolumeClaim": {"claimName": "dd-1-cache"}});
    assert_eq!(spec["volumes"].as_array().unwrap().last(), Some(&cache));
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert_eq!(mounts.last(), Some(&json!({"name": "cachedir", "mountPath": "/cachedir"})));
    assert!(mounts.iter().all(|mount| mount["name"] != "dd-uid"), "a device is not mounted");
    let arguments = container["args"].as_array().unwrap();
    assert!(
        arguments.contains(&json!("--volume-mode=Block"))
            && arguments.contains(&json!("--cache-volume-path=/cachedir"))
    );
}

#[test]
fn a_node_that_the_scheduler_chose_beats_the_configured_nodes() {
    let pod = pod_of(&download(json!({})), &NodeAgentConfig::default(), |parts| {
        parts.placement = Placement::Selected("n2".into());
    });
    assert_eq!(pod["spec"]["nodeSelector"], json!({"kubernetes.io/hostname": "n2"}));
    let windows = pod_of(&download(json!({"nodeOS": "windows"})), &NodeAgentConfig::default(), |_| {});
    let spec = &windows["spec"];
    assert_eq!(spec["securityContext"], json!({"windowsOptions": {"runAsUserName": "ContainerAdministrator"}}));
    assert_eq!(
        spec["affinity"],
        affinity(json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}]))
    );
    let tolerated = |effect: &str| json!({"key": "os", "operator": "Equal", "value": "windows", "effect": effect});
    let expected =
        json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}, tolerated("NoSchedule"), tolerated("NoExecute")]);
    assert_eq!((&spec["tolerations"], &spec["os"]), (&expected, &json!({"name": "windows"})));
}

#[test]
fn a_mover_knows_the_number_of_its_attempt() {
    let mut again = download(json!({}));
    let killed = json!([{"pod": "p1", "reason": "its node was lost"}]).to_string();
    again.meta.annotations.insert("lifeboat.io/killed-movers".to_owned(), killed);
    let attempt = |transfer: &Transfer| {
        let pod = pod_of(transfer, &NodeAgentConfig::default(), |_| {});
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap().clone();
        env.into_iter().find(|variable| variable["name"] == "LIFEBOAT_MOVER_ATTEMPT").unwrap()["value"].clone()
    };
    assert_eq!([attempt(&download(json!({}))), attempt(&again)], ["1", "2"]);
}

#[test]
fn a_mover_without_privilege_runs_as_the_owner_of_its_volume() {
    let config = config(json!({"movers": {"podSecurity": "restricted"}, "privilegedFsBackup": true}));
    let user = || Some(MoverUser { user: 70, group: 72, groups: vec![71] });
    let context = |transfer: &Transfer| {
        let pod = pod_of(transfer, &config, |parts| parts.user = user());
        (pod["spec"]["securityContext"].clone(), pod["spec"]["containers"][0]["securityContext"].clone())
    };
    let base = json!({
        "runAsUser": 70, "runAsGroup": 72, "runAsNonRoot": true, "supplementalGroups": [71],
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let mut of_restore = base.clone();
    of_restore["fsGroup"] = json!(72);
    of_restore["fsGroupChangePolicy"] = json!("OnRootMismatch");
    let container = json!({
        "allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    for (transfer, expected) in [
        (download(json!({})), of_restore),
        // Kubernetes would change what is read, and what a pod of the user mounts.
        (upload(json!({})), base.clone()),
        (backup(), base.clone()),
        (restore(), base),
    ] {
        assert_eq!(context(&transfer), (expected, container.clone()), "{:?}", transfer.kind);
    }
}

#[test]
fn a_mover_has_users_of_its_own_where_its_volume_allows_that() {
    let config = config(json!({"movers": {"hostUsers": false}}));
    let host_users = |transfer: &Transfer, config: &NodeAgentConfig, change: fn(&mut PodParts<'_>)| {
        pod_of(transfer, config, change)["spec"].get("hostUsers").cloned()
    };
    let (data, none) = (download(json!({})), |_: &mut PodParts<'_>| {});
    let block = |parts: &mut PodParts<'_>| parts.volume = MoverVolume::claim("dd-1", true);
    assert_eq!(host_users(&data, &config, none), Some(json!(false)));
    assert_eq!(host_users(&upload(json!({})), &config, none), Some(json!(false)));
    assert_eq!(host_users(&data, &config, block), None);
    assert_eq!(host_users(&restore(), &config, none), None);
    assert_eq!(host_users(&download(json!({"nodeOS": "windows"})), &config, none), None);
    assert_eq!(host_users(&data, &NodeAgentConfig::default(), none), None);
}

#[test]
fn a_mover_runs_where_the_pod_of_its_target_may_run() {
    let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let target = json!({"spec": {
        "nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "db", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]}}},
    }});
    let pod = pod_of(&download(json!({})), &NodeAgentConfig::default(), |parts| {
        let of_pod = MoverPlacement::of_pod(&target);
        parts.placement = Placement::Any(AllowedNodes { of_pod, ..AllowedNodes::default() });
    });
    let spec = &pod["spec"];
    assert_eq!(spec["nodeSelector"], json!({"disk": "fast"}));
    let all = json!([
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]},
    ]);
    assert_eq!(spec["affinity"], affinity(all));
    let tolerated = json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "db", "operator": "Exists"}]);
    assert_eq!(spec["tolerations"], tolerated);
}

#[test]
fn a_daemon_set_without_scratch_gets_folders_to_write_to() {
    let mut bare = daemon_set();
    let spec = &mut bare["spec"]["template"]["spec"];
    spec["volumes"] =
        json!([{"name": "p", "hostPath": {"path": "/x"}}, {"name": "scratch", "configMap": {"name": "c"}}]);
    spec["containers"][0]["volumeMounts"] =
        json!([{"name": "p", "mountPath": "/host_pods"}, {"name": "scratch", "mountPath": "/c"}]);
    spec["containers"][0]["env"] = Value::Null;
    let template = Template::of(&bare).unwrap();
    assert_eq!(template.host_pods(), Some("/x"));
    let pod = pod_of(&restore(), &NodeAgentConfig::default(), |parts| parts.template = Box::leak(Box::new(template)));
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        container["env"],
        json!([{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}, {"name": "LIFEBOAT_MOVER_ATTEMPT", "value": "1"}])
    );
    let paths: Vec<&Value> =
        container["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["mountPath"]).collect();
    assert_eq!(paths, ["/c", "/scratch", "/tmp", "/pvr-uid"]);
    assert_eq!(pod["spec"]["volumes"][1], json!({"name": "mover-scratch", "emptyDir": {}}));
    bare["spec"]["template"]["spec"]["containers"] = json!([{}, {}]);
    let refused = TemplateError::Containers { name: "node-agent".into(), count: 2 };
    assert_eq!(Template::of(&bare), Err(refused));
}

#[test]
fn the_restore_claim_is_the_target_without_its_selector() {
    let target = json!({
        "metadata": {
            "name": "data", "namespace": "shop", "uid": "target-uid", "labels": {"app": "db"},
            "annotations": {"a": "b", "volume.kubernetes.io/storage-provisioner": "x", "pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Block",
            "resources": {"requests": {"storage": "3Gi"}}, "selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}},
        },
        "status": {"phase": "Pending"},
    });
    let transfer = download(json!({}));
    let owner = transfer.owner_reference();
    let mut expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "dd-1", "namespace": "velero", "ownerReferences": [owner], "labels": {"app": "db"}, "annotations": {"a": "b"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Block",
            "resources": {"requests": {"storage": "3Gi"}},
        },
    });
    assert_eq!(restore_claim(&transfer, &target, None), expected);
    expected["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n2"});
    assert_eq!(restore_claim(&transfer, &target, Some("n2")), expected);
    // Velero's mover of blocks writes onto the device of a volume with a file system, too.
    let by_blocks = download(json!({"datamover": "velero-block"}));
    let mut mounted = target.clone();
    for mode in [json!("Filesystem"), Value::Null] {
        mounted["spec"]["volumeMode"] = mode;
        assert_eq!(restore_claim(&by_blocks, &mounted, Some("n2")), expected);
    }
}

#[test]
fn a_cache_is_as_large_as_its_limit_and_left_out_for_small_restores() {
    let cache = CacheClaim { storage_class: "fast".into(), threshold_mb: 10 };
    let size = |bytes: i64, limit: i64| {
        let claim = cache_claim(&download(json!({"snapshotSize": bytes})), &cache, limit, None)?;
        claim["spec"]["resources"]["requests"]["storage"].as_str().map(str::to_owned)
    };
    assert_eq!(size(0, CACHE_LIMIT_MB).as_deref(), Some("6Gi"));
    assert_eq!(size(10 << 20, 100).as_deref(), Some("1Gi"));
    assert_eq!(size((10 << 20) - 1, CACHE_LIMIT_MB), None);
    let transfer = restore();
    let expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "pvr-1-cache", "namespace": "velero", "ownerReferences": [transfer.owner_reference()],
            "annotations": {"volume.kubernetes.io/selected-node": "n1"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "6Gi"}},
        },
    });
    assert_eq!(cache_claim(&transfer, &cache, CACHE_LIMIT_MB, Some("n1")), Some(expected));
}
