//! The movers of a transfer that were killed, and the attempts that are left. Pure.
//!
//! A mover that is killed (evicted, out of memory, its node drained, its pod deleted by somebody) says nothing about the volume, so another
//! one goes on from what the repository has. A mover that ends with an error of its own would end so again.

use crate::pod::{ContainerState, PodView};
use crate::transfer::Transfer;
use lifeboat_api::well_known::ANNOTATION_KILLED_MOVERS;
use lifeboat_mover::protocol::TOLD_TO_END;
use serde::{Deserialize, Serialize};

/// The most movers of a transfer, one after the other.
pub(crate) const MOST_ATTEMPTS: usize = 3;
/// Exit codes of processes that were killed, and told to end, by a signal.
const BY_SIGNAL: [i64; 2] = [137, 143];

/// A mover that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KilledMover {
    /// UID of its pod; empty where the pod was gone.
    pub(crate) pod: String,
    pub(crate) reason: String,
}

impl Default for KilledMover {
    fn default() -> Self {
        Self { pod: String::new(), reason: "it was killed".to_owned() }
    }
}

/// The movers of a transfer that were killed, oldest first.
pub(crate) fn killed_movers(transfer: &Transfer) -> Vec<KilledMover> {
    let noted = transfer.meta.annotations.get(ANNOTATION_KILLED_MOVERS);
    noted.and_then(|noted| serde_json::from_str(noted).ok()).unwrap_or_default()
}

/// The mover of a pod that was killed; `None` for one that runs or has ended by itself.
pub(crate) fn killed_mover(pod: &PodView) -> Option<KilledMover> {
    if pod.phase != "Failed" {
        return None;
    }
    let of_container = pod.containers.iter().find_map(|container| match &container.state {
        ContainerState::Terminated { exit_code, reason, message } => {
            Some((*exit_code, reason.as_str(), message.as_str()))
        }
        _ => None,
    });
    let reason = match (pod.reason.as_str(), of_container) {
        ("Evicted", _) => format!("data path pod was evicted, message: {}", pod.message),
        (_, Some((_, "OOMKilled", _))) => {
            "the mover's pod was killed because it needed more memory than its limit; raise podResources of the node agent's ConfigMap"
                .to_owned()
        }
        // The kubelet gives a reason for a pod that it has ended or not admitted, and none for one that ended by itself.
        (reason, _) if !reason.is_empty() => match pod.message.as_str() {
            "" => format!("the mover's pod was ended: {reason}"),
            message => format!("the mover's pod was ended: {reason}: {message}"),
        },
        (_, Some((_, _, message))) if message.trim_end() == TOLD_TO_END => TOLD_TO_END.to_owned(),
        (_, Some((code, ..))) if BY_SIGNAL.contains(&code) => {
            format!("the mover's pod was killed on node {} (exit code {code})", pod.node)
        }
        // Its node is gone, so nobody has seen its container end.
        (_, None) if !pod.disruption.is_empty() => format!("the mover's pod was ended: {}", pod.disruption),
        _ => return None,
    };
    Some(KilledMover { pod: pod.uid.clone(), reason })
}

/// The reasons of all attempts.
pub(crate) fn reasons(killed: &[KilledMover]) -> String {
    let each = killed.iter().enumerate().map(|(at, killed)| format!("attempt {}: {}", at + 1, killed.reason));
    each.collect::<Vec<_>>().join("; ")
}

/// The message of a transfer that goes on after these; `None` for one that was never killed.
pub(crate) fn note(killed: &[KilledMover]) -> Option<String> {
    let attempt = killed.len() + 1;
    (!killed.is_empty()).then(|| format!("attempt {attempt} of {MOST_ATTEMPTS}, after {}", reasons(killed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn reason(status: Value) -> Option<String> {
        let pod = json!({"metadata": {"uid": "p"}, "spec": {"nodeName": "n1"}, "status": status});
        let killed = killed_mover(&PodView::parse(pod.to_string().as_bytes()).unwrap());
        killed.map(|KilledMover { pod, reason }| {
            assert_eq!(pod, "p");
            reason
        })
    }

    #[test]
    fn a_mover_that_was_killed_is_told_from_one_that_has_failed() {
        let ended = |phase: &str, code: i64, reason: &str| {
            let state = json!({"terminated": {"exitCode": code, "reason": reason, "message": "last lines of its log"}});
            json!({"phase": phase, "containerStatuses": [{"name": "u", "state": state}]})
        };
        let by_kubelet = |reason: &str, message: &str| json!({"phase": "Failed", "reason": reason, "message": message});
        for (status, expected) in [
            (json!({"phase": "Running"}), None),
            (ended("Succeeded", 0, "Completed"), None),
            (ended("Failed", 1, "Error"), None),
            (ended("Failed", 139, "Error"), None),
            (json!({"phase": "Failed"}), None),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    {"name": "u", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": TOLD_TO_END}}},
                ]}),
                Some(TOLD_TO_END),
            ),
            (by_kubelet("Evicted", "low on memory"), Some("data path pod was evicted, message: low on memory")),
            (by_kubelet("Terminated", ""), Some("the mover's pod was ended: Terminated")),
            (
                json!({"phase": "Failed", "containerStatuses": [{"name": "u", "state": {"running": {}}}], "conditions": [{
                    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "node is gone",
                }]}),
                Some("the mover's pod was ended: DeletionByPodGC: node is gone"),
            ),
            (by_kubelet("OutOfcpu", "no cpu"), Some("the mover's pod was ended: OutOfcpu: no cpu")),
            (ended("Failed", 137, "Error"), Some("the mover's pod was killed on node n1 (exit code 137)")),
            (
                ended("Failed", 137, "OOMKilled"),
                Some(
                    "the mover's pod was killed because it needed more memory than its limit; raise podResources of the node agent's ConfigMap",
                ),
            ),
        ] {
            assert_eq!(reason(status.clone()).as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn the_reason_of_each_attempt_is_told() {
        let killed = |reason: &str| KilledMover { pod: "p".into(), reason: reason.into() };
        assert_eq!(note(&[]), None);
        let expected = "attempt 3 of 3, after attempt 1: evicted; attempt 2: drained";
        assert_eq!(note(&[killed("evicted"), killed("drained")]).as_deref(), Some(expected));
    }
}
