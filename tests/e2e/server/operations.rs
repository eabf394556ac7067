//! `lifeboat server`: what custom resources ask for comes to be, whoever dies.

use crate::ground::{BUCKET, Ground, copy};
use crate::support::{eventually, gunzip_json, program, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule, Seen};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// scenario: Backups, Deletion
/// scenario: PrivilegesMgmt, SSR
#[test]
fn custom_resources_are_all_it_takes() {
    let ground = Ground::start();
    ground.many("shop", 20);
    let before = ground.maps("shop");
    ground.s3_location("main", ground.s3.endpoint());
    let bucket = ground.directory("second", &json!({"default": true}));
    ground.directory("sealed", &json!({"accessMode": "ReadOnly"}));
    ground.velero(
        "BackupStorageLocation",
        "broken",
        &json!({"provider": "aws",
        "objectStorage": {"bucket": "nowhere"}, "config": {"region": "x", "s3Url": "http://127.0.0.1:1"}}),
    );
    ground.velero(
        "BackupStorageLocation",
        "strange",
        &json!({"provider": "example.com/x", "objectStorage": {"bucket": "b"}}),
    );
    let server = ground.server("one");
    for name in ["main", "second", "sealed"] {
        ground.until("backupstoragelocation", name, "Available");
    }
    // A changed location is looked at at once: `sealed` has moved away, and comes back.
    let path = |to: &Path| format!(r#"{{"spec":{{"config":{{"path":{:?}}}}}}}"#, to.display().to_string());
    let home = bucket.parent().expect("a folder").with_file_name("sealed");
    for (to, phase) in [(home.join("nowhere"), "Unavailable"), (home, "Available")] {
        let patch = path(&to);
        ground.bed.kubectl(&["patch", "backupstoragelocation", "sealed", "-n", "velero", "--type=merge", "-p", &patch]);
        ground.until("backupstoragelocation", "sealed", phase);
    }
    for (name, why) in
        [("broken", "BackupStorageLocation \"broken\" is unavailable: "), ("strange", "there is no provider")]
    {
        let found = ground.until("backupstoragelocation", name, "Unavailable");
        assert!(found["status"]["message"].as_str().unwrap_or_default().contains(why), "{found}");
    }

    // Everything round, in both locations.
    for location in ["main", "second"] {
        let (backup, restore) = (format!("{location}-b"), format!("{location}-r"));
        ground.velero("Backup", &backup, &json!({"includedNamespaces": ["shop"], "storageLocation": location}));
        let done = ground.until("backup", &backup, "Completed");
        assert_eq!(done["metadata"]["labels"]["velero.io/storage-location"], location);
        assert_eq!(done["status"]["progress"]["itemsBackedUp"], done["status"]["progress"]["totalItems"]);
        ground.lose("shop");
        ground.velero("Restore", &restore, &json!({"backupName": backup}));
        ground.until("restore", &restore, "Completed");
        assert_eq!(ground.maps("shop"), before, "{location}");
    }

    // What cannot be done is said, and holds nobody up.
    for (name, spec, why) in [
        (
            "sealed-b",
            json!({"storageLocation": "sealed"}),
            "backup can't be created because backup storage location sealed is currently in read-only mode",
        ),
        (
            "broken-b",
            json!({"storageLocation": "broken"}),
            "backup can't be created because BackupStorageLocation broken is in Unavailable status.",
        ),
        (
            "lists-b",
            json!({"includedNamespaces": ["a", "*"]}),
            "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
        ),
    ] {
        ground.velero("Backup", name, &spec);
        let refused = ground.until("backup", name, "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!([why]));
    }
    for (name, spec, why) in [
        (
            "none-r",
            json!({"backupName": "none"}),
            "Error retrieving backup: can't find backup velero/none: backups.velero.io \"none\" not found",
        ),
        (
            "bad-r",
            json!({"backupName": "lists-b"}),
            "Error retrieving backup: backupstoragelocations.velero.io \"\" not found",
        ),
        (
            "both-r",
            json!({"backupName": "main-b", "scheduleName": "x"}),
            "Either a backup or schedule must be specified as a source for the restore, but not both",
        ),
    ] {
        ground.velero("Restore", name, &spec);
        let refused = ground.until("restore", name, "FailedValidation");
        let errors = refused["status"]["validationErrors"].to_string();
        if name == "bad-r" {
            assert!(errors.contains("cannot be used as a restore source"), "{errors}");
        } else {
            assert_eq!(refused["status"]["validationErrors"], json!([why]));
        }
    }

    // Requests.
    ground.velero("DownloadRequest", "log", &json!({"target": {"kind": "BackupLog", "name": "main-b"}}));
    let answered = ground.until("downloadrequest", "log", "Processed");
    let url = answered["status"]["downloadURL"].as_str().unwrap_or_default();
    assert!(url.contains("/main/backups/main-b/main-b-logs.gz?") && url.contains("X-Amz-Signature="), "{url}");
    ground.velero("DownloadRequest", "nothing", &json!({"target": {"kind": "BackupLog", "name": "lists-b"}}));
    eventually("the expiration of a request for nothing", || {
        let found = ground.get("downloadrequest", "nothing");
        found["status"]["expiration"].is_string() && found["status"]["phase"].is_null()
    });
    ground.velero("ServerStatusRequest", "status", &json!({}));
    ground.velero_in("default", "ServerStatusRequest", "wrong", &json!({}));
    let answered = ground.until("serverstatusrequest", "status", "Processed");
    assert_eq!(answered["status"]["serverVersion"], format!("v{}", env!("CARGO_PKG_VERSION")));

    // Deletion takes the restores along, and the files of both.
    ground.velero("DeleteBackupRequest", "delete", &json!({"backupName": "second-b"}));
    for (kind, name) in [("deletebackuprequest", "delete"), ("backup", "second-b"), ("restore", "second-r")] {
        ground.until_gone(kind, name);
    }
    for folder in ["backups", "restores"] {
        let left: Vec<_> = std::fs::read_dir(bucket.join(folder)).map(|d| d.flatten().collect()).unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(ground.maps("shop"), before);
    ground.velero("DeleteBackupRequest", "nothing", &json!({"backupName": "none"}));
    let refused = ground.until("deletebackuprequest", "nothing", "Processed");
    assert_eq!(refused["status"]["errors"], json!(["backup not found"]));
    assert!(ground.get_in("default", "serverstatusrequest", "wrong")["status"]["phase"].is_null(), "it has no server");
    // A restore goes with its files.
    ground.bed.kubectl(&["delete", "restore", "main-r", "--namespace=velero", "--timeout=180s"]);
    assert!(!ground.s3.file(BUCKET, "main/restores/main-r/restore-main-r-logs.gz").exists());

    assert_eq!(server.stop(), Some(0), "told to stop");
}

#[test]
fn commands_ask_for_the_same() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let before = ground.maps("shop");
    let folder = ground.directories.path().display().to_string();
    let _server = ground.server("one");
    let run = |args: &str| {
        let mut command = Command::new(program());
        command.args(args.split_whitespace()).env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC");
        run(&mut command)
    };
    let says = |args: &str, code: i32, text: &str| {
        let run = run(args);
        assert_eq!(run.code, code, "{args}: {run:?}");
        assert!(run.out.contains(text) || run.err.contains(text), "{args}: {run:?} does not say {text:?}");
    };
    says(
        &format!(
            "backup-location create main --provider lifeboat.io/directory --bucket b --prefix p --config path={folder} --default"
        ),
        0,
        "Backup storage location \"main\" configured successfully.\n",
    );
    says(
        "backup-location create other --provider aws --bucket b --default",
        1,
        "already a default backup storage location: main",
    );
    ground.until("backupstoragelocation", "main", "Available");
    let table = run("backup-location get").out;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(
        rows[0],
        "NAME   PROVIDER                BUCKET/PREFIX   PHASE       LAST VALIDATED                  ACCESS MODE   DEFAULT"
    );
    assert!(rows[1].starts_with("main   lifeboat.io/directory   b/p             Available   20"), "{table}");
    assert!(rows[1].ends_with(" +0000 UTC   ReadWrite     true"), "{table}");

    says("backup get", 0, "");
    says("backup create", 1, "a backup name is required, unless you are creating based on a schedule");
    says("backup create one --storage-location nope", 1, "backupstoragelocations.velero.io \"nope\" not found");
    says("backup create one --include-namespaces a,*", 1, "includes list must either contain '*' only");
    says(
        "backup create one --include-namespaces shop --labels team=a --wait",
        0,
        "\nBackup completed with status: Completed. You may check for more information using the commands `lifeboat backup describe one` and `lifeboat backup logs one`.\n",
    );
    says("backup create one", 1, "backups.velero.io \"one\" already exists");
    says("backup create two --include-namespaces shop -o yaml", 0, "includedNamespaces:\n  - shop\n");
    assert!(ground.get("backup", "two").is_null(), "-o prints and sends nothing");
    says("backup get nope", 1, "backups.velero.io \"nope\" not found");
    let table = run("backup get -l team=a -L team").out;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(
        rows[0],
        "NAME   STATUS      ERRORS   WARNINGS   CREATED                         EXPIRES   STORAGE LOCATION   QUEUE POSITION   SELECTOR   TEAM"
    );
    assert!(
        rows[1].starts_with("one    Completed   0        0          20") && rows[1].contains("   29d       main  "),
        "{table}"
    );
    assert!(rows[1].ends_with("<none>     a"), "{table}");
    let one: Value = serde_json::from_str(&run("backup get one -o json").out).expect("JSON");
    assert_eq!((&one["kind"], &one["status"]["phase"]), (&json!("Backup"), &json!("Completed")));

    ground.lose("shop");
    says("restore create", 1, "either a backup or schedule must be specified, but not both");
    says("restore create --from-backup nope", 1, "backups.velero.io \"nope\" not found");
    says(
        "restore create r --from-backup one --wait",
        0,
        "\nRestore completed with status: Completed. You may check for more information using the commands `lifeboat restore describe r` and `lifeboat restore logs r`.\n",
    );
    assert_eq!(ground.maps("shop"), before);
    let table = run("get restores").out;
    assert!(table.lines().nth(1).is_some_and(|row| row.starts_with("r      one      Completed   20")), "{table}");

    says("restore delete", 1, "exactly one of");
    says("backup delete one", 0, "error reading user input: EOF");
    says("backup delete nope --confirm", 0, "No backups found\n");
    says("delete backup one nope --confirm", 1, "Request to delete backup \"one\" submitted successfully.\n");
    ground.until_gone("backup", "one");
    ground.until_gone("restore", "r");
    assert_eq!(ground.maps("shop"), before);
}

/// scenario: Backups, BackupsSync
/// scenario: Upgrade
#[test]
fn a_bucket_that_velero_filled_shows_up() {
    let ground = Ground::start();
    let bucket = ground.directory("default", &json!({"default": true, "backupSyncPeriod": "1s"}));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    copy(&golden, &bucket.join("backups/one-ns"));
    for name in ["cluster-false", "scoped", "selector"] {
        copy(&golden.with_file_name(name), &bucket.join("backups").join(name));
    }
    // Half-written: no record yet.
    copy(&golden, &bucket.join("backups/half"));
    std::fs::remove_file(bucket.join("backups/half/velero-backup.json")).expect("a record");
    // Velero's server may still be there: it never asks who leads.
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "velero-1", "namespace": "velero", "labels": {"deploy": "velero"}},
        "spec": {"containers": [{"name": "velero", "image": "velero/velero:v1.18.2", "args": ["server"]}]}}));
    let _server = ground.server("one");
    eventually("a word about the other server", || ground.log("one").contains("waiting until it has ended"));
    assert!(ground.get("lease", "lifeboat-server").is_null());
    ground.bed.kubectl(&["delete", "pod", "velero-1", "--namespace=velero", "--force", "--grace-period=0"]);
    let found = ground.until("backup", "one-ns", "Completed");
    assert_eq!(found["spec"]["storageLocation"], "default");
    assert_eq!(found["metadata"]["labels"]["velero.io/storage-location"], "default");
    for name in ["cluster-false", "scoped", "selector"] {
        let record = std::fs::read(bucket.join(format!("backups/{name}/velero-backup.json"))).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        eventually("the others", || ground.get("backup", name)["status"] == record["status"]);
    }

    ground.velero("Restore", "r", &json!({"backupName": "one-ns", "includedResources": ["configmaps"]}));
    ground.until("restore", "r", "Completed");
    assert!(!ground.maps("app1").is_empty());
    assert!(ground.get("backup", "half").is_null());

    what_was_never_finished_goes(&ground, &bucket);

    // Its files are lost: so is the object, and only then.
    std::fs::remove_dir_all(bucket.join("backups/one-ns")).expect("the files");
    ground.until_gone("backup", "one-ns");
}

/// A server that has stood by looks again when it comes to lead: a Velero server may have been started meanwhile, here
/// as Velero's Helm chart starts it.
#[test]
fn who_comes_to_lead_looks_for_velero_again() {
    let ground = Ground::start();
    ground.many("shop", 3);
    ground.directory("default", &json!({"default": true}));
    let first = ground.server("one");
    ground.until("backupstoragelocation", "default", "Available");
    let _second = ground.server("two");
    eventually("the second server", || ground.log("two").contains("waiting for the leadership"));
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "velero-1", "namespace": "velero", "labels": {
            "name": "velero", "app.kubernetes.io/name": "velero", "app.kubernetes.io/instance": "velero"}},
        "spec": {"containers": [{"name": "velero", "image": "velero/velero:v1.18.2", "command": ["/velero"],
            "args": ["server", "--uploader-type=kopia"]}]}}));
    assert_eq!(first.stop(), Some(0));
    eventually("a word about the other server", || ground.log("two").contains("waiting until it has ended"));
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    // It keeps the leadership, and does nothing with it.
    let lease = || ground.get("lease", "lifeboat-server")["spec"].clone();
    let before = lease();
    let is_held = before["holderIdentity"].as_str().is_some_and(|holder| holder.starts_with("two_"));
    assert!(is_held, "{before}");
    eventually("a renewal", || lease()["renewTime"] != before["renewTime"]);
    assert!(ground.get("backup", "b")["status"]["phase"].is_null());
    assert!(!ground.log("two").contains("msg=\"leading\""), "{}", ground.log("two"));
    ground.bed.kubectl(&["delete", "pod", "velero-1", "--namespace=velero", "--force", "--grace-period=0"]);
    ground.until("backup", "b", "Completed");
}

#[test]
fn the_log_is_on_standard_output() {
    let mut command = Command::new(program());
    command.args(["server", "--features=Unknown", "--kubeconfig=/does/not/exist"]);
    let run = run(&mut command);
    assert!(
        run.out.contains(r#"level=warning msg="this flag has no effect in this version" flag=features"#),
        "{run:?}"
    );
    assert_eq!(
        (run.code, run.err.as_str()),
        (1, "An error occurred: cannot use the kubeconfig /does/not/exist: there is no such file\n")
    );
}

#[test]
fn two_processes_of_one_name_never_lead_together() {
    let ground = Ground::start();
    let first = ground.server("one");
    let holder = || ground.get("lease", "lifeboat-server")["spec"]["holderIdentity"].clone();
    eventually("the first", || ground.log("one").contains("msg=\"leading\""));
    let before = holder();
    let second = ground.server_with("again", &ground.bed.plane.kubeconfig(), &["--identity", "one"]);
    eventually("the second", || ground.log("again").contains("waiting for the leadership"));
    let renewed = || ground.get("lease", "lifeboat-server")["spec"]["renewTime"].clone();
    for _ in 0..3 {
        let last = renewed();
        eventually("a renewal", || renewed() != last);
    }
    assert_eq!(holder(), before);
    assert_eq!(first.stop(), Some(0));
    eventually("the second to lead", || ground.log("again").contains("msg=\"leading\""));
    assert_ne!(holder(), before);
    assert_eq!(second.stop(), Some(0));
}

/// Unfinished files go when it was this server that left them, long ago. Those of others stay, and a new Backup may have
/// the name of one that is gone.
fn what_was_never_finished_goes(ground: &Ground, bucket: &Path) {
    let here = ground.bed.kubectl(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"]);
    let now = jiff::Timestamp::now();
    let old = now - jiff::SignedDuration::from_hours(2);
    for (name, cluster, namespace, claimed) in [
        ("left", here.as_str(), "velero", old),
        ("left-now", &here, "velero", now),
        ("left-elsewhere", "another", "velero", old),
        ("left-by-another", &here, "other", old),
        ("left-by-a-command", &here, "", old),
    ] {
        let mut claim = json!({"format": "lifeboat.io/claim/v1", "clusterUID": cluster, "backupUID": "gone",
            "namespace": namespace, "attempt": 1, "claimed": claimed});
        if namespace.is_empty() {
            claim.as_object_mut().expect("a map").remove("namespace");
        }
        let folder = bucket.join("backups").join(name);
        std::fs::create_dir(&folder).expect("a folder");
        for (file, body) in [("lifeboat-claim.json", claim.to_string()), ("left.tar.gz", "x".into())] {
            std::fs::write(folder.join(file), body).expect("a file");
        }
    }
    eventually("the sweep", || !bucket.join("backups/left/lifeboat-claim.json").exists());
    assert!(!bucket.join("backups/left/left.tar.gz").exists(), "the claim is the last to go");
    for name in ["half", "left-now", "left-elsewhere", "left-by-another", "left-by-a-command"] {
        let files = std::fs::read_dir(bucket.join("backups").join(name)).expect("a folder");
        assert!(files.count() > 1, "{name} is not ours to remove");
    }
    ground.velero("Backup", "left-now", &json!({"includedNamespaces": ["app1"]}));
    ground.until("backup", "left-now", "Completed");
    ground.velero("Backup", "left-by-another", &json!({"includedNamespaces": ["app1"]}));
    let refused = ground.until("backup", "left-by-another", "Failed");
    assert_eq!(refused["status"]["failureReason"], "backup already exists in object storage");
}

/// Phases in which a server of Velero left its work.
#[test]
fn what_velero_was_at_comes_to_its_end() {
    let ground = Ground::start();
    let bucket = ground.directory("default", &json!({"default": true, "backupSyncPeriod": "1s"}));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    let gzip = |value: &Value| lifeboat_archive::sidecar::encode(value).expect("a file");
    let operation = |phase: &str, created: &str| {
        json!({"spec": {"backupItemAction": "example.com/x", "operationID": "1"},
            "status": {"phase": phase, "created": created}})
    };
    let left = |name: &str, phase: &str, operations: &Value| {
        copy(&golden, &bucket.join("backups").join(name));
        for file in std::fs::read_dir(bucket.join("backups").join(name)).expect("files") {
            let path = file.expect("a file").path();
            let renamed = path.file_name().expect("a name").to_string_lossy().replace("one-ns", name);
            std::fs::rename(&path, path.with_file_name(renamed)).expect("rename");
        }
        let record = bucket.join(format!("backups/{name}/velero-backup.json"));
        let mut backup: Value = serde_json::from_slice(&std::fs::read(&record).expect("a record")).expect("JSON");
        backup["metadata"] =
            json!({"name": name, "namespace": "velero", "labels": {"velero.io/storage-location": "default"}});
        backup["status"]["phase"] = json!(phase);
        backup["status"]["completionTimestamp"] = Value::Null;
        std::fs::write(&record, backup.to_string()).expect("write");
        std::fs::write(bucket.join(format!("backups/{name}/{name}-itemoperations.json.gz")), gzip(operations))
            .expect("write");
        backup["status"].as_object_mut().expect("a status").remove("completionTimestamp");
        ground.create(&backup);
    };
    let long_ago = "2026-01-01T00:00:00Z";
    left("good", "WaitingForPluginOperations", &json!([operation("Completed", long_ago)]));
    left(
        "stranger",
        "WaitingForPluginOperations",
        &json!([operation("Completed", long_ago), operation("New", "2100-01-01T00:00:00Z")]),
    );
    left("failed", "WaitingForPluginOperationsPartiallyFailed", &json!([operation("Failed", long_ago)]));
    left("finalizing", "FinalizingPartiallyFailed", &json!([]));
    left("running", "InProgress", &json!([]));
    let uid = ground.get("backup", "running")["metadata"]["uid"].as_str().expect("a UID").to_owned();
    ground.create(&json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
        "metadata": {"name": "upload", "namespace": "velero", "labels": {"velero.io/backup-uid": uid}},
        "spec": {"snapshotType": "CSI", "sourcePVC": "p", "backupStorageLocation": "default", "sourceNamespace": "n",
            "operationTimeout": "10m"}, "status": {"phase": "InProgress"}}));
    // Found in the bucket, with volumes.
    copy(&golden, &bucket.join("backups/one-ns"));
    let volume = json!({"kind": "PodVolumeBackup", "apiVersion": "velero.io/v1",
        "metadata": {"name": "one-ns-x", "namespace": "other", "uid": "1", "resourceVersion": "7",
            "labels": {"velero.io/backup-name": "one-ns", "velero.io/backup-uid": "old"},
            "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "one-ns", "uid": "old"}]},
        "spec": {"node": "n", "pod": {"kind": "Pod", "name": "p"}, "volume": "v", "backupStorageLocation": "there",
            "repoIdentifier": "r"},
        "status": {"phase": "Completed", "snapshotID": "s", "progress": {}}});
    std::fs::write(bucket.join("backups/one-ns/one-ns-podvolumebackups.json.gz"), gzip(&json!([volume])))
        .expect("write");

    what_servers_left(&ground);
    let server = ground.server("one");
    let completed = |name: &str, phase: &str| {
        let ended = ground.until("backup", name, phase);
        assert!(ended["status"]["completionTimestamp"].is_string(), "{ended}");
        let record = std::fs::read(bucket.join(format!("backups/{name}/velero-backup.json"))).expect("a record");
        let record: Value = serde_json::from_slice(&record).expect("JSON");
        assert_eq!(record["status"], ended["status"], "{name}");
        ended
    };
    assert_eq!(completed("good", "Completed")["status"]["backupItemOperationsCompleted"], 1);
    let stranger = completed("stranger", "PartiallyFailed");
    assert_eq!(
        (&stranger["status"]["backupItemOperationsFailed"], &stranger["status"]["errors"]),
        (&json!(1), &json!(1))
    );
    let operations = gunzip_json(&bucket.join("backups/stranger/stranger-itemoperations.json.gz"));
    let why = "this server has no action example.com/x, which alone knows how far it is, plugin: example.com/x";
    assert_eq!(operations[1]["status"]["error"], why);
    let results = gunzip_json(&bucket.join("backups/stranger/stranger-results.gz"));
    assert!(results["errors"].to_string().contains(why), "{results}");
    assert_eq!(completed("failed", "PartiallyFailed")["status"]["backupItemOperationsFailed"], 1);
    completed("finalizing", "PartiallyFailed");
    let running = ground.until("backup", "running", "Failed");
    let reason = "found a backup with status \"InProgress\" during the server starting, mark it as \"Failed\"";
    assert_eq!(running["status"]["failureReason"], reason);
    let upload = ground.get("dataupload", "upload");
    assert_eq!(upload["spec"]["cancel"], true);
    let why = "Dataupload is in status \"InProgress\" during the velero server starting, mark it as cancel";
    assert_eq!(upload["status"]["message"], why);

    let backup = ground.until("backup", "one-ns", "Completed");
    let mut volume = Value::Null;
    eventually("its volume", || {
        volume = ground.get("podvolumebackup", "one-ns-x");
        !volume.is_null()
    });
    let uid = &backup["metadata"]["uid"];
    assert_eq!(&volume["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(&volume["metadata"]["labels"]["velero.io/backup-uid"], uid);
    assert_eq!(volume["spec"]["backupStorageLocation"], "default");
    assert_eq!(volume["status"]["snapshotID"], "s");

    what_servers_left_ends(&ground, &bucket);

    // The old way with what is in progress.
    assert_eq!(server.stop(), Some(0));
    ground.create(&object("Backup", "ours", &json!({}), "InProgress", "1"));
    ground.create(&object("Restore", "ours", &json!({"backupName": "one-ns"}), "InProgress", "1"));
    let _old = ground.server_with("two", &ground.bed.plane.kubeconfig(), &["--fail-in-progress-on-restart"]);
    for (kind, word) in [("backup", "backup"), ("restore", "restore")] {
        let failed = ground.until(kind, "ours", "Failed");
        let reason =
            format!("found a {word} with status \"InProgress\" during the server starting, mark it as \"Failed\"");
        assert_eq!(failed["status"]["failureReason"], reason);
    }
}

/// A Backup or Restore as a server left it; `attempt` is empty for one of Velero's.
fn object(kind: &str, name: &str, spec: &Value, phase: &str, attempt: &str) -> Value {
    let mut spec = spec.clone();
    if kind == "Backup" && spec.get("storageLocation").is_none() {
        spec["storageLocation"] = json!("default");
    }
    let mut object = json!({"apiVersion": "velero.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "velero"}, "spec": spec, "status": {"phase": phase}});
    if phase != "ReadyToStart" {
        object["status"]["startTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if !attempt.is_empty() {
        object["metadata"]["annotations"] = json!({"lifeboat.io/attempt": attempt});
    }
    object
}

/// Phases in which a server was cut off, each of which another one finds at its start.
fn what_servers_left(ground: &Ground) {
    let namespace = json!({"includedNamespaces": ["velero"], "includedResources": ["configmaps"]});
    let elsewhere = json!({"storageLocation": "gone"});
    for (name, spec, phase, attempt) in [
        ("ready", &namespace, "ReadyToStart", ""),
        ("again", &namespace, "InProgress", "1"),
        ("thrice", &namespace, "InProgress", "3"),
        ("again-elsewhere", &elsewhere, "InProgress", "1"),
        ("waiting-elsewhere", &elsewhere, "WaitingForPluginOperations", ""),
        ("finalizing-elsewhere", &elsewhere, "Finalizing", ""),
    ] {
        ground.create(&object("Backup", name, spec, phase, attempt));
    }
    let (good, gone) = (json!({"backupName": "one-ns"}), json!({"backupName": "gone"}));
    for (name, spec, phase, attempt) in [
        ("veleros", &good, "InProgress", ""),
        ("again-without-backup", &gone, "InProgress", "2"),
        ("waiting-without-backup", &gone, "WaitingForPluginOperations", ""),
        ("finalizing-without-backup", &gone, "Finalizing", ""),
    ] {
        ground.create(&object("Restore", name, spec, phase, attempt));
    }
}

fn what_servers_left_ends(ground: &Ground, bucket: &Path) {
    ground.until("backup", "ready", "Completed");
    assert_eq!(ground.until("backup", "again", "Completed")["status"]["attempt"], 2);
    let thrice = ground.until("backup", "thrice", "Failed");
    let reason = "the server was cut off 3 times while this backup was in progress";
    assert_eq!(thrice["status"]["failureReason"], reason);
    for file in ["velero-backup.json", "thrice-logs.gz", "thrice-results.gz"] {
        assert!(bucket.join("backups/thrice").join(file).exists(), "{file}");
    }
    let failed = ground.until("backup", "again-elsewhere", "Failed");
    assert!(failed["status"]["failureReason"].as_str().unwrap_or_default().contains("gone was not found"), "{failed}");
    for name in ["waiting-elsewhere", "finalizing-elsewhere"] {
        let ended = ground.until("backup", name, "PartiallyFailed");
        assert!(ended["status"]["completionTimestamp"].is_string(), "{ended}");
    }
    let veleros = ground.until("restore", "veleros", "Failed");
    let reason = "found a restore with status \"InProgress\" during the server starting, mark it as \"Failed\"";
    assert_eq!(veleros["status"]["failureReason"], reason);
    let missing = "Error retrieving backup: can't find backup velero/gone: backups.velero.io \"gone\" not found";
    let again = ground.until("restore", "again-without-backup", "Failed");
    assert_eq!(again["status"]["failureReason"], missing);
    for name in ["waiting-without-backup", "finalizing-without-backup"] {
        ground.until("restore", name, "PartiallyFailed");
    }
    // A deletion that was cut off goes on; one that is for another backup of the name takes none.
    let request = |name: &str, uid: &str| {
        json!({"apiVersion": "velero.io/v1", "kind": "DeleteBackupRequest",
            "metadata": {"name": name, "namespace": "velero", "labels": {"velero.io/backup-uid": uid}},
            "spec": {"backupName": "again"}, "status": {"phase": "InProgress"}})
    };
    ground.create(&request("stale", "another"));
    ground.until_gone("deletebackuprequest", "stale");
    let again = ground.get("backup", "again");
    assert_eq!(again["status"]["phase"], "Completed");
    ground.create(&request("cut-off", again["metadata"]["uid"].as_str().expect("a UID")));
    ground.until_gone("backup", "again");
    ground.until_gone("deletebackuprequest", "cut-off");
    assert!(!bucket.join("backups/again/velero-backup.json").exists());
}

/// However many backups a bucket holds, a sync reads the new ones only.
#[test]
fn a_sync_reads_what_is_new() {
    const MANY: usize = 1000;
    let ground = Ground::start();
    let proxy = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    let record = |name: &str| {
        json!({"kind": "Backup", "apiVersion": "velero.io/v1", "metadata": {"name": name, "namespace": "velero"},
            "spec": {"storageLocation": "main"}, "status": {"phase": "Completed"}})
    };
    let put = |name: &str| {
        let file = ground.s3.file(BUCKET, &format!("main/backups/{name}/velero-backup.json"));
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, record(name).to_string()).expect("write");
    };
    (0..MANY).for_each(|n| put(&format!("b{n}")));
    ground.s3_location("main", proxy.url());
    let patch = r#"{"spec":{"backupSyncPeriod":"1s"}}"#;
    ground.bed.kubectl(&["patch", "backupstoragelocation", "main", "-n", "velero", "--type=merge", "-p", patch]);
    let _server = ground.server("one");
    let count = || ground.bed.objects("backups", "velero").len();
    eventually("all backups", || count() == MANY);
    let synced = || ground.get("backupstoragelocation", "main")["status"]["lastSyncedTime"].clone();
    let passes = |n: usize| {
        for _ in 0..n {
            let before = synced();
            eventually("another pass", || synced() != before);
        }
    };
    passes(2);
    let _ = proxy.take_seen();
    let begun = Instant::now();
    passes(3);
    let seen = proxy.take_seen();
    // One begins each second, also those that a test on a busy machine does not see.
    let most_passes = usize::try_from(begun.elapsed().as_secs()).expect("some seconds") + 2;
    let reads = |seen: &[Seen]| seen.iter().filter(|s| s.path.contains("/velero-backup.json")).count();
    assert!(seen.iter().all(|s| s.method == "GET" && s.path.contains("list-type=2")), "{seen:?}");
    // A page holds a thousand names; the validation of the location lists too.
    assert!(seen.len() <= 2 * most_passes + 2, "{} requests: {seen:?}", seen.len());
    put("new");
    eventually("the new one", || count() == MANY + 1);
    passes(2);
    assert_eq!(reads(&proxy.take_seen()), 1);
}

/// A location is validated and synced in one visit, which one write notes.
#[test]
fn a_location_costs_one_write_a_visit() {
    let ground = Ground::start();
    let bucket = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", bucket.url());
    ground.s3_location("second", bucket.url());
    for name in ["main", "second"] {
        let patch = json!({"spec": {"validationFrequency": "2s", "backupSyncPeriod": "2s", "default": name == "main"}});
        let patch = patch.to_string();
        ground.bed.kubectl(&["patch", "backupstoragelocation", name, "-n", "velero", "--type=merge", "-p", &patch]);
    }
    let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "visits").expect("a proxy");
    let _server = ground.server_with("one", &kubeconfig, &[]);
    for name in ["main", "second"] {
        let status = || ground.get("backupstoragelocation", name)["status"].clone();
        eventually("the first visits", || status()["lastSyncedTime"].is_string());
        let both = [&status()["lastValidationTime"], &status()["lastSyncedTime"]].map(Value::to_string);
        eventually("a visit after them", || {
            let status = status();
            let times = [&status["lastValidationTime"], &status["lastSyncedTime"]].map(Value::to_string);
            times[0] != both[0] && times[1] != both[1]
        });
        let is_patch =
            |seen: &Seen| seen.method == "PATCH" && seen.path.contains(&format!("/backupstoragelocations/{name}"));
        let is_look = |seen: &Seen| {
            seen.path.contains(&format!("prefix={name}%2F&")) || seen.path.ends_with(&format!("prefix={name}%2F"))
        };
        let (mut patches, mut looks) = (0, 0);
        let _ = (api.take_seen(), bucket.take_seen());
        eventually("more visits", || {
            looks += bucket.take_seen().iter().filter(|seen| is_look(seen)).count();
            patches += api.take_seen().iter().filter(|seen| is_patch(seen)).count();
            looks > 4
        });
        // One may be under way at the beginning, and one at the end.
        assert!(patches.abs_diff(looks) <= 1, "{patches} writes for {looks} looks");
    }
}

/// Invalid specs are refused with all their errors, and hold nobody up.
#[test]
fn wrong_specs_are_refused() {
    let ground = Ground::start();
    ground.many("shop", 1);
    ground.directory("default", &json!({"default": true}));
    ground.directory("sealed", &json!({"accessMode": "ReadOnly"}));
    ground.velero("VolumeSnapshotLocation", "v1", &json!({"provider": "one"}));
    ground.velero("VolumeSnapshotLocation", "v2", &json!({"provider": "one"}));
    ground.velero("VolumeSnapshotLocation", "w", &json!({"provider": "two"}));
    let _server =
        ground.server_with("one", &ground.bed.plane.kubeconfig(), &["--default-volume-snapshot-locations", "one:v2"]);
    ground.until("backupstoragelocation", "sealed", "Available");
    ground.velero("Backup", "source", &json!({"includedNamespaces": ["shop"]}));
    let source = ground.until("backup", "source", "Completed");
    assert_eq!(source["spec"]["volumeSnapshotLocations"], json!(["v2", "w"]));

    let namespaces = "Invalid included/excluded namespace lists: ";
    let no_location = |name: &str| {
        format!(
            "an existing backup storage location was not specified at backup creation time and the default {name} was not found. Please address this issue (see `velero backup-location -h` for options) and create a new backup. Error: backupstoragelocations.velero.io \"{name}\" not found"
        )
    };
    let selectors =
        json!({"labelSelector": {"matchLabels": {"a": "b"}}, "orLabelSelectors": [{"matchLabels": {"c": "d"}}]});
    let backups: Vec<(Value, Vec<String>)> = vec![
        (
            json!({"storageLocation": "nowhere"}),
            vec![no_location("nowhere")],
        ),
        (
            json!({"storageLocation": "sealed"}),
            vec!["backup can't be created because backup storage location sealed is currently in read-only mode".into()],
        ),
        (
            json!({"volumeSnapshotLocations": ["v1", "v2"]}),
            vec!["more than one VolumeSnapshotLocation name specified for provider one: v2; unexpected name was v1".into()],
        ),
        (
            json!({"volumeSnapshotLocations": ["none"]}),
            vec!["a VolumeSnapshotLocation CRD for the location none with the name specified in the backup spec needs to be created before this snapshot can be executed. Error: volumesnapshotlocations.velero.io \"none\" not found".into()],
        ),
        (
            json!({"includedResources": ["pods"], "includedClusterScopedResources": ["nodes"]}),
            vec!["include-resources, exclude-resources and include-cluster-resources are old filter parameters.\ninclude-cluster-scoped-resources, exclude-cluster-scoped-resources, include-namespace-scoped-resources and exclude-namespace-scoped-resources are new filter parameters.\nThey cannot be used together".into()],
        ),
        (
            json!({"includedNamespaces": ["a", "*"], "excludedNamespaces": ["*"]}),
            vec![
                format!("{namespaces}includes list must either contain '*' only, or a non-empty list of items"),
                format!("{namespaces}excludes list cannot contain '*'"),
                format!("{namespaces}excludes list cannot contain an item in the includes list: *"),
            ],
        ),
        (
            json!({"includedNamespaces": ["a**"], "excludedNamespaces": ["b[]", "c|d"]}),
            vec![
                format!("{namespaces}wildcard pattern contains consecutive asterisks (only single * allowed)"),
                format!("{namespaces}wildcard pattern contains empty bracket pattern '[]'"),
                format!("{namespaces}wildcard pattern contains unsupported characters: |, (, ), !, {{, }}, ,"),
            ],
        ),
        (
            json!({"includedResources": ["pods"], "excludedResources": ["pods"]}),
            vec!["Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: pods".into()],
        ),
        (
            json!({"includedClusterScopedResources": ["a"], "excludedClusterScopedResources": ["*"]}),
            vec!["Invalid cluster-scoped included/excluded resource lists: when exclude is '*', include cannot have value".into()],
        ),
        (
            json!({"includedNamespaceScopedResources": ["*", "a"]}),
            vec!["Invalid namespace-scoped included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items".into()],
        ),
        (
            selectors.clone(),
            vec!["encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified".into()],
        ),
        // No label can hold them.
        (json!({"storageLocation": "$(id)"}), vec![no_location("$(id)")]),
        (json!({"storageLocation": "a,b"}), vec![no_location("a,b")]),
        (json!({"storageLocation": "-".repeat(80)}), vec![no_location(&"-".repeat(80))]),
    ];
    for (n, (spec, _)) in backups.iter().enumerate() {
        ground.velero("Backup", &format!("wrong-{n}"), spec);
    }
    for (n, (spec, expected)) in backups.iter().enumerate() {
        let refused = ground.until("backup", &format!("wrong-{n}"), "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!(expected), "{spec}");
        assert!(
            refused["status"]["startTimestamp"].is_null() && refused["status"]["expiration"].is_string(),
            "{refused}"
        );
    }

    // What no type can hold is refused too, and says why.
    ground.velero("Backup", "long", &json!({"ttl": "30d"}));
    ground.velero("Restore", "long", &json!({"backupName": "source", "itemOperationTimeout": "soon"}));
    ground.directory("rarely", &json!({"validationFrequency": "1d"}));
    for (kind, word) in [("backup", "30d"), ("restore", "soon")] {
        let errors = ground.until(kind, "long", "FailedValidation")["status"]["validationErrors"].to_string();
        assert!(errors.contains("cannot be read: ") && errors.contains(word), "{errors}");
    }
    let rarely = ground.until("backupstoragelocation", "rarely", "Unavailable");
    assert!(rarely["status"]["message"].as_str().unwrap_or_default().contains("1d"), "{rarely}");

    let one_source = "Either a backup or schedule must be specified as a source for the restore, but not both";
    let from = |rest: Value| {
        let mut spec = json!({"backupName": "source"});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        spec
    };
    let restores: Vec<(Value, Vec<&str>)> = vec![
        (json!({}), vec![one_source]),
        (json!({"backupName": "source", "scheduleName": "s"}), vec![one_source]),
        (
            json!({"scheduleName": "s"}),
            vec!["No backups found for schedule", "No completed backups found for schedule"],
        ),
        (
            json!({"backupName": "gone"}),
            vec!["Error retrieving backup: can't find backup velero/gone: backups.velero.io \"gone\" not found"],
        ),
        (
            json!({"backupName": "gone", "includedResources": ["pods"], "existingResourcePolicy": "x"}),
            vec![
                "Invalid ExistingResourcePolicy: x",
                "Error retrieving backup: can't find backup velero/gone: backups.velero.io \"gone\" not found",
            ],
        ),
        (
            json!({"backupName": "wrong-0"}),
            vec!["Error retrieving backup: backupstoragelocations.velero.io \"nowhere\" not found"],
        ),
        (
            json!({"backupName": "wrong-1"}),
            vec!["backup \"wrong-1\" is in phase \"FailedValidation\" and cannot be used as a restore source"],
        ),
        (
            from(json!({"includedResources": ["events"]})),
            vec![
                "events are non-restorable resources",
                "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: events",
            ],
        ),
        (
            from(json!({"includedNamespaces": ["*", "a"]})),
            vec![
                "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
            ],
        ),
        (
            from(selectors),
            vec!["encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified"],
        ),
        (from(json!({"existingResourcePolicy": "replace"})), vec!["Invalid ExistingResourcePolicy: replace"]),
    ];
    for (n, (spec, _)) in restores.iter().enumerate() {
        ground.velero("Restore", &format!("wrong-{n}"), spec);
    }
    for (n, (spec, expected)) in restores.iter().enumerate() {
        let refused = ground.until("restore", &format!("wrong-{n}"), "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!(expected), "{spec}");
    }

    // Two hundred that are refused, and then one that is not.
    let wrong = |n: usize| {
        json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": format!("bad-{n}"), "namespace": "velero"},
            "spec": {"storageLocation": "sealed"}})
    };
    ground.create(&json!({"apiVersion": "v1", "kind": "List", "items": (0..200).map(wrong).collect::<Vec<_>>()}));
    ground.velero("Backup", "after", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "after", "Completed");
    let template = "{range .items[*]}{.metadata.name} {.status.phase}{\"\\n\"}{end}";
    let all = ground.bed.kubectl(&["get", "backups", "-n", "velero", &format!("--output=jsonpath={template}")]);
    let refused = all.lines().filter(|line| line.starts_with("bad-") && line.ends_with(" FailedValidation")).count();
    assert_eq!(refused, 200);
}

/// Work that an admission policy forbids fails, or stays as it is when not even that can be noted; it holds nobody up.
#[test]
fn what_the_api_server_refuses_for_ever_holds_nobody_up() {
    let ground = Ground::start();
    ground.many("shop", 2);
    ground.directory("default", &json!({"default": true}));
    let server = ground.server("one");
    ground.velero("Backup", "source", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "source", "Completed");
    assert_eq!(server.stop(), Some(0));
    let (shop, source) = (json!({"includedNamespaces": ["shop"]}), json!({"backupName": "source"}));
    ground.create(&object("Backup", "stubborn-before", &shop, "InProgress", "1"));
    ground.create(&object("Restore", "stubborn-before", &source, "InProgress", "1"));
    for (kind, spec) in [("Backup", &shop), ("Restore", &source)] {
        ground.velero(kind, "stubborn", spec);
        ground.velero(kind, "picky", spec);
    }
    forbid(
        &ground,
        "!object.metadata.name.startsWith('stubborn') && !(object.metadata.name == 'picky' && has(object.metadata.annotations) && 'lifeboat.io/attempt' in object.metadata.annotations)",
    );
    let stubborn = |kind: &str| (ground.get(kind, "stubborn"), ground.get(kind, "stubborn-before"));
    let before = (stubborn("backup"), stubborn("restore"));

    let _server = ground.server("two");
    for (kind, spec) in [("Backup", &shop), ("Restore", &source)] {
        ground.velero(kind, "after", spec);
        let refused = ground.until(&kind.to_lowercase(), "picky", "FailedValidation");
        let why = refused["status"]["validationErrors"][0].as_str().unwrap_or_default();
        assert!(why.contains("the API server refuses") && why.contains("not today"), "{why}");
        ground.until(&kind.to_lowercase(), "after", "Completed");
    }
    assert_eq!((stubborn("backup"), stubborn("restore")), before);
}

/// Forbids all updates of Backups and Restores of which this does not hold.
fn forbid(ground: &Ground, expression: &str) {
    ground.create(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "refuse"},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["velero.io"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["backups", "restores"]}]},
            "validations": [{"expression": expression, "message": "not today"}]}}));
    ground.create(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "refuse"}, "spec": {"policyName": "refuse", "validationActions": ["Deny"]}}));
    let patch = ["patch", "backup", "stubborn", "--namespace=velero", "--type=merge", "--dry-run=server", "--patch"];
    eventually("the policy", || {
        ground.kubectl().try_run(&[&patch[..], &[r#"{"metadata":{"labels":{"a":"b"}}}"#]].concat()).is_err()
    });
}

#[test]
fn what_a_user_changes_while_a_backup_runs_stays() {
    let ground = Ground::start();
    ground.many("shop", 2);
    let proxy = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", proxy.url());
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    let slow = Fault::Delay(std::time::Duration::from_secs(5));
    proxy.script(vec![Rule::new("PUT", "*/b-index.json.gz?*", Nth::First(1), slow)]);
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    eventually("the slow request", || proxy.is_met());
    let patch = r#"{"spec":{"ttl":"1h0m0s"}}"#;
    ground.bed.kubectl(&["patch", "backup", "b", "--namespace=velero", "--type=merge", "--patch", patch]);
    assert_eq!(ground.until("backup", "b", "Completed")["spec"]["ttl"], "1h0m0s");
}

/// A drained node is no defect of a backup.
#[test]
fn an_attempt_that_ends_because_the_server_is_told_to_stop_does_not_count() {
    let ground = Ground::start();
    ground.many("shop", 2);
    let proxy = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", proxy.url());
    let server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    let slow = Fault::Delay(std::time::Duration::from_secs(30));
    proxy.script(vec![Rule::new("PUT", "*/b.tar.gz?*", Nth::First(1), slow)]);
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    eventually("the slow request", || proxy.is_met());
    assert_eq!(server.stop(), Some(0));
    let left = ground.get("backup", "b");
    assert_eq!(
        (&left["status"]["phase"], &left["metadata"]["annotations"]["lifeboat.io/attempt"]),
        (&json!("InProgress"), &json!("0"))
    );
    let _server = ground.server("two");
    assert_eq!(ground.until("backup", "b", "Completed")["status"]["attempt"], 1);
}

/// An object that somebody has edited so that no type can hold it.
#[test]
fn what_can_no_longer_be_read_can_be_deleted() {
    let ground = Ground::start();
    ground.many("shop", 2);
    let bucket = ground.directory("default", &json!({"default": true}));
    let _server = ground.server("one");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "b", "Completed");
    for name in ["r", "s"] {
        ground.velero("Restore", name, &json!({"backupName": "b"}));
        ground.until("restore", name, "Completed");
    }
    ground.create(&object("Backup", "running", &json!({"ttl": "30d"}), "InProgress", "1"));
    let failed = ground.until("backup", "running", "Failed");
    let why = failed["status"]["failureReason"].as_str().unwrap_or_default();
    assert!(why.contains("the Backup cannot be read: ") && why.contains("30d"), "{why}");
    let spoil = |kind: &str, name: &str, spec: &str| {
        let patch = format!(r#"{{"spec":{spec}}}"#);
        ground.bed.kubectl(&["patch", kind, name, "--namespace=velero", "--type=merge", "--patch", &patch]);
    };
    spoil("backup", "b", r#"{"ttl":"30d"}"#);
    spoil("restore", "r", r#"{"itemOperationTimeout":"soon"}"#);
    spoil("restore", "s", r#"{"itemOperationTimeout":"soon"}"#);
    ground.bed.kubectl(&["delete", "restore", "r", "--namespace=velero", "--timeout=180s"]);
    assert!(!bucket.join("restores/r/restore-r-logs.gz").exists());
    assert!(bucket.join("restores/s/restore-s-logs.gz").exists());
    ground.velero("DeleteBackupRequest", "d", &json!({"backupName": "b"}));
    for (kind, name) in [("backup", "b"), ("restore", "s"), ("deletebackuprequest", "d")] {
        ground.until_gone(kind, name);
    }
    for file in ["backups/b/velero-backup.json", "restores/s/restore-s-logs.gz"] {
        assert!(!bucket.join(file).exists(), "{file}");
    }
}

/// A server that only restores leaves new backups alone, and one that does everything finds them as they were.
#[test]
fn a_server_that_only_restores_takes_no_backup() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let bucket = ground.directory("default", &json!({"default": true, "backupSyncPeriod": "1s"}));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/backups/one-ns");
    copy(&golden, &bucket.join("backups/one-ns"));
    let server = ground.server_with("one", &ground.bed.plane.kubeconfig(), &["--restore-only"]);
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "one-ns", "Completed");
    ground.velero("Restore", "r", &json!({"backupName": "one-ns", "includedResources": ["configmaps"]}));
    ground.until("restore", "r", "Completed");
    ground.velero("DeleteBackupRequest", "d", &json!({"backupName": "one-ns"}));
    ground.velero("Restore", "again", &json!({"backupName": "one-ns", "includedResources": ["configmaps"]}));
    ground.until("restore", "again", "Completed");
    assert!(ground.get("backup", "b")["status"]["phase"].is_null());
    assert!(ground.get("deletebackuprequest", "d")["status"]["phase"].is_null());
    assert_eq!(server.stop(), Some(0));
    let _server = ground.server("two");
    ground.until("backup", "b", "Completed");
    ground.until_gone("backup", "one-ns");
}
