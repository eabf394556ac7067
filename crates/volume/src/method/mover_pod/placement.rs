//! The nodes on which a mover may run, so that its claim gets a volume where the pods of the claim can run too. Pure.
//!
//! A claim whose storage class waits for a first consumer gets its volume where the mover runs. The pods that are to mount it may be held to
//! certain nodes, and then could never reach it elsewhere.

use serde_json::{Map, Value, json};
use std::time::Duration;

/// The longest wait of a pod for a node that has room.
pub const ROOM_LIMIT: Duration = Duration::from_secs(4 * 3600);
/// The key of terms that name nodes of one cluster.
const BY_FIELDS: &str = "matchFields";

/// The rules of a pod about its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoverPlacement {
    node_selector: Map<String, Value>,
    /// Terms of which a node must fulfil one; empty for any node.
    node_terms: Vec<Value>,
    tolerations: Vec<Value>,
}

impl MoverPlacement {
    /// The rules of a pod. A node that it names by its name (a pod of a DaemonSet does) is none of them: another cluster has others.
    #[must_use]
    pub fn of_pod(pod: &Value) -> Self {
        let spec = &pod["spec"];
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array().into_iter().flatten().map(without_fields);
        // A node fulfils one of them: one that demands nothing lets all the others go.
        let node_terms: Vec<Value> = terms.collect::<Option<_>>().unwrap_or_default();
        Self {
            node_selector: spec["nodeSelector"].as_object().cloned().unwrap_or_default(),
            node_terms,
            tolerations: spec["tolerations"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// The labels of its nodes.
    #[must_use]
    pub fn node_selector(&self) -> &Map<String, Value> {
        &self.node_selector
    }

    /// The terms of which a node must fulfil one; empty for any node.
    #[must_use]
    pub fn node_terms(&self) -> &[Value] {
        &self.node_terms
    }

    /// The taints that it tolerates.
    #[must_use]
    pub fn tolerations(&self) -> &[Value] {
        &self.tolerations
    }

    /// Sets the rules in the spec of a pod.
    pub(super) fn set(&self, spec: &mut Value) {
        if !self.node_selector.is_empty() {
            spec["nodeSelector"] = json!(self.node_selector);
        }
        if !self.node_terms.is_empty() {
            let required = json!({"nodeSelectorTerms": self.node_terms});
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        }
        if !self.tolerations.is_empty() {
            spec["tolerations"] = json!(self.tolerations);
        }
    }
}

/// A term without the names of nodes; `None` when nothing is left of it.
fn without_fields(term: &Value) -> Option<Value> {
    let mut term = term.as_object()?.clone();
    term.remove(BY_FIELDS);
    term.values().any(|part| part.as_array().is_some_and(|all| !all.is_empty())).then_some(Value::Object(term))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mover_runs_where_the_pod_of_its_claim_may_run() {
        let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
        let named = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
        let both = json!({"matchExpressions": zone["matchExpressions"], "matchFields": named["matchFields"]});
        let affinity = |terms: &[&Value]| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let tolerations = json!([{"key": "gpu", "operator": "Exists"}]);
        let placed = |spec: Value| {
            let mut spec_of_mover = json!({});
            MoverPlacement::of_pod(&json!({"spec": spec})).set(&mut spec_of_mover);
            spec_of_mover
        };
        for (of_pod, expected) in [
            (json!({}), json!({})),
            (json!({"nodeSelector": {"disk": "fast"}, "nodeName": "n1"}), json!({"nodeSelector": {"disk": "fast"}})),
            (json!({"tolerations": tolerations}), json!({"tolerations": tolerations})),
            (json!({"affinity": affinity(&[&zone])}), json!({"affinity": affinity(&[&zone])})),
            (json!({"affinity": affinity(&[&both])}), json!({"affinity": affinity(&[&zone])})),
            (json!({"affinity": affinity(&[&named])}), json!({})),
            (json!({"affinity": affinity(&[&zone, &named])}), json!({})),
        ] {
            assert_eq!(placed(of_pod.clone()), expected, "{of_pod}");
        }
        let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": {}}});
        assert_eq!(placed(preferred), json!({}), "a wish is no rule");
    }
}
