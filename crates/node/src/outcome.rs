//! The outcome of a pod that has ended. Pure.

use crate::pod::PodView;
use lifeboat_mover::protocol::{CANCELED, PodEnd, RestoreResult, pod_end};

/// The end of a transfer, as its pod tells it.
pub(crate) fn of_pod(pod: &PodView) -> Option<PodEnd<RestoreResult>> {
    if !pod.has_ended() {
        return None;
    }
    let has_succeeded = pod.phase == "Succeeded";
    let (reason, said) = pod.terminated().unwrap_or_default();
    if has_succeeded || said.trim_end().ends_with(CANCELED) {
        return Some(pod_end(has_succeeded, said));
    }
    // A container that was killed has said nothing that tells why.
    let message = match (pod.reason.as_str(), reason) {
        ("Evicted", _) => format!("data path pod was evicted, message: {}", pod.message),
        (_, "OOMKilled") => format!(
            "the mover's pod was killed because it needed more memory than its limit; raise podResources of the node agent's ConfigMap. {said}"
        ),
        _ if !said.is_empty() => said.to_owned(),
        _ if !pod.message.is_empty() => pod.message.clone(),
        (own, of_container) => {
            let why = [own, of_container].into_iter().find(|why| !why.is_empty()).unwrap_or("it gave no reason");
            format!("the mover's pod has failed without a message: {why}")
        }
    };
    Some(PodEnd::Failed(message.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_mover::protocol::AccessPoint;
    use serde_json::{Value, json};

    fn outcome(status: Value) -> Option<PodEnd<RestoreResult>> {
        of_pod(&PodView::parse(json!({"status": status}).to_string().as_bytes()).unwrap())
    }

    #[test]
    fn the_end_of_a_pod_tells_the_outcome_with_its_reason() {
        let ended = |phase: &str, reason: &str, message: &str| json!({"phase": phase, "containerStatuses": [{"name": "u", "state": {"terminated": {"exitCode": 1, "reason": reason, "message": message}}}]});
        let result = r#"{"target":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":7}"#;
        let target = AccessPoint { by_path: "/u".into(), ..AccessPoint::default() };
        let failed = |why: &str| Some(PodEnd::Failed(why.to_owned()));
        let canceled = "error: data path is canceled";
        let evicted =
            json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
        for (status, expected) in [
            (json!({"phase": "Running"}), None),
            (
                ended("Succeeded", "Completed", result),
                Some(PodEnd::Completed(RestoreResult { target, total_bytes: 7 })),
            ),
            (ended("Failed", "Error", canceled), Some(PodEnd::Canceled(canceled.to_owned()))),
            (ended("Failed", "Error", "no space\n"), failed("no space")),
            (evicted, failed("data path pod was evicted, message: The node was low on resource: memory.")),
            (
                ended("Failed", "OOMKilled", ""),
                failed(
                    "the mover's pod was killed because it needed more memory than its limit; raise podResources of the node agent's ConfigMap.",
                ),
            ),
            (json!({"phase": "Failed", "message": "node is shutting down"}), failed("node is shutting down")),
            (ended("Failed", "Error", ""), failed("the mover's pod has failed without a message: Error")),
            (json!({"phase": "Failed"}), failed("the mover's pod has failed without a message: it gave no reason")),
        ] {
            assert_eq!(outcome(status), expected);
        }
    }
}
