//! One cluster with 300,000 objects: filled once, and everything measured on it.

use super::audit::Audit;
use super::backup::{self, check_contents};
use super::bed::{Bed, FIRST_EMPTY, NAMESPACE, paths};
use super::browse;
use super::measure::Run;
use super::programs::Programs;
use super::report::{Measured, Times};
use super::restore::FULL;
use super::rows::{Place, Row};
use anyhow::{Result, bail};

/// The floor of creating is measured with this part of the objects: all of them twice would take ten minutes more.
const PART: usize = 10;

/// Runs the rows in their order and hands each on as it is done.
pub(crate) fn run(rows: &[Row; 7], programs: &Programs, mut done: impl FnMut(Measured)) -> Result<()> {
    let [smaller, backup, verify, preview, unchanged, browse, new] = rows;
    done(backup::run(smaller, Place::Cluster, programs)?);
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.settle()?;
    let empty = bed.empty(|name| bed.backup(name, &[]))?;
    bed.floor_create(NAMESPACE, backup.objects, backup.data, Place::Cluster)?;
    bed.settle()?;

    let before = bed.floor_list(&paths(Place::Cluster))?;
    let first = bed.backup(FULL, &[])?;
    let second = bed.backup("full-again", &[])?;
    let after = bed.floor_list(&paths(Place::Cluster))?;
    check_contents(&bed, FULL, backup, Place::Cluster)?;
    let floors = vec![before.seconds, after.seconds];
    let times = Times { walls: vec![first.seconds, second.seconds], empty, floors: floors.clone() };
    let note = format!("{}, {:.1} MB of archive", before.listed(), bed.archive_bytes(FULL)? as f64 / 1e6);
    done(Measured::new(backup, &times, first.peak_mib().max(second.peak_mib()), note));

    let over_lists = |row: &Row, run: &Run, empty: f64, note: &str| {
        let times = Times { walls: vec![run.seconds], empty, floors: floors.clone() };
        Measured::new(row, &times, run.peak_mib(), note.to_owned())
    };
    let nothing = bed.plain(&["verify", FIRST_EMPTY])?.seconds;
    done(over_lists(verify, &bed.plain(&["verify", FULL])?, nothing, "the floor is the lists"));

    let preview_of = |backup: &str| bed.plain(&["restore", "preview", "--from-backup", backup, "--dry-run"]);
    let nothing = preview_of(FIRST_EMPTY)?.seconds;
    done(over_lists(preview, &preview_of(FULL)?, nothing, "the floor is the lists"));

    let nothing = bed.restore("restore-empty", FIRST_EMPTY)?.seconds;
    let audit = Audit::begin(&bed.plane)?;
    let run = bed.restore("restore-unchanged", FULL)?;
    let writes = audit.end(&bed.plane)?;
    if !writes.done.is_empty() {
        bail!("the restore wrote {} times, such as {}", writes.done.len(), writes.done[0]);
    }
    done(over_lists(unchanged, &run, nothing, "no write"));
    // It makes pods: what the rows above compare has none.
    done(browse::on(&bed, browse)?);
    drop(bed);

    let bed = Bed::start(programs, folder.path())?;
    bed.settle()?;
    let nothing = bed.restore("new-empty", FIRST_EMPTY)?.seconds;
    let create = |namespace: &str| bed.floor_create(namespace, new.objects / PART, new.data, Place::Cluster);
    let before = create("floor-before")?;
    bed.settle()?;
    let run = bed.restore("new", FULL)?;
    let after = create("floor-after")?;
    bed.settle()?;
    check_restored(&bed, new.objects / PART)?;
    let whole = |seconds: f64| seconds * PART as f64;
    let floors = vec![whole(before.seconds), whole(after.seconds)];
    let times = Times { walls: vec![run.seconds], empty: nothing, floors };
    let note = format!("the floor is that of a {PART}th of the objects, times {PART}");
    done(Measured::new(new, &times, run.peak_mib(), note));
    Ok(())
}

/// The cluster has what is in the backup, and what the two runs of the floor made: together so many ConfigMaps, and as
/// many Secrets, and a kube-root-ca.crt in each of the floor's namespaces.
fn check_restored(bed: &Bed<'_>, by_floor: usize) -> Result<()> {
    let [config_maps, secrets] = bed.count(Place::Cluster)?;
    let saved = bed.counts_in(FULL)?;
    let expected = |name: &str| saved[name].as_u64().unwrap_or(0) + by_floor as u64;
    // Both runs of the floor make namespaces.
    let root_certificates = 2 * Place::Cluster.namespaces() as u64;
    if secrets != expected("secrets") || config_maps != expected("configmaps") + root_certificates {
        bail!(
            "the cluster has {config_maps} ConfigMaps and {secrets} Secrets: not those of the backup, {saved}, \
             {by_floor} of each by the floor, and {root_certificates} ConfigMaps kube-root-ca.crt"
        );
    }
    Ok(())
}
