//! Whole restores of objects that own each other.

use crate::stub::{RestoreFixture, Scripted, config_map};
use lifeboat_action::RestoreItemOutput;
use lifeboat_api::RestorePhase;
use serde_json::{Value, json};
use std::sync::Arc;

fn reference(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": false})
}

/// A ConfigMap that others owned when it was saved.
fn owned(name: &str, owners: &[Value]) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = owners.into();
    object
}

/// A backup in which b and c are owned by z, and d by what is not there; a restore that gives owners back.
async fn ground() -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let z = [reference("z", "then")];
    let mut unserved = reference("big", "then");
    unserved["kind"] = "Widget".into();
    let lost = owned("d", &[reference("nobody", "then"), unserved, reference("d", "then")]);
    let objects = [namespace, config_map("a"), owned("b", &z), owned("c", &z), lost, config_map("z")];
    let mut ground = RestoreFixture::new(&objects, &action).await;
    ground.request.restore.spec.restore_owner_references = true;
    ground
}

/// The owner references of ConfigMaps of the cluster.
fn owners<const N: usize>(ground: &RestoreFixture, names: [&str; N]) -> [Value; N] {
    names.map(|name| ground.config_map(name).unwrap()["metadata"]["ownerReferences"].clone())
}

const LOST: &str = "configmaps/shop/d was not given all owners that it had in the backup: ConfigMap nobody is not in the \
                    cluster; the cluster does not serve the type of Widget big; ConfigMap d cannot own itself";

fn patch(name: &str, revision: &str) -> Value {
    json!({"metadata": {"uid": format!("uid-of-{name}"), "resourceVersion": revision, "ownerReferences": [reference("z", "uid-of-z")]}})
}

fn sorted(mut patches: Vec<Value>) -> Vec<Value> {
    patches.sort_by_key(Value::to_string);
    patches
}

#[tokio::test]
async fn objects_are_given_owners_that_come_after_them() {
    let ground = ground().await;
    let outcome = ground.run().await.unwrap();
    let z = json!([reference("z", "uid-of-z")]);
    assert_eq!(owners(&ground, ["a", "b", "c", "d", "z"]), [json!(null), z.clone(), z, json!(null), json!(null)]);
    assert_eq!(sorted(ground.patches()), [patch("b", "1"), patch("c", "1")]);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Completed));
    assert_eq!(outcome.results.warnings.messages().collect::<Vec<_>>(), [LOST]);
}

#[tokio::test]
async fn nothing_is_given_back_that_nobody_asked_for() {
    let mut ground = ground().await;
    ground.request.restore.spec.restore_owner_references = false;
    let outcome = ground.run().await.unwrap();
    assert_eq!((ground.patches(), outcome.results.warnings.messages().count()), (vec![], 0));
}

#[tokio::test]
async fn a_run_again_gives_back_what_an_earlier_one_did_not_come_to() {
    let mut ground = ground().await;
    ground.run().await.unwrap();
    let before = ground.patches().len();
    // As if it had been killed between the two.
    ground.change("c", |object| {
        object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    });
    let outcome = ground.run_again().await.unwrap();
    assert_eq!(ground.patches()[before..], [patch("c", "2")]);
    assert_eq!(outcome.results.warnings.messages().collect::<Vec<_>>(), [LOST]);
    ground.run_again().await.unwrap();
    assert_eq!(ground.patches().len(), before + 1, "what has its owners is not written again");
}

#[tokio::test]
async fn what_was_there_before_is_left_as_it_is() {
    let mut ground = ground().await;
    let mut there = config_map("b");
    there["metadata"]["uid"] = "another".into();
    ground.change("b", |object| *object = there.clone());
    ground.change("z", |object| {
        *object = config_map("z");
        object["metadata"]["uid"] = "living".into();
    });
    ground.run().await.unwrap();
    assert_eq!(
        owners(&ground, ["b", "c"]),
        [json!(null), json!([reference("z", "living")])],
        "an owner that lives counts"
    );
    // Also when it is not known what an earlier run has done.
    ground.run_again().await.unwrap();
    assert_eq!(ground.config_map("b"), Some(there));
}

#[tokio::test]
async fn changed_objects_are_read_again_and_a_final_refusal_is_an_error() {
    let ground = ground().await;
    ground.refuse_patches("b", 3, (409, "Conflict"));
    ground.refuse_patches("c", 1, (403, "Forbidden"));
    let outcome = ground.run().await.unwrap();
    assert_eq!(owners(&ground, ["b", "c"]), [json!([reference("z", "uid-of-z")]), json!(null)]);
    let errors: Vec<&str> = outcome.results.errors.messages().collect();
    assert_eq!(errors, ["error restoring the owners of configmaps/shop/c: cannot patch configmaps/shop/c: Forbidden"]);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::PartiallyFailed));
}

#[tokio::test]
async fn an_owner_that_is_being_deleted_is_none_and_what_is_gone_is_told() {
    let mut ground = ground().await;
    ground.request.settings.terminating_resource_timeout = lifeboat_api::Duration::from_secs(0);
    ground.change("z", |object| {
        *object = config_map("z");
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    let outcome = ground.run().await.unwrap();
    assert_eq!(owners(&ground, ["b", "c"]), [json!(null), json!(null)]);
    let was_not = |name: &str, why: &str| {
        format!("configmaps/shop/{name} was not given all owners that it had in the backup: {why}")
    };
    let mut warnings: Vec<&str> =
        outcome.results.warnings.messages().filter(|text| !text.contains("shop/z:")).collect();
    warnings.sort_unstable();
    let terminating = ["b", "c"].map(|name| was_not(name, "ConfigMap z is being deleted"));
    assert_eq!(warnings, [terminating[0].as_str(), terminating[1].as_str(), LOST]);
}

#[tokio::test]
async fn what_is_gone_meanwhile_is_told() {
    let ground = ground().await;
    ground.refuse_patches("c", 1, (404, "NotFound"));
    let outcome = ground.run().await.unwrap();
    let why = "it is not there any more, or it is being deleted";
    let gone = format!("configmaps/shop/c was not given all owners that it had in the backup: {why}");
    let mut warnings: Vec<&str> = outcome.results.warnings.messages().collect();
    warnings.sort_unstable();
    assert_eq!((warnings, ground.config_map("c")), (vec![gone.as_str(), LOST], None));
}
