//! The namespaces that a restore needs: refused for a while, refused for good, and made without having been asked for.

use crate::faults::{Case, Ground, config_maps, namespace};
use crate::support::{Run, gunzip_json};
use lifeboat_testbed::{Fault, Nth, Rule};
use serde_json::{Value, json};

fn ground() -> Ground {
    Ground::start([namespace("shop")].into_iter().chain(config_maps("shop", 2)).collect())
}

fn backed_up<'a>(ground: &'a Ground, name: &str) -> Case<'a> {
    let case = ground.case(name);
    let types = "namespaces,configmaps";
    let run = case.local(&["backup", "b", "--include-namespaces", "shop", "--include-resources", types]);
    assert_eq!(run.code, 0, "{run:?}");
    case
}

fn restore(case: &Case<'_>, name: &str, more: &[&str]) -> Run {
    let mapping = format!("shop:{name}");
    let args = ["restore", name, "--from-backup", "b", "--namespace-mappings", &mapping];
    case.local(&[&args[..], more].concat())
}

/// Results and resource list.
fn stored(case: &Case<'_>, name: &str) -> (Value, Value) {
    let file = |what: &str| gunzip_json(&case.file(&format!("restores/{name}/restore-{name}-{what}.gz")));
    (file("results"), file("resource-list.json"))
}

fn listed(name: &str, namespace: &str, maps: &str) -> Value {
    json!({
        "v1/Namespace": [format!("{name}({namespace})")],
        "v1/ConfigMap": [
            format!("{name}/kube-root-ca.crt(skipped)"), format!("{name}/map-0({maps})"), format!("{name}/map-1({maps})")
        ]
    })
}

fn refusal(code: u16, reason: &str, message: &str) -> Fault {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code});
    Fault::Answer { status: code, headers: vec![], body: body.to_string() }
}

#[test]
fn a_namespace_that_is_refused_for_a_while_costs_nothing() {
    let ground = ground();
    let case = backed_up(&ground, "while");
    let webhook = refusal(500, "InternalError", "failed calling webhook \"names.example.com\"");
    case.api.script(vec![Rule::new("POST", "/api/v1/namespaces?*", Nth::First(3), webhook)]);
    let run = restore(&case, "late", &[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(case.api.take_seen().iter().filter(|seen| seen.met).count(), 3);
    assert_eq!(stored(&case, "late"), (json!({"errors": {}, "warnings": {}}), listed("late", "created", "created")));
}

#[test]
fn a_namespace_that_is_refused_for_good_is_one_error() {
    let ground = ground();
    let case = backed_up(&ground, "good");
    let forbidden = "namespaces is forbidden: User \"u\" cannot create resource \"namespaces\"";
    case.api.script(vec![Rule::new("POST", "/api/v1/namespaces?*", Nth::Every, refusal(403, "Forbidden", forbidden))]);
    let run = restore(&case, "never", &[]);
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(case.api.take_seen().iter().filter(|seen| seen.met).count(), 1);
    let said = format!("error creating namespace never: {forbidden}; 2 objects in it were not restored");
    let results = json!({"errors": {"velero": [said]}, "warnings": {}});
    assert_eq!(stored(&case, "never"), (results, listed("never", "failed", "failed")));
}

/// Ahead, 60 config maps are worth a list; the labels leave five, which are not. `--include-namespaces` leaves out the
/// Namespace itself, whose failure would discard what was seen.
#[test]
fn objects_in_a_namespace_that_is_being_deleted_are_errors_even_if_few() {
    let mut maps: Vec<Value> = config_maps("shop", 60).collect();
    for map in &mut maps[5..] {
        map["metadata"]["labels"] = json!({"leave": "out"});
    }
    let ground = Ground::start([namespace("shop")].into_iter().chain(maps).collect());
    let case = backed_up(&ground, "going");
    let going = json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Terminating"},
        "metadata": {"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let fault = Fault::Answer { status: 200, headers: vec![], body: going.to_string() };
    case.api.script(vec![Rule::new("GET", "/api/v1/namespaces/shop", Nth::Every, fault)]);
    let few = ["--include-namespaces", "shop", "--selector", "leave!=out", "--terminating-resource-timeout", "1s"];
    let run = case.local(&[&["restore", "again", "--from-backup", "b"][..], &few].concat());
    assert_eq!(run.code, 3, "{run:?}");
    let (results, list) = stored(&case, "again");
    let said = results["errors"]["velero"][0].as_str().unwrap_or_default();
    assert!(said.starts_with("timed out waiting for terminating namespace shop"), "{results}");
    assert!(said.ends_with("; 5 objects in it were not restored"), "{results}");
    let failed = (0..5).map(|n| format!("shop/map-{n}(failed)"));
    let maps: Vec<String> = ["shop/kube-root-ca.crt(skipped)".to_owned()].into_iter().chain(failed).collect();
    assert_eq!(list, json!({"v1/Namespace": ["shop(failed)"], "v1/ConfigMap": maps}));
}

#[test]
fn a_namespace_that_is_made_for_its_objects_is_listed_and_shown_before() {
    let ground = ground();
    let case = backed_up(&ground, "needed");
    // Without cluster-scoped objects the namespace itself is not selected.
    let some = ["--include-namespaces", "shop"];
    let dry = [&some[..], &["--dry-run", "--details"]].concat();
    let run = restore(&case, "new", &dry);
    let (_, details) = run.out.split_once("\n\n").expect("a table, then details");
    let (details, _) = details.split_once("Plan: sha256:").expect("the digest of the plan");
    assert_eq!(
        details,
        "skip      configmaps/new/kube-root-ca.crt: controllers make it in every namespace
create    namespaces/new
create    configmaps/new/map-0
create    configmaps/new/map-1

Would create 3 objects, update 0, leave 0 that are as in the backup and 0 that differ, skip 1; 0 cannot be restored. Nothing was written.
",
        "{run:?}"
    );
    let run = restore(&case, "new", &some);
    let expected = "Restore completed with status: Completed. 4 objects, 0 warnings, 0 errors.\n";
    assert_eq!((run.code, run.out.as_str()), (0, expected), "{run:?}");
    assert_eq!(stored(&case, "new"), (json!({"errors": {}, "warnings": {}}), listed("new", "created", "created")));
    // It is there: nothing is made.
    let run = restore(&case, "new", &dry);
    assert!(run.code == 0 && !run.out.contains("create    "), "{run:?}");
}
