//! Backups and restores by custom resources, beside the local commands for the same.

use super::bed::{Bed, NAMESPACE, ONE_NAMESPACE};
use super::programs::Programs;
use super::report::{Measured, Times};
use super::restore::{FULL, source};
use super::rows::{Row, RowScope};
use anyhow::Result;
use serde_json::json;

pub(crate) fn run_backup(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let bed = Bed::start(programs, folder.path())?;
    bed.floor_create(NAMESPACE, row.objects, row.data, RowScope::Namespace)?;
    bed.settle()?;
    let selection = ["--include-namespaces", ONE_NAMESPACE];
    let server = bed.server()?;
    let spec = json!({"includedNamespaces": [ONE_NAMESPACE]});
    let backup = |name: &str| json!({"kind": "Backup", "metadata": {"name": name}, "spec": spec});
    let before = bed.backup("local-before", &selection)?;
    let first = server.seconds(&backup("by-server"), "Completed")?;
    let second = server.seconds(&backup("by-server-again"), "Completed")?;
    let after = bed.backup("local-after", &selection)?;
    super::backup::check_contents(&bed, "by-server", row, RowScope::Namespace)?;
    let times = Times { walls: vec![first, second], empty: 0.0, floors: vec![before.seconds, after.seconds] };
    Ok(Measured::new(
        row,
        &times,
        server.peak_mib()?,
        "with two runs of kubectl; the floor is the local command".into(),
    ))
}

pub(crate) fn run_restore(row: &Row, programs: &Programs) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    drop(source(row, programs, folder.path())?);
    let bed = Bed::start(programs, folder.path())?;
    bed.settle()?;
    let server = bed.server()?;
    let restore = json!({"kind": "Restore", "metadata": {"name": "by-server"},
        "spec": {"backupName": FULL, "namespaceMapping": {ONE_NAMESPACE: "by-server"}}});
    // The bucket was filled by the local command: the server takes over what it finds.
    server.until_there("backup", FULL)?;
    let before = bed.restore_into("local-before", "local-before", FULL)?;
    let wall = server.seconds(&restore, "Completed")?;
    let after = bed.restore_into("local-after", "local-after", FULL)?;
    let times = Times { walls: vec![wall], empty: 0.0, floors: vec![before.seconds, after.seconds] };
    Ok(Measured::new(
        row,
        &times,
        server.peak_mib()?,
        "with two runs of kubectl; the floor is the local command".into(),
    ))
}
