//! `velero.io/job`: removes the labels with the UID of the old job, so that the job controller chooses the selector
//! anew.

use super::edit::remove_keys;
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};

/// Hold the UID that the job had.
const LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Removes the labels by which the old job knew its pods (velero: pkg/restore/actions).
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mut item = input.item;
    remove_keys(&mut item, "/spec/selector", "matchLabels", &LABELS);
    remove_keys(&mut item, "/spec/template/metadata", "labels", &LABELS);
    Ok(RestoreItemOutput::with(item))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_old_uid_is_forgotten() {
        let both = json!({"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u"});
        let more =
            json!({"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u", "job-name": "j", "app": "a"});
        let rest = json!({"job-name": "j", "app": "a"});
        let cases = [
            (
                json!({"selector": {"matchLabels": more}, "template": {"metadata": {"labels": more, "name": "t"}, "spec": {}}}),
                json!({"selector": {"matchLabels": rest}, "template": {"metadata": {"labels": rest, "name": "t"}, "spec": {}}}),
            ),
            (
                json!({"selector": {"matchLabels": both}, "template": {"metadata": {"labels": both}}}),
                json!({"selector": {}, "template": {"metadata": {}}}),
            ),
            (json!({"template": {"spec": {}}}), json!({"template": {"spec": {}}})),
            (
                json!({"selector": {"matchLabels": ["controller-uid"]}, "template": "odd"}),
                json!({"selector": {"matchLabels": ["controller-uid"]}, "template": "odd"}),
            ),
        ];
        for (spec, expected) in cases {
            let object = |spec| json!({"kind": "Job", "metadata": {"name": "j", "labels": both}, "spec": spec});
            assert_eq!(run(restore, &object(spec)).unwrap(), RestoreItemOutput::with(object(expected)));
        }
    }
}
