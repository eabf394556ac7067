//! The node of a pod, and the node agents that must be there (velero: pkg/podvolume/restorer.go).

use crate::method::mover_pod::pods;
use lifeboat_api::well_known::{LABEL_ROLE, NODE_AGENT, NODE_AGENT_WINDOWS};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The pod as the wait for its node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodPlace {
    /// It is on this node.
    OnNode(String),
    /// It has none yet, for this reason.
    Unscheduled(String),
    /// It is gone, or another one has its name.
    Gone,
}

impl PodPlace {
    /// The place of the pod of this UID.
    pub(super) fn of(pod: Option<&Value>, uid: &str) -> Self {
        let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == uid) else { return Self::Gone };
        if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            return Self::OnNode(node.to_owned());
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut why = conditions.filter(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        let why = why.next().and_then(|one| one["message"].as_str()).filter(|why| !why.is_empty());
        Self::Unscheduled(why.unwrap_or("the scheduler has said nothing about it").to_owned())
    }
}

/// The node agents of a namespace, as their DaemonSets say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAgents {
    /// True when there is a DaemonSet of them.
    pub are_there: bool,
    /// True when all of the DaemonSets say that no pod of theirs is ready.
    pub are_unready: bool,
}

impl NodeAgents {
    fn of(daemon_sets: &[Value]) -> Self {
        let is_unready = |set: &Value| set["status"]["numberReady"] == 0;
        let are_there = !daemon_sets.is_empty();
        Self { are_there, are_unready: are_there && daemon_sets.iter().all(is_unready) }
    }
}

/// A sentence about node agents none of which is ready, and the data that waits for them, such as "the data of 2 volumes".
#[must_use]
pub fn unready_node_agents(namespace: &str, waiting: &str) -> String {
    format!(
        "{waiting} waits for a node agent: that in namespace {namespace} is ready on no node; `kubectl -n {namespace} describe daemonset {NODE_AGENT}`, or \
         `describe pods -l {LABEL_ROLE}={NODE_AGENT}`, says why"
    )
}

/// Looks for the DaemonSets of node agents in a namespace.
///
/// # Errors
/// [`ClusterError`].
pub async fn node_agents(cluster: &Cluster, namespace: &str) -> Result<NodeAgents, ClusterError> {
    let daemon_sets = ApiResource::new("apps", "v1", "daemonsets", "DaemonSet");
    let mut found = Vec::new();
    for name in [NODE_AGENT, NODE_AGENT_WINDOWS] {
        if let Some(body) = cluster.get(&daemon_sets, Some(namespace), name).await? {
            found.push(serde_json::from_slice(&body).unwrap_or_default());
        }
    }
    Ok(NodeAgents::of(&found))
}

/// The warning of an operation that may not look for node agents.
#[must_use]
pub fn unseen_node_agent(namespace: &str, error: &ClusterError) -> String {
    format!(
        "cannot read the DaemonSet {NODE_AGENT} in {namespace}, so the operation goes on as if no node agent were there: allow the \
         server's service account to get daemonsets.apps: {error}"
    )
}

/// Says why no node agent runs on a node; `None` when one does.
///
/// # Errors
/// [`ClusterError`].
pub(super) async fn missing_agent(
    cluster: &Cluster,
    namespace: &str,
    node: &str,
) -> Result<Option<String>, ClusterError> {
    let role = format!("{LABEL_ROLE}={NODE_AGENT}");
    let request = ListRequest::all(pods()).in_namespace(namespace.to_owned()).labelled(role);
    let mut list = cluster.list(request);
    let mut found = None;
    while let Some(bodies) = list.next().await? {
        for body in bodies {
            let pod: Value = serde_json::from_slice(&body).unwrap_or_default();
            if pod["spec"]["nodeName"] != node {
                continue;
            }
            match pod["status"]["phase"].as_str().unwrap_or_default() {
                "Running" => return Ok(None),
                phase => {
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    found = Some(format!("its pod {name} is {phase}"));
                }
            }
        }
    }
    Ok(Some(found.unwrap_or_else(|| "the DaemonSet has no pod there".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn node_agents_are_unready_when_no_pod_of_any_of_them_is_ready() {
        let of = |ready: &[Value]| {
            let sets: Vec<Value> = ready.iter().map(|ready| json!({"status": {"numberReady": ready}})).collect();
            let NodeAgents { are_there, are_unready } = NodeAgents::of(&sets);
            (are_there, are_unready)
        };
        assert_eq!(of(&[]), (false, false));
        assert_eq!(of(&[json!(0)]), (true, true));
        // Those for Windows have no node in most clusters.
        assert_eq!((of(&[json!(3), json!(0)]), of(&[json!(0), json!(0)])), ((true, false), (true, true)));
        // Its controller has not looked at it.
        assert_eq!(of(&[Value::Null]), (true, false));
    }

    #[test]
    fn a_pod_without_a_node_says_what_the_scheduler_says() {
        let pod = |spec: Value, conditions: Value| json!({"metadata": {"uid": "u"}, "spec": spec, "status": {"conditions": conditions}});
        let unscheduled = |why: &str| PodPlace::Unscheduled(why.to_owned());
        let said = json!([{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]);
        for (pod, expected) in [
            (pod(json!({"nodeName": "n1"}), said.clone()), PodPlace::OnNode("n1".into())),
            (pod(json!({}), said), unscheduled("0/3 nodes are available")),
            (pod(json!({}), json!([])), unscheduled("the scheduler has said nothing about it")),
            (json!({"metadata": {"uid": "other"}, "spec": {"nodeName": "n1"}}), PodPlace::Gone),
        ] {
            assert_eq!(PodPlace::of(Some(&pod), "u"), expected, "{pod}");
        }
        assert_eq!(PodPlace::of(None, "u"), PodPlace::Gone);
    }
}
