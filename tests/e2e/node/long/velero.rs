//! Velero's own server and node agent, and ours, in one namespace: each restores what the other has saved, alone and
//! mixed.

use crate::node::movers::{credentials, install, location_config};
use crate::node::place::{Place, PodVolume};
use crate::node::transfer_kills::verify;
use crate::support::comes_to_be_within;
use lifeboat_testbed::{VELERO_IMAGE, VELERO_PLUGIN_IMAGE, VeleroPrograms, import_velero};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// More than any step takes on a loaded machine.
const LONGEST: Duration = Duration::from_secs(300);

/// The maker of a server or of a node agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Lifeboat,
    Velero,
}

/// A name that RBAC takes and that would be a path elsewhere.
const ROLE: &str = r"CORP\alice-view";

/// An installation whose server and node agent are exchanged while its objects and its bucket stay.
struct Installation {
    place: Place,
    /// The Deployment and the DaemonSet of both makers.
    workloads: BTreeMap<&'static str, Value>,
    now: (Maker, Maker),
    /// The contents of the volumes when each backup was made.
    saved: BTreeMap<String, String>,
}

impl Installation {
    /// Installs ours and keeps what Velero's client would install.
    fn start(programs: &VeleroPrograms) -> Self {
        import_velero(programs).expect("images");
        let place = Place::start("in-turn");
        install(&place, &["--use-node-agent"]);
        let mut workloads = BTreeMap::new();
        for (key, kind, name) in [("our server", "deployment", "velero"), ("our agent", "daemonset", "node-agent")] {
            let found = place.ground.get_in(&place.own, kind, name);
            workloads.insert(key, without_facts(&found));
        }
        let secret = format!("--secret-file={}", credentials(&place).display());
        let config = format!("--backup-location-config={}", location_config(&place));
        let (image, plugin) = (format!("--image={VELERO_IMAGE}"), format!("--plugins={VELERO_PLUGIN_IMAGE}"));
        let none = ["velero-pod-cpu", "velero-pod-mem", "node-agent-pod-cpu", "node-agent-pod-mem"];
        let none = none.iter().flat_map(|what| [format!("--{what}-request=0"), format!("--{what}-limit=0")]);
        let mut client = Command::new(&programs.velero);
        client.args(["install", "--dry-run", "-o", "json", "--provider=aws", "--bucket=server", "--prefix=installed"]);
        client.args([
            "--use-node-agent",
            "--use-volume-snapshots=false",
            "--features=EnableCSI",
            "--namespace",
            &place.own,
        ]);
        client.args([secret, config, image, plugin]).args(none);
        let printed = client.env("KUBECONFIG", place.ground.bed.plane.kubeconfig()).output().expect("velero");
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let all: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
        for (key, kind) in [("Velero's server", "Deployment"), ("Velero's agent", "DaemonSet")] {
            let found = all["items"].as_array().and_then(|items| items.iter().find(|item| item["kind"] == kind));
            workloads.insert(key, without_facts(found.expect(kind)));
        }
        Self { place, workloads, now: (Maker::Lifeboat, Maker::Lifeboat), saved: BTreeMap::new() }
    }

    /// Exchanges server and node agent.
    fn exchange(&mut self, server: Maker, agent: Maker) {
        let parts = [
            ("deployment/velero", self.now.0, server, "our server", "Velero's server", "deploy=velero"),
            ("daemonset/node-agent", self.now.1, agent, "our agent", "Velero's agent", "role=node-agent"),
        ];
        let (own, bed) = (&self.place.own, &self.place.ground.bed);
        for (workload, before, after, ours, theirs, pods) in parts {
            if before == after {
                continue;
            }
            bed.kubectl(&["delete", workload, "-n", own, "--timeout=120s"]);
            bed.kubectl(&["wait", "--for=delete", "pod", "-l", pods, "-n", own, "--timeout=120s"]);
            self.place.ground.create(&self.workloads[if after == Maker::Lifeboat { ours } else { theirs }]);
            bed.kubectl(&["rollout", "status", workload, "-n", own, "--timeout=180s"]);
        }
        self.now = (server, agent);
    }

    /// The words of the log of the server, for a test that fails.
    fn log(&self) -> String {
        let logs = |what: &str| self.place.ground.bed.kubectl(&["logs", "-n", &self.place.own, what, "--tail=60"]);
        format!("{:?}\n{}\n{}", self.now, logs("deployment/velero"), logs("daemonset/node-agent"))
    }

    /// Waits for the end of a backup or restore, which has to be complete.
    fn completed(&self, kind: &str, name: &str) {
        let phase = || self.place.ground.get_in(&self.place.own, kind, name)["status"]["phase"].clone();
        let ends = ["Completed", "PartiallyFailed", "Failed", "FailedValidation"];
        let ended = comes_to_be_within(LONGEST, || ends.iter().any(|end| phase() == *end));
        let object = || self.place.ground.get_in(&self.place.own, kind, name);
        assert!(ended && phase() == "Completed", "{kind} {name}: {} {}", object(), self.log());
    }

    /// Changes the files a little and saves them.
    fn back_up(&mut self, name: &str) {
        self.place.ask(
            &self.place.shop,
            "web",
            &format!("echo {name} >> /data/log && echo {name} > /scratch/{name} && sync"),
        );
        self.saved.insert(name.to_owned(), contents(&self.place));
        let spec = json!({"storageLocation": "default", "snapshotMoveData": true, "csiSnapshotTimeout": "5m0s"});
        self.place.backup(name, &spec);
        self.completed("backup", name);
    }

    /// Loses the application and restores it, with the files as they were.
    fn restore(&self, backup: &str) {
        self.place.lose(&self.place.shop);
        let server = if self.now.0 == Maker::Velero { "v" } else { "l" };
        let agent = if self.now.1 == Maker::Velero { "v" } else { "l" };
        let name = format!("{backup}-{server}{agent}");
        self.place.ground.velero_in(&self.place.own, "Restore", &name, &json!({"backupName": backup}));
        self.completed("restore", &name);
        self.place.until_ready(&self.place.shop, "web");
        assert_eq!(contents(&self.place), self.saved[backup], "{backup} by {:?}", self.now);
        let role = self.place.ground.get_in(&self.place.shop, "role", ROLE);
        assert_eq!(role["rules"], rules(), "{backup} by {:?}", self.now);
    }
}

/// The rules of [`ROLE`].
fn rules() -> Value {
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}])
}

/// An object as it was made: without what the cluster adds.
fn without_facts(object: &Value) -> Value {
    let metadata = json!({"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
        "labels": object["metadata"]["labels"]});
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"]})
}

/// All entries of the volumes.
fn contents(place: &Place) -> String {
    place.look(&place.shop, "web", &["data", "scratch"])
}

/// A claim whose snapshots are moved, and an emptyDir whose files are saved from the node.
///
/// scenario: Upgrade, FSBackup
#[test]
#[ignore = "needs a node and Velero: make test-long"]
fn velero_and_lifeboat_restore_each_others_volumes_alone_and_mixed() {
    use Maker::{Lifeboat, Velero};
    let programs = VeleroPrograms::build().expect("Velero");
    let mut both = Installation::start(&programs);
    both.place.claim("data", &json!({}));
    both.place.ground.create(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": ROLE, "namespace": both.place.shop}, "rules": rules()}));
    let volumes = [PodVolume::Claim("data"), PodVolume::EmptyDir("scratch")];
    let metadata = json!({"annotations": {"backup.velero.io/backup-volumes": "scratch"}});
    both.place.sleeper("web", &volumes, &metadata);
    let fill = "mkdir /data/own && echo precious > /data/own/file && chmod 640 /data/own/file && chown -R 1000:2000 /data/own \
                && chmod 2750 /data/own && ln -s own/file /data/link && mkdir /data/empty && head -c 3000000 /dev/urandom > /data/big \
                && chmod 4755 /data/big && head -c 100000 /dev/urandom > /scratch/some && chmod 600 /scratch/some";
    both.place.ask(&both.place.shop, "web", fill);

    both.back_up("ours");
    both.exchange(Velero, Lifeboat);
    both.restore("ours");
    both.back_up("velero-with-our-agent");
    both.exchange(Velero, Velero);
    both.restore("velero-with-our-agent");
    both.restore("ours");
    both.back_up("velero");
    both.exchange(Lifeboat, Velero);
    both.restore("velero");
    both.back_up("ours-with-veleros-agent");
    both.exchange(Lifeboat, Lifeboat);
    both.restore("ours-with-veleros-agent");
    both.restore("velero");
    let verified = verify(&both.place);
    assert_eq!(verified.code, 0, "{verified:?}");
    both.place.end();
}
