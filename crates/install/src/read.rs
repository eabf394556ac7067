//! Reads objects of a cluster as JSON values: an installation is few objects, and they are looked into.

use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, Failure, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;

/// The pause between two reads of the same object.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// Reads one object; `None` when there is none.
pub(crate) async fn get(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, ClusterError> {
    let found = cluster.get(resource, namespace, name).await?;
    let parse = |body: Bytes| {
        let place = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        parse("get", &format!("{}/{place}{name}", resource.group_resource()), &body)
    };
    found.map(parse).transpose()
}

/// Reads the objects of a type that the selector matches; an empty selector matches all.
pub(crate) async fn list(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<Value>, ClusterError> {
    let mut list =
        cluster.list(ListRequest::all(resource.clone()).in_namespace(namespace.map(str::to_owned)).labelled(selector));
    let mut out = Vec::new();
    while let Some(bodies) = list.next().await? {
        for body in bodies {
            out.push(parse("list", &resource.group_resource().to_string(), &body)?);
        }
    }
    Ok(out)
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns true if a condition of an object is true.
pub(crate) fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Parses an answer of the API server.
pub(crate) fn parse(verb: &'static str, what: &str, body: &Bytes) -> Result<Value, ClusterError> {
    serde_json::from_slice(body).map_err(|e| ClusterError {
        verb,
        what: what.to_owned(),
        failure: Failure::Invalid(e.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_count_when_they_are_true() {
        let definition = json!({"status": {"conditions": [
            {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "False"},
        ]}});
        assert!(has_condition(&definition, "NamesAccepted"));
        assert!(!has_condition(&definition, "Established") && !has_condition(&Value::Null, "Established"));
    }

    #[test]
    fn an_answer_that_is_no_json_tells_to_what() {
        let error = parse("get", "secrets/a", &Bytes::from_static(b"<html>")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot get secrets/a: the answer is not valid: expected value at line 1 column 1"
        );
    }
}
