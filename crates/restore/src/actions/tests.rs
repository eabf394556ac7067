//! Rules that hold for all actions, and the way in which their tests call them.

use super::test_server::{FixedResponse, TestServer};
use super::{ActionConfig, FilesToRestore, built_in_actions};
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::{Restore, RestoreSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Calls an action for an object that is as it was backed up.
pub(super) fn run(
    work: impl Fn(RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError>,
    item: &Value,
) -> Result<RestoreItemOutput, ActionError> {
    run_in(work, item, &Restore::default())
}

/// The same in some restore.
pub(super) fn run_in(
    work: impl Fn(RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError>,
    item: &Value,
    restore: &Restore,
) -> Result<RestoreItemOutput, ActionError> {
    work(input(item, restore))
}

/// Calls an action for an object that is not as it was backed up.
pub(super) fn run_from(
    work: impl Fn(RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError>,
    item: &Value,
    item_from_backup: &Value,
    restore: &Restore,
) -> Result<RestoreItemOutput, ActionError> {
    work(RestoreItemInput { item: item.clone(), item_from_backup, restore })
}

pub(super) fn input<'a>(item: &'a Value, restore: &'a Restore) -> RestoreItemInput<'a> {
    RestoreItemInput { item: item.clone(), item_from_backup: item, restore }
}

/// A restore with a namespace mapping.
pub(super) fn with_mapping(pairs: &[(&str, &str)]) -> Restore {
    let namespace_mapping = pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    Restore { spec: RestoreSpec { namespace_mapping, ..RestoreSpec::default() }, ..Restore::default() }
}

async fn server() -> TestServer {
    TestServer::start(vec![
        FixedResponse::object("/apis/storage.k8s.io/v1/storageclasses/fast", &json!({"metadata": {"name": "fast"}})),
        FixedResponse::list("/api/v1/namespaces/shop/serviceaccounts?", &[]),
    ])
    .await
}

fn config() -> ActionConfig {
    ActionConfig {
        image_rules: vec![("old".to_owned(), "new".to_owned())],
        storage_classes: BTreeMap::from([("slow".to_owned(), "fast".to_owned())]),
        ..ActionConfig::default()
    }
}

#[tokio::test]
async fn the_table_of_actions() {
    let server = server().await;
    let table: Vec<_> = built_in_actions(&server.cluster, &config(), FilesToRestore::default())
        .iter()
        .map(|a| {
            let scope = a.applies_to();
            (a.name().to_owned(), scope.included_resources.join(" "), scope.label_selector, a.is_pure())
        })
        .collect();
    let images = "deployments.apps statefulsets.apps daemonsets.apps replicasets.apps replicationcontrollers jobs.batch cronjobs.batch pods";
    let webhooks = "mutatingwebhookconfigurations.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io";
    let expected = [
        ("add-pvc-from-pod", "pods", "", true),
        ("admission-webhook-configuration", webhooks, "", true),
        ("apiservice", "apiservices.apiregistration.k8s.io", "kube-aggregator.kubernetes.io/automanaged", true),
        ("change-image-name", images, "", true),
        ("change-storage-class", "persistentvolumeclaims persistentvolumes statefulsets.apps", "", true),
        ("cluster-role-bindings", "clusterrolebindings.rbac.authorization.k8s.io", "", true),
        ("crd-preserve-fields", "customresourcedefinitions.apiextensions.k8s.io", "", true),
        ("job", "jobs.batch", "", true),
        ("pod", "pods", "", true),
        ("pod-volume-restore", "pods persistentvolumeclaims", "", true),
        ("pvc", "persistentvolumeclaims", "", true),
        ("role-bindings", "rolebindings.rbac.authorization.k8s.io", "", true),
        ("secret", "secrets", "", true),
        ("service", "services", "", true),
        ("service-account", "serviceaccounts", "", true),
    ];
    let expected = expected.map(|(n, r, s, p)| (format!("velero.io/{n}"), r.to_owned(), s.to_owned(), p));
    assert_eq!(table, expected);
}

fn service(namespace: &str, metadata: &Value) -> Value {
    let mut object = json!({"kind": "Service", "metadata": metadata,
        "spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080}]}});
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// Objects of all kinds, in which the actions have something to do.
fn objects() -> Vec<(&'static str, Value)> {
    let pod_spec = json!({"nodeName": "n", "priority": 1, "priorityClassName": "high", "serviceAccountName": "web",
        "volumes": [{"name": "web-token-x", "secret": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"image": "old", "volumeMounts": [{"name": "web-token-x"}, {"name": "d"}]}], "initContainers": [{"image": "old"}]});
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": pod_spec});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "shop", "annotations": {"volume.kubernetes.io/selected-node": "n", "mine": "x"}},
        "spec": {"storageClassName": "slow", "volumeName": "v"}, "status": {"phase": "Bound"}});
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"name": "r"}, "subjects": [{"kind": "ServiceAccount", "namespace": "shop"}]});
    let labels = json!({"controller-uid": "u", "app": "a"});
    vec![
        ("add-pvc-from-pod", pod.clone()),
        (
            "admission-webhook-configuration",
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "webhooks": [{"name": "a"}]}),
        ),
        ("change-image-name", pod.clone()),
        ("change-storage-class", claim.clone()),
        ("cluster-role-bindings", binding.clone()),
        (
            "crd-preserve-fields",
            json!({"apiVersion": "apiextensions.k8s.io/v1", "spec": {"preserveUnknownFields": true, "versions": [{"schema": {"openAPIV3Schema": {}}}]}}),
        ),
        (
            "job",
            json!({"kind": "Job", "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod_spec}}}),
        ),
        ("pod", pod),
        ("pvc", claim),
        ("role-bindings", binding),
        (
            "secret",
            json!({"type": "kubernetes.io/service-account-token", "metadata": {"name": "s", "namespace": "shop"}, "data": {"token": "t", "more": "m"}}),
        ),
        ("service", service("shop", &json!({}))),
        (
            "service",
            service("other", &json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}})),
        ),
        (
            "service",
            service(
                "other",
                &json!({"managedFields": [{"fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:nodePort": {}}}}}}]}),
            ),
        ),
        (
            "service-account",
            json!({"metadata": {"name": "web"}, "secrets": [{"name": "web-token-x"}, {"name": "pull"}]}),
        ),
    ]
}

const MARK: &str = "xUnknown";

/// The value with a field that no action knows in every object.
fn marked(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut map: Map<_, _> = map.into_iter().map(|(k, v)| (k, marked(v))).collect();
            map.insert(MARK.to_owned(), json!([1, null, "x"]));
            map.into()
        }
        Value::Array(list) => list.into_iter().map(marked).collect(),
        other => other,
    }
}

/// The value without these fields; fails where one is missing.
fn unmarked(value: Value) -> Value {
    match value {
        Value::Object(mut map) => {
            assert_eq!(map.remove(MARK), Some(json!([1, null, "x"])), "{map:?}");
            map.into_iter().map(|(k, v)| (k, unmarked(v))).collect()
        }
        Value::Array(list) => list.into_iter().map(unmarked).collect(),
        other => other,
    }
}

#[tokio::test]
async fn unknown_fields_survive_every_action() {
    let server = server().await;
    let restore = with_mapping(&[("shop", "copy")]);
    let actions = built_in_actions(&server.cluster, &config(), FilesToRestore::default());
    for (name, object) in objects() {
        let action = actions.iter().find(|a| a.name() == format!("velero.io/{name}")).unwrap();
        let plain = action.execute(input(&object, &restore)).await.unwrap();
        assert!(plain.item != object || !plain.additional_items.is_empty(), "{name} has nothing to do");
        let mut with_marks = action.execute(input(&marked(object), &restore)).await.unwrap();
        with_marks.item = unmarked(with_marks.item);
        assert_eq!(with_marks, plain, "{name}");
    }
}

#[tokio::test]
async fn the_names_of_the_actions_are_those_that_are_told() {
    let server = server().await;
    let all = built_in_actions(&server.cluster, &config(), FilesToRestore::default());
    assert_eq!(all.iter().map(|action| action.name()).collect::<Vec<_>>(), super::BUILT_IN_ACTIONS);
}

#[tokio::test]
async fn unrelated_objects_are_left_alone() {
    let server = server().await;
    let restore = with_mapping(&[("shop", "copy")]);
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "shop", "labels": {"a": "b"}, "annotations": {}, "finalizers": ["x"]},
        "spec": {"size": 1, "list": [], "nothing": null}, "data": {"k": "v"}, "status": {"phase": "Ready"}});
    for action in built_in_actions(&server.cluster, &config(), FilesToRestore::default()) {
        // This one is called for its label only.
        if action.name() == "velero.io/apiservice" {
            continue;
        }
        let output = action.execute(input(&object, &restore)).await.unwrap();
        assert_eq!(output, RestoreItemOutput::with(object.clone()), "{}", action.name());
    }
}

/// JSON pointers to everything in a value.
fn places(value: &Value, here: &str, out: &mut Vec<String>) {
    out.push(here.to_owned());
    let escaped = |key: &String| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| places(v, &format!("{here}/{}", escaped(k)), out)),
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, &format!("{here}/{i}"), out)),
        _ => {}
    }
}

#[tokio::test]
async fn odd_shapes_are_survived_without_loss() {
    let server = server().await;
    let restore = with_mapping(&[("shop", "copy")]);
    let actions = built_in_actions(&server.cluster, &config(), FilesToRestore::default());
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!("odd"),
        json!([]),
        json!(["odd"]),
        json!({}),
        json!({"odd": []}),
    ];
    let mut calls = 0;
    for (name, object) in objects() {
        let action = actions.iter().find(|a| a.name() == format!("velero.io/{name}")).unwrap();
        let mut pointers = Vec::new();
        places(&object, "", &mut pointers);
        for (pointer, value) in pointers.iter().flat_map(|p| odd.iter().map(move |v| (p, v))) {
            let mut object = object.clone();
            *object.pointer_mut(pointer).unwrap() = value.clone();
            let object = marked(object);
            // A namespace that the server does not know and a configuration that is no JSON fail; nothing else may.
            match action.execute(input(&object, &restore)).await {
                Ok(output) => {
                    // Every object that is left has its mark: none was replaced or made up.
                    unmarked(output.item);
                }
                Err(e) => assert!(
                    pointer == "/metadata/namespace" || pointer.ends_with("last-applied-configuration"),
                    "{name} {pointer}: {e}"
                ),
            }
            calls += 1;
        }
    }
    assert!(calls > 1000, "{calls} calls");
}

#[tokio::test]
async fn only_a_mapping_or_a_configuration_makes_actions_do_more_than_detach() {
    let server = server().await;
    let more = |config: &ActionConfig, restore: &Restore| {
        let mut names: Vec<String> = Vec::new();
        for action in built_in_actions(&server.cluster, config, FilesToRestore::default()) {
            if !action.only_detaches(restore) {
                names.push(action.name().to_owned());
            }
        }
        names
    };
    let none: [&str; 0] = [];
    assert_eq!(more(&ActionConfig::default(), &Restore::default()), none);
    let mapped = ["velero.io/cluster-role-bindings", "velero.io/role-bindings"];
    assert_eq!(more(&ActionConfig::default(), &with_mapping(&[("shop", "copy")])), mapped);
    let configured = ["velero.io/change-image-name", "velero.io/change-storage-class"];
    assert_eq!(more(&config(), &Restore::default()), configured);
}
