//! Readiness of the pod whose volume is moved. Pure.

use crate::pod::{ContainerState, PodView};
use crate::transfer::TransferKind;
use lifeboat_api::well_known::{RESTIC_WAIT, RESTORE_WAIT};

/// The init container that waits for the volumes of its pod, and its old name.
const WAITING: [&str; 2] = [RESTORE_WAIT, RESTIC_WAIT];
/// States of a container that never begins.
const STUCK: [&str; 6] = [
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ErrImagePull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "InvalidImageName",
];

/// The pod whose volume is saved or restored, before the transfer has begun, as this agent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserPod {
    /// It can begin.
    Ready,
    /// It will be ready, and waits for this.
    Waiting(String),
    /// It never will be, for this reason.
    Lost(String),
    /// It should be on this node, and was not seen there.
    Unseen,
    /// It is none of this agent's.
    Elsewhere,
}

/// The readiness of a pod, if it was seen on this node, for what a transfer of this kind does with a volume of it.
pub(crate) fn pod_readiness(kind: TransferKind, pod: Option<&PodView>) -> UserPod {
    match (kind.is_backup(), pod) {
        (true, Some(pod)) => loss_of_source(pod).map_or(UserPod::Ready, UserPod::Lost),
        (true, None) => UserPod::Unseen,
        (false, Some(pod)) => readiness_for_restore(pod),
        (false, None) => UserPod::Elsewhere,
    }
}

/// The reason for which the volume of a pod can no longer be read: the kubelet takes it away when the pod has ended.
pub(crate) fn loss_of_source(pod: &PodView) -> Option<String> {
    let PodView { namespace, name, phase, .. } = pod;
    pod.has_ended().then(|| format!("the pod {namespace}/{name}, whose volume is saved, has ended: it is {phase}"))
}

fn readiness_for_restore(pod: &PodView) -> UserPod {
    let lost = |why: String| UserPod::Lost(format!("Pod for this PVR is not ready: {why}"));
    let of = format!("pod {}/{}", pod.namespace, pod.name);
    if matches!(pod.phase.as_str(), "Failed" | "Unknown") {
        return lost(format!("{of} is in phase {}: {}", pod.phase, pod.ending_message()));
    }
    let Some(name) = pod.init_names.iter().find(|name| WAITING.contains(&name.as_str())) else {
        return lost(format!("{of} has no init container {}", WAITING[0]));
    };
    let state = pod.init_containers.iter().find(|container| &container.name == name).map(|container| &container.state);
    match state {
        Some(ContainerState::Running) => UserPod::Ready,
        Some(ContainerState::Terminated { exit_code, .. }) => {
            lost(format!("the init container {name} of {of} has ended with exit code {exit_code}"))
        }
        Some(ContainerState::Waiting { reason, message }) if STUCK.contains(&reason.as_str()) => {
            lost(format!("the init container {name} of {of} cannot begin: {reason}: {message}"))
        }
        _ => UserPod::Waiting(format!("the init container {name} of {of} has not begun")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn for_restore(phase: &str, names: &[&str], statuses: Value) -> UserPod {
        let names: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "db-0"}, "spec": {"initContainers": names},
            "status": {"phase": phase, "initContainerStatuses": statuses},
        });
        pod_readiness(TransferKind::PodVolumeRestore, Some(&PodView::parse(pod.to_string().as_bytes()).unwrap()))
    }

    #[test]
    fn a_restore_begins_when_its_pod_waits_and_fails_when_it_never_will() {
        let state = |name: &str, state: Value| json!([{"name": name, "state": state}]);
        let waiting = |reason: &str| state("restore-wait", json!({"waiting": {"reason": reason, "message": "m"}}));
        let lost = |why: &str| UserPod::Lost(format!("Pod for this PVR is not ready: {why}"));
        let own = &["restore-wait", "other"];
        for (seen, expected) in [
            (for_restore("Pending", own, state("restore-wait", json!({"running": {}}))), UserPod::Ready),
            (for_restore("Pending", &["restic-wait"], state("restic-wait", json!({"running": {}}))), UserPod::Ready),
            (
                for_restore("Pending", own, json!([])),
                UserPod::Waiting("the init container restore-wait of pod shop/db-0 has not begun".into()),
            ),
            (
                for_restore("Pending", own, waiting("PodInitializing")),
                UserPod::Waiting("the init container restore-wait of pod shop/db-0 has not begun".into()),
            ),
            (
                for_restore("Pending", own, waiting("ErrImagePull")),
                lost("the init container restore-wait of pod shop/db-0 cannot begin: ErrImagePull: m"),
            ),
            (
                for_restore("Pending", own, state("restore-wait", json!({"terminated": {"exitCode": 1}}))),
                lost("the init container restore-wait of pod shop/db-0 has ended with exit code 1"),
            ),
            (for_restore("Running", &["other"], json!([])), lost("pod shop/db-0 has no init container restore-wait")),
            (for_restore("Failed", own, json!([])), lost("pod shop/db-0 is in phase Failed: ")),
        ] {
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn a_volume_is_saved_while_its_pod_has_not_ended() {
        let seen = |phase: &str| {
            let pod = json!({"metadata": {"namespace": "shop", "name": "db-0"}, "status": {"phase": phase}});
            PodView::parse(pod.to_string().as_bytes()).unwrap()
        };
        let of = |pod: Option<&PodView>| pod_readiness(TransferKind::PodVolumeBackup, pod);
        assert_eq!(of(Some(&seen("Running"))), UserPod::Ready);
        for phase in ["Succeeded", "Failed"] {
            let why = format!("the pod shop/db-0, whose volume is saved, has ended: it is {phase}");
            assert_eq!(of(Some(&seen(phase))), UserPod::Lost(why));
        }
        assert_eq!(of(None), UserPod::Unseen);
        assert_eq!(pod_readiness(TransferKind::PodVolumeRestore, None), UserPod::Elsewhere);
    }
}
