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
