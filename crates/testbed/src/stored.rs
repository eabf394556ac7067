//! Objects as an API server stores them, for tests that need thousands of them: each create is a millisecond of its processor.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

/// The time at which stored objects say that they were made.
const MADE: &str = "2026-01-01T00:00:00Z";

/// The key and the value under which the API server finds an object. What it sets when it creates one is set, once for each name; defaults
/// it fills in when it reads.
///
/// # Errors
/// When the kind is none of those that tests need by the thousand, or has no name or namespace.
pub(crate) fn stored(object: &Value) -> Result<(Vec<u8>, Vec<u8>)> {
    let (resource, status) = match object["kind"].as_str().unwrap_or_default() {
        "ConfigMap" => ("configmaps", None),
        "Secret" => ("secrets", None),
        "Pod" => ("pods", Some(json!({"phase": "Pending", "qosClass": "BestEffort"}))),
        "PersistentVolumeClaim" => ("persistentvolumeclaims", Some(json!({"phase": "Pending"}))),
        // As it is given, so that a test can give it another UID.
        "Namespace" => {
            let name = object["metadata"]["name"].as_str().with_context(|| format!("no name: {object}"))?;
            return Ok((format!("/registry/namespaces/{name}").into_bytes(), object.to_string().into_bytes()));
        }
        other => bail!("objects of the kind {other:?} are not written behind the API server"),
    };
    let text = |field: &str| object["metadata"][field].as_str().with_context(|| format!("no {field}: {object}"));
    let key = format!("/registry/{resource}/{}/{}", text("namespace")?, text("name")?);
    let mut object = object.clone();
    object["metadata"]["uid"] = uid(&key).into();
    object["metadata"]["creationTimestamp"] = MADE.into();
    if let (Some(status), None) = (status, object.get("status")) {
        object["status"] = status;
    }
    Ok((key.into_bytes(), object.to_string().into_bytes()))
}

/// A UID that only this key has.
fn uid(key: &str) -> String {
    let text = hex::encode(Sha1::digest(key.as_bytes()));
    let parts = [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..32]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_stored_below_its_type_and_namespace_with_a_uid_of_its_own() {
        let claim = |name: &str| {
            let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "shop"}});
            let (key, value) = stored(&claim).expect("a claim");
            let value: Value = serde_json::from_slice(&value).expect("JSON");
            (String::from_utf8(key).expect("text"), value)
        };
        let (key, value) = claim("data");
        assert_eq!(key, "/registry/persistentvolumeclaims/shop/data");
        assert_eq!(value["status"], json!({"phase": "Pending"}));
        assert_eq!(value["metadata"]["uid"].as_str().map(str::len), Some(36));
        assert_ne!(value["metadata"]["uid"], claim("more").1["metadata"]["uid"]);
        assert_eq!(claim("data").1, value, "what is written again is the same object");
    }

    #[test]
    fn objects_that_admission_would_change_are_refused() {
        for object in [json!({"kind": "Service", "metadata": {"name": "a"}}), json!({"kind": "Pod", "metadata": {}})] {
            assert!(stored(&object).is_err(), "{object}");
        }
    }
}
