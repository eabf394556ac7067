//! Removes fields of an object in the cluster that would keep an apply from its effect.

use crate::error::InstallError;
use crate::single::{address, found};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, MergePatch};
use serde_json::{Value, json};

/// Removes those fields of an object in the cluster that contradict the object to be applied and belong to other managers: an
/// apply would leave them.
pub(crate) async fn clear(cluster: &Cluster, object: &Value, restricted: bool) -> Result<(), InstallError> {
    if object["kind"] != "Deployment" {
        return Ok(());
    }
    let Some(found) = found(cluster, object).await? else { return Ok(()) };
    if let Some(patch) = cleared(&found, object, restricted) {
        let (resource, namespace, name) = address(object)?;
        let patch = Bytes::from(patch.to_string());
        cluster.patch(&resource, namespace, name, MergePatch::of(patch)).await?;
    }
    Ok(())
}

/// The merge patch that makes way for a Deployment, when one is needed.
fn cleared(found: &Value, deployment: &Value, restricted: bool) -> Option<Value> {
    let mut patch = json!({});
    // Bounds for rolling updates, which the API server puts into what Velero installs.
    let strategy = &deployment["spec"]["strategy"]["type"];
    if strategy == "Recreate" && !found["spec"]["strategy"]["rollingUpdate"].is_null() {
        patch["spec"]["strategy"] = json!({"type": strategy, "rollingUpdate": null});
    }
    // Plugins that Velero has installed: a restricted namespace would refuse their containers, and the whole pod with them.
    let containers = |deployment: &Value| deployment["spec"]["template"]["spec"]["initContainers"].clone();
    let (there, wanted) = (containers(found), containers(deployment));
    let is_wanted =
        |container: &&Value| wanted.as_array().into_iter().flatten().any(|wanted| wanted["name"] == container["name"]);
    let there = there.as_array().map(Vec::as_slice).unwrap_or_default();
    let kept: Vec<&Value> = there.iter().filter(is_wanted).collect();
    if restricted && kept.len() < there.len() {
        patch["spec"]["template"]["spec"]["initContainers"] = json!(kept);
    }
    (patch != json!({})).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_rolling_updates_make_way() {
        let deployment = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let bounds = json!({"maxSurge": "25%"});
        let rolling = deployment(json!({"type": "RollingUpdate", "rollingUpdate": bounds}));
        let recreate = deployment(json!({"type": "Recreate"}));
        assert_eq!(
            cleared(&rolling, &recreate, false),
            Some(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}))
        );
        assert_eq!(cleared(&recreate, &recreate, false), None);
        assert_eq!(cleared(&rolling, &deployment(json!({"type": "RollingUpdate"})), false), None);
    }

    #[test]
    fn plugins_that_a_restricted_namespace_refuses_make_way() {
        let deployment = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"strategy": {"type": "Recreate"}, "template": {"spec": {"initContainers": containers}}}})
        };
        let patch = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"template": {"spec": {"initContainers": containers}}}})
        };
        let none = json!({"spec": {"strategy": {"type": "Recreate"}}});
        assert_eq!(cleared(&deployment(&["a", "b"]), &deployment(&["b"]), true), Some(patch(&["b"])));
        assert_eq!(cleared(&deployment(&["a"]), &none, true), Some(patch(&[])));
        assert_eq!(cleared(&deployment(&["a"]), &none, false), None);
        assert_eq!(cleared(&deployment(&["a"]), &deployment(&["a", "b"]), true), None);
        assert_eq!(cleared(&none, &none, true), None);
    }
}
