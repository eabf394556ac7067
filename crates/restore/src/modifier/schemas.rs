//! How the types of the cluster are merged, as its OpenAPI documents say.

use lifeboat_cluster::Cluster;
use lifeboat_patch::MergeSchema;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Mutex;

type Document = Option<Arc<Map<String, Value>>>;

/// Reads the document of a group and version when the first of its types is asked for. All of them together take a few
/// megabytes for each group and version that strategic patches are for.
#[derive(Debug)]
pub(crate) struct Schemas {
    cluster: Cluster,
    known: Mutex<HashMap<String, Document>>,
}

impl Schemas {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), known: Mutex::default() }
    }

    /// The schema of a kind that is built into Kubernetes; `None` when the cluster has none of it, as of custom resources.
    ///
    /// # Errors
    /// Why it could not be read. It is asked for again the next time.
    pub(super) async fn of(&self, api_version: &str, kind: &str) -> Result<Option<MergeSchema>, String> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // Definitions of custom resources say nothing of strategic patches.
        if !group.is_empty() && group.contains('.') && !group.ends_with(".k8s.io") {
            return Ok(None);
        }
        let mut known = self.known.lock().await;
        let document = match known.get(api_version) {
            Some(document) => document.clone(),
            None => {
                let read = self.cluster.open_api(group, version).await;
                let document =
                    read.map_err(|e| format!("how {kind} is merged is not known: {e}"))?.map(MergeSchema::schemas);
                known.insert(api_version.to_owned(), document.clone());
                document
            }
        };
        drop(known);
        Ok(document.and_then(|schemas| MergeSchema::of(&schemas, group, version, kind)))
    }
}
