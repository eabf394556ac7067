//! Backups with CSI snapshots that Velero wrote: they are restored where the driver has their snapshots, and ours of
//! the same application say the same.

use super::place::Place;
use crate::ground::{BUCKET, copy};
use crate::support::{comes_to_be, eventually, gunzip_json};
use lifeboat_archive::{ArchivePath, ReadLimits, TarReader};
use lifeboat_testbed::{DRIVER, Driver, NODE_STATE};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The driver of the cluster in which Velero made the backups, and its class.
const THEIRS: (&str, &str) = ("test.csi.local", "csi-testcsi");

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/volumes")
}

/// The CSI snapshots that the volume information of a backup names: claim, handle, size, and the handle of the group.
fn snapshots_of(backup: &str) -> Vec<(String, String, u64, String)> {
    let infos = gunzip_json(&fixtures().join(format!("backups/{backup}/{backup}-volumeinfo.json.gz")));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |info: &Value| {
        let snapshot = info["csiSnapshotInfo"].as_object()?;
        let group = snapshot.get("volumeGroupSnapshotHandle").map(text).unwrap_or_default();
        Some((text(&info["pvcName"]), text(&snapshot["snapshotHandle"]), snapshot["size"].as_u64()?, group))
    };
    infos.as_array().into_iter().flatten().filter_map(of).collect()
}

/// Gives a driver these snapshots in a folder. Each holds its own handle: in a file, or all over the device.
fn driver_with(folder: &Path, backups: &[&str]) {
    std::fs::create_dir_all(folder).expect("a folder");
    let (mut snapshots, mut groups) = (Map::new(), BTreeMap::<String, Vec<String>>::new());
    for (claim, handle, size, group) in backups.iter().flat_map(|backup| snapshots_of(backup)) {
        let image = folder.join(format!("{handle}.img"));
        let is_block = claim == "blk";
        if is_block {
            let bytes: Vec<u8> = handle.bytes().cycle().take(usize::try_from(size).expect("a size")).collect();
            std::fs::write(&image, bytes).expect("an image");
        } else {
            let files = tempfile::tempdir().expect("a folder");
            std::fs::write(files.path().join("which"), &handle).expect("a file");
            let mut command = Command::new("mkfs.ext4");
            command.args(["-q", "-F", "-m", "0", "-d"]).arg(files.path()).arg(&image).arg(format!("{}k", size / 1024));
            assert!(command.status().expect("mkfs.ext4").success());
        }
        if !group.is_empty() {
            groups.entry(group.clone()).or_default().push(handle.clone());
        }
        let made = "2026-11-21T09:30:00Z";
        let snapshot = json!({"ID": handle, "Name": handle, "Volume": format!("gone-{claim}"), "Claim": "", "Group": group,
            "Size": size, "Block": is_block, "Created": made, "Ready": made});
        snapshots.insert(handle, snapshot);
    }
    let group = |(handle, snapshots): (&String, &Vec<String>)| {
        let group = json!({"ID": handle, "Name": handle, "Volumes": [], "Snapshots": snapshots, "Claims": [],
            "Created": "2026-11-21T09:30:00Z"});
        (handle.clone(), group)
    };
    let groups: Map<String, Value> = groups.iter().map(group).collect();
    let state = json!({"Volumes": {}, "Snapshots": snapshots, "Groups": groups});
    std::fs::write(folder.join("state.json"), state.to_string()).expect("a state");
}

/// The location with Velero's backups, in a folder of the test.
fn location(place: &Place) {
    let folder = place.ground.directories.path().join("golden");
    for backup in ["csi1", "pol1", "vgs2"] {
        copy(&fixtures().join("backups").join(backup), &folder.join("b/backups").join(backup));
    }
    let spec = json!({"provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"}, "accessMode": "ReadOnly",
        "config": {"path": folder.display().to_string()}});
    place.ground.velero_in(&place.own, "BackupStorageLocation", "golden", &spec);
}

fn is_ready(place: &Place, namespace: &str, pod: &str) -> bool {
    let pod = place.ground.get_in(namespace, "pod", pod);
    let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
    pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready))
}

/// scenario: Upgrade, Snapshot
#[test]
#[ignore = "needs a node: make test-node"]
fn what_velero_has_backed_up_comes_back_from_the_snapshots_of_its_driver() {
    let place = Place::start("golden-in");
    let (driver, class) = THEIRS;
    let create = |object: Value| place.ground.create(&object);
    create(json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver},
        "spec": {"attachRequired": false, "podInfoOnMount": true, "fsGroupPolicy": "File"}}));
    create(
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class}, "provisioner": driver}),
    );
    let folder = Path::new(NODE_STATE).join("golden");
    driver_with(&folder, &["csi1", "pol1", "vgs2"]);
    let running = Driver::start(&place.ground.bed.plane, driver, &folder).expect("the driver");
    location(&place);
    let _server = place.server();
    for (backup, empty) in [("csi1", &[][..]), ("pol1", &["p-fs", "p-skip", "p-unmounted"]), ("vgs2", &[])] {
        place.ground.until_in(&place.own, "backup", backup, "Completed");
        let into = format!("{}-{backup}", place.shop);
        let spec = json!({"backupName": backup, "namespaceMapping": {"vol": into}});
        place.ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "Restore", "spec": spec,
            "metadata": {"name": backup, "namespace": place.own, "annotations": {"lifeboat.io/allow-empty-volumes": "true"}}}));
        let restore = place.ground.until_in(&place.own, "restore", backup, "Completed");
        let described = place.lifeboat(&["restore", "describe", backup, "--details"]).out;
        assert_eq!(restore["status"]["errors"], Value::Null, "{described}");
        for pod in ["web-0", "blkpod"] {
            if !comes_to_be(|| is_ready(&place, &into, pod)) {
                let told = place.ground.bed.kubectl(&["describe", "pod", pod, "-n", &into]);
                panic!("{told}");
            }
        }
        let named: Vec<String> = empty.iter().map(|claim| format!("{into}/{claim}")).collect();
        let line = described.lines().find(|line| line.contains("come back empty")).unwrap_or_default();
        assert_eq!(line.is_empty(), named.is_empty(), "{described}");
        assert!(named.iter().all(|name| line.contains(name)), "{named:?} in {described}");
        let held = [
            ("data-web-0", place.ask(&into, "web-0", "cat /data/which")),
            ("blk", place.ask(&into, "blkpod", "head -c 29 /dev/xvda")),
        ];
        let mut expected: Vec<(String, String)> =
            snapshots_of(backup).into_iter().map(|(claim, handle, ..)| (claim, handle)).collect();
        expected.sort();
        let mut held: Vec<(String, String)> =
            held.into_iter().map(|(claim, text)| (claim.to_owned(), text.trim().to_owned())).collect();
        held.sort();
        assert_eq!(held, expected, "{backup}");
        place.lose(&into);
    }
    // Its volumes go before it does.
    let of_driver = format!("jsonpath={{.items[?(@.spec.csi.driver==\"{driver}\")].metadata.name}}");
    eventually("the end of its volumes", || place.ground.bed.kubectl(&["get", "pv", "-o", &of_driver]).is_empty());
    drop(running);
    for (kind, name) in [("volumesnapshotclass", class), ("storageclass", class), ("csidriver", driver)] {
        place.ground.bed.kubectl(&["delete", kind, name]);
    }
    place.end();
}

/// Where the files beside our archive differ from Velero's of the same application, and why.
const DEVIATIONS: [(&str, &str); 18] = [
    ("csi1: volumesnapshotcontents null\"Block\".spec.deletionPolicy: Velero Delete, ours Retain", KEPT),
    ("csi1: volumesnapshotcontents null\"Filesystem\".spec.deletionPolicy: Velero Delete, ours Retain", KEPT),
    ("csi1: ours only: volumesnapshotcontents null\"Block\".metadata.labels.velero.io/backup-uid = UID", BY_UID),
    ("csi1: ours only: volumesnapshotcontents null\"Filesystem\".metadata.labels.velero.io/backup-uid = UID", BY_UID),
    ("csi1: ours only: volumesnapshots \"blk\"null.metadata.labels.velero.io/backup-uid = UID", BY_UID),
    ("csi1: ours only: volumesnapshots \"data-web-0\"null.metadata.labels.velero.io/backup-uid = UID", BY_UID),
    ("vgs2: volumesnapshotcontents null\"Block\".spec.deletionPolicy: Velero Delete, ours Retain", KEPT),
    ("vgs2: volumesnapshotcontents null\"Filesystem\".spec.deletionPolicy: Velero Delete, ours Retain", KEPT),
    (
        "vgs2: Velero's only: volumesnapshots \"blk\"null.status.error.message = Failed to set default snapshot class with error cannot find \
         default snapshot class",
        OF_CONTROLLER,
    ),
    ("vgs2: Velero's only: volumesnapshots \"blk\"null.status.error.time = TIME", OF_CONTROLLER),
    (
        "vgs2: Velero's only: volumesnapshots \"data-web-0\"null.status.error.message = Failed to set default snapshot class with error \
         cannot find default snapshot class",
        OF_CONTROLLER,
    ),
    ("vgs2: Velero's only: volumesnapshots \"data-web-0\"null.status.error.time = TIME", OF_CONTROLLER),
    ("vgs2: ours only: volumeinfo[0].csiSnapshotInfo.volumeGroup = g1", GROUP),
    ("vgs2: ours only: volumeinfo[1].csiSnapshotInfo.volumeGroup = g1", GROUP),
    ("vgs2: ours only: volumesnapshotcontents null\"Block\".metadata.labels.velero.io/backup-uid = UID", BY_UID),
    ("vgs2: ours only: volumesnapshotcontents null\"Filesystem\".metadata.labels.velero.io/backup-uid = UID", BY_UID),
    (
        "vgs2: ours only: volumesnapshots \"blk\"null.metadata.annotations.lifeboat.io/volume-group-snapshot-members = HANDLES",
        MEMBERS,
    ),
    (
        "vgs2: ours only: volumesnapshots \"data-web-0\"null.metadata.annotations.lifeboat.io/volume-group-snapshot-members = HANDLES",
        MEMBERS,
    ),
];
const BY_UID: &str = "by this label a snapshot is known as one of the backup, and not by its name alone";
const KEPT: &str =
    "so that nothing is lost when its VolumeSnapshot is deleted before the backup ends; a restore sets it anyway";
const OF_CONTROLLER: &str = "what the snapshot-controller says of a member that names no class is a matter of time";
const GROUP: &str = "describe names the group of each snapshot";
const MEMBERS: &str = "with them the group is deleted in the storage";

/// The files beside an archive, and the objects of snapshots in it, by path within them; what differs between any two
/// runs is replaced.
fn said(folder: &Path, backup: &str, words: &[(String, &str)]) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for file in ["volumeinfo", "itemoperations", "volumesnapshots", "podvolumebackups", "results"] {
        let end = if file == "results" { "results.gz".to_owned() } else { format!("{file}.json.gz") };
        let mut value = gunzip_json(&folder.join(format!("{backup}-{end}")));
        if let Some(list) = value.as_array_mut() {
            list.sort_by_key(|one| {
                let of = &one["spec"]["resourceIdentifier"]["Name"];
                (one["pvcName"].to_string(), of.to_string())
            });
        }
        flatten(file, &value, words, &mut out);
    }
    let bytes = std::fs::read(folder.join(format!("{backup}.tar.gz"))).expect("an archive");
    let limits = ReadLimits::default();
    let mut reader = TarReader::new(lifeboat_archive::gzip::capped(bytes.as_slice(), limits.total), limits);
    let (mut body, mut objects) = (Vec::new(), Vec::new());
    while let Some(entry) = reader.next_file(&mut body).expect("an entry") {
        let ArchivePath::Object(path) = entry.path else { continue };
        let resource = path.key.resource.resource.clone();
        if !resource.contains("snapshot") || entry.name.contains("preferredversion") {
            continue;
        }
        let mut object: Value = serde_json::from_slice(&body).expect("JSON");
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|key, _| matches!(key.as_str(), "annotations" | "labels" | "name" | "namespace"));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        let of = [&object["spec"]["source"]["persistentVolumeClaimName"], &object["spec"]["sourceVolumeMode"]];
        objects.push((format!("{resource} {}{}", of[0], of[1]), object));
    }
    objects.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, object) in objects {
        flatten(&name, &object, words, &mut out);
    }
    out
}

fn flatten(path: &str, value: &Value, words: &[(String, &str)], out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, words, out));
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().enumerate().for_each(|(n, value)| flatten(&format!("{path}[{n}]"), value, words, out));
        }
        _ if path.ends_with(".resourceVersion") => {}
        Value::String(text) => drop(out.insert(path.to_owned(), alike(text, words))),
        _ if path.ends_with(".creationTime") => drop(out.insert(path.to_owned(), "TIME".to_owned())),
        other => drop(out.insert(path.to_owned(), alike(&other.to_string(), words))),
    }
}

/// A text without what is by chance: times, UIDs, and what follows from these.
fn alike(text: &str, words: &[(String, &str)]) -> String {
    let text = words.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let parts: Vec<String> = text.split('/').map(chance).collect();
    parts.join("/")
}

fn chance(part: &str) -> String {
    if part.parse::<jiff::Timestamp>().is_ok() {
        return "TIME".to_owned();
    }
    for (prefix, to) in [
        ("[\"snap-", "HANDLES"),
        ("snapcontent-", "CONTENT"),
        ("snapshot-", "MEMBER"),
        ("snap-", "HANDLE"),
        ("group-", "GROUP"),
        ("vol-", "VOLUME"),
        ("pvc-", "PV"),
        ("velero-data-web-0-", "SNAPSHOT of data-web-0"),
        ("velero-blk-", "SNAPSHOT of blk"),
        ("velero-g1-", "GROUPSNAPSHOT"),
    ] {
        if part.starts_with(prefix) {
            return to.to_owned();
        }
    }
    let is_uid = part.len() == 36 && part.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    if is_uid { "UID".to_owned() } else { part.to_owned() }
}

#[test]
#[ignore = "needs a node: make test-node"]
fn our_backup_of_the_same_application_says_what_velero_says() {
    let place = Place::start("golden-out");
    let text = std::fs::read_to_string(fixtures().join("application.yaml")).expect("a fixture");
    let text = text
        .replace(THEIRS.1, "csi")
        .replace("namespace: vol", &format!("namespace: {}", place.shop))
        .replace("metadata: {name: vol}", &format!("metadata: {{name: {}}}", place.shop));
    let file = place.ground.directories.path().join("application.yaml");
    std::fs::write(&file, text).expect("write");
    place.ground.kubectl().apply(&file).unwrap_or_else(|e| panic!("{e:#}"));
    for pod in ["web-0", "blkpod"] {
        eventually(pod, || !place.ground.get_in(&place.shop, "pod", pod).is_null());
        place.until_ready(&place.shop, pod);
    }
    let _server = place.server();
    let mut differences = Vec::new();
    for (backup, is_group) in [("csi1", false), ("vgs2", true)] {
        if is_group {
            place.ground.bed.kubectl(&["label", "pvc", "-n", &place.shop, "--all", "velero.io/volume-group=g1"]);
        }
        place.backup(backup, &json!({}));
        place.ground.until_in(&place.own, "backup", backup, "Completed");
        let folder = place.ground.s3.file(BUCKET, &format!("golden-out/backups/{backup}"));
        let here = [(place.shop.clone(), "vol"), (DRIVER.to_owned(), THEIRS.0)];
        // The smallest volumes of our driver are twice as large.
        let there = [(THEIRS.1, "csi"), ("8Mi", "16Mi"), ("8388608", "16777216")];
        let there = there.map(|(from, to)| (from.to_owned(), to));
        let theirs = fixtures().join("backups").join(backup);
        let (ours, theirs) = (said(&folder, backup, &here), said(&theirs, backup, &there));
        for (path, value) in &theirs {
            match ours.get(path) {
                None => differences.push(format!("{backup}: Velero's only: {path} = {value}")),
                Some(our) if our != value => differences.push(format!("{backup}: {path}: Velero {value}, ours {our}")),
                Some(_) => {}
            }
        }
        let more = ours.iter().filter(|(path, _)| !theirs.contains_key(*path));
        differences.extend(more.map(|(path, value)| format!("{backup}: ours only: {path} = {value}")));
    }
    let expected: Vec<&str> = DEVIATIONS.iter().map(|(difference, _)| *difference).collect();
    assert_eq!(differences, expected, "each with its reason in the table");
    place.end();
}
