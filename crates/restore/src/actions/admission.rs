//! `velero.io/admission-webhook-configuration`: replaces side effects that v1 refuses.

use super::edit::{list_mut, text};
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};

pub(super) const RESOURCES: [&str; 2] = [
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];

/// A configuration that was made as v1beta1 may hold side effects that v1 refuses (velero: pkg/restore/actions).
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mut item = input.item;
    if item["apiVersion"] == "admissionregistration.k8s.io/v1" {
        for webhook in list_mut(&mut item, "/webhooks").into_iter().flatten() {
            let accepted = matches!(text(webhook, "sideEffects"), "None" | "NoneOnDryRun");
            if let Some(webhook) = webhook.as_object_mut().filter(|_| !accepted) {
                webhook.insert("sideEffects".to_owned(), "None".into());
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
    fn side_effects_that_v1_refuses_become_none() {
        let webhooks = json!([{"name": "a", "sideEffects": "Unknown", "x": 1}, {"name": "b", "sideEffects": "Some"},
            {"name": "c"}, {"name": "d", "sideEffects": "None"}, {"name": "e", "sideEffects": "NoneOnDryRun"}, "odd"]);
        let fixed = json!([{"name": "a", "sideEffects": "None", "x": 1}, {"name": "b", "sideEffects": "None"},
            {"name": "c", "sideEffects": "None"}, {"name": "d", "sideEffects": "None"}, {"name": "e", "sideEffects": "NoneOnDryRun"}, "odd"]);
        let v1 = "admissionregistration.k8s.io/v1";
        let cases = [
            (v1, &webhooks, &fixed),
            ("admissionregistration.k8s.io/v1beta1", &webhooks, &webhooks),
            (v1, &json!({"odd": {}}), &json!({"odd": {}})),
            (v1, &json!(null), &json!(null)),
        ];
        for (version, webhooks, expected) in cases {
            let object = |webhooks| json!({"apiVersion": version, "metadata": {"name": "w"}, "webhooks": webhooks});
            assert_eq!(run(restore, &object(webhooks)).unwrap(), RestoreItemOutput::with(object(expected)));
        }
    }
}
