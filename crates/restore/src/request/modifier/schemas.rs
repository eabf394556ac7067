//! Merge rules of the types of the cluster, from its OpenAPI documents.

use crate::state::lock::lock;
use lifeboat_cluster::Cluster;
use lifeboat_object::is_built_in;
use lifeboat_patch::MergeSchema;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

type SchemaDocument = Option<Arc<Map<String, Value>>>;

/// Pause before a document that could not be read is requested again: an object that waits for it is tried for a
/// minute.
const PAUSE: Duration = Duration::from_secs(10);

/// That it is not known how objects are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotKnown {
    /// The reason, for people.
    pub(crate) why: String,
    /// True when it may be known later.
    pub(crate) can_pass: bool,
}

/// Reads the document of a group and version when the first of its types is asked for. All of them together take a few
/// megabytes for each group and version that strategic patches are for.
#[derive(Debug)]
pub(crate) struct Schemas {
    cluster: Cluster,
    known: Mutex<HashMap<String, Arc<OnceCell<CachedDocument>>>>,
}

/// Result of reading a document.
#[derive(Debug)]
struct CachedDocument {
    document: Result<SchemaDocument, NotKnown>,
    at: Instant,
}

impl CachedDocument {
    /// Returns true if it is out of date.
    fn is_over(&self) -> bool {
        self.document.is_err() && self.at.elapsed() > PAUSE
    }
}

impl Schemas {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), known: Mutex::default() }
    }

    /// The schema of a kind that is built into Kubernetes; `None` when the cluster has none of it, as of custom resources.
    ///
    /// # Errors
    /// Returns the reason why it could not be read. It is requested again after a pause.
    pub(super) async fn of(&self, api_version: &str, kind: &str) -> Result<Option<MergeSchema>, NotKnown> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // Definitions of custom resources say nothing of strategic patches.
        if !is_built_in(group) {
            return Ok(None);
        }
        // Whoever wants the same document waits for it, and nobody else.
        let cell = self.cell(api_version);
        let read = cell.get_or_init(|| async {
            let read = self.cluster.open_api(group, version).await;
            let document = read.map(|document| document.map(MergeSchema::schemas));
            let document = document.map_err(|e| NotKnown { why: e.to_string(), can_pass: e.can_pass() });
            CachedDocument { document, at: Instant::now() }
        });
        match &read.await.document {
            Ok(document) => Ok(document.as_ref().and_then(|all| MergeSchema::of(all, group, version, kind))),
            Err(NotKnown { why, can_pass }) => {
                Err(NotKnown { why: format!("how {kind} is merged is not known: {why}"), can_pass: *can_pass })
            }
        }
    }

    fn cell(&self, api_version: &str) -> Arc<OnceCell<CachedDocument>> {
        let mut known = lock(&self.known);
        let cell = known.entry(api_version.to_owned()).or_default();
        if cell.get().is_some_and(CachedDocument::is_over) {
            *cell = Arc::default();
        }
        Arc::clone(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::test_server::{FixedResponse, TestServer};
    use serde_json::json;

    const CORE: &str = "/openapi/v3/api/v1";
    const APPS: &str = "/openapi/v3/apis/apps/v1";

    #[tokio::test]
    async fn no_type_waits_for_the_document_of_another_one() {
        let server = TestServer::start(vec![FixedResponse::object(APPS, &json!({}))]).await;
        let schemas = Schemas::new(&server.cluster);
        let mut first = std::pin::pin!(schemas.of("v1", "Pod"));
        assert!(futures::poll!(&mut first).is_pending());
        let second = tokio::time::timeout(Duration::from_secs(20), schemas.of("apps/v1", "Deployment")).await;
        assert_eq!(second.unwrap().map(|found| found.is_none()), Ok(true));
        assert_eq!(first.await.map(|found| found.is_none()), Ok(true));
    }

    #[tokio::test]
    async fn a_document_is_read_once_and_an_unreadable_one_again_after_a_pause() {
        let refused = FixedResponse::status(APPS, 403, "Forbidden", "no");
        let server = TestServer::start(vec![FixedResponse::object(CORE, &json!({})), refused]).await;
        let schemas = Schemas::new(&server.cluster);
        for _ in 0..2 {
            assert!(schemas.of("v1", "Pod").await.is_ok());
            let NotKnown { why, can_pass } = schemas.of("apps/v1", "Deployment").await.map(drop).unwrap_err();
            assert!(why.starts_with("how Deployment is merged is not known: ") && !can_pass, "{why}");
        }
        assert_eq!(server.requests(), [CORE, APPS]);
        tokio::time::pause();
        tokio::time::advance(PAUSE + Duration::from_secs(1)).await;
        tokio::time::resume();
        assert!(schemas.of("v1", "Pod").await.is_ok());
        assert!(schemas.of("apps/v1", "Deployment").await.is_err());
        assert_eq!(server.requests(), [CORE, APPS, APPS]);
    }
}
