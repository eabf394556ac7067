//! Scenarios of Velero's end-to-end suite that no other test stands for. The lines that begin with `scenario:` are what
//! `cargo xtask scenarios` makes the table of docs/compatibility/scenarios.md of; other tests have them too.

use crate::faults::namespace;
use crate::ground::{Ground, Server};
use crate::support::{Bed, Run, program, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn create(bed: &Bed, object: &Value) {
    bed.plane.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
}

fn object(kind: &str, space: &str, name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": space, "labels": labels}})
}

fn deployment(space: &str, labels: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app", "namespace": space, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "a", "image": "nginx:1"}]}}}})
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn well(bed: &Bed, line: &str) -> Run {
    let run = bed.local(&words(line));
    assert_eq!(run.code, 0, "{line}: {run:?}");
    run
}

fn delete(bed: &Bed, spaces: &[String]) {
    let spaces: Vec<&str> = spaces.iter().map(String::as_str).collect();
    bed.kubectl(&[&["delete", "namespace", "--timeout=180s"], &spaces[..]].concat());
}

/// The objects in the namespaces with this prefix, without the prefix and without the objects that the cluster makes
/// itself.
fn there(bed: &Bed, prefix: &str) -> BTreeSet<String> {
    let template = "{range .items[*]}{.metadata.namespace}/{.kind}/{.metadata.name}{\"\\n\"}{end}";
    let types = "deployments,secrets,configmaps";
    let all = bed.kubectl(&["get", types, "--all-namespaces", &format!("--output=jsonpath={template}")]);
    let own = all.lines().filter_map(|line| line.strip_prefix(prefix));
    own.filter(|line| !line.ends_with("/kube-root-ca.crt")).map(str::to_owned).collect()
}

/// Annotated namespaces come back with their annotations, all namespaces but those that were there before, and a
/// service account with its cluster role and binding.
///
/// scenario: ClusterResource
#[test]
fn namespaces_and_what_is_bound_to_them_across_the_cluster_come_back() {
    let bed = Bed::start();
    let before = bed.kubectl(&["get", "namespaces", "--output=jsonpath={.items[*].metadata.name}"]).replace(' ', ",");
    let spaces = ["one", "two"].map(str::to_owned);
    for space in &spaces {
        let mut made = namespace(space);
        made["metadata"]["annotations"] = json!({"note": format!("of {space}")});
        create(&bed, &made);
    }
    create(&bed, &object("ServiceAccount", "one", "reader", &json!({})));
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    create(
        &bed,
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reads"}, "rules": rules}),
    );
    create(
        &bed,
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "one"}]}),
    );
    well(&bed, &format!("backup b --exclude-namespaces {before}"));
    delete(&bed, &spaces);
    bed.kubectl(&["delete", "clusterrole,clusterrolebinding", "reads"]);
    well(&bed, "restore r --from-backup b");
    for space in &spaces {
        let note = bed.kubectl(&["get", "namespace", space, "--output=jsonpath={.metadata.annotations.note}"]);
        assert_eq!(note, format!("of {space}"));
    }
    let subject = "--output=jsonpath={.subjects[0].namespace}/{.subjects[0].name} {.roleRef.name}";
    assert_eq!(bed.kubectl(&["get", "clusterrolebinding", "reads", subject]), "one/reader reads");
    bed.kubectl(&["get", "clusterrole", "reads"]);
    bed.kubectl(&["get", "serviceaccount", "reader", "--namespace=one"]);
}

/// scenario: NodePort
#[test]
fn a_node_port_comes_back_when_it_is_asked_for_and_free() {
    let bed = Bed::start();
    let spaces = ["web", "thief"].map(str::to_owned);
    spaces.iter().for_each(|space| create(&bed, &namespace(space)));
    let service = |space: &str, port: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": space},
            "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "nodePort": port}]}})
    };
    create(&bed, &service("web", Value::Null));
    let port =
        || bed.kubectl(&["get", "service", "web", "--namespace=web", "--output=jsonpath={.spec.ports[0].nodePort}"]);
    let given = port();
    well(&bed, "backup b --include-namespaces web");
    let number: u32 = given.parse().expect("a port");
    delete(&bed, &spaces[..1]);
    create(&bed, &service("thief", json!(number)));
    let taken = bed.local(&words("restore taken --from-backup b --preserve-nodeports=true"));
    assert!(taken.code == 3 && taken.err.contains("provided port is already allocated"), "{taken:?}");
    well(&bed, "restore other --from-backup b --preserve-nodeports=false");
    assert_ne!(port(), given);
    delete(&bed, &spaces);
    well(&bed, "restore same --from-backup b --preserve-nodeports=true");
    assert_eq!(port(), given);
}

/// scenario: StorageClass
#[test]
fn a_claim_comes_back_with_the_class_that_its_own_is_mapped_to() {
    let bed = Bed::start();
    ["velero", "shop"].iter().for_each(|space| create(&bed, &namespace(space)));
    for class in ["first", "second"] {
        create(
            &bed,
            &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class}, "provisioner": "x"}),
        );
    }
    create(
        &bed,
        &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "first", "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    create(
        &bed,
        &json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "classes", "namespace": "velero", "labels": {
            "velero.io/plugin-config": "", "velero.io/change-storage-class": "RestoreItemAction"}},
        "data": {"first": "second"}}),
    );
    well(&bed, "backup b --include-namespaces shop");
    well(&bed, "restore r --from-backup b --namespace-mappings shop:moved");
    let class = ["get", "pvc", "data", "--namespace=moved", "--output=jsonpath={.spec.storageClassName}"];
    assert_eq!(bed.kubectl(&class), "second");
}

/// Excluding by label; including and excluding namespaces and types, in the backup or in the restore; wildcards; a
/// selector.
///
/// scenario: ResourceFiltering
#[test]
fn what_is_filtered_out_of_a_backup_or_a_restore_stays_away() {
    let bed = Bed::start();
    let spaces = ["f-inc-1", "f-inc-2", "f-test-exc"].map(str::to_owned);
    for (number, space) in spaces.iter().enumerate() {
        create(&bed, &namespace(space));
        let labels = json!({"resourcefiltering": (number < 2).to_string()});
        create(
            &bed,
            &deployment(
                space,
                &json!({"velero.io/exclude-from-backup": "false", "resourcefiltering": labels["resourcefiltering"]}),
            ),
        );
        create(&bed, &object("Secret", space, "plain", &labels));
        create(&bed, &object("Secret", space, "hidden", &json!({"velero.io/exclude-from-backup": "true"})));
        create(&bed, &object("ConfigMap", space, "map", &json!({})));
    }
    let all = |spaces: &[&str], kinds: &[&str]| -> BTreeSet<String> {
        let names = [("Deployment", "app"), ("Secret", "plain"), ("ConfigMap", "map")];
        let kinds: Vec<_> = names.iter().filter(|(kind, _)| kinds.contains(kind)).collect();
        spaces.iter().flat_map(|space| kinds.iter().map(move |(kind, name)| format!("{space}/{kind}/{name}"))).collect()
    };
    let kinds = ["Deployment", "Secret", "ConfigMap"];
    let every = ["f-inc-1", "f-inc-2", "f-test-exc"];
    let own = "--include-namespaces f-inc-1,f-inc-2,f-test-exc";
    let cases = [
        (own, "", all(&every, &kinds)),
        ("--include-namespaces f-* --exclude-namespaces f-inc-2", "", all(&["f-inc-1", "f-test-exc"], &kinds)),
        (own, "--exclude-namespaces f-inc-2", all(&["f-inc-1", "f-test-exc"], &kinds)),
        (&format!("{own} --exclude-resources secrets"), "", all(&every, &["Deployment", "ConfigMap"])),
        (own, "--exclude-resources secrets", all(&every, &["Deployment", "ConfigMap"])),
        ("--include-namespaces f-inc-1", "", all(&["f-inc-1"], &kinds)),
        (own, "--include-namespaces f-inc-1", all(&["f-inc-1"], &kinds)),
        (&format!("{own} --include-resources deployments,configmaps"), "", all(&every, &["Deployment", "ConfigMap"])),
        (own, "--include-resources deployments,configmaps", all(&every, &["Deployment", "ConfigMap"])),
        (
            "--include-namespaces f-inc-*,f-test-*,f-none-*",
            "--exclude-namespaces f-*-exc",
            all(&["f-inc-1", "f-inc-2"], &kinds),
        ),
        (
            &format!("{own} --selector resourcefiltering=true"),
            "",
            all(&["f-inc-1", "f-inc-2"], &["Deployment", "Secret"]),
        ),
    ];
    for (number, (backup, restore, expected)) in cases.iter().enumerate() {
        well(&bed, &format!("backup b{number} {backup}"));
        let mapping: Vec<String> = spaces.iter().map(|space| format!("{space}:r{number}-{space}")).collect();
        let line =
            format!("restore r{number} --from-backup b{number} --namespace-mappings {} {restore}", mapping.join(","));
        well(&bed, line.trim_end());
        assert_eq!(&there(&bed, &format!("r{number}-")), expected, "{backup} {restore}");
    }
}

/// scenario: Scale
#[test]
#[ignore = "takes minutes: make test-long"]
fn long_namespaces_come_back_however_many_there_are() {
    let (from, to) = (Bed::start(), Bed::start());
    let spaces: Vec<String> = (0..2_500).map(|number| format!("scale-{number}")).collect();
    let items: Vec<Value> = spaces.iter().map(|name| namespace(name)).collect();
    create(&from, &json!({"apiVersion": "v1", "kind": "List", "items": items}));
    well(&from, "backup b --exclude-namespaces default,kube-system,kube-public,kube-node-lease");
    let run = to.local_through(&to.plane.kubeconfig(), &["ls"]);
    assert_eq!(run.code, 0, "{run:?}");
    let restored = from.local_through(&to.plane.kubeconfig(), &["restore", "r", "--from-backup", "b"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let names = to.kubectl(&["get", "namespaces", "--output=name"]);
    let names: BTreeSet<&str> = names.lines().filter_map(|line| line.strip_prefix("namespace/scale-")).collect();
    assert_eq!(names.len(), spaces.len());
}

/// A server, and a backup in each of two locations, of which the first is the default.
fn two_locations() -> (Ground, [PathBuf; 2], Server) {
    let ground = Ground::start();
    ground.many("shop", 3);
    let first = ground.directory("first", &json!({"default": true, "backupSyncPeriod": "2s"}));
    let second = ground.directory("second", &json!({"backupSyncPeriod": "2s"}));
    let server = ground.server("one");
    for (location, backup) in [("first", "one"), ("second", "two")] {
        ground.until("backupstoragelocation", location, "Available");
        ground.velero("Backup", backup, &json!({"includedNamespaces": ["shop"], "storageLocation": location}));
        ground.until("backup", backup, "Completed");
    }
    (ground, [first, second], server)
}

/// scenario: BSL, Deletion
#[test]
fn backups_of_a_deleted_location_leave_the_cluster_and_not_the_bucket() {
    let (ground, buckets, _server) = two_locations();
    let mut command = Command::new(program());
    command.args(["backup-location", "delete", "first", "--confirm"]);
    let deleted = run(command.env("KUBECONFIG", ground.bed.plane.kubeconfig()));
    assert_eq!(deleted.code, 0, "{deleted:?}");
    ground.until_gone("backup", "one");
    assert_eq!(ground.get("backup", "two")["status"]["phase"], "Completed");
    for (bucket, name) in buckets.iter().zip(["one", "two"]) {
        assert!(bucket.join("backups").join(name).join("velero-backup.json").exists(), "{name}");
    }
}

/// scenario: Backups, Deletion
#[test]
fn a_backup_whose_files_are_gone_can_be_deleted() {
    let (ground, [first, _], server) = two_locations();
    // While nobody looks: a sync would take the resource away by itself.
    drop(server);
    ground.end_lease("velero");
    std::fs::remove_dir_all(first.join("backups/one")).expect("remove");
    let request = json!({"backupName": "one"});
    ground.velero("DeleteBackupRequest", "delete", &request);
    let _server = ground.server("two");
    ground.until_gone("backup", "one");
    ground.until_gone("deletebackuprequest", "delete");
    assert_eq!(ground.get("backup", "two")["status"]["phase"], "Completed");
}

/// scenario: (parallel backups)
#[test]
fn backups_of_different_namespaces_run_at_once_and_those_of_one_in_turn() {
    let ground = Ground::start();
    for space in ["shop", "bank"] {
        ground.many(space, 3);
    }
    let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    // No backup comes to its end until this is taken away.
    let away = Fault::Answer { status: 503, headers: Vec::new(), body: String::new() };
    s3.script(vec![Rule::new("PUT", "*/velero-backup.json*", Nth::Every, away)]);
    ground.s3_location("main", s3.url());
    let _server = ground.server_with("one", &ground.bed.plane.kubeconfig(), &["--concurrent-backups", "2"]);
    ground.until("backupstoragelocation", "main", "Available");
    let begin = |name: &str, space: &str| {
        ground.velero("Backup", name, &json!({"includedNamespaces": [space], "storageLocation": "main"}));
    };
    begin("first", "shop");
    ground.until("backup", "first", "InProgress");
    begin("same", "shop");
    ground.until("backup", "same", "Queued");
    begin("other", "bank");
    ground.until("backup", "other", "InProgress");
    assert_eq!(
        ["first", "same"].map(|name| ground.get("backup", name)["status"]["phase"].clone()),
        ["InProgress", "Queued"]
    );
    assert_eq!(ground.get("backup", "same")["status"]["queuePosition"], 1);
    s3.script(Vec::new());
    for name in ["first", "other", "same"] {
        ground.until("backup", name, "Completed");
    }
    let [first, same] = ["first", "same"].map(|name| ground.get("backup", name)["status"].take());
    let time = |status: &Value, key: &str| status[key].as_str().expect("a time").to_owned();
    assert!(time(&first, "completionTimestamp") <= time(&same, "startTimestamp"), "{first} {same}");
}
