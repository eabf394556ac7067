use super::*;
use serde_json::{Value, json};

fn state(status: Value) -> PodState {
    let pod = json!({"metadata": {"name": "a", "uid": "u"}, "status": status});
    serde_json::from_value::<Pod>(pod).unwrap().state()
}

fn there(containers: &[(&str, bool, bool)], is_over: bool) -> PodState {
    let up = |(name, is_running, is_ready): &(&str, bool, bool)| {
        ((*name).to_owned(), ContainerReadiness { is_running: *is_running, is_ready: *is_ready })
    };
    PodState::There { uid: "u".to_owned(), containers: containers.iter().map(up).collect(), is_over }
}

#[test]
fn a_container_is_up_when_it_runs_and_ready_when_it_says_so() {
    assert_eq!(state(json!({})), there(&[], false));
    let containers = json!([
        {"name": "a", "ready": true, "state": {"running": {"startedAt": "now"}}},
        {"name": "b", "ready": false, "state": {"running": {}}},
        {"name": "c", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ]);
    assert_eq!(
        state(json!({"phase": "Running", "containerStatuses": containers})),
        there(&[("a", true, true), ("b", true, false), ("c", false, false)], false)
    );
    assert_eq!(state(json!({"phase": "Failed"})), there(&[], true));
}

fn body(uid: &str, revision: &str, status: &Value) -> Vec<u8> {
    let metadata = json!({"name": "a", "uid": uid, "resourceVersion": revision});
    json!({"metadata": metadata, "status": status}).to_string().into_bytes()
}

#[test]
fn those_that_wait_for_a_pod_are_told_of_it() {
    let pod = body("u", "7", &json!({}));
    let (watched, mut receiver) = Watched::of(&serde_json::from_slice(&pod).unwrap());
    assert_eq!(*receiver.borrow_and_update(), there(&[], false), "as it was when it was made");
    assert_eq!(watched.heard(&pod, false, "6".to_owned()), "7");
    assert!(!receiver.has_changed().unwrap());
    watched.tell(&body("u", "8", &json!({"phase": "Failed"})), false);
    assert_eq!(*receiver.borrow_and_update(), there(&[], true));
    watched.tell(&pod, true);
    assert_eq!(*receiver.borrow_and_update(), PodState::Gone);
    // Of another pod, or of none.
    let other = String::from_utf8(pod).unwrap().replace(r#""a""#, r#""b""#);
    assert_eq!(watched.heard(other.as_bytes(), false, "7".to_owned()), "7");
    assert_eq!(watched.heard(b"?", false, "7".to_owned()), "7");
}

#[test]
fn what_is_heard_late_of_the_pod_before_is_not_taken_for_its_successor() {
    let (watched, mut receiver) = Watched::of(&serde_json::from_slice(&body("new", "9", &json!({}))).unwrap());
    let before = receiver.borrow_and_update().clone();
    watched.tell(&body("old", "5", &json!({"phase": "Failed"})), false);
    watched.tell(&body("old", "6", &json!({})), true);
    assert_eq!(*receiver.borrow_and_update(), before);
    // Once it was itself heard of, another one of its name is another one.
    watched.tell(&body("new", "9", &json!({})), false);
    watched.tell(&body("next", "12", &json!({})), false);
    let PodState::There { uid, .. } = receiver.borrow_and_update().clone() else { panic!() };
    assert_eq!(uid, "next");
}

#[test]
fn a_pod_that_rests_is_read_unless_the_watch_knows_better() {
    let up = json!({"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}]});
    let (watched, mut receiver) = Watched::of(&serde_json::from_slice(&body("u", "1", &json!({}))).unwrap());
    watched.read("a", Some(&body("u", "3", &up)));
    assert_eq!(*receiver.borrow_and_update(), there(&[("c", true, true)], false));
    watched.tell(&body("u", "4", &json!({"phase": "Failed"})), false);
    watched.read("a", Some(&body("u", "3", &up)));
    watched.read("a", None);
    assert_eq!(*receiver.borrow_and_update(), there(&[], true));

    let mut receiver = watched.follow(&serde_json::from_slice(&body("v", "5", &json!({}))).unwrap()).unwrap();
    watched.read("a", None);
    assert_eq!(*receiver.borrow_and_update(), PodState::Gone);
}

#[tokio::test]
async fn who_waits_is_told_when_nothing_is_watched_any_more() {
    let pod = serde_json::from_slice(&body("u", "1", &json!({}))).unwrap();
    let (watched, mut receiver) = Watched::of(&pod);
    let watched = Arc::new(watched);
    drop(WatchGuard(Arc::clone(&watched)));
    assert!(receiver.changed().await.is_err());
    assert!(watched.follow(&pod).is_none(), "it has to be watched anew");
}

#[test]
fn a_namespace_is_watched_while_pods_in_it_are_waited_for() {
    let pod = serde_json::from_slice(&body("u", "1", &json!({}))).unwrap();
    let (watched, first) = Watched::of(&pod);
    let second = watched.follow(&pod).unwrap();
    drop(first);
    watched.forget("a");
    assert!(!watched.end_if_unused(), "somebody still waits");
    drop(second);
    watched.forget("a");
    assert!(watched.end_if_unused() && watched.follow(&pod).is_none());
}
