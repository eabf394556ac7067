//! A tea shop: objects such as people run, how they come to be and how they are lost.

use crate::snapshot::{self, Snapshot};
use crate::support::{Bed, eventually, ok, with_object};
use lifeboat_testbed::Kubectl;
use serde_json::{Value, json};

/// The last one has the longest name that there is.
pub(crate) const NAMESPACES: [&str; 4] = ["storefront", "warehouse", "platform", PREVIEW];
const PREVIEW: &str = "preview-of-the-summer-menu-with-iced-tea-and-lemonade-for-the-t";

/// The types that it brings, in the order in which they can go.
const DEFINITIONS: [&str; 2] = ["catalogs.tea.example.org", "regions.tea.example.org"];

/// The label of everything cluster-scoped that belongs to it.
const PART: &str = "app.kubernetes.io/part-of";

/// Claims that find a volume.
const BOUND: usize = 3;

/// Opens the shop on a control plane and waits until its controllers have done what they can without nodes.
pub(crate) fn open(bed: &Bed) {
    let kubectl = bed.plane.kubectl();
    bed.apply("shop");
    stock(&kubectl);
    managers(&kubectl);
    jobs(&kubectl);
    bound(&kubectl);
}

/// Opens the shop and backs everything up as `all`; the objects as they were before.
pub(crate) fn backed_up(bed: &Bed) -> Snapshot {
    open(bed);
    let before = snapshot::take(bed);
    let run = bed.local(&["backup", "all"]);
    assert_eq!(run.code, 0, "{run:?}");
    before
}

/// Makes the objects that no file has: generated names, owners, large objects, status.
pub(crate) fn stock(kubectl: &Kubectl) {
    for object in [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "menu-", "namespace": "storefront", "labels": {"tier": "gold"}}, "data": {"of": "today"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "menu-", "namespace": "storefront"}, "data": {"of": "tomorrow"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "control", "namespace": "storefront", "annotations": {"bell": "\u{7}"}},
            "data": {"text": "nul \0, bell \u{7}, delete \u{7f}, next line \u{85}, byte order mark \u{feff}, last \u{10ffff}"}}),
        json!({"apiVersion": "tea.example.org/v1", "kind": "Catalog", "metadata": {"generateName": "draft-", "namespace": "storefront"}, "spec": {"season": "summer"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"generateName": "teahouse:visitor-", "labels": {(PART): "teahouse"}}, "rules": []}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "atlas", "namespace": "warehouse"}, "data": {"map.svg": noise(900_000)}}),
        // Base64 of 900 kB.
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "portraits", "namespace": "warehouse"}, "binaryData": {"all.bin": noise(1_200_000)}}),
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "old-books", "namespace": "warehouse"}, "data": {"all.bin": noise(800_000)}}),
    ] {
        kubectl.create(&object).unwrap_or_else(|e| panic!("{e:#}"));
    }
    owners(kubectl);
    for (object, status) in [
        (
            "catalog/spring",
            r#"{"status":{"phase":"Brewing","copies":1,"conditions":[{"type":"Ready","status":"False"}]}}"#,
        ),
        ("region/alps", r#"{"status":{"surveyed":"2026-05-01","by":["de"]}}"#),
    ] {
        ok(
            kubectl,
            &["patch", object, "--namespace=storefront", "--subresource=status", "--type=merge", "--patch", status],
        );
    }
}

/// The operator's objects belong to a catalogue, and a catalogue to a cluster-scoped region.
fn owners(kubectl: &Kubectl) {
    let uid =
        |object: &str| ok(kubectl, &["get", object, "--namespace=storefront", "--output=jsonpath={.metadata.uid}"]);
    let owner = |version: &str, kind: &str, name: &str, uid: &str| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": format!("tea.example.org/{version}"), "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]}})
    };
    let spring = owner("v1", "Catalog", "spring", &uid("catalog/spring"));
    let alps = owner("v1alpha1", "Region", "alps", &uid("region/alps"));
    for (object, namespace, owner) in [
        ("configmap/catalog-spring", "storefront", &spring),
        ("catalog/house-blends", "storefront", &spring),
        ("catalog/spring", "warehouse", &alps),
    ] {
        let namespace = format!("--namespace={namespace}");
        ok(kubectl, &["patch", object, &namespace, "--type=merge", "--patch", &owner.to_string()]);
    }
}

/// Objects whose fields several managers own, and one of the old client-side apply.
fn managers(kubectl: &Kubectl) {
    for (manager, flag) in [("flux", "banner"), ("shop-operator", "discount")] {
        apply_as(kubectl, manager, &flags(flag, "on")).unwrap_or_else(|e| panic!("{e:#}"));
    }
    let kiosk = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kiosk", "namespace": "storefront", "labels": {"team": "counter"}}, "spec": spec});
    let labels = json!({"app": "kiosk"});
    let main = kiosk(json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "kiosk", "image": "registry.example.org/kiosk:5"}]}}}));
    let scaled = kiosk(json!({"replicas": 1}));
    let till = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "till-old", "namespace": "storefront"},
        "spec": {"type": "NodePort", "selector": {"app": "till"}, "ports": [{"name": "fixed", "port": 83, "nodePort": 31083}, {"name": "given", "port": 84}]}});
    for (manager, part) in [("flux", main), ("autoscaler", scaled)] {
        apply_as(kubectl, manager, &part).unwrap_or_else(|e| panic!("{e:#}"));
    }
    with_object(kubectl, &["apply"], &till).unwrap_or_else(|e| panic!("{e:#}"));
}

/// Server-side apply as somebody.
pub(crate) fn apply_as(kubectl: &Kubectl, manager: &str, object: &Value) -> anyhow::Result<String> {
    with_object(kubectl, &["apply", "--server-side", &format!("--field-manager={manager}")], object)
}

/// The part of a ConfigMap that one manager owns.
pub(crate) fn flags(key: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "feature-flags", "namespace": "storefront"}, "data": {key: value}})
}

/// Ends two jobs as a node would, one well and one not, and starts one by hand.
fn jobs(kubectl: &Kubectl) {
    ok(kubectl, &["create", "job", "count-now", "--from=cronjob/count-the-tins", "--namespace=warehouse"]);
    for (job, phase, done) in [("restock", "Succeeded", "Complete"), ("taste-test", "Failed", "Failed")] {
        let selector = format!("--selector=job-name={job}");
        let pods = || ok(kubectl, &["get", "pods", "--namespace=warehouse", &selector, "--output=name"]);
        eventually("the pod of a job", || !pods().is_empty());
        let status = json!({"status": {"phase": phase}}).to_string();
        let patch = ["--namespace=warehouse", "--subresource=status", "--type=merge", "--patch", &status];
        ok(kubectl, &[&["patch", pods().trim()][..], &patch].concat());
        let condition = format!("--for=condition={done}");
        ok(kubectl, &["wait", &condition, "--timeout=60s", "--namespace=warehouse", &format!("job/{job}")]);
    }
    // Three of the web, two tills and kiosks; two of the ledger, two presses, and one of each of the others.
    for (namespace, count) in [("storefront", 5), ("warehouse", 9), ("platform", 1)] {
        let namespace = format!("--namespace={namespace}");
        eventually("all pods", || ok(kubectl, &["get", "pods", &namespace, "--output=name"]).lines().count() == count);
    }
}

/// Waits until the claims that can be bound are.
pub(crate) fn bound(kubectl: &Kubectl) {
    eventually("the bound claims", || {
        let phases =
            ["get", "persistentvolumeclaims", "--all-namespaces", "--output=jsonpath={.items[*].status.phase}"];
        ok(kubectl, &phases).split(' ').filter(|phase| *phase == "Bound").count() == BOUND
    });
}

/// Removes the shop with everything cluster-wide that it brought.
pub(crate) fn lose(kubectl: &Kubectl) {
    // As long as it is registered and down, no namespace can end.
    ok(kubectl, &["delete", "apiservice/v1alpha1.steam.example.org"]);
    let release = r#"{"metadata":{"finalizers":null}}"#;
    for object in ["catalog/spring", "configmap/held", "region/alps", "namespace/platform"] {
        ok(kubectl, &["patch", object, "--namespace=storefront", "--type=merge", "--patch", release]);
    }
    // Namespaces wait for half the grace period of pods and for finalizers of claims: these go before.
    let workloads = "deployments,statefulsets,replicationcontrollers,cronjobs,jobs,pods,persistentvolumeclaims";
    for namespace in &NAMESPACES[..3] {
        ok(kubectl, &["delete", workloads, "--all", &format!("--namespace={namespace}"), "--timeout=60s"]);
    }
    ok(kubectl, &[&["delete", "namespace", "--wait=false"][..], &NAMESPACES].concat());
    let types = "persistentvolumes,storageclasses,volumeattributesclasses,csidrivers,priorityclasses,ingressclasses,runtimeclasses,\
                 deviceclasses,flowschemas,prioritylevelconfigurations,clusterroles,clusterrolebindings,\
                 validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations,\
                 mutatingwebhookconfigurations";
    let selector = format!("--selector={PART}=teahouse");
    ok(kubectl, &["delete", types, &selector, "--timeout=60s"]);
    for namespace in ["default", "kube-system"] {
        ok(kubectl, &["delete", "configmaps,secrets", &selector, &format!("--namespace={namespace}")]);
    }
    ok(kubectl, &[&["delete", "customresourcedefinition", "--timeout=60s"][..], &DEFINITIONS].concat());
    for namespace in NAMESPACES {
        ok(kubectl, &["wait", "--for=delete", "--timeout=60s", &format!("namespace/{namespace}")]);
    }
}

/// Characters that do not compress well, the same each time.
fn noise(length: usize) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[(state >> 58) as usize])
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}
