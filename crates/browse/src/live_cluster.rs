//! The cluster with which a backup is compared: its types, its namespaces, and lists of it.

use crate::diff_scope::DiffScope;
use crate::live_error::LiveError;
use crate::live_plan::ListPlace;
use lifeboat_cluster::{Cluster, List, ListRequest};
use lifeboat_object::{ApiResource, Catalog, GroupResource, types_named};
use lifeboat_select::NamespaceFacts;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A cluster and the types that it serves now.
#[derive(Debug)]
pub struct LiveCluster<'a> {
    cluster: &'a Cluster,
    pub(crate) catalog: Catalog,
}

impl<'a> LiveCluster<'a> {
    /// Asks a cluster for its types.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn discover(cluster: &'a Cluster) -> Result<Self, LiveError> {
        Ok(Self { cluster, catalog: cluster.discover().await? })
    }

    /// The types that a word of a user names, as [`BackupStore::resources_of`](crate::BackupStore::resources_of) takes it.
    #[must_use]
    pub fn resources_of(&self, word: &str) -> Vec<GroupResource> {
        types_named(word, self.catalog.all()).into_iter().map(|found| found.group_resource()).collect()
    }

    /// Begins to list a type in a place.
    pub(crate) fn list(&self, api: &Arc<ApiResource>, place: &ListPlace) -> List {
        let request = ListRequest::all(Arc::clone(api)).in_namespace(place.namespace.clone());
        self.cluster.list(request).with_fields(place.fields.clone())
    }

    /// The namespaces of the cluster. Of one that may not be looked at, or of all, nothing but its name is known: `names`.
    pub(crate) async fn namespaces(
        &self,
        scope: &DiffScope,
        names: BTreeSet<String>,
    ) -> Result<Vec<NamespaceFacts>, LiveError> {
        let unseen = |name: String| (name.clone(), NamespaceFacts::named(name));
        let mut found: BTreeMap<String, NamespaceFacts> = names.into_iter().map(unseen).collect();
        let Some(api) = self.catalog.find(&GroupResource::namespaces()) else {
            return Ok(found.into_values().collect());
        };
        let places = match scope.namespaces.is_empty() {
            true => vec![ListPlace::everywhere()],
            false => scope.namespaces.iter().map(|name| ListPlace::of_namespace_itself(name)).collect(),
        };
        for place in places {
            let mut list = self.list(api, &place);
            loop {
                match list.next().await {
                    Ok(Some(bodies)) => found.extend(bodies.iter().filter_map(|body| {
                        let facts = facts(&serde_json::from_slice(body).ok()?)?;
                        Some((facts.name.clone(), facts))
                    })),
                    Ok(None) => break,
                    // The comparison of namespaces reports it.
                    Err(e) if e.is_forbidden() => break,
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(found.into_values().collect())
    }
}

/// The facts about a namespace that filters need.
pub(crate) fn facts(namespace: &Value) -> Option<NamespaceFacts> {
    Some(NamespaceFacts {
        name: namespace["metadata"]["name"].as_str()?.to_owned(),
        labels: lifeboat_object::labels(namespace),
        active: namespace["status"]["phase"].as_str().is_none_or(|phase| phase == "Active"),
    })
}
