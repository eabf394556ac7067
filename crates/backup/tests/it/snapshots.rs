//! CSI snapshots of a backup, in a cluster in which the test itself is the driver with its controllers.

use crate::driver::{
    DRIVER, FINALIZER, all_ready, claims, look, request, saved, serve, snapshots, take, types, waiting,
};
use crate::ground::{Ground, NAME, Scripted};
use lifeboat_action::BackupItemOutput;
use lifeboat_api::{Backup, BackupPhase, Time};
use lifeboat_archive::gzip;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_backup::{Env, FinalizeError, finalize, remove_snapshots, run};
use lifeboat_hook::{HookPod, Owed};
use lifeboat_object::{GroupResource, ObjectKey, Results};
use lifeboat_operation::{InMemory, TRACE_TARGET};
use lifeboat_select::RulesText;
use lifeboat_store::{ClaimOutcome, ClaimRequest};
use lifeboat_testbed::{Fault, Nth, Ran, Rule, Spans};
use serde_json::{Value, json};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::sleep;

/// Requests for snapshots, without what they asked for. The watch of the backup itself is seen to have ended some time later.
fn requests(ground: &Ground) -> Vec<String> {
    let is_one = |path: &str| path.starts_with("/apis/snapshot.storage.k8s.io/") && !path.contains("watch=");
    let seen = ground.proxy.take_seen().into_iter().filter(|seen| is_one(&seen.path));
    seen.map(|seen| format!("{} {}", seen.method, seen.path.split('?').next().unwrap_or_default())).collect()
}

#[tokio::test]
async fn one_look_at_the_snapshots_of_a_backup_is_two_lists() {
    let ground = claims(40).await;
    let record = waiting(&ground).await;
    drop(ground.proxy.take_seen());
    let record = look(&ground, record).await;
    assert_eq!(record.status.phase, Some(BackupPhase::WaitingForPluginOperations));
    let lists = ["volumesnapshots", "volumesnapshotcontents"]
        .map(|name| format!("GET /apis/snapshot.storage.k8s.io/v1/{name}"));
    assert_eq!(requests(&ground), lists);
    all_ready(&ground).await;
    drop(ground.proxy.take_seen());
    let record = look(&ground, record).await;
    assert_eq!(
        (record.status.phase, record.status.backup_item_operations_completed),
        (Some(BackupPhase::Finalizing), 40)
    );
    assert_eq!(requests(&ground), lists);
}

#[tokio::test]
async fn the_log_of_a_backup_has_the_decision_about_each_volume() {
    let ground = claims(2).await;
    waiting(&ground).await;
    let log = ground.store().backup_file_bytes(NAME, BackupFile::Logs).await.unwrap().unwrap();
    let text = String::from_utf8(gzip::unpack(&log, 1 << 20).unwrap()).unwrap();
    let told: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(r#"msg="Decided about a volume" "#))
        .map(|(_, rest)| rest)
        .collect();
    let expected = ["data-0", "data-1"].map(|claim| {
        format!(
            r#"backup=velero/b volume=shop/{claim} method="CSI snapshot of the class class" reason="snapshots are taken by default""#
        )
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_snapshots_of_a_backup_and_its_end_are_spans_of_their_own() {
    let ground = claims(1).await;
    let spans = Spans::note(TRACE_TARGET);
    let record = waiting(&ground).await;
    let stages = ["claim", "collect", "discover", "process", "publish", "seal", "snapshots", "write"];
    let stages = stages.map(|stage| format!("backup/{stage}"));
    assert_eq!(spans.take(), [&["backup".to_owned()], &stages[..]].concat());
    all_ready(&ground).await;
    let record = look(&ground, record).await;
    assert_eq!(spans.take(), [""; 0], "a look is none");
    let ended = Box::pin(finalize(record, false, &ground.env(ground.store()))).await.unwrap();
    assert_eq!(ended.status.phase, Some(BackupPhase::Completed));
    assert_eq!(spans.take(), ["backup", "backup/finalize"]);
}

#[tokio::test]
async fn a_backup_is_the_same_wherever_it_is_cut_off_while_snapshots_leave() {
    let mut cuts = 0;
    for nth in 1.. {
        let ground = claims(1).await;
        let record = waiting(&ground).await;
        all_ready(&ground).await;
        let record = look(&ground, record).await;
        assert_eq!(record.status.phase, Some(BackupPhase::Finalizing));
        let cut = Rule::new("*", "/apis/snapshot.storage.k8s.io/*", Nth::Only(nth), Fault::Hang);
        ground.proxy.script(vec![cut]);
        let env = ground.env(ground.store());
        let is_whole = tokio::select! {
            ended = Box::pin(finalize(record, false, &env)) => ended.is_ok(),
            () = async { while !ground.proxy.is_met() { sleep(Duration::from_millis(5)).await } } => false,
        };
        ground.proxy.script(Vec::new());
        let env = ground.env(ground.store());
        let ended = again(&env).await.unwrap();
        let status = &ended.status;
        let phase = (status.phase, status.warnings, status.errors);
        assert_eq!(phase, (Some(BackupPhase::Completed), 0, 0), "cut off at request {nth}");
        let results: Results = env.store.backup_file(NAME, BackupFile::Results).await.unwrap().unwrap();
        assert_eq!(results, Results::default(), "cut off at request {nth}");
        let volumes: Vec<BackupVolumeInfo> =
            env.store.backup_file(NAME, BackupFile::VolumeInfo).await.unwrap().unwrap();
        let known = volumes.iter().map(|volume| {
            (volume.result.as_str(), volume.csi_snapshot_info.as_ref().and_then(|snapshot| snapshot.ready_to_use))
        });
        assert_eq!(known.collect::<Vec<_>>(), [("succeeded", Some(true))], "cut off at request {nth}");
        let types = types(&env.cluster).await;
        assert_eq!(snapshots(&env.cluster, &types).await, Vec::<Value>::new(), "cut off at request {nth}");
        ground.verify(&format!("cut off at request {nth}")).await;
        if is_whole {
            break;
        }
        cuts += 1;
    }
    // Both objects are read to be saved again; the snapshot is read for its group and once more, its content kept and deleted, and it is
    // deleted.
    assert_eq!(cuts, 2 + 5);
}

/// Ends the backup from what is stored of it.
async fn again(env: &Env) -> Result<Backup, FinalizeError> {
    finalize(env.store.backup(NAME).await.unwrap(), false, env).await
}

#[tokio::test]
async fn an_unbound_snapshot_goes_with_its_content_whatever_the_class_says() {
    let ground = claims(0).await;
    let labels = json!({"velero.io/backup-uid": "u"});
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "s", "namespace": "shop", "uid": "1234", "labels": labels}, "spec": {}}))
        .await;
    for (name, finalizers) in [("snapcontent-1234", json!([FINALIZER])), ("snapcontent-of-another", json!([]))] {
        ground
            .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
                "metadata": {"name": name, "finalizers": finalizers}, "spec": {"driver": DRIVER, "deletionPolicy": "Retain"}}))
            .await;
    }
    let env = ground.env(ground.store());
    assert!(remove_snapshots(&request().backup, &env).await);
    let types = types(&env.cluster).await;
    assert_eq!(snapshots(&env.cluster, &types).await, Vec::<Value>::new());
    let mut contents = Vec::new();
    for name in ["snapcontent-1234", "snapcontent-of-another"] {
        let body = env.cluster.get(&types.contents, None, name).await.unwrap().unwrap();
        let content: Value = serde_json::from_slice(&body).unwrap();
        let is_deleted = !content["metadata"]["deletionTimestamp"].is_null();
        contents.push((content["spec"]["deletionPolicy"].as_str().unwrap().to_owned(), is_deleted));
    }
    assert_eq!(contents, [("Delete".to_owned(), true), ("Retain".to_owned(), false)]);
}

#[tokio::test]
async fn a_snapshot_that_its_driver_works_on_is_deleted_when_that_has_ended() {
    let ground = claims(0).await;
    let env = ground.env(ground.store());
    let types = types(&env.cluster).await;
    let content = |annotations: Value| {
        json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": "snapcontent-1234", "finalizers": [FINALIZER], "annotations": annotations},
            "spec": {"driver": DRIVER, "deletionPolicy": "Delete"}})
    };
    ground.put(content(json!({"snapshot.storage.kubernetes.io/volumesnapshot-being-created": "yes"}))).await;
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": "s", "namespace": "shop", "uid": "1234", "labels": {"velero.io/backup-uid": "u"}}, "spec": {},
            "status": {"boundVolumeSnapshotContentName": "snapcontent-1234"}}))
        .await;
    drop(ground.proxy.take_seen());
    let is_looked_at = || {
        let looks = |path: &str| path.contains("/volumesnapshotcontents/snapcontent-1234");
        ground.proxy.take_seen().iter().filter(|seen| looks(&seen.path)).count() > 0
    };
    let driver = async {
        // It is looked at twice before the driver ends.
        for _ in 0..2 {
            while !is_looked_at() {
                sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(snapshots(&env.cluster, &types).await.len(), 1);
        ground.put(content(json!({}))).await;
    };
    let backup = request().backup;
    let (is_all, ()) = tokio::join!(remove_snapshots(&backup, &env), driver);
    assert!(is_all);
    assert_eq!(snapshots(&env.cluster, &types).await, Vec::<Value>::new());
}

/// Notes that a pod is owed a command, as an attempt does that freezes it.
async fn owe(env: &Env) {
    let pod = HookPod::of(&json!({"metadata": {"name": "db", "namespace": "shop", "uid": "gone"}}));
    Owed::new(Arc::clone(&env.operation.records)).owe(&pod, &[], Time::new(jiff::Timestamp::UNIX_EPOCH)).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_asked_for_in_a_frozen_pod_and_not_taken_is_asked_for_anew() {
    for (is_owed, is_taken, is_kept) in [(true, false, false), (true, true, true), (false, false, true)] {
        let ground = claims(1).await;
        let first = ground.env(ground.store());
        let types = types(&first.cluster).await;
        let request = request();
        let asking = async {
            while snapshots(&first.cluster, &types).await.is_empty() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = Box::pin(run(&request, &first)) => unreachable!("nobody takes its snapshot"),
            () = asking => {}
        }
        let uid = |all: &[Value]| all[0]["metadata"]["uid"].as_str().unwrap().to_owned();
        let asked_for = uid(&snapshots(&first.cluster, &types).await);
        if is_taken {
            let taken = async {
                while snapshots(&first.cluster, &types).await[0]["status"].is_null() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                () = serve(&ground) => unreachable!("it serves for ever"),
                () = taken => {}
            }
        }
        let mut again = ground.env(ground.store());
        again.operation.records = Arc::new(InMemory::default());
        if is_owed {
            owe(&again).await;
        }
        let mut request = request;
        request.settings.take_over = true;
        // The driver takes what it was asked for at last, unless that is taken back.
        let serving = async {
            let is_there =
                async || snapshots(&first.cluster, &types).await.iter().any(|one| one["metadata"]["uid"] == asked_for);
            while !is_kept && is_there().await {
                sleep(Duration::from_millis(5)).await;
            }
            serve(&ground).await;
        };
        let outcome = tokio::select! {
            outcome = Box::pin(run(&request, &again)) => outcome.unwrap(),
            () = serving => unreachable!("it serves for ever"),
            () = sleep(Duration::from_secs(60)) => panic!("owed {is_owed}, taken {is_taken}: it was not asked for anew"),
        };
        assert_eq!(outcome.results, Results::default());
        let all = snapshots(&first.cluster, &types).await;
        assert_eq!((all.len(), uid(&all) == asked_for), (1, is_kept), "owed {is_owed}, taken {is_taken}");
        let status = &outcome.backup.status;
        assert_eq!((status.csi_volume_snapshots_attempted, status.csi_volume_snapshots_completed), (1, 0));
    }
}

#[tokio::test]
async fn a_claim_that_another_object_names_waits_for_the_hooks_of_its_pod() {
    let mut ground = claims(1).await;
    ground
        .put(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "db", "namespace": "shop", "annotations": {"pre.hook.backup.velero.io/command": "freeze"}},
            "spec": {"containers": [{"name": "db", "image": "i"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}]},
            "status": {"phase": "Running"}}))
        .await;
    ground.set("machine", "names the claim").await;
    ground.set("next", "has its turn when that was done").await;
    let (done, is_done) = sync_channel(1);
    let is_done = Mutex::new(is_done);
    // While the pod is being frozen, the action names its claim.
    ground.proxy.run_commands_by(Arc::new(move |_| {
        is_done.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap();
        Ran::default()
    }));
    let names_claim = move |item: Value| {
        if item["metadata"]["name"] == "next" {
            let _ = done.try_send(());
        }
        let claim = ObjectKey::new(GroupResource::new("", "persistentvolumeclaims"), Some("shop"), "data-0");
        let additional_items = if item["metadata"]["name"] == "machine" { vec![claim] } else { Vec::new() };
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::changed(item) })
    };
    ground.actions.backup_item = vec![Scripted::new(names_claim, |_, _| unreachable!("it begins no operation"))];
    let mut request = request();
    request.settings.item_block_workers = 2;
    let outcome = {
        let env = ground.env(ground.store());
        tokio::select! {
            outcome = Box::pin(run(&request, &env)) => outcome.unwrap(),
            () = serve(&ground) => unreachable!("it serves for ever"),
        }
    };
    assert_eq!(outcome.results, Results::default());
    let cluster = ground.cluster().await;
    let taken = snapshots(&cluster, &types(&cluster).await).await;
    let saved = saved(&ground, "persistentvolumeclaims").await;
    assert_eq!((taken.len(), saved.len()), (1, 1));
    assert_eq!(saved[0]["metadata"]["annotations"]["velero.io/volume-snapshot-name"], taken[0]["metadata"]["name"]);
}

#[tokio::test]
async fn the_snapshot_of_a_claim_that_is_not_saved_is_removed_and_told() {
    let ground = claims(2).await;
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "not allowed",
        "code": 403});
    let refused = Fault::Answer { status: 403, headers: Vec::new(), body: body.to_string() };
    ground.proxy.script(vec![Rule::new("PATCH", "*/volumesnapshots/velero-data-1-*", Nth::Every, refused)]);
    let outcome = {
        let (env, request) = (ground.env(ground.store()), request());
        tokio::select! {
            outcome = Box::pin(run(&request, &env)) => outcome.unwrap(),
            () = serve(&ground) => unreachable!("it serves for ever"),
        }
    };
    let cluster = ground.cluster().await;
    let left = snapshots(&cluster, &types(&cluster).await).await;
    let of: Vec<&str> =
        left.iter().map(|one| one["spec"]["source"]["persistentVolumeClaimName"].as_str().unwrap()).collect();
    assert_eq!(of, ["data-0"]);
    let errors: Vec<&str> = outcome.results.errors.messages().collect();
    assert!(errors.iter().any(|e| e.contains("not allowed")), "{errors:?}");
    let told = "the data of the claim is not saved error: /the claim itself is not in the backup";
    assert!(errors.iter().any(|e| e.contains(told)), "{errors:?}");
    let volumes: Vec<BackupVolumeInfo> =
        ground.store().backup_file(NAME, BackupFile::VolumeInfo).await.unwrap().unwrap();
    let mut known: Vec<(&str, &str, bool)> = volumes
        .iter()
        .map(|volume| (volume.pvc_name.as_str(), volume.result.as_str(), volume.csi_snapshot_info.is_some()))
        .collect();
    known.sort_unstable();
    assert_eq!(known, [("data-0", "", true), ("data-1", "failed", false)]);
}

#[tokio::test]
async fn a_failed_snapshot_that_could_not_be_removed_is_removed_at_the_end() {
    let ground = claims(1).await;
    let refused = Fault::Answer { status: 403, headers: Vec::new(), body: "{}".to_owned() };
    ground.proxy.script(vec![Rule::new("DELETE", "*/volumesnapshots/*", Nth::Only(1), refused)]);
    let (env, mut request) = (ground.env(ground.store()), request());
    request.backup.spec.csi_snapshot_timeout = lifeboat_api::Duration::from_secs(1);
    // Nobody takes it.
    let outcome = Box::pin(run(&request, &env)).await.unwrap();
    assert!(ground.proxy.is_met());
    assert_eq!(outcome.results.errors.messages().count(), 1, "{:?}", outcome.results);
    assert_eq!(snapshots(&env.cluster, &types(&env.cluster).await).await, Vec::<Value>::new());
}

/// The names of claims whose snapshots are asked for and not taken, at each look that finds some; those are taken before the next look.
/// It goes on until it is dropped.
async fn note_asked(ground: &Ground, asked: &Mutex<Vec<Vec<String>>>) {
    let cluster = ground.cluster().await;
    let types = types(&cluster).await;
    loop {
        let all = snapshots(&cluster, &types).await;
        let open: Vec<Value> = all.into_iter().filter(|snapshot| snapshot["status"].is_null()).collect();
        let claim =
            |snapshot: &Value| snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str().unwrap().to_owned();
        if !open.is_empty() {
            asked.lock().unwrap().push(open.iter().map(claim).collect());
        }
        for snapshot in open {
            take(ground, snapshot).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_is_in_an_order_is_snapshotted_in_it_before_all_else() {
    let ground = claims(5).await;
    let (env, mut request) = (ground.env(ground.store()), request());
    let listed = "shop/data-3, shop/data-1".to_owned();
    request.backup.spec.ordered_resources = [("persistentvolumeclaims".to_owned(), listed)].into();
    let asked = Mutex::new(Vec::new());
    let outcome = tokio::select! {
        outcome = Box::pin(run(&request, &env)) => outcome.unwrap(),
        () = note_asked(&ground, &asked) => unreachable!("it serves for ever"),
    };
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::WaitingForPluginOperations), "{:?}", outcome.results);
    let asked = asked.into_inner().unwrap();
    assert_eq!(asked[..2], [vec!["data-3".to_owned()], vec!["data-1".to_owned()]], "{asked:?}");
}

#[tokio::test]
async fn a_snapshot_that_its_driver_refuses_for_good_ends_at_once() {
    let ground = claims(1).await;
    let (env, request) = (ground.env(ground.store()), request());
    let said = "rpc error: code = InvalidArgument desc = no such pool";
    let refuses = async {
        let cluster = ground.cluster().await;
        let types = types(&cluster).await;
        loop {
            for mut snapshot in snapshots(&cluster, &types).await {
                if snapshot["status"].is_null() {
                    snapshot["apiVersion"] = "snapshot.storage.k8s.io/v1".into();
                    snapshot["kind"] = "VolumeSnapshot".into();
                    snapshot["status"] = json!({"readyToUse": false, "error": {"message": said}});
                    ground.put(snapshot).await;
                }
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let outcome = tokio::select! {
        outcome = Box::pin(run(&request, &env)) => outcome.unwrap(),
        () = refuses => unreachable!("it refuses for ever"),
    };
    let errors: Vec<&str> = outcome.results.errors.messages().collect();
    assert!(errors.len() == 1 && errors[0].ends_with(&format!(" is refused: {said}")), "{errors:?}");
}

/// The vanished one was never committed, and its snapshots have its UID.
#[tokio::test]
async fn a_backup_with_the_name_of_a_vanished_one_deletes_its_csi_snapshots() {
    let ground = claims(0).await;
    let (env, mut request) = (ground.env(ground.store()), request());
    request.backup.metadata.namespace = "velero".to_owned();
    for (name, uid) in [("of-vanished", "vanished"), ("of-another", "somebody")] {
        ground
            .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
                "metadata": {"name": name, "namespace": "shop", "labels": {"velero.io/backup-uid": uid}}, "spec": {}}))
            .await;
    }
    let claim = ClaimRequest {
        name: NAME.to_owned(),
        backup_uid: "vanished".to_owned(),
        cluster_uid: env.cluster.uid().await.unwrap(),
        namespace: request.backup.metadata.namespace.clone(),
        take_over: true,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    assert!(matches!(ground.store().claim(&claim).await.unwrap(), ClaimOutcome::Writer(_)));
    // As a server does that finds a claim of its own cluster and namespace.
    request.settings.take_over = true;
    request.settings.served = true;
    let outcome = Box::pin(run(&request, &env)).await.unwrap();
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::Completed), "{:?}", outcome.results);
    let left = snapshots(&env.cluster, &types(&env.cluster).await).await;
    let left: Vec<&str> = left.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["of-another"]);
    assert_eq!(ground.store().backups_before(NAME).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn what_a_policy_says_without_effect_is_in_the_results_of_the_backup() {
    let ground = claims(1).await;
    let (env, mut request) = (ground.env(ground.store()), request());
    let text =
        "version: v1\nvolumePolicies:\n- conditions: {csi: {}}\n  action: {type: skip, parameters: {later: yes}}";
    request.settings.resource_policies = Some(RulesText { source: "p".into(), text: text.into() });
    let outcome = Box::pin(run(&request, &env)).await.unwrap();
    let warnings: Vec<&str> = outcome.results.warnings.messages().collect();
    let told = "the action skip has no parameter \"later\", which has no effect";
    assert!(warnings.iter().any(|warning| warning.contains(told)), "{warnings:?}");
}
