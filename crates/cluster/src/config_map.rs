//! Documents in ConfigMaps.

use crate::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// A ConfigMap from which no document could be taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigMapError {
    /// There is none of the name.
    #[error("there is no such ConfigMap")]
    Missing,
    /// It could not be read.
    #[error(transparent)]
    Unread(#[from] ClusterError),
    /// It has not exactly one key.
    #[error("it must have exactly one key in its data, and has {0}")]
    NotOneKey(usize),
}

impl Cluster {
    /// The text under this key in the `data` of a ConfigMap; `None` when there is no such ConfigMap or key.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn config_map_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<String>, ClusterError> {
        let Some(body) = self.get(&config_maps(), Some(namespace), name).await? else { return Ok(None) };
        let found: Value = serde_json::from_slice(&body).unwrap_or_default();
        Ok(found["data"][key].as_str().map(str::to_owned))
    }

    /// The text under the one key that a ConfigMap has in its `data`, whatever the key is called.
    ///
    /// # Errors
    /// [`ConfigMapError`].
    pub async fn config_map_text(&self, namespace: &str, name: &str) -> Result<String, ConfigMapError> {
        let body = self.get(&config_maps(), Some(namespace), name).await?.ok_or(ConfigMapError::Missing)?;
        let found: Value = serde_json::from_slice(&body).unwrap_or_default();
        let data = found["data"].as_object();
        let mut values = data.into_iter().flat_map(|data| data.values());
        match (data.map_or(0, serde_json::Map::len), values.next().and_then(Value::as_str)) {
            (1, Some(text)) => Ok(text.to_owned()),
            (count, _) => Err(ConfigMapError::NotOneKey(count)),
        }
    }
}

fn config_maps() -> ApiResource {
    ApiResource { namespaced: true, ..ApiResource::new("", "v1", "configmaps", "ConfigMap") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedResponse;
    use serde_json::json;

    #[tokio::test]
    async fn a_document_is_the_one_key_of_its_config_map() {
        for (data, expected) in [
            (json!({"any": "text"}), Ok("text")),
            (json!({"any": ""}), Ok("")),
            (json!({}), Err("it must have exactly one key in its data, and has 0")),
            (json!({"a": "1", "b": "2"}), Err("it must have exactly one key in its data, and has 2")),
            (Value::Null, Err("it must have exactly one key in its data, and has 0")),
        ] {
            let (cluster, sent) = Cluster::scripted(vec![ScriptedResponse::json(200, &json!({"data": data}))]);
            let text = cluster.config_map_text("velero", "settings").await.map_err(|e| e.to_string());
            assert_eq!(text.as_deref().map_err(String::as_str), expected, "{data}");
            assert_eq!(sent.lines(), ["GET /api/v1/namespaces/velero/configmaps/settings"]);
        }
    }

    #[tokio::test]
    async fn a_config_map_that_is_missing_is_told_from_one_that_may_not_be_read() {
        for (code, expected) in
            [(404, "there is no such ConfigMap"), (403, "cannot get configmaps/velero/settings: no")]
        {
            let (cluster, _) = Cluster::scripted(vec![ScriptedResponse::refusal(code, "", "no")]);
            assert_eq!(cluster.config_map_text("velero", "settings").await.unwrap_err().to_string(), expected);
        }
    }

    #[tokio::test]
    async fn a_key_that_a_config_map_lacks_is_no_error() {
        let map = ScriptedResponse::json(200, &json!({"data": {"a": "1"}}));
        let (cluster, _) = Cluster::scripted(vec![map]);
        let value = async |key| cluster.config_map_value("velero", "settings", key).await.unwrap();
        assert_eq!([value("a").await, value("b").await], [Some("1".to_owned()), None]);
        let (cluster, _) = Cluster::scripted(vec![ScriptedResponse::refusal(404, "NotFound", "no")]);
        assert_eq!(cluster.config_map_value("velero", "settings", "a").await.unwrap(), None);
    }
}
