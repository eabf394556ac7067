//! Faults of the bucket, the pods and the repository while volumes move: what can be outlived is, and everything else is told with its reason. At the end
//! nothing is left.

use super::movers::{install_at, listed, listed_in};
use super::place::Place;
use super::transfer_kills::{last_words, left, verify};
use crate::support::{comes_to_be_within, ended, eventually, with_object};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The time that a slow bucket takes for each request about the contents of repositories.
const SLOWNESS: Duration = Duration::from_millis(400);
/// The longest time of a backup or restore beside that of its faults.
const LONGEST: Duration = Duration::from_secs(420);
/// The kinds of transfers.
const KINDS: [&str; 3] = ["podvolumebackups.velero.io", "podvolumerestores.velero.io", "datauploads.velero.io"];
/// The flag that selects the pod whose files are saved, and the one for the claim whose snapshot is moved.
const FILES: &str = "--selector=kind=files";
const MOVED: &str = "--selector=kind=moved";

/// A rule for all requests about the contents of repositories.
fn contents(method: &'static str, nth: Nth, fault: Fault) -> Rule {
    Rule::new(method, "*/kopia/*", nth, fault)
}

fn answer(status: u16, code: &str) -> Fault {
    let body = format!("<Error><Code>{code}</Code><Message>of the test</Message></Error>");
    Fault::Answer { status, headers: vec![("content-type", "application/xml".to_owned())], body }
}

/// A bucket that is slow, and asks to slow down first.
fn slow() -> Vec<Rule> {
    vec![
        contents("PUT", Nth::First(4), answer(503, "SlowDown")),
        contents("GET", Nth::First(4), answer(503, "ServiceUnavailable")),
        contents("*", Nth::Every, Fault::Delay(SLOWNESS)),
    ]
}

/// An installation, and a pod with files of its own.
pub(super) struct FaultyGround {
    place: Place,
    proxy: Proxy,
}

impl FaultyGround {
    /// Installs with the bucket behind a proxy, and fills the volume of a pod.
    pub(super) fn start(name: &str) -> Self {
        let place = Place::start(name);
        let proxy = Proxy::start_on_node(place.ground.s3.endpoint()).expect("a proxy");
        install_at(&place, proxy.url(), &["--use-node-agent"]);
        place.ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": place.shop, "labels": {"kind": "files"},
                "annotations": {"backup.velero.io/backup-volumes": "scratch"}},
            "spec": {"terminationGracePeriodSeconds": 0,
                "containers": [{"name": "a", "image": "testbed.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sh", "-c", "sleep 36000"], "volumeMounts": [{"name": "scratch", "mountPath": "/data"}]}],
                "volumes": [{"name": "scratch", "emptyDir": {}}]}}));
        place.ground.bed.kubectl(&["wait", "--for=condition=Ready", "pod/web", "-n", &place.shop, "--timeout=120s"]);
        Self { place, proxy }
    }

    /// Gives the pod other files; all that they are.
    fn fill(&self) -> String {
        let fill = "mkdir -p /data/own && head -c 12000000 /dev/urandom > /data/big && head -c 2000 /dev/urandom > /data/own/file && \
                    chown -R 1000:2000 /data/own && chmod 2750 /data/own && sync";
        self.place.ask(&self.place.shop, "web", fill);
        listed(&self.place, "web")
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.place.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process")
    }

    fn begin_backup(&self, name: &str, more: &[&str]) -> Child {
        let namespaces = format!("--include-namespaces={}", self.place.shop);
        self.spawn(&[&["backup", "create", name, &namespaces, "--wait"], more].concat())
    }

    /// Restores a backup of the files into another namespace of the name of the restore.
    fn begin_restore(&self, name: &str, backup: &str) -> Child {
        let mapping = format!("--namespace-mappings={}:{}", self.place.shop, self.copy(name));
        self.spawn(&["restore", "create", name, &format!("--from-backup={backup}"), &mapping, "--wait"])
    }

    fn copy(&self, restore: &str) -> String {
        format!("{}-{restore}", self.place.shop)
    }

    /// Waits for the end of a backup or restore, which has to be in this phase, and until nothing is left of its transfers.
    fn ends(&self, mut child: Child, [kind, name, phase]: [&str; 3]) {
        ended(&mut child);
        let found = self.place.ground.get_in(&self.place.own, kind, name);
        assert_eq!(found["status"]["phase"], phase, "{kind} {name}: {} {}", found["status"], last_words(&self.place));
        let is_clean = comes_to_be_within(LONGEST, || left(&self.place).is_empty());
        assert!(is_clean, "{kind} {name}: {:?} {}", left(&self.place), last_words(&self.place));
    }

    /// The transfers of a kind in a phase, of any phase for none.
    fn transfers(&self, kind: &str, phase: &str) -> Vec<Value> {
        let all = self.place.ground.bed.plane.client().list(kind, Some(&self.place.own));
        let is_wanted = |one: &Value| phase.is_empty() || one["status"]["phase"] == phase;
        all.unwrap_or_else(|e| panic!("{e:#}")).into_iter().filter(is_wanted).collect()
    }

    /// Lets the bucket be away from the moment at which a transfer of this kind moves, for this time.
    fn be_away(&self, kind: &str, time: Duration) {
        eventually(&format!("one of {kind} in progress"), || !self.transfers(kind, "InProgress").is_empty());
        self.proxy.script(vec![Rule::new("*", "*", Nth::Every, Fault::CutBefore)]);
        // Nothing is waited for but time.
        comes_to_be_within(time, || false);
        assert!(self.proxy.is_met(), "nobody has asked the bucket for anything within {time:?}");
        self.proxy.script(Vec::new());
        let name = "backupstoragelocation";
        let is_back = || self.place.ground.get_in(&self.place.own, name, "default")["status"]["phase"] == "Available";
        eventually("a location that can be used again", is_back);
    }

    /// A backup and a restore of it, in both of which the bucket is away for so long.
    pub(super) fn outlives_absence(&self, name: &str, time: Duration) {
        let before = self.fill();
        self.proxy.script(slow());
        let backup = self.begin_backup(name, &[FILES]);
        self.be_away(KINDS[0], time);
        self.ends(backup, ["backup", name, "Completed"]);
        self.proxy.script(slow());
        let restore = self.begin_restore(name, name);
        self.be_away(KINDS[1], time);
        self.ends(restore, ["restore", name, "Completed"]);
        self.is_restored(name, &before);
    }

    /// The files of the restored pod are these.
    fn is_restored(&self, restore: &str, before: &str) {
        let (copy, bed) = (self.copy(restore), &self.place.ground.bed);
        bed.kubectl(&["wait", "--for=condition=Ready", "pod/web", "-n", &copy, "--timeout=120s"]);
        assert_eq!(listed_in(&self.place, &copy, "web"), before, "{restore}");
        bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
    }

    /// The repository is whole.
    pub(super) fn end(&self) {
        self.proxy.script(Vec::new());
        let verified = verify(&self.place);
        assert_eq!(verified.code, 0, "{verified:?}");
        self.place.end();
    }

    /// The pod of a mover, when there is one in this phase.
    fn mover(&self, phase: &str) -> Option<String> {
        let pods = self.place.ground.bed.plane.client().list("pods", Some(&self.place.own));
        let pods = pods.unwrap_or_else(|e| panic!("{e:#}"));
        let is_mover = |pod: &&Value| {
            let kind = pod["metadata"]["ownerReferences"][0]["kind"].as_str().unwrap_or_default();
            ["PodVolumeBackup", "DataUpload"].contains(&kind) && pod["status"]["phase"] == phase
        };
        let pod = pods.iter().find(is_mover)?;
        Some(pod["metadata"]["name"].as_str().expect("a name").to_owned())
    }

    /// Patches an object of the server's namespace.
    fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let client = self.place.ground.bed.plane.client();
        client.merge(kind, name, &self.place.own, patch).unwrap_or_else(|e| panic!("{e:#}"));
    }
}

/// Slow with 503s, full, and away for some seconds.
#[test]
#[ignore = "needs a node: make test-node"]
fn transfers_outlive_a_slow_bucket_and_tell_of_a_full_one() {
    let ground = FaultyGround::start("bucket");
    let before = ground.fill();
    ground.proxy.script(slow());
    ground.ends(ground.begin_backup("slow", &[FILES]), ["backup", "slow", "Completed"]);
    assert!(ground.proxy.is_met());
    ground.proxy.script(slow());
    ground.ends(ground.begin_restore("slowly", "slow"), ["restore", "slowly", "Completed"]);
    ground.is_restored("slowly", &before);

    ground.fill();
    ground.proxy.script(vec![contents("PUT", Nth::Every, answer(507, "XMinioStorageFull"))]);
    let full = ground.begin_backup("full", &[FILES]);
    ground.ends(full, ["backup", "full", "PartiallyFailed"]);
    ground.proxy.script(Vec::new());
    let described = ground.place.described("full").to_string();
    assert!(described.contains("there is no space left"), "{described}");

    // And then it goes on in the same repository.
    ground.outlives_absence("away", Duration::from_secs(20));
    ground.end();
}

/// A pod that is evicted is replaced. An image that is not there, a node without room and another password are told, and what comes after goes well.
pub(super) fn meet_faults_of_pods_and_password() {
    let ground = FaultyGround::start("told");
    let place = &ground.place;
    ground.fill();
    ground.proxy.script(slow());
    let evicted = ground.begin_backup("evicted", &[FILES]);
    let mut mover = None;
    eventually("a mover that runs", || {
        mover = ground.mover("Running");
        mover.is_some()
    });
    let mover = mover.expect("a mover");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": mover, "namespace": place.own}});
    let path = format!("/api/v1/namespaces/{}/pods/{mover}/eviction", place.own);
    with_object(&place.ground.kubectl(), &["create", "--raw", &path], &eviction).unwrap_or_else(|e| panic!("{e:#}"));
    ground.ends(evicted, ["backup", "evicted", "Completed"]);
    let saved = ground.transfers(KINDS[0], "Completed");
    let killed = |one: &Value| one["metadata"]["annotations"]["lifeboat.io/killed-movers"].is_string();
    assert!(saved.len() == 1 && saved.iter().all(killed), "{saved:?}");
    ground.proxy.script(Vec::new());

    tells_of_a_missing_image(&ground);
    tells_of_another_password(&ground);
    tells_of_a_full_node(&ground);
    ground.end();
}

/// Pods of movers inherit the image of the DaemonSet, whose own pod stays as it is meanwhile.
fn tells_of_a_missing_image(ground: &FaultyGround) {
    let bed = &ground.place.ground.bed;
    let exchange = |image: &str, strategy: &str| {
        let path = "/spec/template/spec/containers/0/image";
        let patch = json!([{"op": "replace", "path": "/spec/updateStrategy", "value": {"type": strategy}},
            {"op": "replace", "path": path, "value": image}])
        .to_string();
        bed.kubectl(&["patch", "daemonset", "node-agent", "-n", &ground.place.own, "--type=json", "-p", &patch]);
    };
    let set = ground.place.ground.get_in(&ground.place.own, "daemonset", "node-agent");
    let ours = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image").to_owned();
    exchange("testbed.local/missing:1", "OnDelete");
    let backup = ground.begin_backup("imageless", &[FILES]);
    ground.ends(backup, ["backup", "imageless", "PartiallyFailed"]);
    let described = ground.place.described("imageless").to_string();
    assert!(described.contains("ImagePull") || described.contains("ErrImageNeverPull"), "{described}");
    exchange(&ours, "RollingUpdate");
    ground.ends(ground.begin_backup("with-image", &[FILES]), ["backup", "with-image", "Completed"]);
}

/// A password that was changed in the Secret alone opens nothing, and the right one does so again.
fn tells_of_another_password(ground: &FaultyGround) {
    const SECRET: &str = "velero-repo-credentials";
    let right = ground.place.ground.get_in(&ground.place.own, "secret", SECRET)["data"].clone();
    ground.patch("secrets", SECRET, &json!({"stringData": {"repository-password": "another"}}));
    let backup = ground.begin_backup("locked", &[FILES]);
    ground.ends(backup, ["backup", "locked", "PartiallyFailed"]);
    let described = ground.place.described("locked").to_string();
    assert!(described.contains(SECRET) && described.contains("password"), "{described}");
    ground.patch("secrets", SECRET, &json!({"data": right}));
    let repository = format!("{}-default-kopia", ground.place.shop);
    ground.place.ground.until_in(&ground.place.own, "backuprepository", &repository, "Ready");
    ground.ends(ground.begin_backup("opened", &[FILES]), ["backup", "opened", "Completed"]);
}

/// A mover that no node has room for says so in the words of the scheduler, until its user cancels the backup.
fn tells_of_a_full_node(ground: &FaultyGround) {
    let place = &ground.place;
    let settings = json!({"podResources": {"cpuRequest": "1000", "cpuLimit": "1000"}});
    place.ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "node-agent-config", "namespace": place.own}, "data": {"config": settings.to_string()}}));
    let flags = ["--use-node-agent", "--node-agent-configmap=node-agent-config", "--apply"];
    install_at(place, ground.proxy.url(), &flags);
    place.claim("data", &json!({"kind": "moved"}));
    place.pod("db", "data", &json!({}));
    let mut backup = ground.begin_backup("roomless", &[MOVED, "--snapshot-move-data"]);
    let mut seen = Vec::new();
    let told = comes_to_be_within(LONGEST, || {
        seen = ground.transfers(KINDS[2], "");
        let said =
            |one: &Value| one["status"]["message"].as_str().is_some_and(|said| said.contains("Insufficient cpu"));
        seen.iter().any(said)
    });
    assert!(told, "{seen:?} {}", last_words(place));
    let canceled = place.lifeboat(&["backup", "cancel", "roomless"]);
    assert_eq!(canceled.code, 0, "{canceled:?}");
    ended(&mut backup);
    let facts = place.ground.get_in(&place.own, "backup", "roomless");
    let phase = facts["status"]["phase"].as_str().unwrap_or_default();
    assert!(["Failed", "PartiallyFailed"].contains(&phase), "{facts}");
    assert!(comes_to_be_within(LONGEST, || left(place).is_empty()), "{:?} {}", left(place), last_words(place));
    let uploads = ground.transfers(KINDS[2], "Canceled");
    assert_eq!(uploads.len(), 1, "{:?}", ground.transfers(KINDS[2], ""));
}
