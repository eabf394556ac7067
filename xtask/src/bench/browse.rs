//! A backup that is looked into with kubectl, beside the API server that it was made of.

use super::bed::{Bed, NAMESPACE, TURNS};
use super::browsing::Browsing;
use super::programs::Programs;
use super::report::{Measured, Times};
use super::rows::{Row, RowScope};
use anyhow::{Result, ensure};
use lifeboat_testbed::Kubectl;
use std::time::Instant;

/// Pods that are listed, at most.
const PODS: usize = 10_000;
/// Namespaces of the pods.
const NAMESPACES: usize = 10;
/// Service accounts of all these.
const ACCOUNTS: usize = 10;
/// Objects of the first page.
const PAGE: u32 = 500;
/// The backup.
const BACKUP: &str = "browsed";
/// From the start of the command until it serves, in seconds.
const READY: f64 = 1.0;
/// For the first page of pods, over a connection that is open, in seconds.
const FIRST_PAGE: f64 = 0.1;

/// In a cluster of its own, a third of whose objects are pods.
pub(crate) fn run(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.floor_create(NAMESPACE, row.objects - pods(row), row.data, RowScope::Cluster)?;
    on(&bed, row)
}

fn pods(row: &Row) -> usize {
    PODS.min(row.objects / 3)
}

/// In a cluster that has everything but the pods.
pub(crate) fn on(bed: &Bed<'_>, row: &Row) -> Result<Measured> {
    fill(bed, pods(row))?;
    bed.backup(BACKUP, &[])?;
    let live = bed.plane.kubectl();
    let (mut readies, mut pages, mut walls, mut floors, mut peak_mib) = (vec![], vec![], vec![], vec![], 0.0_f64);
    for turn in 1..=TURNS {
        let browsing = Browsing::start(bed.programs, &bed.bucket(), BACKUP)?;
        readies.push(browsing.ready);
        pages.push(browsing.floor_page("/api/v1/pods", PAGE)?.seconds);
        let kubectl = browsing.kubectl()?;
        // What kubectl learns of a cluster it asks for once.
        list(&kubectl, pods(row))?;
        let own = |floors: &mut Vec<f64>| list(&live, pods(row)).map(|seconds| floors.push(seconds));
        if turn % 2 == 1 {
            own(&mut floors)?;
            walls.push(list(&kubectl, pods(row))?);
        } else {
            walls.push(list(&kubectl, pods(row))?);
            own(&mut floors)?;
        }
        peak_mib = peak_mib.max(browsing.peak_mib()?);
    }
    let note = format!(
        "`kubectl get pods --all-namespaces` of {} pods, on the backup and on the API server; {:.1} MB of archive",
        pods(row),
        bed.archive_bytes(BACKUP)? as f64 / 1e6
    );
    let measured = Measured::new(row, &Times { walls, empty: 0.0, floors }, peak_mib, note);
    Ok(measured.with("ready", &readies, READY).with("first page", &pages, FIRST_PAGE))
}

/// Makes the pods, with the accounts that they need.
fn fill(bed: &Bed<'_>, pods: usize) -> Result<()> {
    let kubectl = bed.plane.kubectl();
    let owner = kubectl.try_run(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"])?;
    let [namespaces, accounts] = [NAMESPACES, ACCOUNTS].map(|number| number.to_string());
    for (kind, count) in [("accounts", ACCOUNTS), ("pods", pods)] {
        let number = count.to_string();
        let names = ["--namespace", "browsed", "--namespaces", &namespaces, "--count", &number, "--kind", kind];
        let rest = ["--accounts", &accounts, "--owner", &owner];
        bed.floor_create_of(count, &[&names[..], &rest].concat())?;
    }
    bed.settle()
}

/// Seconds of `kubectl get pods --all-namespaces`.
fn list(kubectl: &Kubectl, pods: usize) -> Result<f64> {
    let began = Instant::now();
    let out = kubectl.try_run(&["get", "pods", "--all-namespaces"])?;
    let seconds = began.elapsed().as_secs_f64();
    // With the heading.
    let lines = out.lines().count();
    ensure!(lines == pods + 1, "the table of {pods} pods has {lines} lines");
    Ok(seconds)
}
