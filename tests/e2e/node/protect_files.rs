//! The page about volumes without snapshots, done as it stands there: a database is lost, and comes back with its data.

use super::movers::image;
use super::turn::Turn;
use crate::ground::Ground;
use crate::page::{self, Reader};
use crate::support::{comes_to_be, program, run};
use serde_json::json;
use std::process::Command;

/// The end of the command of the page that installs.
const INSTALL: &str = "--use-node-agent --wait\n";

/// A set of one pod with a claim, which has written its orders.
fn database(ground: &Ground) {
    ground.bed.kubectl(&["create", "namespace", "shop"]);
    let labels = json!({"app": "db"});
    ground.create(&json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"replicas": 1, "serviceName": "db", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0,
                "containers": [{"name": "db", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sh", "-c", "sleep 36000"], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi",
                    "resources": {"requests": {"storage": "16Mi"}}}}]}}));
    ground.bed.kubectl(&["wait", "--for=create", "pod/db-0", "-n", "shop", "--timeout=120s"]);
    ground.bed.kubectl(&["wait", "--for=condition=Ready", "pod/db-0", "-n", "shop", "--timeout=180s"]);
    let orders = "umask 077 && mkdir /data/orders && seq 1 20000 > /data/orders/2026 && head -c 300000 /dev/urandom > /data/orders/index && \
                  chown -R 70:70 /data/orders && sync";
    ask(ground, orders);
}

fn ask(ground: &Ground, command: &str) -> String {
    ground.bed.kubectl(&["exec", "-n", "shop", "db-0", "--", "/bin/sh", "-c", command])
}

/// The owners, modes and hashes of what the database has on its disk.
fn data(ground: &Ground) -> String {
    ask(ground, "cd /data && stat -c '%n %u:%g %a' orders orders/* && sha256sum orders/*")
}

/// The commands of the page install into the namespace `velero`.
#[test]
#[ignore = "needs a node: make test-node"]
fn a_database_is_protected_and_comes_back_by_the_page_for_it() {
    let _turn = Turn::alone();
    let ground = Ground::with_node("velero");
    database(&ground);
    let before = data(&ground);
    assert!(before.contains("orders/2026 70:70 600"), "{before}");
    let text = page::read("protect-files.md");
    assert_eq!(text.matches(INSTALL).count(), 1, "the page installs once");
    // The node has no other image, and no registry.
    let here = format!("{} --image {}\n", INSTALL.trim_end(), image());
    let text = text.replace(INSTALL, &here);
    let part = |from: &str, to: &str| {
        let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("the page has {from:?}"));
        rest.split_once(to).unwrap_or_else(|| panic!("behind it is {to:?}")).0.to_owned()
    };
    let mut reader = Reader::with_bucket(&ground.s3, "by-page");
    reader.follow(&ground.bed, &part("## Bring in the node agent", "## Bring them back"));
    // Lost later than they were saved.
    ask(&ground, "echo 20001 >> /data/orders/2026 && rm /data/orders/index && sync");
    reader.follow(&ground.bed, &part("## Bring them back", "Into a new cluster:"));
    assert_eq!(data(&ground), before);
    reader.follow(&ground.bed, &part("## What a volume may wait for", "## Fewer rights"));
    reader.follow(&ground.bed, &part("## Single files", "## What is not there yet"));

    ground.bed.kubectl(&["delete", "namespace", "shop", "--wait=true", "--timeout=120s"]);
    let gone =
        run(Command::new(program()).args(["uninstall", "--force"]).env("KUBECONFIG", ground.bed.plane.kubeconfig()));
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(comes_to_be(|| ground.get_in("", "namespace", "velero").is_null()), "the namespace stays");
}
