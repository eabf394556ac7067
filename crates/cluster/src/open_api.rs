//! The OpenAPI documents of an API server.

use crate::path::segment;
use crate::{Cluster, ClusterError, Failure};
use serde_json::Value;

impl Cluster {
    /// The OpenAPI v3 document of the types of one group and version; `None` when the server has none. The core group is `""`.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn open_api(&self, group: &str, version: &str) -> Result<Option<Value>, ClusterError> {
        let path = match group {
            "" => format!("/openapi/v3/api/{}", segment(version)),
            group => format!("/openapi/v3/apis/{}/{}", segment(group), segment(version)),
        };
        let (verb, what) = ("read the OpenAPI document", path.clone());
        match self.read(verb, &what, &path, Some("application/json")).await {
            Ok(body) => match serde_json::from_slice(&body) {
                Ok(document) => Ok(Some(document)),
                Err(e) => Err(ClusterError { verb, what, failure: Failure::Invalid(e.to_string()) }),
            },
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }
}
