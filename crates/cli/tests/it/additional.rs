//! What an object needs comes back with it, also when that takes a second attempt.

use crate::faults::{Case, Ground, namespace};
use crate::support::gunzip_json;
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

/// Restores pods before claims, so that the claim comes as an additional item. Gives results and resource list.
fn restored(case: &Case<'_>, name: &str) -> (Value, Value) {
    let mapping = format!("shop:{name}");
    let args = ["--namespace-mappings", &mapping, "--restore-resource-priorities", "namespaces,pods"];
    let run = case.local(&[&["restore", name, "--from-backup", "b"], &args[..]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let met = [&case.api, &case.s3].iter().flat_map(|proxy| proxy.take_seen()).filter(|seen| seen.met).count();
    assert_eq!(met, 1, "the fault");
    let file = |what: &str| gunzip_json(&case.file(&format!("restores/{name}/restore-{name}-{what}.gz")));
    (file("results"), file("resource-list.json"))
}

#[test]
fn an_additional_item_that_fails_for_a_while_comes_back() {
    let ground = Ground::start(objects());
    let case = ground.case("additional");
    let types = "namespaces,pods,persistentvolumeclaims";
    let run = case.local(&["backup", "b", "--include-namespaces", "shop", "--include-resources", types]);
    assert_eq!(run.code, 0, "{run:?}");
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

    let message = "persistentvolumeclaims \"data\" is forbidden: not yet ready to handle request";
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message});
    let refused = Fault::Answer { status: 403, headers: vec![], body: body.to_string() };
    case.api.script(vec![Rule::new("POST", "*/persistentvolumeclaims?*", Nth::Only(1), refused)]);
    assert_eq!(restored(&case, "refused"), expected("refused"));
}
