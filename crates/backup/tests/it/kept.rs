//! CSI snapshots that somebody deletes from the cluster while their backup waits for them: what lies in the storage is the backup's.

use crate::driver::{DRIVER, FINALIZER, claims, types};
use crate::ground::NAME;
use crate::snapshotted::{
    CONTENTS, GROUP_CONTENTS, SNAPSHOTS, archived, ended, eventually, ground, made, namespace_is_deleted, objects,
    request, stored, until_nothing_is_left, waiting, warnings,
};
use lifeboat_api::BackupPhase;
use lifeboat_archive::layout::BackupFile;
use lifeboat_backup::{remove_snapshots, run, run_delete_actions};
use lifeboat_object::Results;
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::sleep;

#[tokio::test]
async fn snapshots_stay_when_their_namespace_is_deleted_while_the_backup_waits() {
    let (ground, snapshotter, backup) = waiting().await;
    namespace_is_deleted(&ground).await;
    assert_eq!(
        (stored(&snapshotter), objects(&ground).await),
        ((1, 1), BTreeMap::from([(CONTENTS, 3), (GROUP_CONTENTS, 1)]))
    );

    let ended = ended(&ground).await;
    let status = &ended.status;
    assert_eq!((status.phase, status.errors), (Some(BackupPhase::Completed), 0));
    assert_eq!((status.backup_item_operations_completed, status.csi_volume_snapshots_completed), (3, 3));
    // Each VolumeSnapshot stands in the archive as it was when it was saved.
    let results: Results = ground.store().backup_file(NAME, BackupFile::Results).await.unwrap().unwrap();
    let told = warnings(&results);
    assert!(told.len() == 3 && told.iter().all(|one| one.contains("was not found")), "{told:?}");
    assert_eq!(archived(&ground, SNAPSHOTS).await.len(), 3);
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    assert_eq!(stored(&snapshotter), (1, 1));

    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn a_deleted_waiting_backup_deletes_snapshots_of_a_deleted_namespace_too() {
    let (ground, snapshotter, backup) = waiting().await;
    namespace_is_deleted(&ground).await;
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn kept_snapshots_of_a_backup_given_up_go_with_or_without_their_namespace() {
    for is_deleted in [false, true] {
        let (ground, snapshotter, backup) = waiting().await;
        if is_deleted {
            namespace_is_deleted(&ground).await;
        }
        assert!(remove_snapshots(&backup, &ground.env(ground.store())).await, "{is_deleted}");
        until_nothing_is_left(&ground, &snapshotter).await;
    }
}

/// The controller may have let go of the content before it was told to delete.
#[tokio::test]
async fn a_snapshot_that_somebody_deletes_just_now_is_removed_with_its_content() {
    let ground = claims(0).await;
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": "content", "finalizers": [FINALIZER]}, "spec": {"driver": DRIVER, "deletionPolicy": "Retain"},
            "status": {"snapshotHandle": "snap-1"}}))
        .await;
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "s", "namespace": "shop", "labels": {"velero.io/backup-uid": "u"}, "finalizers": ["example.com/hold"]},
            "spec": {}, "status": {"boundVolumeSnapshotContentName": "content"}}))
        .await;
    let env = ground.env(ground.store());
    env.cluster.delete(&types(&env.cluster).await.snapshots, Some("shop"), "s").await.unwrap();
    assert!(remove_snapshots(&request().backup, &env).await);
    let contents = ground.list(CONTENTS).await;
    let is_deleted = contents[0]["metadata"]["deletionTimestamp"].is_string();
    assert_eq!((contents.len(), &contents[0]["spec"]["deletionPolicy"], is_deleted), (1, &json!("Delete"), true));
}

#[tokio::test]
async fn an_attempt_that_finds_a_snapshot_kept_notes_the_policy_of_its_class() {
    let (ground, _snapshotter) = ground(&[("c", "")], &["v1"]).await;
    // The first time it is asked for its handle; the second time it is to be saved, and was told to keep the snapshot.
    ground.proxy.script(vec![Rule::new("GET", "*/volumesnapshotcontents/*", Nth::Only(2), Fault::Hang)]);
    let (env, mut request) = (ground.env(ground.store()), request());
    let crashing = async {
        while !ground.proxy.is_met() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = Box::pin(run(&request, &env)) => panic!("it ended before"),
        () = crashing => {}
    }
    let policy = |content: &Value| content["spec"]["deletionPolicy"].clone();
    assert_eq!(ground.list(CONTENTS).await.iter().map(policy).collect::<Vec<_>>(), ["Retain"]);
    ground.proxy.script(Vec::new());
    request.settings.take_over = true;
    assert_eq!(made(&ground, &request).await.results, Results::default());
    let saved = archived(&ground, SNAPSHOTS).await;
    assert_eq!(saved[0]["metadata"]["annotations"]["velero.io/csi-vsc-deletion-policy"], "Delete", "{saved:?}");
    let labels = &archived(&ground, CONTENTS).await[0]["metadata"]["labels"];
    assert_eq!(labels, &json!({"velero.io/backup-name": NAME, "velero.io/backup-uid": "u"}));
}

#[tokio::test]
async fn a_group_that_was_not_told_to_keep_snapshots_is_told_by_its_next_member() {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500,
        "message": "Internal error occurred: failed calling webhook \"guard\": no endpoints available"});
    for (nth, policy, told) in [(Nth::Only(1), "Retain", 0), (Nth::Every, "Delete", 1)] {
        let (ground, _snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
        let busy = Fault::Answer { status: 500, headers: Vec::new(), body: body.to_string() };
        ground.proxy.script(vec![Rule::new("PATCH", "*/volumegroupsnapshotcontents/*", nth, busy)]);
        let results = made(&ground, &request()).await.results;
        assert!(ground.proxy.is_met());
        assert_eq!(ground.list(GROUP_CONTENTS).await[0]["spec"]["deletionPolicy"], policy);
        let warnings = warnings(&results);
        let is_of_group = |one: &String| one.contains("the content of the group snapshot velero-db-");
        assert!(warnings.len() == told && warnings.iter().all(is_of_group), "{warnings:?}");
    }
}
