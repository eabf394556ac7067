//! No CSI snapshot is lost when the cluster reports an incomplete state for a moment.

use crate::driver::{DRIVER, all_ready, claim, claims, look, request, serve, snapshots, types, waiting};
use crate::ground::{Ground, NAME};
use lifeboat_api::BackupPhase;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::sidecar;
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT, CsiSnapshotInfo};
use lifeboat_backup::{Outcome, Request, finalize, remove_snapshots, run_delete_actions};
use lifeboat_bucket::PutOptions;
use lifeboat_cluster::MergePatch;
use lifeboat_object::Results;
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// The answer to a discovery while the API server does not know its definitions.
fn names_nothing(nth: Nth) -> Rule {
    let body = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []});
    let headers = vec![("content-type", "application/json".to_owned())];
    Rule::new("GET", "/apis", nth, Fault::Answer { status: 200, headers, body: body.to_string() })
}

fn refused(code: u16, reason: &str) -> Fault {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code});
    Fault::Answer { status: code, headers: Vec::new(), body: body.to_string() }
}

async fn made(ground: &Ground, request: &Request) -> Outcome {
    ground.run_backup_beside(request, serve(ground)).await
}

async fn left(ground: &Ground) -> usize {
    let cluster = ground.cluster().await;
    snapshots(&cluster, &types(&cluster).await).await.len()
}

#[tokio::test]
async fn a_backup_waits_while_the_cluster_does_not_name_its_snapshot_types() {
    let ground = claims(1).await;
    let record = waiting(&ground).await;
    all_ready(&ground).await;
    ground.proxy.script(vec![names_nothing(Nth::Every)]);
    let record = look(&ground, record).await;
    assert_eq!(
        (record.status.phase, record.status.backup_item_operations_failed),
        (Some(BackupPhase::WaitingForPluginOperations), 0)
    );
    ground.proxy.script(Vec::new());
    let record = look(&ground, record).await;
    assert_eq!(record.status.phase, Some(BackupPhase::Finalizing));
    ground.proxy.script(vec![names_nothing(Nth::Every)]);
    let error = finalize(record.clone(), false, &ground.env(ground.store())).await.unwrap_err();
    assert!(error.can_pass() && error.to_string().contains("snapshot.storage.k8s.io"), "{error}");
    assert_eq!(left(&ground).await, 1);
    ground.proxy.script(Vec::new());
    let ended = finalize(record, false, &ground.env(ground.store())).await.unwrap();
    assert_eq!((ended.status.phase, ended.status.warnings), (Some(BackupPhase::Completed), 0));
    assert_eq!(left(&ground).await, 0);
}

#[tokio::test]
async fn snapshots_that_could_not_be_taken_out_of_the_cluster_are_told() {
    let ground = claims(1).await;
    let record = waiting(&ground).await;
    all_ready(&ground).await;
    let record = look(&ground, record).await;
    // The first discovery is for what is saved again.
    ground.proxy.script(vec![names_nothing(Nth::Only(2))]);
    let env = ground.env(ground.store());
    let ended = finalize(record, false, &env).await.unwrap();
    assert!(ground.proxy.is_met());
    assert_eq!((ended.status.phase, ended.status.warnings), (Some(BackupPhase::Completed), 1));
    let results: Results = env.store.backup_file(NAME, BackupFile::Results).await.unwrap().unwrap();
    let warnings: Vec<&str> = results.warnings.messages().collect();
    assert!(warnings[0].contains("the objects of 1 snapshots could not be taken out of the cluster"), "{warnings:?}");
    assert_eq!(left(&ground).await, 1);
}

#[tokio::test]
async fn what_a_backup_left_is_not_gone_because_its_type_is_not_named() {
    let ground = claims(0).await;
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "s", "namespace": "shop", "labels": {"velero.io/backup-uid": "u"}}, "spec": {}}))
        .await;
    ground.proxy.script(vec![names_nothing(Nth::Every)]);
    let backup = request().backup;
    assert!(!remove_snapshots(&backup, &ground.env(ground.store())).await);
    assert_eq!(left(&ground).await, 1);
    ground.proxy.script(Vec::new());
    assert!(remove_snapshots(&backup, &ground.env(ground.store())).await);
    assert_eq!(left(&ground).await, 0);
    // A cluster that has no snapshots is another thing.
    let without = Ground::start(&[], Vec::new()).await;
    assert!(remove_snapshots(&backup, &without.env(without.store())).await);
}

#[tokio::test]
async fn a_backup_that_cannot_know_whether_there_are_snapshots_has_an_error() {
    let ground = claims(1).await;
    ground.proxy.script(vec![names_nothing(Nth::Every)]);
    let outcome = made(&ground, &request()).await;
    let errors: Vec<&str> = outcome.results.errors.messages().collect();
    assert!(errors.len() == 1 && errors[0].contains("not all CSI snapshots can be taken"), "{errors:?}");
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::PartiallyFailed));
}

#[tokio::test]
async fn a_snapshot_whose_objects_are_not_both_in_the_backup_is_none() {
    let gone = || refused(404, "NotFound");
    for (path, nth, missing) in [
        ("*/volumesnapshots/velero-data-0-*", Nth::Only(1), "its VolumeSnapshot shop/velero-data-0-"),
        // The first time it is asked for its handle.
        ("*/volumesnapshotcontents/*", Nth::Only(2), "the VolumeSnapshotContent snapcontent-"),
    ] {
        let ground = claims(1).await;
        ground.proxy.script(vec![Rule::new("GET", path, nth, gone())]);
        let outcome = made(&ground, &request()).await;
        assert!(ground.proxy.is_met());
        let errors: Vec<&str> = outcome.results.errors.messages().collect();
        let expected = format!("its snapshot was taken, but {missing}");
        assert!(errors.len() == 1 && errors[0].contains(&expected), "{errors:?}");
        let volumes: Vec<BackupVolumeInfo> =
            ground.store().backup_file(NAME, BackupFile::VolumeInfo).await.unwrap().unwrap();
        let known = volumes.iter().map(|volume| (volume.result.as_str(), volume.csi_snapshot_info.is_some()));
        assert_eq!(known.collect::<Vec<_>>(), [("failed", false)], "{missing}");
        assert_eq!(left(&ground).await, 0, "{missing}");
    }
}

#[tokio::test]
async fn one_watch_follows_the_snapshots_of_a_backup_in_all_namespaces() {
    let (watch, list) = ("*/volumesnapshots?watch=true*", "/apis/snapshot.storage.k8s.io/v1/volumesnapshots*");
    let second = Rule::new("GET", watch, Nth::From(2), refused(403, "Forbidden"));
    // A user who may look into single namespaces only follows each.
    let all = Rule::new("GET", list, Nth::Every, refused(403, "Forbidden"));
    for (rule, is_met) in [(second, false), (all, true)] {
        let ground = claims(1).await;
        for number in 1..5 {
            let namespace = format!("n-{number}");
            ground.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
            claim(&ground, &namespace, number).await;
        }
        ground.proxy.script(vec![rule]);
        let mut request = request();
        request.backup.spec.included_namespaces = vec!["*".to_owned()];
        let outcome = made(&ground, &request).await;
        assert_eq!((outcome.results, ground.proxy.is_met()), (Results::default(), is_met));
        assert_eq!(left(&ground).await, 5);
    }
}

/// A backup of which only the volume information is left.
async fn without_archive(ground: &Ground) {
    let volume = BackupVolumeInfo {
        pvc_namespace: "shop".to_owned(),
        pvc_name: "a".to_owned(),
        backup_method: CSI_SNAPSHOT.to_owned(),
        csi_snapshot_info: Some(CsiSnapshotInfo {
            snapshot_handle: "snap-1".to_owned(),
            driver: DRIVER.to_owned(),
            vsc_name: "gone".to_owned(),
            ..CsiSnapshotInfo::default()
        }),
        ..BackupVolumeInfo::default()
    };
    let bytes = sidecar::encode(&[volume]).unwrap();
    ground.bucket.put(&BackupFile::VolumeInfo.key(NAME), bytes.into(), PutOptions::default()).await.unwrap();
}

#[tokio::test]
async fn without_an_archive_a_snapshot_that_cannot_be_deleted_is_named() {
    let ground = Ground::start(&[], Vec::new()).await;
    without_archive(&ground).await;
    let errors = run_delete_actions(&request().backup, "u", &ground.env(ground.store())).await.unwrap_err();
    let expected = "the snapshot snap-1 of the claim shop/a: error of the action velero.io/csi-volumesnapshotcontent-delete: the snapshot \
        snap-1 of the driver disk.example.com cannot be deleted: the cluster does not serve snapshot.storage.k8s.io";
    assert_eq!(errors, [expected]);
}

#[tokio::test]
async fn what_a_slow_controller_removes_from_a_content_to_delete_is_put_back() {
    let ground = claims(0).await;
    without_archive(&ground).await;
    let cluster = ground.cluster().await;
    let contents = types(&cluster).await.contents;
    let controller = async {
        let found = async || ground.list("volumesnapshotcontents.snapshot.storage.k8s.io").await.pop();
        let until = async |is_so: &dyn Fn(&Value) -> bool| loop {
            match found().await.filter(|content| is_so(content)) {
                Some(content) => return content,
                None => sleep(Duration::from_millis(5)).await,
            }
        };
        let name = until(&|_| true).await["metadata"]["name"].as_str().unwrap().to_owned();
        let patch = async |patch: Value| {
            cluster.patch(&contents, None, &name, MergePatch::of(patch.to_string().into())).await.unwrap();
        };
        patch(json!({"status": {"error": {"message": "the driver was slow"}}})).await;
        until(&|content| content["metadata"]["deletionTimestamp"].is_string()).await;
        patch(json!({"status": {"snapshotHandle": null}})).await;
        until(&|content| content["status"]["snapshotHandle"] == "snap-1").await;
        patch(json!({"metadata": {"finalizers": null}})).await;
    };
    let (backup, env) = (request().backup, ground.env(ground.store()));
    let both = async { tokio::join!(run_delete_actions(&backup, "u", &env), controller) };
    tokio::select! {
        (deleted, ()) = both => assert_eq!(deleted, Ok(())),
        () = sleep(Duration::from_secs(60)) => panic!("it was not put there again"),
    }
}
