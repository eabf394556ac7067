//! `cargo xtask bench-movers`: the bytes of volumes, moved by pods of Lifeboat and of Velero in turn on one node, and
//! the cost of the programs that start these pods.
//!
//! The rows are in [`rows`]; what a row does is in [`volumes`], [`many`], [`idle`] and [`server`]. How to read the
//! result is in `docs/development.md`.

mod ground;
mod idle;
mod many;
mod processes;
mod rows;
mod server;
mod transfers;
mod volumes;

use super::compared::report::{MeasuredRow, json, table};
use super::compared::sides::Side;
use super::programs::Programs;
use super::report::write;
use anyhow::{Result, bail};
use ground::Ground;
use lifeboat_testbed::{Binaries, Node, VeleroPrograms, in_namespaces};
use rows::{MoverOptions, RowName};
use std::path::PathBuf;

/// Runs the rows whose names contain one of the words, as root. A missed bound does not fail; a transfer that fails
/// does.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = MoverOptions::parse(args)?;
    Binaries::ensure()?;
    Node::ensure()?;
    let programs = Programs::build()?;
    if options.need_velero() {
        crate::timed("Velero", || VeleroPrograms::build().map(drop))?;
    }
    let mut inside = in_namespaces();
    inside.arg(std::env::current_exe()?).arg("bench-movers-inside");
    inside.args([&programs.target, &programs.lifeboat, &programs.floor]).args(args);
    crate::run("the benchmark on a node", &mut inside)
}

/// The part inside the namespaces, where no network is: `TARGET LIFEBOAT FLOOR ARGS`.
pub(crate) fn inside(args: &[String]) -> Result<()> {
    let [target, lifeboat, floor, args @ ..] = args else { bail!("it is called by the benchmark") };
    let [target, lifeboat, floor] = [target, lifeboat, floor].map(PathBuf::from);
    let programs = Programs { target, lifeboat, repository_floor: floor.with_file_name("repository-floor"), floor };
    let options = MoverOptions::parse(args)?;
    Node::prepare()?;
    let mut results = Results::default();
    let (on_node, alone): (Vec<RowName>, Vec<RowName>) = options.rows.iter().partition(|row| row.needs_node());
    if !on_node.is_empty() {
        let folder = tempfile::tempdir()?;
        let ground = Ground::start(&programs, folder.path(), &options)?;
        for row in on_node {
            results.take(row, || run_row(row, &ground));
        }
    }
    for row in alone {
        results.take(row, || server::run(&programs, options.scale));
    }
    results.tell(&programs)
}

fn run_row(row: RowName, ground: &Ground<'_>) -> Result<Vec<MeasuredRow>> {
    match row {
        RowName::Files => volumes::files(ground),
        RowName::File => volumes::file(ground),
        RowName::Many => many::run(ground),
        RowName::Idle => idle::run(ground),
        RowName::Server => bail!("it needs no node"),
    }
}

/// The rows that were measured, and those that failed.
#[derive(Default)]
struct Results {
    done: Vec<MeasuredRow>,
    failed: Vec<&'static str>,
}

impl Results {
    /// Runs a row and says how it went.
    fn take(&mut self, row: RowName, run: impl FnOnce() -> Result<Vec<MeasuredRow>>) {
        println!("-- {}", row.name());
        match run() {
            Ok(measured) => {
                for measured in measured {
                    println!("{}", measured.details());
                    self.done.push(measured);
                }
            }
            Err(e) => {
                println!("   failed: {e:#}");
                self.failed.push(row.name());
            }
        }
    }

    /// Prints and writes all of them.
    fn tell(&self, programs: &Programs) -> Result<()> {
        println!("\n{}", table(&self.done, Side::Velero));
        let path = programs.target.join("bench/report-movers.json");
        write(&path, &json(&self.done)?)?;
        println!("{}", path.display());
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(", "));
        }
        Ok(())
    }
}
