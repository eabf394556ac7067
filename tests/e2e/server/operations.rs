//! `lifeboat server`: what custom resources ask for comes to be, whoever dies.

use crate::ground::{BUCKET, Ground, copy};
use crate::support::{eventually, program, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

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
