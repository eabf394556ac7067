//! Rows of the types that make pods: deployments, sets, jobs and their kin.

use super::duration::{age, human, since, time};
use super::field::{condition, containers, count, is_deleting, list, name, number, optional, text};
use super::selector::{labels, requirements, selector};
use jiff::Timestamp;
use serde_json::Value;

/// The pod that a workload makes.
fn template(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

/// Name, containers, images, labels.
pub(super) fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&object["template"]["spec"]);
    vec![name(object), names, images, labels(&object["template"]["metadata"]["labels"]).into()]
}

/// Name, desired, current, ready, age; containers, images, selector.
pub(super) fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, labels(&object["spec"]["selector"]), now)
}

/// Name, desired, current, ready, age; containers, images, selector.
pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    replicas(object, selector(&object["spec"]["selector"]), now)
}

fn replicas(object: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(template(object));
    vec![
        name(object),
        number(&spec["replicas"]).into(),
        number(&status["replicas"]).into(),
        number(&status["readyReplicas"]).into(),
        age(object, now),
        names,
        images,
        selector.into(),
    ]
}

/// Name, ready, up to date, available, age; containers, images, selector.
pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(template(object));
    // compat: unlike other workloads it shows nothing where its selector selects everything.
    let selector = requirements(&spec["selector"]).unwrap_or_else(|| "<invalid>".to_owned());
    vec![
        name(object),
        format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])).into(),
        number(&status["updatedReplicas"]).into(),
        number(&status["availableReplicas"]).into(),
        age(object, now),
        names,
        images,
        selector.into(),
    ]
}

/// Name, ready, age; containers, images.
pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(template(object));
    let ready = number(&object["status"]["readyReplicas"]);
    vec![
        name(object),
        format!("{ready}/{}", number(&object["spec"]["replicas"])).into(),
        age(object, now),
        names,
        images,
    ]
}

/// Name, desired, current, ready, up to date, available, node selector, age; containers, images, selector.
pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |field: &str| Value::from(number(&object["status"][field]));
    let [names, images] = containers(template(object));
    vec![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(&template(object)["nodeSelector"]).into(),
        age(object, now),
        names,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

/// Name, controller, revision, age.
pub(super) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = list(&object["metadata"]["ownerReferences"]).iter();
    let controller = owners.filter(|o| o["controller"].as_bool() == Some(true)).map(owner_name).next();
    vec![
        name(object),
        controller.unwrap_or_else(|| "<none>".to_owned()).into(),
        number(&object["revision"]).into(),
        age(object, now),
    ]
}

/// An owner such as `statefulset.apps/web`.
fn owner_name(owner: &Value) -> String {
    let kind = text(&owner["kind"]).to_lowercase();
    let group = text(&owner["apiVersion"]).split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{kind}{}/{}", group.to_lowercase(), text(&owner["name"]))
}

/// Name, status, completions, duration, age; containers, images, selector.
pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(template(object));
    vec![
        name(object),
        status_of_job(object).into(),
        completions(object).into(),
        duration_of_job(object, now).into(),
        age(object, now),
        names,
        images,
        selector(&object["spec"]["selector"]).into(),
    ]
}

fn status_of_job(object: &Value) -> &'static str {
    let is = |of: &str| condition(&object["status"], of) == Some("True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if is_deleting(object) {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(object: &Value) -> String {
    let spec = &object["spec"];
    let done = number(&object["status"]["succeeded"]);
    match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(all), _) => format!("{done}/{all}"),
        (None, at_once @ 2..) => format!("{done}/1 of {at_once}"),
        (None, _) => format!("{done}/1"),
    }
}

/// Empty for a job that has not begun.
fn duration_of_job(object: &Value, now: Timestamp) -> String {
    let status = &object["status"];
    let end = time(&status["completionTime"]).unwrap_or(now);
    time(&status["startTime"]).map_or_else(String::new, |start| human(end.duration_since(start)))
}

/// Name, schedule, time zone, suspend, active, last schedule, age; containers, images, selector.
pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]["spec"]);
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = &status["lastScheduleTime"];
    let last = if last.is_null() { "<none>".to_owned() } else { since(last, now) };
    vec![
        name(object),
        text(&spec["schedule"]).into(),
        optional(&spec["timeZone"], "<none>"),
        suspend.into(),
        count(&status["active"]).into(),
        last.into(),
        age(object, now),
        names,
        images,
        selector(&job["selector"]).into(),
    ]
}
