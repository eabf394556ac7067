//! The settings that a server has for new repositories, in a ConfigMap (velero: pkg/repository/config).

use crate::work::Context;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::BTreeMap;

/// The settings of the server for repositories of this format; none without a ConfigMap.
///
/// # Errors
/// A message for people when the ConfigMap cannot be read, or what it says has no meaning.
pub(super) async fn of_server(context: &Context, format: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(name) = &context.options.repository.config_map else { return Ok(BTreeMap::new()) };
    let maps = ApiResource::new("", "v1", "configmaps", "ConfigMap");
    let client = &context.client;
    let found = client.cluster.get(&maps, Some(&client.namespace), name).await;
    let Some(found) =
        found.map_err(|e| format!("unable to get the ConfigMap {name} with settings of repositories: {e}"))?
    else {
        // compat: the server's start demands it, and later it may be gone.
        tracing::warn!(
            config_map = name,
            "the ConfigMap with settings of repositories is gone: a new one has the defaults"
        );
        return Ok(BTreeMap::new());
    };
    let map: Value = serde_json::from_slice(&found).map_err(|e| format!("the ConfigMap {name} is no JSON: {e}"))?;
    settings(&map, format)
        .map_err(|why| format!("--backup-repository-configmap {name}: {why}; correct it, or leave the key out"))
}

/// The settings that a ConfigMap has for repositories of a format, each as a text.
fn settings(map: &Value, format: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(text) = map["data"][format].as_str() else { return Ok(BTreeMap::new()) };
    let value: Value = serde_json::from_str(text).map_err(|e| format!("key {format} is no JSON: {e}"))?;
    let Some(fields) = value.as_object() else { return Err(format!("key {format} is no JSON object")) };
    let mut out = BTreeMap::new();
    for (key, value) in fields {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            // What Velero writes for it says nothing to a reader.
            _ => return Err(format!("key {format}: {key} is neither a text nor a number")),
        };
        if key == "cacheLimitMB" && text.parse::<u32>().map_or(true, |limit| limit == 0) {
            return Err(format!("key {format}: cacheLimitMB {text} is no whole number of megabytes above 0"));
        }
        out.insert(key.clone(), text);
    }
    lifeboat_lifecycle::phase::repository::full_maintenance(&out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_of_a_format_are_taken_as_texts() {
        let of = |text: &str| settings(&json!({"data": {"kopia": text, "restic": "no"}}), "kopia");
        let pairs =
            |pairs: &[(&str, &str)]| Ok(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        assert_eq!(settings(&json!({}), "kopia"), Ok(BTreeMap::new()));
        assert_eq!(of("{}"), Ok(BTreeMap::new()));
        assert_eq!(
            of(r#"{"cacheLimitMB": 2048000, "fullMaintenanceInterval": "fastGC", "enableCompression": true}"#),
            pairs(&[("cacheLimitMB", "2048000"), ("enableCompression", "true"), ("fullMaintenanceInterval", "fastGC")])
        );
        assert_eq!(of(r#"{"cacheLimitMB": "50"}"#), pairs(&[("cacheLimitMB", "50")]));
    }

    #[test]
    fn settings_without_a_meaning_are_refused_with_the_reason() {
        for (text, why) in [
            ("{", "key kopia is no JSON: "),
            ("[]", "key kopia is no JSON object"),
            (r#"{"cacheLimitMB": "much"}"#, "key kopia: cacheLimitMB much is no whole number of megabytes above 0"),
            (r#"{"cacheLimitMB": 0}"#, "key kopia: cacheLimitMB 0 is no whole number of megabytes above 0"),
            (r#"{"a": {"b": 1}}"#, "key kopia: a is neither a text nor a number"),
            (r#"{"fullMaintenanceInterval": "x"}"#, "invalid full maintenance interval option x: "),
        ] {
            let told = settings(&json!({"data": {"kopia": text}}), "kopia").unwrap_err();
            assert!(told.starts_with(why), "{text}: {told}");
        }
    }
}
