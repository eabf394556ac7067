//! Objects that come along with others, and objects that do not come (velero: pkg/backup/item_collector.go,
//! pkg/backup/itemblock.go).

use crate::ground::{Ground, NAME, open};
use lifeboat_api::{BackupPhase, LabelSelector};
use lifeboat_backup::{Outcome, run};
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn object(kind: &str, name: &str, labels: Value, spec: Value, status: Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels},
        "spec": spec, "status": status})
}

fn claim(name: &str, labels: Value) -> Value {
    let spec = json!({"volumeName": format!("of-{name}"), "storageClassName": "s", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    object("PersistentVolumeClaim", name, labels, spec, json!({"phase": "Bound"}))
}

fn volume(claim: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("of-{claim}"), "uid": format!("of-{claim}")},
        "spec": {"claimRef": {"namespace": "shop", "name": claim}, "hostPath": {"path": "/x"}, "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}}, "status": {"phase": "Bound"}})
}

/// A pod that mounts this claim.
fn pod(name: &str, claim: &str, phase: &str) -> Value {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    let spec = json!({"nodeName": "n", "containers": [{"name": "web", "image": "i"}], "volumes": volumes});
    object("Pod", name, json!({}), spec, json!({"phase": phase}))
}

/// Pods, claims and volumes in the archive.
async fn saved(ground: &Ground) -> Vec<String> {
    let archive = ground.store().open_archive(NAME, &open()).await.unwrap();
    let wanted = ["pods", "persistentvolumeclaims", "persistentvolumes"];
    let rows = archive.rows().filter(|row| wanted.contains(&row.resource.resource.as_str()));
    let names: BTreeSet<String> = rows.map(|row| row.key().to_string()).collect();
    names.into_iter().collect()
}

fn messages(outcome: &Outcome) -> [Vec<String>; 2] {
    let results = &outcome.results;
    [&results.warnings, &results.errors].map(|all| all.messages().map(str::to_owned).collect())
}

#[tokio::test]
async fn the_selector_keeps_out_nothing_that_belongs_to_selected_objects() {
    let ground = Ground::start(&[], Vec::new()).await;
    let group = "velero.io/volume-group";
    for object in [
        claim("selected", json!({"app": "db", group: "g"})),
        claim("grouped", json!({group: "g"})),
        claim("other-group", json!({group: "h"})),
        claim("alone", json!({})),
        volume("selected"),
        volume("grouped"),
        volume("other-group"),
        volume("alone"),
        pod("runs", "selected", "Running"),
        pod("runs-grouped", "grouped", "Running"),
        pod("pending", "selected", "Pending"),
        pod("elsewhere", "alone", "Running"),
    ] {
        ground.put(object).await;
    }
    let mut request = Ground::request();
    request.backup.spec.label_selector =
        Some(LabelSelector { match_labels: [("app".to_owned(), "db".to_owned())].into(), ..LabelSelector::default() });
    let outcome = run(&request, &ground.env(ground.store())).await.unwrap();
    assert_eq!(messages(&outcome)[1], Vec::<String>::new());
    assert_eq!(
        saved(&ground).await,
        [
            "persistentvolumeclaims/shop/grouped",
            "persistentvolumeclaims/shop/selected",
            "persistentvolumes/of-grouped",
            "persistentvolumes/of-selected",
            "pods/shop/runs",
            "pods/shop/runs-grouped",
        ]
    );
}

#[tokio::test]
async fn a_related_object_that_cannot_be_read_is_an_error_and_the_rest_is_saved() {
    let ground = Ground::start(&["settings"], Vec::new()).await;
    for object in [claim("a", json!({})), claim("b", json!({})), volume("b"), pod("p", "a", "Running")] {
        ground.put(object).await;
    }
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "not yours"});
    let refused = Fault::Answer { status: 403, headers: Vec::new(), body: body.to_string() };
    ground.proxy.script(vec![Rule::new("GET", "/api/v1/persistentvolumes/of-a", Nth::Every, refused)]);
    let mut request = Ground::request();
    // Volumes are not listed then, only fetched with their claims.
    request.backup.spec.included_namespaces = vec!["shop".to_owned()];
    let outcome = run(&request, &ground.env(ground.store())).await.unwrap();
    let [_, errors] = messages(&outcome);
    // What cannot go without it fails with it.
    let expected = [
        " resource: /persistentvolumes name: /of-a message: /Error getting related items error: /cannot get persistentvolumes/of-a: \
         not yours",
        " resource: /persistentvolumeclaims name: /a message: /Error backing up item error: /persistentvolumes/of-a, which \
         velero.io/pv saves with it, failed",
        " resource: /pods name: /p message: /Error backing up item error: /persistentvolumeclaims/shop/a, which velero.io/pod saves \
         with it, failed",
    ];
    assert_eq!(errors, expected);
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::PartiallyFailed));
    assert_eq!(saved(&ground).await, ["persistentvolumeclaims/shop/b", "persistentvolumes/of-b"]);
    assert_eq!(ground.saved().await.len(), 1);
}

#[tokio::test]
async fn an_object_in_the_ordered_resources_that_is_not_there_is_one_warning() {
    let ground = Ground::start(&["settings"], Vec::new()).await;
    ground.put(claim("a", json!({}))).await;
    ground.put(volume("a")).await;
    ground.put(pod("p", "a", "Running")).await;
    let mut request = Ground::request();
    request.backup.spec.ordered_resources = [("pods".to_owned(), "shop/none, shop/p".to_owned())].into();
    let outcome = run(&request, &ground.env(ground.store())).await.unwrap();
    let [warnings, errors] = messages(&outcome);
    let about_order: Vec<&String> = warnings.iter().filter(|text| text.contains("ordered resources")).collect();
    let expected =
        " resource: /pods name: /none message: /an object named in the ordered resources is not in the backup";
    assert!(about_order.len() == 1 && about_order[0].starts_with(expected), "{warnings:?}");
    assert_eq!(errors, Vec::<String>::new());
}
