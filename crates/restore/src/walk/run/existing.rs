//! Treatment of objects that exist already, and the steps after a create (velero: pkg/restore/restore.go), on whole
//! restores.

use super::tests::{files, messages};
use crate::end::outcome::RestoreError;
use crate::plan::preview::preview;
use crate::stub::{RestoreFixture, Scripted, config_map, object};
use lifeboat_action::{ActionScope, RestoreItemOutput};
use lifeboat_api::{Duration, ExistingResourcePolicy, HookStatus, RestoreStatusSpec, well_known};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A restore of these objects, with an action on widgets that sets annotations.
async fn ground(objects: &[Value], annotations: Value) -> RestoreFixture {
    let action = Scripted::new(move |mut item, _| {
        lifeboat_patch::merge(&mut item, &json!({"metadata": {"annotations": annotations}}));
        Ok(RestoreItemOutput::with(item))
    });
    let action = Arc::new(action.scoped(ActionScope::resources(&["widgets.example.com"])));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    RestoreFixture::new(&[&[namespace][..], objects].concat(), &action).await
}

const WIDGET: &str = "/apis/example.com/v2/namespaces/shop/widgets/w";

fn widget(rest: &Value) -> Value {
    object("example.com/v2", "Widget", "w", rest)
}

#[tokio::test]
async fn existing_objects_get_no_status_or_hooks_and_definitions_no_wait() {
    let annotations = json!({well_known::ANNOTATION_RESTORE_STATUS: "true"});
    let rest = json!({"metadata": {"annotations": annotations}, "status": {"phase": "Running"},
        "spec": {"containers": [{"name": "web"}]}});
    let mut of_cluster = rest.clone();
    of_cluster["metadata"]["namespace"] = Value::Null;
    let crd = |rest: &Value| object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x.example.com", rest);
    let mut ground = ground(&[object("v1", "Pod", "p", &rest), crd(&of_cluster)], json!({})).await;
    ground.put(object("v1", "Pod", "p", &json!({"spec": {"containers": [{"name": "other"}]}})));
    ground.put(crd(&json!({"metadata": {"namespace": null}})));
    ground.request.settings.resource_timeout = Duration::from_secs(1);
    let spec = &mut ground.request.restore.spec;
    spec.existing_resource_policy = ExistingResourcePolicy::Update;
    spec.hooks = serde_json::from_value(json!({"resources": [
        {"name": "h", "postHooks": [{"exec": {"command": ["c"]}}]}]}))
    .unwrap();
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), [vec![], vec![] as Vec<String>]);
    let none = HookStatus { hooks_attempted: 0, hooks_failed: 0, ..HookStatus::default() };
    assert_eq!(outcome.restore.status.hook_status, Some(none));
    let (pod, definition) =
        ("/api/v1/namespaces/shop/pods/p", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.example.com");
    let expected = ["POST", "PATCH"].map(|method| format!("{method} {definition}")).into_iter();
    let expected: Vec<String> = expected.chain(["POST", "PATCH"].map(|method| format!("{method} {pod}"))).collect();
    assert_eq!(ground.writes(), expected);
    assert!([pod, definition].iter().all(|path| ground.at(path).unwrap().get("status").is_none()));
}

#[tokio::test]
async fn a_service_whose_port_is_taken_and_that_is_there_counts_as_existing() {
    let service = |port: u16| object("v1", "Service", "s", &json!({"spec": {"ports": [{"port": port}]}}));
    let taken =
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated";
    for (is_there, warnings, errors, listed) in [
        (
            true,
            vec![
                "could not restore, Service:s already exists. Warning: the in-cluster version is different than the backed-up version",
            ],
            0,
            "shop/s(failed)",
        ),
        (false, vec![], 1, "shop/s(failed)"),
    ] {
        let ground = ground(&[service(80)], json!({})).await;
        if is_there {
            ground.put(service(81));
        }
        ground.answer("POST", "/api/v1/namespaces/shop/services/s", (422, taken));
        let outcome = ground.run().await.unwrap();
        let [told, failed] = messages(&outcome.results);
        assert_eq!((told, failed.len()), (warnings.into_iter().map(str::to_owned).collect(), errors), "{failed:?}");
        assert_eq!(files(&ground).await.1["v1/Service"], json!([listed]));
    }
}

#[tokio::test]
async fn the_status_annotation_as_actions_leave_it_counts_before_the_types() {
    let all = || Some(RestoreStatusSpec { included_resources: vec!["*".to_owned()], ..RestoreStatusSpec::default() });
    let annotation = |value: &str| json!({well_known::ANNOTATION_RESTORE_STATUS: value});
    for (in_backup, by_action, list, is_restored) in [
        (json!({}), json!({}), None, false),
        (json!({}), json!({}), all(), true),
        (annotation("true"), json!({}), None, true),
        (annotation(" TRUE\n"), json!({}), None, true),
        (annotation("false"), json!({}), all(), false),
        (annotation(" False "), json!({}), all(), false),
        (annotation("yes"), json!({}), None, false),
        (annotation("yes"), json!({}), all(), true),
        (json!({}), annotation("true"), None, true),
        (annotation("true"), annotation("false"), all(), false),
        (annotation("false"), json!({well_known::ANNOTATION_RESTORE_STATUS: null}), all(), true),
    ] {
        let case = format!("{in_backup} {by_action} {list:?}");
        let object = widget(&json!({"metadata": {"annotations": in_backup}, "status": {"ready": 3}}));
        let mut ground = ground(&[object], by_action).await;
        ground.request.restore.spec.restore_status = list;
        ground.run().await.unwrap();
        let mut expected = vec![format!("POST {WIDGET}")];
        expected.extend(is_restored.then(|| format!("PATCH {WIDGET}/status")));
        assert_eq!(ground.writes(), expected, "{case}");
        let status = if is_restored { json!({"ready": 3}) } else { Value::Null };
        assert_eq!(ground.at(WIDGET).unwrap()["status"], status, "{case}");
    }
}

#[tokio::test]
async fn an_unwritable_status_is_a_warning_of_a_created_object() {
    let annotations = json!({well_known::ANNOTATION_RESTORE_STATUS: "true"});
    let object = widget(&json!({"metadata": {"annotations": annotations}, "status": {"ready": 3}}));
    let ground = ground(&[object], json!({})).await;
    ground.answer("PATCH", "/apis/example.com/v2/namespaces/shop/widgets/w/status", (422, "it is odd"));
    let outcome = ground.run().await.unwrap();
    let [warnings, errors] = messages(&outcome.results);
    let [warning] = warnings.try_into().unwrap();
    assert!(warning.starts_with("status of widgets.example.com/shop/w could not be restored: "), "{warning}");
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(files(&ground).await.1["example.com/v2/Widget"], json!(["shop/w(created)"]));
}

#[tokio::test]
async fn unwritable_managed_fields_are_an_error_and_of_a_gone_object_a_warning() {
    for (answer, is_error) in [((404, "NotFound"), false), ((422, "it is odd"), true)] {
        let managed = json!([{"manager": "argo", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
        let ground = ground(&[widget(&json!({"metadata": {"managedFields": managed}}))], json!({})).await;
        ground.answer("PATCH", WIDGET, answer);
        let outcome = ground.run().await.unwrap();
        let [warnings, errors] = messages(&outcome.results);
        assert_eq!((warnings.len(), errors.len()), if is_error { (0, 1) } else { (1, 0) }, "{warnings:?} {errors:?}");
        let told = warnings.iter().chain(&errors).next().unwrap();
        assert!(told.starts_with("error restoring managedFields of widgets.example.com/shop/w: "), "{told}");
        assert_eq!(ground.writes(), [format!("POST {WIDGET}"), format!("PATCH {WIDGET}")]);
    }
}

/// A restore of a ConfigMap that is in the cluster with other data.
async fn differing(policy: ExistingResourcePolicy) -> RestoreFixture {
    let mut ground = ground(&[config_map("a")], json!({})).await;
    let mut old = config_map("a");
    old["data"]["k"] = "old".into();
    ground.put(old);
    ground.request.restore.spec.existing_resource_policy = policy;
    ground
}

/// The data of that ConfigMap, as it is in the cluster.
fn data(ground: &RestoreFixture) -> Value {
    ground.config_map("a").map(|object| object["data"]["k"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn an_object_that_changes_before_its_deletion_is_decided_about_again() {
    let held = |object: &mut Value| {
        lifeboat_patch::merge(object, &json!({"metadata": {"resourceVersion": "2", "finalizers": ["e.com/hold"]}}));
        true
    };
    let ground = differing(ExistingResourcePolicy::Recreate).await;
    ground.before_deletion(held);
    let outcome = ground.run().await.unwrap();
    let why = "it has the finalizer e.com/hold, and what goes with it is not known; allowRecreate: [configmaps] \
               (--allow-recreate) lets it be deleted all the same";
    let told = format!("could not recreate configmaps/shop/a, which differs from the backup: {why}");
    assert_eq!((messages(&outcome.results), data(&ground)), ([vec![told], vec![]], json!("old")));

    let another = |object: &mut Value| {
        object["metadata"]["uid"] = "another".into();
        true
    };
    let mut ground = differing(ExistingResourcePolicy::Recreate).await;
    ground.request.restore.spec.plan_digest = format!("sha256:{}", "0".repeat(64));
    let Err(RestoreError::PlanChanged { now, .. }) = ground.run().await else { panic!("another plan") };
    ground.request.restore.spec.plan_digest = now;
    ground.before_deletion(another);
    let outcome = ground.run_again().await.unwrap();
    let why = "it was left as it is, because it has changed since the plan that the restore is pinned to";
    let told = format!("error restoring configmaps/shop/a: {why}");
    assert_eq!((messages(&outcome.results), data(&ground)), ([vec![], vec![told]], json!("old")));
}

#[tokio::test]
async fn the_results_say_until_when_the_originals_of_recreated_objects_stay() {
    let ground = differing(ExistingResourcePolicy::Recreate).await;
    let outcome = ground.run().await.unwrap();
    let note = "1 object that was recreated or removed is kept as before, below restores/r/replaced/ in the bucket, until \
                2026-01-31T00:00:00Z, also when the restore and its backup are deleted";
    assert_eq!((messages(&outcome.results), &outcome.results.notes), ([vec![], vec![]], &vec![note.to_owned()]));
    let stored: Option<lifeboat_object::Results> =
        ground.env.store.restore_file("r", lifeboat_archive::layout::RestoreFile::Results).await.unwrap();
    assert_eq!(stored.unwrap().notes, [note]);
}

#[tokio::test]
async fn a_deletion_without_answer_is_checked_and_told_with_the_stored_copy() {
    let ground = differing(ExistingResourcePolicy::Recreate).await;
    ground.before_deletion(|_| false);
    ground.answer("DELETE", "/api/v1/namespaces/shop/configmaps/a", (500, "Invalid"));
    let outcome = ground.run().await.unwrap();
    let place = "restores/r/replaced/configmaps/namespaces/shop/a/uid-of--api-v1-namespaces-shop-configmaps-a.json.gz";
    let told = format!(
        "could not recreate configmaps/shop/a: it may have been deleted, because no answer to that came (Invalid); the one that was \
         there is in the bucket at {place}; it is looked at again"
    );
    assert_eq!((messages(&outcome.results), data(&ground)), ([vec![told], vec![]], json!("a")));
}

#[tokio::test]
async fn a_refused_update_is_retried_and_a_final_refusal_is_a_warning() {
    for (answer, warnings, expected) in [
        ((403, "not yet ready to handle request"), vec![], "a"),
        (
            (422, "it is odd"),
            vec!["could not update configmaps/shop/a to match the backup: it is odd".to_owned()],
            "old",
        ),
    ] {
        let ground = differing(ExistingResourcePolicy::Update).await;
        ground.refuse_patches("a", 1, answer);
        let outcome = ground.run().await.unwrap();
        assert_eq!((messages(&outcome.results), data(&ground)), ([warnings, vec![]], json!(expected)));
    }
}

#[tokio::test]
async fn of_objects_with_one_target_the_first_is_restored_and_others_conflict() {
    let map = |namespace: &str, name: &str, data: &str| {
        let metadata = json!({"namespace": namespace});
        object("v1", "ConfigMap", name, &json!({"metadata": metadata, "data": {"k": data}}))
    };
    let objects = [("shop", "a", "a"), ("shop", "same", "same"), ("annex", "a", "of annex"), ("annex", "same", "same")]
        .map(|(namespace, name, data)| map(namespace, name, data));
    for policy in ["none", "update", "recreate"] {
        let mut ground = ground(&objects, json!({})).await;
        let spec = &mut ground.request.restore.spec;
        spec.existing_resource_policy = policy.to_owned().into();
        spec.namespace_mapping = [("annex".to_owned(), "shop".to_owned())].into();
        let (sender, mut items) = mpsc::channel(16);
        preview(&ground.request, &ground.env, sender).await.unwrap();
        let mut planned = Vec::new();
        while let Some(item) = items.recv().await {
            planned.push((item.key.name, item.planned.word().as_str(), item.warnings));
        }
        planned.sort();
        let why = "another object of the backup becomes it: configmaps/shop/a";
        let expected = [
            ("a", "conflict", vec![why]),
            ("a", "create", vec![]),
            ("same", "create", vec![]),
            ("same", "unchanged", vec![]),
            ("shop", "create", vec![]),
        ];
        let expected = expected.map(|(name, word, warnings)| {
            (name.to_owned(), word, warnings.into_iter().map(str::to_owned).collect::<Vec<_>>())
        });
        assert_eq!(planned, expected, "{policy}");
        let told = format!("could not restore configmaps/annex/a as configmaps/shop/a: {why}");
        // A run again sees what this restore has made.
        for _ in 0..2 {
            let outcome = ground.run_again().await.unwrap();
            assert_eq!(
                (messages(&outcome.results), data(&ground)),
                ([vec![told.clone()], vec![]], json!("a")),
                "{policy}"
            );
        }
        assert_eq!(ground.patches(), Vec::<Value>::new(), "{policy}");
    }
}

#[tokio::test]
async fn existing_objects_are_listed_before_writes_unless_each_is_to_be_tried() {
    for (lists_existing, tried) in [(true, 0), (false, 60)] {
        let objects: Vec<Value> = (0..60).map(|n| config_map(&format!("c{n:02}"))).collect();
        let mut ground = ground(&objects, json!({})).await;
        for object in &objects {
            let mut other = object.clone();
            other["data"] = json!({"changed": "since"});
            ground.put(other);
        }
        ground.request.settings.lists_existing = lists_existing;
        let outcome = ground.run().await.unwrap();
        let [warnings, errors] = messages(&outcome.results);
        let creates =
            ground.writes().iter().filter(|write| write.starts_with("POST ") && write.contains("/configmaps")).count();
        assert_eq!((errors.len(), warnings.len(), creates), (0, 60, tried), "{lists_existing}: {warnings:?}");
    }
}
