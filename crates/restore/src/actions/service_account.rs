//! `velero.io/service-account`: removes the generated token, since old clusters make one of their own.

use super::edit::text;
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use serde_json::Value;

/// Removes the generated token from the secrets of the account (velero: pkg/restore/actions).
///
/// compat: the last one only. A person may have added others of such a name, and Velero keeps them.
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mut item = input.item;
    let tokens = format!("{}-token-", text(&item["metadata"], "name"));
    let Some(object) = item.as_object_mut() else { return Ok(RestoreItemOutput::with(item)) };
    if let Some(secrets) = object.get_mut("secrets").and_then(Value::as_array_mut)
        && let Some(last) = secrets.iter().rposition(|secret| text(secret, "name").starts_with(&tokens))
    {
        secrets.remove(last);
        if secrets.is_empty() {
            object.remove("secrets");
        }
    }
    Ok(RestoreItemOutput::with(item))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_generated_token_goes() {
        let cases = [
            (json!([{"name": "web-token-a"}, {"name": "pull"}]), json!([{"name": "pull"}])),
            (
                json!([{"name": "web-token-a"}, {"name": "web-token-b"}, {"name": "pull"}]),
                json!([{"name": "web-token-a"}, {"name": "pull"}]),
            ),
            (
                json!([{"name": "api-token-a"}, "odd", {"name": 1}]),
                json!([{"name": "api-token-a"}, "odd", {"name": 1}]),
            ),
            (json!([]), json!([])),
            (json!({"name": "web-token-a"}), json!({"name": "web-token-a"})),
        ];
        for (secrets, expected) in cases {
            let object = |secrets| json!({"kind": "ServiceAccount", "metadata": {"name": "web"}, "secrets": secrets, "imagePullSecrets": [{"name": "web-token-a"}]});
            assert_eq!(run(restore, &object(secrets)).unwrap(), RestoreItemOutput::with(object(expected)));
        }
        let only = json!({"metadata": {"name": "web"}, "secrets": [{"name": "web-token-a"}]});
        let output = run(restore, &only).unwrap();
        assert_eq!(output, RestoreItemOutput::with(json!({"metadata": {"name": "web"}})));
    }
}
