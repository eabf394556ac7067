//! `lifeboat repo stats`.

use super::RepositoryArgs;
use super::choice::SnapshotSourceArgs;
use super::progress::describe;
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_kopia::maintenance::references::ContentTotals;
use lifeboat_kopia::progress::WalkProgress;
use lifeboat_kopia::statistics::{PackTotals, RepositoryStatistics, SnapshotStatistics};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::progress::shown;
use lifeboat_terminal::output::{Output, print_resource};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use tabwriter::TabWriter;
use tokio::time::Instant;

/// `lifeboat repo stats [SNAPSHOT]`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// The snapshot that is listed, by its ID, the beginning of one, or latest; all when left out
    #[arg(value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    #[command(flatten)]
    snapshot_source: SnapshotSourceArgs,
    /// Print the numbers as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl StatsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.snapshot.is_none() && self.snapshot_source.names_source() {
            bail!(
                "--source chooses a snapshot, and all of them are counted: name one, such as latest, or leave --source out"
            );
        }
        let opened = self.repository.open(globals).await?;
        let chosen = match &self.snapshot {
            None => None,
            Some(text) => Some(self.snapshot_source.choose(&opened.repository.snapshots().await?, text)?.id),
        };
        let directories = opened.repository.contents().limits().requests;
        let counts = Arc::new(WalkProgress::default());
        let began = Instant::now();
        let counting = opened.repository.statistics_with_progress(directories, counts.clone());
        let line = || format!("stats: {}", describe(&counts.totals(), began.elapsed()));
        let mut statistics = shown(line, "interrupted: there are no numbers", Box::pin(counting)).await??;
        let totals = Totals::of(&statistics);
        if let Some(id) = chosen {
            statistics.snapshots.retain(|one| one.snapshot.id == id);
        }
        match self.output {
            Some(output) => print_resource(&document(&statistics, &totals), output)?,
            None => print(&statistics, &totals, std::io::stdout().lock())?,
        }
        for problem in &statistics.problems {
            writeln!(std::io::stderr(), "error: not counted: {}", printable(problem))?;
        }
        let is_whole = statistics.problems.is_empty();
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) })
    }
}

/// Numbers of all snapshots, also where only one is listed.
struct Totals {
    snapshots: usize,
    logical: u64,
    deduplication: Option<f64>,
    compression: Option<f64>,
}

impl Totals {
    fn of(statistics: &RepositoryStatistics) -> Self {
        Self {
            snapshots: statistics.snapshots.len(),
            logical: statistics.logical(),
            deduplication: statistics.deduplication(),
            compression: statistics.compression(),
        }
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "n/a".to_owned(), |number| number.to_string())
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "n/a".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// A line of the table.
fn row(one: &SnapshotStatistics) -> String {
    let added = |field: fn(&ContentTotals) -> u64| number(one.added.as_ref().map(field));
    let (id, time) = (&one.snapshot.id, one.snapshot.time());
    let (files, logical) = (number(one.files()), number(one.logical()));
    let [contents, plain, stored] = [added(|one| one.count), added(|one| one.plain), added(|one| one.stored)];
    format!("{id}\t{time}\t{files}\t{logical}\t{contents}\t{plain}\t{stored}")
}

fn print(statistics: &RepositoryStatistics, totals: &Totals, mut out: impl Write) -> Result<()> {
    if !statistics.snapshots.is_empty() {
        let mut table = TabWriter::new(&mut out).minwidth(3).padding(3);
        writeln!(table, "ID\tSTART\tFILES\tBYTES\tNEW CONTENTS\tNEW BYTES\tNEW STORED BYTES")?;
        for one in &statistics.snapshots {
            writeln!(table, "{}", row(one))?;
        }
        table.flush()?;
        writeln!(out)?;
    }
    let ContentTotals { count, plain, stored } = statistics.referenced;
    let PackTotals { count: packs, bytes } = statistics.packs;
    let Totals { snapshots, logical, .. } = *totals;
    writeln!(out, "Files of all snapshots: {logical} bytes in {snapshots} snapshots")?;
    writeln!(out, "Contents that snapshots need: {count}, {plain} bytes, {stored} bytes stored")?;
    writeln!(out, "Packs: {packs}, {bytes} bytes")?;
    writeln!(out, "Deduplication: {} (bytes of files to bytes of contents)", ratio(totals.deduplication))?;
    writeln!(out, "Compression: {} (bytes of contents to bytes stored)", ratio(totals.compression))?;
    let Some(reclaimable) = statistics.reclaimable() else {
        writeln!(out, "Reclaimable: n/a, because not all that snapshots need could be read")?;
        return Ok(());
    };
    writeln!(
        out,
        "Reclaimable: {reclaimable} bytes: {} contents that nothing refers to with {} bytes ({} of them marked deleted), and \
         {} packs that no index refers to with {} bytes",
        statistics.unreferenced.count,
        statistics.unreferenced.stored,
        statistics.marked.count,
        statistics.unused_packs.count,
        statistics.unused_packs.bytes
    )?;
    let (young, packs) = (statistics.young, statistics.young_packs);
    if young.count + packs.count > 0 {
        writeln!(
            out,
            "Not counted as reclaimable, because a snapshot under way may need them: {} of these contents with {} bytes, and {} \
             of these packs with {} bytes, which are younger than a day",
            young.count, young.stored, packs.count, packs.bytes
        )?;
    }
    Ok(())
}

fn contents(totals: &ContentTotals) -> Value {
    json!({"count": totals.count, "bytes": totals.plain, "storedBytes": totals.stored})
}

fn packs(totals: &PackTotals) -> Value {
    json!({"count": totals.count, "bytes": totals.bytes})
}

fn document(statistics: &RepositoryStatistics, totals: &Totals) -> Value {
    let snapshot = |one: &SnapshotStatistics| {
        json!({
            "id": one.snapshot.id,
            "start": one.snapshot.time().to_string(),
            "files": one.files(),
            "bytes": one.logical(),
            "added": one.added.as_ref().map(contents),
        })
    };
    json!({
        "snapshots": statistics.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "snapshotCount": totals.snapshots,
        "bytes": totals.logical,
        "contents": contents(&statistics.referenced),
        "manifests": contents(&statistics.manifests),
        "unreferenced": contents(&statistics.unreferenced),
        "markedDeleted": contents(&statistics.marked),
        "packs": packs(&statistics.packs),
        "unusedPacks": packs(&statistics.unused_packs),
        "youngContents": contents(&statistics.young),
        "youngPacks": packs(&statistics.young_packs),
        "deduplication": totals.deduplication,
        "compression": totals.compression,
        "reclaimableBytes": statistics.reclaimable(),
        "problems": statistics.problems,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::time::UnixNanos;
    use lifeboat_kopia::snapshot::Snapshot;

    fn statistics(problems: &[&str]) -> RepositoryStatistics {
        let totals = |count, plain, stored| ContentTotals { count, plain, stored };
        let snapshot = Snapshot { id: "abcd".to_owned(), written: UnixNanos(0), document: Err("no".to_owned()) };
        RepositoryStatistics {
            snapshots: vec![SnapshotStatistics { snapshot, added: Some(totals(2, 30, 20)) }],
            referenced: totals(2, 30, 20),
            manifests: totals(1, 5, 4),
            unreferenced: totals(3, 9, 8),
            marked: totals(1, 3, 2),
            packs: PackTotals { count: 2, bytes: 100 },
            unused_packs: PackTotals { count: 1, bytes: 50 },
            young: totals(1, 4, 3),
            young_packs: PackTotals { count: 0, bytes: 0 },
            problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        }
    }

    fn printed(statistics: &RepositoryStatistics) -> String {
        let mut out = Vec::new();
        print(statistics, &Totals::of(statistics), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_report_says_what_maintenance_can_give_back_and_of_what() {
        let expected = "\
ID     START                  FILES   BYTES   NEW CONTENTS   NEW BYTES   NEW STORED BYTES
abcd   1970-01-01T00:00:00Z   n/a     n/a     2              30          20

Files of all snapshots: 0 bytes in 1 snapshots
Contents that snapshots need: 2, 30 bytes, 20 bytes stored
Packs: 2, 100 bytes
Deduplication: 0.00 (bytes of files to bytes of contents)
Compression: 1.50 (bytes of contents to bytes stored)
Reclaimable: 55 bytes: 3 contents that nothing refers to with 8 bytes (1 of them marked deleted), and 1 packs that no \
            index refers to with 50 bytes
Not counted as reclaimable, because a snapshot under way may need them: 1 of these contents with 3 bytes, and 0 of these \
            packs with 0 bytes, which are younger than a day
";
        assert_eq!(printed(&statistics(&[])), expected);
    }

    #[test]
    fn what_could_not_be_read_may_be_needed() {
        let damaged = statistics(&["snapshot abcd: its manifest cannot be read"]);
        let text = printed(&damaged);
        assert!(text.ends_with("Reclaimable: n/a, because not all that snapshots need could be read\n"), "{text}");
        let document = document(&damaged, &Totals::of(&damaged));
        assert_eq!((&document["reclaimableBytes"], &document["compression"]), (&Value::Null, &json!(1.5)));
        assert_eq!(document["snapshots"][0]["added"], json!({"count": 2, "bytes": 30, "storedBytes": 20}));
    }
}
