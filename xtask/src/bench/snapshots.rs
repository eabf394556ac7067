//! A backup of claims whose driver takes its time for each snapshot, on a node; beside it a plain client that asks for
//! the same snapshots all at once.

use super::audit::Audit;
use super::bed::{Bed, EMPTY_NAMESPACE, NAMESPACE, ONE_NAMESPACE, pause};
use super::programs::Programs;
use super::report::{Measured, Times};
use super::rows::Row;
use anyhow::{Context, Result, bail};
use lifeboat_testbed::{Kubectl, Node, in_namespaces};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The class of the snapshots: each is ready so long after it was taken.
const CLASS: &str = "late";
const READY_AFTER: &str = "5s";
/// Requests of the backup for each claim, at most: it is asked for, read, and noted on both of its objects; at its end
/// both are read again, and released.
const REQUESTS_OF_A_CLAIM: usize = 12;
/// Its other requests, at most.
const OTHER_REQUESTS: usize = 500;
/// Time limit for claims to be bound, and for snapshots to go.
const PATIENCE: Duration = Duration::from_secs(600);

/// The measurements inside the namespaces.
#[derive(Debug, Serialize, Deserialize)]
struct Inside {
    walls: Vec<f64>,
    empty: f64,
    floors: Vec<f64>,
    peak_mib: f64,
    requests: usize,
}

/// Measures on a node in namespaces of its own.
pub(crate) fn run(row: &Row, programs: &Programs) -> Result<Measured> {
    Node::ensure()?;
    let mut command = in_namespaces();
    command.arg(std::env::current_exe()?).arg("bench-snapshots-inside").arg(row.objects.to_string());
    command.args([&programs.target, &programs.lifeboat, &programs.floor]);
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("run the benchmark on a node")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("the benchmark on a node: {}: {}", output.status, text.trim());
    }
    let Inside { walls, empty, floors, peak_mib, requests } =
        serde_json::from_str(text.lines().last().unwrap_or_default()).context("what was measured on a node")?;
    let most = REQUESTS_OF_A_CLAIM * row.objects + OTHER_REQUESTS;
    if requests > most {
        bail!("the backup made {requests} requests for {} claims, more than {most}", row.objects);
    }
    let times = Times { walls, empty, floors };
    let note = format!("{requests} requests; the floor asks for all snapshots at once and waits for them");
    Ok(Measured::new(row, &times, peak_mib, note))
}

/// The part inside: `COUNT TARGET LIFEBOAT FLOOR`.
pub(crate) fn inside(args: &[String]) -> Result<()> {
    let [count, target, lifeboat, floor] = args else { bail!("it is called by the benchmark") };
    let count: usize = count.parse()?;
    let [target, lifeboat, floor] = [target, lifeboat, floor].map(PathBuf::from);
    let programs = Programs { target, lifeboat, repository_floor: floor.with_file_name("repository-floor"), floor };
    let folder = tempfile::tempdir()?;
    Node::prepare()?;
    let bed = Bed::start(&programs, folder.path())?;
    let _node = Node::start(&bed.plane)?;
    let kubectl = bed.plane.kubectl();
    class(&kubectl, folder.path())?;
    let number = count.to_string();
    bed.floor_create_of(count, &["--namespace", NAMESPACE, "--kind", "disks", "--count", &number])?;
    let bound = ["get", "pvc", "--namespace", ONE_NAMESPACE, "--output=jsonpath={.items[*].status.phase}"];
    until("bound claims", || Ok(kubectl.try_run(&bound)?.matches("Bound").count() == count))?;
    bed.settle()?;
    let by_floor = || -> Result<f64> {
        let pass = bed.floor_snapshots(ONE_NAMESPACE, CLASS, count)?;
        kubectl.try_run(&["delete", "volumesnapshots", "--all", "--namespace", ONE_NAMESPACE, "--timeout=10m"])?;
        until("a storage without snapshots", || {
            Ok(kubectl.try_run(&["get", "volumesnapshotcontents", "--output=name"])?.is_empty())
        })?;
        Ok(pass.seconds)
    };
    let empty =
        bed.empty(|name| bed.backup(name, &["--include-namespaces", EMPTY_NAMESPACE, "--features=EnableCSI"]))?;
    let before = by_floor()?;
    let audit = Audit::begin(&bed.plane)?;
    let run = bed.backup("measured", &["--include-namespaces", ONE_NAMESPACE, "--features=EnableCSI"])?;
    let requests = audit.end(&bed.plane)?.requests;
    let saved = bed.counts_in("measured")?;
    if saved["volumesnapshots.snapshot.storage.k8s.io"] != count {
        bail!("the backup does not hold {count} snapshots: {saved}");
    }
    let after = by_floor()?;
    let inside =
        Inside { walls: vec![run.seconds], empty, floors: vec![before, after], peak_mib: run.peak_mib(), requests };
    println!("{}", serde_json::to_string(&inside)?);
    Ok(())
}

fn class(kubectl: &Kubectl, folder: &Path) -> Result<()> {
    let class = json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": {"name": CLASS, "labels": {"velero.io/csi-volumesnapshot-class": "true"}},
        "driver": lifeboat_testbed::DRIVER, "deletionPolicy": "Delete", "parameters": {"readyAfter": READY_AFTER}});
    let file = folder.join("class.json");
    std::fs::write(&file, class.to_string())?;
    kubectl.apply(&file)
}

fn until(what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !holds()? {
        if Instant::now() > end {
            bail!("{what} did not come to be within {} s", PATIENCE.as_secs());
        }
        pause();
    }
    Ok(())
}
