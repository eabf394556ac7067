//! Calls the actions of one object, one after the other.

use lifeboat_action::{ActionError, BackupItemAction, BackupItemInput, BackupItemOutput, call, caught};
use lifeboat_api::Backup;
use lifeboat_api::well_known::{ANNOTATION_BACKUP_MUST_INCLUDE, ANNOTATION_SKIP_FROM_BACKUP};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Calls an action for an object, again where that can help: with what `again` gives. A panic in it is an error of the object.
pub(crate) async fn run_actions(
    action: &dyn BackupItemAction,
    object: Value,
    again: impl Fn() -> Value,
    backup: &Backup,
    cancel: &CancellationToken,
) -> Result<BackupItemOutput, ActionError> {
    let mut first = Some(object);
    call(cancel, || {
        let item = first.take().unwrap_or_else(&again);
        caught(action.execute(BackupItemInput { item, backup }))
    })
    .await
}

/// The instructions to the engine in the annotations of an object that an action gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActionInstructions {
    /// Leave the object out.
    pub(crate) skip: bool,
    /// The additional items must be in the backup.
    pub(crate) must_include: bool,
    /// The object was changed by taking out its instructions.
    pub(crate) is_changed: bool,
}

/// Returns true if an object may have instructions to the engine ([`listen`]): their annotations, or an escaped text
/// that could be one, stand somewhere in it.
pub(crate) fn may_speak(body: &[u8]) -> bool {
    [ANNOTATION_BACKUP_MUST_INCLUDE.as_bytes(), ANNOTATION_SKIP_FROM_BACKUP.as_bytes(), br"\u", br"\/"]
        .iter()
        .any(|text| memchr::memmem::find(body, text).is_some())
}

/// Reads the instructions to the engine in an object that an action gave back, and takes them out: they are not saved.
pub(crate) fn listen(object: &mut Value) -> ActionInstructions {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let Some(annotations) = annotations else {
        return ActionInstructions { skip: false, must_include: false, is_changed: false };
    };
    let skip = annotations.contains_key(ANNOTATION_SKIP_FROM_BACKUP);
    // compat: any other value than "true" says nothing, and stays.
    let must_include = annotations.get(ANNOTATION_BACKUP_MUST_INCLUDE).is_some_and(|value| value == "true");
    let is_changed = must_include && annotations.remove(ANNOTATION_BACKUP_MUST_INCLUDE).is_some();
    ActionInstructions { skip, must_include, is_changed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_of_an_answer_speak_to_the_engine() {
        let said = |skip, must_include| ActionInstructions { skip, must_include, is_changed: must_include };
        let must = "backup.velero.io/must-include-additional-items";
        for (before, expected, after) in [
            (json!({}), said(false, false), json!({})),
            (json!({"a": "b"}), said(false, false), json!({"a": "b"})),
            (json!({"velero.io/skip-from-backup": ""}), said(true, false), json!({"velero.io/skip-from-backup": ""})),
            (json!({must: "true", "a": "b"}), said(false, true), json!({"a": "b"})),
            (json!({must: "yes"}), said(false, false), json!({must: "yes"})),
            (json!("odd"), said(false, false), json!("odd")),
        ] {
            let mut object = json!({"metadata": {"annotations": before}});
            assert_eq!(listen(&mut object), expected, "{before}");
            assert_eq!(object, json!({"metadata": {"annotations": after}}));
        }
        assert_eq!(listen(&mut json!([])), said(false, false));
    }

    #[test]
    fn an_object_that_says_something_is_not_passed_over() {
        for (body, expected) in [
            (r#"{"metadata":{"annotations":{"a":"b"}}}"#, false),
            (r#"{"metadata":{"annotations":{"velero.io/skip-from-backup":""}}}"#, true),
            (r#"{"metadata":{"annotations":{"backup.velero.io/must-include-additional-items":"true"}}}"#, true),
            (r#"{"metadata":{"annotations":{"velero.io\/skip-from-backup":""}}}"#, true),
            (r#"{"metadata":{"annotations":{"velero.io\u002fskip-from-backup":""}}}"#, true),
        ] {
            assert_eq!(may_speak(body.as_bytes()), expected, "{body}");
        }
    }
}
