//! Servers that die at a step of a snapshot: whatever the next one does, no snapshot is doubled or left in the storage,
//! and no application stays frozen.

use super::driver::{Stored, recorded, stored};
use super::groups::{class, group_objects, pod, take_class, without_class};
use super::place::Place;
use crate::ground::{BUCKET, Server};
use crate::support::{comes_to_be, comes_to_be_within, eventually};
use lifeboat_testbed::{DRIVER, Fault, Kill, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request at which a server dies.
struct Death {
    method: &'static str,
    path: &'static str,
    nth: u64,
    when: Kill,
    /// True when the backup has its record by then, so that it is not begun again.
    is_recorded: bool,
}

const fn during(method: &'static str, path: &'static str, nth: u64, when: Kill) -> Death {
    Death { method, path, nth, when, is_recorded: false }
}

const fn afterwards(method: &'static str, path: &'static str, nth: u64, when: Kill) -> Death {
    Death { method, path, nth, when, is_recorded: true }
}

/// The look at how far the snapshots are.
const LOOK: &str = "*/volumesnapshotcontents?*backup-name*";

/// The steps of two snapshots by themselves.
const SINGLE: [Death; 10] = [
    during("POST", "*/volumesnapshots*", 1, Kill::Before),
    during("POST", "*/volumesnapshots*", 2, Kill::After),
    // Its handle is read, and then noted.
    during("GET", "*/volumesnapshotcontents/*", 1, Kill::Before),
    during("PATCH", "*/volumesnapshots/*", 1, Kill::Before),
    during("PATCH", "*/volumesnapshots/*", 2, Kill::After),
    afterwards("GET", LOOK, 1, Kill::After),
    // Contents are labelled and told to keep what they stand for when they are saved, and told once more at the end.
    afterwards("PATCH", "*/volumesnapshotcontents/*", 3, Kill::After),
    afterwards("DELETE", "*/volumesnapshotcontents/*", 1, Kill::After),
    afterwards("DELETE", "*/volumesnapshots/*", 1, Kill::Before),
    afterwards("DELETE", "*/volumesnapshots/*", 2, Kill::After),
];

/// The steps of a group of two.
const GROUPED: [Death; 12] = [
    during("POST", "*/volumegroupsnapshots*", 1, Kill::Before),
    during("POST", "*/volumegroupsnapshots*", 1, Kill::After),
    // Its members are looked for, and then labelled.
    during("GET", "*/volumegroupsnapshots/*", 1, Kill::Before),
    during("PATCH", "*/volumesnapshots/*", 1, Kill::After),
    during("PATCH", "*/volumesnapshots/*", 3, Kill::Before),
    // The content of the group is told to keep it when the first member is saved, and once more at the end.
    during("PATCH", "*/volumegroupsnapshotcontents/*", 1, Kill::After),
    afterwards("GET", LOOK, 1, Kill::After),
    afterwards("PATCH", "*/volumegroupsnapshotcontents/*", 2, Kill::After),
    afterwards("DELETE", "*/volumesnapshotcontents/*", 1, Kill::After),
    afterwards("DELETE", "*/volumesnapshots/*", 2, Kill::Before),
    afterwards("DELETE", "*/volumegroupsnapshotcontents/*", 1, Kill::After),
    afterwards("DELETE", "*/volumegroupsnapshots/*", 1, Kill::Before),
];

const LABEL: &str = "velero.io/volume-group";

/// Time limit for a backup to come to its step: the sidecars of drivers retry conflicts after pauses that double.
const PATIENCE: Duration = Duration::from_secs(240);

/// An application with two claims and a pod that is frozen while they are snapshotted, and servers that reach the
/// cluster by a proxy which kills them.
struct Stage {
    place: Place,
    proxy: Proxy,
    kubeconfig: PathBuf,
}

impl Stage {
    /// The claims are of these classes; `labels` makes them a group.
    fn start(name: &str, labels: &Value) -> Self {
        let place = Place::start(name);
        for claim in ["a", "b"] {
            place.claim(claim, labels);
        }
        let command = |text: &str| json!(["/bin/sh", "-c", text]).to_string();
        let annotations = json!({
            "pre.hook.backup.velero.io/command": command("echo frozen >> /a/log; touch /a/frozen; sync"),
            "pre.hook.backup.velero.io/on-error": "Fail",
            "post.hook.backup.velero.io/command": command("echo thawed >> /a/log; rm -f /a/frozen; sync")});
        pod(&place, "db", &["a", "b"], &annotations);
        let plane = place.ground.bed.plane.kubeconfig();
        let (proxy, kubeconfig) = Proxy::before_api_server(&plane, &format!("node-{name}")).expect("a proxy");
        Self { place, proxy, kubeconfig }
    }

    fn server(&self, kubeconfig: &Path) -> Server {
        let flags = ["--namespace", &self.place.own, "--features=EnableCSI", "--item-operation-sync-frequency=1s"];
        self.place.ground.server_with("one", kubeconfig, &[&flags[..], &["--lease-duration=3s"]].concat())
    }

    /// Begins a backup and waits until the server has died of it.
    fn dies(&self, mut server: Server, death: &Death, backup: &str) {
        let rule = Rule::new(death.method, death.path, Nth::Only(death.nth), Fault::Kill(death.when));
        self.proxy.script(vec![rule]);
        self.proxy.victim(server.0.id());
        self.place.backup(backup, &json!({}));
        if !comes_to_be_within(PATIENCE, || server.0.try_wait().expect("its state").is_some()) {
            let kinds = "backups.velero.io,volumesnapshots,volumesnapshotcontents,volumegroupsnapshots,volumegroupsnapshotcontents";
            let there = self.place.ground.bed.kubectl(&["get", kinds, "--all-namespaces", "--output=yaml"]);
            let (step, log) = (format!("{} {}", death.method, death.path), self.place.ground.log("one"));
            panic!("the server of {backup} has not died at {step} within {PATIENCE:?}: {there}\n{log}");
        }
        self.proxy.no_victim();
        self.proxy.script(Vec::new());
    }

    fn no_objects_are_left(&self, when: &str) {
        let objects = || (self.place.snapshot_objects(), group_objects(&self.place));
        if !comes_to_be(|| objects() == ((0, 0), (0, 0))) {
            let kinds = "volumesnapshots,volumesnapshotcontents,volumegroupsnapshots,volumegroupsnapshotcontents";
            let left = self.place.ground.bed.kubectl(&["get", kinds, "--all-namespaces", "--output=yaml"]);
            panic!("{when}: objects of snapshots are left: {left}\n{}", self.place.ground.log("one"));
        }
    }

    fn is_thawed(&self, when: &str) {
        let files = self.place.ask(&self.place.shop, "db", "ls /a");
        assert!(!files.contains("frozen"), "{when}: {files}");
    }
}

/// A snapshot class with these parameters, which the claims take.
fn single_class(place: &Place, name: &str, parameters: &Value) {
    place.ground.create(&json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": name}, "driver": DRIVER, "deletionPolicy": "Delete", "parameters": parameters}));
    let annotation = format!("velero.io/csi-volumesnapshot-class={name}");
    place.ground.bed.kubectl(&["annotate", "--overwrite", "pvc", "-n", &place.shop, "a", "b", &annotation]);
}

/// The claims of snapshots, with whether these were taken as one group.
fn claims(of: &BTreeMap<String, Stored>) -> Vec<(&str, bool)> {
    let mut claims: Vec<(&str, bool)> = of.values().map(|one| (one.claim.as_str(), !one.group.is_empty())).collect();
    claims.sort_unstable();
    claims
}

/// Dies at each step in turn, and gives what each backup has in the storage to the next server.
fn each_backup_has_its_snapshots_once(stage: &Stage, deaths: &[Death], is_group: bool) {
    let place = &stage.place;
    let mut server = stage.server(&stage.kubeconfig);
    place.ground.until_in(&place.own, "backupstoragelocation", place.own.trim_start_matches("velero-"), "Available");
    let mut before = BTreeMap::new();
    for (number, death) in deaths.iter().enumerate() {
        let (name, when) = (format!("b{number}"), format!("{} {} {:?}", death.method, death.path, death.when));
        stage.dies(server, death, &name);
        server = stage.server(&stage.kubeconfig);
        let backup = place.ground.until_in(&place.own, "backup", &name, "Completed");
        let status = &backup["status"];
        let attempts = if death.is_recorded { 1 } else { 2 };
        let counts = ["attempt", "csiVolumeSnapshotsAttempted", "csiVolumeSnapshotsCompleted", "errors", "warnings"];
        let counts = counts.map(|key| status[key].as_u64().unwrap_or_default());
        assert_eq!(counts, [attempts, 2, 2, 0, 0], "{when}: {status}");
        stage.no_objects_are_left(&when);
        stage.is_thawed(&when);
        let recorded = recorded(place, &name);
        assert_eq!(claims(&recorded), [("a", is_group), ("b", is_group)], "{when}");
        before.extend(recorded);
        assert_eq!(stored(&place.shop), before, "{when}: what all backups have is what the driver has");
    }
    for number in 0..deaths.len() {
        let deleted = place.lifeboat(&["backup", "delete", &format!("b{number}"), "--confirm"]);
        assert_eq!(deleted.code, 0, "{deleted:?}");
    }
    eventually("the deletion of all snapshots", || stored(&place.shop).is_empty());
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_server_that_dies_at_any_step_of_a_snapshot_doubles_and_leaves_none() {
    let stage = Stage::start("kill-single", &json!({}));
    single_class(&stage.place, "kill-single", &json!({"readyAfter": "2s"}));
    each_backup_has_its_snapshots_once(&stage, &SINGLE, false);
    stage.place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "kill-single"]);
    stage.place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_server_that_dies_at_any_step_of_a_group_doubles_none_and_leaves_none() {
    let stage = Stage::start("kill-group", &json!({LABEL: "pair"}));
    class(&stage.place, "kill-group", &json!({"readyAfter": "2s"}));
    take_class(&stage.place, &["a", "b"], "kill-group");
    each_backup_has_its_snapshots_once(&stage, &GROUPED, true);
    without_class(&stage.place, "kill-group");
    stage.place.end();
}

/// The user's reaction to a backup whose server has died.
#[derive(Clone, Copy, Debug)]
enum Then {
    Cancels,
    /// With kubectl, so that no server is asked.
    Deletes,
}

/// After each of these deaths the user does without the backup: nothing of it stays in the storage.
fn nothing_is_left_of_a_backup_that_nobody_wants(stage: &Stage, deaths: &[Death]) {
    let place = &stage.place;
    let location = place.own.trim_start_matches("velero-");
    let mut server = stage.server(&stage.kubeconfig);
    place.ground.until_in(&place.own, "backupstoragelocation", location, "Available");
    for (number, death) in deaths.iter().enumerate() {
        for then in [Then::Cancels, Then::Deletes] {
            let name = format!("b{number}-{then:?}").to_lowercase();
            stage.dies(server, death, &name);
            let claim = place.ground.s3.file(BUCKET, &format!("{location}/backups/{name}/lifeboat-claim.json"));
            match then {
                Then::Cancels => {
                    let patch = json!({"spec": {"cancel": true}}).to_string();
                    place.ground.bed.kubectl(&[
                        "patch",
                        "backup",
                        &name,
                        "-n",
                        &place.own,
                        "--type=merge",
                        "-p",
                        &patch,
                    ]);
                    server = stage.server(&stage.kubeconfig);
                    place.ground.until_in(&place.own, "backup", &name, "Failed");
                    stage.is_thawed(&format!("{} {}", death.method, death.path));
                }
                Then::Deletes => {
                    place.ground.bed.kubectl(&["delete", "backup", &name, "-n", &place.own]);
                    let mut old: Value =
                        serde_json::from_slice(&std::fs::read(&claim).expect("a claim")).expect("JSON");
                    old["claimed"] = json!("2026-01-01T00:00:00Z");
                    old.as_object_mut().expect("a map").remove("refreshed");
                    std::fs::write(&claim, old.to_string()).expect("write");
                    server = stage.server(&stage.kubeconfig);
                    eventually("the end of the unfinished files", || !claim.exists());
                }
            }
            stage.no_objects_are_left(&format!("{} {} {then:?}", death.method, death.path));
            let left = || stored(&place.shop);
            eventually(&format!("an empty storage after {} {} {then:?}", death.method, death.path), || {
                left().is_empty()
            });
        }
    }
    // With kubectl while its server makes it.
    place.backup("deleted", &json!({}));
    eventually("objects of snapshots", || (place.snapshot_objects(), group_objects(place)) != ((0, 0), (0, 0)));
    place.ground.bed.kubectl(&["delete", "backup", "deleted", "-n", &place.own]);
    stage.no_objects_are_left("deleted while it is made");
    eventually("an empty storage after it was deleted while it was made", || stored(&place.shop).is_empty());
    stage.is_thawed("deleted while it is made");
    drop(server);
}

#[test]
#[ignore = "needs a node: make test-node"]
fn snapshots_of_a_backup_that_nobody_wants_any_more_leave_the_storage() {
    let stage = Stage::start("kill-unwanted", &json!({}));
    single_class(&stage.place, "kill-unwanted", &json!({"pause": "4s"}));
    nothing_is_left_of_a_backup_that_nobody_wants(
        &stage,
        &[during("POST", "*/volumesnapshots*", 2, Kill::After), during("PATCH", "*/volumesnapshots/*", 1, Kill::After)],
    );
    stage.place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "kill-unwanted"]);
    stage.place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_group_of_a_backup_that_nobody_wants_any_more_leaves_the_storage() {
    let stage = Stage::start("kill-unwanted-group", &json!({LABEL: "pair"}));
    class(&stage.place, "kill-unwanted-group", &json!({"pause": "4s"}));
    take_class(&stage.place, &["a", "b"], "kill-unwanted-group");
    nothing_is_left_of_a_backup_that_nobody_wants(
        &stage,
        &[
            during("POST", "*/volumegroupsnapshots*", 1, Kill::After),
            during("PATCH", "*/volumesnapshots/*", 1, Kill::After),
        ],
    );
    without_class(&stage.place, "kill-unwanted-group");
    stage.place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_snapshot_requested_by_a_dead_server_is_of_a_moment_with_a_frozen_pod() {
    let stage = Stage::start("kill-moment", &json!({}));
    let place = &stage.place;
    // The driver takes it when the next server has thawed the pod.
    single_class(place, "kill-moment", &json!({"pause": "3s"}));
    let server = stage.server(&stage.kubeconfig);
    place.ground.until_in(&place.own, "backupstoragelocation", "kill-moment", "Available");
    stage.dies(server, &during("POST", "*/volumesnapshots*", 2, Kill::After), "b");
    let _server = stage.server(&stage.kubeconfig);
    place.ground.until_in(&place.own, "backup", "b", "Completed");
    stage.is_thawed("after the backup");
    let copy = format!("{}-copy", place.shop);
    let mapping = json!({"backupName": "b", "namespaceMapping": {&place.shop: copy}});
    place.ground.velero_in(&place.own, "Restore", "r", &mapping);
    place.ground.until_in(&place.own, "restore", "r", "Completed");
    place.until_ready(&copy, "db");
    let log = place.ask(&copy, "db", "cat /a/log; ls /a/frozen");
    assert!(log.ends_with("frozen\n/a/frozen\n"), "{log}");
    place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
    place.ground.bed.kubectl(&["delete", "volumesnapshotclass", "kill-moment"]);
    place.end();
}
