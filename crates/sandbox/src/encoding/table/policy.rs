//! Rows of types that bound, admit, order and protect: disruption budgets, quotas, priorities, admission, flow control.

use super::duration::age;
use super::field::{condition, count, entries, is_true, joined, list, name, number, quantity, scalar, text};
use jiff::Timestamp;
use serde_json::Value;

/// Name, min available, max unavailable, allowed disruptions, age.
pub(super) fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |field: &str| scalar(&object["spec"][field]).unwrap_or_else(|| "N/A".to_owned()).into();
    vec![
        name(object),
        bound("minAvailable"),
        bound("maxUnavailable"),
        number(&object["status"]["disruptionsAllowed"]).into(),
        age(object, now),
    ]
}

/// Name, requests, limits, age.
pub(super) fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = &object["status"];
    let mut hard: Vec<(&String, &Value)> = entries(&status["hard"]).collect();
    hard.sort_by_key(|(resource, _)| *resource);
    let (limits, requests): (Vec<_>, Vec<_>) = hard.into_iter().partition(|(name, _)| name.starts_with("limits."));
    let shown = |bounds: Vec<(&String, &Value)>| {
        let used = |resource: &str| quantity(&status["used"][resource]);
        let each = bounds.into_iter().map(|(name, hard)| format!("{name}: {}/{}", used(name), quantity(hard)));
        Value::from(each.collect::<Vec<_>>().join(", "))
    };
    vec![name(object), shown(requests), shown(limits), age(object, now)]
}

/// Name, value, global default, age, preemption policy.
pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        number(&object["value"]).into(),
        is_true(&object["globalDefault"]).into(),
        age(object, now),
        text(&object["preemptionPolicy"]).into(),
    ]
}

/// Name, number of webhooks, age.
pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), count(&object["webhooks"]).into(), age(object, now)]
}

/// Name, number of validations, kind of parameters, age.
pub(super) fn admission_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let kind = &spec["paramKind"];
    let kind = match kind.is_object() {
        true => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
        false => "<unset>".to_owned(),
    };
    vec![name(object), count(&spec["validations"]).into(), kind.into(), age(object, now)]
}

/// Name, policy, parameters, age.
pub(super) fn admission_policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let parameters = &spec["paramRef"];
    let shown = match (text(&parameters["namespace"]), text(&parameters["name"])) {
        (_, "") if parameters["selector"].is_object() => selector_of_go(&parameters["selector"]),
        (_, "") => "<unset>".to_owned(),
        ("", of) => format!("*/{of}"),
        (namespace, of) => format!("{namespace}/{of}"),
    };
    vec![name(object), text(&spec["policyName"]).into(), shown.into(), age(object, now)]
}

/// compat: the server shows this selector as Go prints the value.
fn selector_of_go(selector: &Value) -> String {
    let mut labels: Vec<String> =
        entries(&selector["matchLabels"]).map(|(key, value)| format!("{key}: {},", text(value))).collect();
    labels.sort();
    let expression = |e: &Value| {
        let values = joined(list(&e["values"])).replace(',', " ");
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            text(&e["key"]),
            text(&e["operator"])
        )
    };
    let expressions: String = list(&selector["matchExpressions"]).iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}",
        labels.concat()
    )
}

/// Name, priority level, precedence, distinguisher, age, whether the level is missing.
pub(super) fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let method = &spec["distinguisherMethod"];
    vec![
        name(object),
        text(&spec["priorityLevelConfiguration"]["name"]).into(),
        number(&spec["matchingPrecedence"]).into(),
        if method.is_object() { text(&method["type"]).into() } else { "<none>".into() },
        age(object, now),
        condition(&object["status"], "Dangling").unwrap_or("?").into(),
    ]
}

/// Name, type, shares, queues, hand size, length of queues, age.
pub(super) fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let (limited, queuing) = (&spec["limited"], &spec["limited"]["limitResponse"]["queuing"]);
    // Before 1.29 the field could have another name.
    let has_old_name = limited["nominalConcurrencyShares"].is_null() && limited["assuredConcurrencyShares"].is_number();
    let of = |bounds: &Value, field: &str| -> Value {
        if bounds.is_object() { number(&bounds[field]).into() } else { "<none>".into() }
    };
    vec![
        name(object),
        text(&spec["type"]).into(),
        of(limited, if has_old_name { "assuredConcurrencyShares" } else { "nominalConcurrencyShares" }),
        of(queuing, "queues"),
        of(queuing, "handSize"),
        of(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}
