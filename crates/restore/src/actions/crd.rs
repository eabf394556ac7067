//! `velero.io/crd-preserve-fields`: replaces `spec.preserveUnknownFields` by its form in v1.

use super::edit::list_mut;
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use serde_json::Value;

/// `spec.preserveUnknownFields` may be true only in objects that were made as v1beta1; v1 says the same in the schema
/// of each version (velero: pkg/restore/actions).
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mut item = input.item;
    if item["apiVersion"] == "apiextensions.k8s.io/v1" && item["spec"]["preserveUnknownFields"] == true {
        if let Some(preserve) = item.pointer_mut("/spec/preserveUnknownFields") {
            *preserve = false.into();
        }
        for version in list_mut(&mut item, "/spec/versions").into_iter().flatten() {
            if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema").and_then(Value::as_object_mut) {
                schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
            }
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
    fn the_schema_of_each_version_takes_over() {
        let versions = json!([{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}, {"name": "v2"},
            {"name": "v3", "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": false}}}, {"name": "v4", "schema": {}}, 7]);
        let taken = json!([{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}, {"name": "v2"},
            {"name": "v3", "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}, {"name": "v4", "schema": {}}, 7]);
        let v1 = "apiextensions.k8s.io/v1";
        let cases = [
            (v1, json!(true), json!(false), &taken),
            (v1, json!(false), json!(false), &versions),
            (v1, json!(null), json!(null), &versions),
            (v1, json!("true"), json!("true"), &versions),
            ("apiextensions.k8s.io/v1beta1", json!(true), json!(true), &versions),
        ];
        for (api_version, preserve, expected, expected_versions) in cases {
            let object = |preserve: &Value, versions: &Value| {
                json!({"apiVersion": api_version, "metadata": {"name": "w"},
                    "spec": {"group": "example.com", "preserveUnknownFields": preserve, "versions": versions}})
            };
            let output = run(restore, &object(&preserve, &versions)).unwrap();
            assert_eq!(output, RestoreItemOutput::with(object(&expected, expected_versions)));
        }
    }
}
