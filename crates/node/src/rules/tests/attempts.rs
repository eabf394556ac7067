use super::*;

/// A pod with this UID that the kubelet has evicted.
fn evicted(uid: &str) -> PodView {
    PodView { uid: uid.to_owned(), ..pod(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})) }
}

#[test]
fn a_transfer_whose_mover_is_killed_is_tried_three_times_in_all() {
    const EVICTED: &str = "data path pod was evicted, message: low on memory";
    for kind in TransferKind::ALL {
        for phase in ["Accepted", "Prepared", "InProgress"] {
            let noted = |movers: &[(&str, &str)]| {
                let text = serde_json::to_string(&killed(movers)).unwrap();
                transfer(kind, phase, json!({"metadata": {"annotations": {"lifeboat.io/killed-movers": text}}}))
            };
            let pod = evicted("p3");
            let step = |transfer: &Transfer| next_step(&Situation { pod: Some(&pod), ..situation(transfer) });
            assert_eq!(step(&transfer(kind, phase, json!({}))), again(&[("p3", EVICTED)]));
            let second = noted(&[("p1", "drained")]);
            assert_eq!(step(&second), again(&[("p1", "drained"), ("p3", EVICTED)]));
            let third = noted(&[("p1", "drained"), ("", "removed")]);
            let context = kind.failure_context();
            let message = format!("{context}: attempt 1: drained; attempt 2: removed; attempt 3: {EVICTED}");
            assert_eq!(step(&third), Ending::failed(message));
        }
        // The pod that was killed goes before the next one is made.
        let text = serde_json::to_string(&killed(&[("p1", "drained")])).unwrap();
        let noted = json!({"metadata": {"annotations": {"lifeboat.io/killed-movers": text}}});
        let (accepted, old) = (transfer(kind, "Accepted", noted), evicted("p1"));
        assert_eq!(next_step(&Situation { pod: Some(&old), ..situation(&accepted) }), Step::RemoveKilledPod);
        assert_eq!(next_step(&situation(&accepted)), Step::Expose);
    }
}

#[test]
fn no_mover_follows_after_a_cancellation_or_without_the_volume() {
    let pod = evicted("p1");
    let canceled = transfer(TransferKind::DataUpload, "InProgress", json!({"spec": {"cancel": true}}));
    let failed = Ending::failed("data path backup failed: data path pod was evicted, message: low on memory");
    assert_eq!(next_step(&Situation { pod: Some(&pod), ..situation(&canceled) }), failed);
    let lost = transfer(TransferKind::PodVolumeBackup, "InProgress", json!({}));
    for pod in [Some(&pod), None] {
        let at = Situation { pod, lost_user_pod: Some("the pod is gone".into()), ..situation(&lost) };
        assert_eq!(next_step(&at), Ending::failed("the pod is gone"));
    }
}

/// A pod on this node that the cluster takes for ready or not.
fn on_node(phase: &str, is_ready: bool) -> PodView {
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    PodView { uid: "p1".to_owned(), ..pod(json!({"phase": phase, "conditions": [ready]})) }
}

#[test]
fn a_move_goes_on_when_its_node_or_its_agent_is_lost() {
    const WHY: &str = "node n1 has no agent";
    let leaving = PodView { is_being_deleted: true, ..on_node("Pending", false) };
    let waiting = PodView { node: String::new(), ..on_node("Pending", false) };
    let unheard = PodView { not_ready_since: Some(now() - SignedDuration::from_mins(3)), ..on_node("Running", false) };
    let succeeded = |message: &str| PodView { uid: "p1".to_owned(), ..ended("Succeeded", message) };
    for kind in [TransferKind::DataUpload, TransferKind::DataDownload] {
        let result = if kind.is_backup() { saved("k1", 7) } else { RESULT.to_owned() };
        for (phase, pod, expected) in [
            // Nobody has made a pod, or it has no node yet: another agent prepares it.
            ("Accepted", None, Step::Accept),
            ("Accepted", Some(waiting.clone()), Step::Accept),
            ("Accepted", Some(on_node("Pending", false)), Step::Accept),
            // The agent alone is gone.
            ("Accepted", Some(on_node("Running", true)), Step::Prepare { node: "n1".into(), os: NodeOs::Linux }),
            ("Prepared", Some(on_node("Running", true)), Step::Begin),
            ("InProgress", Some(on_node("Running", true)), Step::Nothing),
            // The node is gone with it.
            ("Accepted", Some(leaving.clone()), unconfirmed("p1", WHY, now())),
            ("Prepared", Some(on_node("Running", false)), unconfirmed("p1", WHY, now())),
            ("InProgress", Some(unheard.clone()), unconfirmed("p1", WHY, now() - SignedDuration::from_mins(3))),
            ("InProgress", Some(evicted("p1")), again(&[("p1", "data path pod was evicted, message: low on memory")])),
            ("InProgress", None, unconfirmed("", "the mover's pod velero/t was removed while it ran", now())),
        ] {
            let transfer = transfer(kind, phase, json!({}));
            let owner = Owner::Nobody(WHY.into());
            let at = Situation { pod: pod.as_ref(), owner, ..situation(&transfer) };
            assert_eq!(next_step(&at), expected, "{kind:?} {phase} {pod:?}");
        }
        // A result that is there counts.
        let running = transfer(kind, "InProgress", json!({}));
        let pod = succeeded(&result);
        let at = Situation { pod: Some(&pod), ..situation(&running) };
        let nobody = Situation { owner: Owner::Nobody(WHY.into()), ..at.clone() };
        assert_eq!(next_step(&nobody), next_step(&at));
    }
}

/// Another attempt after a mover of which nobody has heard since then.
fn unconfirmed(pod: &str, reason: &str, since: Timestamp) -> Step {
    let until = Some(Time::new(since + SignedDuration::from_mins(4)));
    Step::Again { killed: vec![KilledMover { may_run_until: until, ..KilledMover::ended(pod, reason) }] }
}

#[test]
fn no_mover_begins_while_one_on_a_lost_node_may_still_write() {
    let seconds = |seconds: i64| now() + SignedDuration::from_secs(seconds);
    let step = |until: Timestamp| {
        let noted = [KilledMover { may_run_until: Some(Time::new(until)), ..KilledMover::ended("", "lost") }];
        let noted = serde_json::to_string(&noted).unwrap();
        let noted = json!({"metadata": {"annotations": {"lifeboat.io/killed-movers": noted}}});
        next_step(&situation(&transfer(TransferKind::DataDownload, "Accepted", noted)))
    };
    let reason = "nobody has confirmed the end of the mover before: it ends by itself until then".to_owned();
    assert_eq!(step(seconds(1)), Step::Wait { reason, until: seconds(1) });
    assert_eq!(step(now()), Step::Expose);
}

#[test]
fn a_move_on_a_lost_node_can_be_canceled() {
    let owner = || Owner::Nobody("node n1 has no agent".into());
    let asked = transfer(TransferKind::DataUpload, "InProgress", json!({"spec": {"cancel": true}}));
    let (lost, runs) = (on_node("Running", false), on_node("Running", true));
    let at = Situation { pod: Some(&lost), owner: owner(), ..situation(&asked) };
    let canceled = Ending::canceled("Cancel was asked for; nothing was saved; node n1 has no agent");
    assert_eq!(next_step(&at), canceled);
    assert_eq!(next_step(&Situation { pod: Some(&runs), ..at }), Step::ShowCanceling);
}

#[test]
fn a_killed_pod_that_does_not_go_ends_its_transfer_in_time() {
    let text = serde_json::to_string(&killed(&[("p1", "drained")])).unwrap();
    let of = |accepted: i64| {
        let noted = json!({"metadata": {"annotations": {"lifeboat.io/killed-movers": text}}, "status": {"acceptedTimestamp": ago(accepted)}});
        transfer(TransferKind::DataUpload, "Accepted", noted)
    };
    let pod = evicted("p1");
    let step = |accepted: i64| next_step(&Situation { pod: Some(&pod), ..situation(&of(accepted)) });
    assert_eq!(step(1799), Step::RemoveKilledPod);
    let message = "timeout on preparing data upload: the pod velero/t of attempt 1 was killed and does not go: look at its finalizers, and \
                   whether its node n1 is still there; attempt 1: drained";
    assert_eq!(step(1800), Ending::failed(message));
}
