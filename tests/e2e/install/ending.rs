//! A namespace that is deleted by hand, with what of an installation is in it.

use super::{BUCKET, Ground};
use crate::support::{eventually, program, run};
use serde_json::{Value, json};
use std::process::Command;

const FINALIZER: &str = "restores.velero.io/external-resources-finalizer";

impl Ground {
    fn restore(&self, name: &str) -> Value {
        self.json(&["get", "restore", name, "-n", "velero"])
    }

    fn is_ending(&self) -> bool {
        self.json(&["get", "namespace", "velero"])["metadata"]["deletionTimestamp"].is_string()
    }

    /// An installation with its server, a backup, and a restore that has files.
    fn with_a_restore(&self) -> super::Server {
        assert_eq!(self.install(&[]).code, 0);
        let server = self.server("velero", &self.bed.plane.kubeconfig());
        eventually("the location", || {
            self.json(&["get", "backupstoragelocation", "default", "-n", "velero"])["status"]["phase"] == "Available"
        });
        self.run(&["backup", "create", "b", "--include-namespaces", "default", "--wait"]);
        let run = self.run(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
        assert!(run.out.contains("Restore completed with status: Completed."), "{run:?}");
        server
    }
}

/// After `kubectl delete namespace velero`.
#[test]
fn a_namespace_that_is_deleted_by_hand_comes_to_its_end() {
    let ground = Ground::start();
    let server = ground.with_a_restore();

    // One that was refused has no files, and holds nothing.
    let spec = json!({"backupName": "nope"});
    ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "Restore", "spec": spec,
        "metadata": {"name": "refused", "namespace": "velero"}}));
    eventually("a refused restore without a finalizer", || {
        let found = ground.restore("refused");
        found["status"]["phase"] == "FailedValidation" && found["metadata"]["finalizers"].is_null()
    });
    assert_eq!(ground.restore("r")["metadata"]["finalizers"], json!([FINALIZER]));

    // With a server: it ends by itself.
    ground.bed.kubectl(&["delete", "namespace", "velero", "--timeout=180s"]);
    assert!(ground.json(&["get", "namespace", "velero"]).is_null());
    drop(server);

    // Without one: a server that comes later can make no Lease, and lets the restore go nevertheless.
    drop(ground.with_a_restore());
    // Data movement under way, whose node agents go with the namespace.
    let upload = |name: &str, finalizer: &str| {
        let spec = json!({"backupStorageLocation": "default", "sourceNamespace": "shop", "sourcePVC": "data", "snapshotType": "CSI",
            "operationTimeout": "10m", "csiSnapshot": {"volumeSnapshot": "s", "storageClass": "c", "snapshotClass": "c"}});
        ground.create(&json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "spec": spec,
            "metadata": {"name": name, "namespace": "velero", "finalizers": [finalizer]}}));
    };
    upload("moving", "velero.io/data-upload-download-finalizer");
    ground.bed.kubectl(&["delete", "namespace", "velero", "--wait=false"]);
    eventually("the end of the Leases", || ground.names(&["leases", "-n", "velero"]).is_empty());
    assert!(ground.is_ending() && !ground.restore("r").is_null());
    let mut command = Command::new(program());
    command
        .args(["server", "--metrics-address=127.0.0.1:0", "--download-address=127.0.0.1:0"])
        .env("KUBECONFIG", ground.bed.plane.kubeconfig());
    let late = run(&mut command);
    assert!(
        late.code == 1 && late.err.contains("the namespace velero is being deleted: its restores were let go"),
        "{late:?}"
    );
    assert!(late.out.contains("DataUpload moving is let go") && late.out.contains("VolumeSnapshot s"), "{late:?}");
    eventually("the end of the namespace", || ground.json(&["get", "namespace", "velero"]).is_null());

    // Or nobody comes, and it has no label by which it would be known.
    drop(ground.with_a_restore());
    ground.bed.kubectl(&["label", "namespace", "velero", "component-"]);
    ground.bed.kubectl(&["delete", "namespace", "velero", "--wait=false"]);
    eventually("the end of the Deployment", || ground.names(&["deployments", "-n", "velero"]).is_empty());
    assert!(ground.is_ending() && !ground.restore("r").is_null());
    let gone = ground.run(&["uninstall", "--force"]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(gone.out.contains("left in the bucket stays there: restores/r/; "), "{gone:?}");
    assert!(ground.is_clean("velero", "velero"));
    assert!(ground.s3.file(BUCKET, "backups/b/velero-backup.json").exists());
}
