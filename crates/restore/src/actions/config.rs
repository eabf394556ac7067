//! Configuration of the actions: ConfigMaps of Velero's namespace (velero: pkg/restore/actions).

use super::known;
use lifeboat_action::ActionError;
use lifeboat_cluster::{Cluster, ListRequest};
use serde_json::Value;
use std::collections::BTreeMap;

/// Configuration of the actions, read once per restore from the ConfigMaps of Velero's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActionConfig {
    /// Parts of image names and their replacements, in the order of the ConfigMap's sorted keys.
    pub(crate) image_rules: Vec<(String, String)>,
    /// Names of storage classes and their replacements.
    pub(crate) storage_classes: BTreeMap<String, String>,
    /// Settings of the init container that waits for files.
    pub(crate) restore_wait: BTreeMap<String, String>,
}

impl ActionConfig {
    /// Reads the configuration. There is none where the namespace or a ConfigMap is missing, or may not be read.
    ///
    /// # Errors
    /// [`ActionError`] when the cluster cannot be asked, or more than one ConfigMap claims to configure an action.
    pub(crate) async fn load(cluster: &Cluster, velero_namespace: &str) -> Result<Self, ActionError> {
        let images = data(cluster, velero_namespace, "velero.io/change-image-name").await?;
        let storage_classes = data(cluster, velero_namespace, "velero.io/change-storage-class").await?;
        let restore_wait = data(cluster, velero_namespace, "velero.io/pod-volume-restore").await?;
        let image_rules = images.values().filter_map(|rule| image_rule(rule)).collect();
        Ok(Self { image_rules, storage_classes, restore_wait })
    }
}

/// `<old part>,<new part>` (velero: pkg/restore/actions).
fn image_rule(rule: &str) -> Option<(String, String)> {
    let (old, new) = rule.split_once(',').filter(|(_, new)| !new.is_empty())?;
    if old.trim().is_empty() {
        // Velero would put the new part between all letters of every image, which no user can want.
        tracing::warn!(rule, "an image rule without an old part is ignored");
        return None;
    }
    Some((old.trim().to_owned(), new.trim().to_owned()))
}

/// The data of the one ConfigMap that configures an action.
async fn data(cluster: &Cluster, namespace: &str, action: &str) -> Result<BTreeMap<String, String>, ActionError> {
    let selector = format!("velero.io/plugin-config,{action}=RestoreItemAction");
    if namespace.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut list = cluster
        .list(ListRequest::all(known::config_maps()).in_namespace(namespace.to_owned()).labelled(selector.clone()));
    // By name: a list may hand out an object twice.
    let mut found = BTreeMap::new();
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                for body in bodies {
                    let object: Value = serde_json::from_slice(&body)
                        .map_err(|e| ActionError::item(format!("cannot read the configuration of {action}: {e}")))?;
                    found.insert(object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), texts(&object));
                }
            }
            Ok(None) => break,
            Err(e) if e.is_not_found() => break,
            Err(e) if e.is_forbidden() => {
                tracing::warn!(action, error = %e, "the action is not configured: its configuration may not be read");
                break;
            }
            Err(e) => return Err(ActionError::item(format!("cannot read the configuration of {action}: {e}"))),
        }
    }
    if found.len() > 1 {
        let names: Vec<_> = found.into_keys().collect();
        return Err(ActionError::item(format!(
            "found more than one ConfigMap matching label selector {selector:?}: [{}]",
            names.join(" ")
        )));
    }
    Ok(found.into_values().next().unwrap_or_default())
}

fn texts(config_map: &Value) -> BTreeMap<String, String> {
    let data = config_map["data"].as_object().into_iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{FixedResponse, TestServer};
    use super::*;
    use serde_json::json;

    const LIST: &str = "/api/v1/namespaces/velero/configmaps?";

    fn config_map(name: &str, data: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "velero"}, "data": data})
    }

    fn path(action: &str) -> String {
        format!("{LIST}limit=50&labelSelector=velero.io%2Fplugin-config%2Cvelero.io%2F{action}%3DRestoreItemAction")
    }

    #[tokio::test]
    async fn reads_one_config_map_for_each_action() {
        let images = config_map("images", &json!({"b": " old , new ", "a": "x,y,z", "c": "nothing", "d": "gone,"}));
        let classes = config_map("classes", &json!({"slow": "fast", "odd": 3}));
        let server = TestServer::start(vec![
            FixedResponse::list(path("change-image-name"), &[images]),
            FixedResponse::list(path("change-storage-class"), &[classes]),
            FixedResponse::list(path("pod-volume-restore"), &[config_map("wait", &json!({"cpuLimit": "1"}))]),
        ])
        .await;
        let rule = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        assert_eq!(
            ActionConfig::load(&server.cluster, "velero").await.unwrap(),
            ActionConfig {
                image_rules: vec![rule("x", "y,z"), rule("old", "new")],
                storage_classes: BTreeMap::from([rule("slow", "fast")]),
                restore_wait: BTreeMap::from([rule("cpuLimit", "1")]),
            }
        );
    }

    #[tokio::test]
    async fn nothing_is_configured_where_nothing_can_be_read() {
        let empty = TestServer::start(vec![FixedResponse::list(LIST, &[])]).await;
        let denied = TestServer::start(vec![FixedResponse::status(LIST, 403, "Forbidden", "no")]).await;
        let absent = TestServer::start(vec![]).await;
        for server in [empty, denied, absent] {
            assert_eq!(ActionConfig::load(&server.cluster, "velero").await.unwrap(), ActionConfig::default());
        }
        let silent = TestServer::start(vec![]).await;
        assert_eq!(ActionConfig::load(&silent.cluster, "").await.unwrap(), ActionConfig::default());
        assert_eq!(silent.requests(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn two_config_maps_for_one_action_are_an_error() {
        let both = [config_map("b", &json!({})), config_map("a", &json!({}))];
        let server = TestServer::start(vec![FixedResponse::list(LIST, &both)]).await;
        assert_eq!(
            ActionConfig::load(&server.cluster, "velero").await.unwrap_err().to_string(),
            "found more than one ConfigMap matching label selector \"velero.io/plugin-config,velero.io/change-image-name=RestoreItemAction\": [a b]"
        );
    }

    #[tokio::test]
    async fn any_other_refusal_is_an_error() {
        let server = TestServer::start(vec![FixedResponse::status(LIST, 401, "Unauthorized", "who are you")]).await;
        assert_eq!(
            ActionConfig::load(&server.cluster, "velero").await.unwrap_err().to_string(),
            "cannot read the configuration of velero.io/change-image-name: cannot list configmaps in namespace velero: who are you"
        );
    }

    #[test]
    fn image_rules_are_split_at_the_first_comma() {
        let cases = [
            ("a,b", Some(("a", "b"))),
            (" a , b,c ", Some(("a", "b,c"))),
            ("a, ", Some(("a", ""))),
            ("a,", None),
            ("a", None),
            (",b", None),
            (" ,b", None),
            ("", None),
        ];
        for (rule, expected) in cases {
            let expected = expected.map(|(old, new)| (old.to_owned(), new.to_owned()));
            assert_eq!(image_rule(rule), expected, "{rule:?}");
        }
    }
}
