//! Objects and our own resources as the JSON that plugins take and give (velero: pkg/plugin/velero).

use crate::failure::CallFailure;
use crate::identity::PluginName;
use serde::Serialize;
use serde_json::Value;

/// An object or resource as JSON.
///
/// # Errors
/// When it cannot be JSON.
pub(crate) fn of(value: &impl Serialize) -> Result<Vec<u8>, CallFailure> {
    serde_json::to_vec(value)
        .map_err(|e| CallFailure::refused(format!("what the plugin is asked about cannot be JSON: {e}")))
}

/// The object that a plugin has answered.
///
/// # Errors
/// When it is none: as with Velero, an object has a kind.
pub(crate) fn object(plugin: &PluginName, answer: &[u8]) -> Result<Value, CallFailure> {
    let fail = |why: String| CallFailure::refused(format!("the plugin {plugin} has answered what is no object: {why}"));
    let value: Value = serde_json::from_slice(answer).map_err(|e| match answer.is_empty() {
        true => fail("nothing at all".to_owned()),
        false => fail(e.to_string()),
    })?;
    match value.get("kind").and_then(Value::as_str) {
        Some(kind) if !kind.is_empty() => Ok(value),
        _ => Err(fail("it has no kind".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{Backup, Restore};

    #[test]
    fn resources_say_what_they_are_and_have_all_durations() {
        let backup: Backup = serde_json::from_str(
            r#"{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"b","labels":{"a":"b"}},"spec":{"ttl":"720h","snapshotMoveData":true},
                "status":{"phase":"InProgress","startTimestamp":"2026-08-21T16:47:40Z"}}"#,
        )
        .unwrap();
        let sent: Value = serde_json::from_slice(&of(&backup).unwrap()).unwrap();
        assert_eq!((&sent["apiVersion"], &sent["kind"]), (&"velero.io/v1".into(), &"Backup".into()));
        assert_eq!(sent["metadata"]["labels"]["a"], "b");
        let spec = &sent["spec"];
        assert_eq!((&spec["ttl"], &spec["csiSnapshotTimeout"]), (&"720h0m0s".into(), &"0s".into()));
        assert_eq!((&spec["itemOperationTimeout"], &spec["snapshotMoveData"]), (&"0s".into(), &true.into()));
        assert_eq!(spec.get("includedNamespaces"), None);
        assert_eq!(sent["status"]["startTimestamp"], "2026-08-21T16:47:40Z");
        let sent: Value = serde_json::from_slice(&of(&Restore::default()).unwrap()).unwrap();
        assert_eq!((&sent["apiVersion"], &sent["kind"]), (&"velero.io/v1".into(), &"Restore".into()));
        assert_eq!(sent["spec"]["itemOperationTimeout"], "0s");
    }

    #[test]
    fn numbers_keep_their_digits() {
        let name: PluginName = "example.io/a".parse().unwrap();
        let text = r#"{"kind":"K","n":[1,1.0,9223372036854775807,18446744073709551616,0.10]}"#;
        let value = object(&name, text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(of(&value).unwrap()).unwrap(), text);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let name: PluginName = "example.io/a".parse().unwrap();
        for (answer, why) in [
            ("", "nothing at all"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("[]", "it has no kind"),
            ("{}", "it has no kind"),
            (r#"{"kind":""}"#, "it has no kind"),
            (r#"{"kind":7}"#, "it has no kind"),
        ] {
            let expected = format!("the plugin example.io/a has answered what is no object: {why}");
            assert_eq!(object(&name, answer.as_bytes()), Err(CallFailure::refused(expected)));
        }
    }
}
