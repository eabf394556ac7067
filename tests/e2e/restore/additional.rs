//! Tests that an object's additional items come back with it, also when that takes a second attempt.

use crate::faults::{Case, Ground, namespace};
use crate::support::{Run, gunzip_json};
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};

/// A pod, and the claim that it mounts.
fn objects() -> Vec<Value> {
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    vec![
        namespace("shop"),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "web", "image": "web"}], "volumes": volumes}}),
    ]
}

/// A pod and what it needs wait, in a namespace that was made.
const BROKEN: &str = "Restore broke off. Objects until then: 1 created, 2 failed.\n";

/// Refuses one claim for a reason that can pass.
fn refuses_a_claim() -> Rule {
    let message = "persistentvolumeclaims \"data\" is forbidden: not yet ready to handle request";
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message});
    let refused = Fault::Answer { status: 403, headers: vec![], body: body.to_string() };
    Rule::new("POST", "*/persistentvolumeclaims?*", Nth::Only(1), refused)
}

/// Restores pods before claims, so that the claim comes as an additional item. Gives results and resource list.
fn restored(case: &Case<'_>, name: &str) -> (Value, Value) {
    let run = restore(case, name);
    assert_eq!(run.code, 0, "{run:?}");
    let met = [&case.api, &case.s3].iter().flat_map(|proxy| proxy.take_seen()).filter(|seen| seen.met).count();
    assert_eq!(met, 1, "the fault");
    stored(case, name)
}

fn restore(case: &Case<'_>, name: &str) -> Run {
    case.local(&[&arguments(name).each_ref().map(String::as_str)[..], &["--request-timeout=3s"]].concat())
}

fn arguments(name: &str) -> [String; 6] {
    let mapping = format!("--namespace-mappings=shop:{name}");
    let priorities = "--restore-resource-priorities=namespaces,pods".to_owned();
    ["restore".to_owned(), name.to_owned(), "--from-backup".to_owned(), "b".to_owned(), mapping, priorities]
}

/// Results and resource list.
fn stored(case: &Case<'_>, name: &str) -> (Value, Value) {
    let file = |what: &str| gunzip_json(&case.file(&format!("restores/{name}/restore-{name}-{what}.gz")));
    (file("results"), file("resource-list.json"))
}

/// A case with a backup of them.
fn backed_up(ground: &Ground) -> Case<'_> {
    let case = ground.case("additional");
    let types = "namespaces,pods,persistentvolumeclaims";
    let run = case.local(&["backup", "b", "--include-namespaces", "shop", "--include-resources", types]);
    assert_eq!(run.code, 0, "{run:?}");
    case
}

#[test]
fn an_additional_item_that_fails_for_a_while_comes_back() {
    let ground = Ground::start(objects());
    let case = backed_up(&ground);
    let expected = |name: &str| {
        let list = json!({"v1/Namespace": [format!("{name}(created)")], "v1/Pod": [format!("{name}/web(created)")],
            "v1/PersistentVolumeClaim": [format!("{name}/data(created)")]});
        (json!({"errors": {}, "warnings": {}}), list)
    };

    // The archive is read as a whole, for the namespaces, for the pods, and then for the claim of the pod.
    let denied = Fault::Answer { status: 403, headers: vec![], body: String::new() };
    case.s3.script(vec![Rule::new("GET", "*/b.tar.gz?*", Nth::Only(4), denied)]);
    assert_eq!(restored(&case, "unread"), expected("unread"));
    case.s3.script(Vec::new());

    case.api.script(vec![refuses_a_claim()]);
    assert_eq!(restored(&case, "refused"), expected("refused"));
}

#[test]
fn an_additional_item_whose_bucket_was_away_comes_back_with_another_run() {
    let ground = Ground::start(objects());
    let case = backed_up(&ground);
    // Its first reading: then its pod waits for it. And the second one, after it was refused: then its pod has gone on.
    let one = "1 object that could not be restored at first was not tried again: ";
    let two = "2 objects that could not be restored at first were not tried again: ";
    for (name, nth, api, pod, waits) in
        [("first", 4, vec![], "failed", two), ("second", 5, vec![refuses_a_claim()], "created", one)]
    {
        let fails = Fault::Answer { status: 500, headers: vec![], body: String::new() };
        case.s3.script(vec![Rule::new("GET", "*/b.tar.gz?*", Nth::From(nth), fails)]);
        case.api.script(api);
        let run = restore(&case, name);
        assert_eq!(
            (run.code, run.out.as_str()),
            (
                1,
                if pod == "created" { "Restore broke off. Objects until then: 2 created, 1 failed.\n" } else { BROKEN }
            ),
            "{run:?}"
        );
        let (results, list) = stored(&case, name);
        let errors = results["errors"]["velero"].as_array().expect("errors");
        assert!(
            errors.len() == 2 && errors[0] == format!("{waits}the archive could not be read any further"),
            "{results}"
        );
        assert!(errors[1].as_str().is_some_and(|e| e.ends_with("; 0 objects were not looked at")), "{results}");
        let listed = |claim: &str, pod: &str| {
            json!({"v1/Namespace": [format!("{name}(created)")], "v1/Pod": [format!("{name}/web({pod})")],
                "v1/PersistentVolumeClaim": [format!("{name}/data({claim})")]})
        };
        assert_eq!(list, listed("failed", pod));

        case.s3.script(Vec::new());
        case.api.script(Vec::new());
        let run = restore(&case, name);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(stored(&case, name), (json!({"errors": {}, "warnings": {}}), listed("created", "created")));
    }
}

#[test]
fn an_additional_item_that_only_its_pod_leads_to_comes_back_with_a_rerun() {
    let mut objects = objects();
    objects[2]["metadata"]["labels"] = json!({"app": "web"});
    let ground = Ground::start(objects);
    let case = backed_up(&ground);
    // The claim has no such label: only its pod leads to it.
    let arguments = arguments("led");
    let args =
        [&arguments.each_ref().map(String::as_str)[..], &["--selector", "app=web", "--request-timeout=3s"]].concat();
    let fails = Fault::Answer { status: 500, headers: vec![], body: String::new() };
    case.s3.script(vec![Rule::new("GET", "*/b.tar.gz?*", Nth::From(4), fails)]);
    let run = case.local(&args);
    assert_eq!((run.code, run.out.as_str()), (1, BROKEN), "{run:?}");
    case.s3.script(Vec::new());
    let run = case.local(&args);
    assert_eq!(run.code, 0, "{run:?}");
    let list = json!({"v1/Namespace": ["led(created)"], "v1/PersistentVolumeClaim": ["led/data(created)"],
        "v1/Pod": ["led/web(created)"]});
    assert_eq!(stored(&case, "led"), (json!({"errors": {}, "warnings": {}}), list));
}

#[test]
fn an_additional_item_without_an_answer_until_the_cancellation_is_named() {
    let ground = Ground::start(objects());
    let case = backed_up(&ground);
    case.api.script(vec![Rule::new("POST", "*/persistentvolumeclaims?*", Nth::Every, Fault::Hang)]);
    let run = case.stopped(&arguments("stopped").each_ref().map(String::as_str));
    assert_eq!(run.code, 1, "{run:?}");
    let said = |key: &str| {
        format!(
            "{key} was being written when the restore was cancelled, and no answer came: whether it was is not known"
        )
    };
    let (results, _) = stored(&case, "stopped");
    let expected = ["pods/stopped/web", "persistentvolumeclaims/stopped/data"].map(said);
    assert_eq!(results["errors"]["namespaces"], json!({"stopped": expected}));
}
