//! Changes that a restore makes to objects (velero: pkg/restore/restore.go, internal/resourcemodifiers), on whole
//! restores.

use super::new_state;
use super::tests::{files, messages, name};
use crate::object::item::restore;
use crate::request::settings::prepare;
use crate::state::attempt::{Attempt, AttemptNumber, Obstacle, SourceObject};
use crate::state::checkpoint::Checkpoint;
use crate::state::operations::Operations;
use crate::stub::{RestoreFixture, Scripted, config_map, key, object};
use crate::walk::context::RestoreContext;
use crate::walk::preparation::PreparedRestore;
use lifeboat_action::{ActionScope, RestoreItemOutput};
use lifeboat_api::{RestorePhase, well_known};
use lifeboat_archive::layout::RestoreFile;
use lifeboat_select::RulesText;
use serde_json::{Value, json};
use std::sync::Arc;

/// An action that leaves objects as they are.
fn idle() -> Arc<Scripted> {
    Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))))
}

/// A backup of these objects and of the namespace `shop`.
async fn ground(objects: &[Value]) -> RestoreFixture {
    RestoreFixture::new(&[&[namespace()][..], objects].concat(), &idle()).await
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
}

fn document(text: &str) -> Option<RulesText> {
    Some(RulesText { source: "a file".to_owned(), text: format!("version: v1\n{text}") })
}

fn rules(text: &str) -> Option<RulesText> {
    document(&format!("resourceModifierRules:\n{text}"))
}

const NO_MESSAGES: [Vec<String>; 2] = [Vec::new(), Vec::new()];

#[tokio::test]
async fn pods_and_jobs_that_have_ended_are_not_restored_and_not_listed() {
    let pod = |name: &str, phase: &str| object("v1", "Pod", name, &json!({"spec": {}, "status": {"phase": phase}}));
    let job = |name: &str, status: Value| object("batch/v1", "Job", name, &json!({"spec": {}, "status": status}));
    let ended = json!({"completionTime": "2026-01-01T00:00:00Z"});
    let objects = [
        pod("failed", "Failed"),
        pod("succeeded", "Succeeded"),
        pod("runs", "Running"),
        job("ended", ended),
        job("failed", json!({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]})),
        job("runs", json!({"active": 1})),
    ];
    let ground = ground(&objects).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), NO_MESSAGES);
    let list = json!({"batch/v1/Job": ["shop/runs(created)"], "v1/Namespace": ["shop(created)"],
        "v1/Pod": ["shop/runs(created)"]});
    assert_eq!(files(&ground).await.1, list);
    assert_eq!(
        ground.writes(),
        ["POST /api/v1/namespaces/shop/pods/runs", "POST /apis/batch/v1/namespaces/shop/jobs/runs"]
    );
}

#[tokio::test]
async fn a_mirror_pod_is_listed_as_skipped() {
    let pod = |name: &str, value: &str| {
        object("v1", "Pod", name, &json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": value}}}))
    };
    let ground = ground(&[pod("mirror", "x"), pod("plain", "")]).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), NO_MESSAGES);
    assert_eq!(files(&ground).await.1["v1/Pod"], json!(["shop/mirror(skipped)", "shop/plain(created)"]));
    assert_eq!(ground.writes(), ["POST /api/v1/namespaces/shop/pods/plain"]);
}

#[tokio::test]
async fn an_object_is_written_in_the_version_and_kind_that_an_action_gives_it() {
    let action = Scripted::new(|mut item, _| {
        item["apiVersion"] = if name(&item) == "old" { "example.com/v1" } else { "example.com/v2" }.into();
        item["kind"] = if name(&item) == "gadget" { "Gadget" } else { "Widget" }.into();
        Ok(RestoreItemOutput::with(item))
    });
    let action = Arc::new(action.scoped(ActionScope::resources(&["widgets.example.com"])));
    let widget = |version: &str, name: &str| object(&format!("example.com/{version}"), "Widget", name, &json!({}));
    let objects = [namespace(), widget("v2", "old"), widget("v1", "new"), widget("v2", "gadget")];
    let ground = RestoreFixture::new(&objects, &action).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), NO_MESSAGES);
    let mut writes = ground.writes();
    writes.sort();
    assert_eq!(
        writes,
        [
            "POST /apis/example.com/v1/namespaces/shop/widgets/old",
            "POST /apis/example.com/v2/namespaces/shop/gadgets/gadget",
            "POST /apis/example.com/v2/namespaces/shop/widgets/new",
        ]
    );
}

#[tokio::test]
async fn an_action_that_skips_its_object_drops_its_additional_items_too() {
    let action = Arc::new(Scripted::new(|item, _| {
        let additional_items = vec![key("configmaps", "z")];
        Ok(match name(&item) {
            "a" => RestoreItemOutput { additional_items, ..RestoreItemOutput::skip() },
            _ => RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) },
        })
    }));
    for (parent, made) in [("a", vec![]), ("b", vec!["z", "b"])] {
        let mut ground = RestoreFixture::new(&[namespace(), config_map(parent), config_map("z")], &action).await;
        let names = format!(
            "namespacedFilterPolicies: [{{namespaces: [shop], resourceFilters: [{{kinds: [configmaps], names: [{parent}]}}]}}]"
        );
        ground.request.settings.resource_policies = document(&names);
        ground.run().await.unwrap();
        assert_eq!(ground.made(), made, "{parent}");
    }
}

#[tokio::test]
async fn only_the_very_name_of_a_namespace_is_mapped() {
    let mut ground = ground(&[config_map("a")]).await;
    let mapping = [("sh*", "x"), ("*", "y"), ("SHOP", "z"), ("shop ", "w")];
    ground.request.restore.spec.namespace_mapping = mapping.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
    ground.run().await.unwrap();
    assert_eq!(ground.writes(), ["POST /api/v1/namespaces/shop/configmaps/a"]);
}

#[tokio::test]
async fn filter_policies_use_the_source_namespace_and_hooks_the_target() {
    for (namespace, made, containers) in [("shop", vec!["a"], json!([])), ("copy", vec!["a", "b"], json!(["h"]))] {
        let pod = object("v1", "Pod", "p", &json!({"spec": {"containers": [{"name": "web"}]}}));
        let mut ground = ground(&[config_map("a"), config_map("b"), pod]).await;
        ground.request.settings.resource_policies = document(&format!(
            "namespacedFilterPolicies: [{{namespaces: [{namespace}], resourceFilters: [{{kinds: [configmaps], names: [a]}}, {{kinds: [pods]}}]}}]"
        ));
        let spec = &mut ground.request.restore.spec;
        spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
        let init = json!({"initContainers": [{"name": "h", "image": "i", "command": ["c"]}]});
        spec.hooks = serde_json::from_value(json!({"resources": [
            {"name": "h", "includedNamespaces": [namespace], "postHooks": [{"init": init}]}]}))
        .unwrap();
        ground.run().await.unwrap();
        let mut found = ground.made();
        found.sort();
        assert_eq!(found, made, "{namespace}");
        let pod = ground.at("/api/v1/namespaces/copy/pods/p").unwrap();
        let names = pod["spec"]["initContainers"].as_array().into_iter().flatten().map(|one| one["name"].clone());
        assert_eq!(Value::from_iter(names), containers, "{namespace}");
    }
}

#[tokio::test]
async fn init_containers_of_hooks_precede_those_of_the_pod_without_old_waits() {
    let container = |name: &str| json!({"name": name, "image": "i", "command": ["c"]});
    for (own, expected) in [
        (vec!["restore-wait", "own"], vec!["h", "own"]),
        (vec!["own", "more"], vec!["h", "own", "more"]),
        (vec!["own", "restore-wait"], vec!["h", "own"]),
    ] {
        let own: Vec<Value> = own.into_iter().map(container).collect();
        let mut ground = ground(&[object("v1", "Pod", "p", &json!({"spec": {"initContainers": own}}))]).await;
        ground.request.restore.spec.hooks = serde_json::from_value(json!({"resources": [
            {"name": "h", "postHooks": [{"init": {"initContainers": [container("h")]}}]}]}))
        .unwrap();
        ground.run().await.unwrap();
        let pod = ground.at("/api/v1/namespaces/shop/pods/p").unwrap();
        let expected: Vec<Value> = expected.into_iter().map(container).collect();
        assert_eq!(pod["spec"]["initContainers"], json!(expected));
    }
}

#[tokio::test]
async fn resource_modifiers_have_the_last_word() {
    let pod = object("v1", "Pod", "p", &json!({"spec": {"containers": [{"name": "web"}]}}));
    let spec = json!({"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"name": "c", "namespace": "shop"}});
    let volume = object("v1", "PersistentVolume", "v", &json!({"metadata": {"namespace": null}, "spec": spec}));
    let claim = object("v1", "PersistentVolumeClaim", "c", &json!({"spec": {"volumeName": "v"}}));
    let mut ground = ground(&[pod, volume, claim]).await;
    let hook = json!({"name": "h", "image": "i", "command": ["c"]});
    ground.request.restore.spec.hooks = serde_json::from_value(json!({"resources": [
        {"name": "h", "postHooks": [{"init": {"initContainers": [hook]}}]}]}))
    .unwrap();
    ground.request.settings.resource_modifiers = rules(
        "- conditions: {groupResource: pods}
  patches: [{operation: replace, path: /spec/initContainers/0/image, value: mirror/i}]
- conditions: {groupResource: persistentvolumeclaims}
  patches: [{operation: add, path: /spec/volumeName, value: v}]
- conditions: {groupResource: persistentvolumes}
  patches: [{operation: remove, path: /spec/nothing}]
",
    );
    let outcome = ground.run().await.unwrap();
    let [_, errors] = messages(&outcome.results);
    assert_eq!(errors, Vec::<String>::new(), "the volume is not made, so no rule is for it");
    let at = |path: &str| ground.at(&format!("/api/v1/namespaces/shop/{path}")).unwrap()["spec"].clone();
    assert_eq!(at("pods/p")["initContainers"][0]["image"], "mirror/i");
    assert_eq!(at("persistentvolumeclaims/c")["volumeName"], "v");
}

#[tokio::test]
async fn no_action_is_asked_about_a_volume_that_is_provisioned_anew() {
    let action = Scripted::new(|item, _| Ok(RestoreItemOutput::with(item)));
    let action = Arc::new(action.scoped(ActionScope::resources(&["persistentvolumes"])));
    let volume = |name: &str, policy: &str| {
        let spec = json!({"persistentVolumeReclaimPolicy": policy});
        object("v1", "PersistentVolume", name, &json!({"metadata": {"namespace": null}, "spec": spec}))
    };
    let ground = RestoreFixture::new(&[volume("anew", "Delete"), volume("as-is", "Retain")], &action).await;
    ground.run().await.unwrap();
    assert_eq!(action.asked(), ["as-is"]);
    assert_eq!(files(&ground).await.1, json!({"v1/PersistentVolume": ["anew(skipped)", "as-is(created)"]}));
}

#[tokio::test]
async fn a_namespace_that_a_resource_modifier_gives_an_object_does_not_count() {
    let mut ground = ground(&[config_map("a")]).await;
    ground.request.settings.resource_modifiers = rules(
        "- conditions: {groupResource: configmaps}
  patches: [{operation: replace, path: /metadata/namespace, value: other}, {operation: replace, path: /data/k, value: new}]
",
    );
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), NO_MESSAGES);
    let object = ground.config_map("a").unwrap();
    assert_eq!((&object["metadata"]["namespace"], &object["data"]["k"]), (&json!("shop"), &json!("new")));
}

#[tokio::test]
async fn namespaces_are_seen_by_no_action_and_no_resource_modifier() {
    let action = Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))).scoped(ActionScope::default());
    let action = Arc::new(action);
    let mut ground = RestoreFixture::new(&[namespace(), config_map("a")], &action).await;
    ground.request.settings.resource_modifiers =
        rules("- {conditions: {groupResource: '**'}, mergePatches: [{patchData: 'metadata: {labels: {by: rule}}'}]}");
    ground.run().await.unwrap();
    assert_eq!(action.asked(), ["a"]);
    assert_eq!(ground.config_map("a").unwrap()["metadata"]["labels"]["by"], "rule");
    assert_eq!(ground.at("/api/v1/namespaces/shop").unwrap()["metadata"].get("labels"), None);
}

#[tokio::test]
async fn a_data_upload_is_left_out_whatever_is_restored_and_the_log_says_why() {
    let upload = json!({"metadata": {"namespace": "velero"}, "status": {"phase": "Completed"}});
    let mut ground = ground(&[object("velero.io/v2alpha1", "DataUpload", "u", &upload), config_map("a")]).await;
    ground.request.restore.spec.included_namespaces = vec!["shop".to_owned()];
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), NO_MESSAGES);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Completed));
    assert_eq!(
        files(&ground).await.1,
        json!({"v1/ConfigMap": ["shop/a(created)"], "v1/Namespace": ["shop(created)"],
            "velero.io/v2alpha1/DataUpload": ["velero/u(skipped)"]})
    );
    let log = ground.env.store.restore_file_bytes("r", RestoreFile::Logs).await.unwrap().unwrap();
    let log = String::from_utf8(lifeboat_archive::gzip::unpack(&log, 1 << 20).unwrap()).unwrap();
    let said = "object=datauploads.velero.io/velero/u reason=\"it stands for data in a repository, which comes back with its claim\"";
    assert!(log.contains(said), "{log}");
}

#[tokio::test]
async fn a_restore_goes_on_when_its_new_types_cannot_be_discovered() {
    let metadata = json!({"namespace": null, "annotations": {well_known::ANNOTATION_RESTORE_STATUS: "true"}});
    let conditions = ["Established", "NamesAccepted"].map(|one| json!({"type": one, "status": "True"}));
    let definition = json!({"metadata": metadata, "status": {"conditions": conditions}});
    let definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", &definition);
    let ground = ground(&[definition, config_map("a"), object("example.com/v2", "Widget", "w", &json!({}))]).await;
    ground.lose_discovery();
    let outcome = ground.run().await.unwrap();
    let [warnings, errors] = messages(&outcome.results);
    let [warning] = warnings.try_into().unwrap();
    assert!(warning.starts_with("refresh discovery after restoring CRDs: "), "{warning}");
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(ground.made(), ["a"]);
    assert!(ground.at("/apis/example.com/v2/namespaces/shop/widgets/w").is_some(), "its type was known before");
}

#[tokio::test]
async fn types_that_discovery_names_late_are_waited_for() {
    let metadata = json!({"namespace": null, "annotations": {well_known::ANNOTATION_RESTORE_STATUS: "true"}});
    let conditions = ["Established", "NamesAccepted"].map(|one| json!({"type": one, "status": "True"}));
    let versions = ["v1", "v2"].map(|name| json!({"name": name, "served": true}));
    let spec = json!({"group": "example.com", "names": {"plural": "widgets"}, "versions": versions});
    let definition = json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}});
    let definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", &definition);
    let ground = ground(&[definition, object("example.com/v2", "Widget", "w", &json!({}))]).await;
    // Not before the definition is made either.
    ground.discover_late(3);
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), NO_MESSAGES);
    assert!(ground.at("/apis/example.com/v2/namespaces/shop/widgets/w").is_some());
}

#[tokio::test]
async fn an_object_is_not_made_without_a_rule_that_cannot_be_applied() {
    let path = "/openapi/v3/api/v1";
    let strategic = "- conditions: {groupResource: configmaps}\n  strategicPatches: [{patchData: 'data: {k: new}'}]\n";
    for (answer, at_first) in
        [((500, "conversion webhook"), Attempt::Later(Obstacle::Passing)), ((403, "Forbidden"), Attempt::FAILED)]
    {
        let action = idle();
        let mut ground = RestoreFixture::new(&[namespace(), config_map("a")], &action).await;
        ground.request.settings.resource_modifiers = rules(strategic);
        ground.answer("GET", path, answer);
        let prepared =
            PreparedRestore::begin(&ground.request, &prepare(&ground.request).unwrap(), &ground.env).await.unwrap();
        let operations = Arc::new(Operations::new(Arc::clone(&prepared.scope.restore), &ground.env.operation));
        let records = Arc::clone(&ground.env.operation.records);
        let (checkpoint, _) = Checkpoint::open(records, "u", prepared.scope.archive.digest(), 0).await;
        let state = new_state(&prepared, operations, None, &checkpoint).unwrap();
        let context = RestoreContext::new(&prepared, Arc::new(state), None);
        let row = prepared.scope.archive.rows().position(|row| &*row.name == "a").unwrap();
        let source = || {
            let body = config_map("a").to_string().into();
            SourceObject { row, key: key("configmaps", "a"), body, exists: false }
        };
        assert_eq!(restore(&context, source(), AttemptNumber::default()).await, at_first);
        let last = AttemptNumber { again: true, last: true, ..AttemptNumber::default() };
        assert_eq!(restore(&context, source(), last).await, Attempt::FAILED);
        let errors = ground.env.operation.journal.close().results.errors;
        let errors: Vec<&str> = errors.messages().collect();
        let expected = "error restoring configmaps/shop/a: it is not made without its resource modifiers, and these cannot be applied: \
                        rule 1: how ConfigMap is merged is not known: ";
        assert!(errors.iter().all(|error| error.starts_with(expected)) && !errors.is_empty(), "{errors:?}");
        assert_eq!((ground.made(), action.asked()), (vec![], vec![]));
    }
}

#[tokio::test]
async fn where_few_are_selected_objects_left_out_by_name_are_not_read() {
    // What reads it refuses the archive.
    let odd = object("v1", "ConfigMap", "odd", &json!({"metadata": {"labels": 5}}));
    let mut ground = ground(&[config_map("a"), odd]).await;
    ground.request.settings.resource_policies = document(
        "namespacedFilterPolicies: [{namespaces: [shop], resourceFilters: [{kinds: [configmaps], names: [a]}]}]",
    );
    assert!(ground.run().await.is_err());
    assert_eq!(ground.made(), Vec::<String>::new());
    ground.request.settings.reads_selected_only = true;
    ground.run_again().await.unwrap();
    assert_eq!(ground.made(), ["a"]);
}

#[tokio::test]
async fn where_few_are_selected_a_claim_goes_by_its_volume_that_is_not() {
    let spec = json!({"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"name": "data", "namespace": "shop"}});
    let volume = object("v1", "PersistentVolume", "disk", &json!({"metadata": {"namespace": null}, "spec": spec}));
    let claim = object("v1", "PersistentVolumeClaim", "data", &json!({"spec": {"volumeName": "disk"}}));
    let mut ground = ground(&[volume, claim]).await;
    ground.request.restore.spec.included_resources = vec!["persistentvolumeclaims".to_owned()];
    ground.request.settings.reads_selected_only = true;
    ground.run().await.unwrap();
    let made = ground.at("/api/v1/namespaces/shop/persistentvolumeclaims/data").unwrap();
    assert_eq!(made["spec"].get("volumeName"), None, "it gets a new volume");
}

#[tokio::test]
async fn pods_of_a_running_job_are_left_to_it_and_their_needs_are_restored() {
    let hook = json!({"metadata": {"annotations": {"init.hook.restore.velero.io/container-image": "x"}}});
    let pod = |name: &str, rest: &Value| {
        let owners = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]);
        let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
        let labels = json!({"app": "j"});
        let mut pod = object(
            "v1",
            "Pod",
            name,
            &json!({"metadata": {"ownerReferences": owners, "labels": labels}, "spec": {"volumes": volumes}}),
        );
        lifeboat_patch::merge(&mut pod, rest);
        pod
    };
    let job = object(
        "batch/v1",
        "Job",
        "j",
        &json!({"metadata": {"uid": "u", "labels": {"app": "j"}}, "spec": {}, "status": {"active": 2}}),
    );
    let claim = object("v1", "PersistentVolumeClaim", "data", &json!({"spec": {}}));
    let mut ground = ground(&[job, pod("j-a", &json!({})), pod("j-b", &json!({})), pod("j-c", &hook), claim]).await;
    ground.request.restore.spec.label_selector = serde_json::from_value(json!({"matchLabels": {"app": "j"}})).unwrap();
    let outcome = ground.run().await.unwrap();
    let told = "2 pods of jobs.batch/shop/j were left out, because the Job has not ended and makes its pods anew: pods/shop/j-a, pods/shop/j-b";
    assert_eq!(messages(&outcome.results)[0], [told]);
    let list = files(&ground).await.1;
    assert_eq!(list["v1/Pod"], json!(["shop/j-a(skipped)", "shop/j-b(skipped)", "shop/j-c(created)"]));
    assert_eq!(list["v1/PersistentVolumeClaim"], json!(["shop/data(created)"]));
    assert_eq!(list["batch/v1/Job"], json!(["shop/j(created)"]));
}
