//! The nodes on which a mover may run. Pure.

use crate::fairness::BusyNode;
use lifeboat_api::LabelSelector;
use lifeboat_api::well_known::LABEL_EXPOSER_POD_GROUP;
use lifeboat_volume::mover_pod::MoverPlacement;
use serde_json::{Value, json};

/// The node on which a mover runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// This one, without asking the scheduler.
    Pinned(String),
    /// This one, which the scheduler has chosen for the target.
    Selected(String),
    /// Any of these.
    Any(AllowedNodes),
}

/// The nodes on which a mover may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllowedNodes {
    /// The selector of the configuration.
    pub(crate) selector: Option<LabelSelector>,
    /// Terms of which a node must fulfil one to reach the volume; empty for any node.
    pub(crate) topology: Vec<Value>,
    /// Nodes that are left out.
    pub(crate) avoided: Vec<String>,
    /// Nodes with bytes to move, to which others are preferred.
    pub(crate) busy: Vec<BusyNode>,
    /// The rules of the pod that is to mount the volume, which has to reach it.
    pub(crate) of_pod: MoverPlacement,
}

/// Sets the nodes on which a pod may run, and spreads the pods of its group.
pub(super) fn place(placement: &Placement, group: Option<&str>, is_windows: bool, spec: &mut Value) {
    let operator = if is_windows { "In" } else { "NotIn" };
    let (mut needed, mut terms) = (Vec::new(), Vec::new());
    match placement {
        Placement::Pinned(node) => spec["nodeName"] = json!(node),
        Placement::Selected(node) => spec["nodeSelector"] = json!({"kubernetes.io/hostname": node}),
        Placement::Any(nodes) => {
            needed.extend(nodes.selector.iter().flat_map(LabelSelector::node_requirements));
            // A download has no topology, and an upload no pod.
            let all = nodes.topology.iter().chain(nodes.of_pod.node_terms());
            terms = all.cloned().collect();
            if !nodes.of_pod.node_selector().is_empty() {
                spec["nodeSelector"] = json!(nodes.of_pod.node_selector());
            }
            if !nodes.avoided.is_empty() {
                needed.push(json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": nodes.avoided}));
            }
        }
    }
    needed.push(json!({"key": "kubernetes.io/os", "operator": operator, "values": ["windows"]}));
    if terms.is_empty() {
        terms.push(json!({}));
    }
    // A node fulfils one of the terms, and so each must demand everything.
    for term in &mut terms {
        let mut all = term["matchExpressions"].as_array().cloned().unwrap_or_default();
        all.extend(needed.iter().cloned());
        term["matchExpressions"] = Value::Array(all);
    }
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": terms,
    }}});
    if let Placement::Any(AllowedNodes { busy, .. }) = placement
        && !busy.is_empty()
    {
        let preference = |BusyNode { node, weight }: &BusyNode| {
            let other = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]});
            json!({"weight": weight, "preference": {"matchExpressions": [other]}})
        };
        let preferences: Vec<Value> = busy.iter().map(preference).collect();
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferences);
    }
    if let Some(group) = group {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {LABEL_EXPOSER_POD_GROUP: group}},
        }]);
    }
}
