//! The state of a mover's pod, and what follows from it. Pure.

use super::killed::{MOST_ATTEMPTS, MoverEnd};
use lifeboat_api::well_known::ANNOTATION_POD_VOLUME_TIMEOUT;
use serde_json::Value;
use std::time::Duration;

/// The advice after a mover that had too little memory.
const FOR_MORE_MEMORY: &str = "its node, or a LimitRange of the namespace, gives it too little";

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodState {
    /// It has not started, for this reason, as far as the cluster says it.
    Starting(String),
    /// It runs.
    Running,
    /// The volume is filled. The text has its differences from what was saved.
    Done(String),
    /// The mover has failed.
    Failed(String),
    /// It was ended from outside, or is gone.
    Killed(String),
}

impl PodState {
    /// The state of the pod with this UID.
    pub(super) fn of(pod: Option<&Value>, uid: &str) -> Self {
        let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == uid) else {
            return Self::Killed("its pod was deleted".to_owned());
        };
        let status = &pod["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let container = &status["containerStatuses"][0];
        let ended = &container["state"]["terminated"];
        let message = text(&ended["message"]);
        match status["phase"].as_str().unwrap_or_default() {
            "Running" => Self::Running,
            "Succeeded" => {
                let result: Value = serde_json::from_str(&message).unwrap_or_default();
                Self::Done(text(&result["message"]))
            }
            "Failed" => failed(pod, message.trim()),
            _ => Self::Starting(reason_not_started(status)),
        }
    }
}

/// The state of a pod that has failed, whose mover has left this message.
fn failed(pod: &Value, message: &str) -> PodState {
    let status = &pod["status"];
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let disrupted = conditions.into_iter().find(|one| one["type"] == "DisruptionTarget" && one["status"] == "True");
    let disruption = disrupted.map(|one| [text(&one["reason"]), text(&one["message"])].join(": "));
    let code = ended["exitCode"].as_i64();
    let (reason, pod_message, node) =
        (text(&status["reason"]), text(&status["message"]), text(&pod["spec"]["nodeName"]));
    let of_container = text(&ended["reason"]);
    let end = MoverEnd {
        reason: &reason,
        message: &pod_message,
        node: &node,
        disruption: disruption.as_deref().unwrap_or_default(),
        container: code.map(|code| (code, of_container.as_str())),
    };
    match (end.killed(FOR_MORE_MEMORY), code) {
        (Some(why), _) => PodState::Killed(why),
        (None, None) => PodState::Killed("its pod was ended before the mover".to_owned()),
        (None, Some(_)) if !message.is_empty() => PodState::Failed(message.to_owned()),
        (None, Some(code)) => {
            PodState::Failed(format!("its pod has ended with exit code {code} and without a message"))
        }
    }
}

/// Returns true if a pod has ended.
pub(crate) fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

/// The reason why a pod has not started.
pub(crate) fn reason_not_started(status: &Value) -> String {
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let unscheduled = status["conditions"].as_array().into_iter().flatten();
    let unscheduled = unscheduled.filter(|one| one["type"] == "PodScheduled" && one["status"] == "False");
    let told = unscheduled.chain([waiting]).map(|one| {
        let parts = [&one["reason"], &one["message"]].map(|part| part.as_str().unwrap_or_default());
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    });
    told.filter(|text| !text.is_empty() && text != "ContainerCreating").collect::<Vec<_>>().join("; ")
}

/// Limits of a mover.
#[derive(Clone, Copy, Debug)]
pub(super) struct MoverLimits {
    /// Longest time until its pod runs.
    pub(super) start: Duration,
    /// Longest time in all.
    pub(super) whole: Duration,
}

/// The step after a look at a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoverStep {
    /// Look again later.
    Wait,
    /// Start another pod.
    Again,
    /// The volume is filled.
    Done(String),
    /// It will not be filled.
    Fail(String),
    /// It will not be filled: its pod does not start.
    NotBegun(String),
}

/// Decides after a look at the pod of this attempt, which began so long ago.
pub(super) fn next_step(state: PodState, attempt: usize, since: Duration, limits: MoverLimits) -> MoverStep {
    match state {
        PodState::Done(differences) => MoverStep::Done(differences),
        PodState::Failed(why) => MoverStep::Fail(why),
        PodState::Killed(_) if attempt < MOST_ATTEMPTS => MoverStep::Again,
        PodState::Killed(why) => MoverStep::Fail(format!("{why}, {MOST_ATTEMPTS} times")),
        PodState::Starting(why) if since >= limits.start => {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            let seconds = limits.start.as_secs();
            MoverStep::NotBegun(format!("its pod has not started within {seconds} s (--resource-timeout){why}"))
        }
        PodState::Running if since >= limits.whole => MoverStep::Fail(format!(
            "it has taken longer than {} s ({ANNOTATION_POD_VOLUME_TIMEOUT})",
            limits.whole.as_secs()
        )),
        PodState::Starting(_) | PodState::Running => MoverStep::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_state_of_a_pod_follows_from_its_phase_and_its_container() {
        let ended = |code: i64, message: &str| json!([{"state": {"terminated": {"exitCode": code, "message": message, "reason": "Error"}}}]);
        for (status, expected) in [
            (json!({}), PodState::Starting(String::new())),
            (
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]}),
                PodState::Starting("Unschedulable: no node".to_owned()),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}),
                PodState::Starting("ErrImagePull: not found".to_owned()),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}),
                PodState::Starting(String::new()),
            ),
            (json!({"phase": "Running"}), PodState::Running),
            (
                json!({"phase": "Succeeded", "containerStatuses": ended(0, r#"{"totalBytes": 3, "message": "1 entry"}"#)}),
                PodState::Done("1 entry".to_owned()),
            ),
            (json!({"phase": "Succeeded", "containerStatuses": ended(0, "")}), PodState::Done(String::new())),
            (
                json!({"phase": "Failed", "containerStatuses": ended(1, "no space\n")}),
                PodState::Failed("no space".to_owned()),
            ),
            (
                json!({"phase": "Failed", "containerStatuses": ended(2, "")}),
                PodState::Failed("its pod has ended with exit code 2 and without a message".to_owned()),
            ),
            (
                json!({"phase": "Failed", "containerStatuses": ended(137, "log")}),
                PodState::Killed("the mover's pod was killed on node n1 (exit code 137)".to_owned()),
            ),
            (json!({"phase": "Failed"}), PodState::Killed("its pod was ended before the mover".to_owned())),
            (
                json!({"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": ended(1, "half of it")}),
                PodState::Killed("the mover's pod was ended: DeadlineExceeded".to_owned()),
            ),
            (
                json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "its node is gone"}]}),
                PodState::Killed("the mover's pod was ended: DeletionByPodGC: its node is gone".to_owned()),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                PodState::Killed("data path pod was evicted, message: low on memory".to_owned()),
            ),
        ] {
            let pod = json!({"metadata": {"uid": "p"}, "spec": {"nodeName": "n1"}, "status": status});
            assert_eq!(PodState::of(Some(&pod), "p"), expected, "{pod}");
        }
        let gone = PodState::Killed("its pod was deleted".to_owned());
        let other = json!({"metadata": {"uid": "other"}, "status": {"phase": "Running"}});
        assert_eq!([PodState::of(None, "p"), PodState::of(Some(&other), "p")], [gone.clone(), gone]);
    }

    #[test]
    fn a_killed_mover_is_started_again_and_a_failed_one_is_not() {
        let limits = MoverLimits { start: Duration::from_secs(10), whole: Duration::from_secs(100) };
        let step = |state: &PodState, attempt, seconds| {
            next_step(state.clone(), attempt, Duration::from_secs(seconds), limits)
        };
        let fail = |why: &str| MoverStep::Fail(why.to_owned());
        let (killed, starting) = (PodState::Killed("killed".into()), PodState::Starting("no node".into()));
        for (state, attempt, seconds, expected) in [
            (&killed, 1, 0, MoverStep::Again),
            (&killed, 2, 0, MoverStep::Again),
            (&killed, 3, 0, fail("killed, 3 times")),
            (&PodState::Failed("no space".into()), 1, 0, fail("no space")),
            (&PodState::Done(String::new()), 1, 1000, MoverStep::Done(String::new())),
            (&starting, 1, 9, MoverStep::Wait),
            (
                &starting,
                1,
                10,
                MoverStep::NotBegun("its pod has not started within 10 s (--resource-timeout): no node".to_owned()),
            ),
            (&PodState::Running, 1, 99, MoverStep::Wait),
            (
                &PodState::Running,
                1,
                100,
                MoverStep::Fail("it has taken longer than 100 s (velero.io/pod-volume-timeout)".to_owned()),
            ),
        ] {
            assert_eq!(step(state, attempt, seconds), expected, "{state:?} {attempt} {seconds}");
        }
    }
}
