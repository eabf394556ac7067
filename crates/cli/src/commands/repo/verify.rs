//! `lifeboat repo verify`.

use super::RepositoryArgs;
use super::choice::SnapshotSourceArgs;
use super::gaps::SnapshotGaps;
use super::progress::describe;
use super::recovery::damaged_indexes;
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::snapshot::Snapshot;
use lifeboat_kopia::verify::{Problem, VerifyNotes, VerifyOptions, VerifyReport, VerifyRun};
use lifeboat_object::printable;
use lifeboat_standalone::local_operation::state::folder_of;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::warn;
use lifeboat_terminal::output::progress::shown;
use lifeboat_terminal::output::{Output, print_resource};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// Problems, and notes about snapshots, that are printed; all are counted.
const PRINTED: usize = 1000;

/// The errors of a verification that a signal has ended, without and with notes.
const INTERRUPTED: &str = "the verification was interrupted, and has no result";
const INTERRUPTED_WITH_NOTES: &str =
    "the verification was interrupted, and has no result; the same command goes on where it was";
/// The next step after an error that has ended it.
const CUT_OFF: &str = "the verification has no result; the same command goes on where it was";

/// `lifeboat repo verify [SNAPSHOT…]`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The snapshots, each by its ID, the beginning of one, or latest; all when left out
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    snapshot_source: SnapshotSourceArgs,
    /// The share of files whose bytes are read, decrypted and compared, in percent; directories are always read
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    files_percent: f64,
    /// Look only whether all that snapshots refer to is there: read no bytes of files
    #[arg(long, conflicts_with = "files_percent")]
    structure: bool,
    /// The seed by which files are chosen for --files-percent; another one chooses others
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
    /// Read everything, also what this verification had read before it was cut off
    #[arg(long, conflicts_with = "structure")]
    from_start: bool,
    /// The folder in which it is written down what was read, so that the same command resumes; one below ~/.local/state
    /// when left out
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "structure")]
    resume_folder: Option<PathBuf>,
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
        if self.snapshots.is_empty() && self.snapshot_source.names_source() {
            bail!(
                "--source chooses a snapshot, and all of them are verified: name one, such as latest, or leave --source out"
            );
        }
        let opened = self.repository.open(globals).await?;
        let limits = opened.repository.contents().limits();
        let all = opened.repository.snapshots().await?;
        let snapshots = if self.snapshots.is_empty() {
            None
        } else {
            let chosen: Result<BTreeSet<String>> =
                self.snapshots.iter().map(|text| self.snapshot_source.choose(&all, text).map(|one| one.id)).collect();
            Some(chosen?)
        };
        let is_verified = |one: &&Snapshot| snapshots.as_ref().is_none_or(|chosen| chosen.contains(&one.id));
        let mut notes = SnapshotNotes::default();
        all.iter().filter(is_verified).filter_map(note).for_each(|note| notes.add(note));
        let files_percent = if self.structure { 0.0 } else { self.files_percent };
        let options = VerifyOptions { snapshots, files_percent, seed: self.seed, directories: limits.requests, limits };
        let run = self.verify(&opened.repository, options).await?;
        self.print(&run, &notes)?;
        let VerifyReport { problems, damaged_index_entries, damaged_packs, .. } = run.report;
        let is_well = problems + damaged_index_entries + damaged_packs == 0;
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Verifies with progress on standard error.
    async fn verify(&self, repository: &Repository, options: VerifyOptions) -> Result<EndedVerification> {
        let notes = self.open_notes(repository, &options);
        let run = VerifyRun { notes: notes.clone(), ..VerifyRun::default() };
        let counts = Arc::clone(&run.progress);
        let problems: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&problems);
        let began = Instant::now();
        let verifying = repository.verify_resumably(options, run, move |problem| {
            let mut problems = noted.lock().unwrap_or_else(PoisonError::into_inner);
            if problems.len() < PRINTED {
                problems.push(sentence(&problem));
            }
        });
        let line = || {
            let totals = counts.totals();
            format!("verify: {}; {} problems so far", describe(&totals, began.elapsed()), totals.problems)
        };
        let interrupted = if notes.is_some() { INTERRUPTED_WITH_NOTES } else { INTERRUPTED };
        let ended = shown(line, interrupted, verifying).await;
        if let Some(why) = notes.as_ref().and_then(|notes| notes.failure()) {
            warn(Some(&format!(
                "warning: {why}: contents that were read since then are read again when this is cut off"
            )));
        }
        let report = match ended? {
            Ok(report) => report,
            Err(error) if notes.is_some() => return Err(anyhow::Error::new(error).context(CUT_OFF)),
            Err(error) => return Err(error.into()),
        };
        let problems = std::mem::take(&mut *problems.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(EndedVerification { report, problems, goes_on_from: notes.and_then(|notes| notes.goes_on_from()) })
    }

    /// Opens the notes, where files are read. Without them the verification begins at its start, which is no reason not
    /// to verify.
    fn open_notes(&self, repository: &Repository, options: &VerifyOptions) -> Option<Arc<VerifyNotes>> {
        if options.files_percent == 0.0 {
            return None;
        }
        let folder = self.resume_folder.clone().unwrap_or_else(|| folder_of("verifications"));
        match VerifyNotes::open(&folder, repository, options, self.from_start) {
            Ok(notes) => {
                if let Some(begun) = notes.goes_on_from() {
                    let text = format!(
                        "note: goes on with the verification that began {begun}; --from-start reads everything"
                    );
                    warn(Some(&text));
                }
                Some(Arc::new(notes))
            }
            Err(error) => {
                let text =
                    format!("warning: {error}: a verification that is cut off begins anew; look at --resume-folder");
                warn(Some(&text));
                None
            }
        }
    }

    fn print(&self, ended: &EndedVerification, notes: &SnapshotNotes) -> Result<()> {
        match self.output {
            Some(output) => print_resource(&value(ended, notes), output),
            None => print_lines(ended, notes),
        }
    }
}

/// The report as JSON.
fn value(ended: &EndedVerification, notes: &SnapshotNotes) -> Value {
    let EndedVerification { report, problems, goes_on_from } = ended;
    json!({
        "snapshots": report.snapshots,
        "directories": report.directories,
        "files": report.files,
        "contentsRead": report.contents,
        "bytesRead": report.bytes,
        "readBefore": goes_on_from.map(|begun| json!({
            "begun": begun.to_string(),
            "contents": report.contents_before,
            "bytes": report.bytes_before,
        })),
        "damagedIndexEntries": report.damaged_index_entries,
        "damagedPacks": report.damaged_packs,
        "packsWithoutIndex": report.packs_without_index,
        "problemCount": report.problems,
        "problems": problems,
        "noteCount": notes.count,
        "notes": notes.first,
    })
}

/// Prints problems, notes and counts, a line each.
fn print_lines(ended: &EndedVerification, notes: &SnapshotNotes) -> Result<()> {
    let EndedVerification { report, problems, goes_on_from } = ended;
    let mut out = std::io::stdout().lock();
    for problem in problems {
        writeln!(out, "{}", printable(problem))?;
    }
    let more = report.problems.saturating_sub(problems.len() as u64);
    if more > 0 {
        writeln!(out, "and {more} more")?;
    }
    if let Some(damaged) = damaged_indexes(report.damaged_index_entries, report.damaged_packs) {
        writeln!(out, "{damaged}")?;
    }
    for note in &notes.first {
        writeln!(out, "note: {}", printable(note))?;
    }
    let more = notes.count - notes.first.len();
    if more > 0 {
        writeln!(out, "note: and {more} more snapshots lack entries")?;
    }
    if report.packs_without_index > 0 {
        writeln!(
            out,
            "note: no index names {} packs: they are of a snapshot that goes on or was cut off, or what they have was \
             deleted; where snapshots are missing their index may be lost, and --recover-indexes finds it",
            report.packs_without_index
        )?;
    }
    if let Some(begun) = goes_on_from {
        let VerifyReport { contents_before: contents, bytes_before: bytes, .. } = report;
        writeln!(
            out,
            "note: {contents} contents ({bytes} bytes) were read before this verification was cut off, since {begun}, and \
             were not read again"
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

/// A verification that has ended.
struct EndedVerification {
    report: VerifyReport,
    /// Problems that are printed.
    problems: Vec<String>,
    /// The beginning of the verification with which it went on.
    goes_on_from: Option<UnixNanos>,
}

/// Notes about snapshots that lack entries.
#[derive(Debug, Default)]
struct SnapshotNotes {
    /// The number of all.
    count: usize,
    /// Notes that are printed.
    first: Vec<String>,
}

impl SnapshotNotes {
    fn add(&mut self, note: String) {
        self.count += 1;
        if self.first.len() < PRINTED {
            self.first.push(note);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_are_not_printed_are_counted() {
        let mut notes = SnapshotNotes::default();
        (0..PRINTED + 2).for_each(|number| notes.add(number.to_string()));
        assert_eq!((notes.count, notes.first.len()), (PRINTED + 2, PRINTED));
    }
}
