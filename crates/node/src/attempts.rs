//! The movers of a transfer that were killed, and the attempts that are left. Pure.
//!
//! The rule by which one that was killed is told from one that has failed is that of all movers: [`MoverEnd`].

use crate::pod::{ContainerState, PodView};
use crate::transfer::Transfer;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Time;
use lifeboat_api::well_known::ANNOTATION_KILLED_MOVERS;
use lifeboat_mover::protocol::{SIGHT_LIMIT, is_ended_from_outside};
use lifeboat_volume::mover_pod::{MOST_ATTEMPTS, MoverEnd};
use serde::{Deserialize, Serialize};

/// The advice after a mover that had too little memory.
const FOR_MORE_MEMORY: &str = "raise podResources of the node agent's ConfigMap";

/// A mover that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct KilledMover {
    /// UID of its pod; empty where the pod was gone.
    pub(crate) pod: String,
    pub(crate) reason: String,
    /// The time until which it may go on, where nobody on its node has confirmed its end: then it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) may_run_until: Option<Time>,
}

impl KilledMover {
    /// The mover of a pod, which has ended.
    pub(crate) fn ended(pod: &str, reason: impl Into<String>) -> Self {
        Self { pod: pod.to_owned(), reason: reason.into(), may_run_until: None }
    }

    /// The same one, of whose node nothing is heard since then. It sees its resource no more, or that another one was begun.
    pub(crate) fn unconfirmed(self, since: Timestamp) -> Self {
        let limit = SignedDuration::try_from(SIGHT_LIMIT).unwrap_or(SignedDuration::MAX);
        Self { may_run_until: since.checked_add(limit).ok().map(Time::new), ..self }
    }
}

impl Default for KilledMover {
    fn default() -> Self {
        Self::ended("", "it was killed")
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
    let end = MoverEnd {
        reason: &pod.reason,
        message: &pod.message,
        node: &pod.node,
        disruption: &pod.disruption,
        container: of_container.map(|(code, reason, _)| (code, reason)),
    };
    let said = of_container.map(|(.., message)| message.trim_end()).filter(|message| is_ended_from_outside(message));
    let reason = end.killed(FOR_MORE_MEMORY).or_else(|| said.map(str::to_owned))?;
    Some(KilledMover::ended(&pod.uid, reason))
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
    use lifeboat_mover::protocol::{BUCKET_UNAVAILABLE, LOST_SIGHT, LOST_TURN, REPLACED, TOLD_TO_END, TURN_STALLED};
    use serde_json::{Value, json};

    fn reason(status: Value) -> Option<String> {
        let pod = json!({"metadata": {"uid": "p"}, "spec": {"nodeName": "n1"}, "status": status});
        let killed = killed_mover(&PodView::parse(pod.to_string().as_bytes()).unwrap());
        killed.map(|KilledMover { pod, reason, .. }| {
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
        let by_itself = |message: &str| {
            let state = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": message}});
            json!({"phase": "Failed", "containerStatuses": [{"name": "u", "state": state}]})
        };
        let unavailable = format!("cannot save the volume /v: no answer: {BUCKET_UNAVAILABLE}");
        let by_kubelet = |reason: &str, message: &str| json!({"phase": "Failed", "reason": reason, "message": message});
        for (status, expected) in [
            (json!({"phase": "Running"}), None),
            (ended("Succeeded", 0, "Completed"), None),
            (ended("Failed", 1, "Error"), None),
            (ended("Failed", 139, "Error"), None),
            (json!({"phase": "Failed"}), None),
            (by_itself(TOLD_TO_END), Some(TOLD_TO_END)),
            (by_itself(REPLACED), Some(REPLACED)),
            (by_itself(LOST_SIGHT), Some(LOST_SIGHT)),
            (by_itself(LOST_TURN), Some(LOST_TURN)),
            (by_itself(TURN_STALLED), Some(TURN_STALLED)),
            (by_itself(&unavailable), Some(unavailable.as_str())),
            (by_itself("cannot save the volume /v: no answer"), None),
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
        let killed = |reason: &str| KilledMover::ended("p", reason);
        assert_eq!(note(&[]), None);
        let expected = "attempt 3 of 3, after attempt 1: evicted; attempt 2: drained";
        assert_eq!(note(&[killed("evicted"), killed("drained")]).as_deref(), Some(expected));
    }
}
