//! Snapshots by plugins.

use crate::cloud::{Cloud, Fate};
use crate::ground::{Ground, NAME};
use lifeboat_action::ActionError;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_backup::{BackupError, Outcome, Request, has_noted_snapshots, record_failure, run, run_delete_actions};
use lifeboat_operation::{InMemory, Records};
use lifeboat_select::RulesText;
use lifeboat_testbed::Ran;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// A claim of the namespace `shop` with its volume, whose disk this is, and a running pod that mounts it.
async fn volume(ground: &Ground, name: &str, disk: &str, annotations: &Value) {
    let (pv, pod) = (format!("pv-{name}"), format!("pod-{name}"));
    let zone = json!({"topology.kubernetes.io/zone": format!("zone-{}", name.len())});
    for object in [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": pv, "labels": zone},
            "spec": {"persistentVolumeReclaimPolicy": "Delete", "awsElasticBlockStore": {"volumeID": disk},
                "claimRef": {"namespace": "shop", "name": name}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"volumeName": pv}, "status": {"phase": "Bound"}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": "shop", "uid": pod, "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]},
            "status": {"phase": "Running"}}),
    ] {
        ground.put(object).await;
    }
}

/// A cluster with these claims, each with its disk, and a storage.
pub(crate) async fn ground(claims: &[(&str, &str)]) -> (Ground, Arc<Cloud>) {
    let mut ground = Ground::start(&[], Vec::new()).await;
    let cloud = Cloud::new("east");
    ground.actions.volume_snapshotters = vec![cloud.located()];
    for (name, disk) in claims {
        volume(&ground, name, disk, &json!({})).await;
    }
    (ground, cloud)
}

pub(crate) fn request() -> Request {
    let mut request = Ground::request();
    request.backup.metadata.labels.insert("team".to_owned(), "shop".to_owned());
    request
}

async fn backed_up(ground: &Ground) -> Outcome {
    Box::pin(run(&request(), &ground.env(ground.store()))).await.unwrap()
}

/// The native snapshots that are recorded, by name.
pub(crate) async fn recorded(ground: &Ground) -> BTreeMap<String, String> {
    let field =
        |one: &Value, pointer: &str| one.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let all = file(ground).await;
    let all = all.as_array().into_iter().flatten();
    let all = all.map(|one| (field(one, "/status/providerSnapshotID"), field(one, "/spec/providerVolumeID")));
    all.filter(|(id, _)| !id.is_empty()).collect()
}

async fn file(ground: &Ground) -> Value {
    ground.store().backup_file(NAME, BackupFile::VolumeSnapshots).await.unwrap().unwrap_or_default()
}

/// The volume information by claim.
async fn infos(ground: &Ground) -> BTreeMap<String, BackupVolumeInfo> {
    let all: Option<Vec<BackupVolumeInfo>> = ground.store().backup_file(NAME, BackupFile::VolumeInfo).await.unwrap();
    all.unwrap().into_iter().map(|info| (info.pvc_name.clone(), info)).collect()
}

fn messages(outcome: &Outcome) -> [Vec<String>; 2] {
    let results = &outcome.results;
    [&results.warnings, &results.errors].map(|all| all.messages().map(str::to_owned).collect())
}

fn named(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    crate::ground::texts(all)
}

#[tokio::test]
async fn a_snapshot_is_recorded_as_velero_does() {
    let (ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2")]).await;
    let outcome = backed_up(&ground).await;
    assert_eq!(messages(&outcome), [vec![] as Vec<String>, vec![]]);
    let status = &outcome.backup.status;
    let counts = (status.volume_snapshots_attempted, status.volume_snapshots_completed);
    assert_eq!((status.phase, counts), (Some(BackupPhase::Completed), (2, 2)));
    let snapshots = cloud.snapshots();
    assert_eq!(snapshots.values().collect::<Vec<_>>(), ["east-1", "east-2"]);
    let snapshot = |disk: &str| snapshots.iter().find(|(_, of)| *of == disk).unwrap().0.clone();
    let spec = |volume: &str, disk: &str, zone: &str| {
        json!({"backupName": "b", "backupUID": "u", "location": "east", "persistentVolumeName": volume,
            "providerVolumeID": disk, "volumeType": "fast", "volumeAZ": zone})
    };
    let mut first = spec("pv-a", "east-1", "zone-1");
    first["volumeIOPS"] = 500.into();
    let taken = |disk: &str| json!({"providerSnapshotID": snapshot(disk), "phase": "Completed"});
    let expected = json!([{"spec": first, "status": taken("east-1")},
        {"spec": spec("pv-bb", "east-2", "zone-2"), "status": taken("east-2")}]);
    assert_eq!(file(&ground).await, expected);
    let tags = [
        ("team", "shop"),
        ("velero.io/backup", "b"),
        ("velero.io/pv", "pv-a"),
        ("velero.io/storage-location", "default"),
    ];
    assert_eq!(cloud.of("east-1"), ("zone-1".to_owned(), named(&tags)));
    let info = serde_json::to_value(&infos(&ground).await["a"]).unwrap();
    let expected = json!({"pvcName": "a", "pvcNamespace": "shop", "pvName": "pv-a", "backupMethod": "NativeSnapshot",
        "snapshotDataMoved": false, "preserveLocalSnapshot": false, "skipped": false, "result": "succeeded",
        "startTimestamp": "1970-01-01T00:00:00Z", "completionTimestamp": "1970-01-01T00:00:00Z",
        "nativeSnapshotInfo": {"snapshotHandle": snapshot("east-1"), "volumeType": "fast", "volumeAZ": "zone-1",
            "iops": "500", "Phase": "Completed"},
        "pvInfo": {"reclaimPolicy": "Delete", "labels": {"topology.kubernetes.io/zone": "zone-1"}}});
    assert_eq!(info, expected);
    // With the backup they go.
    let env = ground.env(ground.store());
    assert_eq!(run_delete_actions(&outcome.backup, "u", &env).await, Ok(()));
    assert_eq!(cloud.snapshots(), named(&[]));
    assert_eq!(run_delete_actions(&outcome.backup, "u", &env).await, Ok(()), "again");
}

#[tokio::test]
async fn the_locations_of_a_backup_are_asked_in_their_order() {
    let (mut ground, east) = ground(&[("a", "west-1"), ("b", "north-1")]).await;
    let west = Cloud::new("west");
    ground.actions.volume_snapshotters = vec![east.located(), west.located()];
    // One location cannot say whose a volume is: the next one may.
    east.let_be(|call, volume, _| match (call, volume) {
        ("volume_id", "pv-a") => Fate::Fails(ActionError::item("no credentials")),
        _ => Fate::Good,
    });
    let outcome = backed_up(&ground).await;
    assert_eq!(west.snapshots(), named(&[("snap-1", "west-1")]));
    let [warnings, errors] = messages(&outcome);
    let expected = " resource: /persistentvolumes name: /pv-a message: /its snapshotter could not say whether the volume is one of its location error: \
                    /test/cloud of the location east: no credentials";
    assert_eq!(errors, [expected]);
    assert!(
        warnings[0].starts_with("the data of 1 volume is not in this backup, only its object: shop/b;"),
        "{warnings:?}"
    );
    let info = &infos(&ground).await["b"];
    let reason = "volumeSnapshot: snapshots are taken by default, but no applicable volumesnapshotter found: it is of none of \
                  the locations east, west;";
    assert_eq!((info.skipped, info.skipped_reason.as_str()), (true, reason));
    assert_eq!(outcome.backup.status.volume_snapshots_attempted, 1);
    east.calls();

    // Those that the backup names, and no others.
    let mut request = request();
    request.backup.spec.volume_snapshot_locations = vec!["west".to_owned(), "gone".to_owned()];
    request.backup.metadata.uid = "v".to_owned();
    ground.bucket = Arc::new(lifeboat_bucket::Memory::default());
    let outcome = Box::pin(run(&request, &ground.env(ground.store()))).await.unwrap();
    assert_eq!((east.calls(), west.snapshots().len()), (Vec::new(), 2));
    let expected = "no snapshot is taken in the location gone: there is no snapshotter of the volume snapshot location gone: make the \
                    VolumeSnapshotLocation of that name again, and add the plugin of its provider";
    assert_eq!(messages(&outcome)[1], [expected]);
    let reason = "volumeSnapshot: snapshots are taken by default, but no applicable volumesnapshotter found: it is not of the \
                  location west, and the location gone could not be asked;";
    assert_eq!(infos(&ground).await["b"].skipped_reason, reason);
}

#[tokio::test]
async fn what_fails_costs_its_volume_only() {
    let unknown = ": it is not known whether there is a snapshot: look for one with the tags velero.io/backup=b and \
                   velero.io/pv=pv-a in the storage, and delete it";
    let item = || Fate::Fails(ActionError::item("no quota"));
    for (call, fate, said, attempted, more) in [
        ("volume_facts", item(), "test/cloud of the location east cannot tell of it: no quota".to_owned(), 1, 0),
        ("create_snapshot", item(), "test/cloud of the location east: no quota".to_owned(), 2, 0),
        (
            "create_snapshot",
            Fate::Panics,
            format!("test/cloud of the location east: it panicked: out of order{unknown}"),
            2,
            0,
        ),
        (
            "create_snapshot",
            Fate::FailsAfter(ActionError::gone("killed")),
            format!("test/cloud of the location east: killed{unknown}"),
            2,
            1,
        ),
    ] {
        let (ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2")]).await;
        cloud.let_be(
            move |name, subject, _| if name == call && subject == "east-1" { fate.clone() } else { Fate::Good },
        );
        let outcome = backed_up(&ground).await;
        let expected = format!(
            " resource: /persistentvolumes name: /pv-a message: /the data of the volume is not saved error: /{said}"
        );
        assert_eq!(messages(&outcome)[1], [expected], "{call}");
        let status = &outcome.backup.status;
        let counts = (status.volume_snapshots_attempted, status.volume_snapshots_completed);
        assert_eq!((status.phase, counts), (Some(BackupPhase::PartiallyFailed), (attempted, 1)), "{call}");
        assert_eq!(recorded(&ground).await.values().collect::<Vec<_>>(), ["east-2"], "{call}");
        assert_eq!(cloud.snapshots().len(), 1 + more, "{call}");
        let all = file(&ground).await;
        let failed = all.as_array().unwrap().iter().find(|one| one["spec"]["providerVolumeID"] == "east-1");
        assert_eq!(failed.map(|one| one["status"].clone()), (attempted == 2).then(|| json!({"phase": "Failed"})));
        let info = &infos(&ground).await["a"];
        let expected = if attempted == 2 { ("NativeSnapshot", "failed", false) } else { ("", "failed", true) };
        assert_eq!((info.backup_method.as_str(), info.result.as_str(), info.skipped), expected, "{call}");
    }
}

#[tokio::test]
async fn what_can_pass_is_tried_again() {
    let (ground, cloud) = ground(&[("a", "east-1")]).await;
    cloud.let_be(|_, _, before| if before == 0 { Fate::Fails(ActionError::passing("busy")) } else { Fate::Good });
    let outcome = backed_up(&ground).await;
    assert_eq!((messages(&outcome), cloud.snapshots().len()), ([vec![], vec![]], 1));
}

#[tokio::test]
async fn a_snapshotter_that_can_do_nothing_ends_the_backup_and_leaves_nothing() {
    for call in ["volume_id", "volume_facts", "create_snapshot"] {
        let (ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2")]).await;
        cloud.let_be(move |name, subject, _| match subject {
            "pv-bb" | "east-2" if name == call => Fate::Fails(ActionError::fatal("no licence")),
            _ => Fate::Good,
        });
        let error = Box::pin(run(&request(), &ground.env(ground.store()))).await.unwrap_err().to_string();
        let expected = "the action test/cloud of the location east ended the backup when it was called for \
                        persistentvolumes/pv-bb: no licence: nothing of this backup is visible in the bucket";
        assert_eq!((error.as_str(), cloud.snapshots()), (expected, named(&[])), "{call}");
    }
}

#[tokio::test]
async fn a_cancelled_backup_leaves_nothing_that_is_known_and_tells_of_the_rest() {
    for (hangs, left, told) in [
        ("volume_id", 0, false),
        ("volume_facts", 0, false),
        ("create_snapshot", 0, true),
        ("create_snapshot after", 1, true),
    ] {
        let (ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2")]).await;
        let called = Arc::new(Notify::new());
        let calls = Arc::clone(&called);
        cloud.let_be(move |name, subject, _| match subject {
            "pv-bb" | "east-2" if hangs.starts_with(name) => {
                calls.notify_one();
                if hangs == name { Fate::Hangs } else { Fate::HangsAfter }
            }
            _ => Fate::Good,
        });
        let env = ground.env(ground.store());
        let cancel = env.operation.cancel.clone();
        let request = request();
        let cancels = async {
            called.notified().await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(Box::pin(run(&request, &env)), cancels);
        assert!(matches!(ended, Err(BackupError::Cancelled)), "{hangs}: {ended:?}");
        assert_eq!(cloud.snapshots().len(), left, "{hangs}");
        let results = env.operation.journal.close().results;
        let warnings: Vec<&str> = results.warnings.messages().collect();
        let expected = "it is not known whether there is a snapshot of the PersistentVolume pv-bb (volume east-2, location east) \
                        that this backup has begun, because nobody heard its name: look for one with the tags velero.io/backup=b \
                        and velero.io/pv=pv-bb in the storage, and delete it unless `backup describe --details` names it";
        let expected: &[&str] = if told { &[expected] } else { &[] };
        assert_eq!(warnings, expected, "{hangs}");
    }
}

#[tokio::test]
async fn a_pod_stays_frozen_until_the_snapshot_of_its_volume_is_taken() {
    let (ground, cloud) = ground(&[("free", "east-9")]).await;
    let hooks = json!({"pre.hook.backup.velero.io/command": "freeze", "post.hook.backup.velero.io/command": "thaw"});
    volume(&ground, "a", "east-1", &hooks).await;
    let done = Arc::new(Mutex::new(Vec::new()));
    let (log, calls) = (Arc::clone(&done), Arc::clone(&done));
    ground.proxy.run_commands_by(Arc::new(move |command| {
        log.lock().unwrap().push(command.words[0].clone());
        Ran::default()
    }));
    cloud.let_be(move |name, subject, before| {
        calls.lock().unwrap().push(format!("{name} {subject}"));
        // It takes a while.
        match (name, subject, before) {
            ("create_snapshot", "east-1", 0) => Fate::Fails(ActionError::passing("busy")),
            _ => Fate::Good,
        }
    });
    backed_up(&ground).await;
    let mut done = done.lock().unwrap().clone();
    done.retain(|line| !line.ends_with("free") && !line.ends_with("east-9"));
    let create = "create_snapshot east-1";
    assert_eq!(done, ["freeze", "volume_id pv-a", "volume_facts east-1", create, create, "thaw"]);
}

#[tokio::test]
async fn so_many_calls_of_a_location_run_at_once_and_no_more() {
    let names: Vec<(String, String)> = (0..40).map(|n| (format!("c{n:02}"), format!("east-{n}"))).collect();
    let names: Vec<(&str, &str)> = names.iter().map(|(name, disk)| (name.as_str(), disk.as_str())).collect();
    let (ground, cloud) = ground(&names).await;
    let outcome = backed_up(&ground).await;
    assert_eq!((messages(&outcome), cloud.snapshots().len()), ([vec![], vec![]], 40));
    assert_eq!(cloud.most_at_once(), 16);
}

#[tokio::test]
async fn what_decides_about_volumes_decides_whether_their_snapshotter_is_asked() {
    let (mut ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2"), ("ccc", "east-3")]).await;
    let driver = json!({"driver": "d", "volumeHandle": "east-4"});
    ground
        .put(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-ccc"},
            "spec": {"csi": driver, "awsElasticBlockStore": {"volumeID": "east-3"}, "claimRef": {"namespace": "shop", "name": "ccc"}}}))
        .await;
    let mut request = request();
    request.settings.features.csi = true;
    let text = "version: v1\nvolumePolicies:\n- conditions: {csi: {driver: d}}\n  action: {type: snapshot-native}\n\
                - conditions: {volumeTypes: [awsElasticBlockStore]}\n  action: {type: skip}";
    request.settings.resource_policies = Some(RulesText { source: "p".into(), text: text.into() });
    Box::pin(run(&request, &ground.env(ground.store()))).await.unwrap();
    assert_eq!(cloud.snapshots().values().collect::<Vec<_>>(), ["east-3"]);

    // Its driver is asked instead, or nobody.
    for (policies, csi, snapshots, expected) in
        [(None, true, None, vec!["east-1", "east-2"]), (None, false, Some(false), vec![])]
    {
        let cloud = Cloud::new("east");
        ground.bucket = Arc::new(lifeboat_bucket::Memory::default());
        ground.actions.volume_snapshotters = vec![cloud.located()];
        let mut request = self::request();
        request.settings.features.csi = csi;
        request.settings.resource_policies = policies;
        request.backup.spec.snapshot_volumes = snapshots;
        let outcome = Box::pin(run(&request, &ground.env(ground.store()))).await.unwrap();
        let mut taken: Vec<String> = cloud.snapshots().into_values().collect();
        taken.sort();
        assert_eq!(taken, expected, "{:?}", messages(&outcome));
    }
}

#[tokio::test]
async fn a_snapshot_of_a_volume_that_an_action_leaves_out_does_not_stay() {
    struct LeavesOut;
    #[async_trait::async_trait]
    impl lifeboat_action::BackupItemAction for LeavesOut {
        fn name(&self) -> &str {
            "test/leaves-out"
        }
        fn applies_to(&self) -> lifeboat_action::ActionScope {
            lifeboat_action::ActionScope::resources(&["persistentvolumes"])
        }
        async fn execute(
            &self,
            input: lifeboat_action::BackupItemInput<'_>,
        ) -> Result<lifeboat_action::BackupItemOutput, ActionError> {
            let mut item = input.item;
            if item["metadata"]["name"] == "pv-a" {
                item["metadata"]["annotations"] = json!({"velero.io/skip-from-backup": "true"});
            }
            Ok(lifeboat_action::BackupItemOutput::changed(item))
        }
    }
    for can_delete in [true, false] {
        let (mut ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2")]).await;
        ground.actions.backup_item = vec![Arc::new(LeavesOut)];
        cloud.let_be(move |name, _, _| match name {
            "delete_snapshot" if !can_delete => Fate::Fails(ActionError::item("locked")),
            _ => Fate::Good,
        });
        let outcome = backed_up(&ground).await;
        let told = messages(&outcome)[0].iter().any(|text| {
            text == "the PersistentVolume pv-a is not in the backup, and its snapshot stays until the backup is deleted: \
                     test/cloud of the location east: locked"
        });
        assert_eq!((told, cloud.snapshots().len()), (!can_delete, if can_delete { 1 } else { 2 }));
        assert_eq!(recorded(&ground).await, cloud.snapshots(), "what is there goes with the backup");
    }
}

#[tokio::test]
async fn a_deletion_tells_what_is_not_deleted_and_can_be_done_again() {
    let (mut ground, cloud) = ground(&[("a", "east-1"), ("bb", "east-2"), ("ccc", "west-1")]).await;
    let west = Cloud::new("west");
    ground.actions.volume_snapshotters = vec![cloud.located(), west.located()];
    let backup = backed_up(&ground).await.backup;
    let snapshots = cloud.snapshots();
    let of = |disk: &str| snapshots.iter().find(|(_, of)| *of == disk).unwrap().0.clone();
    let (bad, good) = (of("east-1"), of("east-2"));
    let locked = bad.clone();
    cloud.let_be(move |name, subject, _| match name {
        "delete_snapshot" if subject == locked => Fate::Fails(ActionError::item("locked")),
        _ => Fate::Good,
    });
    // The location `west` is gone.
    ground.actions.volume_snapshotters = vec![cloud.located()];
    let errors = run_delete_actions(&backup, "u", &ground.env(ground.store())).await.unwrap_err();
    let expected = [
        format!("error deleting the snapshot {bad} of the PersistentVolume pv-a: test/cloud of the location east: locked"),
        "error deleting the snapshot snap-1 of the PersistentVolume pv-ccc: there is no snapshotter of the volume snapshot \
         location west: make the VolumeSnapshotLocation of that name again, and add the plugin of its provider"
            .to_owned(),
    ];
    assert_eq!(errors, expected);
    assert!(!cloud.snapshots().contains_key(&good), "one that fails does not keep the others");
    cloud.let_be(|_, _, _| Fate::Good);
    ground.actions.volume_snapshotters.push(west.located());
    assert_eq!(run_delete_actions(&backup, "u", &ground.env(ground.store())).await, Ok(()));
    assert_eq!((cloud.snapshots(), west.snapshots()), (named(&[]), named(&[])));
}

#[tokio::test]
async fn what_a_failed_backup_cannot_delete_is_deleted_with_it() {
    for (is_recorded, is_noted) in [(true, false), (false, true), (true, true)] {
        failed_and_deleted(is_recorded, is_noted).await;
    }
}

async fn failed_and_deleted(is_recorded: bool, is_noted: bool) {
    let (mut ground, cloud) = ground(&[("a", "east-1")]).await;
    let records: Arc<dyn Records> = Arc::new(InMemory::default());
    let env = |ground: &Ground| {
        let mut env = ground.env(ground.store());
        env.operation.records = Arc::clone(&records);
        env
    };
    // It is broken off when its snapshot is taken.
    let broken = env(&ground);
    let cancel = broken.operation.cancel.clone();
    cloud.let_be(move |name, _, _| match name {
        "create_snapshot" => {
            cancel.cancel();
            Fate::Good
        }
        "delete_snapshot" => Fate::Fails(ActionError::item("locked")),
        _ => Fate::Good,
    });
    let ended = Box::pin(run(&request(), &broken)).await;
    assert!(matches!(ended, Err(BackupError::Cancelled)));
    assert_eq!(cloud.snapshots(), named(&[("snap-1", "east-1")]));
    let mut failed = request().backup;
    failed.status.phase = Some(BackupPhase::Failed);
    failed.status.failure_reason = "cancelled".to_owned();
    let failed: Backup = record_failure(failed, &request().settings, &env(&ground)).await.unwrap();
    let told = "the snapshot snap-1 of the PersistentVolume pv-a (volume east-1, location east) that this backup has taken and \
                does not need is not deleted: test/cloud of the location east: locked";
    let results = broken.operation.journal.close().results;
    assert_eq!(results.warnings.messages().collect::<Vec<_>>(), [told]);
    assert_eq!(recorded(&ground).await, cloud.snapshots());
    let bucket = Arc::clone(&ground.bucket);
    // Its files say so, and so do its notes where there are no files.
    ground.bucket = Arc::new(lifeboat_bucket::Memory::default());
    let errors = run_delete_actions(&failed, "u", &env(&ground)).await.unwrap_err();
    assert_eq!(errors, [told]);
    assert!(has_noted_snapshots(&env(&ground).operation).await);
    cloud.let_be(|_, _, _| Fate::Good);
    cloud.calls();
    if is_recorded {
        ground.bucket = bucket;
    }
    let env = if is_noted { env(&ground) } else { ground.env(ground.store()) };
    assert_eq!(run_delete_actions(&failed, "u", &env).await, Ok(()));
    assert!(!has_noted_snapshots(&env.operation).await);
    // Not every provider takes the deletion of what is gone for done.
    assert_eq!(cloud.calls().iter().filter(|call| call.contains("delete_snapshot")).count(), 1);
    assert_eq!(cloud.snapshots(), named(&[]));
}

#[tokio::test]
async fn a_process_that_may_not_act_any_more_takes_no_snapshot() {
    let (ground, cloud) = ground(&[("a", "east-1")]).await;
    let mut env = ground.env(ground.store());
    env.operation.fence = Arc::new(|| Err("the lease was lost".to_owned()));
    let outcome = Box::pin(run(&request(), &env)).await.unwrap();
    assert_eq!(cloud.snapshots(), named(&[]));
    let expected = "the data of the volume is not saved error: /test/cloud of the location east: the lease was lost";
    assert!(messages(&outcome)[1][0].ends_with(expected), "{:?}", messages(&outcome));
}
