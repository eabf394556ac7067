//! `--wait`: until the pods are ready, and stay so for a moment.

use super::apply::PAUSE;
use super::flags::InstallArgs;
use super::objects::DEPLOYMENT;
use super::workload::{NODE_AGENT, NODE_AGENT_WINDOWS};
use anyhow::{Result, bail};
use jiff::{SignedDuration, Timestamp};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const DEPLOYMENT_LIMIT: Duration = Duration::from_secs(180);
const DAEMON_SET_LIMIT: Duration = Duration::from_secs(60);
/// An available pod that has just started may fall over yet.
const SETTLED: SignedDuration = SignedDuration::from_secs(10);
/// So often it must be seen ready: what was read before the last change does not count for much.
const LOOKS: u32 = 5;

/// Waits for the server and the node agents that were installed.
pub(super) async fn wait(cluster: &Cluster, namespace: &str, args: &InstallArgs) -> Result<()> {
    ready(cluster, namespace, "Deployment", DEPLOYMENT, DEPLOYMENT_LIMIT, is_available).await?;
    for (name, installed) in [(NODE_AGENT, args.use_node_agent), (NODE_AGENT_WINDOWS, args.use_node_agent_windows)] {
        if installed {
            ready(cluster, namespace, "DaemonSet", name, DAEMON_SET_LIMIT, is_everywhere).await?;
        }
    }
    Ok(())
}

async fn ready(
    cluster: &Cluster,
    namespace: &str,
    kind: &str,
    name: &str,
    limit: Duration,
    is_ready: fn(&Value, Timestamp) -> bool,
) -> Result<()> {
    let resource = ApiResource::new("apps", "v1", format!("{}s", kind.to_lowercase()), kind);
    let end = Instant::now() + limit;
    let mut seen = 0;
    loop {
        let found = cluster.get(&resource, Some(namespace), name).await?;
        let found: Value = found.map(|bytes| serde_json::from_slice(&bytes)).transpose()?.unwrap_or_default();
        seen += u32::from(is_ready(&found, Timestamp::now()));
        if seen >= LOOKS {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!("{}", late(kind, name, namespace, limit, &found));
        }
        sleep(PAUSE).await;
    }
}

/// What is said when the time is over.
fn late(kind: &str, name: &str, namespace: &str, limit: Duration, found: &Value) -> String {
    let seconds = limit.as_secs();
    if found.is_null() {
        return format!("{kind}/{name} is not ready after {seconds} s: it does not exist");
    }
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let wrong: Vec<&str> = conditions.filter(|c| c["status"] != "True").filter_map(|c| c["message"].as_str()).collect();
    let wrong = if wrong.is_empty() { String::new() } else { format!(": {}", wrong.join("; ")) };
    format!("{kind}/{name} is not ready after {seconds} s{wrong} (kubectl describe pods -n {namespace} tells why)")
}

/// Available, and for long enough.
fn is_available(deployment: &Value, now: Timestamp) -> bool {
    let conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|c| c["type"] == "Available" && c["status"] == "True").any(|condition| {
        let since = condition["lastTransitionTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        since.is_some_and(|since| now.duration_since(since) > SETTLED)
    })
}

/// Available on every node that it is meant for.
fn is_everywhere(daemon_set: &Value, _: Timestamp) -> bool {
    // The controller has not looked yet: nothing is desired, and nothing is there.
    if daemon_set["status"]["observedGeneration"].is_null() {
        return false;
    }
    let number = |name: &str| daemon_set["status"][name].as_u64().unwrap_or(0);
    number("numberAvailable") == number("desiredNumberScheduled")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(kind: &str, status: &str, since: &str) -> Value {
        json!({"status": {"conditions": [
            {"type": "Progressing", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "on it"},
            {"type": kind, "status": status, "lastTransitionTime": since, "message": "no minimum availability"},
        ]}})
    }

    #[test]
    fn a_server_is_ready_when_it_has_been_for_a_while() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (kind, status, since, expected) in [
            ("Available", "True", "2026-01-01T00:00:49Z", true),
            ("Available", "True", "2026-01-01T00:00:50Z", false),
            ("Available", "True", "2026-01-01T00:02:00Z", false),
            ("Available", "True", "yesterday", false),
            ("Available", "False", "2026-01-01T00:00:00Z", false),
            ("ReplicaFailure", "True", "2026-01-01T00:00:00Z", false),
        ] {
            assert_eq!(is_available(&deployment(kind, status, since), now), expected, "{kind} {status} {since}");
        }
        assert!(!is_available(&Value::Null, now));
    }

    #[test]
    fn a_node_agent_is_ready_when_it_is_everywhere() {
        let set = |status: Value| is_everywhere(&json!({"status": status}), Timestamp::UNIX_EPOCH);
        assert!(set(json!({"observedGeneration": 1, "numberAvailable": 2, "desiredNumberScheduled": 2})));
        assert!(set(json!({"observedGeneration": 1, "desiredNumberScheduled": 0})));
        assert!(!set(json!({"observedGeneration": 1, "numberAvailable": 1, "desiredNumberScheduled": 2})));
        assert!(!set(json!({"desiredNumberScheduled": 0})) && !is_everywhere(&Value::Null, Timestamp::UNIX_EPOCH));
    }

    #[test]
    fn who_waited_in_vain_learns_why() {
        let limit = Duration::from_secs(180);
        let found = deployment("Available", "False", "2026-01-01T00:00:00Z");
        assert_eq!(
            late("Deployment", "velero", "n", limit, &found),
            "Deployment/velero is not ready after 180 s: no minimum availability (kubectl describe pods -n n tells why)"
        );
        assert_eq!(
            late("Deployment", "velero", "n", limit, &Value::Null),
            "Deployment/velero is not ready after 180 s: it does not exist"
        );
        assert_eq!(
            late("DaemonSet", "node-agent", "n", DAEMON_SET_LIMIT, &json!({"status": {}})),
            "DaemonSet/node-agent is not ready after 60 s (kubectl describe pods -n n tells why)"
        );
    }
}
