//! `lifeboat server --explain`: what a server would do, read by who may only read.

use crate::ground::Ground;
use crate::support::{program, run};
use serde_json::{Value, json};
use std::process::Command;

const KINDS: &str = "backups,restores,backupstoragelocations,downloadrequests,leases.coordination.k8s.io";

/// A kubeconfig of an account that may list the resources and get the Lease, and nothing else.
fn reader(ground: &Ground) -> std::path::PathBuf {
    let rbac = "rbac.authorization.k8s.io/v1";
    let own = |name: &str| json!({"name": name, "namespace": "velero"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own("reader")}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": own("reader"), "rules": [
            {"apiGroups": ["velero.io"], "resources": ["*"], "verbs": ["list"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": own("reader"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "velero"}]}),
    ] {
        ground.create(&object);
    }
    let token = ground.bed.kubectl(&["create", "token", "reader", "--namespace=velero"]);
    let admin = std::fs::read_to_string(ground.bed.plane.kubeconfig()).expect("the kubeconfig");
    let (before, after) = admin.split_once("token: ").expect("a token");
    let (_, after) = after.split_once('}').expect("its end");
    let file = ground.directories.path().join("reader");
    std::fs::write(&file, format!("{before}token: {}}}{after}", token.trim())).expect("write");
    file
}

#[test]
fn a_reader_is_told_the_steps_of_the_server_and_why_the_rest_waits() {
    let ground = Ground::start();
    let kubeconfig = reader(&ground);
    let put = |kind: &str, name: &str, spec: Value, status: Value| {
        ground.create(&json!({"apiVersion": "velero.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "velero"}, "spec": spec, "status": status}));
    };
    let main = json!({"default": true, "provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"},
        "validationFrequency": "0s", "backupSyncPeriod": "0s"});
    let checked = json!({"phase": "Available", "lastValidationTime": "2026-11-22T10:00:00Z"});
    put("BackupStorageLocation", "main", main, checked);
    let backup = |name: &str, phase: &str, position: u32| {
        put("Backup", name, json!({}), json!({"phase": phase, "queuePosition": position}));
    };
    backup("done", "Completed", 0);
    backup("done-too", "Completed", 0);
    backup("first", "Queued", 1);
    backup("second", "Queued", 2);
    backup("runs", "InProgress", 0);
    put("Restore", "again", json!({"backupName": "done"}), json!({}));
    put("DownloadRequest", "log", json!({"target": {"kind": "BackupLog", "name": "gone"}}), json!({}));
    let explain = |args: &[&str]| {
        let mut command = Command::new(program());
        command.args(["server", "--explain"]).args(args).env("KUBECONFIG", &kubeconfig);
        let run = run(&mut command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        run.out
    };
    let state = || ground.bed.kubectl(&["get", KINDS, "--namespace=velero", "--output=json"]);
    let before = state();

    let found: Value = serde_json::from_str(&explain(&["-o", "json"])).expect("JSON");
    let row = |kind: &str, name: &str, (state, reason): (&str, &str), does: &str| json!({"kind": kind, "namespace": "velero", "name": name, "state": state, "reason": reason, "does": does});
    let turn = |name: &str, number: u32| {
        let why = format!("its turn, as number {number} in the queue: 1 of 1 may run at once, and do: runs");
        json!({"kind": "Backup", "namespace": "velero", "name": name, "state": "Queued", "reason": "NoSlot",
            "waitsFor": why, "until": null})
    };
    let finalizer = row(
        "Restore",
        "again",
        ("New", "AddFinalizer"),
        "gets the finalizer that keeps it until its files are deleted",
    );
    let refused = row("DownloadRequest", "log", ("New", "Refuse"), "is refused: backup \"gone\" not found");
    let lost = "fails: found a backup with status \"InProgress\" during the server starting, mark it as \"Failed\"";
    let at_rest = json!([{"kind": "Backup", "phase": "Completed", "count": 2}]);
    assert_eq!(
        found,
        json!({
            "leader": null,
            "steps": [row("BackupStorageLocation", "main", ("Available", "Validate"), "is validated"),
                row("Backup", "runs", ("InProgress", "Fail"), lost),
                finalizer, refused],
            "waits": [turn("first", 1), turn("second", 2)],
            "atRest": at_rest,
            "wake": null,
        })
    );
    assert!(explain(&["--output=yaml"]).contains("atRest:\n"));
    let mut serving = Command::new(program());
    let refused = run(serving.args(["server", "--output=json"]).env("KUBECONFIG", &kubeconfig));
    let why = "--output says how an explanation is printed: use it with --explain, or leave it out";
    assert_eq!((refused.code, refused.err), (1, format!("An error occurred: {why}\n")));
    assert_eq!(state(), before, "nothing is changed, and no Lease is made");

    // Of what a leader is at, another process knows only that.
    ground.create(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "lifeboat-server", "namespace": "velero"},
        "spec": {"holderIdentity": "velero-5d8f_1f0e", "renewTime": "2026-11-22T10:00:00.000000Z",
            "leaseDurationSeconds": i32::MAX}}));
    assert_eq!(
        explain(&[]),
        [
            "KIND                    NAME     STATE        DOES OR WAITS FOR",
            // Nobody has noted yet since when it can be written.
            "BackupStorageLocation   main     Available    is validated",
            "Restore                 again    New          gets the finalizer that keeps it until its files are deleted",
            "DownloadRequest         log      New          is refused: backup \"gone\" not found",
            "Backup                  first    Queued       waits for its turn, as number 1 in the queue: 1 of 1 may run at once, and do: runs",
            "Backup                  runs     InProgress   waits for its end: it is worked on by the leader velero-5d8f, or taken up by the next one",
            "Backup                  second   Queued       waits for its turn, as number 2 in the queue: 1 of 1 may run at once, and do: runs",
            "",
            "At rest: 2 Backups (2 Completed)",
            "velero-5d8f leads, by the Lease. It is taken to work on all that is in progress. What has failed there and waits to be tried again, and what its flags are, only its own log tells.",
            "",
        ]
        .join("\n")
    );
}
