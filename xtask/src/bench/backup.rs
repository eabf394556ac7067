//! Backups.

use super::bed::{Bed, EMPTY_NAMESPACE, MEASURED, NAMESPACE, ONE_NAMESPACE, paths};
use super::programs::Programs;
use super::report::Measured;
use super::rows::{Data, Row, RowScope};
use anyhow::{Result, bail};

pub(crate) fn run(row: &Row, place: RowScope, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.settle()?;
    let (selection, empty_selection): (&[&str], &[&str]) = match place {
        RowScope::Namespace => (&["--include-namespaces", ONE_NAMESPACE], &["--include-namespaces", EMPTY_NAMESPACE]),
        RowScope::Cluster => (&[], &[]),
    };
    let empty = bed.empty(|name| bed.backup(name, empty_selection))?;
    bed.floor_create(NAMESPACE, row.objects, row.data, place)?;
    bed.settle()?;
    let measured = bed.in_turn(&paths(place), |name| bed.backup(name, selection))?;
    check_contents(&bed, MEASURED, row, place)?;
    let note = format!("{}, {:.1} MB of archive", measured.floor.listed(), bed.archive_bytes(MEASURED)? as f64 / 1e6);
    Ok(measured.measured(row, empty, note))
}

/// Checks that the cluster has the objects that the row asks for, and that all of them are in the backup.
pub(crate) fn check_contents(bed: &Bed<'_>, backup: &str, row: &Row, place: RowScope) -> Result<()> {
    let [config_maps, secrets] = bed.count(place)?;
    let objects = row.objects as u64;
    let ours = match row.data {
        Data::Small => objects / 2,
        Data::Large => 0,
    };
    // Every namespace has a ConfigMap with the authority; the whole cluster has a few more.
    let least = objects - ours + place.namespaces() as u64;
    if secrets != ours || config_maps < least || (place == RowScope::Namespace && config_maps > least) {
        bail!("the cluster has {config_maps} ConfigMaps and {secrets} Secrets: not {objects} objects");
    }
    let saved = bed.counts_in(backup)?;
    let count = |name: &str| saved[name].as_u64().unwrap_or(0);
    if (count("configmaps"), count("secrets")) != (config_maps, secrets) {
        bail!("the cluster has {config_maps} ConfigMaps and {secrets} Secrets, the backup {saved}");
    }
    Ok(())
}
