//! Pods: what their containers say together.

use super::duration::{age, human, time};
use super::field::{condition, count, first_text, is_deleting, is_true, list, name, number, text, text_or};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Name, ready, status, restarts, age; IP, node, nominated node, readiness gates.
pub(super) fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summary(pod);
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let ip = first_text([&status["podIPs"][0]["ip"], &status["podIP"]]);
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        summary.restarts.cell(now).into(),
        age(pod, now),
        text_or(&ip.into(), "<none>"),
        text_or(&spec["nodeName"], "<none>"),
        text_or(&status["nominatedNodeName"], "<none>"),
        readiness_gates(pod).into(),
    ]
}

/// The condition of a row that its pod has ended, and how; `None` while it has not.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

struct Summary {
    ready: usize,
    /// Containers and sidecars.
    containers: i64,
    reason: String,
    restarts: Restarts,
}

fn summary(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let init = initialization(pod);
    let mut reason = init.blocked_by.clone().unwrap_or_else(|| reason_of_phase(status));
    let mut ready = init.ready;
    let mut restarts = init.restarts;
    if init.blocked_by.is_none() || condition(status, "Initialized") == Some("True") {
        restarts = init.of_sidecars;
        let mut runs = false;
        for container in list(&status["containerStatuses"]).iter().rev() {
            restarts.add(container);
            match reason_of_container(container) {
                Some(of_container) => reason = of_container,
                None if is_true(&container["ready"]) && container["state"]["running"].is_object() => {
                    runs = true;
                    ready += 1;
                }
                None => {}
            }
        }
        if reason == "Completed" && runs {
            let is_ready =
                list(&status["conditions"]).iter().any(|c| text(&c["type"]) == "Ready" && text(&c["status"]) == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if is_deleting(pod) {
        if text(&status["reason"]) == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    let sidecars = list(&spec["initContainers"]).iter().filter(|c| is_sidecar(c)).count();
    let containers = count(&spec["containers"]) + i64::try_from(sidecars).unwrap_or(0);
    Summary { ready, containers, reason, restarts }
}

/// The reason that the pod itself gives.
fn reason_of_phase(status: &Value) -> String {
    const GATED: &str = "SchedulingGated";
    let is_gated =
        |condition: &Value| text(&condition["type"]) == "PodScheduled" && text(&condition["reason"]) == GATED;
    if list(&status["conditions"]).iter().any(is_gated) {
        return GATED.to_owned();
    }
    match text(&status["reason"]) {
        "" => text(&status["phase"]).to_owned(),
        reason => reason.to_owned(),
    }
}

/// The reason why a container waits, or its end.
fn reason_of_container(container: &Value) -> Option<String> {
    let state = &container["state"];
    match text(&state["waiting"]["reason"]) {
        "" if state["terminated"].is_object() => Some(end(&state["terminated"])),
        "" => None,
        reason => Some(reason.to_owned()),
    }
}

/// The reason, signal or exit code with which a container has ended.
fn end(terminated: &Value) -> String {
    match (text(&terminated["reason"]), number(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// The progress of the init containers.
#[derive(Default)]
struct Initialization {
    /// The state of the first init container that is not done.
    blocked_by: Option<String>,
    /// Sidecars that are ready.
    ready: usize,
    /// Of all that were looked at.
    restarts: Restarts,
    of_sidecars: Restarts,
}

fn initialization(pod: &Value) -> Initialization {
    let declared = list(&pod["spec"]["initContainers"]);
    let mut found = Initialization::default();
    for (index, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let state = &container["state"];
        let is_sidecar = declared.iter().rfind(|c| c["name"] == container["name"]).is_some_and(is_sidecar);
        found.restarts.add(container);
        if is_sidecar {
            found.of_sidecars.add(container);
        }
        let has_ended = state["terminated"].is_object();
        if has_ended && number(&state["terminated"]["exitCode"]) == 0 {
            continue;
        }
        if is_sidecar && is_true(&container["started"]) {
            found.ready += usize::from(is_true(&container["ready"]));
            continue;
        }
        found.blocked_by = Some(match text(&state["waiting"]["reason"]) {
            _ if has_ended => format!("Init:{}", end(&state["terminated"])),
            "" | "PodInitializing" => format!("Init:{index}/{}", declared.len()),
            reason => format!("Init:{reason}"),
        });
        break;
    }
    found
}

/// Returns true if an init container keeps running beside the others.
fn is_sidecar(container: &Value) -> bool {
    text(&container["restartPolicy"]) == "Always"
}

/// The number of restarts of containers, and the time at which the last of them ended before.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count = self.count.saturating_add(number(&container["restartCount"]));
        self.last = self.last.max(time(&container["lastState"]["terminated"]["finishedAt"]));
    }

    fn cell(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human(now.duration_since(last)))
            }
            _ => self.count.to_string(),
        }
    }
}

/// The number of readiness gates of the pod that are open, of all that it has.
fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    let is_open = |gate: &&Value| condition(&pod["status"], text(&gate["conditionType"])) == Some("True");
    match gates.len() {
        0 => "<none>".to_owned(),
        all => format!("{}/{all}", gates.iter().filter(is_open).count()),
    }
}
