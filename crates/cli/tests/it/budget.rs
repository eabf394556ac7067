//! Objects beyond the memory budget wait on disk and lose nothing.

use crate::support::{Sandbox, run};
use std::process::Command;

#[test]
fn more_than_the_budget_is_saved_whole() {
    let text = "lifeboat ".repeat(40_000);
    let manifests: Vec<String> = (0..24)
        .map(|n| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: big-{n}, namespace: default}}, data: {{text: \"{n} {text}\"}}}}"))
        .collect();
    let sandbox = Sandbox::start(&manifests.join("\n---\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let local = |args: &[&str]| {
        let mut command = Command::new("timeout");
        command
            .args(["60", env!("CARGO_BIN_EXE_lifeboat"), "local"])
            .args(args)
            .arg("--bucket")
            .arg(folder.path().join("bucket"));
        command.env("KUBECONFIG", sandbox.kubeconfig()).env("XDG_STATE_HOME", folder.path().join("state"));
        run(&mut command)
    };
    let only = ["--include-resources", "configmaps", "--include-namespaces", "default"];
    let made = local(&[&["backup", "one", "--memory-budget", "4"], &only[..]].concat());
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{made:?}");
    // Without a place on disk reading waits, and the user is told.
    let waits = ["backup", "two", "--memory-budget", "4", "--scratch", "/nonexistent"];
    let made = local(&[&waits[..], &only[..]].concat());
    assert_eq!(made.code, 0, "{made:?}");
    for name in ["one", "two"] {
        let proved = local(&["verify", name]);
        assert!(proved.code == 0 && proved.out.contains(" 25 objects"), "{proved:?}");
    }
}
