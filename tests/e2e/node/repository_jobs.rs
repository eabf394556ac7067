//! Repositories maintained by real Jobs of an installed server.

use super::movers::install;
use super::place::{Place, PodVolume};
use crate::support::{comes_to_be, comes_to_be_within};
use serde_json::{Value, json};
use std::time::Duration;

/// The smaller rights are enough for it.
///
/// scenario: RepoMaintenance
#[test]
#[ignore = "needs a node: make test-node"]
fn repositories_are_maintained_by_jobs() {
    let place = Place::start("jobs");
    install(&place, &["--use-node-agent", "--least-privilege", "--maintenance-job-mem-limit=256Mi"]);
    let ground = &place.ground;
    let metadata = json!({"annotations": {"backup.velero.io/backup-volumes": "data"}});
    place.sleeper("web", &[PodVolume::EmptyDir("data")], &metadata);
    place.ask(&place.shop, "web", "echo precious > /data/file && sync");
    let namespace = format!("--include-namespaces={}", place.shop);
    let saved = place.lifeboat(&["backup", "create", "b", &namespace, "--wait"]);
    assert_eq!(saved.code, 0, "{saved:?}");

    let name = format!("{}-default-kopia", place.shop);
    let repository = || ground.get_in(&place.own, "backuprepository", &name);
    let often = r#"{"spec": {"maintenanceFrequency": "2s"}}"#;
    ground.bed.kubectl(&["patch", "backuprepository", &name, "-n", &place.own, "--type=merge", "-p", often]);
    let runs = || repository()["status"]["recentMaintenance"].as_array().cloned().unwrap_or_default();
    let logs = || {
        let described = ground.bed.kubectl(&["describe", "jobs,pods", "-n", &place.own, "-l", "velero.io/repo-name"]);
        format!(
            "{} {described} {}",
            repository(),
            ground.bed.kubectl(&["logs", "-n", &place.own, "deployment/velero", "--tail=40"])
        )
    };
    assert!(comes_to_be_within(Duration::from_secs(240), || runs().len() >= 5), "{}", logs());
    for run in runs() {
        assert_eq!((&run["result"], &run["message"]), (&json!("Succeeded"), &Value::Null), "{}", logs());
    }
    let seldom = r#"{"spec": {"maintenanceFrequency": "1h"}}"#;
    ground.bed.kubectl(&["patch", "backuprepository", &name, "-n", &place.own, "--type=merge", "-p", seldom]);
    let jobs = || {
        let listed = ["get", "jobs", "-n", &place.own, "-l", &format!("velero.io/repo-name={name}"), "-o", "json"];
        let listed: Value = serde_json::from_str(&ground.bed.kubectl(&listed)).expect("JSON");
        listed["items"].as_array().cloned().unwrap_or_default()
    };
    let finished = |job: &Value| job["status"]["succeeded"] == 1;
    assert!(comes_to_be(|| jobs().iter().all(finished)), "{}", logs());
    // One may have ended after the frequency was changed: it is recorded, and counted, by the next run.
    let left = jobs();
    assert!((3..=4).contains(&left.len()), "{left:?}");
    let of_pod =
        |job: &Value| job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"].clone();
    assert_eq!(of_pod(&left[0]), "256Mi");
    let noted = &repository()["metadata"]["annotations"]["lifeboat.io/last-maintenance"];
    let noted: Value =
        serde_json::from_str(noted.as_str().unwrap_or_default()).unwrap_or_else(|e| panic!("{e} {}", logs()));
    assert_eq!(noted["full"]["reason"], "full maintenance has not run yet");

    let described = place.lifeboat(&["repo", "describe", &name]);
    assert!(described.out.contains("Last Full Maintenance:"), "{described:?}");

    // What was maintained still restores.
    place.lose(&place.shop);
    let back = place.lifeboat(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
    assert_eq!(back.code, 0, "{back:?}");
    place.until_ready(&place.shop, "web");
    assert_eq!(place.ask(&place.shop, "web", "cat /data/file").trim(), "precious");
    place.end();
}
