//! Claims that no running pod mounts: their files are saved through reader pods, and come back without a pod.

use super::movers::install;
use super::place::{Place, sleeping_container};
use crate::support::{comes_to_be, run};
use serde_json::{Value, json};

/// A pod that mounts a claim and sleeps.
fn sleeper(claim: &str) -> Value {
    json!({"terminationGracePeriodSeconds": 0, "containers": [sleeping_container(&["data"])],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]})
}

/// Starts what mounts the two claims: a Deployment that was scaled to 0, and a pod of the test.
fn start(place: &Place) {
    let bed = &place.ground.bed;
    bed.kubectl(&["scale", "deployment/web", "-n", &place.shop, "--replicas=1"]);
    place
        .ground
        .create(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer", "namespace": place.shop},
        "spec": sleeper("archive")}));
    bed.kubectl(&["wait", "--for=condition=Available", "deployment/web", "-n", &place.shop, "--timeout=180s"]);
    place.until_ready(&place.shop, "writer");
}

/// Stops it, and waits until no pod is there.
fn stop(place: &Place) {
    let bed = &place.ground.bed;
    bed.kubectl(&["scale", "deployment/web", "-n", &place.shop, "--replicas=0"]);
    bed.kubectl(&["delete", "pod/writer", "-n", &place.shop]);
    assert!(comes_to_be(|| pods(place).is_empty()), "pods stay: {}", pods(place));
}

/// The names of the pods of the application's namespace.
fn pods(place: &Place) -> String {
    place.ground.bed.kubectl(&["get", "pods", "-n", &place.shop, "-o", "name"]).trim().to_owned()
}

/// Files, owners and modes of both claims.
fn contents(place: &Place) -> [String; 2] {
    ["deployment/web", "writer"].map(|pod| place.look(&place.shop, pod, &["data"]))
}

/// The bytes that the PodVolumeBackups of a backup have read anew, by claim.
fn read_anew(place: &Place, backup: &str) -> Vec<(Value, i64)> {
    let of = format!("velero.io/backup-name={backup}");
    let found = place.ground.bed.kubectl(&["get", "podvolumebackups", "-n", &place.own, "-l", &of, "-o", "json"]);
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let of_one = |one: &Value| {
        let annotations = &one["metadata"]["annotations"];
        assert_eq!(annotations["lifeboat.io/by-reader-pod"], "true", "{one}");
        (annotations["velero.io/pvc-name"].clone(), one["status"]["incrementalBytes"].as_i64().unwrap_or_default())
    };
    let mut all: Vec<(Value, i64)> = found["items"].as_array().expect("a list").iter().map(of_one).collect();
    all.sort_by_key(|(claim, _)| claim.to_string());
    all
}

/// The namespace admits only pods of the restricted level meanwhile, and the server has the smaller rights.
#[test]
#[ignore = "needs a node: make test-node"]
fn claims_that_no_running_pod_mounts_are_saved_and_come_back() {
    let place = Place::start("readers");
    install(&place, &["--use-node-agent", "--least-privilege"]);
    let bed = &place.ground.bed;
    place.claim("data", &json!({}));
    place.claim("archive", &json!({}));
    let labels = json!({"app": "web"});
    place.ground.create(
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": place.shop},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": sleeper("data")}}}),
    );
    start(&place);
    for pod in ["deployment/web", "writer"] {
        let fill = "mkdir -m 2750 /data/own && echo precious > /data/own/file && chmod 640 /data/own/file && chown -R 1000:2000 /data/own \
                    && chmod 2750 /data/own && ln -s own/file /data/link && mkdir /data/empty && head -c 1000000 /dev/urandom > /data/big \
                    && chmod 4755 /data/big && sync";
        place.ask(&place.shop, pod, fill);
    }
    let before = contents(&place);
    assert!(before[0].contains("data/own/file 1000:2000 640"), "{before:?}");
    stop(&place);
    let level = "pod-security.kubernetes.io/enforce";
    bed.kubectl(&["label", "namespace", &place.shop, &format!("{level}=restricted")]);

    let namespace = format!("--include-namespaces={}", place.shop);
    let by_files = ["--default-volumes-to-fs-backup", "--snapshot-volumes=false", "--wait"];
    for name in ["b", "again"] {
        let saved = place.lifeboat(&[&["backup", "create", name, &namespace], &by_files[..]].concat());
        let facts = place.ground.get_in(&place.own, "backup", name);
        assert_eq!((saved.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{saved:?} {facts}");
        assert_eq!(facts["status"]["unprotectedVolumes"].as_i64().unwrap_or_default(), 0);
        assert!(comes_to_be(|| pods(&place).is_empty()), "a reader pod stays: {}", pods(&place));
    }
    let first = read_anew(&place, "b");
    assert!(first.iter().all(|(_, bytes)| *bytes > 1_000_000), "{first:?}");
    // What one reader pod has saved is the parent of the next.
    assert_eq!(read_anew(&place, "again"), [(json!("archive"), 0), (json!("data"), 0)]);

    let archive = format!("{}/archive", place.shop);
    // The user reads the bucket, with credentials of their own.
    let mut listing = place.command(&["volume", "ls", "b", &archive]);
    let s3 = &place.ground.s3;
    let files = run(listing.env("AWS_ACCESS_KEY_ID", s3.access_key()).env("AWS_SECRET_ACCESS_KEY", s3.secret_key()));
    assert!(files.code == 0 && files.out.contains("big") && files.out.contains("own"), "{files:?}");

    place.lose(&place.shop);
    let back = place.lifeboat(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
    let facts = place.ground.get_in(&place.own, "restore", "r");
    assert_eq!((back.code, &facts["status"]["phase"]), (0, &json!("Completed")), "{back:?} {facts}");
    assert_eq!(pods(&place), "");
    bed.kubectl(&["label", "namespace", &place.shop, &format!("{level}-")]);
    start(&place);
    assert_eq!(contents(&place), before);
    place.end();
}
