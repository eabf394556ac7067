//! Nodes, namespaces and what the cluster itself consists of.

use super::duration::age;
use super::field::{condition_of, entries, is_true, list, name, text, text_or};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

/// Name, status, message, error.
pub(super) fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let Some(healthy) = condition_of(object, "Healthy") else {
        return vec![name(object), "Unknown".into(), "".into(), "".into()];
    };
    let status = if text(&healthy["status"]) == "True" { "Healthy" } else { "Unhealthy" };
    vec![name(object), status.into(), text(&healthy["message"]).into(), text(&healthy["error"]).into()]
}

/// Name, status, age.
pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["status"]["phase"]).into(), age(object, now)]
}

/// Name, status, roles, age, version; internal IP, external IP, image, kernel, container runtime.
pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let info = &status["nodeInfo"];
    let address = |of: &str| {
        let found = list(&status["addresses"]).iter().find(|a| text(&a["type"]) == of);
        found.map_or("<none>", |a| text(&a["address"])).into()
    };
    vec![
        name(object),
        status_of_node(object).into(),
        roles(&object["metadata"]["labels"]).into(),
        age(object, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        text_or(&info["osImage"], "<unknown>"),
        text_or(&info["kernelVersion"], "<unknown>"),
        text_or(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

fn status_of_node(object: &Value) -> String {
    // Of several conditions of a type the last one counts.
    let ready = list(&object["status"]["conditions"]).iter().rfind(|c| text(&c["type"]) == "Ready");
    let status = match ready.map(|c| text(&c["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let disabled = if is_true(&object["spec"]["unschedulable"]) { ",SchedulingDisabled" } else { "" };
    format!("{status}{disabled}")
}

/// The roles that labels give to a node.
fn roles(labels: &Value) -> String {
    let found: BTreeSet<&str> = entries(labels).filter_map(|(key, value)| role(key, value)).collect();
    if found.is_empty() { "<none>".to_owned() } else { found.into_iter().collect::<Vec<_>>().join(",") }
}

fn role<'a>(key: &'a str, value: &'a Value) -> Option<&'a str> {
    let role = match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => role,
        None if key == "kubernetes.io/role" => text(value),
        None => "",
    };
    (!role.is_empty()).then_some(role)
}

/// Name, service, available, age.
pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = &object["spec"]["service"];
    let served = match service.is_object() {
        true => format!("{}/{}", text(&service["namespace"]), text(&service["name"])),
        false => "Local".to_owned(),
    };
    let available = match condition_of(&object["status"], "Available") {
        None => "Unknown".to_owned(),
        Some(condition) => match (text(&condition["status"]), text(&condition["reason"])) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    vec![name(object), served.into(), available.into(), age(object, now)]
}

/// Name, holder, age.
pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["spec"]["holderIdentity"]).into(), age(object, now)]
}

/// Name, handler, age.
pub(super) fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["handler"]).into(), age(object, now)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // No real server can be brought to show this at once: its controllers write the conditions themselves.
    #[test]
    fn an_api_service_says_why_it_is_not_available() {
        for (conditions, expected) in [
            (json!([]), "Unknown"),
            (json!([{"type": "Available", "status": "True", "reason": "Passed"}]), "True"),
            (
                json!([{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]),
                "False (MissingEndpoints)",
            ),
            (json!([{"type": "Available", "status": "False"}]), "False"),
        ] {
            let object = json!({"metadata": {"name": "v1.example.com"}, "status": {"conditions": conditions}});
            let cells = api_service(&object, Timestamp::UNIX_EPOCH);
            assert_eq!(cells, ["v1.example.com", "Local", expected, "<unknown>"]);
        }
    }
}
