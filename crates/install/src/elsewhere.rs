//! Finds other namespaces that hold an installation, or objects of its types: a removal leaves the objects that they
//! need.

use crate::kinds::{definitions, deployments};
use crate::names::component_selector;
use crate::read::{list, name};
use lifeboat_api::ObjectMeta;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
    let mut out = BTreeSet::new();
    let take = |meta: ObjectMeta| {
        if !meta.namespace.is_empty() {
            out.insert(meta.namespace);
        }
    };
    match cluster.each_metadata(resource, None, selector, take).await {
        Err(e) if e.is_not_found() => Ok(out),
        listed => listed.map(|()| out),
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
