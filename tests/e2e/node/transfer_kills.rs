//! Random histories of kills while the bytes of volumes move, out of the cluster and back.
//!
//! In each one a mover, the node agent and the server are killed at random moments of a backup, each once, and once
//! more in its restore. Both end as if nothing had happened: the data is the same, nothing is left in the cluster, and
//! the repository is whole. The bucket answers slowly, so that the bytes move for seconds, and moments within that time
//! are met too.

use super::movers::install_at;
use super::place::{Place, PodVolume, REPOSITORY_SECRET};
use crate::random::{number, seeds, splitmix};
use crate::support::{Run, comes_to_be_within, run};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Histories of `make test-node`; `LIFEBOAT_KILLS` asks for more, and other ones.
const HISTORIES: u64 = 2;
/// The last state of an operation, by number, from which on something is killed.
const STATES: u64 = 9;
/// The longest time after that state, in milliseconds.
const LATER: u64 = 2000;
/// The time that the bucket takes for each request about the contents of repositories.
const SLOWNESS: Duration = Duration::from_millis(150);
/// The longest time of an operation in which all of them are killed.
const LONGEST: Duration = Duration::from_secs(420);
/// The kinds that ask for the bytes of volumes.
const TRANSFERS: [&str; 4] = ["PodVolumeRestore", "DataDownload", "PodVolumeBackup", "DataUpload"];

/// The program that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Mover,
    NodeAgent,
    Server,
}

/// A kill.
#[derive(Clone, Copy, Debug)]
struct Death {
    victim: Victim,
    /// The state of the operation, by number, from which on it is killed.
    state: u64,
    /// The time after that state.
    later: Duration,
    /// It is not told to end before.
    is_sudden: bool,
    /// Its pod has to run by then.
    when_it_runs: bool,
}

impl Death {
    /// A death of each victim.
    fn all(random: u64) -> Vec<Self> {
        let of = |(number, victim): (u64, Victim)| {
            let random = splitmix(random.wrapping_add(number));
            let (state, later) = (1 + (random >> 8) % STATES, Duration::from_millis((random >> 24) % LATER));
            let [is_sudden, when_it_runs] = [20, 21].map(|bit| (random >> bit) & 1 == 0);
            Self { victim, state, later, is_sudden, when_it_runs }
        };
        (0..).zip([Victim::Mover, Victim::NodeAgent, Victim::Server]).map(of).collect()
    }

    /// Kills it, if it is there, and gives the name of its pod.
    fn strike(self, place: &Place) -> Option<String> {
        let own = listed(place, "pods");
        let runs = |pod: &&Value| !self.when_it_runs || pod["status"]["phase"] == "Running";
        let is_victim = |pod: &&Value| match self.victim {
            Victim::Mover => TRANSFERS.iter().any(|kind| pod["metadata"]["ownerReferences"][0]["kind"] == *kind),
            Victim::NodeAgent => pod["metadata"]["labels"]["role"] == "node-agent",
            Victim::Server => pod["metadata"]["labels"]["deploy"] == "velero",
        };
        let pod =
            own.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).filter(runs).find(is_victim)?;
        let name = pod["metadata"]["name"].as_str().expect("a name");
        // Kubernetes has no shorter grace with which the pod is still waited for.
        let grace = if self.is_sudden { "--grace-period=1" } else { "--grace-period=30" };
        let gone = ["delete", "pod", name, "-n", &place.own, "--ignore-not-found", "--wait=false", grace];
        place.ground.bed.kubectl(&gone);
        Some(name.to_owned())
    }
}

/// All objects of a type in the namespace of the server.
fn listed(place: &Place, kind: &str) -> Vec<Value> {
    let all = place.ground.bed.kubectl(&["get", kind, "-n", &place.own, "-o", "json"]);
    let all: Value = serde_json::from_str(&all).expect("JSON");
    all["items"].as_array().cloned().unwrap_or_default()
}

/// The phases of all that works for an operation.
fn state(place: &Place) -> String {
    let kinds =
        "backups,restores,datauploads,datadownloads,podvolumebackups,podvolumerestores,backuprepositories,pods.v1.";
    let phases = "jsonpath={range .items[*]}{.kind}/{.metadata.name}={.status.phase} {end}";
    place.ground.bed.kubectl(&["get", kinds, "-n", &place.own, "-o", phases])
}

/// A kill that is still to come.
struct Pending {
    death: Death,
    /// The moment at which its state was seen.
    due: Option<Instant>,
}

impl Pending {
    /// Strikes when its moment has come and its victim is there; gives what it has killed.
    fn strike(&mut self, place: &Place, seen: u64) -> Option<String> {
        if self.due.is_none() && seen >= self.death.state {
            self.due = Some(Instant::now() + self.death.later);
        }
        self.due.filter(|due| *due <= Instant::now())?;
        let pod = self.death.strike(place)?;
        Some(format!("{:?} killed {pod} at state {seen}", self.death))
    }
}

/// Runs a command to its end, during which each victim is killed. Its errors say what was killed, and when.
#[allow(clippy::print_stdout, reason = "who looks into a failure needs to know the kills before it")]
fn with_deaths(place: &Place, arguments: &[&str], deaths: Vec<Death>) -> Run {
    let mut command = place.command(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process");
    let mut pending: Vec<Pending> = deaths.into_iter().map(|death| Pending { death, due: None }).collect();
    let (mut last, mut seen, mut killed) = (String::new(), 0, Vec::new());
    let has_ended = comes_to_be_within(LONGEST, || {
        let now = state(place);
        if now != last {
            (last, seen) = (now, seen + 1);
        }
        pending.retain_mut(|one| match one.strike(place, seen) {
            Some(told) => {
                killed.push(format!("{told}: {last}"));
                false
            }
            None => true,
        });
        child.try_wait().expect("its state").is_some()
    });
    if !has_ended {
        child.kill().expect("a signal");
    }
    let code = child.wait().expect("its end").code().unwrap_or(-1);
    let late = pending.iter().map(|one| format!("{:?} was too late", one.death));
    killed.extend(late);
    let err = format!("{}; ended: {has_ended}", killed.join("\n  "));
    println!("{}: {err}", arguments[..3].join(" "));
    Run { code, out: String::new(), err }
}

/// The facts that a failure is explained by.
pub(super) fn last_words(place: &Place) -> String {
    let kubectl = |args: &[&str]| place.ground.bed.kubectl(args);
    let transfers = "datauploads,datadownloads,podvolumebackups,podvolumerestores";
    let all = kubectl(&[
        "get",
        transfers,
        "-n",
        &place.own,
        "-o",
        "jsonpath={range .items[*]}{.metadata.name} {.status}{\"\\n\"}{end}",
    ]);
    let agent = kubectl(&["logs", "-n", &place.own, "daemonset/node-agent", "--tail=40"]);
    let server = kubectl(&["logs", "-n", &place.own, "deployment/velero", "--tail=40"]);
    format!("{all}\n{agent}\n{server}")
}

/// The objects in the cluster and the snapshots in the storage that are left of transfers which have ended.
pub(super) fn left(place: &Place) -> Vec<String> {
    let name =
        |object: &Value| format!("{}/{}", object["kind"].as_str().unwrap_or_default(), object["metadata"]["name"]);
    let is_owned = |pod: &&Value| TRANSFERS.iter().any(|kind| pod["metadata"]["ownerReferences"][0]["kind"] == *kind);
    let mut left: Vec<String> = listed(place, "pods").iter().filter(is_owned).map(name).collect();
    left.extend(listed(place, "persistentvolumeclaims").iter().map(name));
    for kind in ["datauploads", "datadownloads", "podvolumebackups", "podvolumerestores"] {
        let owes = |transfer: &&Value| transfer["metadata"].get("finalizers").is_some();
        left.extend(listed(place, kind).iter().filter(owes).map(name));
    }
    let of_own = format!("jsonpath={{.items[?(@.spec.claimRef.namespace==\"{}\")].metadata.name}}", place.own);
    left.extend(
        place.ground.bed.kubectl(&["get", "persistentvolumes", "-o", &of_own]).split_whitespace().map(str::to_owned),
    );
    for namespace in [&place.own, &place.shop] {
        let found = place.snapshot_objects_in(namespace);
        left.extend((found != (0, 0)).then(|| format!("snapshots and contents in {namespace}: {found:?}")));
    }
    left.extend(place.handles());
    left
}

/// All entries of the volumes of the pod in a namespace.
fn look(place: &Place, namespace: &str) -> String {
    place.look(namespace, "web", &["data", "scratch"])
}

/// Waits until server and node agent work again.
fn recover(place: &Place) {
    for of in ["deployment/velero", "daemonset/node-agent"] {
        place.ground.bed.kubectl(&["rollout", "status", of, "-n", &place.own, "--timeout=120s"]);
    }
}

/// A backup and a restore of it into another namespace, in each of which every victim is killed.
fn history(place: &Place, seed: u64) {
    let (name, copy) = (format!("b-{seed}"), format!("{}-{seed}", place.shop));
    let random = splitmix(seed);
    let (first, second) = (Death::all(random), Death::all(splitmix(random)));
    let fill = format!(
        "mkdir -p /data/own && echo {seed} > /data/own/file && chown -R 1000:2000 /data/own && chmod 2750 /data/own && \
         head -c 6000000 /dev/urandom > /data/big && head -c 4000000 /dev/urandom > /scratch/{seed} && chmod 4755 /scratch/{seed} && sync"
    );
    place.ask(&place.shop, "web", &fill);
    let before = look(place, &place.shop);
    recover(place);

    let namespaces = format!("--include-namespaces={}", place.shop);
    let backup = ["backup", "create", &name, &namespaces, "--snapshot-move-data", "--wait"];
    let saved = with_deaths(place, &backup, first);
    let facts = place.ground.get_in(&place.own, "backup", &name);
    assert_eq!(
        (saved.code, &facts["status"]["phase"]),
        (0, &json!("Completed")),
        "seed {seed} {saved:?} {facts} {}",
        last_words(place)
    );
    let is_clean = || comes_to_be_within(LONGEST, || left(place).is_empty());
    assert!(is_clean(), "seed {seed} {saved:?}: {:?} {}", left(place), last_words(place));

    let mapping = format!("--namespace-mappings={}:{copy}", place.shop);
    let restore = ["restore", "create", &name, "--from-backup", &name, &mapping, "--wait"];
    let back = with_deaths(place, &restore, second);
    let facts = place.ground.get_in(&place.own, "restore", &name);
    assert_eq!(
        (back.code, &facts["status"]["phase"]),
        (0, &json!("Completed")),
        "seed {seed} {back:?} {facts} {}",
        last_words(place)
    );
    place.until_ready(&copy, "web");
    assert_eq!(look(place, &copy), before, "seed {seed} {back:?}");
    assert!(is_clean(), "seed {seed} {back:?}: {:?} {}", left(place), last_words(place));
    place.ground.bed.kubectl(&["delete", "namespace", &copy, "--wait=false"]);
}

/// The repository of the application, as a user on a machine of his own sees it.
pub(super) fn verify(place: &Place) -> Run {
    let folder = place.ground.directories.path();
    let path = "jsonpath={.data.repository-password}";
    let password = place.ground.bed.kubectl(&["get", "secret", REPOSITORY_SECRET, "-n", &place.own, "-o", path]);
    let password = STANDARD.decode(password.trim()).expect("base64");
    std::fs::write(folder.join("repository-password"), password).expect("write");
    let s3 = &place.ground.s3;
    let bucket = format!("s3://server/installed?region={}&endpoint={}", s3.region(), s3.endpoint());
    let mut command = place.command(&["repo", "verify", "--velero", &place.shop, "--bucket", &bucket]);
    command.arg("--password-file").arg(folder.join("repository-password"));
    run(command.env("AWS_SHARED_CREDENTIALS_FILE", folder.join("credentials")))
}

#[test]
#[ignore = "needs a node: make test-node"]
fn transfers_survive_kills_of_all_pods_at_random_moments() {
    let place = Place::start("kills");
    let proxy = Proxy::start_on_node(place.ground.s3.endpoint()).expect("a proxy");
    proxy.script(vec![Rule::new("*", "*/kopia/*", Nth::Every, Fault::Delay(SLOWNESS))]);
    install_at(&place, proxy.url(), &["--use-node-agent"]);
    place.claim("data", &json!({}));
    let volumes = [PodVolume::Claim("data"), PodVolume::EmptyDir("scratch")];
    place.sleeper("web", &volumes, &json!({"annotations": {"backup.velero.io/backup-volumes": "scratch"}}));
    // The same ones each time, unless a long test asks for more.
    let seeds = if number("LIFEBOAT_KILLS").is_some() { seeds(HISTORIES) } else { (1..=HISTORIES).collect() };
    for seed in seeds {
        history(&place, seed);
    }
    let verified = verify(&place);
    assert_eq!(verified.code, 0, "{verified:?}");
    place.end();
}
