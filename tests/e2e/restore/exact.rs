//! Restores that are held to a plan which somebody has seen, and that remove what the backup lacks.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Bed, Run, ended, gunzip, program, run};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

fn object(kind: &str, name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "data": {"a": data}})
}

fn create(bed: &Bed, object: &Value) {
    bed.plane.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
}

fn change(bed: &Bed, name: &str, data: &str) {
    let patch = json!({"data": {"a": data}}).to_string();
    bed.kubectl(&["patch", "configmap", name, "--namespace=shop", "--type=merge", "--patch", &patch]);
}

/// A namespace with a backup of it, and what has become of it since: an object is gone, one has changed, and there are
/// others that the backup lacks.
fn changed_since_its_backup() -> Bed {
    let bed = Bed::start();
    create(&bed, &namespace("shop"));
    ["same", "changed", "gone", "parent"].iter().for_each(|name| create(&bed, &object("ConfigMap", name, "old")));
    let run = bed.local(&["backup", "b", "--include-namespaces", "shop"]);
    assert_eq!(run.code, 0, "{run:?}");
    bed.kubectl(&["delete", "configmap", "gone", "--namespace=shop"]);
    change(&bed, "changed", "new");
    create(&bed, &object("ConfigMap", "extra", "new"));
    // The backup holds no Secrets, so that it says nothing about them.
    create(&bed, &object("Secret", "extra", "bmV3"));
    let mut kept = object("ConfigMap", "kept", "new");
    kept["metadata"]["labels"] = json!({"velero.io/exclude-from-backup": "true"});
    create(&bed, &kept);
    let mut owned = object("ConfigMap", "owned", "new");
    let uid = bed.kubectl(&["get", "configmap", "parent", "--namespace=shop", "--output=jsonpath={.metadata.uid}"]);
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": uid}]);
    create(&bed, &owned);
    bed
}

const EXACT: [&str; 5] = ["restore", "r", "--from-backup", "b", "--existing-resource-policy=exact"];

/// A dry run as JSON.
fn planned(bed: &Bed, more: &[&str]) -> Value {
    let run = bed.local(&[&EXACT[..], &["--dry-run", "-o", "json"], more].concat());
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.out).expect("JSON")
}

fn digest(plan: &Value) -> String {
    plan["planDigest"].as_str().expect("a digest").to_owned()
}

fn maps(bed: &Bed) -> String {
    let template = "{range .items[*]}{.metadata.name}={.data.a} {end}";
    bed.kubectl(&["get", "configmaps", "--namespace=shop", &format!("--output=jsonpath={template}")])
}

#[test]
fn what_the_backup_lacks_is_removed_by_a_plan_that_was_seen() {
    let bed = changed_since_its_backup();
    let before = maps(&bed);
    let plan = planned(&bed, &[]);
    let acts = |plan: &Value, action: &str| -> Vec<String> {
        let items = plan["items"].as_array().expect("items").iter().filter(|item| item["action"] == action);
        items.map(|item| format!("{}/{}", item["type"], item["name"]).replace('"', "")).collect()
    };
    assert_eq!(acts(&plan, "extra"), ["configmaps/extra"], "{plan}");
    assert_eq!(acts(&plan, "remove"), Vec::<String>::new());
    let plan = planned(&bed, &["--prune"]);
    assert_eq!(acts(&plan, "remove"), ["configmaps/extra"], "{plan}");
    assert_eq!(
        (acts(&plan, "create"), acts(&plan, "update")),
        (vec!["configmaps/gone".into()], vec!["configmaps/changed".into()])
    );
    assert_eq!(planned(&bed, &["--prune"])["planDigest"], plan["planDigest"], "the same question, the same answer");
    let text = bed.local(&[&EXACT[..], &["--dry-run", "--prune"]].concat());
    assert!(text.out.contains("remove 1 that the backup lacks, leave"), "{text:?}");
    assert!(text.out.ends_with(&format!("Plan: {}\n", digest(&plan))), "{text:?}");

    let unseen = bed.local(&[&EXACT[..], &["--prune"]].concat());
    assert!(
        unseen.code == 1 && unseen.err.contains("objects are removed only by a plan that somebody has seen"),
        "{unseen:?}"
    );
    assert_eq!(maps(&bed), before, "nothing was changed");

    let run = bed.local(&[&EXACT[..], &["--prune", "--plan-digest", &digest(&plan)]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let expected = ["changed=old", "gone=old", "kept=new", "owned=new", "parent=old", "same=old"];
    let after = maps(&bed);
    let after: Vec<&str> = after.split(' ').filter(|name| !name.is_empty() && !name.starts_with("kube-root")).collect();
    assert_eq!(after, expected);
    assert_eq!(bed.kubectl(&["get", "secrets", "--namespace=shop", "--output=name"]), "secret/extra\n");
    let listed = bed.resource_list("r");
    assert!(listed["v1/ConfigMap"].contains(&"shop/extra(removed)".to_owned()), "{listed:?}");
    // What was removed can be made again.
    let folder = bed.bucket().join("restores/r/replaced/configmaps/namespaces/shop/extra");
    let file = std::fs::read_dir(folder).expect("the manifest").next().expect("one").expect("an entry").path();
    let manifest: Value = serde_json::from_slice(&gunzip(&file)).expect("JSON");
    assert_eq!(manifest["data"], json!({"a": "new"}));
}

#[test]
fn a_plan_that_no_longer_holds_stops_the_restore_before_any_change() {
    let bed = changed_since_its_backup();
    let file = bed.bucket().with_file_name("plan");
    let file = file.display().to_string();
    let pinned = digest(&planned(&bed, &["--save", &file]));
    let same = bed.local(&[&EXACT[..], &["--dry-run", "--compare", &file]].concat());
    assert!(same.code == 0 && same.out.contains("It is the same plan as before."), "{same:?}");
    change(&bed, "same", "newer");
    change(&bed, "changed", "newer");
    bed.kubectl(&["delete", "configmap", "extra", "--namespace=shop"]);
    let before = maps(&bed);
    let run = bed.local(&[&EXACT[..], &["--plan-digest", &pinned]].concat());
    let said = format!("nothing was changed: the restore is pinned to the plan {pinned}, and the plan is sha256:");
    assert!(run.code == 1 && run.err.contains(&said), "{run:?}");
    assert!(run.err.contains("restores/r/restore-r-plan.jsonl.gz"), "{run:?}");
    assert_eq!(maps(&bed), before);
    let stored = gunzip(&bed.bucket().join("restores/r/restore-r-plan.jsonl.gz"));
    assert!(String::from_utf8(stored).expect("text").lines().count() > 3);
    let compared = bed.local(&[&EXACT[..], &["--dry-run", "--compare", &file]].concat());
    let (_, changes) = compared.out.split_once(&format!("It is another plan than {pinned}:\n")).expect("changes");
    assert_eq!(
        (compared.code, changes),
        (
            3,
            "  configmaps/shop/changed: update, but the object or what it becomes is another one\n  \
             configmaps/shop/extra: extra -> (absent)\n  configmaps/shop/same: unchanged -> update\n"
        )
    );
    let yaml = bed.local(&[&EXACT[..], &["--dry-run", "--compare", &file, "-o", "yaml"]].concat());
    assert!(yaml.out.starts_with("items:\n- action: ") && yaml.out.contains("\ncomparedWith:\n"), "{yaml:?}");
    let wrong = bed.local(&[&EXACT[..], &["--plan-digest", "sha256:1"]].concat());
    assert!(wrong.code == 1 && wrong.err.contains("planDigest: \"sha256:1\" is no digest of a plan"), "{wrong:?}");
}

/// Runs a local restore through a proxy.
fn through(bed: &Bed, kubeconfig: &Path, more: &[&str]) -> Run {
    bed.local_through(kubeconfig, &[&EXACT[..], more].concat())
}

#[test]
fn a_pinned_restore_that_is_killed_goes_on_by_its_plan() {
    let bed = changed_since_its_backup();
    let plan = digest(&planned(&bed, &["--prune"]));
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "exact").expect("a proxy");
    proxy.script(vec![Rule::new(
        "POST",
        "/api/v1/namespaces/shop/configmaps*",
        Nth::Only(1),
        Fault::Kill(Kill::After),
    )]);
    let args = [&EXACT[..], &["--prune", "--plan-digest", &plan]].concat();
    let mut command = Command::new(program());
    command.arg("local").args(&args).arg("--bucket").arg(bed.bucket());
    command.env("KUBECONFIG", &kubeconfig).env("XDG_STATE_HOME", bed.bucket().with_file_name("state"));
    let mut first = command.spawn().expect("the command");
    proxy.victim(first.id());
    assert!(!ended(&mut first).success());
    proxy.no_victim();
    proxy.script(vec![]);
    let again = through(&bed, &kubeconfig, &["--prune", "--plan-digest", &plan]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(!maps(&bed).contains("extra="), "{}", maps(&bed));
    assert!(maps(&bed).contains("gone=old") && maps(&bed).contains("changed=old"), "{}", maps(&bed));
}

#[test]
fn what_changes_after_the_plan_was_checked_is_left_as_it_is() {
    let bed = changed_since_its_backup();
    let plan = digest(&planned(&bed, &[]));
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "late").expect("a proxy");
    // Somebody else is first: the answer of the API server comes too late by a second writer.
    let conflict =
        json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "it has changed"});
    let fault = Fault::Answer { status: 409, headers: Vec::new(), body: conflict.to_string() };
    proxy.script(vec![Rule::new("PATCH", "/api/v1/namespaces/shop/configmaps/changed*", Nth::Every, fault)]);
    let run = through(&bed, &kubeconfig, &["--plan-digest", &plan]);
    assert!(maps(&bed).contains("changed=new") && maps(&bed).contains("gone=old"), "{run:?}");
    let results = bed.results("r");
    let expected = json!(["error restoring configmaps/shop/changed: it has changed"]);
    assert_eq!(results["errors"]["namespaces"]["shop"], expected, "{results}");
}

#[test]
fn an_object_that_was_deleted_to_be_recreated_is_created_despite_refusals() {
    let bed = changed_since_its_backup();
    let line = ["restore", "r", "--from-backup", "b", "--existing-resource-policy=recreate"];
    let run = bed.local(&[&line[..], &["--dry-run", "-o", "json"]].concat());
    let plan = digest(&serde_json::from_str(&run.out).expect("JSON"));
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "anew").expect("a proxy");
    let busy =
        json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "it is busy"});
    let fault = Fault::Answer { status: 409, headers: Vec::new(), body: busy.to_string() };
    // Of the one that is missing and of the one that was deleted.
    proxy.script(vec![Rule::new("POST", "/api/v1/namespaces/shop/configmaps?fieldManager*", Nth::First(2), fault)]);
    let run = bed.local_through(&kubeconfig, &[&line[..], &["--plan-digest", &plan]].concat());
    assert!(run.code == 0 && proxy.is_met(), "{run:?}");
    assert!(maps(&bed).contains("changed=old") && maps(&bed).contains("gone=old"), "{}", maps(&bed));
}

#[test]
fn nothing_is_removed_when_not_everything_came_back() {
    let bed = changed_since_its_backup();
    let plan = digest(&planned(&bed, &["--prune"]));
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "partly").expect("a proxy");
    let denied =
        json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "it is immutable"});
    let fault = Fault::Answer { status: 422, headers: Vec::new(), body: denied.to_string() };
    proxy.script(vec![Rule::new("PATCH", "/api/v1/namespaces/shop/configmaps/changed*", Nth::Every, fault)]);
    let run = through(&bed, &kubeconfig, &["--prune", "--plan-digest", &plan]);
    assert!(run.code == 3 && run.err.contains("1 objects that the backup lacks stay"), "{run:?}");
    assert!(maps(&bed).contains("extra="), "{}", maps(&bed));
}

#[test]
fn what_owns_objects_of_the_backup_is_listed_and_stays() {
    let bed = changed_since_its_backup();
    let uid = bed.kubectl(&["get", "configmap", "extra", "--namespace=shop", "--output=jsonpath={.metadata.uid}"]);
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "extra", "uid": uid}]);
    let patch = json!({"metadata": {"ownerReferences": owners}}).to_string();
    bed.kubectl(&["patch", "configmap", "same", "--namespace=shop", "--type=merge", "--patch", &patch]);
    let plan = planned(&bed, &["--prune"]);
    let item =
        plan["items"].as_array().expect("items").iter().find(|item| item["name"] == "extra").expect("it").clone();
    assert_eq!(item["action"], "extra", "{plan}");
    assert_eq!(item["warnings"], json!(["it is not removed: it owns objects that the backup has"]));
}

#[test]
fn the_server_carries_out_the_plan_that_the_command_line_has_shown() {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    ["same", "gone"].iter().for_each(|name| ground.create(&object("ConfigMap", name, "old")));
    ground.s3_location("main", ground.s3.endpoint());
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
    ground.until("backup", "b", "Completed");
    ground.bed.kubectl(&["delete", "configmap", "gone", "--namespace=shop"]);
    ground.create(&object("ConfigMap", "extra", "new"));
    let lifeboat = |line: &str| {
        let mut command = Command::new(program());
        command.args(line.split(' ')).env("KUBECONFIG", ground.bed.plane.kubeconfig());
        command.env("HOME", ground.directories.path()).env_remove("VELERO_NAMESPACE");
        run(&mut command)
    };
    let flags = "--from-backup b --existing-resource-policy exact --prune";
    let shown = lifeboat(&format!("restore plan {flags} -o json --validate server"));
    assert_eq!(shown.code, 0, "{shown:?}");
    let plan = digest(&serde_json::from_str(&shown.out).expect("JSON"));
    let made = lifeboat(&format!("restore create r {flags} --plan-digest {plan} --wait"));
    assert_eq!(made.code, 0, "{made:?}");
    let names = ground.maps("shop").into_keys().collect::<Vec<_>>();
    assert_eq!(names, ["gone", "same"]);
    // The same once more is another plan, for nothing is to be done.
    let again = lifeboat(&format!("restore create again {flags} --plan-digest {plan} --wait"));
    assert!(again.out.contains("Restore completed with status: Failed."), "{again:?}");
    let failed = ground.until("restore", "again", "Failed");
    let reason = failed["status"]["failureReason"].as_str().expect("a reason");
    assert!(reason.contains("nothing was changed: the restore is pinned to the plan"), "{reason}");
    ground.velero("Restore", "unseen", &json!({"backupName": "b", "existingResourcePolicy": "exact", "prune": true}));
    let refused = ground.until("restore", "unseen", "FailedValidation");
    let expected = json!(["prune: objects are removed only by a plan that somebody has seen: give its planDigest too"]);
    assert_eq!(refused["status"]["validationErrors"], expected);
}

#[test]
fn a_plan_can_ask_the_api_server_about_each_write() {
    let bed = changed_since_its_backup();
    let (proxy, kubeconfig) = Proxy::before_api_server(&bed.plane.kubeconfig(), "asked").expect("a proxy");
    let denied = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "the webhook denies it"});
    let fault = Fault::Answer { status: 403, headers: Vec::new(), body: denied.to_string() };
    proxy.script(vec![Rule::new("POST", "/api/v1/namespaces/shop/configmaps*dryRun=All*", Nth::Every, fault)]);
    let before = maps(&bed);
    let run = through(&bed, &kubeconfig, &["--dry-run", "--validate", "server"]);
    let said = "refused   configmaps/shop/gone: the API server would refuse to create (as a dry run): ";
    assert!(run.code == 3 && run.out.contains(said) && run.out.contains("the webhook denies it"), "{run:?}");
    assert!(run.out.contains("update    configmaps/shop/changed\n"), "{run:?}");
    assert_eq!(maps(&bed), before);
}
