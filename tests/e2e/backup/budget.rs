//! Objects beyond the memory budget wait on disk and lose nothing, and what is left out gives its memory back.

use crate::support::{Run, Sandbox, program, run};
use std::path::Path;
use std::process::Command;

/// The command on a bucket in this folder, below a deadline.
fn local(sandbox: &Sandbox, folder: &Path, args: &[&str]) -> Run {
    let mut command = Command::new("timeout");
    command.args(["60", program(), "local"]).args(args).arg("--bucket").arg(folder.join("bucket"));
    command.env("KUBECONFIG", sandbox.kubeconfig()).env("XDG_STATE_HOME", folder.join("state"));
    run(&mut command)
}

/// Config maps of 360 kB each, with this label.
fn large_config_maps(count: usize, label: &str) -> String {
    large_objects("ConfigMap", count, label)
}

/// Objects of 360 kB each, with this label.
fn large_objects(kind: &str, count: usize, label: &str) -> String {
    let text = "lifeboat ".repeat(40_000);
    let one = |n| {
        format!(
            "{{apiVersion: v1, kind: {kind}, metadata: {{name: big-{n}, namespace: default, labels: {{{label}}}}}, \
             data: {{text: \"{n} {text}\"}}}}"
        )
    };
    (0..count).map(one).collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn more_than_the_budget_is_saved_whole() {
    let sandbox = Sandbox::start(&large_config_maps(24, "size: large"));
    let folder = tempfile::tempdir().expect("a folder");
    let local = |args: &[&str]| local(&sandbox, folder.path(), args);
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

#[test]
fn more_than_the_budget_of_what_actions_look_at_is_saved_whole() {
    let sandbox = Sandbox::start(&large_objects("Pod", 24, "size: large"));
    let folder = tempfile::tempdir().expect("a folder");
    let local = |args: &[&str]| local(&sandbox, folder.path(), args);
    let only = ["--include-resources", "pods", "--include-namespaces", "default"];
    let made = local(&[&["backup", "one", "--memory-budget", "4"], &only[..]].concat());
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{made:?}");
    // Without a place on disk they are read again, and the user is told.
    let again = ["backup", "two", "--memory-budget", "4", "--scratch", "/nonexistent"];
    let made = local(&[&again[..], &only[..]].concat());
    assert!(made.code == 0 && made.err.contains("so some are read again when their turn comes"), "{made:?}");
    for name in ["one", "two"] {
        let proved = local(&["verify", name]);
        assert!(proved.code == 0 && proved.out.contains(" 24 objects"), "{proved:?}");
    }
}

#[test]
fn what_is_left_out_keeps_no_backup_waiting() {
    let left_out = large_config_maps(24, "velero.io/exclude-from-backup: \"true\"");
    let last = "{apiVersion: v1, kind: ConfigMap, metadata: {name: wanted, namespace: default}}";
    let sandbox = Sandbox::start(&format!("{left_out}\n---\n{last}"));
    let folder = tempfile::tempdir().expect("a folder");
    let local = |args: &[&str]| local(&sandbox, folder.path(), args);
    let only = ["--include-resources", "configmaps", "--include-namespaces", "default"];
    let made = local(&[&["backup", "one", "--memory-budget", "4"], &only[..]].concat());
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{made:?}");
    let proved = local(&["verify", "one"]);
    assert!(proved.code == 0 && proved.out.contains(" 2 objects"), "{proved:?}");
}
