//! docs/disaster.md, as it stands there, in an empty cluster.

use crate::ground::{BUCKET, Ground};
use crate::support::{Bed, Run, run, spawn_logged};
use lifeboat_testbed::{Binaries, S3Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};

/// What a person at a shell has: the programs, the new cluster and the variables that the page begins with.
struct Shell {
    bed: Bed,
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    server: Option<Child>,
}

/// What waits for a pod: this cluster has no nodes, so a process takes its place.
const ROLLOUT: &str = "kubectl -n velero rollout status deployment/velero --timeout=5m\n";

impl Shell {
    /// With the bucket of a cluster that is gone.
    fn in_an_empty_cluster(s3: &S3Server, backup: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = Binaries::ensure().expect("the programs of the test bed").path("kubectl");
        for (name, program) in [("kubectl", kubectl.as_path()), ("lifeboat", Path::new(env!("CARGO_BIN_EXE_lifeboat")))]
        {
            std::os::unix::fs::symlink(program, folder.path().join(name)).expect("a link");
        }
        let credentials = folder.path().join("credentials");
        let (key, secret) = (s3.access_key(), s3.secret_key());
        let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
        std::fs::write(&credentials, text).expect("write");
        let (region, endpoint) = (s3.region(), s3.endpoint());
        let variables = vec![
            ("BUCKET", BUCKET.to_owned()),
            ("PREFIX", "main".to_owned()),
            ("LOCATION", format!("s3://{BUCKET}/main?region={region}&endpoint={endpoint}")),
            ("CONFIG", format!("region={region},s3ForcePathStyle=true,s3Url={endpoint}")),
            ("AWS_SHARED_CREDENTIALS_FILE", credentials.display().to_string()),
            ("BACKUP", backup.to_owned()),
        ];
        Self { bed: Bed::start(), folder, variables, server: None }
    }

    /// Runs a block of the page.
    fn run(&mut self, block: &str) -> Run {
        let (before, after) = block.split_once(ROLLOUT).unwrap_or((block, ""));
        let mut done = self.sh(before);
        if before.len() < block.len() {
            assert_eq!(done.code, 0, "{before}\n{done:?}");
            self.bed.kubectl(&["scale", "deployment", "velero", "-n", "velero", "--replicas=0"]);
            self.bed.kubectl(&["wait", "pods", "-n", "velero", "-l", "deploy=velero", "--for=delete", "--timeout=30s"]);
            let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
            let addresses = ["--metrics-address=127.0.0.1:0", "--download-address=127.0.0.1:0"];
            command.arg("server").args(addresses).args(["--features=EnableCSI", "--backup-sync-period=1s"]);
            command.env("KUBECONFIG", self.bed.plane.kubeconfig());
            self.server = Some(spawn_logged(&mut command, &self.folder.path().join("server.log")));
            done = self.sh(after);
        }
        done
    }

    fn sh(&self, lines: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", lines]).current_dir(self.folder.path());
        command.envs(self.variables.iter().cloned()).env("KUBECONFIG", self.bed.plane.kubeconfig());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().display()));
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        run(&mut command)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The blocks of the page for a shell, without lines that only set variables.
fn blocks(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = |block: &str| -> String {
        let kept = block.lines().filter(|line| !line.starts_with("export "));
        kept.map(|line| format!("{line}\n")).collect()
    };
    blocks.map(lines).filter(|block| !block.is_empty()).collect()
}

/// Name and number of a ConfigMap, but of the one that each namespace has.
fn data(map: &Value) -> Option<(String, String)> {
    let name = map["metadata"]["name"].as_str()?.to_owned();
    let number = map["data"]["number"].as_str()?.to_owned();
    (name != "kube-root-ca.crt").then_some((name, number))
}

#[test]
fn a_lost_cluster_comes_back_by_the_page_for_it() {
    let old = Ground::start();
    old.many("shop", 5);
    old.create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "shop"}, "stringData": {"a": "b"}}));
    old.s3_location("main", old.s3.endpoint());
    let server = old.server("old");
    old.until("backupstoragelocation", "main", "Available");
    old.velero("Backup", "nightly-20261122030000", &json!({"storageLocation": "main", "includedNamespaces": ["shop"]}));
    old.until("backup", "nightly-20261122030000", "Completed");
    let expected = old.maps("shop");
    server.kill();
    // Each test has one control plane at a time.
    let Ground { bed, s3, directories: _directories } = old;
    drop(bed);

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/disaster.md");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains(ROLLOUT), "the page no longer waits for the server as this test knows it");
    let mut shell = Shell::in_an_empty_cluster(&s3, "nightly-20261122030000");
    for block in blocks(&page) {
        let done = shell.run(&block);
        let log = std::fs::read_to_string(shell.folder.path().join("server.log")).unwrap_or_default();
        assert_eq!(done.code, 0, "{block}\n{}\n{}\n{log}", done.out, done.err);
    }
    let kubectl = |args: &[&str]| shell.bed.kubectl(args);
    let maps: Value = serde_json::from_str(&kubectl(&["get", "configmaps", "-n", "shop", "-o", "json"])).expect("JSON");
    let found: BTreeMap<String, String> = maps["items"].as_array().expect("a list").iter().filter_map(data).collect();
    assert_eq!(found, expected);
    let get = ["get", "secret", "keys", "-n", "shop", "-o", "jsonpath={.data.a}"];
    assert_eq!(kubectl(&get), "Yg==");
    let phase = ["get", "backup", "first-after", "-n", "velero", "-o", "jsonpath={.status.phase}"];
    assert_eq!(kubectl(&phase), "Completed");
}
