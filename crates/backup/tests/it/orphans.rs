//! Contents whose VolumeSnapshots are gone, or whose groups.

use crate::driver::{DRIVER, FINALIZER, claims, types};
use crate::ground::Ground;
use crate::snapshotted::{
    CONTENTS, GROUP_CONTENTS, GROUPS, SNAPSHOTS, ended, eventually, namespace_is_deleted, objects, stored,
    until_nothing_is_left, waiting, warnings,
};
use lifeboat_api::well_known::{ANNOTATION_SOURCE_CLUSTER, ANNOTATION_TAKEN_OVER, TAKEN_OVER_OTHER};
use lifeboat_backup::{remove_snapshots, run_delete_actions};
use lifeboat_testbed::{Fault, Nth, Rule};
use lifeboat_volume::csi::remove_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The content of a VolumeSnapshot of this name that is not there, which keeps its snapshot for the backup.
fn content(name: &str, snapshot: &str) -> Value {
    json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": name, "labels": {"velero.io/backup-uid": "u"}, "finalizers": [FINALIZER]},
        "spec": {"driver": DRIVER, "deletionPolicy": "Retain", "volumeSnapshotRef": {"namespace": "shop", "name": snapshot, "uid": "gone"}},
        "status": {"snapshotHandle": name}})
}

/// The content of a group of this name that is not there.
fn group_content(name: &str, group: &str, policy: &str) -> Value {
    let finalizer = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
    json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": name, "finalizers": [finalizer]},
        "spec": {"driver": DRIVER, "deletionPolicy": policy, "volumeGroupSnapshotRef": {"namespace": "shop", "name": group, "uid": "gone"}},
        "status": {"volumeGroupSnapshotHandle": name}})
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Names and policies of the contents of a type.
async fn policies(ground: &Ground, resource: &str) -> BTreeMap<String, Value> {
    let all = ground.list(resource).await;
    all.iter().map(|content| (name_of(content).to_owned(), content["spec"]["deletionPolicy"].clone())).collect()
}

/// An attempt before has saved a claim that is gone, and has given a group up that its driver has not deleted yet.
#[tokio::test]
async fn snapshots_that_a_backup_does_not_hold_stay_until_it_is_deleted() {
    let (ground, snapshotter, backup) = waiting().await;
    let group = ground.list(GROUPS).await;
    let given_up = format!("{}-0123456789", name_of(&group[0]).rsplit_once('-').unwrap().0);
    ground.put(group_content("given-up", &given_up, "Delete")).await;
    let cluster = ground.cluster().await;
    let group_contents = types(&cluster).await.groups.unwrap().contents;
    cluster.delete(&group_contents, None, "given-up").await.unwrap();
    ground.put(content("unheld", "gone")).await;
    {
        let mut storage = snapshotter.storage.lock().unwrap();
        storage.snapshots.insert("unheld".to_owned());
        storage.groups.insert("given-up".to_owned(), BTreeSet::new());
    }
    namespace_is_deleted(&ground).await;
    ended(&ground).await;
    let left = BTreeMap::from([(CONTENTS, 1), (GROUP_CONTENTS, 1)]);
    eventually("nothing of what it holds", async || objects(&ground).await == left).await;
    let policy = |name: &str, policy: &str| BTreeMap::from([(name.to_owned(), json!(policy))]);
    assert_eq!(policies(&ground, CONTENTS).await, policy("unheld", "Retain"));
    assert_eq!(policies(&ground, GROUP_CONTENTS).await, policy("given-up", "Delete"));
    assert_eq!(stored(&snapshotter), (2, 2));

    let env = ground.env(ground.store());
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &env)).await, Ok(()));
    assert!(remove_snapshots(&backup, &env).await);
    until_nothing_is_left(&ground, &snapshotter).await;
}

/// A driver answers OK when it is to delete what it does not know.
#[tokio::test]
async fn a_snapshot_of_another_cluster_that_perhaps_stays_is_noted_and_told() {
    let (ground, _snapshotter, _) = waiting().await;
    let mut backup = ended(&ground).await;
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    for (name, value) in [(ANNOTATION_TAKEN_OVER, TAKEN_OVER_OTHER), (ANNOTATION_SOURCE_CLUSTER, "elsewhere")] {
        backup.metadata.annotations.insert(name.to_owned(), value.to_owned());
    }
    let env = ground.env(ground.store());
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &env)).await, Ok(()));
    let told = warnings(&env.operation.journal.close().results);
    let key = "metadata/lifeboat-unproven/b-u.json";
    let (begins, ends) = (
        "2 snapshots of backup b may stay in the storage when the backup is deleted (",
        format!("): {key} in the bucket lists them with the reasons"),
    );
    assert!(told.len() == 1 && told[0].starts_with(begins) && told[0].ends_with(&ends), "{told:?}");
    assert!(ground.bucket.head(key).await.is_ok());
}

#[tokio::test]
async fn the_replaced_content_is_removed_though_a_snapshot_of_its_name_is_kept() {
    let (ground, snapshotter, _) = waiting().await;
    let (snapshots, groups) = (ground.list(SNAPSHOTS).await, ground.list(GROUPS).await);
    let single = snapshots.iter().find(|snapshot| snapshot["metadata"]["ownerReferences"].is_null()).unwrap();
    ground.put(content("before", name_of(single))).await;
    ground.put(group_content("group-before", name_of(&groups[0]), "Retain")).await;
    {
        let mut storage = snapshotter.storage.lock().unwrap();
        storage.snapshots.insert("before".to_owned());
        storage.groups.insert("group-before".to_owned(), BTreeSet::new());
    }
    let env = ground.env(ground.store());
    let types = types(&env.cluster).await;
    let left = Box::pin(remove_all(&env.cluster, &types, "u", |_| true, &|| ())).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    let kept = BTreeMap::from([(SNAPSHOTS, 3), (CONTENTS, 3), (GROUPS, 1), (GROUP_CONTENTS, 1)]);
    eventually("what is kept", async || objects(&ground).await == kept).await;
    assert_eq!(stored(&snapshotter), (1, 1));
}

#[tokio::test]
async fn contents_are_asked_about_several_at_once_and_each_answer_is_a_step() {
    let ground = claims(0).await;
    for name in ["a", "b", "c"] {
        ground.put(content(name, name)).await;
    }
    let env = ground.env(ground.store());
    let types = types(&env.cluster).await;
    // Nothing is removed before all are known, and the first answer does not come.
    ground.proxy.script(vec![Rule::new("GET", "*/namespaces/shop/volumesnapshots/*", Nth::Only(1), Fault::Hang)]);
    let steps = AtomicUsize::new(0);
    let step = || {
        steps.fetch_add(1, Ordering::Relaxed);
    };
    tokio::select! {
        _ = Box::pin(remove_all(&env.cluster, &types, "u", |_| false, &step)) => panic!("an answer is missing"),
        () = eventually("two answers", async || steps.load(Ordering::Relaxed) == 2) => {}
    }
}
