//! Events of both groups.

use super::duration::since;
use super::field::{first_text, number, text};
use jiff::Timestamp;
use serde_json::Value;

/// The fields that the two groups call differently.
struct EventFields {
    object: &'static str,
    message: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
    controller: &'static str,
}

/// Last seen, type, reason, object; part of it, source; message; first seen, count, name.
pub(super) fn core(event: &Value, now: Timestamp) -> Vec<Value> {
    let fields = EventFields {
        object: "involvedObject",
        message: "message",
        first: "firstTimestamp",
        last: "lastTimestamp",
        count: "count",
        source: "source",
        controller: "reportingComponent",
    };
    cells(event, &fields, now)
}

/// The same of an event of `events.k8s.io`.
pub(super) fn events(event: &Value, now: Timestamp) -> Vec<Value> {
    let fields = EventFields {
        object: "regarding",
        message: "note",
        first: "deprecatedFirstTimestamp",
        last: "deprecatedLastTimestamp",
        count: "deprecatedCount",
        source: "deprecatedSource",
        controller: "reportingController",
    };
    cells(event, &fields, now)
}

fn cells(event: &Value, fields: &EventFields, now: Timestamp) -> Vec<Value> {
    const UNKNOWN: &str = "<unknown>";
    let mut first = since(&event[fields.first], now);
    if first == UNKNOWN {
        first = since(&event["eventTime"], now);
    }
    let mut last = since(&event[fields.last], now);
    if last == UNKNOWN {
        last.clone_from(&first);
    }
    let mut count = number(&event[fields.count]).max(1);
    let series = &event["series"];
    if series.is_object() {
        last = since(&series["lastObservedTime"], now);
        count = number(&series["count"]);
    }
    let object = &event[fields.object];
    let kind = text(&object["kind"]).to_lowercase();
    let target = match text(&object["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text(&event["type"]).into(),
        text(&event["reason"]).into(),
        target.into(),
        text(&object["fieldPath"]).into(),
        source(event, fields).into(),
        text(&event[fields.message]).trim().into(),
        first.into(),
        count.into(),
        super::field::name(event),
    ]
}

/// The component, and its instance.
fn source(event: &Value, fields: &EventFields) -> String {
    let component = first_text([&event[fields.source]["component"], &event[fields.controller]]);
    match first_text([&event[fields.source]["host"], &event["reportingInstance"]]) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}
