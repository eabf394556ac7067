//! The HTTP endpoints of the server, and the events that it writes.

use crate::ground::Ground;
use crate::support::{eventually, program, run};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// The address that the server of this name wrote into its log.
fn address(ground: &Ground, server: &str, of: &str) -> String {
    let mut found = None;
    eventually("an address in the log", || {
        let log = ground.log(server);
        let line = log.lines().find(|line| line.contains(&format!("listening for {of}")));
        found = line.and_then(|line| line.split("address=").nth(1)).map(|rest| rest.trim_matches('"').to_owned());
        found.is_some()
    });
    let found = found.unwrap_or_default();
    found.split([' ', '"']).next().unwrap_or_default().to_owned()
}

/// Status and body of a GET.
fn get(address: &str, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("headers");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, answer[end + 4..].to_vec())
}

fn text(address: &str, path: &str) -> (u16, String) {
    let (status, body) = get(address, path);
    (status, String::from_utf8(body).expect("text"))
}

#[test]
fn state_files_and_events() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let bucket = ground.directory("main", &json!({"default": true}));
    let _leader = ground.server("one");
    let status = address(&ground, "one", "metrics-address");
    eventually("the leadership", || text(&status, "/readyz") == (200, "leading\n".to_owned()));
    assert_eq!(text(&status, "/healthz"), (200, "ok\n".to_owned()));
    let _follower = ground.server("two");
    let standby = address(&ground, "two", "metrics-address");
    eventually("the other one", || text(&standby, "/readyz") == (200, "standing by\n".to_owned()));

    ground.until("backupstoragelocation", "main", "Available");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    let backup = ground.until("backup", "b", "Completed");
    ground.velero("Backup", "wrong", &json!({"storageLocation": "nowhere"}));
    ground.until("backup", "wrong", "FailedValidation");
    let size = std::fs::metadata(bucket.join("backups/b/b.tar.gz")).expect("an archive").len();
    let start = backup["status"]["startTimestamp"].as_str().expect("a start");
    let start = start.parse::<jiff::Timestamp>().expect("a time").as_second();
    let lines = [
        format!("lifeboat_namespace_last_good_backup_timestamp{{namespace=\"shop\"}} {start}"),
        "lifeboat_namespace_last_good_backup_timestamp{namespace=\"default\"} 0".to_owned(),
        "velero_backup_attempt_total{schedule=\"\"} 1".to_owned(),
        "velero_backup_success_total{schedule=\"\"} 1".to_owned(),
        "velero_backup_validation_failure_total{schedule=\"\"} 1".to_owned(),
        "velero_backup_duration_seconds_count{schedule=\"\"} 1".to_owned(),
        format!("velero_backup_tarball_size_bytes{{schedule=\"\"}} {size}"),
        format!("velero_backup_items_total{{schedule=\"\"}} {}", backup["status"]["progress"]["totalItems"]),
        "velero_backup_location_status_gauge{backup_location_name=\"main\"} 1".to_owned(),
        "velero_backup_total 2".to_owned(),
        "velero_restore_total 0".to_owned(),
    ];
    // They follow what can be seen of the objects.
    let mut metrics = String::new();
    eventually("the metrics", || {
        metrics = text(&status, "/metrics").1;
        lines.iter().all(|line| metrics.lines().any(|found| found == line))
    });
    assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");

    // A file of a directory: by a URL of the server, which nobody else can make.
    let request = |name: &str, kind: &str, of: &str| {
        ground.velero("DownloadRequest", name, &json!({"target": {"kind": kind, "name": of}}));
        let answered = ground.until("downloadrequest", name, "Processed");
        let url = answered["status"]["downloadURL"].as_str().expect("a URL").to_owned();
        let (address, path) = url.strip_prefix("http://").and_then(|u| u.split_once('/')).expect("a URL of HTTP");
        (address.to_owned(), format!("/{path}"))
    };
    let (from, path) = request("log", "BackupLog", "b");
    assert_eq!(from, address(&ground, "one", "download-address"));
    let stored = std::fs::read(bucket.join("backups/b/b-logs.gz")).expect("a log");
    assert_eq!(get(&from, &path), (200, stored));
    let foreign = (403, "the URL is not one that this server signed\n".to_owned());
    assert_eq!(text(&from, &path.replace("b-logs", "b-results")), foreign);
    assert_eq!(text(&address(&ground, "two", "download-address"), &path), foreign, "the other server");
    let (from, path) = request("contents", "BackupContents", "b");
    assert_eq!(get(&from, &path), (200, std::fs::read(bucket.join("backups/b/b.tar.gz")).expect("an archive")));
    std::fs::remove_file(bucket.join("backups/b/b-results.gz")).expect("a file");
    let (from, path) = request("results", "BackupResults", "b");
    assert_eq!(get(&from, &path).0, 404);
    // From a bucket that can sign, when the client asks for it.
    ground.s3_location("s3", ground.s3.endpoint());
    ground.until("backupstoragelocation", "s3", "Available");
    ground.velero("Backup", "c", &json!({"includedNamespaces": ["shop"], "storageLocation": "s3"}));
    ground.until("backup", "c", "Completed");
    let (presigned, _) = request("direct", "BackupLog", "c");
    assert_eq!(format!("http://{presigned}"), ground.s3.endpoint());
    ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "DownloadRequest",
        "metadata": {"name": "through", "namespace": "velero", "annotations": {"lifeboat.io/through-server": "1"}},
        "spec": {"target": {"kind": "BackupLog", "name": "c"}}}));
    let answered = ground.until("downloadrequest", "through", "Processed");
    assert!(answered["status"]["downloadURL"].as_str().is_some_and(|url| url.contains(&from)), "{answered}");

    // The commands find their way: to a directory, and to a bucket that only the server reaches.
    let logs = |name: &str| {
        let mut command = Command::new(program());
        let command = command.args(["backup", "logs", name]).env("KUBECONFIG", ground.bed.plane.kubeconfig());
        let run = run(command);
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    };
    assert!(logs("b").contains("backup=velero/b"));
    let patch = r#"{"spec":{"config":{"publicUrl":"http://127.0.0.1:1"}}}"#;
    ground.bed.kubectl(&["patch", "backupstoragelocation", "s3", "-n", "velero", "--type=merge", "-p", patch]);
    assert!(logs("c").contains("backup=velero/c"));

    let events = |name: &str| {
        let out = ground.bed.kubectl(&[
            "get",
            "events",
            "-n",
            "velero",
            "--output=json",
            &format!("--field-selector=involvedObject.name={name}"),
        ]);
        let list: Value = serde_json::from_str(&out).expect("JSON");
        let mut found: Vec<String> = list["items"]
            .as_array()
            .expect("events")
            .iter()
            .map(|event| {
                format!(
                    "{} {} {}",
                    event["type"].as_str().unwrap_or_default(),
                    event["reason"].as_str().unwrap_or_default(),
                    event["message"].as_str().unwrap_or_default()
                )
            })
            .collect();
        found.sort();
        found
    };
    let total = &backup["status"]["progress"]["itemsBackedUp"];
    let expected = [
        "Normal Completed ".to_owned() + &format!("{total} objects, 0 warnings, 0 errors"),
        "Normal Finalizing b is in phase Finalizing".to_owned(),
        "Normal InProgress b is in phase InProgress".to_owned(),
        "Normal Queued at position 1".to_owned(),
        "Normal ReadyToStart b is in phase ReadyToStart".to_owned(),
    ];
    eventually("the events", || events("b") == expected);
    assert!(
        events("wrong").iter().any(|event| event.starts_with("Warning FailedValidation an existing backup storage"))
    );
}
