//! `spec.cancel`: at every stage the end comes soon, and says what was done.

use crate::ground::{BUCKET, Ground};
use crate::support::{eventually, gunzip_json, program, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// Makes a request hang for minutes: a command that ends within the time limit of `until` was stopped.
fn hangs(method: &'static str, path: &str, nth: Nth) -> Vec<Rule> {
    vec![Rule::new(method, path, nth, Fault::Hang)]
}

fn cancel(ground: &Ground, kind: &str, name: &str) -> Value {
    let patch = r#"{"spec":{"cancel":true}}"#;
    ground.bed.kubectl(&["patch", kind, name, "--namespace=velero", "--type=merge", "--patch", patch]);
    ground.until(kind, name, "Failed")
}

fn reason(object: &Value) -> &str {
    object["status"]["failureReason"].as_str().unwrap_or_default()
}

#[test]
fn a_cancelled_backup_ends_at_any_stage() {
    let ground = Ground::start();
    ground.many("shop", 20);
    let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "cancel").expect("a proxy");
    ground.s3_location("main", s3.url());
    let _server = ground.server_with("one", &kubeconfig, &[]);
    ground.until("backupstoragelocation", "main", "Available");
    let spec = |cancel: bool| json!({"includedNamespaces": ["shop"], "storageLocation": "main", "cancel": cancel});
    let stored = |name: &str, file: &str| ground.s3.file(BUCKET, &format!("main/backups/{name}/{file}"));

    ground.velero("Backup", "never", &spec(true));
    let never = ground.until("backup", "never", "Failed");
    assert_eq!(reason(&never), "cancelled on request before it began");
    assert!(!stored("never", "velero-backup.json").exists());

    for (name, proxy, method, path) in [
        ("listing", &api, "GET", "*/namespaces/shop/configmaps?*"),
        ("uploading", &s3, "PUT", "*/uploading.tar.gz?*"),
        ("claiming", &s3, "PUT", "*/claiming/lifeboat-claim.json?*"),
    ] {
        proxy.script(hangs(method, path, Nth::Only(1)));
        ground.velero("Backup", name, &spec(false));
        ground.until("backup", name, "InProgress");
        eventually("the request that hangs", || proxy.is_met());
        let ended = cancel(&ground, "backup", name);
        assert!(reason(&ended).starts_with("cancelled on request: "), "{name}: {ended}");
        assert_eq!(ended["status"]["errors"], 1, "{name}");
        assert!(ended["status"]["completionTimestamp"].is_string(), "{name}");
        // Its log and record are stored, its archive is not, and nothing of it is left open.
        let record: Value =
            serde_json::from_slice(&std::fs::read(stored(name, "velero-backup.json")).expect("a record"))
                .expect("JSON");
        assert_eq!((&record["status"]["phase"], reason(&record)), (&json!("Failed"), reason(&ended)), "{name}");
        assert!(stored(name, &format!("{name}-logs.gz")).exists(), "{name}");
        assert!(!stored(name, &format!("{name}.tar.gz")).exists(), "{name}");
        let key = format!("main/backups/{name}/{name}.tar.gz");
        assert_eq!(ground.s3.open_uploads(BUCKET, &key).expect("the uploads"), 0, "{name}");
        proxy.script(Vec::new());
        ground.velero("DeleteBackupRequest", name, &json!({"backupName": name}));
        ground.until_gone("backup", name);
        assert!(!stored(name, "velero-backup.json").exists(), "{name}");
    }
    // The whole bucket hangs: what could be stored is not, and nobody waits for it.
    s3.script(hangs("*", "*", Nth::Every));
    ground.velero("Backup", "hanging", &spec(false));
    ground.until("backup", "hanging", "InProgress");
    eventually("the request that hangs", || s3.is_met());
    let ended = cancel(&ground, "backup", "hanging");
    assert!(reason(&ended).starts_with("cancelled on request: "), "{ended}");
    s3.script(Vec::new());
    assert!(!stored("hanging", "velero-backup.json").exists());

    // Its object is deleted: nothing of it is left, and the name is free.
    s3.script(hangs("PUT", "*/deleted.tar.gz?*", Nth::Only(1)));
    ground.velero("Backup", "deleted", &spec(false));
    eventually("the request that hangs", || s3.is_met());
    ground.bed.kubectl(&["delete", "backup", "deleted", "--namespace=velero"]);
    eventually("the end of its files", || !stored("deleted", "lifeboat-claim.json").exists());
    s3.script(Vec::new());
    assert!(!stored("deleted", "velero-backup.json").exists());
    ground.velero("Backup", "deleted", &spec(false));
    ground.until("backup", "deleted", "Completed");

    // By the command.
    let command = |args: &str| {
        let mut command = Command::new(program());
        run(command.args(args.split_whitespace()).env("KUBECONFIG", ground.bed.plane.kubeconfig()))
    };
    s3.script(hangs("PUT", "*/commanded.tar.gz?*", Nth::Only(1)));
    ground.velero("Backup", "commanded", &spec(false));
    eventually("the request that hangs", || s3.is_met());
    let said = command("backup cancel commanded nope --wait");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.starts_with("Request to cancel backup \"commanded\" submitted successfully.\n"), "{said:?}");
    assert!(said.out.contains("Backup \"commanded\" ended with status: Failed (cancelled on request: "), "{said:?}");
    assert!(said.err.contains("backups.velero.io \"nope\" not found"), "{said:?}");
    let said = command("backup cancel commanded");
    assert_eq!((said.code, said.out.as_str()), (0, "Backup \"commanded\" has ended already: Failed.\n"), "{said:?}");
    // The queue goes on.
    ground.velero("Backup", "next", &spec(false));
    let next = ground.until("backup", "next", "Completed");
    // Too late: nothing happens.
    let patch = r#"{"spec":{"cancel":true}}"#;
    ground.bed.kubectl(&["patch", "backup", "next", "--namespace=velero", "--type=merge", "--patch", patch]);
    ground.velero("Backup", "last", &spec(false));
    ground.until("backup", "last", "Completed");
    assert_eq!(ground.get("backup", "next")["status"], next["status"]);
}

#[test]
fn a_backup_that_is_deleted_while_its_record_is_stored_does_not_come_back() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", s3.url());
    let period = r#"{"spec":{"backupSyncPeriod":"1s"}}"#;
    ground.bed.kubectl(&["patch", "backupstoragelocation", "main", "-n", "velero", "--type=merge", "-p", period]);
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    let stored = |file: &str| ground.s3.file(BUCKET, &format!("main/backups/deleted/{file}")).exists();

    // The storing is awaited.
    let slow = Fault::Delay(Duration::from_secs(6));
    s3.script(vec![Rule::new("PUT", "*/deleted/velero-backup.json?*", Nth::Only(1), slow)]);
    ground.velero("Backup", "deleted", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    eventually("the request that is slow", || s3.is_met());
    assert!(stored("lifeboat-claim.json"));
    ground.bed.kubectl(&["delete", "backup", "deleted", "--namespace=velero"]);
    eventually("the end of its claim", || !stored("lifeboat-claim.json"));
    s3.script(Vec::new());
    let searched = || ground.get("backupstoragelocation", "main")["status"]["lastSyncedTime"].clone();
    for _ in 0..2 {
        let before = searched();
        eventually("a search", || searched() != before);
    }
    assert!(!stored("velero-backup.json") && ground.get("backup", "deleted").is_null());
}

#[test]
fn a_cancelled_restore_ends_at_any_stage() {
    let ground = Ground::start();
    ground.many("shop", 60);
    let before = ground.maps("shop");
    let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "cancel").expect("a proxy");
    ground.s3_location("main", s3.url());
    let _server = ground.server_with("one", &kubeconfig, &[]);
    ground.until("backupstoragelocation", "main", "Available");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    ground.until("backup", "b", "Completed");
    ground.lose("shop");
    let results =
        |name: &str| gunzip_json(&ground.s3.file(BUCKET, &format!("main/restores/{name}/restore-{name}-results.gz")));

    ground.velero("Restore", "never", &json!({"backupName": "b", "cancel": true}));
    assert_eq!(reason(&ground.until("restore", "never", "Failed")), "cancelled on request before it began");

    for (name, proxy, method, path, nth, expected) in [
        (
            "reading",
            &s3,
            "GET",
            "*/b-index.json.gz?*",
            Nth::Every,
            "the restore was cancelled before anything was changed in the cluster",
        ),
        ("writing", &api, "POST", "*/namespaces/shop/configmaps?*", Nth::From(11), "the restore was cancelled: "),
        ("saving", &api, "PATCH", "*/configmaps/lifeboat-restore-*", Nth::Every, "the restore was cancelled: "),
        ("looking", &api, "GET", "*/namespaces/shop/configmaps?*", Nth::Every, "the restore was cancelled"),
    ] {
        proxy.script(hangs(method, path, nth));
        ground.velero("Restore", name, &json!({"backupName": "b"}));
        ground.until("restore", name, "InProgress");
        eventually("the request that hangs", || proxy.is_met());
        let ended = cancel(&ground, "restore", name);
        assert!(reason(&ended).starts_with(expected), "{name}: {ended}");
        let results = results(name);
        assert_eq!(results["errors"]["velero"].as_array().map(Vec::len), Some(1), "{name}: {results}");
        if name == "writing" {
            let flying = results["errors"]["namespaces"]["shop"].as_array().expect("errors");
            let said =
                |e: &Value| e.as_str().is_some_and(|e| e.contains("and no answer came: whether it was is not known"));
            assert!(flying.iter().all(said), "{results}");
            assert!(ground.maps("shop").len() >= 10);
        }
        proxy.script(Vec::new());
        // Its checkpoint goes after it.
        eventually("the end of its checkpoint", || ground.maps("velero").is_empty());
    }

    // All is done, and the bucket does not take what is to be said of it.
    s3.script(hangs("PUT", "*/restores/storing/*.gz?*", Nth::Every));
    ground.velero("Restore", "storing", &json!({"backupName": "b"}));
    eventually("the request that hangs", || s3.is_met());
    let ended = cancel(&ground, "restore", "storing");
    assert!(reason(&ended).ends_with("but not all of its files could be stored in time"), "{ended}");
    s3.script(Vec::new());

    // A namespace that does not go away is waited for.
    let held = ground.maps("shop").into_keys().next().expect("one of those that were written");
    let finalizers = |value: Value| {
        let patch = json!({"metadata": {"finalizers": value}}).to_string();
        ground.bed.kubectl(&["patch", "configmap", &held, "-n", "shop", "--type=merge", "-p", &patch]);
    };
    finalizers(json!(["example.com/stays"]));
    ground.bed.kubectl(&["delete", "namespace", "shop", "--wait=false"]);
    // It is cancelled while it asks whether the namespace is gone.
    api.script(vec![Rule::new("GET", "*/api/v1/namespaces/shop", Nth::From(3), Fault::Delay(Duration::ZERO))]);
    ground.velero("Restore", "waiting", &json!({"backupName": "b"}));
    eventually("the wait for the namespace", || api.is_met());
    let ended = cancel(&ground, "restore", "waiting");
    assert!(reason(&ended).starts_with("the restore was cancelled: "), "{ended}");
    finalizers(Value::Null);
    ground.lose("shop");

    ground.velero("Restore", "last", &json!({"backupName": "b"}));
    ground.until("restore", "last", "Completed");
    assert_eq!(ground.maps("shop"), before);
    // Deleted while it runs: it is stopped and goes, with its files.
    ground.lose("shop");
    api.script(hangs("POST", "*/namespaces/shop/configmaps?*", Nth::From(5)));
    ground.velero("Restore", "deleted", &json!({"backupName": "b"}));
    ground.until("restore", "deleted", "InProgress");
    eventually("the request that hangs", || api.is_met());
    ground.bed.kubectl(&["delete", "restore", "deleted", "--namespace=velero", "--timeout=180s"]);
    assert!(!ground.s3.file(BUCKET, "main/restores/deleted/restore-deleted-logs.gz").exists());
}
