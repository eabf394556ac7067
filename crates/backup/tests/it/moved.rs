//! Claims whose data is moved out of their snapshots, in a cluster in which the test itself is the data mover.

use crate::ground::{Ground, NAME};
use crate::snapshotted::{
    CONTENTS, GROUPS, SNAPSHOTS, archived, errors, ground as snapshotted, made, objects, request as of_snapshots,
    until_nothing_is_left,
};
use crate::snapshotter::{DRIVER, Snapshotter};
use lifeboat_api::{Backup, BackupPhase, DataPathPhase, DataUpload};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_backup::{
    BackupError, FileMoverSettings, Request, finalize, look_after_operations, preview, record_failure,
    remove_snapshots, run,
};
use lifeboat_client::Client;
use lifeboat_cluster::MergePatch;
use lifeboat_object::Results;
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

const UPLOADS: &str = "datauploads.velero.io";

/// A cluster with claims of these names and groups, with a node agent if there is to be one.
async fn ground(claims: &[(&str, &str)], has_node_agent: bool) -> (Ground, Snapshotter) {
    let (ground, snapshotter) = snapshotted(claims, &["v1"]).await;
    ground.put_backup_and_definitions().await;
    if has_node_agent {
        let metadata = json!({"name": "node-agent", "namespace": "velero"});
        ground.put(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata})).await;
    }
    (ground, snapshotter)
}

fn request() -> Request {
    let mut request = of_snapshots();
    "velero".clone_into(&mut request.backup.metadata.namespace);
    request.backup.spec.snapshot_move_data = Some(true);
    request.settings.movers = FileMoverSettings { may_be_used: true, ..FileMoverSettings::default() };
    request
}

async fn client(ground: &Ground) -> Client {
    Client { cluster: ground.cluster().await, namespace: "velero".to_owned() }
}

/// The DataUploads, in the order of their claims.
async fn uploads(ground: &Ground) -> Vec<DataUpload> {
    let mut all = client(ground).await.list::<DataUpload>("").await.unwrap();
    all.sort_by(|a, b| a.spec.source_pvc.cmp(&b.spec.source_pvc));
    all
}

/// Takes over the snapshot of an upload as a node agent does: its objects go from the namespace of the claim, and the snapshot stays in
/// the storage as the agent's.
async fn take_over(ground: &Ground, upload: &DataUpload) {
    let cluster = ground.cluster().await;
    let catalog = cluster.discover().await.unwrap();
    let [snapshots, contents] = [SNAPSHOTS, CONTENTS].map(|name| catalog.find(&name.parse().unwrap()).unwrap().clone());
    let name = &upload.spec.csi_snapshot.as_ref().unwrap().volume_snapshot;
    let namespace = Some(upload.spec.source_namespace.as_str());
    let snapshot: Value =
        serde_json::from_slice(&cluster.get(&snapshots, namespace, name).await.unwrap().unwrap()).unwrap();
    let content = snapshot["status"]["boundVolumeSnapshotContentName"].as_str().unwrap();
    let patch = MergePatch::of(r#"{"spec":{"deletionPolicy":"Retain"}}"#.into());
    cluster.patch(&contents, None, content, patch).await.unwrap();
    cluster.delete(&snapshots, namespace, name).await.unwrap();
    cluster.delete(&contents, None, content).await.unwrap();
}

/// Brings an upload into a phase.
async fn set(ground: &Ground, before: &DataUpload, phase: DataPathPhase) {
    let mut after = before.clone();
    after.status.phase = Some(phase);
    match phase {
        DataPathPhase::Completed => {
            after.status.snapshot_id = format!("id-{}", after.spec.source_pvc);
            (after.status.progress.total_bytes, after.status.progress.bytes_done) = (9, 9);
            after.status.incremental_bytes = 7;
            after.status.completion_timestamp = serde_json::from_str("\"2026-11-21T09:33:55Z\"").unwrap();
        }
        DataPathPhase::Failed => "the disk is gone".clone_into(&mut after.status.message),
        _ => {}
    }
    client(ground).await.change(before, &after).await.unwrap();
}

async fn infos(ground: &Ground) -> Vec<BackupVolumeInfo> {
    ground.store().backup_file(NAME, BackupFile::VolumeInfo).await.unwrap().unwrap()
}

async fn results(ground: &Ground) -> Results {
    ground.store().backup_file(NAME, BackupFile::Results).await.unwrap().unwrap()
}

/// Looks after the operations of the backup, and ends it when none goes on.
async fn ended(ground: &Ground, is_cancelled: bool) -> Backup {
    let env = ground.env(ground.store());
    let record = env.store.backup(NAME).await.unwrap();
    let looked = Box::pin(look_after_operations(record, is_cancelled, &env)).await.unwrap();
    Box::pin(finalize(looked, is_cancelled, &ground.env(ground.store()))).await.unwrap()
}

#[tokio::test]
async fn data_is_moved_out_of_snapshots_and_recorded_as_velero_does() {
    let (ground, snapshotter) = ground(&[("a", ""), ("b", "")], true).await;
    let outcome = made(&ground, &request()).await;
    assert_eq!(outcome.results, Results::default());
    let status = &outcome.backup.status;
    let counts = (status.backup_item_operations_attempted, status.csi_volume_snapshots_attempted);
    assert_eq!((status.phase, counts), (Some(BackupPhase::WaitingForPluginOperations), (2, 0)));
    let all = uploads(&ground).await;
    assert_eq!(all.iter().map(|upload| upload.spec.source_pvc.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let repositories = ground.list("backuprepositories.velero.io").await;
    assert_eq!(repositories.iter().map(|one| &one["metadata"]["name"]).collect::<Vec<_>>(), ["shop-default-kopia"]);
    for upload in &all {
        take_over(&ground, upload).await;
        set(&ground, upload, DataPathPhase::Completed).await;
    }
    let record = ended(&ground, false).await;
    let status = (record.status.phase, record.status.errors, record.status.unprotected_volumes);
    assert_eq!(status, (Some(BackupPhase::Completed), 0, 0), "{:?}", results(&ground).await);
    assert_eq!(record.status.backup_item_operations_completed, 2);

    let upload = &all[0];
    let (snapshot, id) = (
        &upload.spec.csi_snapshot.as_ref().unwrap().volume_snapshot,
        &upload.metadata.labels["velero.io/async-operation-id"],
    );
    let expected = json!({"pvcName": "a", "pvcNamespace": "shop", "pvName": "pv-a", "backupMethod": "CSISnapshot",
        "snapshotDataMoved": true, "preserveLocalSnapshot": false, "skipped": false,
        "completionTimestamp": "2026-11-21T09:33:55Z", "result": "succeeded",
        "csiSnapshotInfo": {"snapshotHandle": "unknown", "size": 0, "driver": DRIVER, "vscName": "unknown",
            "operationID": "unknown", "ReadyToUse": null},
        "snapshotDataMovementInfo": {"dataMover": "velero", "uploaderType": "kopia", "retainedSnapshot": snapshot,
            "snapshotHandle": "id-a", "operationID": id, "size": 9, "incrementalSize": 7, "Phase": "Completed"},
        "pvInfo": {"reclaimPolicy": "", "labels": null}});
    assert_eq!(serde_json::to_value(&infos(&ground).await[0]).unwrap(), expected);
    let claims = archived(&ground, "persistentvolumeclaims").await;
    let metadata = &claims.iter().find(|claim| claim["metadata"]["name"] == "a").unwrap()["metadata"];
    assert_eq!(metadata["labels"], json!({"velero.io/backup-name": NAME, "velero.io/volume-snapshot-name": snapshot}));
    let name = format!("velero/{}", upload.metadata.name);
    let annotations = json!({"velero.io/data-upload-name": name, "velero.io/volume-snapshot-name": snapshot});
    assert_eq!(metadata["annotations"], annotations);
    let mut saved: Vec<Value> =
        archived(&ground, UPLOADS).await.iter().map(|upload| upload["status"]["snapshotID"].clone()).collect();
    saved.sort_by_key(Value::to_string);
    assert_eq!(saved, ["id-a", "id-b"]);
    for resource in [SNAPSHOTS, CONTENTS, "volumesnapshotclasses.snapshot.storage.k8s.io"] {
        assert_eq!(archived(&ground, resource).await, Vec::<Value>::new(), "{resource}");
    }
    crate::snapshotted::eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    // Which the node agent deletes.
    assert_eq!(snapshotter.storage().snapshots.len(), 2);
    ground.verify("it has ended").await;
}

#[tokio::test]
async fn data_that_is_not_moved_is_an_error_and_its_snapshot_is_deleted() {
    let (ground, snapshotter) = ground(&[("a", ""), ("b", "")], true).await;
    assert_eq!(made(&ground, &request()).await.backup.status.unprotected_volumes, 0);
    let all = uploads(&ground).await;
    // Nobody has taken either of them up.
    set(&ground, &all[0], DataPathPhase::Failed).await;
    set(&ground, &all[1], DataPathPhase::Canceled).await;
    let record = ended(&ground, false).await;
    let status = (record.status.phase, record.status.errors, record.status.unprotected_volumes);
    assert_eq!(status, (Some(BackupPhase::PartiallyFailed), 2, 2));
    let told = errors(&results(&ground).await);
    assert!(told.iter().any(|told| told.contains("name: /a") && told.contains("the disk is gone")), "{told:?}");
    assert!(told.iter().any(|told| told.contains("name: /b") && told.contains("DataUpload is canceled")), "{told:?}");
    let facts = |info: &BackupVolumeInfo| (info.result.clone(), info.message.clone());
    let found: Vec<_> = infos(&ground).await.iter().map(facts).collect();
    let failed = |why: &str| ("failed".to_owned(), format!("{why}, plugin: velero.io/csi-pvc-backupper"));
    assert_eq!(found, [failed("the disk is gone"), failed("DataUpload is canceled")]);
    until_nothing_is_left(&ground, &snapshotter).await;
}

/// Also where the end is cut off at any request: the volume counts once.
#[tokio::test]
async fn a_backup_whose_end_is_cut_off_counts_data_that_is_not_moved_once() {
    for nth in 1.. {
        let (ground, snapshotter) = ground(&[("a", "")], true).await;
        made(&ground, &request()).await;
        set(&ground, &uploads(&ground).await[0], DataPathPhase::Failed).await;
        let env = ground.env(ground.store());
        let record = env.store.backup(NAME).await.unwrap();
        let record = Box::pin(look_after_operations(record, false, &env)).await.unwrap();
        ground.proxy.script(vec![Rule::new("*", "/apis/*", Nth::Only(nth), Fault::Hang)]);
        let is_whole = tokio::select! {
            ended = Box::pin(finalize(record, false, &env)) => ended.is_ok(),
            () = async { while !ground.proxy.is_met() { sleep(Duration::from_millis(5)).await } } => false,
        };
        ground.proxy.script(Vec::new());
        let record = ended(&ground, false).await;
        let status = (record.status.phase, record.status.errors, record.status.unprotected_volumes);
        assert_eq!(status, (Some(BackupPhase::PartiallyFailed), 1, 1), "cut off at request {nth}");
        until_nothing_is_left(&ground, &snapshotter).await;
        if is_whole {
            assert!(nth > 3, "the upload is read, and the snapshot is looked for and deleted");
            return;
        }
    }
}

#[tokio::test]
async fn an_attempt_after_a_crash_takes_up_what_data_movers_work_on() {
    let (ground, snapshotter) = ground(&[("taken", ""), ("new", ""), ("failed", "")], true).await;
    made(&ground, &request()).await;
    let before = uploads(&ground).await;
    let [failed, new, taken] = &before[..] else { panic!("{before:?}") };
    take_over(&ground, taken).await;
    set(&ground, taken, DataPathPhase::InProgress).await;
    set(&ground, failed, DataPathPhase::Failed).await;
    let mut again = request();
    again.settings.take_over = true;
    again.backup.status.attempt = 2;
    // The record of the first attempt is not there, as after a crash.
    ground.bucket.delete(&["backups/b/velero-backup.json".to_owned()]).await.unwrap();
    let outcome = made(&ground, &again).await;
    assert_eq!(outcome.results, Results::default());
    let after = uploads(&ground).await;
    let ids = |all: &[DataUpload]| all.iter().map(|upload| upload.metadata.uid.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&after)[1..], [new.metadata.uid.clone(), taken.metadata.uid.clone()]);
    assert_ne!(ids(&after)[0], failed.metadata.uid, "it is asked for once more");
    assert!(after.iter().all(|upload| !upload.spec.cancel), "{after:?}");
    let snapshots = ground.list(SNAPSHOTS).await;
    let mut claims: Vec<&str> = snapshots
        .iter()
        .map(|snapshot| snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str().unwrap())
        .collect();
    claims.sort_unstable();
    assert_eq!(claims, ["failed", "new"], "a snapshot that a data mover has taken over is not taken again");
    assert_eq!(snapshotter.storage().snapshots.len(), 3);
}

#[tokio::test]
async fn a_group_whose_data_is_moved_goes_whole_when_all_uploads_have_ended() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], true).await;
    assert_eq!(made(&ground, &request()).await.results, Results::default());
    let all = uploads(&ground).await;
    assert_eq!(all.len(), 2);
    // A node agent leaves the snapshots of a group to the backup.
    set(&ground, &all[0], DataPathPhase::Completed).await;
    let waits = ended(&ground, false).await;
    assert_eq!(waits.status.phase, Some(BackupPhase::WaitingForPluginOperations));
    assert_eq!((objects(&ground).await[GROUPS], objects(&ground).await[SNAPSHOTS]), (1, 2));
    set(&ground, &all[1], DataPathPhase::Failed).await;
    assert_eq!(ended(&ground, false).await.status.phase, Some(BackupPhase::PartiallyFailed));
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn a_group_goes_when_node_agents_have_removed_what_they_made_of_it() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], true).await;
    made(&ground, &request()).await;
    let finalizers = |all: Vec<DataUpload>, finalizers: &'static [&'static str]| async {
        for before in all {
            let mut after = before.clone();
            after.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
            client(&ground).await.change(&before, &after).await.unwrap();
        }
    };
    for upload in uploads(&ground).await {
        set(&ground, &upload, DataPathPhase::Completed).await;
    }
    finalizers(uploads(&ground).await, &["velero.io/data-upload-download-finalizer"]).await;
    let clean_up = async {
        // The end of the volumes is stored before anything is removed.
        crate::snapshotted::eventually("the results of the volumes", async || {
            infos(&ground).await.iter().all(|info| info.result == "succeeded")
        })
        .await;
        let groups = ground.list(GROUPS).await;
        finalizers(uploads(&ground).await, &[]).await;
        groups.iter().map(|group| group["metadata"]["deletionTimestamp"].is_null()).collect::<Vec<_>>()
    };
    let (record, groups) = tokio::join!(ended(&ground, false), clean_up);
    assert_eq!((record.status.phase, groups), (Some(BackupPhase::Completed), vec![true]));
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn a_group_of_which_one_snapshot_stays_is_kept_whole() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], true).await;
    ground.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies", "namespace": "velero"},
        "data": {"p": "version: v1\nvolumePolicies: [{conditions: {pvcLabels: {stay: 'yes'}}, action: {type: snapshot-csi}}]"}})).await;
    let mut staying = crate::snapshotted::claim("b", "db", true);
    staying["metadata"]["labels"]["stay"] = "yes".into();
    ground.put(staying).await;
    let mut request = request();
    request.backup.spec.resource_policy =
        serde_json::from_value(json!({"kind": "configmap", "name": "policies"})).unwrap();
    assert_eq!(made(&ground, &request).await.results, Results::default());
    let all = uploads(&ground).await;
    assert_eq!(all.iter().map(|upload| upload.spec.source_pvc.as_str()).collect::<Vec<_>>(), ["a"]);
    set(&ground, &all[0], DataPathPhase::Completed).await;
    assert_eq!(ended(&ground, false).await.status.phase, Some(BackupPhase::Completed), "{:?}", results(&ground).await);
    crate::snapshotted::eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    assert_eq!(snapshotter.storage().groups.values().map(BTreeSet::len).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn a_cancelled_backup_stops_its_uploads_and_names_what_they_have_moved() {
    let (ground, _snapshotter) = ground(&[("done", ""), ("going-on", "")], true).await;
    made(&ground, &request()).await;
    let all = uploads(&ground).await;
    set(&ground, &all[0], DataPathPhase::Completed).await;
    let record = ended(&ground, true).await;
    let status = (record.status.phase, record.status.unprotected_volumes);
    assert_eq!(status, (Some(BackupPhase::PartiallyFailed), 1));
    let cancelled: Vec<bool> = uploads(&ground).await.iter().map(|upload| upload.spec.cancel).collect();
    assert_eq!(cancelled, [false, true]);
    let handle = |info: &BackupVolumeInfo| info.other["snapshotDataMovementInfo"]["snapshotHandle"].clone();
    let found: Vec<_> = infos(&ground).await.iter().map(|info| (info.result.clone(), handle(info))).collect();
    assert_eq!(found, [("succeeded".to_owned(), json!("id-done")), ("failed".to_owned(), json!(""))]);
}

#[tokio::test]
async fn a_backup_that_does_not_come_to_its_end_stops_its_uploads() {
    let (ground, snapshotter) = ground(&[("a", "")], true).await;
    made(&ground, &request()).await;
    assert!(remove_snapshots(&request().backup, &ground.env(ground.store())).await);
    assert!(uploads(&ground).await[0].spec.cancel);
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn data_movers_outlive_the_stop_of_a_server_but_no_cancellation() {
    let (ground, snapshotter) = ground(&[("a", "")], true).await;
    made(&ground, &request()).await;
    ground.bucket.delete(&["backups/b/velero-backup.json".to_owned()]).await.unwrap();
    let mut again = request();
    again.settings.take_over = true;
    again.backup.status.attempt = 2;
    for is_server_stopped in [true, false] {
        let env = ground.env(ground.store());
        env.operation.cancel.cancel();
        if is_server_stopped {
            env.operation.shutdown.cancel();
        }
        let ended = Box::pin(run(&again, &env)).await;
        assert!(ended.is_err(), "{ended:?}");
        let cancelled: Vec<bool> = uploads(&ground).await.iter().map(|upload| upload.spec.cancel).collect();
        assert_eq!(cancelled, [!is_server_stopped]);
        if is_server_stopped {
            assert_eq!(objects(&ground).await.get(SNAPSHOTS).copied(), Some(1));
        }
    }
    // The controllers of the snapshot remove it when it is no longer wanted.
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn a_failed_backup_names_what_lies_in_repositories_so_that_it_is_deleted() {
    let (ground, _snapshotter) = ground(&[("a", ""), ("b", "")], true).await;
    made(&ground, &request()).await;
    set(&ground, &uploads(&ground).await[0], DataPathPhase::Completed).await;
    ground.bucket.delete(&["backups/b/velero-backup.json".to_owned()]).await.unwrap();
    let mut failed = request();
    failed.settings.take_over = true;
    failed.backup.status.phase = Some(BackupPhase::Failed);
    let env = ground.env(ground.store());
    Box::pin(record_failure(failed.backup.clone(), &failed.settings, &env)).await.unwrap();
    let facts = |info: &BackupVolumeInfo| {
        (info.pvc_name.clone(), info.result.clone(), info.other["snapshotDataMovementInfo"]["snapshotHandle"].clone())
    };
    let found: Vec<_> = infos(&ground).await.iter().map(facts).collect();
    // The second may bring something into the repository still.
    let expected = [("a", "id-a"), ("b", "")].map(|(claim, id)| (claim.to_owned(), "failed".to_owned(), json!(id)));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_failed_backup_names_its_pod_volume_backups() {
    let (ground, _snapshotter) = ground(&[], true).await;
    let pod_volume = |name: &str, uid: &str| {
        json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": name, "namespace": "velero", "labels": {"velero.io/backup-uid": uid}},
            "spec": {"pod": {"namespace": "shop", "name": "db"}, "volume": "data", "uploaderType": "kopia"},
            "status": {"phase": "Failed"}})
    };
    ground.put(pod_volume("own", "u")).await;
    ground.put(pod_volume("other", "v")).await;
    let mut failed = request();
    failed.backup.status.phase = Some(BackupPhase::Failed);
    let env = ground.env(ground.store());
    Box::pin(record_failure(failed.backup.clone(), &failed.settings, &env)).await.unwrap();
    let stored: Vec<Value> = ground.store().backup_file(NAME, BackupFile::PodVolumeBackups).await.unwrap().unwrap();
    assert_eq!(stored.iter().map(|one| &one["metadata"]["name"]).collect::<Vec<_>>(), ["own"]);
}

#[tokio::test]
async fn a_backup_without_a_node_agent_is_refused_before_it_begins() {
    let (ground, snapshotter) = ground(&[("a", "")], false).await;
    let why = "the data of volumes would have to be moved, and no node agent is there that does it (`install --use-node-agent`; \
               `local backup` has none): the data of snapshots is moved (snapshotMoveData): shop/a; --allow-unprotected \
               (spec.allowUnprotected) makes the backup without it";
    let refused = Box::pin(run(&request(), &ground.env(ground.store()))).await;
    assert!(matches!(&refused, Err(BackupError::Invalid(e)) if e.0 == [why]), "{refused:?}");
    let previewed = Box::pin(preview(&request(), &ground.env(ground.store()))).await.unwrap();
    assert_eq!(errors(&previewed.results), [format!("the backup would be refused: {why}")]);
    let advice = previewed.volumes.iter().map(|volume| volume.advice.as_deref()).collect::<Vec<_>>();
    assert_eq!(advice, [Some("bring a node agent into the cluster (`install --use-node-agent`)")]);

    let mut allowed = request();
    allowed.backup.spec.allow_unprotected = true;
    let outcome = made(&ground, &allowed).await;
    let status = (outcome.backup.status.phase, outcome.backup.status.unprotected_volumes);
    assert_eq!(status, (Some(BackupPhase::Completed), 1));
    assert!(uploads(&ground).await.is_empty());
    assert_eq!(snapshotter.storage().snapshots.len(), 0, "no snapshot is taken that nobody moves");
}

#[tokio::test]
async fn a_node_agent_that_is_ready_nowhere_is_waited_for_with_a_warning() {
    let (ground, _snapshotter) = ground(&[("a", ""), ("b", "")], true).await;
    let mut agent = ground.list("daemonsets.apps").await.remove(0);
    agent["status"] = json!({"numberReady": 0});
    ground.put(agent).await;
    let outcome = made(&ground, &request()).await;
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::WaitingForPluginOperations));
    let told: Vec<&str> = outcome.results.warnings.messages().collect();
    let expected = "the data of 2 volumes waits for a node agent: that in namespace velero is ready on no node; `kubectl -n velero describe \
                    daemonset node-agent`, or `describe pods -l role=node-agent`, says why";
    assert_eq!(told, [expected]);
    assert_eq!(uploads(&ground).await.len(), 2);
}

#[tokio::test]
async fn a_data_mover_of_somebody_else_is_waited_for_and_needs_no_node_agent() {
    let (ground, snapshotter) = ground(&[("a", "")], false).await;
    let mut request = request();
    "kubevirt".clone_into(&mut request.backup.spec.data_mover);
    assert_eq!(made(&ground, &request).await.results, Results::default());
    let all = uploads(&ground).await;
    assert_eq!(all.iter().map(|upload| upload.spec.data_mover.as_str()).collect::<Vec<_>>(), ["kubevirt"]);
    assert_eq!(ground.list("backuprepositories.velero.io").await, Vec::<Value>::new());
    set(&ground, &all[0], DataPathPhase::Completed).await;
    assert_eq!(ended(&ground, false).await.status.phase, Some(BackupPhase::Completed));
    let infos = infos(&ground).await;
    assert_eq!(infos[0].other["snapshotDataMovementInfo"]["dataMover"], "kubevirt");
    // What the mover leaves may be what it keeps.
    let is_one =
        async || objects(&ground).await.get(SNAPSHOTS) == Some(&1) && snapshotter.storage().snapshots.len() == 1;
    crate::snapshotted::eventually("one snapshot alone", is_one).await;
}

/// Replaces the definition of DataUploads by one whose spec is changed so.
async fn define(ground: &Ground, change: impl FnOnce(&mut Value)) {
    let mut definition = lifeboat_api::crds().into_iter().find(|one| one["metadata"]["name"] == UPLOADS).unwrap();
    change(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]);
    ground.put(definition).await;
}

#[tokio::test]
async fn uploads_have_the_fields_of_the_definition_or_no_snapshot_is_taken() {
    let (ground, snapshotter) = ground(&[("a", "")], true).await;
    define(&ground, |spec| spec["required"].as_array_mut().unwrap().push(json!("quantum"))).await;
    let told = errors(&made(&ground, &request()).await.results);
    let expected = "the cluster's definition of DataUpload requires spec.quantum";
    assert!(told.iter().any(|told| told.contains(expected)), "{told:?}");
    assert!(uploads(&ground).await.is_empty());
    assert_eq!(snapshotter.storage().snapshots.len(), 0);

    let (ground, _snapshotter) = self::ground(&[("a", "")], true).await;
    let namespace = json!({"type": "string"});
    define(&ground, |spec| spec["properties"]["csiSnapshot"]["properties"]["volumeSnapshotNamespace"] = namespace)
        .await;
    assert_eq!(made(&ground, &request()).await.results, Results::default());
    let all = uploads(&ground).await;
    let snapshot = all[0].spec.csi_snapshot.as_ref().unwrap();
    assert_eq!(snapshot.other.get("volumeSnapshotNamespace"), Some(&json!("shop")));
}
