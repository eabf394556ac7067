//! `lifeboat repo snapshot`.

use super::blocks::BlockArgs;
use super::identity::{VELERO, host, path, user};
use super::progress::{mebibytes, time_left};
use super::{RepositoryArgs, kopia_clock, write_options};
use anyhow::{Context, Result};
use clap::Args;
use lifeboat_kopia::format::snapshot::Source;
use lifeboat_mover::restore::is_saved_as_blocks;
use lifeboat_mover::snapshot::{Named, SnapshotOptions, SnapshotReport, snapshot};
use lifeboat_mover::{Progress, Totals};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{KeyValuePairs, merged, pairs};
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::progress::shown;
use lifeboat_terminal::output::{Output, print_resource};
use lifeboat_terminal::process::random::random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Entries of one sort that are named.
const NAMED: usize = 20;

/// `lifeboat repo snapshot PATH`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// The directory, file or block device that is saved
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The path under which the snapshot is found, instead of PATH as it is on this machine
    #[arg(long, value_name = "PATH")]
    source: Option<String>,
    /// The user of the source, instead of the one who runs this; with --velero: default
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The host of the source, instead of this machine; with --velero: default
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Tags of the snapshot, such as key=value; without --velero tag: is put before each key, as kopia does
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = pairs)]
    tags: Vec<KeyValuePairs>,
    /// The description of the snapshot
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Read every file, also those that have not changed since the last snapshot of the source
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    blocks: BlockArgs,
    /// Print the report as json or yaml, instead of the ID
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl SnapshotArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        self.repository.refuse_recovery()?;
        let mut options = self.options()?;
        let changes = self.blocks.changes()?;
        let opened = self.repository.open(globals).await?;
        let snapshots = match changes {
            Some(_) => opened.repository.snapshots().await?,
            None => Vec::new(),
        };
        options.blocks = self.blocks.form(&options.source, changes, &snapshots)?;
        let write = write_options(&options.source.user, &options.source.host);
        let writer = opened.repository.writer(write).await?;
        let progress = Arc::new(Progress::default());
        let began = Instant::now();
        let line = || format!("snapshot: {}", describe(&progress.totals(), began.elapsed()));
        let report = shown(line, self.interrupted(), snapshot(&writer, &self.path, options, &progress)).await?;
        let report = report.with_context(|| format!("save {}", self.path.display()))?;
        self.print(&report)?;
        Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) })
    }

    /// The error of a snapshot that a signal ends. Checkpoints are made of directories, and asked without `--full`.
    fn interrupted(&self) -> &'static str {
        if self.full || !self.path.is_dir() {
            "the snapshot was interrupted: run the same command again; what is in the repository is not stored again"
        } else {
            "the snapshot was interrupted: run the same command again; what is in the repository is not stored again, and \
             files of the last checkpoint are not read again"
        }
    }

    fn options(&self) -> Result<SnapshotOptions> {
        let is_of_velero = self.repository.is_of_velero();
        let name = |given: &Option<String>, real: fn() -> String| match given {
            Some(name) => name.clone(),
            None if is_of_velero => VELERO.to_owned(),
            None => real(),
        };
        let source = match &self.source {
            Some(source) => source.clone(),
            None => path(&self.path).with_context(|| format!("find the path of {}", self.path.display()))?,
        };
        let source = Source { host: name(&self.host, host), user: name(&self.user, user), path: source };
        // compat: the tags of kopia's command line have this before them, those of Velero have not.
        let before = if is_of_velero { "" } else { "tag:" };
        let tags: BTreeMap<String, String> =
            merged(&self.tags).into_iter().map(|(key, value)| (format!("{before}{key}"), value)).collect();
        Ok(SnapshotOptions {
            tags,
            description: self.description.clone(),
            incremental: !self.full,
            ..SnapshotOptions::new(source, kopia_clock(), random())
        })
    }

    fn print(&self, report: &SnapshotReport) -> Result<()> {
        if let Some(output) = self.output {
            return print_resource(&value(report), output);
        }
        let mut notes = std::io::stderr().lock();
        for (sort, named) in sorts(report) {
            for entry in named.first.iter().take(NAMED) {
                writeln!(notes, "{}: {}: {}", sort.word, printable(&entry.path), printable(&entry.why))?;
            }
            let more = named.count.saturating_sub(NAMED as u64);
            if more > 0 {
                writeln!(notes, "{}: and {more} more {}", sort.word, sort.more)?;
            }
        }
        for warning in report.warnings.iter().chain(&report.lost_attributes.sentences()) {
            writeln!(notes, "warning: {}", printable(warning))?;
        }
        writeln!(notes, "{}", summary(report))?;
        writeln!(std::io::stdout(), "{}", report.id)?;
        Ok(())
    }
}

/// A sort of entries that are not in a snapshot as a user may expect.
struct Sort {
    key: &'static str,
    word: &'static str,
    more: &'static str,
}

fn sorts(report: &SnapshotReport) -> [(Sort, &Named); 7] {
    let sort = |key, word, more| Sort { key, word, more };
    [
        (sort("failed", "error", "that could not be read: they are not in the snapshot"), &report.failed),
        (sort("passedOver", "warning", "that could not be read, and that the policy passes over"), &report.passed_over),
        (sort("changed", "warning", "that were changed while they were read"), &report.changed),
        (
            sort("vanished", "left out", "that were deleted, renamed or replaced while the snapshot was taken"),
            &report.vanished,
        ),
        (sort("special", "left out", "that are sockets, pipes or devices"), &report.special),
        (sort("caches", "left out", "caches: the directories are in the snapshot, and empty"), &report.caches),
        (sort("refused", "left out", "that the policy refuses"), &report.refused),
    ]
}

fn summary(report: &SnapshotReport) -> String {
    let (totals, written) = (&report.totals, &report.written);
    let below = report.document.root.as_ref().and_then(|root| root.summary.as_ref());
    let (files, bytes) = below.map_or((0, 0), |below| (below.files, below.size));
    if is_saved_as_blocks(&report.document.tags) {
        // Velero's form counts no files.
        return format!(
            "1 device, {bytes} bytes in blocks; {} bytes read, {} new, {} stored",
            totals.bytes_read, written.new_bytes, written.stored_bytes
        );
    }
    format!(
        "{files} files, {} directories, {} symlinks, {bytes} bytes; {} bytes read, {} new, {} stored; {} left out by rules; {} failed",
        totals.directories,
        totals.symlinks,
        totals.bytes_read,
        written.new_bytes,
        written.stored_bytes,
        i64::from(report.document.stats.excluded_file_count) + i64::from(report.document.stats.excluded_dir_count),
        report.failed.count
    )
}

/// The report as JSON.
fn value(report: &SnapshotReport) -> Value {
    let document = &report.document;
    let (source, written, lost) = (&document.source, &report.written, &report.lost_attributes);
    let root = document.root.as_ref();
    let below = root.and_then(|root| root.summary.as_ref());
    let mut value = json!({
        "id": report.id,
        "source": {"user": source.user, "host": source.host, "path": source.path},
        "start": document.start.to_string(),
        "end": document.end.to_string(),
        "root": root.and_then(|root| root.object).map(|object| object.to_string()),
        "tags": document.tags,
        "files": below.map(|below| below.files),
        "symlinks": below.map(|below| below.symlinks),
        "directories": below.map(|below| below.directories),
        "bytes": below.map(|below| below.size),
        "filesRead": document.stats.non_cached_files,
        "filesUnchanged": document.stats.cached_files,
        "bytesRead": report.totals.bytes_read,
        "bytesNew": written.new_bytes,
        "bytesStored": written.stored_bytes,
        "excludedFiles": document.stats.excluded_file_count,
        "excludedDirectories": document.stats.excluded_dir_count,
        "parents": report.parents,
        "checkpoints": report.checkpoints,
        "warnings": report.warnings,
        "lostAttributes": {
            "hardLinks": lost.hard_links,
            "accessLists": lost.access_lists,
            "extendedAttributes": lost.extended_attributes,
        },
    });
    for (sort, named) in sorts(report) {
        let first: Vec<_> = named.first.iter().map(|entry| json!({"path": entry.path, "reason": entry.why})).collect();
        value[sort.key] = json!({"count": named.count, "first": first});
    }
    value
}

/// Counts, rate, and the time that is left where an earlier snapshot says how much there is.
fn describe(totals: &Totals, elapsed: Duration) -> String {
    let bytes = totals.bytes_read + totals.bytes_unchanged;
    let rate = bytes as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    let done = format!("{} files, {}, {}/s", totals.files, mebibytes(bytes as f64), mebibytes(rate));
    let expected = totals.expected_bytes;
    if expected <= bytes {
        return done;
    }
    let left = time_left(expected - bytes, rate, "about ");
    format!("{done}, last time {}{left}", mebibytes(expected as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SnapshotArgs,
    }

    fn options(line: &[&str]) -> SnapshotOptions {
        Line::try_parse_from([&["snapshot"], line].concat()).unwrap_or_else(|e| panic!("{e}")).args.options().unwrap()
    }

    #[test]
    fn a_source_is_that_of_kopia_or_with_velero_that_of_velero() {
        let of = |line: &[&str]| {
            let options = options(line);
            (options.source.user, options.source.host, options.source.path, options.tags)
        };
        let tags = |key: &str| BTreeMap::from([(key.to_owned(), "b".to_owned())]);
        let named = of(&["/srv/../x/", "--user", "u", "--host", "h", "--tag", "a=b"]);
        assert_eq!(named, ("u".to_owned(), "h".to_owned(), "/x".to_owned(), tags("tag:a")));
        let velero = of(&["/x", "--velero", "shop", "--bucket", "b", "--source", "s/kopia/ns/pod", "--tag", "a=b"]);
        assert_eq!(velero, ("default".to_owned(), "default".to_owned(), "s/kopia/ns/pod".to_owned(), tags("a")));
        let real = of(&["/x"]);
        assert_eq!((real.0, real.1), (user(), host()));
        assert!(options(&["/x"]).incremental && !options(&["/x", "--full"]).incremental);
    }

    #[test]
    fn an_interrupted_snapshot_promises_a_checkpoint_only_where_there_are_any() {
        let folder = tempfile::tempdir().unwrap();
        let (directory, file) = (folder.path().to_str().unwrap(), folder.path().join("file"));
        std::fs::write(&file, "x").unwrap();
        let promises = |line: &[&str]| {
            let line = Line::try_parse_from([&["snapshot"], line].concat()).unwrap_or_else(|e| panic!("{e}"));
            line.args.interrupted().contains("files of the last checkpoint are not read again")
        };
        let promised = [&[directory][..], &[directory, "--full"], &[file.to_str().unwrap()]].map(promises);
        assert_eq!(promised, [true, false, false]);
    }

    #[test]
    fn progress_tells_how_much_there_was_last_time() {
        let mut totals = Totals { files: 3, bytes_read: 5 << 20, bytes_unchanged: 5 << 20, ..Totals::default() };
        assert_eq!(describe(&totals, Duration::from_secs(10)), "3 files, 10.0 MiB, 1.0 MiB/s");
        totals.expected_bytes = 40 << 20;
        let expected = "3 files, 10.0 MiB, 1.0 MiB/s, last time 40.0 MiB, about 30 s left";
        assert_eq!(describe(&totals, Duration::from_secs(10)), expected);
    }
}
