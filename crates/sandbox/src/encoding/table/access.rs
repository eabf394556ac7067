//! Configuration, secrets, identities and rights.

use super::duration::{age, human};
use super::field::{condition_of, count, list, name, text, text_or};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Name, number of entries, age.
pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), (count(&object["data"]) + count(&object["binaryData"])).into(), age(object, now)]
}

/// Name, type, number of entries, age.
pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["type"]).into(), count(&object["data"]).into(), age(object, now)]
}

/// Name, number of secrets, age.
pub(super) fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), count(&object["secrets"]).into(), age(object, now)]
}

/// Name, role, age; users, groups, service accounts.
pub(super) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let named = list(&object["subjects"]).iter().filter(|subject| text(&subject["kind"]) == kind);
        let names = named.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
            _ => text(&subject["name"]).to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    let role = &object["roleRef"];
    vec![
        name(object),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// Name, age, signer, requestor, requested duration, condition.
pub(super) fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let requested = spec["expirationSeconds"].as_i64().map(|seconds| human(SignedDuration::from_secs(seconds)));
    let has = |of: &str| condition_of(status, of).is_some();
    let mut condition = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        condition += ",Failed";
    }
    if !text(&status["certificate"]).is_empty() {
        condition += ",Issued";
    }
    vec![
        name(object),
        age(object, now),
        text_or(&spec["signerName"], "<none>"),
        text(&spec["username"]).into(),
        requested.unwrap_or_else(|| "<none>".to_owned()).into(),
        condition.into(),
    ]
}
