//! `cargo xtask bench-repo`: repositories written, restored and maintained by Lifeboat and by kopia, in turn.
//!
//! The rows are in [`rows`], what they measure with in [`ground`] and [`compared`](super::compared). How to read the
//! result is in `docs/development.md`.

mod far;
mod ground;
mod in_place;
mod maintenance;
mod many;
mod restores;
mod rows;
mod snapshots;
mod versions;

use super::compared::report::{MeasuredRow, json, table};
use super::compared::sides::Side;
use super::programs::Programs;
use super::report::write;
use anyhow::{Result, bail};
use ground::Ground;
use rows::{Options, RowName};

/// Runs the rows whose names contain one of the words. A missed bound does not fail; a command that fails does.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let programs = Programs::build()?;
    let path = programs.target.join("bench/report-repo.json");
    let ground = Ground::new(programs, options.scale, options.rounds)?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for row in options.rows {
        println!("-- {}", row.name());
        match run_row(row, &ground) {
            Ok(measured) => {
                for measured in measured {
                    println!("{}", measured.details());
                    done.push(measured);
                }
            }
            Err(e) => {
                println!("   failed: {e:#}");
                failed.push(row.name());
            }
        }
    }
    println!("\n{}", table(&done, Side::Kopia));
    write(&path, &json(&done)?)?;
    println!("{}", path.display());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn run_row(row: RowName, ground: &Ground) -> Result<Vec<MeasuredRow>> {
    match row {
        RowName::SnapshotFile => snapshots::file(ground),
        RowName::SnapshotTree => snapshots::tree(ground),
        RowName::RestoreFile => restores::file(ground),
        RowName::RestoreTree => restores::tree(ground),
        RowName::SnapshotSparse => snapshots::sparse(ground),
        RowName::RestoreVersions => versions::run(ground),
        RowName::RestoreInPlace => in_place::run(ground),
        RowName::MaintenanceFull => maintenance::run(ground),
        RowName::RestoreFileFar => far::file(ground),
        RowName::RestoreTreeFar => far::tree(ground),
        RowName::SnapshotManyLong => many::run(ground),
    }
}
