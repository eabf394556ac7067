//! The plugin under Velero's own code, which runs as a program of the test bed (crates/testbed/go/plugin-host).

use crate::process::{PATIENCE, PROGRAM};
use lifeboat_testbed::plugin_host;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::LazyLock;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

static HOST: LazyLock<PathBuf> = LazyLock::new(|| plugin_host().unwrap());

/// The results of all calls, but for calls whose results are long or tell the time.
const CALLS: &str = include_str!("velero_calls.json");

/// The results that a host has seen, and the folder of its plugins.
struct Seen {
    seen: Value,
    folder: TempDir,
}

/// Starts the plugin under Velero's code with the command line of a server, and makes all calls, or none.
async fn host(arguments: &[&str], calls: &str) -> Seen {
    let (folder, sockets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(PROGRAM, folder.path().join("all-kinds")).unwrap();
    let mut host = Command::new(&*HOST);
    host.arg("server").args(arguments).kill_on_drop(true).stdin(Stdio::null());
    host.env("LIFEBOAT_PLUGIN_DIR", folder.path()).env("LIFEBOAT_CALLS", calls).env("TMPDIR", sockets.path());
    let output = timeout(PATIENCE, host.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(sockets.path()).unwrap().count(), 0, "sockets are left");
    Seen { seen: serde_json::from_slice(&output.stdout).unwrap(), folder }
}

impl Seen {
    /// The lines that came from the plugin's log, without what all lines have.
    fn lines(&self) -> Vec<Value> {
        let from_plugin = |line: &&Value| {
            let source = line["logSource"].as_str().unwrap_or_default();
            line["pluginName"] == "all-kinds" && source.starts_with("crates/sdk/")
        };
        let mut lines: Vec<Value> = self.seen["log"].as_array().unwrap().iter().filter(from_plugin).cloned().collect();
        let command = self.folder.path().join("all-kinds");
        for line in &mut lines {
            let line = line.as_object_mut().unwrap();
            assert_eq!(line.remove("cmd").unwrap().as_str(), command.to_str());
            for always in ["pluginName", "logSource", "time"] {
                line.remove(always).unwrap();
            }
        }
        lines
    }

    /// The kinds and names that were listed.
    fn listed(&self) -> Value {
        let path = self.folder.path().join("all-kinds");
        let mut listed = self.seen["listed"].clone();
        for plugin in listed.as_object_mut().unwrap().values_mut().flat_map(|kind| kind.as_array_mut().unwrap()) {
            assert_eq!(plugin["Command"].as_str(), path.to_str());
            *plugin = plugin["Name"].clone();
        }
        listed
    }
}

#[tokio::test]
async fn velero_lists_it_with_the_command_line_of_any_of_its_versions() {
    for (arguments, is_debug) in [
        // Up to 1.14: what is synthesised. From 1.15: what the server itself was given.
        (&["--log-level", "debug", "--features", "EnableCSI"][..], true),
        (&["--log-level", "info"], false),
        (
            &[
                "--features=EnableCSI",
                "--uploader-type=kopia",
                "--log-level=debug",
                "--client-qps=50",
                "--restore-only",
            ],
            true,
        ),
        (&["--default-backup-ttl", "24h", "--default-volumes-to-fs-backup", "--disable-controllers", "a,b"], false),
        (&[], false),
    ] {
        let seen = host(arguments, "none").await;
        let expected = json!({
            "BackupItemActionV2": ["example.io/Save_1", "example.io/odd"],
            "VolumeSnapshotter": ["example.io/volumes"],
            "ObjectStore": ["example.io/files"],
            "RestoreItemActionV2": ["example.io/restore"],
            "DeleteItemAction": ["example.io/delete"],
            "ItemBlockAction": ["example.io/block"],
        });
        assert_eq!(seen.listed(), expected, "{arguments:?}");
        let has_details = seen.lines().iter().any(|line| line["msg"] == "plugin address");
        assert_eq!(has_details, is_debug, "{arguments:?}");
    }
}

#[tokio::test]
async fn velero_gets_the_answer_of_every_call() {
    let seen = host(&["--log-level=debug"], "").await;
    let mut calls = seen.seen["calls"].as_object().unwrap().clone();
    // 32 at once, half of which take 0.3 s each.
    let millis = calls.remove("odd at once millis").unwrap().as_i64().unwrap();
    assert!(millis < 4000, "{millis}");
    for n in 0..32 {
        assert_eq!(calls.remove(&format!("odd at once {n}")), Some(Value::Null), "{n}");
    }
    let long = calls.remove("odd long-error").unwrap();
    let long = long["error"].as_str().unwrap();
    assert!(
        long.starts_with("rpc error: code = Unknown desc = ää") && long.ends_with("more are in the log)"),
        "{long}"
    );
    let expected: serde_json::Map<String, Value> = serde_json::from_str(CALLS).unwrap();
    for (call, answer) in &expected {
        assert_eq!(calls.get(call), Some(answer), "{call}");
    }
    assert_eq!(calls.len(), expected.len());
    its_log_is_in_veleros_log(&seen);
    its_end_was_an_orderly_one(&seen);
}

fn its_log_is_in_veleros_log(seen: &Seen) {
    let lines = seen.lines();
    let begin = lines.iter().position(|line| line["msg"] == "an error").unwrap();
    let expected = [
        json!({"level": "error", "msg": "an error", "error": "no space", "item": "pods/log"}),
        json!({"level": "warning", "msg": "a warning", "count": 3, "item": "pods/log"}),
        json!({"level": "info", "msg": "a step", "is_first": true, "item": "pods/log"}),
        json!({"level": "debug", "msg": "a detail", "item": "pods/log"}),
    ];
    assert_eq!(lines[begin..begin + 4], expected);
    // One too long to be read at once would have come out in raw pieces.
    let long = &lines[begin + 4];
    assert!(long["msg"].as_str().unwrap().starts_with("long xxx") && long["item"] == "pods/log");
    // Nothing else counts as an error or a warning: neither panics nor what calls answer.
    let counted = |line: &&Value| line["level"] == "error" || line["level"] == "warning";
    assert_eq!(lines.iter().filter(counted).count(), 2);
    // The place of a panic is where Velero looks for that of an error.
    let log = seen.seen["log"].as_array().unwrap();
    let panic = log.iter().find(|line| line["call"] == "odd panic").unwrap();
    let place = panic["error.file"].as_str().unwrap();
    assert!(place.starts_with("crates/sdk/examples/all-kinds/actions.rs:"), "{place}");
}

fn its_end_was_an_orderly_one(seen: &Seen) {
    assert!(seen.seen["stop_millis"].as_i64().unwrap() < 2000, "{}", seen.seen["stop_millis"]);
    // Velero writes a warning when it has to kill a plugin, and an error when its status is not 0. Its processes are those of
    // the list and of the calls.
    let log = seen.seen["log"].as_array().unwrap();
    let exits: Vec<&Value> = log
        .iter()
        .filter(|line| line["plugin"].as_str().is_some_and(|plugin| plugin.ends_with("/all-kinds")))
        .filter(|line| line["msg"] == "plugin process exited")
        .map(|line| &line["level"])
        .collect();
    assert_eq!(exits, ["info", "info"]);
    assert!(log.iter().all(|line| line["msg"] != "plugin failed to exit gracefully"));
}
