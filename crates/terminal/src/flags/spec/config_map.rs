//! References to ConfigMaps.

use lifeboat_api::TypedLocalObjectReference;

/// A reference to a ConfigMap as Velero writes it; none without a name.
pub(super) fn config_map(name: &str) -> Option<TypedLocalObjectReference> {
    let reference = TypedLocalObjectReference {
        api_group: None,
        kind: "configmap".to_owned(),
        name: name.to_owned(),
        ..TypedLocalObjectReference::default()
    };
    (!name.is_empty()).then_some(reference)
}
