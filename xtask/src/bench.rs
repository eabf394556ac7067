//! `cargo xtask bench`: the release build against the floor, on a real control plane.
//!
//! The rows are in [`rows`]; what a row does is in [`backup`], [`restore`], [`mixed`], [`snapshots`], [`plan`],
//! [`idle`], [`browse`] and [`large`]. How to read the result is in
//! `docs/development.md`.

mod audit;
mod backup;
mod bed;
mod browse;
mod browsing;
mod compared;
mod flags;
mod idle;
mod large;
mod measure;
mod mixed;
mod movers;
mod plan;
mod programs;
mod report;
mod repository;
mod restore;
mod rows;
mod server;
mod snapshots;

pub(crate) use measure::measure;
pub(crate) use movers::{inside as movers_inside, run as run_movers};
pub(crate) use repository::run as run_repository;
pub(crate) use snapshots::inside as snapshots_inside;

use crate::edges::target_folder;
use anyhow::{Result, bail};
use lifeboat_testbed::Binaries;
use programs::Programs;
use report::Measured;
use rows::{Row, RowWork};
use std::path::Path;

/// Runs the rows whose names contain one of the arguments, all without arguments; `--small` with a hundredth of the
/// objects. Speed is no reason to fail; a command that fails, or did not do its work, is.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut rows = rows::chosen(args)?;
    if args.is_empty() && !is_root()? {
        rows.retain(|row| !matches!(row.work, RowWork::Snapshots));
        println!("-- snapshots-500 is left out: a node needs root");
    }
    // A plan needs neither a cluster nor the command.
    let programs = if rows.iter().any(|row| !matches!(row.work, RowWork::Plan)) {
        Binaries::ensure()?;
        Some(Programs::build()?)
    } else {
        None
    };
    let mut done = Vec::new();
    let mut failed = Vec::new();
    for row in rows {
        println!("-- {}, {} objects", row.name, row.objects);
        match run_row(&row, programs.as_ref()) {
            Ok(measured) => {
                println!("   {}", measured.line());
                done.push(measured);
            }
            Err(e) => {
                println!("   failed: {e:#}");
                failed.push(row.name);
            }
        }
    }
    tell(&done, &target_folder()?.join("bench/report.json"))?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Returns true if this process may make a node: its owner must be root.
fn is_root() -> Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self")?) == 0)
}

/// Runs the rows of one cluster with 300,000 objects whose names contain one of the arguments, all without arguments;
/// `--small` with a hundredth of the objects.
pub(crate) fn run_large(args: &[String]) -> Result<()> {
    let rows = rows::large(args)?;
    Binaries::ensure()?;
    let programs = Programs::build()?;
    let mut done = Vec::new();
    let measured = large::run(&rows, &programs, |measured| {
        println!("-- {}\n   {}", measured.name(), measured.line());
        done.push(measured);
    });
    // What was measured before a failure is worth showing.
    tell(&done, &programs.target.join("bench/report-large.json"))?;
    measured
}

fn tell(done: &[Measured], path: &Path) -> Result<()> {
    println!("\n{}", report::table(done));
    for line in report::growth(done) {
        println!("{line}");
    }
    report::write(path, &report::json(done)?)?;
    println!("{}", path.display());
    Ok(())
}

fn run_row(row: &Row, programs: Option<&Programs>) -> Result<Measured> {
    match (row.work, programs) {
        (RowWork::Plan, _) => plan::run(row),
        (RowWork::Verify | RowWork::Preview | RowWork::DiffBackups | RowWork::DiffLive, _) => {
            bail!("this is a row of bench-large")
        }
        (_, None) => bail!("the programs that it measures were not built"),
        (RowWork::Backup(place), Some(programs)) => backup::run(row, place, programs),
        (RowWork::BackupMixed, Some(programs)) => mixed::run(row, programs),
        (RowWork::Restore, Some(programs)) => restore::run_new(row, programs),
        (RowWork::RestoreUnchanged, Some(programs)) => restore::run_unchanged(row, programs),
        (RowWork::ServerBackup, Some(programs)) => server::run_backup(row, programs),
        (RowWork::Snapshots, Some(programs)) => snapshots::run(row, programs),
        (RowWork::ServerRestore, Some(programs)) => server::run_restore(row, programs),
        (RowWork::ServerIdle, Some(programs)) => idle::run_server(row, programs),
        (RowWork::GetBackups, Some(programs)) => idle::run_get(row, programs),
        (RowWork::Browse, Some(programs)) => browse::run(row, programs),
    }
}
