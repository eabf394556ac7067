//! Restores.

use super::audit::Audit;
use super::backup::check_contents;
use super::bed::{Bed, EMPTY_NAMESPACE, NAMESPACE, ONE_NAMESPACE};
use super::programs::Programs;
use super::report::{Measured, Times};
use super::rows::{Place, Row};
use anyhow::{Result, bail};
use std::path::Path;

/// A backup of nothing but what every namespace holds.
const EMPTY: &str = "empty";
/// The backup that is restored.
pub(crate) const FULL: &str = "full";

/// New objects, into another cluster.
pub(crate) fn run_new(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    drop(source(row, programs, folder.path())?);
    let bed = Bed::start(programs, folder.path())?;
    bed.settle()?;
    let create = |namespace: &str| bed.floor_create(namespace, row.objects, row.data, Place::Namespace);
    let empty = bed.best_of_two(|name| bed.restore(name, EMPTY))?;
    let before = create("floor-before")?;
    bed.settle()?;
    let run = bed.restore("measured", FULL)?;
    let after = create("floor-after")?;
    bed.settle()?;
    check_contents(&bed, FULL, row, Place::Namespace)?;
    let times = Times { wall: run.seconds, empty, floors: [before.seconds, after.seconds] };
    let note = format!("{:.1} MB sent by the floor", before.bytes as f64 / 1e6);
    Ok(Measured::new(row, &times, run.peak_mib(), note))
}

/// Objects that are there as they were saved: nothing is to be written.
pub(crate) fn run_unchanged(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = source(row, programs, folder.path())?;
    let empty = bed.best_of_two(|name| bed.restore(name, EMPTY))?;
    let before = bed.floor_list(Place::Namespace)?;
    let audit = Audit::begin(&bed.plane)?;
    let run = bed.restore("measured", FULL)?;
    let writes = audit.end(&bed.plane)?;
    // Two runs, as the floor has two: what disturbs the machine for a moment counts for neither.
    let again = bed.restore("measured-again", FULL)?;
    let after = bed.floor_list(Place::Namespace)?;
    if !writes.done.is_empty() {
        bail!("the restore wrote {} times: {}", writes.done.len(), some(&writes.done));
    }
    check_contents(&bed, FULL, row, Place::Namespace)?;
    let wall = run.seconds.min(again.seconds);
    let times = Times { wall, empty, floors: [before.seconds, after.seconds] };
    let note = format!(
        "{:.1} MB listed in {} pages; {} requests of the restore, none wrote, {} were refused: {}",
        before.bytes as f64 / 1e6,
        before.requests,
        writes.requests,
        writes.refused.len(),
        some(&writes.refused)
    );
    Ok(Measured::new(row, &times, run.peak_mib().max(again.peak_mib()), note))
}

fn some(requests: &[String]) -> String {
    requests[..requests.len().min(3)].join(", ")
}

/// A control plane with the objects, and both backups of it in the bucket.
pub(crate) fn source<'a>(row: &Row, programs: &'a Programs, folder: &'a Path) -> Result<Bed<'a>> {
    let bed = Bed::start(programs, folder)?;
    bed.floor_create(NAMESPACE, row.objects, row.data, Place::Namespace)?;
    bed.settle()?;
    bed.backup(EMPTY, &["--include-namespaces", EMPTY_NAMESPACE])?;
    bed.backup(FULL, &["--include-namespaces", ONE_NAMESPACE])?;
    check_contents(&bed, FULL, row, Place::Namespace)?;
    Ok(bed)
}
