//! Snapshots by a real CSI driver: what a backup takes, keeps, and cleans up.

use crate::ground::{Ground, Server};
use crate::support::{eventually, run};
use lifeboat_testbed::{DRIVER, NODE_STATE};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A server's namespace and an application's on the node.
struct Place {
    ground: Ground,
    own: String,
    shop: String,
    name: String,
}

impl Place {
    fn start(name: &str) -> Self {
        let own = format!("velero-{name}");
        let ground = Ground::with_node(&own);
        let place = Self { ground, own, shop: format!("shop-{name}"), name: name.to_owned() };
        place.ground.bed.kubectl(&["create", "namespace", &place.shop]);
        let account = ["wait", "--for=create", "serviceaccount/default", "-n", &place.shop, "--timeout=30s"];
        place.ground.bed.kubectl(&account);
        place.ground.s3_location_in(&place.own, name, place.ground.s3.endpoint());
        place
    }

    fn server(&self) -> Server {
        let flags = ["--namespace", &self.own, "--features=EnableCSI", "--item-operation-sync-frequency=1s"];
        let server = self.ground.server_with("one", &self.ground.bed.plane.kubeconfig(), &flags);
        self.ground.until_in(&self.own, "backupstoragelocation", &self.name, "Available");
        server
    }

    fn claim(&self, name: &str, labels: &Value) {
        self.ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.shop, "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi",
                "resources": {"requests": {"storage": "16Mi"}}}}));
        eventually("a bound claim", || {
            self.ground.get_in(&self.shop, "persistentvolumeclaim", name)["status"]["phase"] == "Bound"
        });
    }

    /// A pod that mounts a claim.
    fn pod(&self, name: &str, claim: &str, annotations: &Value) {
        self.ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": self.shop, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "echo precious > /data/file; sync; sleep 3600"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}}));
        let pod = format!("pod/{name}");
        self.ground.bed.kubectl(&["wait", "--for=condition=Ready", &pod, "-n", &self.shop, "--timeout=90s"]);
    }

    fn backup(&self, name: &str, rest: &Value) {
        let mut spec = json!({"includedNamespaces": [self.shop], "storageLocation": self.name});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        self.ground.velero_in(&self.own, "Backup", name, &spec);
    }

    fn described(&self, name: &str) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        command.args(["backup", "describe", name, "--details", "-o", "json", "--namespace", &self.own]);
        let run = run(command.env("KUBECONFIG", self.ground.bed.plane.kubeconfig()));
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&run.out).expect("JSON")
    }

    /// The objects of snapshots in the application's namespace, and the contents of the whole cluster that belong to them.
    fn snapshot_objects(&self) -> (usize, usize) {
        let names = |args: &[&str]| self.ground.bed.kubectl(args).lines().filter(|line| !line.is_empty()).count();
        let paths = format!(
            "jsonpath={{range .items[?(@.spec.volumeSnapshotRef.namespace==\"{}\")]}}{{.metadata.name}}{{\"\\n\"}}{{end}}",
            self.shop
        );
        (
            names(&["get", "volumesnapshots", "-n", &self.shop, "-o", "name"]),
            names(&["get", "volumesnapshotcontents", "-o", &paths]),
        )
    }

    fn end(&self) {
        self.ground.bed.kubectl(&["delete", "namespace", &self.shop, &self.own, "--wait=false"]);
    }
}

/// The handles of the snapshots that the driver has.
fn handles() -> Vec<String> {
    let state = std::fs::read(Path::new(NODE_STATE).join("csi/state.json")).expect("the driver's state");
    let state: Value = serde_json::from_slice(&state).expect("JSON");
    state["Snapshots"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default()
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_backup_keeps_the_snapshots_of_its_claims_and_takes_their_objects_out_of_the_cluster() {
    let place = Place::start("keeps");
    place.claim("data", &json!({}));
    place.claim("spare", &json!({}));
    place.claim("junk", &json!({"tier": "junk"}));
    place.pod("db", "data", &json!({}));
    place.ground.bed.kubectl(&[
        "create",
        "configmap",
        "rules",
        "-n",
        &place.own,
        "--from-literal=rules=version: v1\nvolumePolicies: [{conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}]",
    ]);
    let _server = place.server();
    place.backup("b", &json!({"resourcePolicy": {"kind": "configmap", "name": "rules"}}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "Completed");
    assert_eq!(backup["status"]["csiVolumeSnapshotsCompleted"], 2, "{backup}");
    assert_eq!(backup["status"]["backupItemOperationsCompleted"], 2, "{backup}");
    assert_eq!((&backup["status"]["warnings"], &backup["status"]["errors"]), (&Value::Null, &Value::Null), "{backup}");
    assert_eq!(place.snapshot_objects(), (0, 0), "the objects are gone");
    let described = place.described("b");
    let snapshots = &described["status"]["backupVolumes"]["csiSnapshots"];
    let snapshots = snapshots.as_object().unwrap_or_else(|| panic!("{described}"));
    let claims: Vec<&str> = snapshots.keys().map(|name| name.rsplit('/').next().unwrap_or_default()).collect();
    assert_eq!(claims, ["data", "spare"], "{described}");
    let there = handles();
    for snapshot in snapshots.values() {
        let handle = snapshot["snapshot"]["storageSnapshotID"].as_str().unwrap_or_default();
        assert!(there.iter().any(|one| one == handle), "{handle} in {there:?}: {described}");
        assert_eq!(snapshot["snapshot"]["csiDriver"], DRIVER, "{described}");
    }
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_snapshot_that_fails_is_one_error_and_leaves_nothing_behind() {
    let place = Place::start("fails");
    place.claim("good", &json!({}));
    place.claim("bad", &json!({}));
    place.ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": "failing"}, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": {"fail": "create-snapshot"}}));
    let annotation = "velero.io/csi-volumesnapshot-class";
    let (bad, good) = (format!("{annotation}=failing"), format!("{annotation}=csi"));
    place.ground.bed.kubectl(&["annotate", "pvc", "bad", "-n", &place.shop, &bad]);
    place.ground.bed.kubectl(&["annotate", "pvc", "good", "-n", &place.shop, &good]);
    let _server = place.server();
    place.backup("b", &json!({"csiSnapshotTimeout": "5s"}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "PartiallyFailed");
    assert_eq!((&backup["status"]["errors"], &backup["status"]["csiVolumeSnapshotsCompleted"]), (&json!(1), &json!(1)));
    let described = place.described("b").to_string();
    assert!(described.contains("was not taken within 5 s"), "{described}");
    eventually("no objects of snapshots", || place.snapshot_objects() == (0, 0));
    place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "failing"]);
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_backup_that_is_cancelled_leaves_no_snapshot() {
    let place = Place::start("leaves");
    place.claim("data", &json!({}));
    // The pod's hook holds the backup while the snapshot of the other claim is taken.
    let wait = json!(["/bin/sh", "-c", "sleep 20"]).to_string();
    place.claim("held", &json!({}));
    place.pod("db", "held", &json!({"pre.hook.backup.velero.io/command": wait}));
    let _server = place.server();
    place.backup("b", &json!({}));
    eventually("a snapshot", || place.snapshot_objects() == (1, 1));
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    command.args(["backup", "cancel", "b", "--namespace", &place.own]);
    let cancelled = run(command.env("KUBECONFIG", place.ground.bed.plane.kubeconfig()));
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    place.ground.until_in(&place.own, "backup", "b", "Failed");
    eventually("no objects of snapshots", || place.snapshot_objects() == (0, 0));
    place.end();
}
