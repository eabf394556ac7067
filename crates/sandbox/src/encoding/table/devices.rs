//! Devices that pods claim.

use super::duration::age;
use super::field::{is_deleting, list, name, text};
use jiff::Timestamp;
use serde_json::Value;

/// Name, age.
pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// Name, state, age.
pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let is_allocated = status["allocation"].is_object();
    let states = [
        (is_deleting(object), "deleted"),
        (!is_allocated && !is_deleting(object), "pending"),
        (is_allocated, "allocated"),
        (is_allocated && !list(&status["reservedFor"]).is_empty(), "reserved"),
    ];
    let shown: Vec<&str> = states.iter().filter(|(holds, _)| *holds).map(|(_, state)| *state).collect();
    vec![name(object), shown.join(",").into(), age(object, now)]
}

/// Name, node, driver, pool, age.
pub(super) fn slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["nodeName"]).into(),
        text(&spec["driver"]).into(),
        text(&spec["pool"]["name"]).into(),
        age(object, now),
    ]
}
