//! What `lifeboat install` makes runs as a pod, and the commands reach it there.

use super::place::Place;
use crate::support::comes_to_be;
use lifeboat_archive::gzip::capped;
use serde_json::{Value, json};

/// What the pod of the server needs of a node that has no services, and whose images hold no Lifeboat.
fn on_this_node(api_server: &str) -> Value {
    let (host, port) = api_server.trim_start_matches("https://").split_once(':').expect("a port");
    let from_host = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
    let at = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    json!({"spec": {"template": {"spec": {
        "hostNetwork": true,
        "volumes": [from_host("program", env!("CARGO_BIN_EXE_lifeboat")), from_host("lib", "/lib"), from_host("lib64", "/lib64"), from_host("ssl", "/etc/ssl")],
        "containers": [{"name": "velero", "imagePullPolicy": "IfNotPresent",
            "securityContext": {"runAsUser": 65532},
            "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": host}, {"name": "KUBERNETES_SERVICE_PORT", "value": port}],
            "volumeMounts": [at("program", "/velero"), at("lib", "/lib"), at("lib64", "/lib64"), at("ssl", "/etc/ssl")]}],
    }}}})
}

/// Installs the server with these flags, lets it run on this node, and waits until its location can be used.
fn install(place: &Place, flags: &[&str]) {
    let (ground, kubectl) = (&place.ground, |args: &[&str]| place.ground.bed.kubectl(args));
    let installed = place.lifeboat(&[&["install", "--image=testbed.local/busybox:1"], flags].concat());
    assert_eq!(installed.code, 0, "{installed:?}");
    let patch = on_this_node(ground.bed.plane.url()).to_string();
    kubectl(&["patch", "deployment", "velero", "-n", &place.own, "-p", &patch]);
    kubectl(&["rollout", "status", "deployment/velero", "-n", &place.own, "--timeout=90s"]);
    let is_available =
        || ground.get_in(&place.own, "backupstoragelocation", "default")["status"]["phase"] == "Available";
    assert!(comes_to_be(is_available), "{}", kubectl(&["logs", "-n", &place.own, "deployment/velero", "--tail=40"]));
}

#[test]
#[ignore = "needs a node: make test-node"]
fn an_installed_server_keeps_backups_in_a_volume_without_object_storage() {
    let place = Place::start("directory");
    let ground = &place.ground;
    ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "backups", "namespace": place.own},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "resources": {"requests": {"storage": "32Mi"}}}}));
    install(&place, &["--directory-claim", "backups"]);
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "note", "namespace": place.shop}, "data": {"a": "one"}}));
    let run = |args: &str| {
        let run = place.lifeboat(&args.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{args}: {run:?}");
        run.out
    };
    run(&format!("backup create b --include-namespaces {} --include-resources configmaps --wait", place.shop));
    assert_eq!(ground.get_in(&place.own, "backup", "b")["status"]["phase"], "Completed");
    ground.bed.kubectl(&["delete", "configmap", "note", "-n", &place.shop]);
    // The volume outlives the pod.
    ground.bed.kubectl(&["delete", "pod", "-n", &place.own, "-l", "deploy=velero", "--wait=true", "--timeout=60s"]);
    ground.bed.kubectl(&["rollout", "status", "deployment/velero", "-n", &place.own, "--timeout=90s"]);
    run("restore create r --from-backup b --wait");
    assert_eq!(ground.get_in(&place.shop, "configmap", "note")["data"], json!({"a": "one"}));

    let bundle = ground.directories.path().join("bundle.tar.gz");
    run(&format!("debug --backup b --output {}", bundle.display()));
    let mut bundle = tar::Archive::new(capped(std::fs::File::open(&bundle).expect("the bundle"), 64 << 20));
    let names = bundle
        .entries()
        .expect("entries")
        .map(|entry| entry.expect("an entry").path().expect("a path").display().to_string());
    let names: Vec<String> = names.collect();
    assert!(names.iter().any(|name| name.ends_with("/velero.log")), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with("/missing.txt")), "{names:?}");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn an_installed_server_is_reached_through_its_pod() {
    let place = Place::start("installed");
    let (ground, kubectl) = (&place.ground, |args: &[&str]| place.ground.bed.kubectl(args));
    let credentials = ground.directories.path().join("credentials");
    let text = format!(
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        ground.s3.access_key(),
        ground.s3.secret_key()
    );
    std::fs::write(&credentials, text).expect("write");
    let config = format!("region={},s3ForcePathStyle=true,s3Url={}", ground.s3.region(), ground.s3.endpoint());
    install(
        &place,
        &[
            "--provider=aws",
            "--bucket=server",
            "--prefix=installed",
            "--backup-location-config",
            &config,
            "--use-volume-snapshots=false",
            "--features=EnableCSI",
            "--secret-file",
            &credentials.display().to_string(),
        ],
    );

    place.claim("data", &json!({}));
    place.pod("db", "data", &json!({}));
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "note", "namespace": place.shop}, "data": {"a": "one"}}));
    let run = |args: &str| {
        // A plan that is made here reads the bucket from here.
        let mut command = place.command(&args.split(' ').collect::<Vec<_>>());
        let run = crate::support::run(command.env("AWS_SHARED_CREDENTIALS_FILE", &credentials));
        assert_eq!(run.code, 0, "{args}: {run:?}");
        run.out
    };
    run(&format!("backup create b --include-namespaces {} --wait", place.shop));
    assert_eq!(ground.get_in(&place.own, "backup", "b")["status"]["csiVolumeSnapshotsCompleted"], 1);
    assert!(run("backup logs b").contains("level=info"));
    kubectl(&["delete", "configmap", "note", "-n", &place.shop]);

    // The plan that the server makes, asked for at its own port, is the one that is made here.
    let flags = "--from-backup b --include-resources configmaps,secrets -o json";
    let here = run(&format!("restore plan {flags}"));
    assert!(here.contains("note"), "{here}");
    assert_eq!(run(&format!("restore plan {flags} --by-server")), here);

    // In place of the pod that is gone there is another, and it takes over.
    kubectl(&["delete", "pod", "-n", &place.own, "-l", "deploy=velero", "--wait=true", "--timeout=60s"]);
    kubectl(&["rollout", "status", "deployment/velero", "-n", &place.own, "--timeout=90s"]);
    run("restore create r --from-backup b --include-resources configmaps --wait");
    assert_eq!(ground.get_in(&place.shop, "configmap", "note")["data"], json!({"a": "one"}));
    assert!(run("version").contains("Server"));
    place.end();
}
