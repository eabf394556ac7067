//! A backup over what is there: some of it drifted, some of it gone.

use crate::results::{self, named};
use crate::shop;
use crate::snapshot::{self, Snapshot, written};
use crate::support::{Bed, eventually, ok, with_object};
use lifeboat_testbed::Kubectl;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn drift_stays_or_goes_as_the_policy_says() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    let before = shop::backed_up(&bed);
    drift(&kubectl);
    let drifted = snapshot::take(&bed);
    let kinds = results::kinds(&kubectl);

    let run = bed.local(&["restore", "none", "--from-backup", "all", "--existing-resource-policy", "none"]);
    assert_eq!(run.code, 0, "{run:?}");
    let after = snapshot::settled(&kubectl, &drifted, &DONE_BY_NONE);
    let told = names(&[&DRIFTED[..], &NEVER_TOLD, &["ConfigMap. storefront guest"]].concat());
    assert_eq!(changed(&before, &after), told);
    let warnings: BTreeSet<String> = DRIFTED.iter().map(|name| warning(name)).chain([DOWN.to_owned()]).collect();
    assert_eq!(named(&bed.results("none"), &kinds).into_iter().collect::<BTreeSet<_>>(), warnings);

    let run = bed.local(&["restore", "update", "--from-backup", "all", "--existing-resource-policy", "update"]);
    assert_eq!(run.code, 0, "{run:?}");
    let after = snapshot::settled(&kubectl, &before, &LEFT_BY_UPDATE);
    assert_eq!(named(&bed.results("update"), &kinds), UPDATE_SAYS);

    let run = bed.local(&["restore", "again", "--from-backup", "all", "--existing-resource-policy", "update"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(written(&after, &snapshot::take(&bed)), [""; 0]);
    assert_eq!(named(&bed.results("again"), &kinds), UPDATE_SAYS);
}

const DOWN: &str = "warning velero the types of steam.example.org/v1alpha1 could not be discovered: the aggregated API server behind it does not answer";

/// Objects that `drift` changes; the replica set by its controller.
const DRIFTED: [&str; 19] = [
    "Catalog.tea.example.org storefront spring",
    "ClusterRole.rbac.authorization.k8s.io - teahouse:catalog-operator",
    "ConfigMap. storefront opening-hours",
    "ConfigMap. storefront prices",
    "CustomResourceDefinition.apiextensions.k8s.io - regions.tea.example.org",
    "Deployment.apps storefront web",
    "Endpoints. warehouse scales",
    "Job.batch warehouse later",
    "NetworkPolicy.networking.k8s.io storefront nobody-else",
    "PersistentVolume. - pictures",
    "PersistentVolumeClaim. storefront pictures",
    "PodDisruptionBudget.policy storefront web",
    "Region.tea.example.org - coast",
    "ReplicaSet.apps storefront web-67684875b7",
    "Role.rbac.authorization.k8s.io storefront till:write",
    "Secret. storefront payment",
    "Service. storefront web",
    "StatefulSet.apps warehouse ledger",
    "StorageClass.storage.k8s.io - cellar",
];

/// As Velero: a namespace that is there is left as it is, a service account gets what it lacks.
const NEVER_TOLD: [&str; 2] = ["Namespace. - storefront", "ServiceAccount. storefront web"];

const DONE_BY_NONE: [&str; 11] = [
    "ServiceAccount. storefront web: /metadata/labels/app: absent became \"web\"",
    "ServiceAccount. storefront web: /secrets/1: absent became {\"name\":\"payment\"}",
    "Catalog.tea.example.org storefront house-blends: was not there before",
    "ClusterRoleBinding.rbac.authorization.k8s.io - teahouse-auditors: was not there before",
    "ConfigMap. storefront catalog-spring: was not there before",
    "FlowSchema.flowcontrol.apiserver.k8s.io - teahouse-operators: was not there before",
    "Ingress.networking.k8s.io storefront web: was not there before",
    "Secret. storefront registry: was not there before",
    "Secret. storefront till-token: was not there before",
    "Service. storefront till: was not there before",
    "ServiceAccount. storefront till: was not there before",
];

const LEFT_BY_UPDATE: [&str; 6] = [
    // Immutable.
    "ConfigMap. storefront opening-hours: /data/monday: \"closed\" became \"open\"",
    "Namespace. - storefront: /metadata/labels/drift: absent became \"yes\"",
    "ServiceAccount. storefront web: /metadata/labels/drift: absent became \"yes\"",
    "ServiceAccount. storefront web: /secrets/0/name: \"payment\" became \"other\"",
    "ServiceAccount. storefront web: /secrets/1: absent became {\"name\":\"payment\"}",
    "ConfigMap. storefront guest: was not there before",
];
const UPDATE_SAYS: [&str; 2] = ["warning storefront ConfigMap opening-hours", DOWN];

/// Names of the objects that differ.
fn changed(before: &Snapshot, after: &Snapshot) -> BTreeSet<String> {
    let name = |line: &String| line.split(": ").next().unwrap_or(line).to_owned();
    snapshot::compare(before, after).iter().map(name).collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// The warning about an object of a snapshot.
fn warning(name: &str) -> String {
    let mut words = name.splitn(3, ' ');
    let mut word = || words.next().expect("a word");
    let (kind, namespace, name) = (word(), word(), word());
    let kind = kind.split('.').next().expect("a kind");
    format!("warning {} {kind} {name}", if namespace == "-" { "cluster" } else { namespace })
}

/// Changes, deletes and adds.
fn drift(kubectl: &Kubectl) {
    let patch = |object: &str, namespace: &str, patch: Value| {
        let namespace = format!("--namespace={namespace}");
        ok(kubectl, &["patch", object, &namespace, "--type=merge", "--patch", &patch.to_string()]);
    };
    let labels = json!({"metadata": {"labels": {"drift": "yes"}}});
    patch(
        "configmap/prices",
        "storefront",
        json!({"metadata": {"labels": {"tier": "iron"}, "annotations": {"tea.example.org/spoken": null}}, "data": {"assam": "9.99", "new": "key", "empty": null}}),
    );
    patch("secret/payment", "storefront", json!({"data": {"key": "Y2hhbmdlZA=="}}));
    patch(
        "deployment/web",
        "storefront",
        json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "none"}}, "spec": {"replicas": 4, "minReadySeconds": null}}),
    );
    patch(
        "service/web",
        "storefront",
        json!({"spec": {"sessionAffinity": "None", "sessionAffinityConfig": null, "ports": [{"name": "http", "port": 8080}]}}),
    );
    patch("role/till:write", "storefront", json!({"rules": []}));
    patch("networkpolicy/nobody-else", "storefront", json!({"spec": {"policyTypes": ["Ingress", "Egress"]}}));
    patch("poddisruptionbudget/web", "storefront", json!({"spec": {"maxUnavailable": 1}}));
    patch(
        "catalog/spring",
        "storefront",
        json!({"spec": {"season": "autumn", "extra": {"more": [1]}}, "metadata": {"finalizers": ["tea.example.org/flush-cache", "tea.example.org/second"]}}),
    );
    patch(
        "serviceaccount/web",
        "storefront",
        json!({"metadata": {"labels": {"drift": "yes", "app": null}}, "secrets": [{"name": "other"}]}),
    );
    patch("statefulset/ledger", "warehouse", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
    patch("job/later", "warehouse", labels.clone());
    patch("endpoints/scales", "warehouse", json!({"subsets": []}));
    patch("namespace/storefront", "storefront", labels.clone());
    patch("region/coast", "storefront", json!({"spec": {"languages": ["fr"]}}));
    patch("clusterrole/teahouse:catalog-operator", "storefront", json!({"rules": []}));
    patch("customresourcedefinition/regions.tea.example.org", "storefront", labels.clone());
    patch("storageclass/cellar", "storefront", json!({"allowVolumeExpansion": false}));
    patch("persistentvolume/pictures", "storefront", labels.clone());
    patch("persistentvolumeclaim/pictures", "storefront", labels);

    // It is immutable: made anew with another content.
    let closed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "opening-hours", "namespace": "storefront"}, "immutable": true, "data": {"monday": "open"}});
    with_object(kubectl, &["replace", "--force"], &closed).expect("replace");
    let gone = [
        "secret/registry",
        "service/till",
        "configmap/catalog-spring",
        "serviceaccount/till",
        "ingress/web",
        "catalog/house-blends",
    ];
    ok(kubectl, &[&["delete", "--namespace=storefront"][..], &gone].concat());
    // The controllers follow.
    ok(kubectl, &["wait", "--for=delete", "--timeout=180s", "--namespace=storefront", "secret/till-token"]);
    let replicas = "--output=jsonpath={.items[*].spec.replicas}";
    eventually("four of the web", || {
        ok(kubectl, &["get", "replicasets", "--namespace=storefront", "--selector=app=web", replicas]) == "4"
    });
    ok(kubectl, &["delete", "flowschema/teahouse-operators", "clusterrolebinding/teahouse-auditors"]);
    ok(kubectl, &["create", "configmap", "guest", "--namespace=storefront", "--from-literal=from=elsewhere"]);
}
