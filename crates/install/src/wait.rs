//! Waits until definitions are served, and until the server's pods are ready and stay so for a moment.

use crate::clock::Clock;
use crate::error::InstallError;
use crate::installation::Installation;
use crate::kinds::{daemon_sets, deployments};
use crate::names::DEPLOYMENT;
use crate::read::{PAUSE, get, has_condition};
use crate::single::{address, found};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{NODE_AGENT, NODE_AGENT_WINDOWS};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that definitions may take to be served.
pub(crate) const DEFINITIONS_LIMIT: Duration = Duration::from_secs(60);
/// The longest time that the server's pods may take to be ready.
const LIMIT: Duration = Duration::from_secs(180);
/// The longest time that the node agent's pods may take to be ready.
const NODE_AGENT_LIMIT: Duration = Duration::from_secs(60);
/// The time for which the pods must have been available: a pod that has just started may still fail.
const SETTLED: SignedDuration = SignedDuration::from_secs(10);
/// The number of times in a row that the pods must be seen ready.
const LOOKS: u32 = 5;

/// Waits until the API server serves all of these definitions, a minute at most. It only reads, and may be dropped at any
/// time.
///
/// # Errors
/// [`InstallError::NotServed`] when the time is over, and failures to read.
pub async fn wait_until_established(cluster: &Cluster, definitions: &[Value]) -> Result<(), InstallError> {
    let end = Instant::now() + DEFINITIONS_LIMIT;
    for definition in definitions {
        let (_, _, name) = address(definition)?;
        loop {
            let found = found(cluster, definition).await?.unwrap_or_default();
            if has_condition(&found, "Established") {
                break;
            }
            if Instant::now() >= end {
                return Err(InstallError::NotServed {
                    definition: name.to_owned(),
                    seconds: DEFINITIONS_LIMIT.as_secs(),
                    conditions: found["status"]["conditions"].to_string(),
                });
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// The pods of an installation that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The server's.
    Server,
    /// The node agent's on Linux nodes.
    NodeAgent,
    /// The node agent's on Windows nodes.
    NodeAgentWindows,
}

impl Workload {
    /// The name of the object that makes the pods.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => DEPLOYMENT,
            Self::NodeAgent => NODE_AGENT,
            Self::NodeAgentWindows => NODE_AGENT_WINDOWS,
        }
    }

    fn resource(self) -> ApiResource {
        match self {
            Self::Server => deployments(),
            Self::NodeAgent | Self::NodeAgentWindows => daemon_sets(),
        }
    }

    fn limit(self) -> Duration {
        match self {
            Self::Server => LIMIT,
            Self::NodeAgent | Self::NodeAgentWindows => NODE_AGENT_LIMIT,
        }
    }

    fn is_ready(self, found: &Value, now: Timestamp) -> bool {
        match self {
            Self::Server => is_ready(found, now),
            Self::NodeAgent | Self::NodeAgentWindows => !found.is_null() && unfinished_on_nodes(found).is_none(),
        }
    }
}

/// The pods that an installation asks for, in the order in which they are waited for.
#[must_use]
pub fn workloads(installation: &Installation) -> Vec<Workload> {
    let asked = [
        (true, Workload::Server),
        (installation.node_agent, Workload::NodeAgent),
        (installation.node_agent_windows, Workload::NodeAgentWindows),
    ];
    asked.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, workload)| workload).collect()
}

/// Waits until these pods in this namespace are those that were asked for and have been ready for a moment: three minutes at
/// most for the server's, and a minute for a node agent's. `clock` tells the time. It only reads, and may be dropped at any
/// time.
///
/// # Errors
/// [`InstallError::NotReady`] when the time is over, and failures to read.
pub async fn wait_until_ready(
    cluster: &Cluster,
    namespace: &str,
    workload: Workload,
    clock: &Clock<'_>,
) -> Result<(), InstallError> {
    let resource = workload.resource();
    let end = Instant::now() + workload.limit();
    let mut seen = 0;
    loop {
        let found = get(cluster, &resource, Some(namespace), workload.name()).await?.unwrap_or_default();
        seen = if workload.is_ready(&found, clock()) { seen + 1 } else { 0 };
        if seen >= LOOKS {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(InstallError::NotReady(late(namespace, workload, &found)));
        }
        sleep(PAUSE).await;
    }
}

/// The message about the missing part when the time is over.
fn late(namespace: &str, workload: Workload, found: &Value) -> String {
    let seconds = workload.limit().as_secs();
    let (kind, name) = (workload.resource().kind, workload.name());
    if found.is_null() {
        return format!("{kind}/{name} is not ready after {seconds} s: it does not exist");
    }
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let wrong = conditions.filter(|c| c["status"] != "True").filter_map(|c| c["message"].as_str().map(str::to_owned));
    let missing = match workload {
        Workload::Server => unfinished(found),
        Workload::NodeAgent | Workload::NodeAgentWindows => unfinished_on_nodes(found),
    };
    let why = wrong.chain(missing).collect::<Vec<_>>().join("; ");
    let why = if why.is_empty() { why } else { format!(": {why}") };
    format!("{kind}/{name} is not ready after {seconds} s{why} (kubectl describe pods -n {namespace} tells why)")
}

/// Returns true if all pods are those that are asked for, and have been available for long enough.
fn is_ready(deployment: &Value, now: Timestamp) -> bool {
    let conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
    let since = conditions
        .filter(|condition| condition["type"] == "Available")
        .filter_map(|condition| condition["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    let settled = since.into_iter().any(|since| now.duration_since(since) > SETTLED);
    settled && has_condition(deployment, "Available") && unfinished(deployment).is_none()
}

/// The part of the rollout that is missing, by the rules of `kubectl rollout status`; `None` when it is through.
fn unfinished(deployment: &Value) -> Option<String> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let number = |name: &str| status[name].as_u64().unwrap_or(0);
    let wanted = spec["replicas"].as_u64().unwrap_or(1);
    if number("observedGeneration") < deployment["metadata"]["generation"].as_u64().unwrap_or(1) {
        return Some("its last change was not seen yet".to_owned());
    }
    let (updated, all, available) = (number("updatedReplicas"), number("replicas"), number("availableReplicas"));
    if updated < wanted {
        return Some(format!("{updated} of {wanted} pods are of the last change"));
    }
    if all > updated {
        return Some(format!("{} pods of before the last change are left", all - updated));
    }
    (available < updated).then(|| format!("{available} of {updated} pods are available"))
}

/// The part of the rollout of a DaemonSet that is missing; `None` when each node that shall have a pod has one that can be used.
fn unfinished_on_nodes(found: &Value) -> Option<String> {
    let number = |name: &str| found["status"][name].as_u64().unwrap_or(0);
    if number("observedGeneration") < found["metadata"]["generation"].as_u64().unwrap_or(1) {
        return Some("its last change was not seen yet".to_owned());
    }
    let (wanted, updated, available) =
        (number("desiredNumberScheduled"), number("updatedNumberScheduled"), number("numberAvailable"));
    if updated < wanted {
        return Some(format!("{updated} of {wanted} pods are of the last change"));
    }
    (available < wanted).then(|| format!("{available} of {wanted} pods are available"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A Deployment whose rollout is through.
    fn deployment(status: &str, since: &str) -> Value {
        json!({
            "metadata": {"generation": 3}, "spec": {"replicas": 2},
            "status": {
                "observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
                "conditions": [
                    {"type": "Progressing", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "on it"},
                    {"type": "Available", "status": status, "lastTransitionTime": since, "message": "no minimum availability"},
                ],
            },
        })
    }

    const LONG_AGO: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn a_server_is_ready_when_it_has_been_for_a_while() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (status, since, expected) in [
            ("True", "2026-01-01T00:00:49Z", true),
            ("True", "2026-01-01T00:00:50Z", false),
            ("True", "2026-01-01T00:02:00Z", false),
            ("True", "yesterday", false),
            ("False", LONG_AGO, false),
        ] {
            assert_eq!(is_ready(&deployment(status, since), now), expected, "{status} {since}");
        }
        assert!(!is_ready(&Value::Null, now));
        let mut other = deployment("True", LONG_AGO);
        other["status"]["conditions"][1]["type"] = json!("ReplicaFailure");
        assert!(!is_ready(&other, now));
    }

    #[test]
    fn a_server_is_ready_when_its_rollout_is_through() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (field, value, expected) in [
            ("/status/observedGeneration", json!(2), Some("its last change was not seen yet")),
            ("/status/observedGeneration", Value::Null, Some("its last change was not seen yet")),
            ("/metadata/generation", json!(4), Some("its last change was not seen yet")),
            ("/status/updatedReplicas", json!(1), Some("1 of 2 pods are of the last change")),
            ("/status/updatedReplicas", Value::Null, Some("0 of 2 pods are of the last change")),
            ("/status/replicas", json!(3), Some("1 pods of before the last change are left")),
            ("/status/availableReplicas", json!(1), Some("1 of 2 pods are available")),
            ("/spec/replicas", json!(3), Some("2 of 3 pods are of the last change")),
            ("/spec/replicas", Value::Null, None),
        ] {
            let mut found = deployment("True", LONG_AGO);
            *found.pointer_mut(field).unwrap() = value.clone();
            assert_eq!(unfinished(&found).as_deref(), expected, "{field} {value}");
            assert_eq!(is_ready(&found, now), expected.is_none(), "{field} {value}");
        }
    }

    #[test]
    fn who_waited_in_vain_learns_why() {
        let told = |found: &Value| late("n", Workload::Server, found);
        let mut found = deployment("False", LONG_AGO);
        found["status"]["availableReplicas"] = json!(0);
        assert_eq!(
            told(&found),
            "Deployment/velero is not ready after 180 s: no minimum availability; 0 of 2 pods are available (kubectl \
             describe pods -n n tells why)"
        );
        assert_eq!(told(&Value::Null), "Deployment/velero is not ready after 180 s: it does not exist");
        assert_eq!(
            told(&deployment("True", LONG_AGO)),
            "Deployment/velero is not ready after 180 s (kubectl describe pods -n n tells why)"
        );
    }

    #[test]
    fn a_node_agent_is_ready_when_each_node_has_its_pod() {
        let found = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "desiredNumberScheduled": 3,
            "updatedNumberScheduled": 3, "numberAvailable": 3}});
        for (field, value, expected) in [
            ("observedGeneration", 1, Some("its last change was not seen yet")),
            ("updatedNumberScheduled", 2, Some("2 of 3 pods are of the last change")),
            ("numberAvailable", 1, Some("1 of 3 pods are available")),
            // A cluster without nodes for it.
            ("desiredNumberScheduled", 0, None),
            ("numberAvailable", 3, None),
        ] {
            let mut found = found.clone();
            found["status"][field] = json!(value);
            assert_eq!(unfinished_on_nodes(&found).as_deref(), expected, "{field} {value}");
        }
        assert!(!Workload::NodeAgent.is_ready(&Value::Null, Timestamp::UNIX_EPOCH));
        assert_eq!(
            late("n", Workload::NodeAgent, &json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 1}})),
            "DaemonSet/node-agent is not ready after 60 s: 0 of 1 pods are of the last change (kubectl describe pods -n n tells why)"
        );
    }

    #[test]
    fn the_pods_that_were_asked_for_are_waited_for() {
        let all = |node_agent, node_agent_windows| {
            workloads(&Installation { node_agent, node_agent_windows, ..Installation::default() })
        };
        assert_eq!(all(false, false), [Workload::Server]);
        assert_eq!(all(true, true), [Workload::Server, Workload::NodeAgent, Workload::NodeAgentWindows]);
    }
}
