mod attempts;
mod turns;

use super::*;
use crate::exposer::copies::COPY_IN_USE;
use crate::outcome::SavedVolume;
use crate::transfer::TransferKind;
use crate::user_pod::UserPod;
use jiff::Timestamp;
use lifeboat_api::{NodeOs, Time};
use serde_json::{Value, json};

const NOW: &str = "2026-11-28T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn ago(seconds: i64) -> String {
    Time::new(now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A transfer of this kind and phase that was accepted five minutes ago, with these changes.
fn transfer(kind: TransferKind, phase: &str, changes: Value) -> Transfer {
    let spec = match kind {
        TransferKind::PodVolumeRestore => json!({
            "pod": {"namespace": "shop", "name": "db-0", "uid": "pod-uid"}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia", "snapshotID": "k1", "sourceNamespace": "shop",
        }),
        TransferKind::PodVolumeBackup => json!({
            "node": "n1", "pod": {"namespace": "shop", "name": "db-0", "uid": "pod-uid"}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
        }),
        TransferKind::DataDownload => json!({
            "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "backupStorageLocation": "default",
            "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "10m0s",
        }),
        TransferKind::DataUpload => json!({
            "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
            "csiSnapshot": {"volumeSnapshot": "vs", "storageClass": "fast"}, "operationTimeout": "10m0s",
        }),
    };
    let mut object = json!({
        "apiVersion": kind.api_version(), "kind": kind.word(),
        "metadata": {"name": "t", "namespace": "velero", "uid": "uid", "finalizers": [kind.finalizer()]},
        "spec": spec, "status": {"phase": phase, "acceptedTimestamp": ago(300), "node": "n1"},
    });
    merge(&mut object, &changes);
    Transfer::parse(kind, object.to_string().as_bytes()).unwrap()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn pod(status: Value) -> PodView {
    let pod = json!({"metadata": {"namespace": "velero", "name": "t"}, "spec": {"nodeName": "n1"}, "status": status});
    PodView::parse(pod.to_string().as_bytes()).unwrap()
}

fn ended(phase: &str, message: &str) -> PodView {
    let state = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": message}});
    pod(json!({"phase": phase, "containerStatuses": [{"name": "uid", "state": state}]}))
}

fn situation(transfer: &Transfer) -> Situation<'_> {
    Situation {
        transfer,
        pod: None,
        owner: Owner::Us,
        user_pod: UserPod::Ready,
        lost_user_pod: None,
        delivery_seen: None,
        others_moved_at: None,
        has_queue_room: true,
        class_is_full: false,
        has_slot: true,
        tells_of_waits: true,
        cancel_seen: None,
        moved_at: None,
        is_report_due: false,
        prepare_timeout: SignedDuration::from_mins(30),
        now: now(),
    }
}

const RESULT: &str = r#"{"target":{"byPath":"/uid","volumeMode":"Filesystem"},"totalBytes":7}"#;

fn done(message: &str, result: TransferResult) -> Step {
    let (phase, message) = (DataPathPhase::Completed, message.to_owned());
    Step::End(Ending { phase, message, result: Some(result), has_no_pod: false })
}

fn completed() -> Step {
    done("", TransferResult::restored(7))
}

fn wait(reason: &str, seconds: i64) -> Step {
    Step::Wait { reason: reason.to_owned(), until: now() + SignedDuration::from_secs(seconds) }
}

fn note(message: &str) -> Step {
    Step::Note { message: message.to_owned() }
}

fn gone(phase: DataPathPhase, message: &str) -> Step {
    Step::End(Ending { phase, message: message.to_owned(), result: None, has_no_pod: true })
}

fn killed(movers: &[(&str, &str)]) -> Vec<KilledMover> {
    let mover = |(pod, reason): &(&str, &str)| KilledMover::ended(pod, *reason);
    movers.iter().map(mover).collect()
}

fn again(movers: &[(&str, &str)]) -> Step {
    Step::Again { killed: killed(movers) }
}

#[test]
fn a_new_transfer_is_accepted_when_target_and_queue_allow_it() {
    use TransferKind::{DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore};
    for kind in TransferKind::ALL {
        let new = transfer(kind, "New", json!({}));
        let at = situation(&new);
        assert_eq!(next_step(&at), Step::Accept);
        let full = "as many are prepared in the cluster as prepareQueueLength allows";
        assert_eq!(next_step(&Situation { has_queue_room: false, ..at.clone() }), note(full));
        assert_eq!(next_step(&Situation { user_pod: UserPod::Waiting("w".into()), ..at.clone() }), note("w"));
        // It is told once, and of all agents that may take it up by one.
        let told = transfer(kind, "New", json!({"status": {"message": full}}));
        assert_eq!(next_step(&Situation { has_queue_room: false, ..situation(&told) }), wait(full, 5));
        let expected = if kind.is_of_any_node() { wait(full, 5) } else { note(full) };
        let other = Situation { has_queue_room: false, tells_of_waits: false, ..at.clone() };
        assert_eq!(next_step(&other), expected);
        assert_eq!(next_step(&Situation { user_pod: UserPod::Lost("l".into()), ..at.clone() }), Ending::failed("l"));
        assert_eq!(next_step(&Situation { user_pod: UserPod::Elsewhere, ..at.clone() }), Step::Nothing);
        for (made, expected) in [(59, Step::Nothing), (60, Step::FindUserPod)] {
            let old = transfer(kind, "New", json!({"metadata": {"creationTimestamp": ago(made)}}));
            assert_eq!(next_step(&Situation { user_pod: UserPod::Elsewhere, ..situation(&old) }), expected);
        }
        // Any agent ends it when it is canceled.
        let asked = transfer(kind, "New", json!({"spec": {"cancel": true}}));
        let ends = Ending::canceled(format!("Cancel was asked for; nothing was {}", kind.participle()));
        assert_eq!(
            next_step(&Situation { user_pod: UserPod::Elsewhere, owner: Owner::Other, ..situation(&asked) }),
            ends
        );
        let deleted = transfer(kind, "New", json!({"metadata": {"deletionTimestamp": NOW}}));
        let message = format!("Cancel {} because it is being deleted", kind.short_word());
        assert_eq!(next_step(&situation(&deleted)), Ending::canceled(message));
    }
    for (kind, spec, expected) in [
        (DataDownload, json!({"datamover": "velero"}), Step::Accept),
        (DataDownload, json!({"datamover": "kubevirt"}), Step::Nothing),
        (DataDownload, json!({"datamover": "velero-block"}), Step::Accept),
        (DataUpload, json!({"datamover": "velero-fs"}), Step::Accept),
        (DataUpload, json!({"datamover": "kubevirt"}), Step::Nothing),
        (DataUpload, json!({"datamover": "velero-block"}), Step::Accept),
        (
            DataUpload,
            json!({"csiSnapshot": null}),
            Ending::failed(
                "it names no VolumeSnapshot in spec.csiSnapshot: only the snapshots of CSI drivers can be moved",
            ),
        ),
        (
            PodVolumeBackup,
            json!({"uploaderType": "restic"}),
            Ending::failed(
                "it asks for a repository of restic, which node agents neither read nor write: set --uploader-type=kopia at the server",
            ),
        ),
        (
            PodVolumeRestore,
            json!({"uploaderType": "restic"}),
            Ending::failed(
                "its data comes from a repository of restic, which node agents neither read nor write: get its files with \"lifeboat \
                 repo restore --format restic --velero NAMESPACE --bucket URL --password-file FILE SNAPSHOT TARGET\"; \"lifeboat repo snapshots\" with the \
                 same flags lists what is there",
            ),
        ),
    ] {
        let transfer = transfer(kind, "New", json!({"spec": spec}));
        assert_eq!(next_step(&situation(&transfer)), expected);
    }
}

#[test]
fn an_accepted_transfer_becomes_prepared_or_says_what_it_waits_for() {
    let unschedulable = |why: &str| {
        pod(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": why}]}))
    };
    let scheduled = |seconds: i64| {
        let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(seconds)});
        pod(json!({"phase": "Pending", "conditions": [condition]}))
    };
    let unpulled = json!({"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}});
    let full = "0/3 nodes are available: 3 Insufficient memory.";
    let unbound = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    for (kind, word, timeout) in [
        (TransferKind::PodVolumeRestore, "PVR", "timeout on preparing PVR"),
        (TransferKind::DataDownload, "datadownload", "timeout on preparing data download"),
        (TransferKind::PodVolumeBackup, "PVB", "timeout on preparing PVB"),
        (TransferKind::DataUpload, "du", "timeout on preparing data upload"),
    ] {
        let failed = |why: &str| Ending::failed(format!("{timeout}: {why}"));
        for (pod, accepted, expected) in [
            (None, 300, Step::Expose),
            (None, 1800, failed("its pod could not be made")),
            (Some(pod(json!({"phase": "Running"}))), 9000, Step::Prepare { node: "n1".into(), os: NodeOs::Linux }),
            (
                Some(pod(json!({"phase": "Pending", "containerStatuses": [{"name": "uid", "state": unpulled}]}))),
                300,
                Ending::canceled(format!(
                    "found a {word} velero/t with expose error: Container uid in Pod velero/t is in abnormal state: ErrImageNeverPull: not there. mark it as cancel"
                )),
            ),
            (
                Some(ended("Failed", "boom")),
                300,
                Ending::canceled(format!(
                    "found a {word} velero/t with expose error: Pod is in abnormal state [Failed], message [boom]. mark it as cancel"
                )),
            ),
            // Nodes that are full are no failure to prepare.
            (Some(unschedulable(full)), 9000, Step::Note { message: format!("its pod waits for a node: {full}") }),
            (Some(unschedulable(full)), 14400, failed(&format!("its pod waits for a node: {full}"))),
            (Some(unschedulable(unbound)), 1800, failed(&format!("its pod waits for its volume: {unbound}"))),
            (Some(scheduled(60)), 9000, wait("its pod begins on node n1", 1740)),
            (Some(scheduled(1800)), 9000, failed("its pod begins on node n1")),
            (
                Some(pod(json!({"phase": "Pending"}))),
                300,
                wait("its pod has not been looked at by the scheduler", 1500),
            ),
        ] {
            let transfer = transfer(kind, "Accepted", json!({"status": {"acceptedTimestamp": ago(accepted)}}));
            assert_eq!(next_step(&Situation { pod: pod.as_ref(), ..situation(&transfer) }), expected);
        }
        let noted =
            transfer(kind, "Accepted", json!({"status": {"message": format!("its pod waits for a node: {full}")}}));
        let pod = unschedulable(full);
        let expected = wait(&format!("its pod waits for a node: {full}"), 14400 - 300);
        assert_eq!(next_step(&Situation { pod: Some(&pod), ..situation(&noted) }), expected);
    }
}

#[test]
fn a_transfer_that_waits_for_the_copy_of_another_has_more_time() {
    let waits = format!("{COPY_IN_USE}DataUpload/du-1, for which the Secret velero/key was copied with other data");
    let step = |accepted: i64, message: &str| {
        let status = json!({"status": {"acceptedTimestamp": ago(accepted), "message": message}});
        next_step(&situation(&transfer(TransferKind::DataUpload, "Accepted", status)))
    };
    let failed = |why: &str| Ending::failed(format!("timeout on preparing data upload: {why}"));
    assert_eq!(step(1800, "the snapshot is not ready"), failed("the snapshot is not ready"));
    assert_eq!((step(14399, &waits), step(14400, &waits)), (Step::Expose, failed(&waits)));
    // Its pod has the time of one that was made at once.
    let accepted = json!({"status": {"acceptedTimestamp": ago(9000)}});
    let accepted = transfer(TransferKind::DataUpload, "Accepted", accepted);
    let unseen =
        |made: i64| PodView { made: Some(now() - SignedDuration::from_secs(made)), ..pod(json!({"phase": "Pending"})) };
    let step = |made: i64| next_step(&Situation { pod: Some(&unseen(made)), ..situation(&accepted) });
    let why = "its pod has not been looked at by the scheduler";
    assert_eq!((step(60), step(1800)), (wait(why, 1740), failed(why)));
}

#[test]
fn a_prepared_transfer_begins_when_its_node_has_a_slot() {
    let prepared = transfer(TransferKind::DataDownload, "Prepared", json!({}));
    let running = pod(json!({"phase": "Running"}));
    let at = Situation { pod: Some(&running), ..situation(&prepared) };
    assert_eq!(next_step(&at), Step::Begin);
    let full = "as many run on this node as loadConcurrency allows";
    let waits = Situation { has_slot: false, tells_of_waits: false, ..at.clone() };
    assert_eq!(next_step(&waits), note(full));
    let told = transfer(TransferKind::DataDownload, "Prepared", json!({"status": {"message": full}}));
    assert_eq!(next_step(&Situation { transfer: &told, ..waits }), wait(full, 5));
    let evicted = ended("Failed", "");
    let canceled = Ending::canceled(
        "Cancel datadownload because the exposing pod velero/t is in abnormal status for reason Pod is in abnormal state [Failed], message []",
    );
    assert_eq!(next_step(&Situation { pod: Some(&evicted), ..at.clone() }), canceled);
    let removed = again(&[("", "the mover's pod velero/t was removed before it began")]);
    assert_eq!(next_step(&Situation { pod: None, ..at }), removed);
}

#[test]
fn a_running_transfer_ends_as_its_pod_does() {
    let running = pod(json!({"phase": "Running"}));
    for (kind, done) in [
        (TransferKind::PodVolumeRestore, completed()),
        (TransferKind::DataDownload, Step::Deliver { result: TransferResult::restored(7), since: now() }),
    ] {
        for (changes, pod, expected) in [
            (json!({}), Some(running.clone()), Step::Nothing),
            (json!({}), Some(ended("Succeeded", RESULT)), done.clone()),
            (json!({"spec": {"cancel": true}}), Some(ended("Succeeded", RESULT)), done),
            (json!({}), Some(ended("Failed", "no space")), Ending::failed("data path restore failed: no space")),
            (
                json!({"spec": {"cancel": true}}),
                Some(ended("Failed", "e: data path is canceled")),
                Ending::canceled("e: data path is canceled"),
            ),
            (json!({}), None, again(&[("", "the mover's pod velero/t was removed while it ran")])),
            (
                json!({"spec": {"cancel": true}}),
                None,
                gone(DataPathPhase::Canceled, "Cancel was asked for; nothing was restored"),
            ),
            (json!({"spec": {"cancel": true}}), Some(running.clone()), Step::ShowCanceling),
            (
                json!({"metadata": {"deletionTimestamp": NOW}}),
                Some(running.clone()),
                Step::RequestCancel { message: format!("Cancel {} because it is being deleted", kind.short_word()) },
            ),
        ] {
            let transfer = transfer(kind, "InProgress", changes);
            assert_eq!(next_step(&Situation { pod: pod.as_ref(), ..situation(&transfer) }), expected);
        }
    }
    let transfer = transfer(TransferKind::PodVolumeRestore, "InProgress", json!({}));
    let at = Situation { pod: Some(&running), ..situation(&transfer) };
    assert_eq!(next_step(&Situation { is_report_due: true, ..at.clone() }), Step::Report);
    let Step::End(stalled) = next_step(&Situation { moved_at: Some(now() - STALL_LIMIT), ..at.clone() }) else {
        panic!("a transfer that moves nothing ends")
    };
    assert!(stalled.message.starts_with("data path restore failed: no byte was moved for 1 h"), "{}", stalled.message);
    assert_eq!(
        next_step(&Situation { lost_user_pod: Some("the pod is gone".into()), ..at }),
        Ending::failed("the pod is gone")
    );
}

/// The termination message of a backup, with this snapshot.
fn saved(snapshot: &str, bytes: i64) -> String {
    let source = json!({"byPath": "/uid", "volumeMode": "Filesystem"});
    let is_empty = snapshot.is_empty();
    json!({"snapshotID": snapshot, "emptySnapshot": is_empty, "source": source, "totalBytes": bytes, "incrementalBytes": bytes})
        .to_string()
}

#[test]
fn a_backup_of_a_volume_ends_with_its_snapshot_or_without_one_if_empty() {
    let running = transfer(TransferKind::PodVolumeBackup, "InProgress", json!({}));
    let result = |snapshot: Option<&str>, bytes: i64| TransferResult {
        message: String::new(),
        fs_type: String::new(),
        total_bytes: bytes,
        files: 0,
        saved: Some(SavedVolume {
            snapshot_id: snapshot.map(str::to_owned),
            path: "/uid".to_owned(),
            incremental_bytes: bytes,
        }),
    };
    for (pod, expected) in [
        (ended("Succeeded", &saved("k1", 7)), done("", result(Some("k1"), 7))),
        (ended("Succeeded", &saved("", 0)), done("volume was empty so no snapshot was taken", result(None, 0))),
        (
            ended("Succeeded", "{}"),
            Ending::failed("data path backup failed: the mover's pod has ended without the ID of a snapshot"),
        ),
        (ended("Failed", "no room"), Ending::failed("data path backup failed: no room")),
        (ended("Failed", "e: data path is canceled"), Ending::canceled("e: data path is canceled")),
    ] {
        assert_eq!(next_step(&Situation { pod: Some(&pod), ..situation(&running) }), expected);
    }
    let upload = transfer(TransferKind::DataUpload, "InProgress", json!({}));
    let empty = ended("Succeeded", &saved("", 0));
    let empty = Situation { pod: Some(&empty), ..situation(&upload) };
    assert_eq!(next_step(&empty), done("volume was empty so no data was upload", result(None, 0)));
    // The kubelet has taken the volume away while it was read, or nearly so.
    for snapshot in ["k1", ""] {
        let pod = ended("Succeeded", &saved(snapshot, 7));
        let lost = Situation { pod: Some(&pod), lost_user_pod: Some("the pod is gone".into()), ..situation(&running) };
        assert_eq!(next_step(&lost), Ending::failed("the pod is gone"));
    }
}

#[test]
fn a_new_backup_of_a_volume_is_begun_on_its_own_node_only() {
    let new = transfer(TransferKind::PodVolumeBackup, "New", json!({"metadata": {"creationTimestamp": ago(600)}}));
    let at = situation(&new);
    assert_eq!(next_step(&Situation { owner: Owner::Other, ..at.clone() }), Step::Nothing);
    let nobody = Situation { owner: Owner::Nobody("node n1 is gone".into()), ..at.clone() };
    assert_eq!(next_step(&nobody), Ending::failed("node n1 is gone"));
    assert_eq!(next_step(&Situation { user_pod: UserPod::Unseen, ..at }), Step::FindUserPod);
}

#[test]
fn a_pod_that_is_told_to_stop_has_eight_seconds() {
    let transfer = transfer(TransferKind::DataDownload, "Canceling", json!({"spec": {"cancel": true}}));
    let running = pod(json!({"phase": "Running"}));
    let seen = |seconds: i64| Some(now() - SignedDuration::from_secs(seconds));
    let at = Situation { pod: Some(&running), ..situation(&transfer) };
    assert_eq!(next_step(&Situation { cancel_seen: seen(3), ..at.clone() }), wait("its pod stops", 5));
    let removed =
        Ending::canceled("the mover's pod did not stop in time and was removed; the volume is restored in part");
    assert_eq!(next_step(&Situation { cancel_seen: seen(8), ..at.clone() }), removed);
    let transfer = self::transfer(TransferKind::PodVolumeBackup, "Canceling", json!({"spec": {"cancel": true}}));
    let removed = Ending::canceled("the mover's pod did not stop in time and was removed; no snapshot was made");
    assert_eq!(next_step(&Situation { transfer: &transfer, cancel_seen: seen(8), ..at }), removed);
}

#[test]
fn a_cancellation_before_the_pod_runs_ends_at_once() {
    for kind in TransferKind::ALL {
        for phase in ["Accepted", "Prepared"] {
            let asked = transfer(kind, phase, json!({"spec": {"cancel": true}}));
            let ends = Ending::canceled(format!("Cancel was asked for; nothing was {}", kind.participle()));
            assert_eq!(next_step(&situation(&asked)), ends);
            let by_server =
                json!({"spec": {"cancel": true}, "status": {"message": "Cancel PVR on pod volume timeout"}});
            let said = transfer(kind, phase, by_server);
            assert_eq!(next_step(&situation(&said)), Ending::canceled("Cancel PVR on pod volume timeout"));
        }
    }
}

#[test]
fn a_transfer_of_another_node_is_ended_only_when_nobody_else_can() {
    let pod = pod(json!({"phase": "Running"}));
    for kind in TransferKind::ALL {
        for phase in ["Accepted", "Prepared", "InProgress", "Canceling"] {
            let running = transfer(kind, phase, json!({}));
            let at = Situation { pod: Some(&pod), owner: Owner::Other, ..situation(&running) };
            assert_eq!(next_step(&at), Step::Nothing);
            if !kind.is_of_any_node() {
                let nobody = Situation { owner: Owner::Nobody("node n2 is gone".into()), ..at };
                assert_eq!(next_step(&nobody), Ending::failed("node n2 is gone"));
            }
        }
        for (owner, expected) in
            [(Owner::Us, Step::CleanUp), (Owner::Nobody(String::new()), Step::CleanUp), (Owner::Other, Step::Nothing)]
        {
            for phase in ["Completed", "Failed", "Canceled"] {
                let done = transfer(kind, phase, json!({}));
                assert_eq!(next_step(&Situation { owner: owner.clone(), ..situation(&done) }), expected);
                let clean = transfer(kind, phase, json!({"metadata": {"finalizers": []}}));
                assert_eq!(next_step(&Situation { owner: owner.clone(), ..situation(&clean) }), Step::Nothing);
            }
        }
        let bare = transfer(kind, "Prepared", json!({"metadata": {"finalizers": []}}));
        assert_eq!(next_step(&situation(&bare)), Step::AddFinalizer);
    }
}

#[test]
fn a_delivery_that_was_begun_goes_on_without_its_pod() {
    let delivery = r#"{"volume":"pv-1","reclaimPolicy":"Delete","totalBytes":9,"begun":"2026-11-28T11:59:00Z"}"#;
    let annotations = json!({"metadata": {"annotations": {"lifeboat.io/delivery": delivery}}});
    let delivered = transfer(TransferKind::DataDownload, "InProgress", annotations);
    let goes_on = Step::Deliver { result: TransferResult::restored(9), since: now() };
    assert_eq!(next_step(&situation(&delivered)), goes_on);
    // It counts from the first look of an agent, which may be that of any node.
    let seen = now() - SignedDuration::from_secs(7);
    for (owner, expected) in [
        (Owner::Us, Step::Deliver { result: TransferResult::restored(9), since: seen }),
        (Owner::Nobody("node n1 is gone".into()), Step::Deliver { result: TransferResult::restored(9), since: seen }),
        (Owner::Other, Step::Nothing),
    ] {
        assert_eq!(next_step(&Situation { owner, delivery_seen: Some(seen), ..situation(&delivered) }), expected);
    }
}
