//! The claims that movers mount. Pure.

use crate::config::CacheClaim;
use crate::transfer::Transfer;
use serde_json::{Value, json};

/// The annotation in which the scheduler names the node that it has chosen for the pod of a claim.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotations of a claim that belong to the binding of this very claim.
const OF_BINDING: [&str; 4] = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];
/// Megabytes of the cache where the repository's ConfigMap sets none.
pub(crate) const CACHE_LIMIT_MB: i64 = 5000;
/// The cache may be larger than its limit while it is cleaned.
const CACHE_ALLOWANCE: (i64, i64) = (12, 10);

/// The claim into which the volume of a download is restored: as the target, but without its selector, so that the storage makes a
/// volume for it.
pub(crate) fn restore_claim(transfer: &Transfer, target: &Value, selected_node: Option<&str>) -> Value {
    let annotations = match selected_node {
        Some(node) => json!({SELECTED_NODE: node}),
        None => {
            let mut annotations = target["metadata"]["annotations"].clone();
            if let Value::Object(annotations) = &mut annotations {
                annotations.retain(|key, _| !OF_BINDING.contains(&key.as_str()));
            }
            annotations
        }
    };
    let mut metadata = json!({
        "name": transfer.meta.name, "namespace": transfer.meta.namespace,
        "ownerReferences": [transfer.owner_reference()],
    });
    for (field, value) in [("annotations", annotations), ("labels", target["metadata"]["labels"].clone())] {
        if value.as_object().is_some_and(|fields| !fields.is_empty()) {
            metadata[field] = value;
        }
    }
    let mut spec = json!({});
    for field in ["accessModes", "storageClassName", "volumeMode", "resources"] {
        if !target["spec"][field].is_null() {
            spec[field] = target["spec"][field].clone();
        }
    }
    if transfer.is_in_blocks() {
        spec["volumeMode"] = json!("Block");
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
}

/// The name of the cache's claim.
pub(crate) fn cache_name(transfer: &Transfer) -> String {
    format!("{}-cache", transfer.meta.name)
}

/// The claim of a cache; `None` for a restore that is known to be small.
pub(crate) fn cache_claim(transfer: &Transfer, cache: &CacheClaim, limit_mb: i64, node: Option<&str>) -> Option<Value> {
    let size = transfer.snapshot_size();
    if size > 0 && size < cache.threshold_mb.saturating_mul(1 << 20) {
        return None;
    }
    let (more, of) = CACHE_ALLOWANCE;
    let bytes = limit_mb.max(1).saturating_mul(1 << 20).saturating_mul(more) / of;
    let gibibytes = (bytes + (1 << 30) - 1) >> 30;
    let mut metadata = json!({
        "name": cache_name(transfer), "namespace": transfer.meta.namespace,
        "ownerReferences": [transfer.owner_reference()],
    });
    if let Some(node) = node {
        metadata["annotations"] = json!({SELECTED_NODE: node});
    }
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": cache.storage_class, "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": format!("{gibibytes}Gi")}},
    });
    Some(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}))
}
