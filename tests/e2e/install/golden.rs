//! Compares the objects that `lifeboat install` makes of command lines of `velero install` with those of Velero 1.18.2.

use crate::support::{Run, program, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where ours differ: kind, pointer, what is there instead (an element of a list goes between the others), and why.
/// Each has its line in docs/compatibility/installation.md.
fn differences() -> Vec<(&'static str, &'static str, Value, &'static str)> {
    let image = json!(format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION")));
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
        "readOnlyRootFilesystem": true});
    let probe = |path: &str, period: u32, failures: u32| {
        json!({"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": period, "timeoutSeconds": 5,
            "failureThreshold": failures})
    };
    let pod_name = json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    vec![
        ("Deployment", "/spec/strategy", json!({"type": "Recreate"}), "two servers would only wait for each other"),
        ("Deployment", "/spec/template/spec/containers/0/image", image.clone(), "ours"),
        ("DaemonSet", "/spec/template/spec/containers/0/image", image, "ours"),
        (
            "Deployment",
            "/spec/template/spec/containers/0/securityContext",
            restricted,
            "as in later versions of Velero, and nothing is written but into volumes",
        ),
        ("Deployment", "/spec/template/spec/containers/0/env/2", pod_name, "the server knows itself by it"),
        (
            "Deployment",
            "/spec/template/spec/containers/0/livenessProbe",
            probe("/healthz", 30, 5),
            "a server that hangs is started anew",
        ),
        ("Deployment", "/spec/template/spec/containers/0/readinessProbe", probe("/readyz", 10, 3), "so others know"),
        (
            "Deployment",
            "/spec/template/spec/containers/0/volumeMounts/2",
            json!({"name": "credential-files", "mountPath": "/tmp"}),
            "the image's file system is read-only",
        ),
        (
            "Deployment",
            "/spec/template/spec/volumes/2",
            json!({"name": "credential-files", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}),
            "credentials of locations are on no disk",
        ),
    ]
}

/// Command lines that Velero refuses and Lifeboat does not, and why.
const ACCEPTED: [(&str, &str); 1] = [("err-no-plugins.txt", "the provider is built in")];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/install").join(name)
}

/// Adds as a JSON patch does: into a list, or in place of a field.
fn add(document: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
    match document.pointer_mut(parent).expect("the parent") {
        Value::Array(list) => list.insert(last.parse().expect("an index"), value.clone()),
        other => other[last] = value.clone(),
    }
}

/// Removes nulls: Velero writes that there is no time of creation.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// A folder with the credentials that the command lines name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("credentials"), "[default]\n").expect("write");
    folder
}

/// Runs a command line of Velero, with no cluster to be found.
fn velero(folder: &TempDir, line: &str, more: &[&str]) -> Run {
    let args = line.split_whitespace().skip_while(|word| *word != "install");
    let mut command = Command::new(program());
    command.args(args).args(more).current_dir(folder.path()).env("KUBECONFIG", folder.path().join("none"));
    run(&mut command)
}

#[test]
fn objects_are_those_of_velero() {
    let folder = folder();
    let mut used = 0;
    for name in ["minimal", "aws", "full", "custom-sa", "windows"] {
        let text = std::fs::read_to_string(fixture(&format!("{name}.yaml"))).expect("a fixture");
        let line = text.lines().next().and_then(|line| line.split(", without").next()).expect("a command line");
        let mut expected: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        for object in &mut expected {
            without_nulls(object);
            for (kind, pointer, value, reason) in differences() {
                if object["kind"] == kind {
                    assert_ne!(object.pointer(pointer), Some(&value), "{name}: no difference: {reason}");
                    add(object, pointer, &value);
                    used += 1;
                }
            }
        }
        let printed = velero(&folder, line, &[]);
        assert_eq!(printed.code, 0, "{name}: {printed:?}");
        let list: Value = serde_saphyr::from_str(&printed.out).expect("YAML");
        assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
        let items = list["items"].as_array().expect("items");
        let (definitions, rest) = items.split_at(13);
        assert!(definitions.iter().all(|definition| definition["kind"] == "CustomResourceDefinition"));
        assert_eq!(rest.len(), expected.len(), "{name}");
        for (ours, velero) in rest.iter().zip(&expected) {
            let mut ours = ours.clone();
            without_nulls(&mut ours);
            assert_eq!(&ours, velero, "{name}");
        }
        // The same as JSON.
        let json = velero(&folder, &line.replace("-o yaml", "-o json"), &[]);
        assert_eq!(serde_json::from_str::<Value>(&json.out).expect("JSON"), list, "{name}");
    }
    assert_eq!(used, 5 * 8 + 3, "eight in each Deployment, and one in each of three DaemonSets");
}

#[test]
fn refusals_are_those_of_velero() {
    let folder = folder();
    for name in ["err-no-bucket.txt", "err-no-plugins.txt", "err-no-provider.txt", "err-no-secret.txt"] {
        let text = std::fs::read_to_string(fixture(name)).expect("a fixture");
        let lines: Vec<&str> = text.lines().collect();
        let [line, message, code] = lines[..] else { panic!("{name}: {text}") };
        if let Some((_, reason)) = ACCEPTED.iter().find(|(accepted, _)| *accepted == name) {
            assert_eq!(velero(&folder, line, &["--dry-run"]).code, 0, "{name}: {reason}");
            continue;
        }
        let refused = velero(&folder, line, &[]);
        assert_eq!((refused.err.trim_end(), format!("exit: {}", refused.code).as_str()), (message, code), "{name}");
    }
}

#[test]
fn only_definitions_need_no_other_flag() {
    let folder = folder();
    let printed = velero(&folder, "install --crds-only --dry-run -o json", &[]);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{printed:?}");
    let list: Value = serde_json::from_str(&printed.out).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(13));
    let refused = velero(&folder, "install --crds-only --dry-run -o table", &[]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
}

/// `-n` reaches every object, and the name of what is cluster-wide.
#[test]
fn another_namespace_is_another_installation() {
    let folder = folder();
    let line = "install -n dr --provider aws --bucket b --no-secret --dry-run -o json --use-volume-snapshots=false";
    let list: Value = serde_json::from_str(&velero(&folder, line, &[]).out).expect("JSON");
    let items = list["items"].as_array().expect("items");
    let found: Vec<String> = items[13..]
        .iter()
        .map(|o| format!("{} {} in {}", o["kind"], o["metadata"]["name"], o["metadata"]["namespace"]).replace('"', ""))
        .collect();
    assert_eq!(
        found,
        [
            "Namespace dr in null",
            "ClusterRoleBinding velero-dr in null",
            "ServiceAccount velero in dr",
            "BackupStorageLocation default in dr",
            "Deployment velero in dr",
        ]
    );
    assert_eq!(items[14]["subjects"][0]["namespace"], "dr");
}
