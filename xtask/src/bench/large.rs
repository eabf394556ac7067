//! A cluster with 300,000 objects: filled once, and everything measured on it.

use super::audit::Audit;
use super::backup::{self, check_contents};
use super::bed::{Bed, FIRST_EMPTY, NAMESPACE, paths};
use super::browse;
use super::measure::MeasuredRun;
use super::programs::Programs;
use super::report::{Measured, Times};
use super::restore::FULL;
use super::rows::{Row, RowScope, RowWork, SMALLER};
use anyhow::{Result, bail};
use std::path::Path;

/// The floor of creating is measured with this part of the objects: all of them twice would take ten minutes more.
const PART: usize = 10;

/// A second backup of the same objects.
const AGAIN: &str = "full-again";

/// Runs these rows, in the order in which the cluster allows them, and hands each on as it is done.
pub(crate) fn run(rows: &[Row], programs: &Programs, mut done: impl FnMut(Measured)) -> Result<()> {
    let (smaller, large): (Vec<Row>, Vec<Row>) = rows.iter().partition(|row| row.name == SMALLER.name);
    for row in smaller {
        done(backup::run(&row, RowScope::Cluster, programs)?);
    }
    let Some(first) = large.first() else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let filled = Filled::with(first, programs, folder.path())?;
    let (into_empty, on_filled): (Vec<Row>, Vec<Row>) =
        large.iter().partition(|row| matches!(row.work, RowWork::Restore));
    for row in on_filled {
        done(filled.measure(&row)?);
    }
    drop(filled);
    for row in into_empty {
        done(restore_new(&row, programs, folder.path())?);
    }
    Ok(())
}

/// A cluster with all the objects, and two backups of it.
struct Filled<'a> {
    bed: Bed<'a>,
    /// Seconds of the lists, before and after the backups.
    floors: Vec<f64>,
    /// The objects and bytes of these lists, for people.
    listed: String,
    /// A backup of nothing.
    empty: f64,
    backups: [MeasuredRun; 2],
}

impl<'a> Filled<'a> {
    fn with(row: &Row, programs: &'a Programs, folder: &'a Path) -> Result<Self> {
        let bed = Bed::start(programs, folder)?;
        bed.settle()?;
        let empty = bed.empty(|name| bed.backup(name, &[]))?;
        bed.floor_create(NAMESPACE, row.objects, row.data, RowScope::Cluster)?;
        bed.settle()?;
        let before = bed.floor_list(&paths(RowScope::Cluster))?;
        let backups = [bed.backup(FULL, &[])?, bed.backup(AGAIN, &[])?];
        let after = bed.floor_list(&paths(RowScope::Cluster))?;
        check_contents(&bed, FULL, row, RowScope::Cluster)?;
        let floors = vec![before.seconds, after.seconds];
        Ok(Self { bed, floors, listed: before.listed(), empty, backups })
    }

    fn measure(&self, row: &Row) -> Result<Measured> {
        let bed = &self.bed;
        Ok(match row.work {
            RowWork::Backup(_) => {
                let [first, second] = &self.backups;
                let walls = vec![first.seconds, second.seconds];
                let times = Times { walls, empty: self.empty, floors: self.floors.clone() };
                let note = format!("{}, {:.1} MB of archive", self.listed, bed.archive_bytes(FULL)? as f64 / 1e6);
                Measured::new(row, &times, first.peak_mib().max(second.peak_mib()), note)
            }
            RowWork::Verify => {
                let nothing = bed.plain(&["verify", FIRST_EMPTY])?;
                self.over_lists(row, &bed.plain(&["verify", FULL])?, &nothing, "the floor is the lists")
            }
            RowWork::Preview => {
                let of = |backup: &str| bed.plain(&["restore", "preview", "--from-backup", backup, "--dry-run"]);
                let nothing = of(FIRST_EMPTY)?;
                self.over_lists(row, &of(FULL)?, &nothing, "the floor is the lists")
            }
            RowWork::RestoreUnchanged => {
                let nothing = bed.restore("restore-empty", FIRST_EMPTY)?;
                let audit = Audit::begin(&bed.plane)?;
                let run = bed.restore("restore-unchanged", FULL)?;
                let writes = audit.end(&bed.plane)?;
                if let Some(first) = writes.done.first() {
                    bail!("the restore wrote {} times, such as {first}", writes.done.len());
                }
                self.over_lists(row, &run, &nothing, "no write")
            }
            RowWork::DiffBackups => {
                let nothing = bed.diff(&[FIRST_EMPTY, FIRST_EMPTY])?;
                self.over_lists(row, &bed.diff(&[FULL, AGAIN])?, &nothing, "the floor is the lists; no difference")
            }
            RowWork::DiffLive => {
                let of = |backup: &str| bed.diff(&[backup, "--include-resources=configmaps,secrets"]);
                // Neither side has nodes.
                let nothing = bed.diff(&[FIRST_EMPTY, "--include-resources=nodes"])?;
                self.over_lists(row, &of(FULL)?, &nothing, "the floor is the lists; no difference")
            }
            // It makes pods, of which the rows before it know nothing.
            RowWork::Browse => browse::on(bed, row)?,
            _ => bail!("{} is a row of bench", row.name),
        })
    }

    /// A run over all the objects, beside the same command with nothing to do, over the floor of the lists.
    fn over_lists(&self, row: &Row, run: &MeasuredRun, nothing: &MeasuredRun, note: &str) -> Measured {
        let times = Times { walls: vec![run.seconds], empty: nothing.seconds, floors: self.floors.clone() };
        Measured::new(row, &times, run.peak_mib(), note.to_owned())
    }
}

/// A restore of all the objects into another, empty cluster.
fn restore_new(row: &Row, programs: &Programs, folder: &Path) -> Result<Measured> {
    let bed = Bed::start(programs, folder)?;
    bed.settle()?;
    let nothing = bed.restore("new-empty", FIRST_EMPTY)?.seconds;
    let create = |namespace: &str| bed.floor_create(namespace, row.objects / PART, row.data, RowScope::Cluster);
    let before = create("floor-before")?;
    bed.settle()?;
    let run = bed.restore("new", FULL)?;
    let after = create("floor-after")?;
    bed.settle()?;
    check_restored(&bed, row.objects / PART)?;
    let whole = |seconds: f64| seconds * PART as f64;
    let times =
        Times { walls: vec![run.seconds], empty: nothing, floors: vec![whole(before.seconds), whole(after.seconds)] };
    let note = format!("the floor is that of a {PART}th of the objects, times {PART}");
    Ok(Measured::new(row, &times, run.peak_mib(), note))
}

/// The cluster has what is in the backup, and what the two runs of the floor made: together so many ConfigMaps, and as
/// many Secrets, and a kube-root-ca.crt in each of the floor's namespaces.
fn check_restored(bed: &Bed<'_>, by_floor: usize) -> Result<()> {
    let [config_maps, secrets] = bed.count(RowScope::Cluster)?;
    let saved = bed.counts_in(FULL)?;
    let expected = |name: &str| saved[name].as_u64().unwrap_or(0) + by_floor as u64;
    // Both runs of the floor make namespaces.
    let root_certificates = 2 * RowScope::Cluster.namespaces() as u64;
    if secrets != expected("secrets") || config_maps != expected("configmaps") + root_certificates {
        bail!(
            "the cluster has {config_maps} ConfigMaps and {secrets} Secrets: not those of the backup, {saved}, \
             {by_floor} of each by the floor, and {root_certificates} ConfigMaps kube-root-ca.crt"
        );
    }
    Ok(())
}
