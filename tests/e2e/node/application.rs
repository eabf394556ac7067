//! A whole application with volumes of every kind, lost and restored: every byte of what a CSI driver keeps comes back,
//! and of the other volumes their objects.

use super::driver::{recorded, stored};
use super::place::Place;
use crate::ground::{BUCKET, Server};
use crate::support::{eventually, gunzip_json};
use lifeboat_testbed::DRIVER;
use serde_json::{Value, json};

/// Puts a tree of files onto a volume whose like a copy easily gets wrong.
const FILL: &str = "rm -rf lost+found; echo precious > file; : > empty; mkdir -p d/e; echo more > d/x; ln d/x hard; ln -s d/x link; \
    ln -s nowhere dangling; mkfifo pipe; chmod 4751 d/x; chmod 2751 d; chmod 1777 d/e; chmod 0400 empty; chown 12:34 file; \
    chown -h 56:78 link; dd if=/dev/urandom of=random bs=65536 count=16 2>/dev/null; \
    dd if=/dev/urandom of=sparse bs=4096 count=1 seek=16 2>/dev/null; dd if=/dev/urandom of=sparse bs=4096 count=1 seek=900 conv=notrunc \
    2>/dev/null; truncate -s 4194304 sparse; touch -d '2001-02-03 04:05:06' file; \
    n=$(printf 'n\\303\\244me'); echo named > \"$n\"; touch \"$(printf 'odd\\377')\"; sync";

/// Everything of that tree that can be told from within: type, mode, owner, links, size, blocks, time of change; then
/// the content.
const LOOK: &str = "find . -exec stat -c '%n|%F|%a|%u:%g|%h|%s|%b|%Y' {} + | sort; find . -type f -exec sha256sum {} + | sort; \
    readlink link; readlink dangling";

/// The claims of a PersistentVolume that no driver makes, and what holds the data of that.
fn made_by_hand(place: &Place) -> [(&'static str, Value); 3] {
    let path = format!("/srv/{}", place.shop);
    [
        ("nfs", json!({"nfs": {"server": "nfs.example.com", "path": path}})),
        ("host", json!({"hostPath": {"path": path, "type": "DirectoryOrCreate"}})),
        (
            "foreign",
            json!({"csi": {"driver": "cannot.example.com", "volumeHandle": "disk-1", "volumeAttributes": {"tier": "gold"}}}),
        ),
    ]
}

fn volume_of(place: &Place, claim: &str) -> String {
    format!("{}-{claim}", place.shop)
}

/// The application: a StatefulSet with three claims and an emptyDir, a pod with a block device, a claim that nothing
/// mounts, and claims of volumes that were made by hand.
fn application(place: &Place) {
    let create = |object: &Value| place.ground.create(object);
    for (name, source) in made_by_hand(place) {
        let volume = volume_of(place, name);
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": place.shop, "name": name}});
        spec.as_object_mut().expect("a map").extend(source.as_object().cloned().unwrap_or_default());
        create(&json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec}));
        create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": place.shop},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": volume,
                "resources": {"requests": {"storage": "1Gi"}}}}));
    }
    create(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "block", "namespace": place.shop},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "storageClassName": "csi",
            "resources": {"requests": {"storage": "8Mi"}}}}));
    place.claim("spare", &json!({}));
    let container = |rest: Value| {
        let mut container = json!({"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", "sleep 3600"]});
        container.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        json!([container])
    };
    create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "raw", "namespace": place.shop},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": container(json!({"volumeDevices": [{"name": "block", "devicePath": "/dev/block"}]})),
            "volumes": [{"name": "block", "persistentVolumeClaim": {"claimName": "block"}}]}}));
    let at = |name: &str| json!({"name": name, "mountPath": format!("/{name}")});
    let template = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi",
            "resources": {"requests": {"storage": "16Mi"}}}})
    };
    create(
        &json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": place.shop},
        "spec": {"serviceName": "web", "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 0,
                "containers": container(json!({"volumeMounts": [at("data"), at("log"), at("conf"), at("scratch")]})),
                "volumes": [{"name": "scratch", "emptyDir": {}}]}},
            "volumeClaimTemplates": [template("data"), template("log"), template("conf")]}}),
    );
    eventually("the pod of the StatefulSet", || !place.ground.get_in(&place.shop, "pod", "web-0").is_null());
    ready(place, &place.shop, &["web-0", "raw"]);
    let sh = |pod: &str, command: &str| place.ask(&place.shop, pod, command);
    for disk in ["data", "log", "conf"] {
        sh("web-0", &format!("cd /{disk}; {FILL}; echo {disk} > own; sync"));
    }
    sh("web-0", "echo lost > /scratch/file");
    sh("raw", "dd if=/dev/urandom of=/dev/block bs=65536 count=128 conv=fsync 2>/dev/null");
    let spare = || visit(place, &place.shop, &format!("cd /disk; {FILL}"));
    spare();
}

fn ready(place: &Place, namespace: &str, pods: &[&str]) {
    for pod in pods {
        eventually(&format!("pod {pod} in {namespace}"), || !place.ground.get_in(namespace, "pod", pod).is_null());
        place.until_ready(namespace, pod);
    }
}

/// Runs a command in a pod that mounts a claim which nothing else mounts, and deletes the pod; the output.
fn visit(place: &Place, namespace: &str, command: &str) -> String {
    place.ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "visitor", "namespace": namespace, "labels": {"velero.io/exclude-from-backup": "true"}},
        "spec": {"terminationGracePeriodSeconds": 0, "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "spare"}}],
            "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", "sleep 3600"], "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}]}}));
    ready(place, namespace, &["visitor"]);
    let said = place.ask(namespace, "visitor", command);
    place.ground.bed.kubectl(&["delete", "pod", "visitor", "-n", namespace, "--wait=true", "--timeout=180s"]);
    said
}

/// Everything that the volumes of the CSI driver hold, by volume.
fn data(place: &Place, namespace: &str) -> Vec<(&'static str, String)> {
    let of_web = |disk: &str| place.ask(namespace, "web-0", &format!("cd /{disk}; {LOOK}"));
    vec![
        ("data", of_web("data")),
        ("log", of_web("log")),
        ("conf", of_web("conf")),
        ("block", place.ask(namespace, "raw", "sha256sum /dev/block; blockdev --getsize64 /dev/block")),
        ("spare", visit(place, namespace, &format!("cd /disk; {LOOK}"))),
    ]
}

/// The records of the volumes in a backup: claim, method, result, and the reason for a volume that was skipped.
fn volume_info(place: &Place, backup: &str) -> Vec<Value> {
    let file = format!("application/backups/{backup}/{backup}-volumeinfo.json.gz");
    let all = gunzip_json(&place.ground.s3.file(BUCKET, &file));
    let short = |info: &Value| json!([info["pvcName"], info["backupMethod"], info["result"], info["skippedReason"]]);
    let mut all: Vec<Value> = all.as_array().into_iter().flatten().map(short).collect();
    all.sort_by_key(Value::to_string);
    all
}

/// Loses the application, and the volumes that were made by hand.
fn lose_all(place: &Place) {
    place.lose(&place.shop);
    for (name, _) in made_by_hand(place) {
        place.ground.bed.kubectl(&["delete", "pv", &volume_of(place, name), "--timeout=180s"]);
    }
}

/// Restores the backup by the server of a namespace into another namespace, or its own, and gives the restore when it
/// has ended.
fn restored(place: &Place, server: &str, name: &str, into: &str) -> Value {
    let mapping = if into == place.shop { json!({}) } else { json!({&place.shop: into}) };
    let spec = json!({"backupName": "b", "namespaceMapping": mapping});
    place.ground.velero_in(server, "Restore", name, &spec);
    // In another namespace a claim does not get the volume that was made by hand for the living one.
    let (phase, errors) =
        if into == place.shop { ("Completed", 0) } else { ("PartiallyFailed", made_by_hand(place).len() as u64) };
    let restore = place.ground.until_in(server, "restore", name, phase);
    assert_eq!(restore["status"]["errors"].as_u64().unwrap_or_default(), errors, "{restore}");
    ready(place, into, &["web-0", "raw"]);
    assert_eq!(place.ask(into, "web-0", "ls /scratch"), "", "an emptyDir begins anew");
    restore
}

/// The volumes that were made by hand are there as they were, and their claims are bound to them.
fn has_volumes_made_by_hand(place: &Place) {
    for (name, source) in made_by_hand(place) {
        eventually(&format!("the bound claim {name}"), || {
            place.ground.get_in(&place.shop, "persistentvolumeclaim", name)["status"]["phase"] == "Bound"
        });
        let spec = place.ground.get_in("", "persistentvolume", &volume_of(place, name))["spec"].clone();
        let expected = source.as_object().expect("a source");
        let found: serde_json::Map<String, Value> =
            expected.keys().map(|key| (key.clone(), spec[key].clone())).collect();
        assert_eq!(&found, expected, "{name}: {spec}");
        assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain", "{name}");
    }
}

/// Removes the contents of the restored snapshots, which keep nothing in the storage.
fn wipe_contents(place: &Place) {
    let line = "jsonpath={range .items[*]}{.metadata.name} {.spec.volumeSnapshotRef.namespace}{\"\\n\"}{end}";
    let all = place.ground.bed.kubectl(&["get", "volumesnapshotcontents", "-o", line]);
    for (name, namespace) in all.lines().filter_map(|line| line.split_once(' ')) {
        if namespace.starts_with(&place.shop) {
            place.ground.bed.kubectl(&["delete", "volumesnapshotcontent", name, "--timeout=180s"]);
        }
    }
}

/// A server of another namespace, with the same location.
fn new_server(place: &Place, own: &str) -> Server {
    let ground = &place.ground;
    ground.bed.kubectl(&["create", "namespace", own]);
    ground.credentials(own);
    ground.s3_location_in(own, "application", ground.s3.endpoint());
    let flags = ["--namespace", own, "--features=EnableCSI", "--item-operation-sync-frequency=1s"];
    ground.server_with("two", &ground.bed.plane.kubeconfig(), &flags)
}

/// scenario: Migration, Snapshot
#[test]
#[ignore = "needs a node: make test-node"]
fn an_application_comes_back_in_place_elsewhere_and_in_a_wiped_cluster() {
    let place = Place::start("application");
    application(&place);
    let before = data(&place, &place.shop);
    let server = place.server();
    place.backup("b", &json!({}));
    let backup = place.ground.until_in(&place.own, "backup", "b", "PartiallyFailed");
    let counts = ["errors", "warnings", "csiVolumeSnapshotsAttempted", "csiVolumeSnapshotsCompleted"];
    assert_eq!(counts.map(|key| backup["status"][key].as_u64().unwrap_or_default()), [1, 1, 5, 5], "{backup}");
    let native = "volumeSnapshot: snapshots are taken by default, but no applicable volumesnapshotter found: there is no volume \
        snapshot location;";
    assert_eq!(
        volume_info(&place, "b"),
        [
            json!(["block", "CSISnapshot", "succeeded", null]),
            json!(["conf-web-0", "CSISnapshot", "succeeded", null]),
            json!(["data-web-0", "CSISnapshot", "succeeded", null]),
            json!(["foreign", "CSISnapshot", "failed", null]),
            json!(["host", null, null, native]),
            json!(["log-web-0", "CSISnapshot", "succeeded", null]),
            json!(["nfs", null, null, native]),
            json!(["spare", "CSISnapshot", "succeeded", null]),
        ]
    );
    let results = place.described("b").to_string();
    for words in [
        "cannot.example.com",
        &format!("the data of 3 volumes is not in this backup, only their objects: {}/foreign", place.shop),
    ] {
        assert!(results.contains(words), "{words} in {results}");
    }
    assert_eq!(recorded(&place, "b"), stored(&place.shop));

    lose_all(&place);
    restored(&place, &place.own, "in-place", &place.shop);
    assert_eq!(data(&place, &place.shop), before, "in place");
    has_volumes_made_by_hand(&place);

    let copy = format!("{}-copy", place.shop);
    restored(&place, &place.own, "beside", &copy);
    assert_eq!(data(&place, &copy), before, "in another namespace");
    assert_eq!(data(&place, &place.shop), before, "what is there stays as it is");

    // Nothing of Velero, the application, its volumes and its snapshots is in the cluster any more.
    server.kill();
    lose_all(&place);
    place.lose(&copy);
    for restore in ["in-place", "beside"] {
        // No server does what this waits for.
        let patch = "{\"metadata\":{\"finalizers\":null}}";
        place.ground.bed.kubectl(&["patch", "restore", restore, "-n", &place.own, "--type=merge", "-p", patch]);
    }
    place.lose(&place.own);
    let of_driver = format!("jsonpath={{.items[?(@.spec.csi.driver==\"{DRIVER}\")].spec.claimRef.namespace}}");
    eventually("the end of the volumes", || {
        !place.ground.bed.kubectl(&["get", "pv", "-o", &of_driver]).contains(&place.shop)
    });
    wipe_contents(&place);
    let own = "velero-application-two";
    let _server = new_server(&place, own);
    eventually("the backup out of the bucket", || {
        place.ground.get_in(own, "backup", "b")["status"]["phase"] == "PartiallyFailed"
    });
    restored(&place, own, "anew", &place.shop);
    assert_eq!(data(&place, &place.shop), before, "in a wiped cluster");
    has_volumes_made_by_hand(&place);
    for (name, _) in made_by_hand(&place) {
        place.ground.bed.kubectl(&["delete", "pv", &volume_of(&place, name), "--wait=false"]);
    }
    place.ground.bed.kubectl(&["delete", "namespace", own, &place.shop, "--wait=false"]);
}
