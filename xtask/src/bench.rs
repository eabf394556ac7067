//! `cargo xtask bench`: the release build against the floor, on a real control plane.
//!
//! The rows are in [`rows`]; what a row does is in [`backup`], [`restore`], [`mixed`] and [`large`]. How to read the result is in
//! `docs/development.md`.

mod audit;
mod backup;
mod bed;
mod large;
mod measure;
mod mixed;
mod programs;
mod report;
mod restore;
mod rows;
mod server;

pub(crate) use measure::measure;

use anyhow::{Context, Result, bail};
use lifeboat_testbed::Binaries;
use programs::Programs;
use report::Measured;
use rows::{Row, Work};
use std::path::Path;

/// Runs the rows whose names contain one of the arguments, all without arguments; `--small` with a hundredth of the
/// objects. Speed is no reason to fail; a command that fails, or did not do its work, is.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let rows = rows::chosen(args)?;
    Binaries::ensure()?;
    let programs = Programs::build()?;
    let mut done = Vec::new();
    let mut failed = Vec::new();
    for row in rows {
        println!("-- {}, {} objects", row.name, row.objects);
        match run_row(&row, &programs) {
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
    tell(&done, &programs.target.join("bench/report.json"))?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs the rows of one cluster with 300,000 objects, `--small` with a hundredth of them.
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
    write(path, &report::json(done)?)?;
    println!("{}", path.display());
    Ok(())
}

fn run_row(row: &Row, programs: &Programs) -> Result<Measured> {
    match row.work {
        Work::Backup(place) => backup::run(row, place, programs),
        Work::BackupMixed => mixed::run(row, programs),
        Work::Restore => restore::run_new(row, programs),
        Work::RestoreUnchanged => restore::run_unchanged(row, programs),
        Work::ServerBackup => server::run_backup(row, programs),
        Work::ServerRestore => server::run_restore(row, programs),
        Work::Verify | Work::Preview => bail!("this is a row of bench-large"),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
