//! Tests that the objects of `lifeboat install`, the chart and the kustomize base run as a pod, and that the commands
//! reach it there.

use super::place::Place;
use crate::support::{comes_to_be, program, run};
use lifeboat_archive::gzip::capped;
use lifeboat_testbed::helm;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server is given the port of the node that it asks for, which another test's may have until it ends.
const ROLLED_OUT: &str = "--timeout=240s";

/// The patch that lets the pod of the server run on a node that has no services, and whose images hold no Lifeboat.
fn on_this_node(api_server: &str) -> Value {
    let (host, port) = api_server.trim_start_matches("https://").split_once(':').expect("a port");
    let from_host = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
    let at = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    json!({"spec": {"template": {"spec": {
        "hostNetwork": true,
        "volumes": [from_host("program", program()), from_host("lib", "/lib"), from_host("lib64", "/lib64"), from_host("ssl", "/etc/ssl")],
        "containers": [{"name": "velero", "imagePullPolicy": "IfNotPresent",
            "securityContext": {"runAsUser": 65532},
            "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": host}, {"name": "KUBERNETES_SERVICE_PORT", "value": port}],
            "volumeMounts": [at("program", "/velero"), at("lib", "/lib"), at("lib64", "/lib64"), at("ssl", "/etc/ssl")]}],
    }}}})
}

/// Installs the server with these flags, lets it run on this node, and waits until its location can be used.
fn install(place: &Place, flags: &[&str]) {
    let installed = place.lifeboat(&[&["install", "--image=testbed.local/busybox:1"], flags].concat());
    assert_eq!(installed.code, 0, "{installed:?}");
    run_on_this_node(place);
}

/// Lets an installed server run on this node, and waits until its location can be used.
fn run_on_this_node(place: &Place) {
    let patch = on_this_node(place.ground.bed.plane.url()).to_string();
    place.ground.bed.kubectl(&["patch", "deployment", "velero", "-n", &place.own, "-p", &patch]);
    until_it_serves(place);
}

/// The `config` of a location in the S3 server.
fn s3_config(place: &Place) -> Value {
    let s3 = &place.ground.s3;
    json!({"region": s3.region(), "s3ForcePathStyle": "true", "s3Url": s3.endpoint()})
}

/// Waits until the server runs, and its location can be used.
fn until_it_serves(place: &Place) {
    let (ground, kubectl) = (&place.ground, |args: &[&str]| place.ground.bed.kubectl(args));
    kubectl(&["rollout", "status", "deployment/velero", "-n", &place.own, ROLLED_OUT]);
    let is_available =
        || ground.get_in(&place.own, "backupstoragelocation", "default")["status"]["phase"] == "Available";
    assert!(comes_to_be(is_available), "{}", kubectl(&["logs", "-n", &place.own, "deployment/velero", "--tail=40"]));
}

/// Saves a ConfigMap, loses it, and has it back.
fn saves_and_restores(place: &Place, name: &str) {
    let ground = &place.ground;
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": place.shop}, "data": {"a": "one"}}));
    let run = |args: &str| {
        let run = place.lifeboat(&args.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{args}: {run:?}");
    };
    run(&format!("backup create {name} --include-namespaces {} --include-resources configmaps --wait", place.shop));
    ground.bed.kubectl(&["delete", "configmap", name, "-n", &place.shop]);
    run(&format!("restore create {name} --from-backup {name} --wait"));
    assert_eq!(ground.get_in(&place.shop, "configmap", name)["data"], json!({"a": "one"}));
}

/// The credentials of the bucket, in a file.
fn credentials(place: &Place) -> PathBuf {
    let (ground, file) = (&place.ground, place.ground.directories.path().join("credentials"));
    let (id, secret) = (ground.s3.access_key(), ground.s3.secret_key());
    let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    std::fs::write(&file, text).expect("write");
    file
}

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
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
    ground.bed.kubectl(&["delete", "pod", "-n", &place.own, "-l", "deploy=velero", "--wait=true", "--timeout=180s"]);
    ground.bed.kubectl(&["rollout", "status", "deployment/velero", "-n", &place.own, ROLLED_OUT]);
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
    let credentials = credentials(&place);
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
        let run = run(command.env("AWS_SHARED_CREDENTIALS_FILE", &credentials));
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
    kubectl(&["delete", "pod", "-n", &place.own, "-l", "deploy=velero", "--wait=true", "--timeout=180s"]);
    kubectl(&["rollout", "status", "deployment/velero", "-n", &place.own, ROLLED_OUT]);
    run("restore create r --from-backup b --include-resources configmaps --wait");
    assert_eq!(ground.get_in(&place.shop, "configmap", "note")["data"], json!({"a": "one"}));
    assert!(run("version").contains("Server"));
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn a_chart_installs_a_server_and_its_uninstallation_leaves_the_backups() {
    let place = Place::start("chart");
    let (ground, folder) = (&place.ground, place.ground.directories.path());
    let values = json!({
        "image": {"repository": "testbed.local/busybox", "tag": "1"},
        "configuration": {"backupStorageLocation": [{"name": "default", "provider": "aws", "bucket": "server",
            "prefix": "by-chart", "default": true, "config": s3_config(&place)}]},
        "snapshotsEnabled": false,
        // The Job that does it finds no program in the image of this node.
        "upgradeCRDs": false,
    });
    std::fs::write(folder.join("values.yaml"), values.to_string()).expect("write");
    let credentials = format!("credentials.secretContents.cloud={}", credentials(&place).display());
    let helm = helm().expect("helm");
    let release = |args: &[&str]| {
        let mut command = Command::new(&helm);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, folder);
        }
        command.env("KUBECONFIG", ground.bed.plane.kubeconfig()).current_dir(folder);
        let run = run(command.args(args).args(["--namespace", &place.own]));
        assert_eq!(run.code, 0, "{run:?}");
    };
    let chart = deploy("helm/lifeboat").display().to_string();
    release(&["install", "velero", &chart, "--values=values.yaml", "--set-file", &credentials]);
    run_on_this_node(&place);
    saves_and_restores(&place, "by-chart");
    release(&["uninstall", "velero", "--wait", "--timeout=180s"]);
    assert_eq!(ground.get_in(&place.own, "deployment", "velero"), Value::Null);
    assert_eq!(ground.get_in(&place.own, "backup", "by-chart")["status"]["phase"], "Completed");
    place.end();
}

#[test]
#[ignore = "needs a node: make test-node"]
fn an_overlay_of_the_kustomize_base_installs_a_server() {
    let place = Place::start("kustomize");
    let (ground, folder) = (&place.ground, place.ground.directories.path());
    // Copies, filled in as the page about installing says.
    for (part, files) in [("base", &["install.yaml"][..]), ("s3", &[])] {
        std::fs::create_dir(folder.join(part)).expect("a folder");
        for file in [&["kustomization.yaml"], files].concat() {
            std::fs::copy(deploy("kustomize").join(part).join(file), folder.join(part).join(file)).expect("a copy");
        }
    }
    std::fs::copy(credentials(&place), folder.join("s3/credentials")).expect("a copy");
    let location = json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
        "metadata": {"name": "default", "namespace": "velero", "labels": {"component": "velero"}},
        "spec": {"provider": "aws", "default": true, "objectStorage": {"bucket": "server", "prefix": "by-kustomize"},
            "credential": {"name": "cloud-credentials", "key": "cloud"},
            "config": s3_config(&place)}});
    std::fs::write(folder.join("s3/location.yaml"), location.to_string()).expect("write");
    let mut on_node = on_this_node(ground.bed.plane.url());
    on_node["apiVersion"] = json!("apps/v1");
    on_node["kind"] = json!("Deployment");
    on_node["metadata"] = json!({"name": "velero", "namespace": "velero"});
    let own = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["../s3"], "namespace": place.own,
        "images": [{"name": "lifeboat/lifeboat", "newName": "testbed.local/busybox", "newTag": "1"}],
        "patches": [{"patch": on_node.to_string()}]});
    std::fs::create_dir(folder.join("own")).expect("a folder");
    std::fs::write(folder.join("own/kustomization.yaml"), own.to_string()).expect("write");
    let made = ground.bed.kubectl(&["kustomize", &folder.join("own").display().to_string()]);
    std::fs::write(folder.join("made.yaml"), made).expect("write");
    let made = folder.join("made.yaml").display().to_string();
    ground.bed.kubectl(&["apply", "--server-side", "-f", &made]);
    until_it_serves(&place);
    saves_and_restores(&place, "by-kustomize");
    ground.bed.kubectl(&["delete", "clusterrolebinding", "velero"]);
    place.end();
}
