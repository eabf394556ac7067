//! The state of a mover's pod, and what follows from it. Pure.

use lifeboat_api::well_known::ANNOTATION_POD_VOLUME_TIMEOUT;
use serde_json::Value;
use std::time::Duration;

/// Exit codes of a process that a signal has ended.
const KILLED: [i64; 2] = [137, 143];
/// The attempts of a mover that is killed from outside: that says nothing about the volume.
const ATTEMPTS: u32 = 3;

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
            "Failed" => {
                let reason =
                    [text(&status["reason"]), text(&status["message"])].into_iter().filter(|part| !part.is_empty());
                let reason = reason.collect::<Vec<_>>().join(": ");
                match ended["exitCode"].as_i64() {
                    Some(code) if KILLED.contains(&code) => {
                        let reason = if reason.is_empty() { text(&ended["reason"]) } else { reason };
                        Self::Killed(format!("its pod was killed (exit code {code}, {reason})"))
                    }
                    Some(_) if !message.is_empty() => Self::Failed(message.trim().to_owned()),
                    Some(code) => {
                        Self::Failed(format!("its pod has ended with exit code {code} and without a message"))
                    }
                    None => Self::Killed(format!("its pod was ended before the mover ({reason})")),
                }
            }
            _ => Self::Starting(waits_for(status)),
        }
    }
}

/// The reason why a pod has not started.
pub(crate) fn waits_for(status: &Value) -> String {
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
}

/// Decides after a look at the pod of this attempt, which began so long ago.
pub(super) fn next_step(state: PodState, attempt: u32, since: Duration, limits: MoverLimits) -> MoverStep {
    match state {
        PodState::Done(differences) => MoverStep::Done(differences),
        PodState::Failed(why) => MoverStep::Fail(why),
        PodState::Killed(_) if attempt < ATTEMPTS => MoverStep::Again,
        PodState::Killed(why) => MoverStep::Fail(format!("{why}, {ATTEMPTS} times")),
        PodState::Starting(why) if since >= limits.start => {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            let seconds = limits.start.as_secs();
            MoverStep::Fail(format!("its pod has not started within {seconds} s (--resource-timeout){why}"))
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
                PodState::Killed("its pod was killed (exit code 137, Error)".to_owned()),
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                PodState::Killed("its pod was ended before the mover (Evicted: low on memory)".to_owned()),
            ),
        ] {
            let pod = json!({"metadata": {"uid": "p"}, "status": status});
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
            (&starting, 1, 10, fail("its pod has not started within 10 s (--resource-timeout): no node")),
            (&PodState::Running, 1, 99, MoverStep::Wait),
            (&PodState::Running, 1, 100, fail("it has taken longer than 100 s (velero.io/pod-volume-timeout)")),
        ] {
            assert_eq!(step(state, attempt, seconds), expected, "{state:?} {attempt} {seconds}");
        }
    }
}
