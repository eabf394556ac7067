//! The namespaces that are to be protected.

use super::state::NamespaceInventory;
use lifeboat_api::{ObjectMeta, Time};
use lifeboat_select::{NamespaceFacts, is_kept_out};

/// Namespaces of Kubernetes itself, which nobody is expected to back up.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// A namespace of this metadata, when it is to be protected: not one of Kubernetes, that of the server, one that is being deleted, or one
/// that its label keeps out of backups. Its claims are not counted.
#[must_use]
pub fn namespace_to_protect(meta: ObjectMeta, own: &str) -> Option<NamespaceInventory> {
    let is_of_system = SYSTEM.contains(&meta.name.as_str()) || meta.name == own;
    if is_of_system || meta.deletion_timestamp.is_some() || is_kept_out(&meta.labels) {
        return None;
    }
    Some(NamespaceInventory {
        created: meta.creation_timestamp.map(Time::timestamp),
        facts: NamespaceFacts { name: meta.name, labels: meta.labels, active: true },
        claims: None,
    })
}
