//! Waits until definitions are served, and until the server's pods are ready and stay so for a moment.

use crate::clock::Clock;
use crate::error::InstallError;
use crate::names::DEPLOYMENT;
use crate::read::{PAUSE, get, has_condition};
use crate::single::{address, found};
use jiff::{SignedDuration, Timestamp};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that definitions may take to be served.
pub(crate) const DEFINITIONS_LIMIT: Duration = Duration::from_secs(60);
/// The longest time that the server's pods may take to be ready.
const LIMIT: Duration = Duration::from_secs(180);
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

/// Waits until the pods of the server in this namespace are those that were asked for and have been ready for a moment,
/// three minutes at most. `clock` tells the time. It only reads, and may be dropped at any time.
///
/// # Errors
/// [`InstallError::NotReady`] when the time is over, and failures to read.
pub async fn wait_until_ready(cluster: &Cluster, namespace: &str, clock: &Clock<'_>) -> Result<(), InstallError> {
    let deployments = ApiResource::new("apps", "v1", "deployments", "Deployment");
    let end = Instant::now() + LIMIT;
    let mut seen = 0;
    loop {
        let found = get(cluster, &deployments, Some(namespace), DEPLOYMENT).await?.unwrap_or_default();
        seen = if is_ready(&found, clock()) { seen + 1 } else { 0 };
        if seen >= LOOKS {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(InstallError::NotReady(late(namespace, &found)));
        }
        sleep(PAUSE).await;
    }
}

/// The message about the missing part when the time is over.
fn late(namespace: &str, found: &Value) -> String {
    let seconds = LIMIT.as_secs();
    if found.is_null() {
        return format!("Deployment/{DEPLOYMENT} is not ready after {seconds} s: it does not exist");
    }
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let wrong = conditions.filter(|c| c["status"] != "True").filter_map(|c| c["message"].as_str().map(str::to_owned));
    let why = wrong.chain(unfinished(found)).collect::<Vec<_>>().join("; ");
    let why = if why.is_empty() { why } else { format!(": {why}") };
    format!(
        "Deployment/{DEPLOYMENT} is not ready after {seconds} s{why} (kubectl describe pods -n {namespace} tells why)"
    )
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
        let told = |found: &Value| late("n", found);
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
}
