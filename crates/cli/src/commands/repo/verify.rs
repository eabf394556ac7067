//! `lifeboat repo verify`.

use super::RepositoryArgs;
use super::choice::SourceArgs;
use super::gaps::SnapshotGaps;
use super::progress::describe;
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_kopia::progress::WalkProgress;
use lifeboat_kopia::snapshot::Snapshot;
use lifeboat_kopia::verify::{Problem, VerifyOptions, VerifyReport};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::progress::shown;
use lifeboat_terminal::output::{Output, print_resource};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// Problems that are printed; all are counted.
const PRINTED: usize = 1000;

/// `lifeboat repo verify [SNAPSHOT…]`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The snapshots, each by its ID, the beginning of one, or latest; all when left out
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    of: SourceArgs,
    /// The share of files whose bytes are read, decrypted and compared, in percent; directories are always read
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    files_percent: f64,
    /// Look only whether all that snapshots refer to is there: read no bytes of files
    #[arg(long, conflicts_with = "files_percent")]
    structure: bool,
    /// The seed by which files are chosen for --files-percent; another one chooses others
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Print the report as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl VerifyArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if !(0.0..=100.0).contains(&self.files_percent) {
            bail!("--files-percent {} is not between 0 and 100", self.files_percent);
        }
        let opened = self.repository.open(globals).await?;
        let limits = opened.repository.contents().limits();
        let all = opened.repository.snapshots().await?;
        let snapshots = if self.snapshots.is_empty() {
            None
        } else {
            let chosen: Result<BTreeSet<String>> =
                self.snapshots.iter().map(|text| self.of.choose(&all, text).map(|one| one.id)).collect();
            Some(chosen?)
        };
        let is_verified = |one: &&Snapshot| snapshots.as_ref().is_none_or(|chosen| chosen.contains(&one.id));
        let notes: Vec<String> = all.iter().filter(is_verified).filter_map(note).take(PRINTED).collect();
        let files_percent = if self.structure { 0.0 } else { self.files_percent };
        let options = VerifyOptions { snapshots, files_percent, seed: self.seed, directories: limits.requests, limits };
        let problems: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&problems);
        let counts = Arc::new(WalkProgress::default());
        let began = Instant::now();
        let verifying = opened.repository.verify_and_count(options, counts.clone(), move |problem| {
            let mut problems = noted.lock().unwrap_or_else(PoisonError::into_inner);
            if problems.len() < PRINTED {
                problems.push(sentence(&problem));
            }
        });
        let line = || {
            let totals = counts.totals();
            format!("verify: {}; {} problems so far", describe(&totals, began.elapsed()), totals.problems)
        };
        let report = shown(line, "the verification was interrupted, and has no result", verifying).await??;
        let problems = std::mem::take(&mut *problems.lock().unwrap_or_else(PoisonError::into_inner));
        self.print(&report, &problems, &notes)?;
        let is_well = report.problems == 0 && report.damaged_index_entries == 0;
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print(&self, report: &VerifyReport, problems: &[String], notes: &[String]) -> Result<()> {
        if let Some(output) = self.output {
            let value = json!({
                "snapshots": report.snapshots,
                "directories": report.directories,
                "files": report.files,
                "contentsRead": report.contents,
                "bytesRead": report.bytes,
                "damagedIndexEntries": report.damaged_index_entries,
                "packsWithoutIndex": report.packs_without_index,
                "problemCount": report.problems,
                "problems": problems,
                "notes": notes,
            });
            return print_resource(&value, output);
        }
        let mut out = std::io::stdout().lock();
        for problem in problems {
            writeln!(out, "{}", printable(problem))?;
        }
        let more = report.problems.saturating_sub(problems.len() as u64);
        if more > 0 {
            writeln!(out, "and {more} more")?;
        }
        if report.damaged_index_entries > 0 {
            writeln!(out, "{} entries of indexes cannot be read", report.damaged_index_entries)?;
        }
        for note in notes {
            writeln!(out, "note: {}", printable(note))?;
        }
        if report.packs_without_index > 0 {
            writeln!(
                out,
                "note: no index names {} packs: they are of a snapshot that goes on or was cut off, or what they have was \
                 deleted; where snapshots are missing their index may be lost, and --recover-indexes finds it",
                report.packs_without_index
            )?;
        }
        let VerifyReport { snapshots, directories, files, contents, bytes, problems, .. } = report;
        writeln!(
            out,
            "{snapshots} snapshots, {directories} directories, {files} files; {contents} contents read, {bytes} bytes; \
             {problems} problems"
        )?;
        Ok(())
    }
}

/// The gaps of a snapshot, which are no damage of the repository; `None` where it has none.
fn note(snapshot: &Snapshot) -> Option<String> {
    SnapshotGaps::of_snapshot(snapshot.document.as_ref().ok()?).note(&snapshot.id)
}

/// A problem in one line.
fn sentence(problem: &Problem) -> String {
    let place = if problem.path.is_empty() { "the root" } else { &problem.path };
    format!("snapshot {}: {place}: {}", problem.snapshot, problem.error)
}
