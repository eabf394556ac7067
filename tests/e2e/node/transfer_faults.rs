//! Faults of the bucket, the pods and the repository while volumes move: what can be outlived is, and everything else
//! is told with its reason. At the end nothing is left.

use super::movers::install_at;
use super::place::{Place, PodVolume};
use super::transfer_kills::{last_words, left, verify};
use crate::support::{comes_to_be_within, ended, eventually};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The time that a slow bucket takes for each request about the contents of repositories.
const SLOWNESS: Duration = Duration::from_millis(400);
/// The longest time of a backup or restore beside that of its faults.
pub(super) const LONGEST: Duration = Duration::from_secs(420);
/// The types of transfers.
pub(super) const FILE_BACKUPS: &str = "podvolumebackups.velero.io";
const FILE_RESTORES: &str = "podvolumerestores.velero.io";
/// The flag that selects the pod whose files are saved.
pub(super) const FILES: &str = "--selector=kind=files";
/// The volume of that pod.
const FILES_VOLUME: &str = "scratch";

/// A rule for all requests about the contents of repositories.
fn contents(method: &'static str, nth: Nth, fault: Fault) -> Rule {
    Rule::new(method, "*/kopia/*", nth, fault)
}

fn answer(status: u16, code: &str) -> Fault {
    let body = format!("<Error><Code>{code}</Code><Message>of the test</Message></Error>");
    Fault::Answer { status, headers: vec![("content-type", "application/xml".to_owned())], body }
}

/// A bucket that is slow, and asks to slow down first.
pub(super) fn slow() -> Vec<Rule> {
    vec![
        contents("PUT", Nth::First(4), answer(503, "SlowDown")),
        contents("GET", Nth::First(4), answer(503, "ServiceUnavailable")),
        contents("*", Nth::Every, Fault::Delay(SLOWNESS)),
    ]
}

/// An installation, and a pod with files of its own.
pub(super) struct FaultyGround {
    pub(super) place: Place,
    pub(super) proxy: Proxy,
}

/// A backup or restore that a command waits for.
pub(super) struct RunningOperation {
    pub(super) child: Child,
    kind: &'static str,
    name: String,
}

impl FaultyGround {
    /// Installs with the bucket behind a proxy, and fills the volume of a pod.
    pub(super) fn start(name: &str) -> Self {
        let place = Place::start(name);
        let proxy = Proxy::start_on_node(place.ground.s3.endpoint()).expect("a proxy");
        install_at(&place, proxy.url(), &["--use-node-agent"]);
        let metadata = json!({"labels": {"kind": "files"},
            "annotations": {"backup.velero.io/backup-volumes": FILES_VOLUME}});
        place.sleeper("web", &[PodVolume::EmptyDir(FILES_VOLUME)], &metadata);
        Self { place, proxy }
    }

    /// Gives the pod other files; all that they are.
    pub(super) fn fill(&self) -> String {
        let fill = "mkdir -p own && head -c 12000000 /dev/urandom > big && head -c 2000 /dev/urandom > own/file && \
                    chown -R 1000:2000 own && chmod 2750 own && sync";
        self.place.ask(&self.place.shop, "web", &format!("cd /{FILES_VOLUME} && {fill}"));
        self.place.look(&self.place.shop, "web", &[FILES_VOLUME])
    }

    fn spawn(&self, kind: &'static str, name: &str, more: &[&str]) -> RunningOperation {
        let mut command = self.place.command(&[&[kind, "create", name, "--wait"], more].concat());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process");
        RunningOperation { child, kind, name: name.to_owned() }
    }

    pub(super) fn begin_backup(&self, name: &str, more: &[&str]) -> RunningOperation {
        let namespaces = format!("--include-namespaces={}", self.place.shop);
        self.spawn("backup", name, &[&[&namespaces[..]], more].concat())
    }

    /// Restores a backup of the files into another namespace of the name of the restore.
    fn begin_restore(&self, name: &str, backup: &str) -> RunningOperation {
        let from = format!("--from-backup={backup}");
        let mapping = format!("--namespace-mappings={}:{}", self.place.shop, self.copy(name));
        self.spawn("restore", name, &[from.as_str(), mapping.as_str()])
    }

    fn copy(&self, restore: &str) -> String {
        format!("{}-{restore}", self.place.shop)
    }

    /// Waits for the end of an operation, which has to be in this phase, and until nothing is left of its transfers.
    pub(super) fn ends(&self, mut operation: RunningOperation, phase: &str) {
        ended(&mut operation.child);
        let RunningOperation { kind, name, .. } = operation;
        let found = self.place.ground.get_in(&self.place.own, kind, &name);
        if found["status"]["phase"] != phase {
            let told = self.place.lifeboat(&[kind, "describe", &name, "--details"]);
            panic!("{kind} {name} is not {phase}: {} {told:?} {}", found["status"], last_words(&self.place));
        }
        let is_clean = comes_to_be_within(LONGEST, || left(&self.place).is_empty());
        assert!(is_clean, "{kind} {name}: {:?} {}", left(&self.place), last_words(&self.place));
    }

    /// The transfers of a kind in a phase, of any phase for none.
    pub(super) fn transfers(&self, kind: &str, phase: &str) -> Vec<Value> {
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
        self.be_away(FILE_BACKUPS, time);
        self.ends(backup, "Completed");
        self.proxy.script(slow());
        let restore = self.begin_restore(name, name);
        self.be_away(FILE_RESTORES, time);
        self.ends(restore, "Completed");
        self.is_restored(name, &before);
    }

    /// The files of the restored pod are these.
    fn is_restored(&self, restore: &str, before: &str) {
        let copy = self.copy(restore);
        self.place.until_ready(&copy, "web");
        assert_eq!(self.place.look(&copy, "web", &[FILES_VOLUME]), before, "{restore}");
        self.place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
    }

    /// The repository is whole.
    pub(super) fn end(&self) {
        self.proxy.script(Vec::new());
        let verified = verify(&self.place);
        assert_eq!(verified.code, 0, "{verified:?}");
        self.place.end();
    }
}

/// Slow with 503s, full, and away for some seconds.
#[test]
#[ignore = "needs a node: make test-node"]
fn transfers_outlive_a_slow_bucket_and_tell_of_a_full_one() {
    let ground = FaultyGround::start("bucket");
    let before = ground.fill();
    ground.proxy.script(slow());
    ground.ends(ground.begin_backup("slow", &[FILES]), "Completed");
    assert!(ground.proxy.is_met());
    ground.proxy.script(slow());
    ground.ends(ground.begin_restore("slowly", "slow"), "Completed");
    ground.is_restored("slowly", &before);

    ground.fill();
    ground.proxy.script(vec![contents("PUT", Nth::Every, answer(507, "XMinioStorageFull"))]);
    let full = ground.begin_backup("full", &[FILES]);
    ground.ends(full, "PartiallyFailed");
    ground.proxy.script(Vec::new());
    let described = ground.place.described("full").to_string();
    assert!(described.contains("there is no space left"), "{described}");

    // And then it goes on in the same repository.
    ground.outlives_absence("away", Duration::from_secs(20));
    ground.end();
}
