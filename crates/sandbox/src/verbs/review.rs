//! Answers questions about access: every client with the token may do everything that the store allows.

use crate::encoding::error::ApiError;
use crate::server::shared::Server;
use crate::types::known::{READING, is_review};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

impl Server {
    /// The answer to a review; `None` when the type is an ordinary one.
    pub(crate) fn review(&self, resource: &ApiResource, object: &Value) -> Result<Option<Value>, ApiError> {
        let read_only = self.store.read_only();
        let status = match resource.resource.as_str() {
            _ if !is_review(resource) => {
                if resource.can("get") {
                    return Ok(None);
                }
                return Err(ApiError::not_served(&format!("{} {}", resource.kind, resource.group)));
            }
            "selfsubjectreviews" => {
                json!({"userInfo": {"username": "sandbox", "groups": ["system:masters", "system:authenticated"]}})
            }
            "selfsubjectrulesreviews" => {
                let verbs = if read_only.is_some() { &READING[..] } else { &["*"] };
                json!({
                    "resourceRules": [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}],
                    "nonResourceRules": [{"verbs": [if read_only.is_some() { "get" } else { "*" }], "nonResourceURLs": ["*"]}],
                    "incomplete": false,
                })
            }
            _ => match read_only {
                Some(why) if !only_reads(&object["spec"]) => json!({"allowed": false, "reason": why}),
                Some(_) => json!({"allowed": true, "reason": "everything here may be read"}),
                None => json!({"allowed": true, "reason": "the sandbox denies nothing"}),
            },
        };
        let mut answer = object.clone();
        answer["status"] = status;
        Ok(Some(answer))
    }
}

/// Returns true if a review asks about something that a server of a read-only store offers: reads of objects and
/// documents, but no access to running pods.
fn only_reads(spec: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &spec["resourceAttributes"];
    if object.is_null() {
        return text(&spec["nonResourceAttributes"]["verb"]) == "get";
    }
    READING.contains(&text(&object["verb"]).as_str()) && ["", "status"].contains(&text(&object["subresource"]).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads() {
        for (spec, expected) in [
            (json!({"resourceAttributes": {"verb": "list", "resource": "pods"}}), true),
            (json!({"resourceAttributes": {"verb": "get", "resource": "pods", "subresource": "status"}}), true),
            (json!({"resourceAttributes": {"verb": "get", "resource": "pods", "subresource": "log"}}), false),
            (json!({"resourceAttributes": {"verb": "create", "resource": "pods"}}), false),
            (json!({"resourceAttributes": {"verb": "*", "resource": "*"}}), false),
            (json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}}), true),
            (json!({"nonResourceAttributes": {"verb": "post", "path": "/version"}}), false),
            (json!({}), false),
        ] {
            assert_eq!(only_reads(&spec), expected, "{spec}");
        }
    }
}
