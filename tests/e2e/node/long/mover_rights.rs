//! Settings of the node agent, as they are seen in the pods of movers, and the owners and modes that come back through
//! these pods.

use crate::node::movers::install;
use crate::node::place::{Place, PodVolume};
use crate::node::transfer_kills::{last_words, left};
use crate::support::{comes_to_be, comes_to_be_within, gunzip_json};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

/// More than a backup or restore takes on a loaded machine.
const LONGEST: Duration = Duration::from_secs(300);
/// The one node, by its label.
const NODE: (&str, &str) = ("kubernetes.io/hostname", "node-1");

/// Installs with these settings of the node agent, and starts a pod with a claim and a volume of its own.
fn start(name: &str, settings: &Value) -> Place {
    let place = Place::start(name);
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "node-agent-config", "namespace": place.own}, "data": {"config": settings.to_string()}}));
    install(&place, &["--use-node-agent", "--node-agent-configmap=node-agent-config"]);
    place.claim("data", &json!({}));
    let volumes = [PodVolume::Claim("data"), PodVolume::EmptyDir("scratch")];
    place.sleeper("web", &volumes, &json!({"annotations": {"backup.velero.io/backup-volumes-excludes": "scratch"}}));
    let fill = "mkdir /data/own && echo precious > /data/own/file && chmod 640 /data/own/file && chown -R 1000:2000 /data/own && \
                chmod 2750 /data/own && ln -s own/file /data/link && mkdir -m 1777 /data/sticky && echo x > /data/sticky/other && \
                chown 70:70 /data/sticky/other && chmod 4711 /data/sticky/other && head -c 2000000 /dev/urandom > /data/big && \
                echo passing > /scratch/file && sync";
    place.ask(&place.shop, "web", fill);
    place
}

/// Runs a command to its end, after which this object has to be complete, and gives the pods of movers that were there
/// meanwhile.
fn movers_of(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let mut command = place.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process");
    let client = place.ground.bed.plane.client();
    let mut seen = BTreeMap::new();
    let has_ended = comes_to_be_within(LONGEST, || {
        let pods = client.list("pods", Some(&place.own)).unwrap_or_else(|e| panic!("{e:#}"));
        let is_mover = |pod: &Value| {
            let kind = pod["metadata"]["ownerReferences"][0]["kind"].as_str().unwrap_or_default();
            ["PodVolumeBackup", "PodVolumeRestore", "DataUpload", "DataDownload"].contains(&kind)
        };
        seen.extend(pods.into_iter().filter(is_mover).map(|pod| (pod["metadata"]["uid"].to_string(), pod)));
        child.try_wait().expect("its state").is_some()
    });
    if !has_ended {
        child.kill().expect("a signal");
    }
    let [kind, _, name, ..] = arguments else { panic!("{arguments:?}") };
    let facts = place.ground.get_in(&place.own, kind, name);
    assert_eq!(facts["status"]["phase"], "Completed", "{arguments:?} {has_ended} {facts} {}", last_words(place));
    assert!(!seen.is_empty(), "no pod of a mover was seen: {arguments:?}");
    seen.into_values().collect()
}

/// Saves the files of the application into a location.
fn back_up(place: &Place, name: &str, more: &[&str]) -> Vec<Value> {
    let namespaces = format!("--include-namespaces={}", place.shop);
    movers_of(place, &[&["backup", "create", name, &namespaces, "--wait"], more].concat())
}

/// Loses the application and restores it from a backup.
fn restore(place: &Place, name: &str, backup: &str, more: &[&str]) -> Vec<Value> {
    place.lose(&place.shop);
    let from = format!("--from-backup={backup}");
    let pods = movers_of(place, &[&["restore", "create", name, &from, "--wait"], more].concat());
    place.until_ready(&place.shop, "web");
    pods
}

/// A location goes from the cluster with its backup and its repositories, and the bucket stays.
fn is_deleted_with_its_repositories(place: &Place, location: &str) {
    let client = place.ground.bed.plane.client();
    let repositories = || {
        let all = client.list("backuprepositories.velero.io", Some(&place.own)).unwrap_or_else(|e| panic!("{e:#}"));
        let locations = all.iter().map(|one| one["spec"]["backupStorageLocation"].to_string());
        locations.collect::<Vec<_>>()
    };
    assert_eq!(repositories().len(), 2, "{:?}", repositories());
    let deleted = place.lifeboat(&["backup-location", "delete", location, "--confirm"]);
    assert_eq!(deleted.code, 0, "{deleted:?}");
    place.ground.until_gone_in(&place.own, "backup", "second");
    assert!(comes_to_be(|| repositories() == ["\"default\""]), "{:?}", repositories());
    assert_eq!(place.ground.get_in(&place.own, "backup", "first")["status"]["phase"], "Completed");
    for file in ["backups/second/velero-backup.json", &format!("kopia/{}/kopia.repository", place.shop)] {
        assert!(place.ground.s3.file("server", &format!("{location}/{file}")).exists(), "{file}");
    }
}

/// All volumes but the one that the pod names, in two locations, by movers with all rights that move several files at
/// once.
///
/// scenario: AdditionalBSL, FSBackup
/// scenario: BSL, Deletion, FSBackup
/// scenario: BackupVolumeInfo, FilesystemUpload
/// scenario: PVBackup, OptOut, FSBackup
/// scenario: RetainPV, FSBackup
/// scenario: UploaderConfig
#[test]
#[ignore = "needs a node: make test-long"]
fn privileged_movers_bring_files_of_two_locations_back_as_they_were() {
    let place = start("rights", &json!({"privilegedFsBackup": true}));
    let (ground, bed) = (&place.ground, &place.ground.bed);
    // Its place has made this one.
    let other = "rights";
    ground.until_in(&place.own, "backupstoragelocation", other, "Available");
    let before = place.look(&place.shop, "web", &["data"]);
    assert!(
        before.contains("data/own/file 1000:2000 640") && before.contains("data/sticky/other 70:70 4711"),
        "{before}"
    );
    let by_files = ["--default-volumes-to-fs-backup", "--parallel-files-upload=4"];
    let mut pods = back_up(&place, "first", &by_files);
    pods.extend(back_up(&place, "second", &[&by_files[..], &["--storage-location=rights"]].concat()));
    for (backup, location) in [("first", "default"), ("second", other)] {
        let of = format!("velero.io/backup-name={backup}");
        let saved = bed.kubectl(&["get", "podvolumebackups", "-n", &place.own, "-l", &of, "-o", "json"]);
        let saved: Value = serde_json::from_str(&saved).expect("JSON");
        let facts = |one: &Value| {
            let spec = &one["spec"];
            json!([spec["volume"], spec["backupStorageLocation"], spec["uploaderSettings"]])
        };
        let facts: Vec<Value> = saved["items"].as_array().expect("a list").iter().map(facts).collect();
        assert_eq!(facts, [json!(["data", location, {"ParallelFilesUpload": "4"}])]);
    }
    let infos = gunzip_json(&ground.s3.file("server", "installed/backups/first/first-volumeinfo.json.gz"));
    let by_files = infos.as_array().expect("a list").iter().filter(|info| info["backupMethod"] == "PodVolumeBackup");
    let info: Vec<&Value> = by_files.collect();
    let [info] = info[..] else { panic!("one volume is saved by its files: {infos}") };
    let pvb = &info["pvbInfo"];
    let facts = (&info["pvcName"], &info["result"], &pvb["uploaderType"], pvb["snapshotHandle"].as_str().map(str::len));
    assert_eq!(facts, (&json!("data"), &json!("succeeded"), &json!("kopia"), Some(32)), "{info}");

    // The old volumes stay, with what is written now.
    let volume = ground.get_in(&place.shop, "persistentvolumeclaim", "data")["spec"]["volumeName"].clone();
    let keep = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}).to_string();
    bed.kubectl(&["patch", "pv", volume.as_str().expect("a volume"), "--type=merge", "-p", &keep]);
    place.ask(&place.shop, "web", "echo worthless > /data/own/file && rm /data/big && sync");
    for (name, backup) in [("from-first", "first"), ("from-second", "second")] {
        let more = ["--parallel-files-download=4", "--write-sparse-files"];
        pods.extend(restore(&place, name, backup, &more));
        assert_eq!(place.look(&place.shop, "web", &["data"]), before, "{backup}");
        assert_eq!(place.ask(&place.shop, "web", "ls /scratch"), "", "it was left out");
    }
    let is_privileged = |pod: &Value| pod["spec"]["containers"][0]["securityContext"]["privileged"] == true;
    assert!(pods.iter().all(is_privileged), "{pods:?}");
    assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
    is_deleted_with_its_repositories(&place, other);
    let of_shop = format!("jsonpath={{.items[?(@.spec.claimRef.namespace==\"{}\")].metadata.name}}", place.shop);
    for volume in bed.kubectl(&["get", "persistentvolumes", "-o", &of_shop]).split_whitespace() {
        bed.kubectl(&["delete", "pv", volume, "--wait=false"]);
    }
    place.end();
}

/// Returns true if pods of the node can have users of their own, as its container runtime says. Containerd has none
/// before 2.0, which is the only good reason: any other runtime or kernel has to be set up for this test.
fn has_user_namespaces(place: &Place) -> bool {
    let status = place.ground.get_in("", "node", NODE.1)["status"].clone();
    let handlers = status["runtimeHandlers"].as_array().cloned().unwrap_or_default();
    let has_them = handlers.iter().any(|one| one["features"]["userNamespaces"] == true);
    let runtime = status["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap_or_default();
    let is_too_old = runtime.starts_with("containerd://1.");
    assert!(has_them || is_too_old, "{runtime} says that pods cannot have users of their own: {handlers:?}");
    has_them
}

/// Movers with users of their own, where the node can have them.
///
/// scenario: NodeAgentConfig, CachePVC
/// scenario: NodeAgentConfig, LoadAffinity
#[test]
#[ignore = "needs a node: make test-long"]
fn movers_run_where_settings_say_with_a_cache_and_users_of_their_own() {
    let chosen = json!([{"nodeSelector": {"matchLabels": {NODE.0: NODE.1}}}]);
    let settings = json!({"loadAffinity": chosen, "cachePVC": {"storageClass": "csi"}});
    let place = start("chosen", &settings);
    let has_own_users = has_user_namespaces(&place);
    if has_own_users {
        let mut settings = settings;
        settings["movers"] = json!({"hostUsers": false});
        let patch = json!({"data": {"config": settings.to_string()}});
        let client = place.ground.bed.plane.client();
        client.merge("configmaps", "node-agent-config", &place.own, &patch).unwrap_or_else(|e| panic!("{e:#}"));
        for verb in ["restart", "status"] {
            place.ground.bed.kubectl(&["rollout", verb, "daemonset/node-agent", "-n", &place.own]);
        }
    } else {
        println!("containerd of this node is older than 2.0 and has no user namespaces: hostUsers is left out");
    }
    let before = place.look(&place.shop, "web", &["data"]);
    let saving = back_up(&place, "b", &["--snapshot-move-data"]);
    let restoring = restore(&place, "r", "b", &[]);
    assert_eq!(place.look(&place.shop, "web", &["data"]), before);
    let is_chosen = |pod: &Value| {
        let affinity = pod["spec"]["affinity"].to_string();
        affinity.contains(NODE.0) && affinity.contains(NODE.1)
    };
    assert!(saving.iter().all(is_chosen), "{saving:?}");
    let cached = |pod: &Value| {
        let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        let name = |volume: &Value| volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        volumes.iter().filter_map(name).any(|name| name.ends_with("-cache"))
    };
    assert!(restoring.iter().all(cached) && !saving.iter().any(cached), "{restoring:?} {saving:?}");
    let own_users = |pod: &Value| pod["spec"]["hostUsers"] == false;
    assert!(!has_own_users || saving.iter().chain(&restoring).all(own_users), "{saving:?} {restoring:?}");
    assert!(comes_to_be(|| left(&place).is_empty()), "{:?}", left(&place));
    place.end();
}
