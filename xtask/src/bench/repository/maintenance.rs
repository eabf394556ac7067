//! Full maintenance of a repository with many contents, of which half are garbage.
//!
//! Garbage has to be old before it may go. So the repository is written by a clock that is a month late, and its blobs
//! get times of that day.

use super::ground::{Ground, kopia_snapshots, remove};
use crate::bench::compared::cache::{Cache, files};
use crate::bench::compared::data::{Average, SmallFiles};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result, ensure};
use lifeboat_testbed::with_wrong_clock;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

const CONTENTS: u64 = 1_000_000;
const BYTES: usize = 100;
const MONTH: u64 = 30 * 24 * 60 * 60;

pub(super) fn run(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let contents = ground.scaled(CONTENTS);
    let repository = write(ground, contents)?;
    let costs = Costs::in_turn(ground.rounds, &[Side::Kopia, Side::Lifeboat], |side| {
        let copy = ground.fresh("maintained")?;
        let copied = Command::new("cp").arg("--archive").arg(&repository).arg(&copy).status().context("run cp")?;
        ensure!(copied.success(), "cp ended with {copied}");
        Cache::Warm.prepare(&copy)?;
        let kopia = ground.kopia()?;
        kopia.connect(&copy)?;
        let command = match side {
            Side::Kopia => kopia.command(&["maintenance", "run", "--full", "--no-progress"]),
            _ => ground.lifeboat(&copy.to_string_lossy(), &["maintenance", "run", "--full", "--identity=user@host"]),
        };
        let cost = Cost::of(&command)?.0;
        let deleted = kopia.run(&["content", "list", "--deleted-only", "--summary"])?;
        println!("   {}: deleted contents: {}", side.word(), deleted.trim().lines().last().unwrap_or_default());
        remove(&copy)?;
        Ok(cost)
    })?;
    remove(&repository)?;
    let row = MeasuredRow::new("maintenance-full", contents * BYTES as u64, costs);
    Ok(vec![row.beside(Side::Kopia, 0.5).within(256.0)])
}

/// Writes a repository of two snapshots a month ago, and deletes one of them now.
fn write(ground: &Ground, contents: u64) -> Result<std::path::PathBuf> {
    let repository = ground.fresh("old")?;
    let kopia = ground.kopia()?;
    kopia.create(&repository, &[])?;
    let mut small = SmallFiles::new()?;
    for name in ["first", "second"] {
        let source = ground.fresh("contents")?;
        small.make(&source, contents / 2, Average::Bytes(BYTES))?;
        let args = ["snapshot".as_ref(), source.as_os_str(), "--user=user".as_ref(), "--host=host".as_ref()];
        let mut command = ground.lifeboat(&repository.to_string_lossy(), &args);
        command.arg("--source").arg(format!("/{name}"));
        with_wrong_clock(&mut command, -i64::try_from(MONTH)?)?;
        Cost::of(&command)?;
        remove(&source)?;
    }
    age(&repository)?;
    let oldest = kopia_snapshots(&kopia)?.into_iter().next().context("there is no snapshot")?;
    kopia.run(&["snapshot", "delete", "--delete", &oldest])?;
    Ok(repository)
}

/// Gives all blobs a time of a month ago.
fn age(repository: &Path) -> Result<()> {
    let then = SystemTime::now() - Duration::from_secs(MONTH);
    for path in files(repository)? {
        let file = File::options().write(true).open(&path).with_context(|| format!("open {}", path.display()))?;
        file.set_modified(then).with_context(|| format!("set the time of {}", path.display()))?;
    }
    Ok(())
}
