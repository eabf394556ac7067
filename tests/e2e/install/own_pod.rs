//! The server's image in Deployments that Lifeboat has not made: it knows its own pod, and does not wait for itself.

use crate::ground::{Ground, Server};
use crate::support::{eventually, program, spawn_logged};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Deployment and the account that Velero 1.18 installs.
fn velero() -> [Value; 3] {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/install/aws.yaml");
    let text = std::fs::read_to_string(golden).expect("a fixture");
    let all: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let one = |kind: &str| all.iter().find(|object| object["kind"] == kind).expect("an object").clone();
    ["ServiceAccount", "ClusterRoleBinding", "Deployment"].map(one)
}

/// The pod of a Deployment in the namespace `velero`.
fn pod_of(ground: &Ground, deployment: &str) -> Value {
    let mut found = Value::Null;
    eventually("the server's pod", || {
        let of = |pod: &Value| {
            let name = pod["metadata"]["generateName"].as_str().unwrap_or_default();
            name.starts_with(deployment) && pod["metadata"]["deletionTimestamp"].is_null()
        };
        found = ground.bed.objects("pods", "velero").into_iter().find(of).unwrap_or_default();
        found.is_object()
    });
    found
}

/// The kubeconfig of such a pod: with the token that a kubelet would put into it.
fn kubeconfig_of(ground: &Ground, pod: &Value) -> PathBuf {
    let text = |field: &str| pod["metadata"][field].as_str().expect("a text").to_owned();
    let token = ground.bed.kubectl(&[
        "create",
        "token",
        "velero",
        "--namespace=velero",
        "--bound-object-kind=Pod",
        &format!("--bound-object-name={}", text("name")),
        &format!("--bound-object-uid={}", text("uid")),
    ]);
    let file = |what: &str| ground.directories.path().join(format!("{what}-{}", text("uid")));
    std::fs::write(file("token"), token).expect("write");
    let plain = std::fs::read_to_string(ground.bed.plane.kubeconfig()).expect("the kubeconfig");
    let (before, after) = plain.split_once("token: ").expect("a token");
    let (_, after) = after.split_once('}').expect("its end");
    let path = file("token").display().to_string();
    std::fs::write(file("kubeconfig"), format!("{before}tokenFile: {path}}}{after}")).expect("write");
    file("kubeconfig")
}

/// The server as the pod starts it, but for what is of the machine.
fn start(ground: &Ground, pod: &Value, name: &str) -> Server {
    let container = &pod["spec"]["containers"][0];
    let variables: Vec<&str> =
        container["env"].as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str()).collect();
    assert!(!variables.contains(&"POD_NAME"), "{variables:?}");
    let args: Vec<String> = serde_json::from_value(container["args"].clone()).expect("arguments");
    let mut command = Command::new(program());
    command
        .args(args)
        .args(["--metrics-address", "127.0.0.1:0", "--download-address", "127.0.0.1:0", "--directory-root"])
        .arg(ground.directories.path())
        .env_remove("POD_NAME")
        .env("VELERO_NAMESPACE", "velero")
        .env("KUBECONFIG", kubeconfig_of(ground, pod));
    Server(spawn_logged(&mut command, &ground.directories.path().join(format!("{name}.log"))))
}

#[test]
fn the_image_alone_makes_a_server_of_velero_one_of_lifeboat() {
    let ground = Ground::start();
    ground.many("shop", 3);
    ground.directory("default", &json!({"default": true}));
    let [account, binding, deployment] = velero();
    ground.create(&account);
    ground.create(&binding);
    // As Velero's Helm chart labels it.
    let labels = json!({"app.kubernetes.io/name": "velero", "app.kubernetes.io/instance": "velero"});
    let mut unlabelled = deployment.clone();
    unlabelled["spec"]["selector"]["matchLabels"] = labels.clone();
    unlabelled["spec"]["template"]["metadata"]["labels"] = labels;
    // The host name of its pods is cut off.
    let mut renamed = deployment.clone();
    renamed["metadata"]["name"] = "backups-of-the-production-cluster-in-the-first-region-of-the-west".into();
    // It has the host name of its node.
    let mut on_host = deployment.clone();
    on_host["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    for (case, deployment) in
        [("velero", deployment), ("unlabelled", unlabelled), ("renamed", renamed), ("on-host", on_host)]
    {
        let name = deployment["metadata"]["name"].as_str().expect("a name").to_owned();
        let mut swapped = deployment.clone();
        swapped["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/mirror/lifeboat:v1".into();
        ground.create(&swapped);
        let pod = pod_of(&ground, &name);
        let server = start(&ground, &pod, case);
        let own = pod["metadata"]["name"].as_str().expect("a name");
        ground.velero("Backup", case, &json!({"includedNamespaces": ["shop"]}));
        ground.until("backup", case, "Completed");
        // By this name commands find the port that serves files.
        let lease = ground.get("lease", "lifeboat-server");
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        assert!(holder.starts_with(&format!("{own}_")), "{case}: {holder}");
        assert!(!ground.log(case).contains("waiting until it has ended"), "{case}: {}", ground.log(case));
        assert_eq!(server.stop(), Some(0), "{case}");
        ground.bed.kubectl(&["delete", "deployment", &name, "--namespace=velero", "--cascade=foreground"]);
    }
}

/// Without a token that names the pod, the name of the host remains, and the log says how to set another.
#[test]
fn who_cannot_know_its_own_pod_says_what_to_set() {
    let ground = Ground::start();
    let [account, binding, deployment] = velero();
    ground.create(&account);
    ground.create(&binding);
    ground.create(&deployment);
    pod_of(&ground, "velero");
    let _server = ground.server("elsewhere");
    eventually("a word", || ground.log("elsewhere").contains("set POD_NAME in its environment"));
    assert!(ground.get("lease", "lifeboat-server").is_null());
}
