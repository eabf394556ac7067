//! Servers beside one another and beside Velero: one of them leads.

use crate::ground::Ground;
use crate::support::eventually;
use serde_json::json;

/// A server that has stood by looks again when it comes to lead: a Velero server may have been started meanwhile, here
/// as Velero's Helm chart starts it.
#[test]
fn who_comes_to_lead_looks_for_velero_again() {
    let ground = Ground::start();
    ground.many("shop", 3);
    ground.directory("default", &json!({"default": true}));
    let first = ground.server("one");
    ground.until("backupstoragelocation", "default", "Available");
    let _second = ground.server("two");
    eventually("the second server", || ground.log("two").contains("waiting for the leadership"));
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "velero-1", "namespace": "velero", "labels": {
            "name": "velero", "app.kubernetes.io/name": "velero", "app.kubernetes.io/instance": "velero"}},
        "spec": {"containers": [{"name": "velero", "image": "velero/velero:v1.18.2", "command": ["/velero"],
            "args": ["server", "--uploader-type=kopia"]}]}}));
    assert_eq!(first.stop(), Some(0));
    eventually("a word about the other server", || ground.log("two").contains("waiting until it has ended"));
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    // It keeps the leadership, and does nothing with it.
    let lease = || ground.get("lease", "lifeboat-server")["spec"].clone();
    let before = lease();
    let is_held = before["holderIdentity"].as_str().is_some_and(|holder| holder.starts_with("two_"));
    assert!(is_held, "{before}");
    eventually("a renewal", || lease()["renewTime"] != before["renewTime"]);
    assert!(ground.get("backup", "b")["status"]["phase"].is_null());
    assert!(!ground.log("two").contains("msg=\"leading\""), "{}", ground.log("two"));
    ground.bed.kubectl(&["delete", "pod", "velero-1", "--namespace=velero", "--force", "--grace-period=0"]);
    ground.until("backup", "b", "Completed");
}

#[test]
fn two_processes_of_one_name_never_lead_together() {
    let ground = Ground::start();
    let first = ground.server("one");
    let holder = || ground.get("lease", "lifeboat-server")["spec"]["holderIdentity"].as_str().map(str::to_owned);
    let has_the_name = |holder: &Option<String>| holder.as_ref().is_some_and(|holder| holder.starts_with("one_"));
    eventually("the first", || ground.log("one").contains("msg=\"leading\""));
    let before = holder();
    assert!(has_the_name(&before), "{before:?}");
    let second = ground.server_with("again", &ground.bed.plane.kubeconfig(), &["--identity", "one"]);
    eventually("the second", || ground.log("again").contains("waiting for the leadership"));
    let renewed = || ground.get("lease", "lifeboat-server")["spec"]["renewTime"].clone();
    for _ in 0..3 {
        let last = renewed();
        eventually("a renewal", || renewed() != last);
    }
    assert_eq!(holder(), before);
    assert_eq!(first.stop(), Some(0));
    eventually("the second to lead", || ground.log("again").contains("msg=\"leading\""));
    let after = holder();
    assert!(has_the_name(&after) && after != before, "{after:?}");
    assert_eq!(second.stop(), Some(0));
}
