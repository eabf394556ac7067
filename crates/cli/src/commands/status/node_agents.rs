//! DaemonSets of node agents, as the status knows them.

use lifeboat_api::well_known::{NODE_AGENT, NODE_AGENT_WINDOWS};
use lifeboat_lifecycle::coverage::NodeAgentSet;
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The type of DaemonSets.
pub(super) fn daemon_sets() -> ApiResource {
    ApiResource::new("apps", "v1", "daemonsets", "DaemonSet")
}

/// Reads a DaemonSet.
pub(super) fn daemon_set(body: &[u8]) -> serde_json::Result<NodeAgentSet> {
    let set: Value = serde_json::from_slice(body)?;
    let text = |field: &str| set["metadata"][field].as_str().unwrap_or_default().to_owned();
    Ok(NodeAgentSet {
        namespace: text("namespace"),
        name: text("name"),
        nodes: set["status"]["desiredNumberScheduled"].as_u64().unwrap_or_default(),
        ready: set["status"]["numberReady"].as_u64(),
    })
}

/// Returns true for a DaemonSet of node agents.
pub(super) fn is_node_agent(set: &NodeAgentSet) -> bool {
    [NODE_AGENT, NODE_AGENT_WINDOWS].contains(&set.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_daemon_set_of_node_agents_says_on_how_many_nodes_it_is_ready() {
        let read = |name: &str, status: Value| {
            let set = json!({"metadata": {"name": name, "namespace": "velero"}, "status": status});
            daemon_set(set.to_string().as_bytes()).unwrap()
        };
        let set = read("node-agent", json!({"desiredNumberScheduled": 3, "numberReady": 0}));
        let expected =
            NodeAgentSet { namespace: "velero".to_owned(), name: "node-agent".to_owned(), nodes: 3, ready: Some(0) };
        assert_eq!(set, expected);
        assert_eq!(read("node-agent", json!({})).ready, None);
        assert!(is_node_agent(&set) && is_node_agent(&read("node-agent-windows", json!({}))));
        assert!(!is_node_agent(&read("csi-node", json!({}))));
    }
}
