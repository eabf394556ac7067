//! Node agents and the pods that move the bytes of volumes, from the image of the program.

use super::place::{Place, PodVolume, REPOSITORY_SECRET};
use crate::support::{comes_to_be, gunzip_json, program};
use lifeboat_testbed::{LIFEBOAT_IMAGE, import_program};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Once;

/// Gives the node the image of the program, once for all tests.
pub(super) fn image() -> &'static str {
    static IMPORTED: Once = Once::new();
    IMPORTED.call_once(|| import_program(Path::new(program())).expect("an image"));
    LIFEBOAT_IMAGE
}

/// A file with the keys of the S3 server.
pub(super) fn credentials(place: &Place) -> PathBuf {
    let s3 = &place.ground.s3;
    let file: PathBuf = place.ground.directories.path().join("credentials");
    let (id, secret) = (s3.access_key(), s3.secret_key());
    std::fs::write(&file, format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"))
        .expect("write");
    file
}

/// The configuration of a location in the S3 server.
pub(super) fn location_config(place: &Place) -> String {
    config_at(place, place.ground.s3.endpoint())
}

fn config_at(place: &Place, endpoint: &str) -> String {
    format!("region={},s3ForcePathStyle=true,s3Url={endpoint}", place.ground.s3.region())
}

/// The flags of `install` for the image of the program, and a location in the S3 server, which is reached at this
/// endpoint.
fn flags(place: &Place, endpoint: &str) -> Vec<String> {
    [
        format!("--image={}", image()),
        "--provider=aws".to_owned(),
        "--bucket=server".to_owned(),
        "--prefix=installed".to_owned(),
        format!("--backup-location-config={}", config_at(place, endpoint)),
        "--use-volume-snapshots=false".to_owned(),
        "--features=EnableCSI".to_owned(),
        format!("--secret-file={}", credentials(place).display()),
    ]
    .to_vec()
}

/// Installs with more flags, and waits until everything is ready and the location can be used.
pub(super) fn install(place: &Place, more: &[&str]) {
    install_at(place, place.ground.s3.endpoint(), more);
}

/// The same with the S3 server at another endpoint, behind which it is.
pub(super) fn install_at(place: &Place, endpoint: &str, more: &[&str]) {
    let flags = flags(place, endpoint);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--wait"]).chain(more.iter().copied()).collect();
    let installed = place.lifeboat(&[&["install"], &flags[..]].concat());
    let logs = || place.ground.bed.kubectl(&["logs", "-n", &place.own, "deployment/velero", "--tail=40"]);
    assert_eq!(installed.code, 0, "{installed:?} {}", logs());
    let is_available =
        || place.ground.get_in(&place.own, "backupstoragelocation", "default")["status"]["phase"] == "Available";
    assert!(comes_to_be(is_available), "{}", logs());
}

/// Runs the program with these arguments in a pod of the installation, to its end, and gives what it prints.
fn in_a_pod(place: &Place, name: &str, arguments: &[&str]) -> String {
    let ground = &place.ground;
    let command: Vec<&str> = ["/velero"].into_iter().chain(arguments.iter().copied()).collect();
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": place.own},
        "spec": {"serviceAccountName": "velero", "restartPolicy": "Never", "containers": [
            {"name": "a", "image": image(), "imagePullPolicy": "Never", "command": command}]}}));
    let phase = || ground.get_in(&place.own, "pod", name)["status"]["phase"].clone();
    let ended = comes_to_be(|| phase() == "Succeeded" || phase() == "Failed");
    let log = ground.bed.kubectl(&["logs", "-n", &place.own, name]);
    assert!(ended && phase() == "Succeeded", "{}: {log}", ground.get_in(&place.own, "pod", name)["status"]);
    log
}

#[test]
#[ignore = "needs a node: make test-node"]
fn pods_of_an_installation_reach_the_api_server_and_the_bucket() {
    let place = Place::start("pods");
    install(&place, &[]);
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "note", "namespace": place.shop}, "data": {"a": "one"}}));
    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--include-resources=configmaps", "--wait"]);
    assert_eq!(saved.code, 0, "{saved:?}");
    assert!(in_a_pod(&place, "version", &["version", "--client-only"]).contains("Version: "));
    let listed = in_a_pod(&place, "list", &["get", "backups", "-o", "json", "--namespace", &place.own]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!((&listed["metadata"]["name"], &listed["status"]["phase"]), (&json!("b"), &json!("Completed")));
    place.end();
}

/// The smaller rights are enough for both programs, and for the Secret with the password.
#[test]
#[ignore = "needs a node: make test-node"]
fn a_node_agent_is_installed_and_the_server_makes_a_repository_ready() {
    let place = Place::alone("agent");
    install(&place, &["--use-node-agent", "--least-privilege"]);
    let ground = &place.ground;
    let set = ground.get_in(&place.own, "daemonset", "node-agent");
    assert_eq!((&set["status"]["desiredNumberScheduled"], &set["status"]["numberAvailable"]), (&json!(1), &json!(1)));
    let pods = ["get", "pods", "-n", &place.own, "-l", "role=node-agent", "-o", "json"];
    let pods: Value = serde_json::from_str(&ground.bed.kubectl(&pods)).expect("JSON");
    let pod = &pods["items"][0];
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["node-agent", "server", "--features=EnableCSI"]));
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);

    ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "BackupRepository",
        "metadata": {"name": "shop-default-kopia", "namespace": place.own},
        "spec": {"volumeNamespace": "shop", "backupStorageLocation": "default", "repositoryType": "kopia",
            "maintenanceFrequency": "0s"}}));
    let repository = ground.until_in(&place.own, "backuprepository", "shop-default-kopia", "Ready");
    assert_eq!(repository["spec"]["maintenanceFrequency"], "1h0m0s");
    let secret = ground.get_in(&place.own, "secret", REPOSITORY_SECRET);
    assert_eq!(secret["data"].as_object().map(serde_json::Map::len), Some(1));
    assert!(ground.s3.file("server", "installed/kopia/shop/kopia.repository").exists());

    let gone = place.lifeboat(&["uninstall", "--force"]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(ground.get_in(&place.own, "daemonset", "node-agent").is_null());
    place.lose(&place.shop);
}

/// The mover has no right but to read files of any owner, and sees the volume of the pod that runs.
#[test]
#[ignore = "needs a node: make test-node"]
fn a_node_agent_saves_files_that_only_their_owner_can_read() {
    let place = Place::start("saved");
    install(&place, &["--use-node-agent", "--least-privilege"]);
    let ground = &place.ground;
    place.sleeper("web", &[PodVolume::EmptyDir("data"), PodVolume::EmptyDir("none")], &json!({}));
    let owned = "mkdir -m 700 /data/own && echo precious > /data/own/file && chmod 600 /data/own/file && chown -R 1000 /data/own";
    place.ask(&place.shop, "web", owned);
    let pod = ground.get_in(&place.shop, "pod", "web");
    let (node, uid) = (&pod["spec"]["nodeName"], &pod["metadata"]["uid"]);
    let backup = |name: &str, volume: &str| {
        ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": name, "namespace": place.own},
            "spec": {"node": node, "pod": {"kind": "Pod", "namespace": place.shop, "name": "web", "uid": uid},
                "volume": volume, "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia"}}));
        ground.until_in(&place.own, "podvolumebackup", name, "Completed")["status"].clone()
    };
    // A backup asks for the repository first.
    let repository = format!("{}-default-kopia", place.shop);
    ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "BackupRepository",
        "metadata": {"name": repository, "namespace": place.own},
        "spec": {"volumeNamespace": place.shop, "backupStorageLocation": "default", "repositoryType": "kopia",
            "maintenanceFrequency": "0s"}}));
    ground.until_in(&place.own, "backuprepository", &repository, "Ready");
    let first = backup("first", "data");
    assert_eq!(first["progress"], json!({"totalBytes": 9, "bytesDone": 9}));
    assert_eq!(first["snapshotID"].as_str().map(str::len), Some(32), "{first}");
    assert_eq!(first["incrementalBytes"], 9);
    // The same files once more: nothing is read.
    let second = backup("second", "data");
    assert_eq!((&second["progress"], second["incrementalBytes"].as_i64().unwrap_or_default()), (&first["progress"], 0));
    assert_ne!(second["snapshotID"], first["snapshotID"]);
    let empty = backup("empty", "none");
    assert_eq!(
        (&empty["message"], &empty["snapshotID"]),
        (&json!("volume was empty so no snapshot was taken"), &Value::Null)
    );
    place.end();
}

/// A claim and an emptyDir of one pod, by the annotation of the pod, between its hooks; and everything is lost.
///
/// scenario: FSBackup
#[test]
#[ignore = "needs a node: make test-node"]
fn files_of_volumes_are_saved_and_come_back_with_owners_and_modes() {
    let place = Place::start("files");
    install(&place, &["--use-node-agent"]);
    let ground = &place.ground;
    place.claim("data", &json!({}));
    let hook = |word: &str| json!(format!(r#"["/bin/sh", "-c", "echo {word} >> /scratch/hooks"]"#));
    let annotations = json!({"backup.velero.io/backup-volumes": "data,scratch",
        "pre.hook.backup.velero.io/command": hook("before"), "post.hook.backup.velero.io/command": hook("after")});
    let volumes = [PodVolume::Claim("data"), PodVolume::EmptyDir("scratch")];
    place.sleeper("web", &volumes, &json!({"annotations": annotations}));
    let fill = "mkdir -m 2750 /data/own && echo precious > /data/own/file && chmod 640 /data/own/file && chown -R 1000:2000 /data/own \
                && chmod 2750 /data/own && ln -s own/file /data/link && mkdir /data/empty && head -c 3000000 /dev/urandom > /data/big \
                && chmod 4755 /data/big && sync";
    place.ask(&place.shop, "web", fill);
    let before = place.look(&place.shop, "web", &["data"]);
    assert!(before.contains("data/own/file 1000:2000 640"), "{before}");

    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--wait"]);
    let facts = place.ground.get_in(&place.own, "backup", "b");
    assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts}");
    assert_eq!(facts["status"]["unprotectedVolumes"].as_i64().unwrap_or_default(), 0);
    assert_eq!(place.ask(&place.shop, "web", "cat /scratch/hooks").lines().collect::<Vec<_>>(), ["before", "after"]);

    place.lose(&place.shop);
    let back = place.lifeboat(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
    let facts = place.ground.get_in(&place.own, "restore", "r");
    assert_eq!((back.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{back:?} {facts}");
    place.until_ready(&place.shop, "web");
    assert_eq!(place.look(&place.shop, "web", &["data"]), before);
    // Saved before the hook that comes after.
    assert_eq!(place.ask(&place.shop, "web", "cat /scratch/hooks").trim(), "before");
    let pods = ground.bed.kubectl(&["get", "pods", "-n", &place.own, "-o", "name"]);
    assert!(!pods.contains("/r-") && !pods.contains("/b-"), "a mover stays: {pods}");
    place.end();
}

/// A claim with files and one of a block device are moved out of their snapshots, and everything is lost.
///
/// scenario: BackupVolumeInfo, CSIDataMover
#[test]
#[ignore = "needs a node: make test-node"]
fn snapshots_are_moved_and_come_back() {
    let place = Place::start("moved");
    install(&place, &["--use-node-agent"]);
    let ground = &place.ground;
    place.claim("data", &json!({}));
    ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": place.shop},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "volumeMode": "Block",
            "resources": {"requests": {"storage": "16Mi"}}}}));
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": place.shop},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "volumeDevices": [{"name": "disk", "devicePath": "/dev/disk"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}}));
    place.until_ready(&place.shop, "web");
    let fill = "mkdir /data/own && echo precious > /data/own/file && chmod 640 /data/own/file && chown -R 1000:2000 /data/own \
                && chmod 2750 /data/own && ln -s own/file /data/link && mkdir /data/empty && head -c 3000000 /dev/urandom > /data/big \
                && chmod 4755 /data/big && head -c 2000000 /dev/urandom | dd of=/dev/disk bs=4096 seek=3 conv=notrunc,fsync && sync";
    place.ask(&place.shop, "web", fill);
    let device = || place.ask(&place.shop, "web", "sha256sum < /dev/disk");
    let before = (place.look(&place.shop, "web", &["data"]), device());
    assert!(before.0.contains("data/own/file 1000:2000 640"), "{before:?}");

    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--snapshot-move-data", "--wait"]);
    let facts = ground.get_in(&place.own, "backup", "b");
    let uploads = || ground.bed.kubectl(&["get", "datauploads", "-n", &place.own, "-o", "yaml"]);
    assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts} {}", uploads());
    assert_eq!(facts["status"]["backupItemOperationsCompleted"], 2);
    let infos = gunzip_json(&ground.s3.file("server", "installed/backups/b/b-volumeinfo.json.gz"));
    for info in infos.as_array().expect("a list") {
        let moved = &info["snapshotDataMovementInfo"];
        let facts = (&info["snapshotDataMoved"], &info["result"], moved["snapshotHandle"].as_str().map(str::len));
        assert_eq!(facts, (&json!(true), &json!("succeeded"), Some(32)), "{info}");
    }
    let is_left = |kind: &str, namespace: &str| ground.bed.kubectl(&["get", kind, "-n", namespace, "-o", "name"]);
    let snapshots = || [&place.shop, &place.own].map(|namespace| place.snapshot_objects_in(namespace));
    assert!(comes_to_be(|| snapshots() == [(0, 0); 2]), "a snapshot stays: {:?}", snapshots());
    let no_handles = || place.handles().is_empty();
    assert!(comes_to_be(no_handles), "a snapshot stays in the storage: {:?}", place.handles());
    let nothing_of_movers = || {
        let left = [is_left("pods", &place.own), is_left("persistentvolumeclaims", &place.own)].concat();
        !left.contains("/b-") && !left.contains("/r-")
    };
    assert!(comes_to_be(nothing_of_movers), "a pod or claim of a mover stays");

    place.lose(&place.shop);
    let back = place.lifeboat(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
    let facts = ground.get_in(&place.own, "restore", "r");
    assert_eq!((back.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{back:?} {facts}");
    place.until_ready(&place.shop, "web");
    assert_eq!((place.look(&place.shop, "web", &["data"]), device()), before);
    assert!(comes_to_be(nothing_of_movers), "a pod or claim of a mover stays");
    place.end();
}
