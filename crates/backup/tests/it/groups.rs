//! Claims that are snapshotted together, with controllers and a driver that do what they are told.

use crate::ground::{Ground, NAME};
use crate::snapshotted::{
    GROUP_CONTENTS, GROUPS, SNAPSHOTS, archived, claim, ended, errors, eventually, ground, made, objects, request,
    until_nothing_is_left, warnings,
};
use crate::snapshotter::{Mood, Snapshotter, Step, Storage};
use lifeboat_api::{BackupPhase, VolumeGroupFallback};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_backup::{Request, explain_volumes, remove_snapshots, run, run_delete_actions};
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

async fn infos(ground: &Ground) -> Vec<BackupVolumeInfo> {
    ground.store().backup_file(NAME, BackupFile::VolumeInfo).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_group_is_taken_whole_kept_in_the_storage_and_deleted_whole() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db"), ("c", "Web_1"), ("d", "")], &["v1"]).await;
    let outcome = made(&ground, &request()).await;
    assert_eq!((errors(&outcome.results), warnings(&outcome.results)), (vec![], vec![]));
    // The members stay with their group until the backup ends: a driver may take long until they are ready.
    assert_eq!(objects(&ground).await[GROUPS], 2);
    assert_eq!(ended(&ground).await.status.phase, Some(BackupPhase::Completed));
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;

    let storage = snapshotter.storage();
    assert_eq!((storage.groups.len(), storage.snapshots.len(), storage.taken), (2, 1, 2), "{storage:?}");
    let mut seen = BTreeMap::new();
    for info in infos(&ground).await {
        let snapshot = info.csi_snapshot_info.unwrap();
        let of_group = storage.groups.get(&snapshot.volume_group_snapshot_handle);
        let is_known = of_group.map_or(&storage.snapshots, |group| group).contains(&snapshot.snapshot_handle);
        assert!(is_known, "{snapshot:?} {storage:?}");
        seen.insert(info.pvc_name, (snapshot.volume_group, info.result));
    }
    let of = |group: &str| (group.to_owned(), "succeeded".to_owned());
    let expected = [("a", of("db")), ("b", of("db")), ("c", of("Web_1")), ("d", of(""))];
    assert_eq!(seen, expected.map(|(name, of)| (name.to_owned(), of)).into());
    for snapshot in archived(&ground, SNAPSHOTS).await {
        let metadata = &snapshot["metadata"];
        assert_eq!(metadata["ownerReferences"], Value::Null, "{snapshot}");
        assert!(!metadata["finalizers"].to_string().contains("in-group"), "{snapshot}");
        assert_eq!(metadata["labels"]["velero.io/backup-name"], NAME, "{snapshot}");
        let is_single = snapshot["spec"]["source"]["persistentVolumeClaimName"] == "d";
        assert_eq!(
            metadata["annotations"]["velero.io/csi-volumegroupsnapshot-handle"].is_null(),
            is_single,
            "{snapshot}"
        );
    }

    let backup = ground.store().backup(NAME).await.unwrap();
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    until_nothing_is_left(&ground, &snapshotter).await;
    // Again, as after a deletion that was cut off.
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
}

#[tokio::test]
async fn a_group_that_fails_is_an_error_of_each_claim_and_leaves_nothing() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db"), ("c", "")], &["v1"]).await;
    snapshotter.be(Mood::Refuses("the member shop/b on vol-b fails"));
    let outcome = made(&ground, &request()).await;
    let errors = errors(&outcome.results);
    assert_eq!(errors.len(), 2, "{errors:?}");
    for (error, name) in errors.iter().zip(["a", "b"]) {
        assert!(error.contains(&format!("name: /{name} message: /the data of the claim is not saved")), "{error}");
        assert!(error.contains("of the claims a, b was not taken within 3 s"), "{error}");
        assert!(error.contains("the member shop/b on vol-b fails"), "{error}");
    }
    // The pods that mount them are in the backup all the same.
    assert_eq!(archived(&ground, "pods").await.len(), 3);
    assert_eq!(ended(&ground).await.status.phase, Some(BackupPhase::PartiallyFailed));
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    let storage = snapshotter.storage();
    assert_eq!((storage.groups.len(), storage.snapshots.len()), (0, 1), "the one of c");
}

#[tokio::test]
async fn a_group_that_fails_is_taken_one_by_one_where_the_user_allows_it() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
    snapshotter.be(Mood::Refuses("no groups here"));
    let mut request = request();
    request.backup.spec.volume_group_fallback = Some(VolumeGroupFallback::Single);
    let outcome = made(&ground, &request).await;
    assert_eq!(errors(&outcome.results), Vec::<String>::new());
    let warnings = warnings(&outcome.results);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("the snapshots of a, b are of different moments"), "{warnings:?}");
    assert!(warnings[0].contains("no groups here"), "{warnings:?}");
    ended(&ground).await;
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    let storage = snapshotter.storage();
    assert_eq!((storage.groups.len(), storage.snapshots.len()), (0, 2));
}

/// The group is of no claim then, and no report says that anything failed.
#[tokio::test]
async fn a_group_given_up_for_single_snapshots_is_removed_at_the_end() {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500,
        "message": "Internal error occurred: failed calling webhook \"guard\": context deadline exceeded"});
    let unheard = Fault::AnswerAfter { status: 500, body: body.to_string() };
    let kept = Fault::Answer { status: 403, headers: Vec::new(), body: "{}".to_owned() };
    for (mood, rule) in [
        (Mood::Good, Rule::new("POST", "*/volumegroupsnapshots*", Nth::Only(1), unheard)),
        (Mood::Refuses("no groups here"), Rule::new("DELETE", "*/volumegroupsnapshots/*", Nth::Only(1), kept)),
    ] {
        let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
        snapshotter.be(mood.clone());
        ground.proxy.script(vec![rule]);
        let mut request = request();
        request.backup.spec.volume_group_fallback = Some(VolumeGroupFallback::Single);
        let outcome = made(&ground, &request).await;
        assert!(ground.proxy.is_met());
        assert_eq!(errors(&outcome.results), Vec::<String>::new(), "{mood:?}");
        eventually("no group", async || !objects(&ground).await.contains_key(GROUPS)).await;
        let storage = snapshotter.storage();
        assert_eq!((storage.groups.len(), storage.snapshots.len()), (0, 2), "{mood:?}: {storage:?}");
    }
}

#[tokio::test]
async fn controllers_that_do_not_answer_are_waited_for_as_long_as_was_said() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
    snapshotter.be(Mood::NoGroups);
    let outcome = made(&ground, &request()).await;
    let errors = errors(&outcome.results);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("no controller has taken it up"), "{errors:?}");
    assert_eq!(objects(&ground).await, BTreeMap::new());
}

#[tokio::test]
async fn what_keeps_a_group_from_being_taken_is_known_before_the_backup_begins() {
    type Change = fn() -> Value;
    let other_driver: Change = || {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-b"},
            "spec": {"claimRef": {"namespace": "shop", "name": "b"}, "csi": {"driver": "other", "volumeHandle": "v"}}})
    };
    let no_class: Change = || {
        json!({"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass", "metadata": {"name": "together"},
            "driver": "other", "deletionPolicy": "Delete"})
    };
    let unbound: Change = || claim("open", "db", false);
    let cases: [(&[&str], Option<Change>, &str); 4] = [
        (&[], None, "the cluster serves no VolumeGroupSnapshots"),
        (&["v1"], Some(unbound), "not bound, of the claims with its label: open"),
        (
            &["v1"],
            Some(other_driver),
            "the claims with its label are of several drivers: a of disk.example.com, b of other",
        ),
        (&["v1"], Some(no_class), "the cluster has no VolumeGroupSnapshotClass of the driver disk.example.com"),
    ];
    for (versions, change, why) in cases {
        let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], versions).await;
        if let Some(change) = change {
            ground.put(change()).await;
        }
        let explained = Box::pin(explain_volumes(&request(), &ground.env(ground.store()))).await.unwrap();
        let a = explained.volumes.iter().find(|volume| volume.name == "shop/a").unwrap();
        let reason = format!("snapshots are taken by default, but the group db cannot be snapshotted: {why}");
        assert_eq!((a.done.as_str(), &a.reason), ("nothing", &reason));
        assert!(a.advice.as_deref().unwrap().ends_with("(--volume-group-fallback=single)"), "{a:?}");
        let outcome = made(&ground, &request()).await;
        let errors = errors(&outcome.results);
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.iter().all(|error| error.contains(why)), "{errors:?}");
        assert_eq!(snapshotter.storage(), Storage::default());

        let mut single = request();
        single.backup.metadata.name = "b2".to_owned();
        single.backup.metadata.uid = "u2".to_owned();
        single.backup.spec.volume_group_fallback = Some(VolumeGroupFallback::Single);
        let explained = Box::pin(explain_volumes(&single, &ground.env(ground.store()))).await.unwrap();
        let a = explained.volumes.iter().find(|volume| volume.name == "shop/a").unwrap();
        assert_eq!(a.done, "CSI snapshot of the class single", "{why}");
        let outcome = made(&ground, &single).await;
        let told = warnings(&outcome.results);
        assert!(told.iter().any(|one| one.contains("are of different moments") && one.contains(why)), "{told:?}");
        assert!(snapshotter.storage().groups.is_empty(), "{why}");
        assert!(!snapshotter.storage().snapshots.is_empty());
    }
}

#[tokio::test]
async fn claims_outside_the_backup_go_along_and_are_named() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1beta2", "v1"]).await;
    let mut outside = claim("b", "db", true);
    outside["metadata"]["labels"]["velero.io/exclude-from-backup"] = "true".into();
    ground.put(outside).await;
    let outcome = made(&ground, &request()).await;
    let warnings = warnings(&outcome.results);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("the group db takes volumes of claims along that this backup does not snapshot"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains(": b; "), "{warnings:?}");
    assert_eq!(ended(&ground).await.status.phase, Some(BackupPhase::Completed));
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    assert_eq!(snapshotter.storage().groups.values().map(BTreeSet::len).collect::<Vec<_>>(), [2]);
    // The driver wants to be told all snapshots of the group, also that of b.
    let backup = ground.store().backup(NAME).await.unwrap();
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    until_nothing_is_left(&ground, &snapshotter).await;
}

/// The error is one of the first member alone, and the other one must not say that the group is gone.
#[tokio::test]
async fn a_group_is_deleted_also_when_the_first_try_fails_in_passing() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
    made(&ground, &request()).await;
    ended(&ground).await;
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    let backup = ground.store().backup(NAME).await.unwrap();
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500,
        "message": "Internal error occurred: failed calling webhook \"guard\": no endpoints available"});
    let busy = Fault::Answer { status: 500, headers: Vec::new(), body: body.to_string() };
    ground.proxy.script(vec![Rule::new("POST", "*/volumegroupsnapshotcontents*", Nth::Only(1), busy)]);
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    assert!(ground.proxy.is_met());
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn snapshots_without_an_archive_are_deleted_by_the_volume_information() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db"), ("c", "")], &["v1"]).await;
    made(&ground, &request()).await;
    let backup = ended(&ground).await;
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    ground.bucket.delete(&[BackupFile::Tarball.key(NAME)]).await.unwrap();
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn single_snapshots_are_removed_also_where_groups_cannot_be_listed() {
    let (ground, snapshotter) = ground(&[("a", "")], &["v1"]).await;
    made(&ground, &request()).await;
    assert_eq!(snapshotter.storage().snapshots.len(), 1);
    let refused = Fault::Answer { status: 403, headers: Vec::new(), body: "{}".to_owned() };
    ground.proxy.script(vec![Rule::new("GET", "/apis/groupsnapshot.storage.k8s.io/v1/*", Nth::Every, refused)]);
    assert!(!remove_snapshots(&request().backup, &ground.env(ground.store())).await);
    ground.proxy.script(Vec::new());
    until_nothing_is_left(&ground, &snapshotter).await;
}

#[tokio::test]
async fn a_group_that_the_driver_keeps_is_named_and_the_deletion_fails() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
    made(&ground, &request()).await;
    ended(&ground).await;
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    snapshotter.be(Mood::Keeps);
    let backup = ground.store().backup(NAME).await.unwrap();
    let env = ground.env(ground.store());
    tokio::time::pause();
    let errors = Box::pin(run_delete_actions(&backup, "u", &env)).await.unwrap_err();
    tokio::time::resume();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("with 2 snapshots, of shop/a, shop/b, was not deleted from the storage"), "{errors:?}");
    assert!(errors[0].contains("the disks are busy"), "{errors:?}");
    snapshotter.be(Mood::Good);
    assert_eq!(Box::pin(run_delete_actions(&backup, "u", &ground.env(ground.store()))).await, Ok(()));
    until_nothing_is_left(&ground, &snapshotter).await;
}

/// Runs a backup until a group has come so far, and breaks it off there as a crash would: nothing is cleaned up.
async fn crash_at(step: Step, request: &Request, ground: &Ground, snapshotter: &Snapshotter) {
    snapshotter.be(Mood::Halts(step));
    let env = ground.env(ground.store());
    let running = Box::pin(run(request, &env));
    let waiting = eventually("that step", async || {
        let objects = objects(ground).await;
        let count = |name: &str| objects.get(name).copied().unwrap_or_default();
        match step {
            Step::Group => count(GROUPS) == 1,
            Step::Content => count(GROUP_CONTENTS) == 1,
            Step::Taken => snapshotter.storage().taken >= 1,
            Step::Member => count(SNAPSHOTS) == 1,
        }
    });
    tokio::select! {
        _ = running => panic!("it ended before"),
        () = waiting => {}
    }
}

/// A request of an attempt that comes after another one.
fn again() -> Request {
    let mut request = request();
    request.settings.take_over = true;
    request
}

const STEPS: [Step; 4] = [Step::Group, Step::Content, Step::Taken, Step::Member];

#[tokio::test]
async fn an_attempt_after_a_crash_takes_up_the_group_at_any_step() {
    for step in STEPS {
        let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
        crash_at(step, &request(), &ground, &snapshotter).await;
        snapshotter.be(Mood::Good);
        let outcome = made(&ground, &again()).await;
        assert_eq!(errors(&outcome.results), Vec::<String>::new(), "{step:?}");
        ended(&ground).await;
        eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
        let storage = snapshotter.storage();
        assert_eq!((storage.groups.len(), storage.taken), (1, 1), "{step:?}: {storage:?}");
    }
}

#[tokio::test]
async fn an_attempt_with_other_claims_takes_a_new_group_and_removes_the_first() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db"), ("c", "later")], &["v1"]).await;
    crash_at(Step::Taken, &request(), &ground, &snapshotter).await;
    ground.put(claim("c", "db", true)).await;
    snapshotter.be(Mood::Good);
    let outcome = made(&ground, &again()).await;
    assert_eq!(errors(&outcome.results), Vec::<String>::new());
    ended(&ground).await;
    eventually("no object of snapshots", async || objects(&ground).await.is_empty()).await;
    let storage = snapshotter.storage();
    assert_eq!(storage.groups.values().map(BTreeSet::len).collect::<Vec<_>>(), [3], "{storage:?}");
    assert!(storage.snapshots.is_empty(), "{storage:?}");
}

#[tokio::test]
async fn what_a_backup_leaves_that_is_not_run_again_is_removed_by_the_sweep() {
    for (step, recovers) in STEPS.into_iter().flat_map(|step| [(step, true), (step, false)]) {
        let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
        crash_at(step, &request(), &ground, &snapshotter).await;
        if recovers {
            snapshotter.be(Mood::Good);
        }
        let env = ground.env(ground.store());
        let removed = remove_snapshots(&request().backup, &env).await;
        assert!(removed, "{step:?} {recovers}");
        snapshotter.be(Mood::Good);
        until_nothing_is_left(&ground, &snapshotter).await;
    }
}

#[tokio::test]
async fn a_cancelled_backup_leaves_no_group() {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db")], &["v1"]).await;
    snapshotter.be(Mood::Refuses("not yet"));
    let env = ground.env(ground.store());
    let cancel = env.operation.cancel.clone();
    let request = request();
    let running = Box::pin(run(&request, &env));
    let cancelling = async {
        eventually("a group", async || objects(&ground).await.contains_key(GROUP_CONTENTS)).await;
        snapshotter.be(Mood::Good);
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(running, cancelling);
    assert!(outcome.is_err());
    until_nothing_is_left(&ground, &snapshotter).await;
}
