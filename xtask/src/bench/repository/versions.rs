//! The newest and the oldest of 30 snapshots.

use super::ground::{Ground, kopia_snapshot, kopia_snapshots, remove};
use super::restores::restore;
use crate::bench::compared::cache::Cache;
use crate::bench::compared::data::{Average, SmallFiles, change, make_file};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Costs, Side};
use anyhow::{Context, Result};

const SNAPSHOTS: usize = 30;
const FILES: u64 = 20_000;
const FILE: u64 = 256 << 20;
/// Of 50 small files one is written anew before each snapshot, and of the large one a hundredth.
const EVERY: u64 = 50;

pub(super) fn run(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let (files, bytes) = (ground.scaled(FILES), ground.scaled(FILE));
    let (source, repository) = (ground.fresh("changing")?, ground.fresh("changed")?);
    std::fs::create_dir(&source)?;
    let mut small = SmallFiles::new()?;
    let of_files = small.make(&source.join("small"), files, Average::Mixed)?;
    make_file(&source.join("large"), bytes)?;
    let kopia = ground.kopia()?;
    kopia.create(&repository, &[])?;
    // More than kopia keeps by itself.
    kopia.run(&["policy", "set", "--global", "--keep-latest=1000", "--max-file-size=0"])?;
    for _ in 0..SNAPSHOTS {
        kopia.run(&kopia_snapshot(&source))?;
        small.change(&source.join("small"), files, EVERY)?;
        change(&source.join("large"), 0.01)?;
    }
    let snapshots = kopia_snapshots(&kopia)?;
    anyhow::ensure!(snapshots.len() == SNAPSHOTS, "kopia has {} snapshots", snapshots.len());
    let (oldest, newest) = (snapshots.first().context("none")?, snapshots.last().context("none")?);
    let mut of_oldest = Costs::default();
    let of_newest = Costs::in_turn(ground.rounds, &[Side::Kopia, Side::Lifeboat], |side| {
        Cache::Warm.prepare(&repository)?;
        of_oldest.add(side, restore(ground, side, &repository, Some(oldest))?);
        restore(ground, side, &repository, Some(newest))
    })?;
    remove(&source)?;
    remove(&repository)?;
    let (new, old) = (of_newest.best(Side::Lifeboat).wall, of_oldest.best(Side::Lifeboat).wall);
    let total = of_files + bytes;
    Ok(vec![
        MeasuredRow::new("restore-oldest of 30", total, of_oldest),
        MeasuredRow::new("restore-newest of 30", total, of_newest).bounded(
            "the slower of both / the faster",
            (old / new).max(new / old),
            1.5,
        ),
    ])
}
