//! What backups and restores of the server would do, as the command line finds it out without them.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Run, run};
use serde_json::{Value, json};
use std::process::Command;

fn lifeboat(ground: &Ground, line: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
    command.args(line.split(' ')).env("KUBECONFIG", ground.bed.plane.kubeconfig());
    command.env("HOME", ground.directories.path()).env_remove("VELERO_NAMESPACE");
    run(&mut command)
}

fn object(kind: &str, name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "data": {"a": data}})
}

#[test]
fn a_plan_says_what_a_restore_of_the_server_would_do_and_nothing_is_made() {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    for name in ["same", "changed", "gone"] {
        ground.create(&object("ConfigMap", name, "b25l"));
    }
    ground.create(&object("Secret", "key", "b25l"));
    ground.s3_location("main", ground.s3.endpoint());
    let kubeconfig = ground.bed.plane.kubeconfig();
    let server = ground.server_with("one", &kubeconfig, &[]);
    ground.until("backupstoragelocation", "main", "Available");
    let space = "--include-namespaces shop --storage-location main";
    let planned = lifeboat(&ground, &format!("backup create b {space} --dry-run"));
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(planned.out.contains("Nothing was written."), "{planned:?}");
    assert!(ground.get("backup", "b").is_null());
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    let backup = ground.until("backup", "b", "Completed");
    let saved = backup["status"]["progress"]["itemsBackedUp"].clone();
    assert!(planned.out.contains(&format!("Would save {saved} objects")), "{planned:?}");
    // Nothing of the following needs a server.
    drop(server);

    ground.bed.kubectl(&["delete", "configmap", "gone", "-n", "shop"]);
    for (kind, name) in [("configmap", "changed"), ("secret", "key")] {
        ground.bed.kubectl(&["patch", kind, name, "-n", "shop", "--type=merge", "-p", r#"{"data": {"a": "dHdv"}}"#]);
    }
    let flags = "--from-backup b --existing-resource-policy update --existing-resource-policy-override secrets=none";
    let plan = lifeboat(&ground, &format!("restore plan {flags} -o json"));
    assert_eq!(plan.code, 0, "{plan:?}");
    let plan: Value = serde_json::from_str(&plan.out).expect("JSON");
    let action = |name: &str| {
        let items = plan["items"].as_array().expect("items");
        items.iter().find(|item| item["name"] == name).map(|item| item["action"].clone()).unwrap_or_default()
    };
    assert_eq!(["gone", "changed", "same", "key"].map(action), ["create", "update", "unchanged", "conflict"]);

    let dry = lifeboat(&ground, &format!("restore create r {flags} --dry-run"));
    assert_eq!(dry.code, 0, "{dry:?}");
    let expected = "update    configmaps/shop/changed\n            /data/a: \"dHdv\" -> \"b25l\"\n";
    assert!(dry.out.contains(expected) && dry.out.contains("CREATE"), "{dry:?}");
    let differing = lifeboat(&ground, &format!("restore diff {flags} --colorized"));
    assert_eq!(differing.code, 0, "{differing:?}");
    assert_eq!(
        differing.out,
        "conflict  secrets/shop/key: it is there, differs, and stays as it is\n            /data/a: \u{1b}[31m\"(hidden)\"\u{1b}[0m -> \u{1b}[32m\"(hidden)\"\u{1b}[0m\n\
         update    configmaps/shop/changed\n            /data/a: \u{1b}[31m\"dHdv\"\u{1b}[0m -> \u{1b}[32m\"b25l\"\u{1b}[0m\n",
    );
    let shown = lifeboat(&ground, &format!("restore diff {flags} --show-secrets --include-resources secrets"));
    assert!(shown.out.contains("/data/a: \"dHdv\" -> \"b25l\""), "{shown:?}");
    for (line, expected) in [
        (
            "restore create r --from-backup b --details",
            "--show-secrets, --details, --validate, --save and --compare are of",
        ),
        ("restore plan --from-backup none", "backups.velero.io \"none\" not found"),
        ("restore plan", "either a backup or schedule must be specified"),
        ("restore diff --from-backup b --include-resources nodes", "nodes are non-restorable resources"),
    ] {
        let run = lifeboat(&ground, line);
        assert!(run.code == 1 && run.err.contains(expected), "{line}: {run:?}");
    }
    let restores = ground.bed.kubectl(&["get", "restores.velero.io", "-n", "velero", "--output=name"]);
    assert_eq!(restores, "", "a plan is no Restore");
    assert_eq!(ground.get_in("shop", "configmap", "changed")["data"]["a"], "dHdv");
}
