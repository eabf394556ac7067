//! Faults of the pods of movers, and of the password of their repository.

use crate::node::movers::install_at;
use crate::node::place::{Place, REPOSITORY_SECRET};
use crate::node::transfer_faults::{FILE_BACKUPS, FILES, FaultyGround, LONGEST, slow};
use crate::node::transfer_kills::{last_words, left};
use crate::support::{comes_to_be_within, ended, eventually, with_object};
use serde_json::{Value, json};

/// The type of the transfers of snapshots.
const UPLOADS: &str = "datauploads.velero.io";
/// The flag that selects the claim whose snapshot is moved.
const MOVED: &str = "--selector=kind=moved";

/// Finds the pod of a mover in this phase, and gives its name.
fn find_mover(place: &Place, phase: &str) -> Option<String> {
    let pods = place.ground.bed.plane.client().list("pods", Some(&place.own)).unwrap_or_else(|e| panic!("{e:#}"));
    let is_mover = |pod: &&Value| {
        let kind = pod["metadata"]["ownerReferences"][0]["kind"].as_str().unwrap_or_default();
        ["PodVolumeBackup", "DataUpload"].contains(&kind) && pod["status"]["phase"] == phase
    };
    let pod = pods.iter().find(is_mover)?;
    Some(pod["metadata"]["name"].as_str().expect("a name").to_owned())
}

/// Patches the Secret with the password of repositories.
fn patch_secret(place: &Place, patch: &Value) {
    let client = place.ground.bed.plane.client();
    client.merge("secrets", REPOSITORY_SECRET, &place.own, patch).unwrap_or_else(|e| panic!("{e:#}"));
}

/// A pod that is evicted is replaced. An image that is not there, a node without room and another password are told,
/// and what comes after goes well.
#[test]
#[ignore = "needs a node: make test-long"]
fn transfers_tell_of_image_room_and_password_and_outlive_an_eviction() {
    let ground = FaultyGround::start("told");
    let place = &ground.place;
    ground.fill();
    ground.proxy.script(slow());
    let evicted = ground.begin_backup("evicted", &[FILES]);
    let mut mover = None;
    eventually("a mover that runs", || {
        mover = find_mover(place, "Running");
        mover.is_some()
    });
    let mover = mover.expect("a mover");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": mover, "namespace": place.own}});
    let path = format!("/api/v1/namespaces/{}/pods/{mover}/eviction", place.own);
    with_object(&place.ground.kubectl(), &["create", "--raw", &path], &eviction).unwrap_or_else(|e| panic!("{e:#}"));
    ground.ends(evicted, "Completed");
    let saved = ground.transfers(FILE_BACKUPS, "Completed");
    let killed = |one: &Value| one["metadata"]["annotations"]["lifeboat.io/killed-movers"].is_string();
    assert!(saved.len() == 1 && saved.iter().all(killed), "{saved:?}");
    ground.proxy.script(Vec::new());

    tells_of_a_missing_image(&ground);
    tells_of_another_password(&ground);
    tells_of_a_full_node(&ground);
    ground.end();
}

/// Pods of movers inherit the image of the DaemonSet, whose own pod stays as it is meanwhile.
fn tells_of_a_missing_image(ground: &FaultyGround) {
    let bed = &ground.place.ground.bed;
    let exchange = |image: &str, strategy: &str| {
        let path = "/spec/template/spec/containers/0/image";
        let patch = json!([{"op": "replace", "path": "/spec/updateStrategy", "value": {"type": strategy}},
            {"op": "replace", "path": path, "value": image}])
        .to_string();
        bed.kubectl(&["patch", "daemonset", "node-agent", "-n", &ground.place.own, "--type=json", "-p", &patch]);
    };
    let set = ground.place.ground.get_in(&ground.place.own, "daemonset", "node-agent");
    let ours = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image").to_owned();
    exchange("testbed.local/missing:1", "OnDelete");
    let backup = ground.begin_backup("imageless", &[FILES]);
    ground.ends(backup, "PartiallyFailed");
    let described = ground.place.described("imageless").to_string();
    assert!(described.contains("ImagePull") || described.contains("ErrImageNeverPull"), "{described}");
    exchange(&ours, "RollingUpdate");
    ground.ends(ground.begin_backup("with-image", &[FILES]), "Completed");
}

/// A password that was changed in the Secret alone opens nothing, and the right one does so again.
fn tells_of_another_password(ground: &FaultyGround) {
    let right = ground.place.ground.get_in(&ground.place.own, "secret", REPOSITORY_SECRET)["data"].clone();
    patch_secret(&ground.place, &json!({"stringData": {"repository-password": "another"}}));
    let backup = ground.begin_backup("locked", &[FILES]);
    ground.ends(backup, "PartiallyFailed");
    let described = ground.place.described("locked").to_string();
    assert!(described.contains(REPOSITORY_SECRET) && described.contains("password"), "{described}");
    patch_secret(&ground.place, &json!({"data": right}));
    let repository = format!("{}-default-kopia", ground.place.shop);
    ground.place.ground.until_in(&ground.place.own, "backuprepository", &repository, "Ready");
    ground.ends(ground.begin_backup("opened", &[FILES]), "Completed");
}

/// A mover that no node has room for says so in the words of the scheduler, until its user cancels the backup.
fn tells_of_a_full_node(ground: &FaultyGround) {
    let place = &ground.place;
    let settings = json!({"podResources": {"cpuRequest": "1000", "cpuLimit": "1000"}});
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "node-agent-config", "namespace": place.own}, "data": {"config": settings.to_string()}}));
    let flags = ["--use-node-agent", "--node-agent-configmap=node-agent-config", "--apply"];
    install_at(place, ground.proxy.url(), &flags);
    place.claim("data", &json!({"kind": "moved"}));
    place.pod("db", "data", &json!({}));
    let mut backup = ground.begin_backup("roomless", &[MOVED, "--snapshot-move-data"]);
    let mut seen = Vec::new();
    let told = comes_to_be_within(LONGEST, || {
        seen = ground.transfers(UPLOADS, "");
        let said =
            |one: &Value| one["status"]["message"].as_str().is_some_and(|said| said.contains("Insufficient cpu"));
        seen.iter().any(said)
    });
    assert!(told, "{seen:?} {}", last_words(place));
    let canceled = place.lifeboat(&["backup", "cancel", "roomless"]);
    assert_eq!(canceled.code, 0, "{canceled:?}");
    ended(&mut backup.child);
    let facts = place.ground.get_in(&place.own, "backup", "roomless");
    let phase = facts["status"]["phase"].as_str().unwrap_or_default();
    assert!(["Failed", "PartiallyFailed"].contains(&phase), "{facts}");
    assert!(comes_to_be_within(LONGEST, || left(place).is_empty()), "{:?} {}", left(place), last_words(place));
    let uploads = ground.transfers(UPLOADS, "Canceled");
    assert_eq!(uploads.len(), 1, "{:?}", ground.transfers(UPLOADS, ""));
}
