//! Volumes in repositories that come back without a server: `local restore` starts the movers itself.

use super::movers::{image, install};
use super::place::{Place, REPOSITORY_SECRET};
use serde_json::{Value, json};

/// A claim with files and one of a block device are saved through a server, which is gone when they come back.
#[test]
#[ignore = "needs a node: make test-node"]
fn volumes_in_repositories_come_back_without_any_server() {
    let place = Place::start("local");
    install(&place, &["--use-node-agent"]);
    let ground = &place.ground;
    place.claim("data", &json!({}));
    ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": place.shop},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "volumeMode": "Block",
            "resources": {"requests": {"storage": "16Mi"}}}}));
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": place.shop,
            "annotations": {"backup.velero.io/backup-volumes": "data"}},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "volumeDevices": [{"name": "disk", "devicePath": "/dev/disk"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}}));
    place.until_ready(&place.shop, "web");
    let fill = "mkdir -m 2750 /data/own && echo precious > /data/own/file && chmod 640 /data/own/file && chown -R 1000:2000 /data/own \
                && head -c 2000000 /dev/urandom | dd of=/dev/disk bs=4096 seek=3 conv=notrunc,fsync && sync";
    place.ask(&place.shop, "web", fill);
    let held = || {
        let files = "cat /data/own/file && stat -c '%u:%g %a' /data/own/file && sha256sum < /dev/disk";
        place.ask(&place.shop, "web", files)
    };
    let before = held();
    assert!(before.starts_with("precious\n1000:2000 640\n"), "{before}");
    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--snapshot-move-data", "--wait"]);
    let facts = ground.get_in(&place.own, "backup", "b");
    assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts}");
    let secret = ground.get_in(&place.own, "secret", REPOSITORY_SECRET);
    let password = secret["data"]["repository-password"].as_str().expect("a password").to_owned();
    place.lose(&place.shop);
    // The namespace of the server, with node agent and all.
    place.lose(&place.own);

    let (s3, folder) = (&ground.s3, ground.directories.path());
    let (credentials, password_file) = (folder.join("credentials"), folder.join("password"));
    std::fs::write(&password_file, lifeboat_base64(&password)).expect("write");
    let bucket = format!(
        "s3://server/installed?region={}&endpoint={}&credentialsFile={}",
        s3.region(),
        s3.endpoint(),
        credentials.display()
    );
    let (image, password) =
        (format!("--mover-image={}", image()), format!("--password-file={}", password_file.display()));
    let restore =
        ["local", "restore", "back", "--from-backup=b", &image, &password, "--features=EnableCSI", "--bucket", &bucket];
    let back = place.lifeboat(&restore);
    assert_eq!(back.code, 0, "{back:?}");
    place.until_ready(&place.shop, "web");
    assert_eq!(held(), before);
    let left = ["get", "pods,secrets", "--all-namespaces", "-l", "lifeboat.io/mover-of-restore=back", "-o", "json"];
    let left: Value = serde_json::from_str(&ground.bed.kubectl(&left)).expect("JSON");
    assert_eq!(left["items"], json!([]));
    place.lose(&place.shop);
}

/// The text of base64.
fn lifeboat_base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}
