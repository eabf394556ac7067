//! Parts of a shop: selected when it is backed up, or when it is restored.

use crate::moved::{moved, of_targets, without_node_ports};
use crate::shop;
use crate::snapshot::{self, Snapshot};
use crate::support::Bed;
use serde_json::Value;

/// A restore into namespaces of its own: what it is asked for, and what it must bring.
struct Case {
    /// Of the restore; the namespaces are called after it.
    name: &'static str,
    backup: &'static str,
    args: &'static [&'static str],
    /// Returns true for objects of the storefront, the warehouse or the platform that are asked for.
    wanted: fn(&Value) -> bool,
    /// Objects that come along because others need them, by name in the snapshot.
    related: &'static [&'static str],
    /// Objects without namespaces in the resource list.
    cluster: &'static [&'static str],
}

/// Backups, and the flags that select what is in them.
const BACKUPS: [(&str, &[&str]); 5] = [
    ("all", &[]),
    ("gold", &["--selector", "tier=gold"]),
    ("tiers", &["--or-selector", "tier=gold or tier in (silver,bronze)"]),
    (
        "kinds",
        &["--include-namespaces", "storefront,warehouse", "--include-resources", "cm,secrets,catalogs.tea.example.org"],
    ),
    (
        "others",
        &["--exclude-namespaces", "kube-*,platform", "--exclude-resources", "pods,secrets,configmaps,replicasets.apps"],
    ),
];

const CASES: [Case; 9] = [
    Case {
        name: "copy",
        backup: "all",
        args: &["--include-namespaces", "storefront,warehouse,platform"],
        wanted: |_| true,
        related: &[],
        cluster: &[
            "PriorityClass teahouse-till(skipped)",
            "PersistentVolume pictures(skipped)",
            "PersistentVolume shelf-left(skipped)",
            "PersistentVolume shelf-right(skipped)",
        ],
    },
    Case {
        name: "b-gold",
        backup: "gold",
        args: &[],
        wanted: |o| label(o, "tier") == "gold",
        related: &["PersistentVolumeClaim. storefront pictures"],
        cluster: &[
            "CustomResourceDefinition catalogs.tea.example.org(skipped)",
            "ClusterRole teahouse-auditor(skipped)",
            "ClusterRoleBinding teahouse-auditors(failed)",
            "PersistentVolume pictures(skipped)",
        ],
    },
    Case {
        name: "b-tiers",
        backup: "tiers",
        args: &[],
        wanted: |o| ["gold", "silver"].contains(&label(o, "tier")),
        related: &["PersistentVolumeClaim. storefront pictures"],
        cluster: &[
            "CustomResourceDefinition catalogs.tea.example.org(skipped)",
            "ClusterRole teahouse-auditor(skipped)",
            "ClusterRoleBinding teahouse-auditors(failed)",
            "PersistentVolume pictures(skipped)",
        ],
    },
    Case {
        name: "b-kinds",
        backup: "kinds",
        args: &[],
        wanted: |o| ["ConfigMap", "Secret", "Catalog"].contains(&kind(o)) && namespace(o) != "platform" && !is_token(o),
        related: &[],
        cluster: &[],
    },
    Case {
        name: "b-others",
        backup: "others",
        args: &[],
        wanted: |o| !["ConfigMap", "Secret", "Pod", "ReplicaSet"].contains(&kind(o)) && namespace(o) != "platform",
        related: &[],
        cluster: &[
            "CustomResourceDefinition catalogs.tea.example.org(skipped)",
            "ClusterRole teahouse-auditor(skipped)",
            "ClusterRoleBinding teahouse-auditors(failed)",
            "PersistentVolume pictures(skipped)",
            "PersistentVolume shelf-left(skipped)",
            "PersistentVolume shelf-right(skipped)",
        ],
    },
    Case {
        name: "r-selector",
        backup: "all",
        args: &["--selector", "app in (web,ledger),tier!=gold"],
        wanted: |o| ["web", "ledger"].contains(&label(o, "app")) && label(o, "tier") != "gold",
        related: &[],
        cluster: &[
            "PersistentVolume pictures(skipped)",
            "PersistentVolume shelf-left(skipped)",
            "PersistentVolume shelf-right(skipped)",
        ],
    },
    Case {
        name: "r-selectors",
        backup: "all",
        args: &["--or-selector", "app=till or team=platform"],
        wanted: |o| label(o, "app") == "till" || label(o, "team") == "platform",
        related: &[],
        cluster: &["PriorityClass teahouse-till(skipped)"],
    },
    Case {
        name: "r-kinds",
        backup: "all",
        args: &[
            "--include-resources",
            "deploy,catalogs.tea.example.org,role",
            "--include-namespaces",
            "store*,platform",
        ],
        wanted: |o| ["Deployment", "Catalog", "Role"].contains(&kind(o)) && namespace(o) != "warehouse",
        related: &[],
        cluster: &[],
    },
    Case {
        name: "r-others",
        backup: "all",
        args: &[
            "--exclude-resources",
            "deployments.apps,sts,replicasets,pods,persistentvolumeclaims",
            "--exclude-namespaces",
            "kube-system,platform,preview-*",
            "--include-cluster-resources=false",
        ],
        wanted: |o| {
            !["Deployment", "StatefulSet", "PersistentVolumeClaim", "Pod"].contains(&kind(o))
                && namespace(o) != "platform"
        },
        related: &[],
        cluster: &[],
    },
];

const SOURCES: [&str; 3] = ["storefront", "warehouse", "platform"];

#[test]
fn only_what_is_asked_for_comes() {
    let bed = Bed::start();
    shop::open(&bed);
    let before = snapshot::take(&bed);
    for (name, args) in BACKUPS {
        let run = bed.local(&[&["backup", name][..], args].concat());
        assert_eq!(run.code, 0, "{name}: {run:?}");
    }
    for case in &CASES {
        let mapping = SOURCES.map(|source| format!("{source}:{}-{source}", case.name)).join(",");
        let args = ["restore", case.name, "--from-backup", case.backup, "--namespace-mappings", &mapping];
        let run = bed.local(&[&args[..], case.args].concat());
        // A claim of a volume that the living original has is an error, and is not made.
        let code = if case.has_volume("") { 3 } else { 0 };
        assert_eq!(run.code, code, "{}: {run:?}", case.name);
    }
    let port = ["get", "service/till", "--namespace=copy-storefront", "--output=jsonpath={.spec.ports[0].nodePort}"];
    assert_ne!(bed.kubectl(&port), "31081", "the original has it");
    let after = snapshot::take(&bed);
    for case in &CASES {
        assert_eq!(differences(case, &before, &after), [""; 0], "{}", case.name);
        assert_eq!(outside_of_namespaces(&bed, case.name), case.cluster, "{}", case.name);
    }
}

impl Case {
    /// Returns true if a volume comes along whose name begins with this.
    fn has_volume(&self, name: &str) -> bool {
        self.cluster.iter().any(|one| one.starts_with(&format!("PersistentVolume {name}")))
    }

    /// Returns true if an object is a claim of a volume that the living original has, or would make such a claim anew.
    fn is_held_back(&self, object: &Value) -> bool {
        match kind(object) {
            "PersistentVolumeClaim" => object["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty()),
            "StatefulSet" => object["spec"]["volumeClaimTemplates"].is_array() && self.has_volume("shelf-"),
            _ => false,
        }
    }
}

/// The differences after a restore: objects that are lost, changed or not asked for.
fn differences(case: &Case, before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let targets = SOURCES.map(|source| format!("{}-{source}", case.name));
    let mapping: Vec<(&str, &str)> = SOURCES.into_iter().zip(targets.iter().map(String::as_str)).collect();
    let mut wanted = before.clone();
    wanted.retain(|name, object| {
        let is_wanted = SOURCES.contains(&namespace(object)) && (case.wanted)(object);
        (is_wanted || case.related.contains(&name.as_str()))
            && !is_of_every_namespace(object)
            && !case.is_held_back(object)
    });
    let mut found = of_targets(after.clone(), &mapping);
    found.retain(|_, object| !is_of_every_namespace(object));
    snapshot::compare(&without_node_ports(moved(&wanted, &mapping)), &without_node_ports(found))
}

/// The cluster-scoped objects in the resource list of a restore, but for namespaces.
fn outside_of_namespaces(bed: &Bed, restore: &str) -> Vec<String> {
    let list = bed.resource_list(restore);
    let mut out = Vec::new();
    for (kind, names) in list.iter().filter(|(kind, _)| *kind != "v1/Namespace") {
        let kind = kind.rsplit('/').next().expect("a kind");
        out.extend(names.iter().filter(|name| !name.contains('/')).map(|name| format!("{kind} {name}")));
    }
    out
}

fn is_of_every_namespace(object: &Value) -> bool {
    kind(object) == "ServiceAccount" && object["metadata"]["name"] == "default"
}

/// Without its service account it is removed again.
fn is_token(object: &Value) -> bool {
    object["type"] == "kubernetes.io/service-account-token"
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}
