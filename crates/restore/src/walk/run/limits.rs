//! Objects that an API server refuses as a whole or in part, on whole restores.

use super::tests::{files, messages};
use crate::plan::preview::preview;
use crate::plan::word::PlanWord;
use crate::stub::{RestoreFixture, Scripted, config_map, key, object};
use lifeboat_action::RestoreItemOutput;
use lifeboat_api::{ExistingResourcePolicy, well_known};
use lifeboat_archive::layout::RestoreFile;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A restore of these objects.
async fn ground(objects: &[Value]) -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    RestoreFixture::new(&[&[namespace][..], objects].concat(), &action).await
}

async fn updating(objects: &[Value]) -> RestoreFixture {
    let mut ground = ground(objects).await;
    ground.request.restore.spec.existing_resource_policy = ExistingResourcePolicy::Update;
    ground
}

fn widget(rest: &Value) -> Value {
    object("example.com/v2", "Widget", "w", rest)
}

const WIDGET: &str = "/apis/example.com/v2/namespaces/shop/widgets/w";
const DOOR: &str = "/apis/example.com/v2/namespaces/shop/doors/d";
const MAP: &str = "/api/v1/namespaces/shop/configmaps/a";
const NONE: Vec<String> = Vec::new();

#[tokio::test]
async fn a_long_chain_of_needed_objects_is_made_from_its_end() {
    let name = |number: usize| format!("c{number:03}");
    let action = Scripted::new(move |item, _| {
        let number: usize = item["metadata"]["name"].as_str().unwrap()[1..].parse().unwrap();
        // The last one needs the first: a circle ends where it began.
        let additional_items = vec![key("configmaps", &name((number + 1) % 300))];
        Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
    });
    let mut objects: Vec<Value> = (0..300).map(|number| config_map(&name(number))).collect();
    objects[0]["metadata"]["labels"] = json!({"app": "web"});
    let mut ground = RestoreFixture::new(&objects, &Arc::new(action)).await;
    let labels = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    ground.request.restore.spec.label_selector = Some(labels);
    let outcome = ground.run().await.unwrap();
    let no_messages = (Vec::<&str>::new(), Vec::<&str>::new());
    let results = &outcome.results;
    assert_eq!((results.errors.messages().collect(), results.warnings.messages().collect()), no_messages);
    assert_eq!(ground.made(), (0..300).rev().map(name).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_oversized_object_fails_at_once_unless_it_fits_without_labels() {
    let large = |bytes: usize| widget(&json!({"spec": {"x": "y".repeat(bytes)}}));
    let most = large(2_000).to_string().len();
    let unlabelled = "widgets.example.com/shop/w has not got the labels velero.io/backup-name and velero.io/restore-name: with them it \
                      is larger than the API server takes";
    for (bytes, warnings, is_made) in [(1_000, vec![], true), (2_000, vec![unlabelled], true), (2_001, vec![], false)] {
        let ground = ground(&[large(bytes), config_map("a")]).await;
        ground.take_at_most(most);
        let outcome = ground.run().await.unwrap();
        let [told, errors] = messages(&outcome.results);
        assert_eq!(told, warnings, "{bytes}");
        let expected = if is_made { 0 } else { 1 };
        assert_eq!(errors.len(), expected, "{errors:?}");
        let begins = "error restoring widgets.example.com/shop/w: it is larger than this API server, or etcd behind it, takes, and no later \
                      attempt changes that (etcdserver: request is too large)";
        assert!(errors.iter().all(|error| error.starts_with(begins)), "{errors:?}");
        let labels = ground.at(WIDGET).map(|made| made["metadata"]["labels"].is_object());
        assert_eq!(labels, is_made.then_some(bytes == 1_000), "{bytes}");
        assert!(ground.at(MAP).is_some(), "the others come");
        let attempts = ground.writes().iter().filter(|write| **write == format!("POST {WIDGET}")).count();
        assert_eq!(attempts, if bytes == 1_000 { 1 } else { 2 }, "{bytes}");
    }
}

#[tokio::test]
async fn an_update_that_is_too_large_with_the_labels_goes_without_them() {
    let large = |value: &str| widget(&json!({"spec": {"x": value.repeat(2_000)}}));
    let ground = updating(&[large("y")]).await;
    ground.put(large("z"));
    ground.take_at_most(ground.at(WIDGET).unwrap().to_string().len());
    let outcome = ground.run().await.unwrap();
    let [told, errors] = messages(&outcome.results);
    assert_eq!((told.len(), errors), (1, NONE));
    assert!(told[0].starts_with("widgets.example.com/shop/w has not got the labels"), "{told:?}");
    let now = ground.at(WIDGET).unwrap();
    assert_eq!((&now["spec"], now["metadata"].get("labels")), (&large("y")["spec"], None));
    assert_eq!(files(&ground).await.1["example.com/v2/Widget"], json!(["shop/w(updated)"]));
}

#[tokio::test]
async fn a_status_without_a_subresource_is_restored_with_its_object() {
    let door = |state: &str, metadata: Value| {
        object("example.com/v2", "Door", "d", &json!({"metadata": metadata, "spec": {}, "status": {"state": state}}))
    };
    let unwanted = json!({"annotations": {well_known::ANNOTATION_RESTORE_STATUS: "false"}});
    for (metadata, there, expected, listed) in [
        (json!({}), None, json!("open"), "shop/d(created)"),
        (json!({}), Some("shut"), json!("open"), "shop/d(updated)"),
        (json!({}), Some("open"), json!("open"), "shop/d(skipped)"),
        (unwanted.clone(), None, Value::Null, "shop/d(created)"),
        (unwanted, Some("shut"), json!("shut"), "shop/d(skipped)"),
    ] {
        let ground = updating(&[door("open", metadata.clone())]).await;
        if let Some(there) = there {
            ground.put(door(there, metadata.clone()));
        }
        let outcome = ground.run().await.unwrap();
        assert_eq!(messages(&outcome.results), [NONE, NONE]);
        assert_eq!(ground.at(DOOR).unwrap()["status"]["state"], expected, "{metadata} {there:?}");
        assert_eq!(files(&ground).await.1["example.com/v2/Door"], json!([listed]), "{metadata} {there:?}");
    }
}

#[tokio::test]
async fn a_schedule_is_restored_without_its_history_in_the_old_cluster() {
    let rest = json!({"spec": {"schedule": "@daily"}, "status": {"lastBackup": "2025-01-01T00:00:00Z"}});
    let ground = ground(&[object("velero.io/v1", "Schedule", "nightly", &rest)]).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), [NONE, NONE]);
    let made = ground.at("/apis/velero.io/v1/namespaces/shop/schedules/nightly").unwrap();
    assert_eq!((&made["spec"], made.get("status")), (&rest["spec"], None));
}

#[tokio::test]
async fn an_allocated_service_address_is_dropped_and_a_reserved_one_is_kept() {
    let address = |name: &str, labels: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": name, "labels": labels},
            "spec": {"parentRef": {"resource": "services", "namespace": "shop", "name": "web"}}})
    };
    let allocated = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    let ground = ground(&[address("10.96.0.7", allocated), address("10.96.0.8", json!({}))]).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), [NONE, NONE]);
    let listed = files(&ground).await.1["networking.k8s.io/v1/IPAddress"].clone();
    assert_eq!(listed, json!(["10.96.0.7(skipped)", "10.96.0.8(created)"]));
    let is_there = |name: &str| ground.at(&format!("/apis/networking.k8s.io/v1/ipaddresses/{name}")).is_some();
    assert_eq!(["10.96.0.7", "10.96.0.8"].map(is_there), [false, true]);
}

#[tokio::test]
async fn an_immutable_field_is_left_out_and_the_rest_of_the_update_is_written() {
    let of = |mode: &str, size: u32| widget(&json!({"spec": {"mode": mode, "size": size}}));
    for (there, warnings, expected, listed) in [
        (
            of("b", 1),
            vec![
                "could not update widgets.example.com/shop/w to match the backup: spec.mode cannot be changed (Invalid value: 1: field is \
                 immutable); all the rest is updated",
            ],
            of("b", 2),
            "shop/w(updated)",
        ),
        (
            of("b", 2),
            vec!["could not update widgets.example.com/shop/w to match the backup: Invalid"],
            of("b", 2),
            "shop/w(failed)",
        ),
        (of("a", 1), vec![], of("a", 2), "shop/w(updated)"),
    ] {
        let ground = updating(&[of("a", 2)]).await;
        ground.put(there.clone());
        ground.fix(&["/spec/mode"]);
        let outcome = ground.run().await.unwrap();
        let warnings = warnings.into_iter().map(str::to_owned).collect();
        assert_eq!(messages(&outcome.results), [warnings, NONE], "{there}");
        let now = ground.at(WIDGET).unwrap();
        assert_eq!(now["spec"], expected["spec"], "{there}");
        assert_eq!(
            now["metadata"]["labels"].is_object(),
            listed == "shop/w(updated)",
            "nothing but labels is not written"
        );
        assert_eq!(files(&ground).await.1["example.com/v2/Widget"], json!([listed]), "{there}");
    }
}

#[tokio::test]
async fn of_fields_refused_under_one_name_the_accepted_ones_are_updated() {
    let of = |mode: &str, name: &str, size: u32| widget(&json!({"spec": {"mode": mode, "name": name, "size": size}}));
    let ground = updating(&[of("a", "x", 2)]).await;
    ground.put(of("b", "y", 1));
    ground.fix(&["/spec/mode", "/spec/name"]);
    ground.name_fixed("spec");
    let outcome = ground.run().await.unwrap();
    let told = "could not update widgets.example.com/shop/w to match the backup: spec.mode, spec.name cannot be changed (Invalid value: 1: \
                field is immutable); all the rest is updated";
    assert_eq!(messages(&outcome.results), [vec![told.to_owned()], NONE]);
    assert_eq!(ground.at(WIDGET).unwrap()["spec"], of("b", "y", 2)["spec"]);
}

#[tokio::test]
async fn unchanged_objects_get_the_labels_of_the_restore_only_on_request() {
    for (policy, annotation, expected) in [
        (ExistingResourcePolicy::Update, "true", json!("r")),
        (ExistingResourcePolicy::Update, "false", json!("before")),
        (ExistingResourcePolicy::Unset, "true", json!("before")),
    ] {
        let mut ground = ground(&[config_map("a")]).await;
        let mut there = config_map("a");
        there["metadata"]["labels"] =
            json!({well_known::LABEL_RESTORE_NAME: "before", well_known::LABEL_BACKUP_NAME: "b"});
        ground.put(there);
        ground.request.restore.spec.existing_resource_policy = policy.clone();
        let annotations = &mut ground.request.restore.metadata.annotations;
        annotations.insert(well_known::ANNOTATION_RELABEL.to_owned(), annotation.to_owned());
        let outcome = ground.run().await.unwrap();
        assert_eq!(messages(&outcome.results), [NONE, NONE]);
        assert_eq!(
            ground.at(MAP).unwrap()["metadata"]["labels"][well_known::LABEL_RESTORE_NAME],
            expected,
            "{policy:?}"
        );
        assert_eq!(files(&ground).await.1["v1/ConfigMap"], json!(["shop/a(skipped)"]));
    }
}

#[tokio::test]
async fn objects_that_differ_are_listed_as_failed_and_equal_ones_are_logged() {
    let ground = ground(&[config_map("a"), config_map("b")]).await;
    let mut other = config_map("a");
    other["data"] = json!({"k": "changed"});
    ground.put(other);
    ground.put(config_map("b"));
    let outcome = ground.run().await.unwrap();
    let [told, errors] = messages(&outcome.results);
    assert_eq!((told.len(), errors), (1, NONE), "{told:?}");
    assert_eq!(files(&ground).await.1["v1/ConfigMap"], json!(["shop/a(failed)", "shop/b(skipped)"]));
    let log = ground.env.store.restore_file_bytes("r", RestoreFile::Logs).await.unwrap().unwrap();
    let log = String::from_utf8(lifeboat_archive::gzip::unpack(&log, 1 << 20).unwrap()).unwrap();
    let said =
        |name: &str| log.lines().any(|line| line.contains("same as the backed up version") && line.contains(name));
    assert_eq!((said("configmaps/shop/a"), said("configmaps/shop/b")), (false, true), "{log}");
}

#[tokio::test]
async fn a_plan_that_asks_the_api_server_names_the_fields_that_would_stay() {
    let of = |mode: &str, size: u32| widget(&json!({"spec": {"mode": mode, "size": size}}));
    let mut ground = updating(&[of("a", 2)]).await;
    ground.put(of("b", 1));
    ground.fix(&["/spec/mode"]);
    ground.request.settings.asks_server = true;
    let (sender, mut items) = mpsc::channel(16);
    preview(&ground.request, &ground.env, sender).await.unwrap();
    let mut told = Vec::new();
    while let Some(item) = items.recv().await {
        told.push((item.key.to_string(), item.planned.word(), item.warnings));
    }
    let stays = "spec.mode cannot be changed (Invalid value: 1: field is immutable)".to_owned();
    let expected = ("widgets.example.com/shop/w".to_owned(), PlanWord::Update, vec![stays]);
    assert_eq!(told.last(), Some(&expected), "{told:?}");
    assert_eq!(ground.at(WIDGET).unwrap()["spec"], of("b", 1)["spec"], "nothing is written");
}
