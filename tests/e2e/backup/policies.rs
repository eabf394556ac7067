//! Resource policies on a real API server: what they let into a backup and out of it, and how wrong ones are refused.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Bed, ended, gunzip_json};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

const FOR_A_BACKUP: &str = "version: v1
includeExcludePolicy:
  includedClusterScopedResources: [sc, priorityclasses]
  excludedNamespaceScopedResources: [serviceaccounts, endpoints, endpointslices.discovery.k8s.io, events]
clusterScopedFilterPolicy:
  resourceFilters:
  - kinds: [StorageClass]
    names: ['fast*']
    excludedNames: [fast-old]
  - kinds: [priorityclasses]
    labelSelector: {matchLabels: {team: shop}}
namespacedFilterPolicies:
- namespaces: [shop]
  resourceFilters:
  - kinds: [cm]
    names: ['price*']
  - kinds: [Secret]
    orLabelSelectors:
    - matchLabels: {tier: gold}
    - matchLabels: {tier: silver}
- namespaces: ['lab-*']
  resourceFilters:
  - kinds: ['*']
    labelSelector: {matchLabels: {keep: 'yes'}}
  - kinds: [secrets]
";

fn object(kind: &str, space: &str, name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": space, "labels": labels}})
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "e.com/p"})
}

fn priority(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7,
        "metadata": {"name": name, "labels": labels}})
}

fn cluster() -> Vec<Value> {
    let (none, gold) = (json!({}), json!({"tier": "gold"}));
    let mut out: Vec<Value> = ["shop", "lab-1", "other"].map(namespace).into();
    out.extend([
        object("ConfigMap", "shop", "prices", &none),
        object("ConfigMap", "shop", "hours", &none),
        object("Secret", "shop", "gold", &gold),
        object("Secret", "shop", "silver", &json!({"tier": "silver"})),
        object("Secret", "shop", "plain", &none),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"ports": [{"port": 80}]}}),
        object("ConfigMap", "lab-1", "kept", &json!({"keep": "yes"})),
        object("ConfigMap", "lab-1", "lost", &none),
        object("Secret", "lab-1", "any", &none),
        object("ConfigMap", "other", "free", &none),
        class("fast-new"),
        class("fast-old"),
        class("slow"),
        priority("shop", &json!({"team": "shop"})),
        priority("lab", &none),
    ]);
    out
}

fn file(bed: &Bed, name: &str, text: &str) -> PathBuf {
    let path = bed.bucket().with_file_name(name);
    std::fs::write(&path, text).expect("a file");
    path
}

/// The names of some types in the resource list of a backup.
fn saved(list: &Value) -> BTreeSet<String> {
    let types = [
        "v1/ConfigMap",
        "v1/Secret",
        "v1/Service",
        "storage.k8s.io/v1/StorageClass",
        "scheduling.k8s.io/v1/PriorityClass",
    ];
    let names = types.iter().flat_map(|kind| list[*kind].as_array().into_iter().flatten());
    let names = names
        .filter_map(Value::as_str)
        .filter(|name| !name.ends_with("kube-root-ca.crt") && !name.starts_with("system"));
    names
        .filter(|name| !name.starts_with("kube-system/") && !name.starts_with("kube-public/"))
        .map(str::to_owned)
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const SAVED: [&str; 8] =
    ["fast-new", "lab-1/any", "lab-1/kept", "other/free", "shop", "shop/gold", "shop/prices", "shop/silver"];

/// scenario: ResourceFiltering, ResourcePolicies
#[test]
fn a_backup_and_a_restore_take_what_the_policies_let_in() {
    let bed = Bed::start();
    for object in cluster() {
        bed.plane.kubectl().create(&object).unwrap_or_else(|e| panic!("{e:#}"));
    }
    let policies = file(&bed, "policies.yaml", FOR_A_BACKUP);
    let flags = ["--resource-policies", policies.to_str().expect("a path")];
    // All namespaces are listed at once here, and one by one there: that makes no difference.
    let spaces = ["--include-namespaces", "shop,lab-1,other"];
    for (name, more) in [("all", &[][..]), ("some", &spaces)] {
        let line = [&["backup", name][..], &flags, more].concat();
        let plan = bed.local(&[&line[..], &["--dry-run", "-o", "json"]].concat());
        assert_eq!(plan.code, 0, "{plan:?}");
        let plan: Value = serde_json::from_str(&plan.out).expect("JSON");
        let run = bed.local(&line);
        assert_eq!(run.code, 0, "{run:?}");
        let list = gunzip_json(&bed.bucket().join(format!("backups/{name}/{name}-resource-list.json.gz")));
        let found: BTreeSet<String> = saved(&list).into_iter().filter(|name| !name.starts_with("default/")).collect();
        assert_eq!(found, set(&SAVED), "{name}");
        let secrets = list["v1/Secret"].as_array().map_or(0, Vec::len) as u64;
        let planned = plan["types"].as_array().expect("types").iter().find(|one| one["type"] == "secrets");
        assert_eq!(planned.map(|one| one["objects"].clone()), Some(secrets.into()), "{plan}");
        assert!(list["v1/ServiceAccount"].is_null() && list["v1/Namespace"].to_string().contains("lab-1"));
    }

    let text = "version: v1
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [sc], names: [slow]}]}
namespacedFilterPolicies:
- {namespaces: ['lab-*'], resourceFilters: [{kinds: [secrets]}]}
- {namespaces: [shop], resourceFilters: [{kinds: [ConfigMap], excludedNames: [prices]}, {kinds: ['*'], labelSelector: {matchLabels: {tier: gold}}}]}
";
    let policies = file(&bed, "restore.yaml", text);
    let line = ["restore", "r", "--from-backup", "all", "--resource-policies", policies.to_str().expect("a path")];
    for name in ["shop", "lab-1", "other"] {
        bed.kubectl(&["delete", "namespace", name, "--timeout=180s"]);
    }
    bed.kubectl(&["delete", "storageclass", "fast-new", "slow"]);
    let run = bed.local(&line);
    assert_eq!(run.code, 0, "{run:?}");
    let left = |kind: &str| {
        let names = "--output=jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let text = bed.kubectl(&["get", kind, "--all-namespaces", names]);
        let wanted = |name: &&str| ["shop/", "lab-1/", "other/", "/"].iter().any(|place| name.starts_with(place));
        let names = text.lines().filter(wanted).filter(|name| !name.ends_with("kube-root-ca.crt"));
        names.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    assert_eq!(left("configmaps"), set(&["other/free"]));
    assert_eq!(left("secrets"), set(&["lab-1/any", "shop/gold"]));
    assert_eq!(left("storageclasses"), set(&["/fast-old"]), "a class that the policy does not name is not restored");
}

/// Documents that are refused, and what is said of them.
const WRONG: [(&str, &str); 6] = [
    (
        "",
        "fail to read the ResourcePolicies from SOURCE with error failed to decode yaml data into resource policies  EOF",
    ),
    (
        "version: v2",
        "fail to validate ResourcePolicies in SOURCE with error incompatible version number v2 with supported version v1",
    ),
    (
        "version: v1\nvolumePolicies:\n- {action: {type: explode}}\n",
        "fail to validate ResourcePolicies in SOURCE with error volumePolicies[0]: invalid action type explode (line 3)",
    ),
    (
        "version: v1\nincludeExcludePolicy: {includedClusterScopedResources: ['*']}\n",
        "fail to validate ResourcePolicies in SOURCE with error includeExcludePolicy: cannot use '*' in includes or excludes filters in the policy (line 2)",
    ),
    (
        "version: v1\nnamespacedFilterPolicies:\n- {namespaces: [a]}\n",
        "fail to validate ResourcePolicies in SOURCE with error namespacedFilterPolicies[0]: at least one resourceFilter must be specified (line 3)",
    ),
    (
        "version: v1\nclusterScopedFilterPolicy: {}\n",
        "fail to validate ResourcePolicies in SOURCE with error clusterScopedFilterPolicy: resourceFilters cannot be empty; remove the policy block entirely if it is not needed (line 2)",
    ),
];

#[test]
fn wrong_policies_are_refused_in_the_same_words_before_any_write() {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    let config_map = |name: &str, data: &Value| {
        ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "velero"}, "data": data}));
    };
    for (number, (text, _)) in WRONG.iter().enumerate() {
        config_map(&format!("p{number}"), &json!({"policies": text}));
    }
    config_map("two", &json!({"a": "version: v1", "b": "version: v1"}));
    config_map("good", &json!({"policies": "version: v1\nvolumePolicies: [{action: {type: skip}}]\n"}));
    config_map("lists", &json!({"policies": "version: v1\nincludeExcludePolicy: {}\n"}));
    let files = ground.directory("d", &json!({"default": true}));
    let kubeconfig = ground.bed.plane.kubeconfig();
    let _server = ground.server_with("one", &kubeconfig, &["--global-backup-volume-policies-configmap", "good"]);
    ground.until("backupstoragelocation", "d", "Available");
    let by_server = |name: &str, policy: &str, spec: &Value| {
        let mut spec = spec.clone();
        spec["resourcePolicy"] = json!({"kind": "ConfigMap", "name": policy});
        ground.velero("Backup", name, &spec);
        let backup = ground.until("backup", name, "FailedValidation");
        backup["status"]["validationErrors"].clone()
    };
    for (number, (text, expected)) in WRONG.iter().enumerate() {
        let source = format!("ConfigMap velero/p{number}");
        let name = format!("b{number}");
        assert_eq!(by_server(&name, &format!("p{number}"), &json!({})), json!([expected.replace("SOURCE", &source)]));
        let path = file(&ground.bed, "wrong.yaml", text);
        let path = path.to_str().expect("a path");
        let run = ground.bed.local(&["backup", &name, "--resource-policies", path]);
        let said = format!("the backup is not valid: {}\n", expected.replace("SOURCE", path));
        assert_eq!((run.code, run.err.trim_start_matches("An error occurred: ")), (1, said.as_str()), "{text}");
        let run = ground.bed.local(&["backup", &name, "--resource-policies-configmap", &format!("p{number}")]);
        let said = format!("the backup is not valid: {}\n", expected.replace("SOURCE", &source));
        assert_eq!((run.code, run.err.trim_start_matches("An error occurred: ")), (1, said.as_str()), "{text}");
    }
    let missing = "fail to get ResourcePolicies velero/none ConfigMap with error ConfigMap \"none\" not found";
    assert_eq!(by_server("m", "none", &json!({})), json!([missing]));
    let two = "fail to read the ResourcePolicies from ConfigMap velero/two with error illegal resource policies velero/two configmap: it must have exactly one key in its data, and has 2";
    assert_eq!(by_server("t", "two", &json!({})), json!([two]));
    let old = "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\nThey cannot be used with include-exclude policies.";
    assert_eq!(by_server("o", "lists", &json!({"includedResources": ["pods"]})), json!([old]));
    assert!(!files.join("backups").exists() && !ground.bed.bucket().join("backups").exists(), "nothing was written");

    ground.velero("Backup", "good", &json!({"includedNamespaces": ["shop"]}));
    let backup = ground.until("backup", "good", "Completed");
    assert_eq!(backup["metadata"]["annotations"]["velero.io/global-backup-volume-policy-configmap"], "good");
    ground.velero(
        "Restore",
        "r",
        &json!({"backupName": "good", "resourcePolicy": {"kind": "configmap", "name": "lists"}}),
    );
    let restore = ground.until("restore", "r", "FailedValidation");
    assert_eq!(
        restore["status"]["validationErrors"],
        json!([
            "fail to validate ResourcePolicies in ConfigMap velero/lists: includeExcludePolicy is not supported for restore (line 2)"
        ])
    );
    ground.velero(
        "Restore",
        "k",
        &json!({"backupName": "good", "resourcePolicy": {"kind": "Secret", "name": "lists"}}),
    );
    let restore = ground.until("restore", "k", "FailedValidation");
    assert_eq!(
        restore["status"]["validationErrors"],
        json!(["invalid ResourcePolicy kind \"Secret\", only \"configmap\" is supported"])
    );

    let mut second = ground.server_with("two", &kubeconfig, &["--global-backup-volume-policies-configmap", "p1"]);
    assert!(!ended(&mut second.0).success(), "a server does not start with policies that are wrong");
    assert!(
        ground.log("two").contains("--global-backup-volume-policies-configmap: fail to validate"),
        "{}",
        ground.log("two")
    );
}
