//! Snapshots into an empty repository, and of what has not changed since.

use super::ground::{Ground, SourceData, kopia_snapshot, remove};
use crate::bench::compared::cache::Cache;
use crate::bench::compared::data::{make_file, make_sparse};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

/// The bytes of the image with holes, and of it those that are used.
const IMAGE: u64 = 40 << 30;
const USED: u64 = 1 << 30;

/// The large file, with the page cache warm and cold.
pub(super) fn file(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let (source, bytes) = (ground.data(SourceData::File)?, ground.bytes(SourceData::File));
    let mut rows = Vec::new();
    for cache in [Cache::Warm, Cache::Cold] {
        let sides = [Side::Kopia, Side::Floor, Side::Lifeboat];
        let costs = Costs::in_turn(ground.rounds, &sides, |side| match side {
            Side::Floor => floor(ground, &source.join("data"), cache),
            side => first(ground, side, &source, cache),
        })?;
        let own = costs.best(Side::Lifeboat);
        let user = own.user / costs.best(Side::Floor).user;
        let work = own.cpu() / (bytes as f64 / 1e9);
        let row = MeasuredRow::new(format!("snapshot-file {}", cache.word()), bytes, costs);
        rows.push(
            row.bounded("user time / the floor's", user, 1.25).bounded("CPU s/GB", work, 2.0).beside(Side::Kopia, 0.35),
        );
    }
    Ok(rows)
}

/// Small files, and then the same once more.
pub(super) fn tree(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let source = ground.data(SourceData::Tree)?;
    let mut unchanged = Costs::default();
    let costs = Costs::in_turn(ground.rounds, &[Side::Kopia, Side::Lifeboat], |side| {
        let (first, second) = both(ground, side, &source)?;
        unchanged.add(side, second);
        Ok(first)
    })?;
    let row = |name: &str, costs| {
        MeasuredRow::new(name, ground.bytes(SourceData::Tree), costs).beside(Side::Kopia, 0.4).within(128.0)
    };
    Ok(vec![row("snapshot-tree", costs), row("snapshot-tree unchanged", unchanged)])
}

/// An image with holes, beside a file of the bytes that it uses.
pub(super) fn sparse(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let (image, used) = (ground.scaled(IMAGE), ground.scaled(USED));
    let source = ground.fresh("sparse")?;
    let dense = ground.fresh("dense")?;
    std::fs::create_dir(&source)?;
    std::fs::create_dir(&dense)?;
    make_sparse(&source.join("data"), image, used)?;
    make_file(&dense.join("data"), used)?;
    // The floor is the used part alone. Kopia reads all of the image, which is enough once.
    let mut costs = Costs::in_turn(ground.rounds, &[Side::Floor, Side::Lifeboat], |side| {
        let source = if side == Side::Floor { &dense } else { &source };
        first(ground, Side::Lifeboat, source, Cache::Warm)
    })?;
    costs.add(Side::Kopia, first(ground, Side::Kopia, &source, Cache::Warm)?);
    remove(&source)?;
    remove(&dense)?;
    let row = MeasuredRow::new("snapshot-sparse", used, costs).beside(Side::Floor, 1.2);
    Ok(vec![row.note("the floor is Lifeboat with a file that has only the used bytes")])
}

fn floor(ground: &Ground, file: &Path, cache: Cache) -> Result<Cost> {
    cache.prepare(file)?;
    let mut command = Command::new(&ground.programs.repository_floor);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    command.arg("--threads").arg(threads.to_string()).arg(file);
    Ok(Cost::of(&command)?.0)
}

/// The first snapshot of a new repository.
pub(super) fn first(ground: &Ground, side: Side, source: &Path, cache: Cache) -> Result<Cost> {
    let repository = ground.fresh("written")?;
    let kopia = ground.kopia()?;
    let command = match side {
        Side::Kopia => {
            kopia.create(&repository, &[])?;
            kopia.command(&kopia_snapshot(source))
        }
        _ => {
            ground.run_lifeboat(&repository, &["create"])?;
            ground.lifeboat(&repository.to_string_lossy(), &["snapshot".as_ref(), source.as_os_str()])
        }
    };
    cache.prepare(source)?;
    ground.settle()?;
    let cost = Cost::of(&command)?.0;
    ensure!(repository.exists(), "{} is not there", repository.display());
    remove(&repository)?;
    Ok(cost)
}

/// The first snapshot of a new repository and a second one.
fn both(ground: &Ground, side: Side, source: &Path) -> Result<(Cost, Cost)> {
    let repository = ground.fresh("written")?;
    let kopia = ground.kopia()?;
    match side {
        Side::Kopia => kopia.create(&repository, &[])?,
        _ => drop(ground.run_lifeboat(&repository, &["create"])?),
    }
    let run = || -> Result<Cost> {
        Cache::Warm.prepare(source)?;
        ground.settle()?;
        let command = match side {
            Side::Kopia => kopia.command(&kopia_snapshot(source)),
            _ => ground.lifeboat(&repository.to_string_lossy(), &["snapshot".as_ref(), source.as_os_str()]),
        };
        Ok(Cost::of(&command)?.0)
    };
    let costs = (run()?, run()?);
    remove(&repository)?;
    Ok(costs)
}
