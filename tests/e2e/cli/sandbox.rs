//! The sandbox and the demo, as a user starts them.

use crate::ground::Server;
use crate::support::{eventually, program, run};
use lifeboat_testbed::{KUBECTL_VERSIONS, Kubectl, build_kubectl};
use std::process::{Command, Stdio};

#[test]
fn the_demo_loses_nothing() {
    let mut command = Command::new(program());
    command.args(["demo", "--objects", "500"]).env("HOME", "/nonexistent").env_remove("KUBECONFIG");
    let run = run(&mut command);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("equal: all 5"), "{run:?}");
}

#[test]
fn a_sandbox_serves_its_manifests_until_it_is_told_to_end() {
    serve_manifests_to(None);
}

#[test]
#[ignore = "builds two kubectl: make test-long"]
fn long_a_sandbox_serves_the_oldest_and_the_newest_kubectl() {
    for version in KUBECTL_VERSIONS {
        serve_manifests_to(Some(version));
    }
}

/// Starts a sandbox with a manifest, and uses it with kubectl of this version; `None` for that of the control plane.
fn serve_manifests_to(version: Option<&str>) {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    let manifest = folder.path().join("one.yaml");
    std::fs::write(&manifest, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: default}}")
        .expect("write");
    let child = Command::new(program())
        .args(["sandbox", "--kubeconfig"])
        .arg(&kubeconfig)
        .arg("--load")
        .arg(&manifest)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary");
    // Ended when the test fails, too.
    let sandbox = Server(child);
    eventually("the kubeconfig", || kubeconfig.exists());
    let kubectl = Kubectl::new(&kubeconfig).expect("kubectl");
    let kubectl = match version {
        Some(version) => kubectl.with_program(build_kubectl(version).expect("kubectl of the version")),
        None => kubectl,
    };
    let name = kubectl.try_run(&["get", "configmap/one", "--output=name"]).expect("the manifest");
    assert_eq!(name, "configmap/one\n");
    // What `kubectl get -o yaml` prints is taken as it is.
    let list = folder.path().join("list.yaml");
    let item =
        |kind: &str| format!("- {{apiVersion: v1, kind: {kind}, metadata: {{name: of-a-list, namespace: default}}}}\n");
    let items = [item("ConfigMap"), item("Secret")].concat();
    std::fs::write(&list, format!("apiVersion: v1\nkind: List\nitems:\n{items}")).expect("write");
    let list = list.display().to_string();
    let made = kubectl.try_run(&["create", "-f", &list]).expect("a list");
    assert_eq!(made, "configmap/of-a-list created\nsecret/of-a-list created\n");
    kubectl.try_run(&["delete", "-f", &list, "--wait=false"]).expect("a list");
    // What kubectl sends in protocol buffers.
    kubectl
        .try_run(&["create", "deployment", "web", "--image=i:1", "--replicas=2", "--port=80"])
        .expect("a Deployment");
    kubectl.try_run(&["create", "cronjob", "tick", "--image=i:1", "--schedule=* * * * *"]).expect("a CronJob");
    kubectl.try_run(&["create", "clusterrole", "reader", "--verb=get,list", "--resource=pods"]).expect("a role");
    let template = "-o=jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].ports[0].containerPort}";
    assert_eq!(kubectl.try_run(&["get", "deployment", "web", template]).expect("it"), "2 i:1 80");
    let rules = "-o=jsonpath={.rules}";
    let rules = kubectl.try_run(&["get", "clusterrole", "reader", rules]).expect("it");
    assert_eq!(rules, r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]"#);
    assert_eq!(sandbox.stop(), Some(0));
}
