use super::*;
use crate::rules::preparation::LOOK_AGAIN;

#[test]
fn one_that_waits_for_others_notes_every_ten_minutes_that_they_move() {
    let slot = "as many run on this node as loadConcurrency allows";
    let queue = "as many are prepared in the cluster as prepareQueueLength allows";
    let pod = pod(json!({"phase": "Running"}));
    for (phase, reason) in [("Prepared", slot), ("New", queue)] {
        let status = json!({"message": reason, "acceptedTimestamp": ago(3600)});
        let made = json!({"creationTimestamp": ago(3600)});
        let waits = |noted: i64| {
            let mut metadata = made.clone();
            if noted > 0 {
                metadata["annotations"] = json!({"lifeboat.io/others-moved-at": ago(noted)});
            }
            transfer(TransferKind::DataUpload, phase, json!({"metadata": metadata, "status": status}))
        };
        let next = |transfer: &Transfer, moved: i64, tells: bool| {
            let others_moved_at = Some(now() - SignedDuration::from_secs(moved));
            let pod = (phase == "Prepared").then_some(&pod);
            let tells_of_waits = tells;
            let full = Situation { has_slot: false, has_queue_room: false, ..situation(transfer) };
            next_step(&Situation { others_moved_at, pod, tells_of_waits, ..full })
        };
        let note = |moved: i64| Step::NoteOthers { moved: now() - SignedDuration::from_secs(moved) };
        let wait = Step::Wait { reason: reason.to_owned(), until: now() + LOOK_AGAIN };
        assert_eq!(next(&waits(0), 20, true), note(20), "{phase}");
        assert_eq!(next(&waits(600), 20, true), wait, "{phase}");
        assert_eq!(next(&waits(620), 20, true), note(20), "{phase}");
        // Those before it stand still too.
        assert_eq!(next(&waits(620), 610, true), wait, "{phase}");
        if phase == "New" {
            assert_eq!(next(&waits(620), 20, false), wait, "another agent notes it");
        }
    }
}

#[test]
fn an_unreadable_one_is_ended_by_one_agent_when_no_other_has_come() {
    for (kind, made, tells, ends) in [
        (TransferKind::DataUpload, 1799, true, false),
        (TransferKind::DataUpload, 1800, true, true),
        (TransferKind::DataUpload, 1800, false, false),
        (TransferKind::DataDownload, 1800, true, true),
        // One node alone may do it.
        (TransferKind::PodVolumeBackup, 0, true, true),
    ] {
        let bad = json!({"operationTimeout": "soon", "tags": 7});
        let new = transfer(kind, "New", json!({"metadata": {"creationTimestamp": ago(made)}, "spec": bad}));
        let step = next_step(&Situation { tells_of_waits: tells, ..situation(&new) });
        let is_ended = matches!(&step, Step::End(ending) if ending.phase == DataPathPhase::Failed);
        let waits = matches!(&step, Step::Note { .. } | Step::Wait { .. });
        assert_eq!((is_ended, waits), (ends, !ends), "{kind:?} {made} {tells}: {step:?}");
        // One that is begun is left alone, and what was made for it goes with it.
        let begun = json!({"spec": {"operationTimeout": "soon", "tags": 7}});
        let mut begun = transfer(kind, "InProgress", begun);
        assert_eq!(next_step(&situation(&begun)), Step::Nothing);
        begun.meta.deletion_timestamp = Some(Time::new(now()));
        assert_eq!(next_step(&situation(&begun)), Step::CleanUp);
        assert_eq!(next_step(&Situation { owner: Owner::Other, ..situation(&begun) }), Step::Nothing);
    }
}

#[test]
fn an_unreadable_one_is_not_ended_while_others_move() {
    let bad = json!({"operationTimeout": "soon", "tags": 7});
    for (noted, moved, ends) in [
        (None, Some(1799), false),
        (None, Some(1800), true),
        // Nothing runs any more, and the last that did is noted.
        (Some(1799), None, false),
        (Some(1800), None, true),
        (None, None, true),
    ] {
        let mut metadata = json!({"creationTimestamp": ago(7200)});
        if let Some(noted) = noted {
            metadata["annotations"] = json!({"lifeboat.io/others-moved-at": ago(noted)});
        }
        let new = transfer(TransferKind::DataUpload, "New", json!({"metadata": metadata, "spec": bad.clone()}));
        let others_moved_at = moved.map(|moved| now() - SignedDuration::from_secs(moved));
        let step = next_step(&Situation { others_moved_at, ..situation(&new) });
        assert_eq!(matches!(step, Step::End(_)), ends, "{noted:?} {moved:?}: {step:?}");
    }
    // It is noted that they do, so that nobody takes the wait for a standstill.
    let metadata = json!({"creationTimestamp": ago(7200)});
    let status = json!({"acceptedTimestamp": ago(7200)});
    let new = json!({"metadata": metadata, "spec": bad, "status": status});
    let new = transfer(TransferKind::DataUpload, "New", new);
    let moved = now() - SignedDuration::from_secs(20);
    let at = Situation { others_moved_at: Some(moved), ..situation(&new) };
    let Step::Note { message } = next_step(&at) else { panic!("it is told first") };
    let told = Transfer { message, ..new.clone() };
    assert_eq!(next_step(&Situation { transfer: &told, ..at }), Step::NoteOthers { moved });
}

#[test]
fn one_whose_node_cannot_attach_more_says_so_and_others_of_its_class_wait() {
    let why = "0/3 nodes are available: 3 node(s) exceed max volume count.";
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why});
    let pod = pod(json!({"phase": "Pending", "conditions": [condition]}));
    let reason = format!("its pod waits for a node that can attach one more volume: {why}");
    let told = |message: &str| {
        let transfer = transfer(TransferKind::DataUpload, "Accepted", json!({"status": {"message": message}}));
        next_step(&Situation { pod: Some(&pod), ..situation(&transfer) })
    };
    assert_eq!(told(""), note(&reason));
    // It may take as long as the wait for a node.
    let full = format!("{reason}; n1 has 25 of 25 volumes of csi.local");
    assert!(matches!(told(&full), Step::Wait { until, .. } if until > now() + SignedDuration::from_hours(3)));
    let new = transfer(TransferKind::DataUpload, "New", json!({}));
    let waits = Situation { class_is_full: true, ..situation(&new) };
    assert_eq!(next_step(&waits), note("others of its storage class wait for a node that can attach one more volume"));
}
