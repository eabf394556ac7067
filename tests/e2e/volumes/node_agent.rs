//! The node agent against a real API server and the controllers of volumes; the test plays the scheduler and the
//! kubelet.

use crate::ground::{Ground, Server};
use crate::support::{eventually, program, spawn_logged, with_object};
use serde_json::{Value, json};
use std::process::Command;

fn agent(ground: &Ground) -> Server {
    let mut command = Command::new(program());
    command.args(["node-agent", "server", "--metrics-address", "127.0.0.1:0"]);
    command.env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("NODE_NAME", "n1");
    Server(spawn_logged(&mut command, &ground.directories.path().join("agent.log")))
}

#[test]
fn a_download_comes_to_its_claim_by_the_controllers_of_a_cluster() {
    let ground = Ground::start();
    let container = json!({"name": "node-agent", "image": "velero:1"});
    let labels = json!({"name": "node-agent"});
    ground.create(&json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "node-agent", "namespace": "velero"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }));
    ground.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    ground.create(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "own"},
        "provisioner": "own.example.com", "volumeBindingMode": "Immediate",
    }));
    let claim = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "own", "resources": {"requests": {"storage": "1Gi"}},
        "selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "shop.data.x"}},
    });
    ground.create(&json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"}, "spec": claim,
    }));
    ground.create(&json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": {"name": "dd", "namespace": "velero"},
        "spec": {
            "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "backupStorageLocation": "default",
            "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "10m0s",
        },
    }));
    let _agent = agent(&ground);
    eventually("the pod of the mover", || !ground.get("pod", "dd").is_null());
    // The provisioner makes the volume.
    ground.create(&json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "own",
            "persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": "own.example.com", "volumeHandle": "v1"},
            "claimRef": {"namespace": "velero", "name": "dd"},
        },
    }));
    eventually("the binding of the mover's claim", || ground.get("pvc", "dd")["status"]["phase"] == "Bound");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "dd"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    let path = "/api/v1/namespaces/velero/pods/dd/binding";
    with_object(&ground.kubectl(), &["create", "--raw", path], &binding).unwrap_or_else(|e| panic!("{e:#}"));
    let uid = ground.get("pod", "dd")["spec"]["containers"][0]["name"].clone();
    let status = |phase: &str, state: Value| {
        let containers = json!([{
            "name": uid, "state": state, "image": "velero:1", "imageID": "", "ready": false, "restartCount": 0,
        }]);
        let patch = json!({"status": {"phase": phase, "containerStatuses": containers}}).to_string();
        let line = ["patch", "pod", "dd", "--namespace=velero", "--subresource=status", "--type=merge", "-p", &patch];
        ground.bed.kubectl(&line);
    };
    status("Running", json!({"running": {}}));
    ground.until("datadownload", "dd", "InProgress");
    let result = r#"{"target":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":7}"#;
    status("Succeeded", json!({"terminated": {"exitCode": 0, "message": result}}));
    let done = ground.until("datadownload", "dd", "Completed");
    assert_eq!(done["status"]["progress"], json!({"totalBytes": 7, "bytesDone": 7}));
    let bound = ground.get_in("shop", "pvc", "data");
    assert_eq!((&bound["spec"]["volumeName"], &bound["status"]["phase"]), (&json!("pv-1"), &json!("Bound")));
    assert_eq!(ground.get("pv", "pv-1")["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    ground.until_gone("pod", "dd");
    ground.until_gone("pvc", "dd");
    let is_clean = || ground.get("datadownload", "dd")["metadata"]["finalizers"].is_null();
    eventually("the end of the finalizer", is_clean);
}
