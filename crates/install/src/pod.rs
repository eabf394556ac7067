//! Parts that the pods of the server and of the node agent share. Pure.

use crate::installation::{Installation, PodResources};
use crate::names::{SECRET, SECRET_KEY, SERVICE_ACCOUNT};
use lifeboat_object::Quantity;
use serde_json::{Map, Value, json};

/// Binary and port in the image.
pub(crate) const PROGRAM: &str = "/velero";
pub(crate) const METRICS_PORT: u16 = 8085;
pub(crate) const METRICS_PORT_NAME: &str = "metrics";
const CREDENTIALS: &str = "/credentials";
/// The variables with which clients of the clouds find credentials.
const CREDENTIAL_VARIABLES: [&str; 4] = [
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CREDENTIALS_FILE",
    "ALIBABA_CLOUD_CREDENTIALS_FILE",
];

/// The operating system of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSystem {
    /// All but Windows.
    Linux,
    /// Windows.
    Windows,
}

/// Velero's rule for the pull policy: only an image that surely has a tag other than `latest` is taken from the node.
pub(crate) fn pull_policy(image: &str) -> &'static str {
    match image.split(':').collect::<Vec<_>>()[..] {
        [_, tag] if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

pub(crate) fn service_account(installation: &Installation) -> &str {
    installation.service_account.as_deref().unwrap_or(SERVICE_ACCOUNT)
}

pub(crate) fn add_credentials(
    installation: &Installation,
    env: &mut Vec<Value>,
    mounts: &mut Vec<Value>,
    volumes: &mut Vec<Value>,
) {
    if installation.secret.is_none() {
        return;
    }
    let file = format!("{CREDENTIALS}/{SECRET_KEY}");
    env.extend(CREDENTIAL_VARIABLES.map(|name| json!({"name": name, "value": file})));
    mounts.push(mount(SECRET, CREDENTIALS));
    volumes.push(json!({"name": SECRET, "secret": {"secretName": SECRET, "defaultMode": 0o444}}));
}

/// Processors and memory; a quantity of 0 is left out. Quantities were checked before.
pub(crate) fn resources(asked: &PodResources) -> Value {
    let mut out = Map::new();
    for (name, values) in
        [("requests", [&asked.cpu_request, &asked.memory_request]), ("limits", [&asked.cpu_limit, &asked.memory_limit])]
    {
        let given = ["cpu", "memory"].into_iter().zip(values).filter_map(|(unit, text)| {
            let quantity = Quantity::parse(text).filter(|quantity| !quantity.is_zero())?;
            Some((unit.to_owned(), json!(quantity.to_string())))
        });
        let given: Map<String, Value> = given.collect();
        if !given.is_empty() {
            out.insert(name.to_owned(), Value::Object(given));
        }
    }
    Value::Object(out)
}

/// Nodes of this system alone.
pub(crate) fn node_affinity(system: NodeSystem) -> Value {
    let operator = match system {
        NodeSystem::Linux => "NotIn",
        NodeSystem::Windows => "In",
    };
    let expression = json!({"key": "kubernetes.io/os", "operator": operator, "values": ["windows"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

pub(crate) fn mount(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path})
}

pub(crate) fn empty(name: &str) -> Value {
    json!({"name": name, "emptyDir": {}})
}

pub(crate) fn from_field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

/// Both maps in one; the second has the last word.
pub(crate) fn with(first: &Value, second: &Value) -> Value {
    let entries = [first, second].into_iter().filter_map(Value::as_object).flatten();
    entries.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_fixed_tag_are_taken_from_the_node() {
        for (image, policy) in [
            ("velero/velero:v1", "IfNotPresent"),
            ("velero/velero", "Always"),
            ("velero/velero:latest", "Always"),
            ("host:5000/velero:v1", "Always"),
            ("velero/velero@sha256:0", "IfNotPresent"),
            ("velero/velero:v1@sha256:0", "Always"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
