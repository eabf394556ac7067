//! `kill -9` in the middle, and the same command again.

use crate::faults::{Case, Ground, applied, config_maps, in_parallel, incompressible, namespace, shared_plane};
use crate::support::{Run, gunzip_json};
use lifeboat_testbed::{ApiClient, Fault, Kill, Kubectl, Nth, Rule, Seen};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The contents of the bucket after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// The name is taken, and perhaps there are more files; there is no backup.
    Claim,
    /// The record was put: there is a backup.
    Backup,
}
use Left::{Backup, Claim, Nothing};

/// A request that publishes a part of a backup.
#[derive(Debug)]
struct Call {
    method: &'static str,
    path: &'static str,
    /// The namespace that is backed up: `few` small objects in an archive that goes up whole, or `large` ones in one
    /// that goes up in two parts.
    namespace: &'static str,
    /// The contents when the process dies before the effect.
    before: Left,
    /// The contents when it dies after the effect.
    after: Left,
}

const fn call(method: &'static str, path: &'static str, namespace: &'static str, before: Left, after: Left) -> Call {
    Call { method, path, namespace, before, after }
}

/// All of them, in their order.
const CALLS: [Call; 15] = [
    call("PUT", "*/lifeboat-claim.json?*", "few", Nothing, Claim),
    call("PUT", "*/b.tar.gz?*", "few", Claim, Claim),
    call("POST", "*/b.tar.gz?uploads*", "large", Claim, Claim),
    call("PUT", "*/b.tar.gz?*partNumber=1&*", "large", Claim, Claim),
    call("PUT", "*/b.tar.gz?*partNumber=2&*", "large", Claim, Claim),
    call("POST", "*/b.tar.gz?*uploadId=*", "large", Claim, Claim),
    call("PUT", "*/b-index.json.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-podvolumebackups.json.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-volumesnapshots.json.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-itemoperations.json.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-resource-list.json.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-volumeinfo.json.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-results.gz?*", "few", Claim, Claim),
    call("PUT", "*/b-logs.gz?*", "few", Claim, Claim),
    call("PUT", "*/lifeboat-manifest.json?*", "few", Claim, Claim),
];

/// The last one: from then on the backup exists.
const RECORD: Call = call("PUT", "*/velero-backup.json?*", "few", Claim, Backup);

/// Where in a run of 500 objects it dies, in percent of its requests.
pub(crate) const PERCENTS: [usize; 4] = [1, 10, 50, 90];

pub(crate) fn backup(namespace: &str) -> [&str; 8] {
    // Of few types, so that there is less to wait for.
    let types = "namespaces,configmaps,secrets,services,serviceaccounts";
    ["backup", "b", "--include-namespaces", namespace, "--include-resources", types, "--compression-level", "1"]
}

fn left_in(case: &Case<'_>) -> Left {
    let is_there = |file: &str| case.file(&format!("backups/b/{file}")).exists();
    match (is_there("lifeboat-claim.json"), is_there("velero-backup.json")) {
        (false, false) => Nothing,
        (true, false) => Claim,
        (true, true) => Backup,
        (false, true) => panic!("a backup that nobody claimed"),
    }
}

/// Between the death and the next run a whole backup is visible, or none.
fn is_listed(case: &Case<'_>, left: Left) {
    let list = case.local(&["ls"]);
    let lines: Vec<&str> = list.out.lines().skip(1).map(|l| l.split_whitespace().next().unwrap_or_default()).collect();
    assert_eq!((list.code, lines), (0, if left == Backup { vec!["b"] } else { vec![] }), "{list:?}");
}

/// Between the death and the next run the name is nobody else's.
fn is_refused_elsewhere(case: &Case<'_>, left: Left, args: &[&str]) {
    let refusal: &[&str] = match left {
        Nothing => return,
        Claim => &["backup \"b\" in http", "is claimed by another run (backup UID", "take it over with --take-over"],
        Backup => &["backup already exists in object storage", "choose another name"],
    };
    let run = case.elsewhere(args);
    assert!(run.code == 1 && run.out.is_empty(), "another machine: {run:?}");
    assert!(refusal.iter().all(|part| run.err.contains(part)), "another machine: {run:?}");
}

/// The backup is whole, holds every object once, and nothing else is left in the bucket.
pub(crate) fn is_complete(case: &Case<'_>, run: &Run, archived: &[String]) {
    assert!(run.code == 0 && run.out.starts_with("Backup completed with status: Completed."), "{run:?}");
    let verified = case.local(&["verify", "b"]);
    assert!(verified.code == 0 && verified.out.starts_with("b: OK, 9 files"), "{verified:?}");
    assert_eq!(case.archived("b"), archived);
    assert_eq!(case.open_uploads("b"), 0, "uploads are left open");
    assert_eq!(case.backups(), ["b"]);
}

/// The objects in a backup of this namespace when nothing disturbs it.
pub(crate) fn undisturbed(ground: &Ground, namespace: &str) -> Vec<String> {
    let case = ground.case(&format!("undisturbed-{namespace}"));
    let run = case.local(&backup(namespace));
    let archived = case.archived("b");
    is_complete(&case, &run, &archived);
    archived
}

#[test]
fn a_backup_killed_at_a_publishing_call_is_taken_up_or_over() {
    let mut objects = vec![namespace("few"), namespace("large"), applied("few")];
    objects.extend(config_maps("few", 4).chain(incompressible("large")));
    let ground = Ground::start(objects);
    let (few, large) = (undisturbed(&ground, "few"), undisturbed(&ground, "large"));
    // With the namespace and the two objects that every namespace has.
    assert_eq!((few.len(), large.len()), (5 + 3, 7 + 3), "{few:?}");
    let cases: Vec<(usize, &Call, Kill)> = CALLS
        .iter()
        .chain([&RECORD])
        .enumerate()
        .flat_map(|(n, call)| [(n, call, Kill::Before), (n, call, Kill::After)])
        .collect();
    in_parallel(3, &cases, |(n, call, when)| {
        let case = ground.case(&format!("{n}-{when:?}"));
        let args = backup(call.namespace);
        case.s3.script(vec![Rule::new(call.method, call.path, Nth::Only(1), Fault::Kill(*when))]);
        assert!(case.is_killed(&args), "it was not killed");
        let left = left_in(&case);
        assert_eq!(left, if *when == Kill::Before { call.before } else { call.after });
        is_listed(&case, left);
        // What is left before a call is what is left after the one before.
        if *when == Kill::After {
            is_refused_elsewhere(&case, left, &args);
        }
        let run = case.local(&args);
        assert_eq!(run.out.contains("(an earlier run had completed it)"), left == Backup, "{run:?}");
        is_complete(&case, &run, if call.namespace == "few" { &few } else { &large });
    });
    // The claim alone, an upload left open, an archive, all but the record.
    let cases: Vec<(usize, &Call)> = [0, 4, 6, 14].into_iter().map(|n| (n, &CALLS[n])).collect();
    in_parallel(3, &cases, |(n, call)| is_taken_over(&ground.case(&format!("over-{n}")), call, &few));
}

/// Another machine, when told so, takes up what is left after this call and makes a backup of few objects.
fn is_taken_over(case: &Case<'_>, call: &Call, few: &[String]) {
    case.s3.script(vec![Rule::new(call.method, call.path, Nth::Only(1), Fault::Kill(Kill::After))]);
    assert!(case.is_killed(&backup(call.namespace)), "it was not killed");
    let args = backup("few");
    is_refused_elsewhere(case, Claim, &args);
    let run = case.elsewhere(&[&args[..], &["--take-over"]].concat());
    is_complete(case, &run, few);
    // The name is no longer the first one's.
    let run = case.local(&args);
    assert!(run.code == 1 && run.err.contains("backup already exists in object storage"), "{run:?}");
}

/// Which of so many requests is at this percentage.
fn at(percent: usize, requests: &[Seen]) -> u64 {
    (requests.len() * percent / 100).max(1) as u64
}

/// Where to die: before the API server or the S3 server, at which request.
fn places(api: &[Seen], s3: &[Seen]) -> Vec<(bool, u64)> {
    let of = |is_api: bool, seen: &[Seen]| PERCENTS.map(|percent| (is_api, at(percent, seen)));
    let mut out = [of(true, api), of(false, s3)].concat();
    out.dedup();
    out
}

fn kill_at(case: &Case<'_>, (is_api, n): (bool, u64), args: &[&str]) {
    let proxy = if is_api { &case.api } else { &case.s3 };
    proxy.script(vec![Rule::new("*", "*", Nth::Only(n), Fault::Kill(Kill::Before))]);
    assert!(case.is_killed(args), "it was not killed");
}

/// 500 objects of several types, or a multiple of it, of which most are ConfigMaps.
pub(crate) fn many(times: usize) -> Vec<Value> {
    let object = |kind: &'static str, n: usize, rest: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": format!("{}-{n}", kind.to_lowercase()), "namespace": "many"}});
        object.as_object_mut().expect("an object").extend(rest.as_object().cloned().unwrap_or_default());
        object
    };
    let mut out = vec![namespace("many")];
    out.extend(config_maps("many", 500 * times - 100));
    out.extend((0..60).map(|n| object("Secret", n, json!({"type": "Opaque", "data": {"word": "c2VjcmV0"}}))));
    // As a server stores it: with all that it fills in.
    let service = json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": {"app": "a"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}});
    out.extend((0..20).map(|n| object("Service", n, service.clone())));
    out.extend((0..20).map(|n| object("ServiceAccount", n, json!({}))));
    out
}

#[test]
fn a_backup_killed_at_any_request_is_taken_up_again() {
    let ground = Ground::start(many(1));
    let first = ground.case("first");
    // Of all types, so that there are many requests.
    let args = ["backup", "b", "--include-namespaces", "many"];
    let run = first.local(&args);
    let (api, s3) = (first.api.take_seen(), first.s3.take_seen());
    let archived = first.archived("b");
    assert_eq!(archived.len(), 500 + 3);
    is_complete(&first, &run, &archived);
    in_parallel(3, &places(&api, &s3), |place| {
        let case = ground.case(&format!("{}-{}", place.0, place.1));
        kill_at(&case, *place, &args);
        is_listed(&case, left_in(&case));
        is_refused_elsewhere(&case, left_in(&case), &args);
        let run = case.local(&args);
        is_complete(&case, &run, &archived);
    });
}

/// The objects of a namespace with their UIDs, but for what the cluster makes in every namespace.
pub(crate) fn live(client: &ApiClient, namespace: &str) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_kind = |kind: &'static str| {
        let objects = client.list(kind, Some(namespace)).unwrap_or_else(|e| panic!("{e:#}"));
        objects.into_iter().map(move |object| {
            let metadata = &object["metadata"];
            (format!("{kind}/{}", text(&metadata["name"])), text(&metadata["uid"]))
        })
    };
    let all = ["ConfigMap", "Secret", "Service", "ServiceAccount"].into_iter().flat_map(of_kind);
    all.filter(|(name, _)| !is_in_every_namespace(name)).collect()
}

fn is_in_every_namespace(name: &str) -> bool {
    matches!(name, "ConfigMap/kube-root-ca.crt" | "ServiceAccount/default")
}

/// The objects in the resource list of a restore, one entry for each line of it.
fn listed(case: &Case<'_>, restore: &str) -> Vec<String> {
    listed_in(&case.file(&format!("restores/{restore}/restore-{restore}-resource-list.json.gz")))
}

/// The same of this file.
pub(crate) fn listed_in(file: &Path) -> Vec<String> {
    let list = gunzip_json(file);
    let mut out = Vec::new();
    for (kind, names) in list.as_object().expect("a map") {
        let kind = kind.rsplit('/').next().unwrap_or_default();
        for name in names.as_array().expect("a list") {
            let name = name.as_str().unwrap_or_default();
            let name = name.rsplit('/').next().and_then(|n| n.split('(').next()).unwrap_or_default();
            out.push(format!("{kind}/{name}"));
        }
    }
    // Only who makes the namespace lists it.
    out.retain(|name| !name.starts_with("Namespace/") && !is_in_every_namespace(name));
    out.sort();
    out
}

/// Ends what a killed restore began: every object is there once, and those that were there are the same ones.
pub(crate) fn restore_again(case: &Case<'_>, client: &ApiClient, name: &str, args: &[&str], expected: &[String]) {
    let target = target(name);
    let before = live(client, &target);
    let run = case.local(args);
    assert!(run.code == 0 && run.out.starts_with("Restore completed with status: Completed."), "{run:?}");
    assert!(run.out.contains(" 0 warnings, 0 errors."), "{run:?}");
    let after = live(client, &target);
    assert_eq!(after.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    let replaced: Vec<_> = before.iter().filter(|(name, uid)| after.get(*name) != Some(*uid)).collect();
    assert!(replaced.is_empty(), "made twice: {replaced:?}");
    assert_eq!(listed(case, name), expected);
}

/// The namespace of a case: of this run of the tests alone.
pub(crate) fn target(name: &str) -> String {
    format!("kills-{}-{name}", std::process::id())
}

/// The arguments of a restore of the backup `b` from its namespace into that of the case.
pub(crate) fn restore(namespace: &str, name: &str) -> [String; 6] {
    let mapping = format!("{namespace}:{}", target(name));
    ["restore", name, "--from-backup", "b", "--namespace-mappings", &mapping].map(str::to_owned)
}

/// Makes the backup `b` in the folder `base`, restores it undisturbed, and gives the objects that came back, with the
/// requests that it took.
pub(crate) fn undisturbed_restore(
    ground: &Ground,
    plane: &Path,
    client: &ApiClient,
    namespace: &str,
) -> (Vec<String>, Vec<Seen>, Vec<Seen>) {
    let run = ground.case_in("base", "base").local(&backup(namespace));
    assert_eq!(run.code, 0, "{run:?}");
    let name = format!("undisturbed-{namespace}");
    let case = ground.case_on(plane, "base", &name);
    let args = restore(namespace, &name);
    let run = case.local(&args.each_ref().map(String::as_str));
    assert!(run.code == 0 && run.out.contains(" 0 warnings, 0 errors."), "{run:?}");
    let expected: Vec<String> = live(client, &target(&name)).into_keys().collect();
    assert_eq!(listed(&case, &name), expected);
    (expected, case.api.take_seen(), case.s3.take_seen())
}

#[test]
fn a_restore_killed_at_any_request_is_taken_up_again() {
    let (ground, plane) = (Ground::start(many(1)), shared_plane());
    let client = ApiClient::of_kubeconfig(&plane).expect("a client");
    let (expected, api, s3) = undisturbed_restore(&ground, &plane, &client, "many");
    assert_eq!(expected.len(), 500);
    in_parallel(2, &places(&api, &s3), |place| {
        let name = format!("{}-{}", if place.0 { "api" } else { "s3" }, place.1);
        let case = ground.case_on(&plane, "base", &name);
        let args = restore("many", &name);
        let args = args.each_ref().map(String::as_str);
        kill_at(&case, *place, &args);
        restore_again(&case, &client, &name, &args, &expected);
    });
}

/// The files that a restore publishes.
pub(crate) const RESULT_FILES: [&str; 5] =
    ["logs.gz", "results.gz", "resource-list.json.gz", "itemoperations.json.gz", "volumeinfo.json.gz"];

#[test]
fn a_restore_killed_at_a_result_file_is_taken_up_again() {
    let mut objects = vec![namespace("few"), applied("few")];
    objects.extend(config_maps("few", 4));
    let (ground, plane) = (Ground::start(objects), shared_plane());
    let client = ApiClient::of_kubeconfig(&plane).expect("a client");
    let (expected, _, _) = undisturbed_restore(&ground, &plane, &client, "few");
    assert_eq!(expected.len(), 5);
    let cases: Vec<(&str, Kill)> =
        RESULT_FILES.into_iter().flat_map(|file| [(file, Kill::Before), (file, Kill::After)]).collect();
    in_parallel(3, &cases, |(file, when)| {
        let name = format!("{}-{when:?}", file.split('.').next().unwrap_or_default()).to_lowercase();
        let case = ground.case_on(&plane, "base", &name);
        let args = restore("few", &name);
        let args = args.each_ref().map(String::as_str);
        let path = format!("*/restores/{name}/*{file}?*");
        case.s3.script(vec![Rule::new("PUT", &path, Nth::Only(1), Fault::Kill(*when))]);
        assert!(case.is_killed(&args), "it was not killed");
        restore_again(&case, &client, &name, &args, &expected);
        for file in RESULT_FILES {
            let prefix = if file == "volumeinfo.json.gz" { "" } else { "restore-" };
            let path = case.file(&format!("restores/{name}/{prefix}{name}-{file}"));
            assert!(path.exists(), "{} is missing", path.display());
        }
    });
}

/// The managers that own fields of the ConfigMap `applied`, and their operations.
fn managers(kubectl: &Kubectl, namespace: &str) -> Vec<(String, String)> {
    let out = kubectl
        .try_run(&[
            "get",
            "configmap/applied",
            &format!("--namespace={namespace}"),
            "--show-managed-fields",
            "--output=json",
        ])
        .unwrap_or_else(|e| panic!("{e:#}"));
    let object: Value = serde_json::from_str(&out).expect("JSON");
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| (text(e, "manager"), text(e, "operation"))).collect()
}

#[test]
fn a_restore_killed_between_create_and_second_write_makes_that_write() {
    let (ground, plane) = (Ground::start(vec![namespace("owned"), applied("owned")]), shared_plane());
    let client = ApiClient::of_kubeconfig(&plane).expect("a client");
    let (expected, _, _) = undisturbed_restore(&ground, &plane, &client, "owned");
    let kubectl = Kubectl::new(&plane).expect("kubectl");
    let owners = managers(&kubectl, &target("undisturbed-owned"));
    assert!(owners.contains(&("pipeline".to_owned(), "Apply".to_owned())), "{owners:?}");
    let cases = [
        ("create-after", "POST", "*/configmaps*", Kill::After),
        ("patch-before", "PATCH", "*/configmaps/applied*", Kill::Before),
        ("patch-after", "PATCH", "*/configmaps/applied*", Kill::After),
    ];
    in_parallel(2, &cases, |(name, method, path, when)| {
        let case = ground.case_on(&plane, "base", name);
        let args = restore("owned", name);
        let args = args.each_ref().map(String::as_str);
        case.api.script(vec![Rule::new(method, path, Nth::Only(1), Fault::Kill(*when))]);
        assert!(case.is_killed(&args), "it was not killed");
        restore_again(&case, &client, name, &args, &expected);
        assert_eq!(managers(&kubectl, &target(name)), owners);
    });
}

/// The server of another version fills in what the backup does not have: that is no difference to what a restore made
/// itself before it was killed.
#[test]
fn a_killed_restore_knows_its_own_objects_again() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bare", "namespace": "own"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    let (ground, plane) = (Ground::start(vec![namespace("own"), service]), shared_plane());
    let client = ApiClient::of_kubeconfig(&plane).expect("a client");
    let (expected, _, _) = undisturbed_restore(&ground, &plane, &client, "own");
    assert_eq!(expected, ["Service/bare"]);
    let case = ground.case_on(&plane, "base", "own");
    let args = restore("own", "own");
    let args = args.each_ref().map(String::as_str);
    case.s3.script(vec![Rule::new("PUT", "*/restores/own/*.gz?*", Nth::Only(1), Fault::Kill(Kill::Before))]);
    assert!(case.is_killed(&args), "it was not killed");
    restore_again(&case, &client, "own", &args, &expected);
}
