//! Restores from a repository in a directory, until everything is on disk.

use super::ground::{Ground, SourceData, kopia_restore, kopia_snapshots, remove};
use crate::bench::compared::cache::Cache;
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// The large file, with the page cache warm and cold.
pub(super) fn file(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let repository = ground.repository(SourceData::File)?;
    let mut rows = Vec::new();
    for cache in [Cache::Warm, Cache::Cold] {
        let costs = Costs::in_turn(ground.rounds, &[Side::Kopia, Side::Lifeboat], |side| {
            cache.prepare(&repository)?;
            restore(ground, side, &repository, None)
        })?;
        let row = MeasuredRow::new(format!("restore-file {}", cache.word()), ground.bytes(SourceData::File), costs);
        rows.push(row.beside(Side::Kopia, 0.2));
    }
    Ok(rows)
}

/// Small files, beside tar.
pub(super) fn tree(ground: &Ground) -> Result<Vec<MeasuredRow>> {
    let repository = ground.repository(SourceData::Tree)?;
    let archive = ground.fresh("tree.tar")?;
    let mut make = Command::new("tar");
    make.arg("--create").arg("--file").arg(&archive).arg("--directory").arg(ground.data(SourceData::Tree)?).arg(".");
    let status = make.status().context("run tar")?;
    anyhow::ensure!(status.success(), "tar ended with {status}");
    let costs = Costs::in_turn(ground.rounds, &[Side::Kopia, Side::Floor, Side::Lifeboat], |side| match side {
        Side::Floor => {
            Cache::Warm.prepare(&archive)?;
            untar(ground, &archive)
        }
        side => {
            Cache::Warm.prepare(&repository)?;
            restore(ground, side, &repository, None)
        }
    })?;
    remove(&archive)?;
    let row = MeasuredRow::new("restore-tree", ground.bytes(SourceData::Tree), costs).beside(Side::Floor, 1.3);
    Ok(vec![row.note("the floor is tar and sync")])
}

/// Restores a snapshot, the last one when none is named, into a new folder. Kopia's is followed by a sync, which ours
/// does itself.
pub(super) fn restore(ground: &Ground, side: Side, repository: &Path, snapshot: Option<&str>) -> Result<Cost> {
    let target = ground.fresh("restored")?;
    ground.settle()?;
    let cost = match side {
        Side::Kopia => {
            let kopia = ground.kopia()?;
            kopia.connect(repository)?;
            let snapshots = kopia_snapshots(&kopia)?;
            let snapshot = snapshot.or(snapshots.last().map(String::as_str)).context("kopia finds no snapshot")?;
            let cost = Cost::of(&kopia.command(&kopia_restore(snapshot, &target)))?.0;
            cost.and(ground.synced(&target)?)
        }
        _ => {
            let args = ["restore".as_ref(), snapshot.unwrap_or("latest").as_ref(), target.as_os_str()];
            Cost::of(&ground.lifeboat(&repository.to_string_lossy(), &args))?.0
        }
    };
    remove(&target)?;
    Ok(cost)
}

fn untar(ground: &Ground, archive: &Path) -> Result<Cost> {
    let target = ground.fresh("restored")?;
    std::fs::create_dir(&target)?;
    ground.settle()?;
    let mut command = Command::new("tar");
    command.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&target);
    let cost = Cost::of(&command)?.0.and(ground.synced(&target)?);
    remove(&target)?;
    Ok(cost)
}
