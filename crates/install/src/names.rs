//! The names and labels by which the parts of an installation are found. Pure.

use lifeboat_api::well_known::LABEL_COMPONENT;
use serde_json::{Map, Value, json};

/// The server's Deployment.
pub const DEPLOYMENT: &str = "velero";
/// The Secret with the credentials for the provider, and its key.
pub(crate) const SECRET: &str = "cloud-credentials";
pub(crate) const SECRET_KEY: &str = "cloud";
/// The service account that is made for the server.
pub(crate) const SERVICE_ACCOUNT: &str = "velero";
/// The value of [`LABEL_COMPONENT`] on every object of an installation.
pub(crate) const COMPONENT: &str = "velero";

/// The label that every object of an installation has.
pub(crate) fn component() -> Map<String, Value> {
    Map::from_iter([(LABEL_COMPONENT.to_owned(), json!(COMPONENT))])
}

/// The selector of all objects of an installation.
pub(crate) fn component_selector() -> String {
    format!("{LABEL_COMPONENT}={COMPONENT}")
}

/// Returns true if an object has the label that every object of an installation has.
pub(crate) fn is_component(object: &Value) -> bool {
    object["metadata"]["labels"][LABEL_COMPONENT] == COMPONENT
}

/// The name of the rights of the server in this namespace, which are cluster-wide.
pub(crate) fn cluster_name(namespace: &str) -> String {
    if namespace == "velero" { namespace.to_owned() } else { format!("velero-{namespace}") }
}

/// The metadata that every object of an installation has.
pub(crate) fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "labels": component()});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}
