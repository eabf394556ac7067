//! `lifeboat status`: what is protected and what is not.

use crate::ground::Ground;
use crate::support::{Run, comes_to_be, run};
use serde_json::{Value, json};
use std::process::Command;

fn lifeboat(ground: &Ground, line: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    command.args(line.split(' ').map(|word| word.replace('~', " ")));
    run(command.env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC"))
}

fn attention(status: &Value) -> Vec<&str> {
    let all = status["attention"].as_array().expect("a list").iter();
    all.map(|one| one["what"].as_str().expect("text")).collect()
}

#[test]
fn a_cluster_comes_to_be_protected() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Mi"}}}});
    ground.create(&claim);
    let bare = lifeboat(&ground, "status --timeout 1s");
    assert_eq!((bare.code, bare.err.as_str()), (2, ""));
    assert!(bare.out.starts_with("No server answers in namespace velero: "), "{}", bare.out);
    let missing = "\n! there is no backup storage location: nothing can be backed up\n    next: `lifeboat backup-location create default --provider aws --bucket BUCKET --default`\n";
    assert!(bare.out.contains(missing), "{}", bare.out);
    let uncovered = "\n! no schedule saves default, shop (1 claim of volumes)\n    next: `lifeboat schedule create NAME --schedule '0 3 * * *' \
                     --include-namespaces default,shop`, or label a namespace that is to stay out: velero.io/exclude-from-backup=true\n";
    assert!(bare.out.ends_with(uncovered), "{}", bare.out);

    ground.directory("main", &json!({"default": true}));
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    ground.bed.kubectl(&["label", "namespace", "default", "velero.io/exclude-from-backup=true"]);
    let create = "schedule create yearly --schedule @yearly --include-namespaces shop --snapshot-volumes=false";
    assert_eq!(lifeboat(&ground, create).code, 0);
    assert_eq!(lifeboat(&ground, "backup create b --from-schedule yearly --wait").code, 0);
    let mut run = lifeboat(&ground, "status -o json");
    let is_enabled = |out: &str| out.contains("\"state\": \"Enabled\"");
    let _ = comes_to_be(|| {
        run = lifeboat(&ground, "status -o json");
        is_enabled(&run.out)
    });
    assert_eq!(run.code, 2, "{run:?}");
    let status: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(attention(&status), ["the schedules of shop leave the data of volumes out"]);
    assert!(status["server"]["version"].is_string(), "{status}");
    let [namespace] = &status["namespaces"].as_array().expect("a list")[..] else { panic!("{status}") };
    assert_eq!((&namespace["name"], &namespace["lastGood"]["backup"]), (&json!("shop"), &json!("b")));
    assert_eq!((&namespace["claims"], &namespace["schedules"]), (&json!(1), &json!(["yearly"])));

    let patch = r#"{"spec":{"template":{"snapshotVolumes":null}}}"#;
    ground.bed.kubectl(&["patch", "schedule", "yearly", "-n", "velero", "--type=merge", "-p", patch]);
    let run = lifeboat(&ground, "status");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(run.out.contains("\nLOCATION   PHASE       LAST VALIDATED "), "{}", run.out);
    assert!(run.out.contains("\nNAMESPACE   LAST GOOD BACKUP   STARTED"), "{}", run.out);
    assert!(run.out.ends_with("\n\nNothing needs attention.\n"), "{}", run.out);
}
