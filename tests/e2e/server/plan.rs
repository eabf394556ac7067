//! Plans of backups and restores of the server, as the command line makes them without running them.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Run, program, run};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

fn lifeboat(ground: &Ground, line: &str) -> Run {
    let mut command = Command::new(program());
    command.args(line.split(' ')).env("KUBECONFIG", ground.bed.plane.kubeconfig());
    command.env("HOME", ground.directories.path()).env_remove("VELERO_NAMESPACE");
    run(&mut command)
}

fn object(kind: &str, name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "data": {"a": data}})
}

#[test]
fn a_plan_says_what_a_restore_of_the_server_would_do_and_nothing_is_made() {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    for name in ["same", "changed", "gone"] {
        ground.create(&object("ConfigMap", name, "b25l"));
    }
    ground.create(&object("Secret", "key", "b25l"));
    ground.s3_location("main", ground.s3.endpoint());
    let kubeconfig = ground.bed.plane.kubeconfig();
    let server = ground.server_with("one", &kubeconfig, &[]);
    ground.until("backupstoragelocation", "main", "Available");
    let space = "--include-namespaces shop --storage-location main";
    let planned = lifeboat(&ground, &format!("backup create b {space} --dry-run"));
    // The server has a volume there.
    let spec =
        json!({"provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"}, "config": {"path": "/nowhere"}});
    ground.velero("BackupStorageLocation", "volume", &spec);
    let elsewhere = lifeboat(&ground, "backup create b --include-namespaces shop --storage-location volume --dry-run");
    assert_eq!((elsewhere.code, &elsewhere.out), (0, &planned.out), "{elsewhere:?}");
    let warning = "warning: the storage location \"volume\" cannot be read from here: ";
    let unknown = ", so it is not known whether a backup b lies there\n";
    assert!(elsewhere.err.starts_with(warning) && elsewhere.err.contains(unknown), "{elsewhere:?}");
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(planned.out.contains("Nothing was written."), "{planned:?}");
    assert!(ground.get("backup", "b").is_null());
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    let backup = ground.until("backup", "b", "Completed");
    let saved = backup["status"]["progress"]["itemsBackedUp"].clone();
    assert!(planned.out.contains(&format!("Would save {saved} objects")), "{planned:?}");
    // Nothing of the following needs a server.
    drop(server);

    ground.bed.kubectl(&["delete", "configmap", "gone", "-n", "shop"]);
    for (kind, name) in [("configmap", "changed"), ("secret", "key")] {
        ground.bed.kubectl(&["patch", kind, name, "-n", "shop", "--type=merge", "-p", r#"{"data": {"a": "dHdv"}}"#]);
    }
    let flags = "--from-backup b --existing-resource-policy update --existing-resource-policy-override secrets=none";
    let plan = lifeboat(&ground, &format!("restore plan {flags} -o json"));
    assert_eq!(plan.code, 0, "{plan:?}");
    let plan: Value = serde_json::from_str(&plan.out).expect("JSON");
    let action = |name: &str| {
        let items = plan["items"].as_array().expect("items");
        items.iter().find(|item| item["name"] == name).map(|item| item["action"].clone()).unwrap_or_default()
    };
    assert_eq!(["gone", "changed", "same", "key"].map(action), ["create", "update", "unchanged", "conflict"]);

    let dry = lifeboat(&ground, &format!("restore create r {flags} --dry-run"));
    assert_eq!(dry.code, 0, "{dry:?}");
    let expected = "update    configmaps/shop/changed\n            /data/a: \"dHdv\" -> \"b25l\"\n";
    assert!(dry.out.contains(expected) && dry.out.contains("CREATE"), "{dry:?}");
    let differing = lifeboat(&ground, &format!("restore diff {flags} --colorized"));
    assert_eq!(differing.code, 0, "{differing:?}");
    assert_eq!(
        differing.out,
        "conflict  secrets/shop/key: it is there, differs, and stays as it is\n            /data/a: \u{1b}[31m\"(hidden)\"\u{1b}[0m -> \u{1b}[32m\"(hidden)\"\u{1b}[0m\n\
         update    configmaps/shop/changed\n            /data/a: \u{1b}[31m\"dHdv\"\u{1b}[0m -> \u{1b}[32m\"b25l\"\u{1b}[0m\n",
    );
    let shown = lifeboat(&ground, &format!("restore diff {flags} --show-secrets --include-resources secrets"));
    assert!(shown.out.contains("/data/a: \"dHdv\" -> \"b25l\""), "{shown:?}");
    for (line, expected) in [
        (
            "restore create r --from-backup b --details",
            "--show-secrets, --details, --validate, --by-server, --save and --compare are of",
        ),
        ("restore plan --from-backup none", "backups.velero.io \"none\" not found"),
        ("restore plan", "either a backup or schedule must be specified"),
        ("restore diff --from-backup b --include-resources nodes", "nodes are non-restorable resources"),
    ] {
        let run = lifeboat(&ground, line);
        assert!(run.code == 1 && run.err.contains(expected), "{line}: {run:?}");
    }
    let restores = ground.bed.kubectl(&["get", "restores.velero.io", "-n", "velero", "--output=name"]);
    assert_eq!(restores, "", "a plan is no Restore");
    assert_eq!(ground.get_in("shop", "configmap", "changed")["data"]["a"], "dHdv");
}

/// The answer of the server's port to a request for a plan: the status, and the body.
fn ask(address: &str, token: Option<&str>, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a deadline");
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /v1/plans/restore HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}Content-Length: {}\r\n\r\n",
        body.len()
    );
    // A server that refuses by the head alone may not read the body.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// A token of a service account that may create restores, and read ConfigMaps and namespaces, and nothing else.
fn operator(ground: &Ground) -> String {
    ground.bed.kubectl(&["create", "serviceaccount", "operator", "-n", "velero"]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["velero.io"], "resources": ["restores"], "verbs": ["create"]},
    ]);
    ground.create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "operates"}, "rules": rules}));
    ground.bed.kubectl(&[
        "create",
        "clusterrolebinding",
        "operates",
        "--clusterrole=operates",
        "--serviceaccount=velero:operator",
    ]);
    ground.bed.kubectl(&["create", "token", "operator", "-n", "velero"]).trim().to_owned()
}

#[test]
fn a_server_makes_the_plan_with_the_rights_of_whoever_asks() {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    ["same", "changed", "gone"].iter().for_each(|name| ground.create(&object("ConfigMap", name, "b25l")));
    ground.create(&object("Secret", "key", "b25l"));
    ground.s3_location("main", ground.s3.endpoint());
    let address = format!("127.0.0.1:{}", lifeboat_testbed::free_port().expect("a port"));
    let kubeconfig = ground.bed.plane.kubeconfig();
    let _server = ground.server_with("one", &kubeconfig, &["--download-address", &address]);
    ground.until("backupstoragelocation", "main", "Available");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    ground.until("backup", "b", "Completed");
    ground.bed.kubectl(&["delete", "configmap", "gone", "-n", "shop"]);
    for (kind, name) in [("configmap", "changed"), ("secret", "key")] {
        ground.bed.kubectl(&["patch", kind, name, "-n", "shop", "--type=merge", "-p", r#"{"data": {"a": "dHdv"}}"#]);
    }

    // The same plan as the one that is made here.
    let flags = "--from-backup b --existing-resource-policy update";
    let here = lifeboat(&ground, &format!("restore plan {flags} -o json"));
    let there = lifeboat(&ground, &format!("restore plan {flags} -o json --by-server --server-address {address}"));
    assert_eq!((here.code, there.code), (0, 0), "{there:?}");
    assert_eq!(here.out, there.out);
    let text = lifeboat(&ground, &format!("restore diff {flags} --by-server --server-address {address}"));
    assert!(text.out.contains("/data/a: \"(hidden)\" -> \"(hidden)\""), "{text:?}");
    let secrets =
        lifeboat(&ground, &format!("restore plan {flags} --show-secrets --by-server --server-address {address}"));
    assert!(secrets.code == 1 && secrets.err.contains("the server hides the values of Secrets"), "{secrets:?}");

    let restore = |spec: Value| {
        json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "r"}, "spec": spec}).to_string()
    };
    let body = restore(json!({"backupName": "b", "existingResourcePolicy": "update"}));
    let (none, empty) = (restore(json!({"backupName": "none"})), restore(json!({})));
    let admin = Some("testbed-admin");
    let nobody = ground.bed.kubectl(&["create", "token", "default", "-n", "velero"]);
    for (token, body, status, said) in [
        (None, body.as_str(), 401, "send a bearer token"),
        (Some("wrong"), &body, 401, "the API server does not know the token"),
        (Some(nobody.trim()), &body, 403, "the user may not create restores in the namespace velero"),
        (admin, "{", 400, "the body is no Restore"),
        (admin, &empty, 400, "spec.backupName is missing"),
        (admin, &none, 404, "there is no backup none"),
        (admin, &"x".repeat(3 << 20), 413, "the request cannot be read"),
    ] {
        let (code, answer) = ask(&address, token, body);
        assert!(code == status && answer.contains(said), "{said}: {code} {answer}");
    }

    // Who may read no Secrets learns nothing of them.
    let token = operator(&ground);
    let (status, answer) = ask(&address, Some(&token), &body);
    assert_eq!(status, 200, "{answer}");
    // Between them are the lengths of the pieces that they came in.
    let lines = answer.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.filter(Value::is_object).collect();
    let item =
        |name: &str| lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name} in {answer}"));
    assert_eq!(
        ["gone", "changed", "same", "key"].map(|name| item(name)["action"].clone()),
        ["create", "update", "unchanged", "refused"]
    );
    assert!(item("key")["reason"].to_string().contains("forbidden"), "{answer}");
    assert!(lines.last().expect("a line")["end"]["results"].is_object(), "{answer}");
    let restores = ground.bed.kubectl(&["get", "restores.velero.io", "-n", "velero", "--output=name"]);
    assert_eq!(restores, "", "a plan is no Restore");
}
