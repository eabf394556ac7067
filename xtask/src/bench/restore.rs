//! Restores.

use super::audit::Audit;
use super::backup::check_contents;
use super::bed::{Bed, EMPTY_NAMESPACE, NAMESPACE, ONE_NAMESPACE, paths};
use super::programs::Programs;
use super::report::{Measured, Times};
use super::rows::{Row, RowScope};
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
    let create = |namespace: &str| bed.floor_create(namespace, row.objects, row.data, RowScope::Namespace);
    let empty = bed.empty(|name| bed.restore(name, EMPTY))?;
    let before = create("floor-before")?;
    bed.settle()?;
    let run = bed.restore("measured", FULL)?;
    let after = create("floor-after")?;
    bed.settle()?;
    check_contents(&bed, FULL, row, RowScope::Namespace)?;
    let times = Times { walls: vec![run.seconds], empty, floors: vec![before.seconds, after.seconds] };
    let note = format!("{:.1} MB sent by the floor", before.bytes as f64 / 1e6);
    Ok(Measured::new(row, &times, run.peak_mib(), note))
}

/// Objects that are there as they were saved: nothing is to be written.
pub(crate) fn run_unchanged(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = source(row, programs, folder.path())?;
    let empty = bed.empty(|name| bed.restore(name, EMPTY))?;
    let audit = Audit::begin(&bed.plane)?;
    bed.restore("audited", FULL)?;
    let writes = audit.end(&bed.plane)?;
    let measured = bed.in_turn(&paths(RowScope::Namespace), |name| bed.restore(name, FULL))?;
    if !writes.done.is_empty() {
        bail!("the restore wrote {} times: {}", writes.done.len(), some(&writes.done));
    }
    check_contents(&bed, FULL, row, RowScope::Namespace)?;
    let note = format!(
        "{}; {} requests of the restore, none wrote, {} were refused: {}",
        measured.floor.listed(),
        writes.requests,
        writes.refused.len(),
        some(&writes.refused)
    );
    Ok(measured.measured(row, empty, note))
}

fn some(requests: &[String]) -> String {
    requests[..requests.len().min(3)].join(", ")
}

/// A control plane with the objects, and both backups of it in the bucket.
pub(crate) fn source<'a>(row: &Row, programs: &'a Programs, folder: &'a Path) -> Result<Bed<'a>> {
    let bed = Bed::start(programs, folder)?;
    bed.floor_create(NAMESPACE, row.objects, row.data, RowScope::Namespace)?;
    bed.settle()?;
    bed.backup(EMPTY, &["--include-namespaces", EMPTY_NAMESPACE])?;
    bed.backup(FULL, &["--include-namespaces", ONE_NAMESPACE])?;
    check_contents(&bed, FULL, row, RowScope::Namespace)?;
    Ok(bed)
}
