//! Whole restores with a scripted action.

use super::claimed;
use crate::end::claim::owner_of_files;
use crate::end::finalize::finalize;
use crate::end::look_after::look_after_operations;
use crate::end::outcome::RestoreError;
use crate::stub::{RestoreFixture, Scripted, backup, config_map, key, object};
use lifeboat_action::{ActionError, ActionScope, OperationProgress, RestoreItemOutput};
use lifeboat_api::{RestorePhase, well_known};
use lifeboat_archive::layout::{RestoreFile, restore_claim_key};
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_object::Results;
use lifeboat_store::{RestoreOwner, Store, StoreError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
}

pub(super) fn name(item: &Value) -> &str {
    item["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn messages(results: &Results) -> [Vec<String>; 2] {
    [&results.warnings, &results.errors].map(|all| all.messages().map(str::to_owned).collect())
}

/// A backup of a, b and c.
async fn ground(action: &Arc<Scripted>) -> RestoreFixture {
    RestoreFixture::new(&objects(), action).await
}

fn objects() -> [Value; 4] {
    [namespace(), config_map("a"), config_map("b"), config_map("c")]
}

/// The operations file of the restore, and its resource list.
pub(super) async fn files(ground: &RestoreFixture) -> (Value, Value) {
    let store = &ground.env.store;
    let operations = store.restore_file("r", RestoreFile::ItemOperations).await.unwrap();
    let list = store.restore_file("r", RestoreFile::ResourceList).await.unwrap();
    (operations.unwrap(), list.unwrap())
}

#[tokio::test]
async fn an_action_that_fails_costs_its_object_only() {
    let action = Arc::new(Scripted::new(|item, _| match name(&item) {
        "a" => Err(ActionError::item("odd")),
        "b" => panic!("oh"),
        _ => Ok(RestoreItemOutput::with(item)),
    }));
    let ground = ground(&action).await;
    let outcome = ground.run().await.unwrap();
    let said = |name: &str, why: &str| {
        format!("error preparing configmaps/shop/{name}: the action test/scripted failed: {why}")
    };
    let [warnings, mut errors] = messages(&outcome.results);
    errors.sort();
    assert_eq!((warnings, errors), (vec![], vec![said("a", "odd"), said("b", "it panicked: oh")]));
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::PartiallyFailed));
    let listed = ["shop/a(failed)", "shop/b(failed)", "shop/c(created)"];
    assert_eq!(files(&ground).await, (json!([]), json!({"v1/ConfigMap": listed, "v1/Namespace": ["shop(created)"]})));
}

/// As after a wipe of the cluster: the checkpoint says what was done.
#[tokio::test]
async fn a_restore_taken_up_in_a_remade_namespace_makes_its_objects_again() {
    let breaks_off = |item: Value, before| match before {
        0 => Err(ActionError::fatal("no licence")),
        _ => Ok(RestoreItemOutput::with(item)),
    };
    let action = Arc::new(Scripted::new(breaks_off).scoped(ActionScope::resources(&["services"])));
    let service = object("v1", "Service", "s", &json!({"spec": {}}));
    let mut ground = RestoreFixture::new(&[namespace(), config_map("a"), service], &action).await;
    ground.request.settings.priorities = "namespaces,configmaps,services".parse().unwrap();
    assert!(ground.run().await.unwrap().broken_off.is_some());
    ground.remove("/api/v1/namespaces/shop/configmaps/a");
    ground.run_again().await.unwrap();
    assert_eq!(ground.made(), ["a"], "what was restored and deleted since stays away");
    ground.remove("/api/v1/namespaces/shop");
    ground.put(namespace());
    ground.run_again().await.unwrap();
    assert_eq!(ground.made(), ["a", "a"]);
}

#[tokio::test]
async fn a_fatal_action_error_ends_the_restore_which_can_be_resumed() {
    let action = Arc::new(Scripted::new(|item, before| match (name(&item), before) {
        ("a", 0) => Err(ActionError::fatal("no licence")),
        _ => Ok(RestoreItemOutput::with(item)),
    }));
    let mut ground = ground(&action).await;
    ground.request.settings.priorities = "namespaces,configmaps".parse().unwrap();
    let outcome = ground.run().await.unwrap();
    let why =
        "the action test/scripted says that none of its calls can succeed, asked about configmaps/shop/a: no licence";
    assert_eq!(outcome.broken_off.map(|why| (why.to_string(), why.can_pass())), Some((why.to_owned(), false)));
    let [_, errors] = messages(&outcome.results);
    let left = outcome.restore.status.progress.map(|progress| progress.total_items - progress.items_restored).unwrap();
    let objects = if left == 1 { "1 object was".to_owned() } else { format!("{left} objects were") };
    assert!(errors.contains(&format!("the restore broke off, because {why}; {objects} not looked at")), "{errors:?}");
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::PartiallyFailed));
    let (_, list) = files(&ground).await;
    assert!(list["v1/ConfigMap"].as_array().unwrap().contains(&json!("shop/a(failed)")), "{list}");
    assert_eq!(list["v1/Namespace"], json!(["shop(created)"]));

    let outcome = ground.run_again().await.unwrap();
    assert_eq!(messages(&outcome.results), [vec![], vec![] as Vec<String>]);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Completed));
    let (_, list) = files(&ground).await;
    assert_eq!(list["v1/ConfigMap"], json!(["shop/a(created)", "shop/b(created)", "shop/c(created)"]));
}

#[tokio::test]
async fn objects_of_a_namespace_that_was_deleted_since_are_restored_again() {
    for is_made_again in [false, true] {
        // It breaks off at the last object.
        let action = Arc::new(Scripted::new(|item, before| match (name(&item), before) {
            ("c", 0) => Err(ActionError::fatal("no licence")),
            _ => Ok(RestoreItemOutput::with(item)),
        }));
        let mut ground = ground(&action).await;
        ground.request.settings.priorities = "namespaces,configmaps".parse().unwrap();
        assert!(ground.run().await.unwrap().broken_off.is_some());
        assert_eq!(ground.made(), ["a", "b"]);
        if is_made_again {
            ground.remove("/api/v1/namespaces/shop");
            ground.put(namespace());
        } else {
            ground.remove("/api/v1/namespaces/shop/configmaps/a");
        }
        let outcome = ground.run_again().await.unwrap();
        assert_eq!(messages(&outcome.results), [vec![], vec![] as Vec<String>]);
        assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Completed));
        let there = ["a", "b", "c"].map(|name| ground.config_map(name).is_some());
        // What somebody has deleted out of the same namespace stays deleted.
        assert_eq!(there, [is_made_again, true, true], "{is_made_again}");
        let (_, list) = files(&ground).await;
        assert_eq!(list["v1/ConfigMap"], json!(["shop/a(created)", "shop/b(created)", "shop/c(created)"]));
    }
}

#[tokio::test]
async fn an_operation_is_listed_and_waited_for_also_when_its_object_is_left_out() {
    let action = Arc::new(Scripted::new(|item, _| {
        let operation_id = format!("op-{}", name(&item));
        Ok(match name(&item) {
            "a" => RestoreItemOutput { operation_id, ..RestoreItemOutput::skip() },
            "b" => RestoreItemOutput { operation_id, ..RestoreItemOutput::with(item) },
            _ => RestoreItemOutput::with(item),
        })
    }));
    let mut ground = ground(&action).await;
    ground.request.restore.spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
    let outcome = ground.run().await.unwrap();
    let operation = |name: &str| {
        json!({"spec": {"restoreName": "r", "restoreUID": "u", "restoreItemAction": "test/scripted",
            "resourceIdentifier": {"Group": "", "Resource": "configmaps", "Namespace": "copy", "Name": name},
            "operationID": format!("op-{name}")}, "status": {"phase": "New", "created": "2026-01-01T00:00:00Z"}})
    };
    let list = json!({"v1/ConfigMap": ["copy/a(skipped)", "copy/b(created)", "copy/c(created)"],
        "v1/Namespace": ["copy(created)"]});
    assert_eq!(files(&ground).await, (json!([operation("a"), operation("b")]), list.clone()));
    assert_eq!(messages(&outcome.results), [vec![], vec![] as Vec<String>]);
    let status = &outcome.restore.status;
    let attempted = (status.phase, status.restore_item_operations_attempted, status.completion_timestamp);
    assert_eq!(attempted, (Some(RestorePhase::WaitingForPluginOperations), 2, None));

    // As after a crash, before the checkpoint and after the notes.
    let keep = ["checkpoint".to_owned()].map(|key| (key, None));
    ground.env.operation.records.write(keep.into()).await.unwrap();
    let outcome = ground.run_again().await.unwrap();
    assert_eq!(files(&ground).await.0, json!([operation("a"), operation("b")]));
    assert!(outcome.is_pending());
}

#[tokio::test]
async fn a_restore_ends_when_its_operations_have() {
    let action = Arc::new(
        Scripted::new(|item, _| {
            let operation_id = name(&item).to_owned();
            Ok(RestoreItemOutput { operation_id, ..RestoreItemOutput::with(item) })
        })
        .progressing(|id, before| match (id, before) {
            ("a", _) => Ok(OperationProgress { completed: true, error: "no space".to_owned(), ..Default::default() }),
            ("b", 0) => Err(ActionError::passing("busy")),
            ("b", 1) => Ok(OperationProgress::default()),
            _ => Ok(OperationProgress { completed: true, ..OperationProgress::default() }),
        }),
    );
    let mut ground = ground(&action).await;
    let mut restore = ground.run().await.unwrap().restore;
    let mut phases = Vec::new();
    for _ in 0..3 {
        restore = look_after_operations(restore, &ground.env).await.unwrap();
        phases.push(restore.status.phase.unwrap());
    }
    let waiting = RestorePhase::WaitingForPluginOperationsPartiallyFailed;
    assert_eq!(phases, [waiting, waiting, RestorePhase::FinalizingPartiallyFailed]);
    let again = look_after_operations(restore.clone(), &ground.env).await.unwrap();
    assert_eq!(again, restore, "operations that have ended are not asked again");
    for _ in 0..2 {
        // Cut off before its end was noted, it is done again.
        ground.renew();
        let ended = finalize(restore.clone(), Duration::ZERO, &ground.env).await.unwrap();
        let status = &ended.status;
        assert_eq!((status.phase, status.errors), (Some(RestorePhase::PartiallyFailed), 1));
        let counts = (status.restore_item_operations_completed, status.restore_item_operations_failed);
        assert_eq!((counts, status.completion_timestamp.is_some()), ((2, 1), true));
        let results: Results = ground.env.store.restore_file("r", RestoreFile::Results).await.unwrap().unwrap();
        let why = "the operation a that the action test/scripted has begun for configmaps/shop/a has failed: no space";
        assert_eq!(messages(&results), [vec![], vec![why.to_owned()]]);
        let log = ground.env.store.restore_file_bytes("r", RestoreFile::Logs).await.unwrap().unwrap();
        let log = String::from_utf8(lifeboat_archive::gzip::unpack(&log, 1 << 20).unwrap()).unwrap();
        assert!(log.contains("restore completed") && log.contains(why), "{log}");
    }
}

#[tokio::test]
async fn operations_of_a_cancelled_restore_are_told_to_end() {
    let action = Arc::new(Scripted::new(|item, _| {
        let operation_id = name(&item).to_owned();
        Ok(RestoreItemOutput { operation_id, ..RestoreItemOutput::with(item) })
    }));
    let ground = RestoreFixture::new(&[namespace(), config_map("a")], &action).await;
    let mut restore = ground.run().await.unwrap().restore;
    restore.spec.cancel = true;
    let ended = look_after_operations(restore, &ground.env).await.unwrap();
    assert_eq!(ended.status.phase, Some(RestorePhase::FinalizingPartiallyFailed));
    assert_eq!(action.cancelled(), ["a"]);
    assert_eq!(files(&ground).await.0[0]["status"]["error"], "cancelled on request");
}

#[tokio::test]
async fn an_impure_action_runs_once_for_an_object_that_is_tried_again() {
    let action = Arc::new(Scripted::new(|item, before| {
        let operation_id = format!("op-{before}");
        Ok(RestoreItemOutput { operation_id, ..RestoreItemOutput::with(item) })
    }));
    let ground = RestoreFixture::new(&[namespace(), config_map("a")], &action).await;
    ground.refuse("a", 2);
    ground.run().await.unwrap();
    assert_eq!((action.asked(), ground.made()), (vec!["a".to_owned()], vec!["a".to_owned()]));
}

#[tokio::test]
async fn additional_items_pass_filters_on_request_and_missing_ones_are_warnings() {
    for (must_include, made) in [(None, vec!["a"]), (Some("true"), vec!["b", "a"]), (Some("false"), vec!["a"])] {
        let action = Arc::new(Scripted::new(move |mut item, _| {
            let additional_items = match name(&item) {
                "a" => vec![key("configmaps", "none"), other("b")],
                // Not inherited.
                "b" => vec![other("c")],
                _ => Vec::new(),
            };
            if let Some(value) = must_include.filter(|_| name(&item) == "a") {
                item["metadata"]["annotations"][well_known::ANNOTATION_RESTORE_MUST_INCLUDE] = value.into();
            }
            Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
        }));
        let elsewhere = |name: &str| {
            let mut object = config_map(name);
            object["metadata"]["namespace"] = "other".into();
            object
        };
        let mut ground =
            RestoreFixture::new(&[namespace(), config_map("a"), elsewhere("b"), elsewhere("c")], &action).await;
        ground.request.restore.spec.included_namespaces = vec!["shop".to_owned()];
        let outcome = ground.run().await.unwrap();
        let missing = "configmaps/shop/none, which configmaps/shop/a needs, is not in the backup".to_owned();
        assert_eq!(messages(&outcome.results), [vec![missing], vec![]], "{must_include:?}");
        assert_eq!(ground.made(), made, "{must_include:?}");
        assert_eq!(ground.config_map("a").unwrap()["metadata"].get("annotations"), None, "{must_include:?}");
    }
}

fn other(name: &str) -> lifeboat_object::ObjectKey {
    lifeboat_object::ObjectKey { namespace: Some("other".to_owned()), ..key("configmaps", name) }
}

#[tokio::test]
async fn an_object_waits_for_additional_items_and_is_restored_in_any_case() {
    let late = "additional items for configmaps/copy/a are not ready to use: the action test/scripted has not said so within 1 s; \
                the object is restored all the same";
    let error = "error verifying additional items are ready to use: the action test/scripted failed: odd";
    for (ready, seconds, said) in [
        (vec![Ok(true)], 600, vec![]),
        (vec![Ok(false), Ok(true)], 600, vec![]),
        (vec![Ok(false)], 1, vec![late.to_owned()]),
        (vec![Err(ActionError::item("odd"))], 600, vec![error.to_owned()]),
    ] {
        let action = Arc::new(Scripted::ready(ready.clone()).executing(|item, _| {
            let is_parent = name(&item) == "a";
            let additional_items =
                if is_parent { vec![key("configmaps", "z"), key("configmaps", "none")] } else { vec![] };
            let wait_for_additional_items = is_parent.then_some(Duration::ZERO);
            Ok(RestoreItemOutput { additional_items, wait_for_additional_items, ..RestoreItemOutput::with(item) })
        }));
        let mut ground = RestoreFixture::new(&[namespace(), config_map("a"), config_map("z")], &action).await;
        ground.request.settings.resource_timeout = lifeboat_api::Duration::from_secs(seconds);
        ground.request.restore.spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
        let outcome = ground.run().await.unwrap();
        let there = lifeboat_object::ObjectKey { namespace: Some("copy".to_owned()), ..key("configmaps", "z") };
        let [warnings, errors] = messages(&outcome.results);
        let items = action.items();
        assert!(!items.is_empty() && items.iter().all(|items| *items == [there.clone()]), "{items:?} {ready:?}");
        assert_eq!((warnings.len(), errors), (1, said), "{warnings:?}");
        assert_eq!(files(&ground).await.1["v1/ConfigMap"], json!(["copy/a(created)", "copy/z(created)"]));
    }
}

#[tokio::test]
async fn objects_that_wait_for_others_keep_no_place_from_those_that_can_go_on() {
    // More of them than there are places, and they wait for the last of the level.
    let names: Vec<String> = (0..200).map(|n| format!("w{n:03}")).collect();
    let action = Arc::new(Scripted::ready(Vec::new()).until("z").executing(|item, _| {
        let waits = name(&item).starts_with('w');
        let wait_for_additional_items = waits.then_some(Duration::from_secs(60));
        Ok(RestoreItemOutput { wait_for_additional_items, ..RestoreItemOutput::with(item) })
    }));
    let objects: Vec<Value> = names.iter().map(|name| config_map(name)).chain([namespace(), config_map("z")]).collect();
    let ground = RestoreFixture::new(&objects, &action).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), [vec![], vec![] as Vec<String>]);
    assert_eq!((ground.made().len(), ground.made()[0].as_str()), (201, "z"));
}

#[tokio::test]
async fn a_restore_whose_name_was_taken_meanwhile_ends_with_its_outcome() {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    for damage in [false, true] {
        let (mut ground, bucket) = (ground(&action).await, Arc::new(Memory::default()));
        ground.env.store = backup(Store::new(bucket.clone()), &objects()).await;
        let (restore, settings) = (&ground.request.restore, &ground.request.settings);
        let now = (ground.env.operation.clock)();
        let owner = owner_of_files(restore, settings, "this".into(), now);
        let other = RestoreOwner { cluster_uid: "that".into(), uid: "v".into(), ..owner.clone() };
        ground.env.store.claim_restore(&other, now).await.unwrap();
        if damage {
            let key = restore_claim_key("r");
            bucket.put(&key, b"{".to_vec().into(), PutOptions::default()).await.unwrap();
        }
        let outcome = claimed(&ground.request, restore.clone(), &owner, &ground.env).await.unwrap();
        let why = if damage { "is not known" } else { "of cluster that, restore UID v" };
        let [_, errors] = messages(&outcome.results);
        assert!(errors.len() == 1 && errors[0].contains(why), "{errors:?}");
        assert_eq!(outcome.unstored, errors);
        let status = &outcome.restore.status;
        assert_eq!((status.phase, status.errors), (Some(RestorePhase::PartiallyFailed), 1));
        assert!(status.failure_reason.contains(why) && status.start_timestamp == restore.status.start_timestamp);
        assert_eq!(status.progress.as_ref().map(|progress| progress.items_restored), Some(4));
        for file in [RestoreFile::Results, RestoreFile::Logs, RestoreFile::ResourceList] {
            let stored = bucket.head(&file.key("r")).await;
            assert!(stored.is_err_and(|e| e.is_not_found()), "{file:?}");
        }
    }
}

#[tokio::test]
async fn a_fast_clock_takes_no_name_of_another_restore() {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    for is_ahead in [false, true] {
        let mut ground = ground(&action).await;
        let now = (ground.env.operation.clock)();
        let owner = owner_of_files(&ground.request.restore, &ground.request.settings, "that".into(), now);
        ground.env.store.claim_restore(&RestoreOwner { uid: "v".into(), ..owner }, now).await.unwrap();
        if is_ahead {
            ground.env.operation.clock = Arc::new(|| "2036-01-01T00:00:00Z".parse().unwrap());
        }
        let refused = ground.run().await;
        let is_refused = matches!(refused, Err(RestoreError::Store(StoreError::RestoreNameTaken { .. })));
        assert!(is_refused, "{refused:?}");
        assert!(ground.made().is_empty());
    }
}

#[tokio::test]
async fn a_failed_restore_whose_name_is_taken_has_its_counts() {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let ground = ground(&action).await;
    let (restore, settings) = (&ground.request.restore, &ground.request.settings);
    let now = (ground.env.operation.clock)();
    let owner = owner_of_files(restore, settings, "that".into(), now);
    ground.env.store.claim_restore(&RestoreOwner { uid: "v".into(), ..owner }, now).await.unwrap();
    let recorded = crate::record_failure(restore.clone(), settings, &ground.env).await.unwrap();
    assert_eq!(recorded.status.errors, 1);
}
