//! Finds other namespaces that hold an installation, or objects of its types: a removal leaves what they need.

use crate::kinds::{definitions, deployments};
use crate::names::component_selector;
use crate::read::{list, name, parse};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Finds the other namespaces that hold a Deployment of an installation, or an object of its types.
pub(crate) async fn elsewhere(cluster: &Cluster, namespace: &str) -> Result<BTreeSet<String>, ClusterError> {
    let labelled = component_selector();
    let mut types: BTreeMap<String, ApiResource> = BTreeMap::new();
    for definition in list(cluster, &definitions(), None, &labelled).await?.iter().chain(&lifeboat_api::crds()) {
        if let Some(resource) = served(definition) {
            types.entry(name(definition).to_owned()).or_insert(resource);
        }
    }
    let mut found = namespaces_of(cluster, &deployments(), &labelled).await?;
    for resource in types.values() {
        found.append(&mut namespaces_of(cluster, resource, "").await?);
    }
    found.remove(namespace);
    Ok(found)
}

/// Finds the namespaces that hold an object of this type; none when the cluster does not have the type.
async fn namespaces_of(
    cluster: &Cluster,
    resource: &ApiResource,
    selector: &str,
) -> Result<BTreeSet<String>, ClusterError> {
    let mut list = cluster.list(ListRequest {
        resource: Arc::new(resource.clone()),
        namespace: None,
        selector: selector.to_owned(),
        metadata_only: true,
    });
    let mut out = BTreeSet::new();
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                for body in bodies {
                    let object = parse("list", &resource.group_resource().to_string(), &body)?;
                    out.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
                }
            }
            Ok(None) => return Ok(out),
            Err(e) if e.is_not_found() => return Ok(out),
            Err(e) => return Err(e),
        }
    }
}

/// The type that a definition serves.
fn served(definition: &Value) -> Option<ApiResource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let version = spec["versions"].as_array()?.iter().find(|version| version["served"] == true)?;
    let names = &spec["names"];
    Some(ApiResource::new(
        text(&spec["group"])?,
        text(&version["name"])?,
        text(&names["plural"])?,
        text(&names["kind"])?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::custom;
    use lifeboat_api::{DataUpload, Restore};
    use serde_json::json;

    #[test]
    fn definitions_tell_how_their_objects_are_addressed() {
        let all: Vec<ApiResource> = lifeboat_api::crds().iter().filter_map(served).collect();
        assert_eq!(all.len(), 13);
        assert!(all.contains(&custom::<Restore>()) && all.contains(&custom::<DataUpload>()), "{all:?}");
        assert_eq!(served(&json!({"spec": {"versions": [{"name": "v1", "served": false}]}})), None);
    }
}
