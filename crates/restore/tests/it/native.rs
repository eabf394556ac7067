//! Volumes that are made from the snapshots of plugins.

use crate::cloud::{Cloud, Fate};
use crate::ground::{Ground, messages, volume};
use lifeboat_action::{ActionError, VolumeFacts, VolumeRequest};
use lifeboat_api::{Duration, ExistingResourcePolicy, RestorePhase};
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_object::{ApiResource, Results};
use lifeboat_operation::{InMemory, Records};
use lifeboat_restore::{Env, PlanDigest, PlanLine, Planned, preview, record_failure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// As Velero writes the file, but for its names.
fn velero(snapshots: &[(&str, &str, &str)]) -> (BackupFile, String) {
    let one = |(volume, location, id): &(&str, &str, &str)| {
        let spec = format!(
            r#"{{"backupName":"b","backupUID":"b","location":"{location}","persistentVolumeName":"{volume}","providerVolumeID":"old-{volume}","volumeType":"io1","volumeAZ":"zone-1","volumeIOPS":500}}"#
        );
        let status = match *id {
            "" => r#"{"phase":"Failed"}"#.to_owned(),
            id => format!(r#"{{"providerSnapshotID":"{id}","phase":"Completed"}}"#),
        };
        format!(r#"{{"spec":{spec},"status":{status}}}"#)
    };
    let all: Vec<String> = snapshots.iter().map(one).collect();
    (BackupFile::VolumeSnapshots, format!("[{}]\n", all.join(",")))
}

/// A backup of two claims, `a` and `data-db-0` of a StatefulSet, with native snapshots in the location `east`, and that storage.
pub(crate) async fn ground() -> (Ground, Arc<Cloud>) {
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}});
    let objects: Vec<Value> = [volume("pv-a", "a", "old-a"), volume("pv-db", "data-db-0", "old-db")].concat();
    let objects: Vec<Value> = objects.into_iter().chain([set]).collect();
    let files = [velero(&[("pv-a", "east", "snap-a"), ("pv-db", "east", "snap-db"), ("", "east", "snap-x")])];
    let mut ground = Ground::start(&objects, &files).await;
    let cloud = Cloud::new("east");
    ground.snapshotters = vec![cloud.located()];
    (ground, cloud)
}

fn texts(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The disk of each volume of the cluster must be the one that was made from its snapshot.
async fn snapshots(ground: &Ground, cloud: &Cloud) -> BTreeMap<String, String> {
    let made = cloud.volumes();
    let of = |disk: String| made.get(&disk).cloned().unwrap_or(disk);
    ground.disks().await.into_iter().map(|(name, disk)| (name, of(disk))).collect()
}

#[tokio::test]
async fn a_volume_is_made_from_the_snapshot_recorded_by_velero_for_its_claim() {
    let (ground, cloud) = ground().await;
    let outcome = ground.run().await;
    assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Completed));
    let request = |snapshot: &str| VolumeRequest {
        snapshot_id: snapshot.to_owned(),
        facts: VolumeFacts { volume_type: "io1".to_owned(), iops: Some(500) },
        zone: "zone-1".to_owned(),
    };
    let mut requests: Vec<VolumeRequest> = cloud.requests().into_values().collect();
    requests.sort_by(|a, b| a.snapshot_id.cmp(&b.snapshot_id));
    assert_eq!(requests, [request("snap-a"), request("snap-db")]);
    assert_eq!(snapshots(&ground, &cloud).await, texts(&[("pv-a", "snap-a"), ("pv-db", "snap-db")]));
    assert_eq!(ground.claims().await, texts(&[("shop/a", "pv-a"), ("shop/data-db-0", "pv-db")]));
    let volume = &ground.volumes().await["pv-a"];
    let labels = json!({"disk": "fast", "velero.io/backup-name": "b", "velero.io/restore-name": "r"});
    let metadata = ["labels", "annotations"].map(|field| volume["metadata"][field].clone());
    assert_eq!(metadata, [labels, json!({"note": "mine"})]);
    assert_eq!(volume["spec"]["claimRef"], json!({"namespace": "shop", "name": "a"}));
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    let info = serde_json::to_value(ground.info("a").await).unwrap();
    let expected = json!({"pvcName": "a", "pvcNamespace": "shop", "pvName": "pv-a", "restoreMethod": "NativeSnapshot",
        "snapshotDataMoved": false, "message": "the volume is made anew from the native snapshot of its data",
        "nativeSnapshotInfo": {"snapshotHandle": "snap-a", "volumeType": "io1", "volumeAZ": "zone-1", "iops": "500",
            "Phase": "Completed"}});
    assert_eq!(info, expected);
}

#[tokio::test]
async fn a_volume_in_use_is_left_alone() {
    let (ground, cloud) = ground().await;
    ground.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).await;
    let [mut in_use, claim] = volume("pv-a", "a", "live");
    in_use["metadata"]["labels"] = Value::Null;
    ground.put(in_use).await;
    ground.put(claim).await;
    let [mut unclaimed, _] = volume("pv-db", "", "free");
    unclaimed["spec"]["claimRef"] = Value::Null;
    ground.put(unclaimed).await;
    let outcome = ground.run().await;
    assert_eq!((cloud.volumes(), ground.disks().await), (texts(&[]), texts(&[("pv-a", "live"), ("pv-db", "free")])));
    let [mut warnings, errors] = messages(&outcome);
    warnings.sort();
    let expected = ["pv-a", "pv-db"].map(|name| {
        format!(
            "could not restore, PersistentVolume:{name} already exists. Warning: the in-cluster version is different than the \
             backed-up version"
        )
    });
    assert_eq!((warnings, errors), (expected.to_vec(), vec![]));
    assert_eq!(ground.info("data-db-0").await.message, "a volume of its name was there, and keeps what it holds");
}

#[tokio::test]
async fn a_claim_in_another_namespace_gets_a_volume_beside_the_one_in_use() {
    for in_use in [false, true] {
        let (mut ground, cloud) = ground().await;
        ground.request.restore.spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
        if in_use {
            // Also one that is as it was in the backup.
            let [live, _] = volume("pv-a", "a", "old-a");
            ground.put(live).await;
        }
        let outcome = ground.run().await;
        assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
        let claims = ground.claims().await;
        let name = &claims["copy/a"];
        assert_eq!((name != "pv-a", name.starts_with("velero-clone-")), (in_use, in_use));
        let mut expected = texts(&[(name, "snap-a"), ("pv-db", "snap-db")]);
        if in_use {
            expected.insert("pv-a".to_owned(), "old-a".to_owned());
        }
        assert_eq!(snapshots(&ground, &cloud).await, expected);
        let made = &ground.volumes().await[name];
        assert_eq!(made["spec"]["claimRef"], json!({"namespace": "copy", "name": "a"}));
        let original = &made["metadata"]["annotations"]["velero.io/original-pv-name"];
        assert_eq!(original.as_str(), in_use.then_some("pv-a"));
        assert_eq!((ground.info("a").await.pv_name, claims.len()), (name.clone(), 2));
        let list: Value = ground.store.restore_file("r", RestoreFile::ResourceList).await.unwrap().unwrap();
        let mut listed = [format!("{name}(created)"), "pv-db(created)".to_owned()];
        listed.sort();
        assert_eq!(list["v1/PersistentVolume"], json!(listed));
    }
}

#[tokio::test]
async fn a_volume_that_is_about_to_go_is_waited_for() {
    let (mut ground, cloud) = ground().await;
    let [mut live, _] = volume("pv-a", "a", "old-a");
    live["status"]["phase"] = "Released".into();
    ground.put(live.clone()).await;
    let deletes = async {
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let volumes =
            ApiResource { namespaced: false, ..ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume") };
        ground.cluster.delete(&volumes, None, "pv-a").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(ground.run(), deletes);
    assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
    assert_eq!(snapshots(&ground, &cloud).await, texts(&[("pv-a", "snap-a"), ("pv-db", "snap-db")]));

    // It does not go, or is not about to.
    ground.request.settings.terminating_resource_timeout = Duration::from_secs(1);
    let held = "error restoring persistentvolumeclaims/shop/a: held back, because its PersistentVolume pv-a could not be restored; \
                when that is there, run the restore again";
    for (policy, namespace, warning, error) in [
        (
            "Delete",
            "shop",
            Some(
                "could not restore persistentvolumes/pv-a: the one in the cluster was released by its claim, and is to be deleted with it, and was still there after",
            ),
            None,
        ),
        (
            "Retain",
            "shop",
            None,
            Some(
                "error restoring persistentvolumes/pv-a: the PersistentVolume in the cluster was released by its claim, and stays \
                 with what it holds (reclaim policy Retain): delete it, and run the restore again",
            ),
        ),
        (
            "Delete",
            "gone",
            Some("could not restore persistentvolumes/pv-a: the one in the cluster was of a claim that is gone"),
            None,
        ),
    ] {
        let (mut ground, cloud) = self::ground().await;
        ground.request.settings.terminating_resource_timeout = Duration::from_secs(1);
        live["spec"]["persistentVolumeReclaimPolicy"] = policy.into();
        live["spec"]["claimRef"]["namespace"] = namespace.into();
        live["status"]["phase"] = if namespace == "gone" { "Bound" } else { "Released" }.into();
        ground.put(live.clone()).await;
        let outcome = ground.run().await;
        let [warnings, errors] = messages(&outcome);
        assert_eq!(warnings.len(), usize::from(warning.is_some()), "{warnings:?}");
        assert!(warnings.iter().all(|text| warning.is_some_and(|begin| text.starts_with(begin))), "{warnings:?}");
        assert_eq!(errors, error.into_iter().chain([held]).collect::<Vec<_>>());
        assert_eq!(cloud.volumes().into_values().collect::<Vec<_>>(), ["snap-db"]);
        assert_eq!(ground.claims().await, texts(&[("shop/data-db-0", "pv-db")]));
    }
}

#[tokio::test]
async fn a_volume_that_cannot_be_made_holds_back_what_needs_it() {
    let unknown = "it is not known whether a volume was made from the snapshot snap-db for the PersistentVolume pv-db, because \
                   nobody heard its name: look for one in the storage of the location east that nothing uses, and delete it";
    let no_location = "there is no snapshotter of the volume snapshot location east: make the VolumeSnapshotLocation of that name \
                       again, and add the plugin of its provider";
    for (fate, why, more, orphans) in [
        (Some(Fate::Fails(ActionError::item("no space"))), "test/cloud of the location east: no space", None, 0),
        (Some(Fate::Panics), "test/cloud of the location east: it panicked: out of order", Some(unknown), 0),
        (
            Some(Fate::FailsAfter(ActionError::gone("killed"))),
            "test/cloud of the location east: killed",
            Some(unknown),
            1,
        ),
        (None, no_location, None, 0),
    ] {
        let (mut ground, cloud) = ground().await;
        let is_there = fate.is_some();
        match fate {
            Some(fate) => {
                cloud.let_be(move |_, subject, _| if subject == "snap-db" { fate.clone() } else { Fate::Good });
            }
            None => ground.snapshotters.clear(),
        }
        let outcome = ground.run().await;
        let failed = |volume: &str, snapshot: &str| {
            format!(
                "error restoring persistentvolumes/{volume}: its volume could not be made from the snapshot {snapshot}: {why}"
            )
        };
        let held = |claim: &str, volume: &str| {
            format!(
                "error restoring persistentvolumeclaims/shop/{claim}: held back, because its PersistentVolume {volume} could not be \
                 restored; when that is there, run the restore again"
            )
        };
        let set = "error restoring statefulsets.apps/shop/db: held back, because its claim data-db-0 could not be restored and \
                   would be made anew, empty; restore the claim, then run the restore again";
        let mut expected = vec![failed("pv-db", "snap-db"), held("data-db-0", "pv-db"), set.to_owned()];
        if !is_there {
            expected.extend([failed("pv-a", "snap-a"), held("a", "pv-a")]);
        }
        let [warnings, mut errors] = messages(&outcome);
        errors.sort();
        expected.sort();
        let more: Vec<String> = more.into_iter().map(str::to_owned).collect();
        assert_eq!((warnings, errors), (more, expected));
        assert_eq!(outcome.restore.status.phase, Some(RestorePhase::PartiallyFailed));
        let restored: &[(&str, &str)] = if is_there { &[("pv-a", "snap-a")] } else { &[] };
        assert_eq!(snapshots(&ground, &cloud).await, texts(restored));
        assert_eq!(cloud.volumes().len(), restored.len() + orphans);
        assert!(ground.list("statefulsets", "StatefulSet", true).await.is_empty());
    }
}

#[tokio::test]
async fn what_can_pass_is_tried_again() {
    let (ground, cloud) = ground().await;
    cloud.let_be(|_, _, before| if before == 0 { Fate::Fails(ActionError::passing("busy")) } else { Fate::Good });
    let outcome = ground.run().await;
    assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
    assert_eq!(snapshots(&ground, &cloud).await, texts(&[("pv-a", "snap-a"), ("pv-db", "snap-db")]));
    assert_eq!(cloud.volumes().len(), 2);
}

#[tokio::test]
async fn a_snapshotter_that_can_do_nothing_breaks_the_restore_off() {
    let (ground, cloud) = ground().await;
    cloud.let_be(|_, subject, _| match subject {
        "snap-db" => Fate::Fails(ActionError::fatal("no licence")),
        _ => Fate::Good,
    });
    let outcome = ground.run().await;
    let expected = "the action test/cloud of the location east says that none of its calls can succeed, asked about \
                    persistentvolumes/pv-db: no licence";
    assert_eq!(outcome.broken_off.map(|why| why.to_string()).as_deref(), Some(expected));
}

/// Dependencies of a run that shares its notes with others.
fn noting(ground: &Ground, records: &Arc<dyn Records>) -> Env {
    ground.env_with(Arc::clone(records))
}

#[tokio::test]
async fn a_volume_that_nothing_uses_is_told_and_used_by_a_run_again() {
    let (ground, cloud) = ground().await;
    cloud.let_be(|name, subject, _| match (name, subject) {
        ("set_volume_id", "pv-a") => Fate::Fails(ActionError::item("odd")),
        _ => Fate::Good,
    });
    let records: Arc<dyn Records> = Arc::new(InMemory::default());
    let outcome = Box::pin(lifeboat_restore::run(&ground.request, &noting(&ground, &records))).await.unwrap();
    let id = cloud.volumes().into_iter().find(|(_, snapshot)| snapshot == "snap-a").unwrap().0;
    let unused = format!(
        "the volume {id} was made from the snapshot snap-a in the location east, and no PersistentVolume pv-a is known to use it: \
         delete it in the storage, unless the same restore is run again and uses it"
    );
    let [warnings, _] = messages(&outcome);
    assert_eq!(warnings, [unused]);
    assert_eq!(ground.claims().await, texts(&[("shop/data-db-0", "pv-db")]));
    cloud.let_be(|_, _, _| Fate::Good);
    let outcome = Box::pin(lifeboat_restore::run(&ground.request, &noting(&ground, &records))).await.unwrap();
    assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
    assert_eq!(ground.disks().await["pv-a"], id);
    assert_eq!(cloud.volumes().len(), 2);
    assert_eq!(ground.claims().await, texts(&[("shop/a", "pv-a"), ("shop/data-db-0", "pv-db")]));
}

/// As of a server that was cut off again and again.
#[tokio::test]
async fn a_restore_that_is_given_up_tells_of_the_volumes_that_nothing_uses() {
    let (ground, cloud) = ground().await;
    cloud.let_be(|name, subject, _| match (name, subject) {
        ("set_volume_id", "pv-a") => Fate::Fails(ActionError::item("odd")),
        _ => Fate::Good,
    });
    let records: Arc<dyn Records> = Arc::new(InMemory::default());
    Box::pin(lifeboat_restore::run(&ground.request, &noting(&ground, &records))).await.unwrap();
    let mut restore = ground.request.restore.clone();
    restore.status.failure_reason = "cut off".to_owned();
    let name = restore.metadata.name.clone();
    let ended = Box::pin(record_failure(restore, &lifeboat_restore::Settings::default(), &noting(&ground, &records)))
        .await
        .unwrap();
    assert_eq!((ended.status.warnings, ended.status.errors), (1, 1));
    let results: Results = ground.store.restore_file(&name, RestoreFile::Results).await.unwrap().unwrap();
    let id = cloud.volumes().into_iter().find(|(_, snapshot)| snapshot == "snap-a").unwrap().0;
    let unused = format!(
        "the volume {id} was made from the snapshot snap-a in the location east, and no PersistentVolume pv-a is known to use it: \
         delete it in the storage, unless the same restore is run again and uses it"
    );
    assert_eq!(results.warnings.messages().collect::<Vec<_>>(), [unused]);
    assert_eq!(results.errors.messages().collect::<Vec<_>>(), ["cut off"]);
}

#[tokio::test]
async fn a_cancelled_restore_tells_of_what_may_lie_in_the_storage() {
    for after in [false, true] {
        let (ground, cloud) = ground().await;
        let called = Arc::new(Notify::new());
        let calls = Arc::clone(&called);
        cloud.let_be(move |_, subject, _| match subject {
            "snap-db" => {
                calls.notify_one();
                if after { Fate::HangsAfter } else { Fate::Hangs }
            }
            _ => Fate::Good,
        });
        let env = ground.env();
        let cancels = async {
            called.notified().await;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            env.operation.cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(Box::pin(lifeboat_restore::run(&ground.request, &env)), cancels);
        let outcome = outcome.unwrap();
        assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Failed));
        let [warnings, errors] = messages(&outcome);
        let unknown =
            "it is not known whether a volume was made from the snapshot snap-db for the PersistentVolume pv-db";
        assert!(warnings.len() == 1 && warnings[0].starts_with(unknown), "{warnings:?}");
        assert!(!errors.iter().any(|text| text.contains("pv-a")), "{errors:?}");
        assert_eq!(cloud.volumes().len(), 1 + usize::from(after));
    }
}

#[tokio::test]
async fn a_restore_without_volumes_makes_none() {
    let mut objects = [volume("pv-a", "a", "old-a"), volume("pv-b", "b", "old-b")].concat();
    objects[0]["spec"]["persistentVolumeReclaimPolicy"] = "Retain".into();
    let files = [velero(&[("pv-a", "east", "snap-a"), ("pv-b", "east", "snap-b")])];
    let mut ground = Ground::start(&objects, &files).await;
    ground.request.restore.spec.restore_pvs = Some(false);
    // The backup is of another cluster.
    ground.request.restore.metadata.annotations.insert("lifeboat.io/reuse-volumes".to_owned(), "true".to_owned());
    let outcome = ground.run().await;
    assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
    assert_eq!(ground.disks().await, texts(&[("pv-a", "old-a")]), "what was kept is where it was");
    assert_eq!(ground.claims().await, texts(&[("shop/a", "pv-a"), ("shop/b", "")]));
    let expected =
        "the restore leaves volumes out (restorePVs is false): the claim is provisioned anew and comes back empty";
    assert_eq!(ground.info("b").await.message, expected);
}

#[tokio::test]
async fn the_claim_of_a_missing_snapshot_is_held_back_and_reported() {
    let objects = volume("pv-a", "a", "old-a");
    let info = json!([{"pvName": "pv-a", "backupMethod": "NativeSnapshot"}]).to_string();
    let ground = Ground::start(&objects, &[velero(&[("pv-a", "east", "")]), (BackupFile::VolumeInfo, info)]).await;
    let outcome = ground.run().await;
    let [warnings, errors] = messages(&outcome);
    let expected = "error restoring persistentvolumeclaims/shop/a: held back, because its data was not saved when the backup was made; \
                    restore it from another backup, or restore it with --allow-empty-volumes (the annotation lifeboat.io/allow-empty-volumes: \"true\" of the restore) to get it without its data";
    assert_eq!((warnings, errors), (vec![], vec![expected.to_owned()]));
    assert_eq!((ground.volumes().await.len(), ground.claims().await), (0, texts(&[])));
}

#[tokio::test]
async fn a_snapshotter_may_give_a_volume_another_name() {
    let mut objects = volume("pv-a", "a", "old-a");
    objects[0]["metadata"]["annotations"]["test/other-name"] = "other".into();
    let mut ground = Ground::start(&objects, &[velero(&[("pv-a", "east", "snap-a")])]).await;
    let cloud = Cloud::new("east");
    ground.snapshotters = vec![cloud.located()];
    ground.run().await;
    assert_eq!(snapshots(&ground, &cloud).await, texts(&[("other", "snap-a")]));
    assert_eq!(ground.claims().await, texts(&[("shop/a", "other")]));
}

/// Plan of a preview for each PersistentVolume, and the digest of the whole plan.
async fn previewed(ground: &Ground) -> (BTreeMap<String, Planned>, String) {
    let (sender, mut receiver) = mpsc::channel(64);
    let (mut out, mut digest) = (BTreeMap::new(), PlanDigest::default());
    let env = ground.env();
    let gather = async {
        while let Some(item) = receiver.recv().await {
            digest.add(&PlanLine::of(&item));
            if item.key.resource.resource == "persistentvolumes" {
                out.insert(item.key.name, item.planned);
            }
        }
    };
    let (end, ()) = tokio::join!(Box::pin(preview(&ground.request, &env, sender)), gather);
    let infos = end.unwrap().volumes;
    assert!(infos.iter().all(|info| info.restore_method == "NativeSnapshot"), "{infos:?}");
    (out, digest.end())
}

#[tokio::test]
async fn a_preview_says_what_would_be_made_and_a_restore_can_be_pinned_to_it() {
    for is_mapped in [false, true] {
        let (mut ground, cloud) = ground().await;
        if is_mapped {
            ground.request.restore.spec.namespace_mapping = [("shop".to_owned(), "copy".to_owned())].into();
            ground.put(volume("pv-a", "a", "old-a")[0].clone()).await;
        }
        let (planned, digest) = previewed(&ground).await;
        let create = |name: &str| (name.to_owned(), Planned::Create);
        assert_eq!(planned, [create("pv-a"), create("pv-db")].into());
        assert!(cloud.volumes().is_empty());
        ground.request.restore.spec.plan_digest = digest;
        let outcome = ground.run().await;
        assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
        assert_eq!((cloud.volumes().len(), ground.volumes().await.len()), (2, 2 + usize::from(is_mapped)));
    }
    // One that is about to go is made when it is gone.
    let (with_released, _) = ground().await;
    let [mut live, _] = volume("pv-a", "a", "old-a");
    live["status"]["phase"] = "Released".into();
    with_released.put(live).await;
    assert_eq!(previewed(&with_released).await.0["pv-a"], Planned::Create);
    // No volume is made that the plan does not have.
    let (mut ground, cloud) = ground().await;
    ground.request.restore.spec.existing_resource_policy = ExistingResourcePolicy::None;
    let snapshotters = std::mem::take(&mut ground.snapshotters);
    let (planned, digest) = previewed(&ground).await;
    let Planned::Refused(why) = &planned["pv-a"] else { panic!("{planned:?}") };
    let expected = "its volume could not be made from the snapshot snap-a: there is no snapshotter of the volume snapshot location \
                    east: make the VolumeSnapshotLocation of that name again, and add the plugin of its provider";
    assert_eq!(why, expected);
    ground.request.restore.spec.plan_digest = digest;
    ground.snapshotters = snapshotters;
    let changed = Box::pin(lifeboat_restore::run(&ground.request, &ground.env())).await.unwrap_err().to_string();
    assert!(changed.starts_with("nothing was changed") && cloud.volumes().is_empty(), "{changed}");
}
