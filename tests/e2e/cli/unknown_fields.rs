//! Fields of later versions, in each kind that we write: whoever reads, shows or changes an object loses none of them.

use crate::ground::Server;
use crate::support::{Client, Sandbox, comes_to_be, ok, program, spawn_logged, with_object};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Where an object has fields that we do not know, as JSON pointers.
struct Case {
    kind: &'static str,
    name: &'static str,
    spec: Value,
    unknown: &'static [&'static str],
    /// The last phase that a server gives it.
    phase: Option<&'static str>,
    /// Commands by which a user changes it.
    changes: &'static [&'static str],
    /// The command by which a user shows it.
    shown: Option<&'static str>,
}

fn cases(bucket: &Path) -> Vec<Case> {
    let hook = json!({"name": "h", "pre": [{"exec": {"command": ["true"]}}]});
    let case = |kind, name, spec| {
        let unknown = &["/ofLater", "/spec/ofLater", "/status/ofLater"][..];
        Case { kind, name, spec, unknown, phase: None, changes: &[], shown: None }
    };
    vec![
        Case {
            unknown: &["/ofLater", "/spec/ofLater", "/spec/objectStorage/ofLater", "/status/ofLater"],
            phase: Some("Available"),
            changes: &["backup-location set main --default"],
            shown: Some("backup-location get main"),
            ..case(
                "BackupStorageLocation",
                "main",
                json!({"provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"},
                    "config": {"path": bucket.display().to_string()}}),
            )
        },
        Case {
            changes: &["snapshot-location set disks --credential a=b"],
            shown: Some("snapshot-location get disks"),
            ..case("VolumeSnapshotLocation", "disks", json!({"provider": "example.io/disks"}))
        },
        Case {
            unknown: &[
                "/ofLater",
                "/spec/ofLater",
                "/spec/hooks/resources/0/ofLater",
                "/spec/metadata/ofLater",
                "/status/ofLater",
            ],
            phase: Some("Completed"),
            changes: &["backup hold b"],
            shown: Some("backup get b"),
            ..case(
                "Backup",
                "b",
                json!({"includedNamespaces": ["shop"], "storageLocation": "main", "hooks": {"resources": [hook]}, "metadata": {}}),
            )
        },
        Case {
            unknown: &["/ofLater", "/spec/ofLater", "/spec/hooks/ofLater", "/status/ofLater"],
            phase: Some("Completed"),
            shown: Some("restore get r"),
            ..case("Restore", "r", json!({"backupName": "b", "hooks": {}}))
        },
        Case {
            unknown: &["/ofLater", "/spec/ofLater", "/spec/template/ofLater", "/status/ofLater"],
            phase: Some("Enabled"),
            changes: &["schedule pause s", "schedule unpause s"],
            shown: Some("schedule get s"),
            ..case(
                "Schedule",
                "s",
                json!({"schedule": "0 3 * * *", "skipImmediately": true,
                    "template": {"includedNamespaces": ["shop"], "storageLocation": "main"}}),
            )
        },
        Case { phase: Some("Processed"), ..case("DeleteBackupRequest", "d", json!({"backupName": "nowhere"})) },
        Case {
            unknown: &["/ofLater", "/spec/ofLater", "/spec/target/ofLater", "/status/ofLater"],
            phase: Some("Processed"),
            ..case("DownloadRequest", "l", json!({"target": {"kind": "BackupLog", "name": "b"}}))
        },
        Case { phase: Some("Processed"), ..case("ServerStatusRequest", "q", json!({})) },
    ]
}

/// A value that no version knows.
fn of_later() -> Value {
    json!({"number": 7, "list": [{"a": "b"}]})
}

/// The definitions, but that they take every field.
fn open_definitions() -> impl Iterator<Item = Value> {
    lifeboat_api::crds().into_iter().map(|mut definition| {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": open});
        definition
    })
}

impl Case {
    fn object(&self) -> Value {
        let mut object = json!({"apiVersion": "velero.io/v1", "kind": self.kind,
            "metadata": {"name": self.name, "namespace": "velero"}, "spec": self.spec, "status": {}});
        for pointer in self.unknown {
            let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
            object.pointer_mut(parent).expect("the parent")[key] = of_later();
        }
        object
    }

    fn has_all(&self, object: &Value, after: &str) {
        for pointer in self.unknown {
            assert_eq!(object.pointer(pointer), Some(&of_later()), "{} {pointer} after {after}: {object}", self.kind);
        }
    }
}

#[test]
fn no_field_that_we_do_not_know_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = cases(folder.path());
    let mut items: Vec<Value> = open_definitions().collect();
    items.extend(
        ["velero", "shop"].map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})),
    );
    items.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop"}}));
    let sandbox = Sandbox::start(&json!({"kind": "List", "items": items}).to_string());
    let client = Client::new(sandbox.kubeconfig());
    let kubectl = sandbox.kubectl();
    let get = |kind: &str, name: &str| -> Value {
        let text = ok(&kubectl, &["get", kind, name, "--namespace=velero", "--output=json"]);
        serde_json::from_str(&text).expect("JSON")
    };
    let mut command = Command::new(program());
    command
        .args(["server", "--metrics-address", "127.0.0.1:0", "--download-address", "127.0.0.1:0", "--identity", "one"])
        .arg("--directory-root")
        .arg(folder.path())
        .env("KUBECONFIG", sandbox.kubeconfig());
    let _server = Server(spawn_logged(&mut command, &client.folder.path().join("server.log")));
    for case in &cases {
        with_object(&kubectl, &["create", "--validate=false"], &case.object()).expect("an object");
        let mut last = Value::Null;
        let ended = comes_to_be(|| {
            last = get(case.kind, case.name);
            case.phase.is_none_or(|phase| last["status"]["phase"] == phase)
        });
        assert!(ended, "{} {}: {last}", case.kind, case.name);
        case.has_all(&last, "the server");
        for line in case.changes {
            let before = get(case.kind, case.name)["metadata"]["resourceVersion"].take();
            client.ok(line);
            let changed = get(case.kind, case.name);
            assert_ne!(changed["metadata"]["resourceVersion"], before, "{line}");
            case.has_all(&changed, line);
        }
        for form in ["json", "yaml"] {
            if let Some(line) = case.shown {
                let line = format!("{line} -o {form}");
                // JSON is YAML too.
                let shown: Value = serde_saphyr::from_str(&client.ok(&line)).expect("an object");
                case.has_all(&shown, &line);
            }
        }
    }

    // They go where the object goes.
    let record = std::fs::read(folder.path().join("b/backups/b/velero-backup.json")).expect("the record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    for pointer in ["/spec/ofLater", "/spec/hooks/resources/0/ofLater"] {
        assert_eq!(record.pointer(pointer), Some(&of_later()), "{record}");
    }
    client.ok("backup create made --from-schedule s");
    assert_eq!(get("Backup", "made")["spec"]["ofLater"], of_later());
}
