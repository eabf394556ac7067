//! Single volumes by both sides: many small files, and one large file.

use super::ground::{BUCKET, Ground, Installation, RestoredNamespace};
use super::transfers::MovedVolume;
use crate::bench::compared::cache::{Cache, sync};
use crate::bench::compared::data::{Average, SmallFiles, make_file};
use crate::bench::compared::report::MeasuredRow;
use crate::bench::compared::sides::{Cost, Costs, Side};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const FILES: u64 = 100_000;
const FILE_BYTES: usize = 10_000;
const LARGE: u64 = 10 << 30;

/// Small files, saved for the first time, and once more when nothing of them has changed.
pub(super) fn files(ground: &Ground<'_>) -> Result<Vec<MeasuredRow>> {
    let files = ground.scaled(FILES);
    let (mut first, mut again, mut starts) = (Costs::default(), Costs::default(), Vec::new());
    for round in 0..ground.rounds {
        let namespace = format!("files-{round}");
        let folder = ground.application(&namespace, 1)?.pop().context("a volume")?;
        SmallFiles::new()?.make(&folder, files, Average::Bytes(FILE_BYTES))?;
        for by in ground.order(round) {
            for (costs, which) in [(&mut first, "first"), (&mut again, "unchanged")] {
                Cache::Cold.prepare(&folder)?;
                let moved = only(ground.backup(by, &namespace, &format!("{namespace}-{which}"))?)?;
                starts.push(format!("{} {:.1} s", by.side().word(), moved.start));
                costs.add(by.side(), moved.cost);
            }
        }
        ground.lose(&namespace)?;
    }
    let bytes = files * FILE_BYTES as u64;
    let row = |which: &str, costs: Costs| {
        let row = MeasuredRow::new(format!("files-100k {which}"), bytes, costs);
        row.beside(Side::Velero, 0.6)
            .within(128.0)
            .note(format!("{files} files; starts of pods: {}", starts.join(", ")))
    };
    Ok(vec![row("first", first), row("unchanged", again)])
}

/// A large file, saved and restored into another namespace, until it is on disk.
pub(super) fn file(ground: &Ground<'_>) -> Result<Vec<MeasuredRow>> {
    let bytes = ground.scaled(LARGE);
    let (mut backups, mut restores) = (Costs::default(), Costs::default());
    for round in 0..ground.rounds {
        let namespace = format!("file-{round}");
        let folder = ground.application(&namespace, 1)?.pop().context("a volume")?;
        make_file(&folder.join("data"), bytes)?;
        for by in ground.order(round) {
            Cache::Cold.prepare(&folder)?;
            backups.add(by.side(), only(ground.backup(by, &namespace, &namespace)?)?.cost);
            let bucket = ground.s3.file(BUCKET, by.side().word());
            Cache::Cold.prepare(&bucket)?;
            restores.add(by.side(), restored(ground, by, &namespace, &folder)?);
            // Both repositories and both copies at once would need twice the room.
            let repository = bucket.join("kopia").join(&namespace);
            std::fs::remove_dir_all(&repository).with_context(|| format!("remove {}", repository.display()))?;
        }
        ground.lose(&namespace)?;
    }
    let row = |which: &str, costs: Costs| MeasuredRow::new(format!("file-10g {which}"), bytes, costs).within(192.0);
    let note = format!("one file of {bytes} bytes");
    Ok(vec![
        row("backup", backups).beside(Side::Velero, 0.6).note(note.clone()),
        row("restore", restores).beside(Side::Velero, 0.25).note(note),
    ])
}

/// Restores the file beside itself, compares both, and removes the copy.
fn restored(ground: &Ground<'_>, by: Installation, namespace: &str, source: &Path) -> Result<Cost> {
    let copy = format!("{namespace}-{}", by.side().word());
    let mut cost = only(ground.restore(by, namespace, RestoredNamespace { from: namespace, into: &copy })?)?.cost;
    let folder = ground.folder_of(&copy, "data-0")?;
    let began = Instant::now();
    sync(&folder)?;
    cost.wall += began.elapsed().as_secs_f64();
    let status = Command::new("cmp").arg(source.join("data")).arg(folder.join("data")).status().context("run cmp")?;
    ensure!(status.success(), "what {} has restored is not what was saved", by.side().word());
    ground.lose(&copy)?;
    Ok(cost)
}

/// The one volume of an operation.
fn only(moved: Vec<MovedVolume>) -> Result<MovedVolume> {
    ensure!(moved.len() == 1, "{} volumes were moved instead of one", moved.len());
    moved.into_iter().next().context("a volume")
}
