//! Volumes that come to an installation which never saw them: their files, and the data of their snapshots, lie in the
//! bucket alone.

use crate::node::movers::install;
use crate::node::place::{Place, PodVolume, REPOSITORY_SECRET};
use crate::node::transfer_kills::{last_words, left};
use crate::support::{comes_to_be, eventually, gunzip_json};
use serde_json::{Value, json};

/// Volumes by the class and size of their claims: one class is skipped, one size is saved by its files, and so are
/// volumes of pods alone.
const POLICIES: &str = "version: v1
volumePolicies:
- {conditions: {storageClass: [csi-wait]}, action: {type: skip}}
- {conditions: {capacity: '30Mi,40Mi'}, action: {type: fs-backup}}
- {conditions: {volumeTypes: [emptyDir]}, action: {type: fs-backup}}
";

fn claim(place: &Place, name: &str, class: &str, size: &str, labels: &Value) {
    place.ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": place.shop, "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}}}}));
}

/// Everything in the volumes of the pod.
fn look(place: &Place) -> String {
    place.look(&place.shop, "web", &["moved", "files", "scratch"])
}

/// scenario: Migration, DataMover
/// scenario: Migration, FSBackup
/// scenario: ResourceFiltering, ResourcePolicies, FSBackup
#[test]
#[ignore = "needs a node: make test-long"]
fn volumes_come_to_an_installation_that_never_saw_them() {
    let mut place = Place::start("migrated");
    install(&place, &["--use-node-agent"]);
    let skipped = json!({"part": "skipped"});
    claim(&place, "moved", "csi", "16Mi", &json!({}));
    claim(&place, "files", "csi", "32Mi", &json!({}));
    claim(&place, "skipped", "csi-wait", "16Mi", &skipped);
    let volumes = [PodVolume::Claim("moved"), PodVolume::Claim("files"), PodVolume::EmptyDir("scratch")];
    place.sleeper("web", &volumes, &json!({}));
    place.sleeper("other", &[PodVolume::Claim("skipped")], &json!({"labels": skipped}));
    let fill = "for d in moved files scratch; do mkdir /$d/own && echo $d > /$d/own/file && chmod 640 /$d/own/file && \
                chown -R 1000:2000 /$d/own && chmod 2750 /$d/own && head -c 1000000 /dev/urandom > /$d/big; done; sync";
    place.ask(&place.shop, "web", fill);
    let before = look(&place);
    assert!(["moved", "files", "scratch"].iter().all(|name| before.contains(&format!("{name}/own/file"))), "{before}");

    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "policies", "namespace": place.own}, "data": {"policies.yaml": POLICIES}}));
    let namespaces = format!("--include-namespaces={}", place.shop);
    let flags = ["--snapshot-move-data", "--resource-policies-configmap=policies", "--wait"];
    let saved = place.lifeboat(&[&["backup", "create", "b", &namespaces], &flags[..]].concat());
    let facts = place.ground.get_in(&place.own, "backup", "b");
    assert_eq!(
        (saved.code, &facts["status"]["phase"]),
        (0, &json!("Completed")),
        "{saved:?} {facts} {}",
        last_words(&place)
    );
    let infos = gunzip_json(&place.ground.s3.file("server", "installed/backups/b/b-volumeinfo.json.gz"));
    let of = |info: &Value| (info["pvcName"].clone(), info["backupMethod"].clone(), info["snapshotDataMoved"] == true);
    let mut ways: Vec<_> =
        infos.as_array().expect("a list").iter().map(of).filter(|(name, ..)| name.is_string()).collect();
    ways.sort_by_key(|(name, ..)| name.to_string());
    let expected = [
        (json!("files"), json!("PodVolumeBackup"), false),
        (json!("moved"), json!("CSISnapshot"), true),
        (json!("skipped"), Value::Null, false),
    ];
    assert_eq!(ways, expected, "{infos}");

    // All that knew of it goes, but the bucket and the password, which its user has kept.
    assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
    let password = place.ground.get_in(&place.own, "secret", REPOSITORY_SECRET)["data"].clone();
    place.lose(&place.shop);
    let bed = &place.ground.bed;
    bed.kubectl(&["delete", "deployment/velero", "daemonset/node-agent", "-n", &place.own, "--timeout=120s"]);
    let old = std::mem::replace(&mut place.own, "velero-migrated-two".to_owned());
    let bed = &place.ground.bed;
    bed.kubectl(&["create", "namespace", &place.own]);
    place.ground.create(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": REPOSITORY_SECRET, "namespace": place.own}, "data": password}));
    install(&place, &["--use-node-agent"]);
    eventually("the backup out of the bucket", || {
        place.ground.get_in(&place.own, "backup", "b")["status"]["phase"] == "Completed"
    });
    let back = place.lifeboat(&["restore", "create", "r", "--from-backup=b", "--selector=part!=skipped", "--wait"]);
    let facts = place.ground.get_in(&place.own, "restore", "r");
    assert_eq!(
        (back.code, &facts["status"]["phase"]),
        (0, &json!("Completed")),
        "{back:?} {facts} {}",
        last_words(&place)
    );
    place.until_ready(&place.shop, "web");
    assert_eq!(look(&place), before);
    assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
    bed.kubectl(&["delete", "namespace", &old, "--wait=false"]);
    place.end();
}
