//! Lists of what objects are called and carry, without their contents.

use crate::{Cluster, ClusterError, Failure, ListRequest};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An object of which the rest is not looked at.
#[derive(Deserialize)]
struct Partial<M> {
    metadata: M,
}

/// The metadata of an object, of which the rest is not looked at.
///
/// # Errors
/// When it is no `M`.
pub fn metadata_of<M: DeserializeOwned>(object: &[u8]) -> serde_json::Result<M> {
    serde_json::from_slice::<Partial<M>>(object).map(|partial| partial.metadata)
}

impl Cluster {
    /// Hands out the metadata of each object of a type that a label selector matches (an empty one matches all), of one namespace or of
    /// all. It may hand one out twice.
    ///
    /// # Errors
    /// [`ClusterError`]; also when the metadata of an object is no `M`.
    pub async fn each_metadata<M: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        selector: &str,
        mut take: impl FnMut(M),
    ) -> Result<(), ClusterError> {
        let mut list = self.list(
            ListRequest::all(resource.clone())
                .in_namespace(namespace.map(str::to_owned))
                .labelled(selector)
                .metadata_only(),
        );
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                take(metadata_of(&body).map_err(|e| ClusterError {
                    verb: "list",
                    what: resource.group_resource().to_string(),
                    failure: Failure::Invalid(e.to_string()),
                })?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedResponse;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    struct Name {
        name: String,
    }

    fn maps() -> ApiResource {
        ApiResource { namespaced: true, ..ApiResource::new("", "v1", "configmaps", "ConfigMap") }
    }

    #[tokio::test]
    async fn metadata_of_all_objects_is_handed_out_and_nothing_else_is_asked_for() {
        let items = json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]);
        let list = ScriptedResponse::json(200, &json!({"metadata": {}, "items": items}));
        let (cluster, sent) = Cluster::scripted(vec![list]);
        let mut names = Vec::new();
        cluster.each_metadata(&maps(), Some("shop"), "app=web", |one: Name| names.push(one.name)).await.unwrap();
        assert_eq!(names, ["a", "b"]);
        let asked = sent.lines().concat();
        assert!(asked.contains("labelSelector=app%3Dweb") && asked.contains("PartialObjectMetadataList"), "{asked}");
    }

    #[tokio::test]
    async fn metadata_of_another_form_is_an_error_that_names_the_type() {
        let list = ScriptedResponse::json(200, &json!({"metadata": {}, "items": [{"metadata": {"name": 1}}]}));
        let (cluster, _) = Cluster::scripted(vec![list]);
        let error = cluster.each_metadata(&maps(), None, "", |_: Name| {}).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot list configmaps: the answer is not valid: "), "{error}");
    }
}
