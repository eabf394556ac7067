//! Objects that are in the cluster in the very state of the backup: left as they are, unless somebody wants them
//! changed.

use crate::support::{Sandbox, local, ok, results};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// So many that they are looked for by a list.
const BINDINGS: usize = 60;

#[test]
fn changes_of_a_restore_are_shown_or_made_though_objects_are_as_saved() {
    let mut manifests = String::from("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n");
    manifests += "{apiVersion: v1, kind: Namespace, metadata: {name: velero}}\n---\n";
    for n in 0..BINDINGS {
        let subject = "{kind: ServiceAccount, name: till, namespace: shop}";
        let role = "{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}";
        let _ = write!(manifests, "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, ");
        let _ = writeln!(manifests, "metadata: {{name: till-{n}}}, roleRef: {role}, subjects: [{subject}]}}\n---");
    }
    let sandbox = Sandbox::start(&manifests);
    let kubectl = sandbox.kubectl();
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "web", "image": "old.example/web:1"}]);
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
    kubectl.create(&web).expect("a deployment");
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let run = local(&sandbox.kubeconfig(), folder.path(), args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.out
    };
    let path = "--output=jsonpath={.subjects[0].namespace}";
    let subject = || ok(&kubectl, &["get", "clusterrolebinding", "till-7", path]);
    let revisions = || {
        let version = "--output=jsonpath={.items[*].metadata.resourceVersion}";
        ok(&kubectl, &["get", "clusterrolebindings,deployments", "--all-namespaces", version])
    };
    let before = revisions();
    run(&["backup", "all", "--include-cluster-resources"]);

    run(&["restore", "same", "--from-backup", "all", "--existing-resource-policy", "update"]);
    assert_eq!((results(folder.path(), "same"), revisions()), (json!({"errors": {}, "warnings": {}}), before.clone()));

    let bindings = ["--from-backup", "all", "--include-resources", "clusterrolebindings"];
    let moved = [&bindings[..], &["--namespace-mappings", "shop:copy"]].concat();
    let shown = run(&[&["restore", "shown", "--dry-run"][..], &moved].concat());
    assert!(shown.contains("till-7"), "{shown}");
    run(&[&["restore", "told"][..], &moved].concat());
    let warned: Vec<Value> = (0..BINDINGS)
        .map(|n| json!(format!("could not restore, ClusterRoleBinding:till-{n} already exists. Warning: the in-cluster version is different than the backed-up version")))
        .collect();
    let mut told = results(folder.path(), "told");
    let told = told["warnings"]["cluster"].take();
    let sorted = |list: &Value| {
        let mut list: Vec<String> = list.as_array().into_iter().flatten().map(ToString::to_string).collect();
        list.sort();
        list
    };
    assert_eq!(sorted(&told), sorted(&json!(warned)));
    assert_eq!((subject().as_str(), revisions()), ("shop", before));
    run(&[&["restore", "written", "--existing-resource-policy", "update"][..], &moved].concat());
    assert_eq!(results(folder.path(), "written"), json!({"errors": {}, "warnings": {}}));
    assert_eq!(subject(), "copy");

    let rules = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"one": "old.example,new.example"},
        "metadata": {"name": "images", "namespace": "velero", "labels": {"velero.io/plugin-config": "", "velero.io/change-image-name": "RestoreItemAction"}}});
    kubectl.create(&rules).expect("a configuration");
    let only = ["--from-backup", "all", "--include-resources", "deployments"];
    run(&[&["restore", "images", "--existing-resource-policy", "update"][..], &only].concat());
    assert_eq!(results(folder.path(), "images"), json!({"errors": {}, "warnings": {}}));
    let image = "--output=jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(ok(&kubectl, &["get", "deployment", "web", "--namespace=shop", image]), "new.example/web:1");
}
