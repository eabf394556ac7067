//! `velero.io/apiservice`: skips APIServices that the API server registers by itself.

use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};

/// The label of these APIServices.
pub(super) const SELECTOR: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Skips the object; called only for objects that match the selector.
pub(super) fn restore(_: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    Ok(RestoreItemOutput::skip())
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use serde_json::json;

    #[test]
    fn automanaged_services_are_left_out() {
        let object = json!({"kind": "APIService", "metadata": {"name": "v1.apps", "labels": {(SELECTOR): "onstart"}}});
        assert_eq!(run(restore, &object).unwrap(), RestoreItemOutput::skip());
    }
}
