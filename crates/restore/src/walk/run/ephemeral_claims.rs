//! The claims of generic ephemeral volumes, on whole restores.

use super::repository_data::{RESTORES, pod, saved, served};
use super::tests::messages;
use crate::stub::{RestoreFixture, Scripted, object};
use lifeboat_action::RestoreItemOutput;
use lifeboat_archive::layout::BackupFile;
use serde_json::{Value, json};
use std::sync::Arc;

const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/web-scratch";
const POD: &str = "/api/v1/namespaces/shop/pods/web";

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
}

/// The pod shop/web with an ephemeral volume.
fn web() -> Value {
    pod("web", &json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]))
}

fn claim() -> Value {
    let metadata = json!({"ownerReferences": [owner("then")]});
    object(
        "v1",
        "PersistentVolumeClaim",
        "web-scratch",
        &json!({"metadata": metadata, "spec": {"storageClassName": "fast"}}),
    )
}

/// A reference to the pod with this UID.
fn owner(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

/// The warning of the pod about its claim.
fn not_given(why: &str) -> String {
    format!(
        "pods/shop/web may not start: its claim web-scratch could not be given to it: {why}; make the pod its controller \
         (metadata.ownerReferences), or delete both and make another Restore"
    )
}

async fn ground(objects: &[Value]) -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    RestoreFixture::new(objects, &action).await
}

/// The owner references of the claim in the cluster.
fn owners(ground: &RestoreFixture) -> Value {
    ground.at(CLAIM).unwrap()["metadata"]["ownerReferences"].take()
}

#[tokio::test]
async fn a_restored_claim_is_given_to_its_pod() {
    let ground = ground(&[namespace(), web(), claim()]).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), [Vec::<String>::new(), vec![]]);
    assert_eq!(ground.writes(), [format!("POST {CLAIM}"), format!("POST {POD}"), format!("PATCH {CLAIM}")]);
    let metadata = json!({"uid": "uid-of-web-scratch", "ownerReferences": [owner("uid-of-web")]});
    assert_eq!(ground.patches(), [json!({ "metadata": metadata })]);
    assert_eq!(owners(&ground), json!([owner("uid-of-web")]));
}

#[tokio::test]
async fn a_restored_claim_is_given_to_a_pod_that_is_there() {
    let ground = ground(&[namespace(), web(), claim()]).await;
    ground.put(namespace());
    ground.put(web());
    ground.run().await.unwrap();
    assert_eq!(owners(&ground), json!([owner(ground.at(POD).unwrap()["metadata"]["uid"].as_str().unwrap())]));
}

/// The warning of the claim that its pod is not restored.
const ORPHAN: &str = "persistentvolumeclaims/shop/web-scratch is the claim of a generic ephemeral volume of the pod web, which this \
    restore does not create. The claim has no owner, so it is not deleted with a pod, and Kubernetes does not start a new pod named web \
    while it exists. Copy what you need from it, then delete it";

#[tokio::test]
async fn a_claim_without_its_pod_stays_without_an_owner_and_is_told() {
    let mut finished = web();
    finished["status"] = json!({"phase": "Succeeded"});
    let mut of_job = web();
    of_job["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job", "controller": true}]);
    let job = object("batch/v1", "Job", "j", &json!({"metadata": {"uid": "job"}, "spec": {}}));
    for (objects, excluded) in [
        (vec![namespace(), web(), claim()], vec!["pods".to_owned()]),
        (vec![namespace(), claim()], vec![]),
        (vec![namespace(), finished, claim()], vec![]),
        (vec![namespace(), of_job, job, claim()], vec![]),
    ] {
        let mut ground = ground(&objects).await;
        ground.request.restore.spec.excluded_resources = excluded;
        let outcome = ground.run().await.unwrap();
        assert_eq!((ground.at(POD), owners(&ground), ground.patches()), (None, Value::Null, vec![]));
        let [warnings, errors] = messages(&outcome.results);
        assert!(warnings.contains(&ORPHAN.to_owned()), "{warnings:?}");
        assert_eq!(errors, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_claim_that_the_restore_has_not_made_is_left_as_it_is() {
    for owners_before in [json!([owner("another")]), json!([])] {
        let ground = ground(&[namespace(), web(), claim()]).await;
        let mut there = claim();
        there["metadata"]["ownerReferences"] = owners_before.clone();
        ground.put(namespace());
        ground.put(there);
        let outcome = ground.run().await.unwrap();
        assert_eq!((owners(&ground), ground.patches()), (owners_before, vec![]));
        assert!(ground.at(POD).is_some());
        let [warnings, _] = messages(&outcome.results);
        assert!(warnings.contains(&not_given("it was in the cluster before this restore")), "{warnings:?}");
    }
}

#[tokio::test]
async fn a_claim_that_cannot_be_given_is_a_warning_and_a_run_again_gives_it() {
    let mut ground = ground(&[namespace(), web(), claim()]).await;
    ground.refuse_patches("web-scratch", 1, (403, "Forbidden"));
    let outcome = ground.run().await.unwrap();
    let warning = not_given("cannot patch persistentvolumeclaims/shop/web-scratch: Forbidden");
    assert_eq!(messages(&outcome.results), [vec![warning], vec![]]);
    assert_eq!(owners(&ground), Value::Null);
    ground.run_again().await.unwrap();
    assert_eq!(owners(&ground), json!([owner("uid-of-web")]));
}

#[tokio::test]
async fn files_come_into_an_ephemeral_volume_also_without_its_claim() {
    let files = [(BackupFile::PodVolumeBackups, json!([saved("scratch", None)]))];
    for (objects, uid) in
        [(vec![namespace(), web(), claim()], json!("uid-of-web-scratch")), (vec![namespace(), web()], Value::Null)]
    {
        let ground = served(&objects, &files).await;
        let outcome = ground.run().await.unwrap();
        assert_eq!(messages(&outcome.results)[1], Vec::<String>::new());
        let asked: Vec<(Value, Value)> = ground
            .below(RESTORES)
            .into_iter()
            .map(|mut one| (one["spec"]["volume"].take(), one["metadata"]["labels"]["velero.io/pvc-uid"].take()))
            .collect();
        assert_eq!(asked, [("scratch".into(), uid)]);
    }
}
