//! The plan of the server for all resources of its namespace: what each change costs it, and what it costs to explain.

use super::measure::MeasuredRun;
use super::programs::Programs;
use super::report::{Measured, Times, median};
use super::rows::Row;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The output of the example.
#[derive(Debug, Deserialize)]
struct Looked {
    objects: usize,
    steps: usize,
    waits: usize,
    /// Of the printed explanation.
    bytes: usize,
    /// Seconds of each plan without reasons.
    plain: Vec<f64>,
    /// Seconds of each with reasons, printed.
    explained: Vec<f64>,
}

pub(crate) fn run(row: &Row) -> Result<Measured> {
    let folder = tempfile::tempdir()?;
    let run = MeasuredRun::of(&Programs::planner()?, &[row.objects.to_string()], folder.path())?;
    ensure!(run.code == Some(0), "the example plan failed: {}", run.stderr);
    let looked: Looked = serde_json::from_str(&run.stdout).context("what the example plan prints")?;
    ensure!(
        looked.objects == row.objects,
        "the example plan looked at {} objects, not at {}",
        looked.objects,
        row.objects
    );
    ensure!(looked.steps > 0 && looked.waits > 0, "the example plan had nothing to do, or nothing that waits");
    let (explained, plain) = (median(&looked.explained), median(&looked.plain));
    let note = format!(
        "{:.1} ms with reasons, {:.1} ms (the floor) without; {} steps begin, {} objects wait, {} kB are printed",
        explained * 1000.0,
        plain * 1000.0,
        looked.steps,
        looked.waits,
        looked.bytes / 1000
    );
    Ok(Measured::new(row, &Times { walls: vec![explained], empty: 0.0, floors: vec![plain] }, run.peak_mib(), note))
}
