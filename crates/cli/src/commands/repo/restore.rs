//! `lifeboat repo restore`.

use super::choice::SnapshotSourceArgs;
use super::gaps::SnapshotGaps;
use super::progress::{mebibytes, time_left};
use super::source::FoundEntry;
use super::{RepositoryArgs, SnapshotPath};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use lifeboat_mover::restore::{
    Existing, RestoreOptions, RestoreReport, SavedDevice, is_saved_as_blocks, restore_from, saved_device,
};
use lifeboat_mover::tree::{EntryKind, Source, SourceEntry};
use lifeboat_mover::{Progress, Totals};
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::exit_code::PARTIALLY_FAILED;
use lifeboat_terminal::output::progress::shown;
use lifeboat_terminal::output::{Output, print_resource};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// `lifeboat repo restore SNAPSHOT[:PATH] TARGET`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The snapshot, by its ID, the beginning of one, or latest; and the path of a directory or file in it
    #[arg(value_name = "SNAPSHOT[:PATH]")]
    entry: SnapshotPath,
    /// The folder into which the tree goes, made when it is missing; or the file or block device
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    #[command(flatten)]
    snapshot_source: SnapshotSourceArgs,
    #[command(flatten)]
    flags: RestoreFlags,
    #[command(flatten)]
    repository: RepositoryArgs,
}

/// Flags of a restore out of a repository.
#[derive(Debug, Args)]
pub(crate) struct RestoreFlags {
    /// Policy for files that exist
    #[arg(long, value_enum, default_value_t = ExistingFiles::Update)]
    existing: ExistingFiles,
    /// Delete what the target has and the snapshot has not
    #[arg(long)]
    delete_extra: bool,
    /// Write zeros instead of leaving holes
    #[arg(long)]
    no_sparse: bool,
    /// Leave owner and group as those of the user who restores
    #[arg(long)]
    no_owners: bool,
    /// End at the first file that cannot be restored
    #[arg(long)]
    stop_at_first_error: bool,
    /// Print the report as json or yaml
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

/// An entry of a repository that is restored, and its target.
#[derive(Clone, Copy)]
pub(crate) struct Restored<'a> {
    pub(crate) source: &'a Source,
    pub(crate) entry: &'a SourceEntry,
    /// The gaps of the snapshot below the entry.
    pub(crate) gaps: &'a SnapshotGaps,
    /// The length of a device, which may be saved with more bytes.
    pub(crate) length: Option<u64>,
    /// The entry for people.
    pub(crate) what: &'a str,
    pub(crate) target: &'a Path,
}

/// `--existing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExistingFiles {
    /// A file of equal size and time is left alone, of any other only the pieces that differ are fetched and written
    Update,
    /// The same, but times are not believed: each file is read and compared
    Verify,
    /// Each file is written anew
    Overwrite,
    /// A file that exists is an error and stays as it is
    Keep,
}

impl RestoreArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open_source(globals).await?;
        let found = self.entry.find_in(&opened.source, &self.snapshot_source).await?;
        let FoundEntry { snapshot, tags, entry, gaps } = found;
        let what = format!("snapshot {snapshot}");
        let (source, target) = (&opened.source, &self.target);
        let is_root = self.entry.path.is_empty() && entry.kind == EntryKind::Directory;
        // Into a folder that is there goes the tree, whatever it has.
        let device = if is_root && !target.is_dir() {
            as_device(source, entry, &tags).await
        } else {
            in_blocks(source, entry, &tags).await
        };
        let (entry, length) = device.with_context(|| format!("read {what}"))?;
        let restored = Restored { source, entry: &entry, gaps: &gaps, length, what: &what, target };
        self.flags.restore(restored).await
    }
}

/// The file and the length of a device, where a snapshot with these tags has saved it as blocks: the last one is filled
/// up. Its path may be named as well as that of the root. Any other entry is given back as it is.
pub(crate) async fn in_blocks(
    source: &Source,
    entry: SourceEntry,
    tags: &BTreeMap<String, String>,
) -> Result<(SourceEntry, Option<u64>)> {
    if !is_saved_as_blocks(tags) {
        return Ok((entry, None));
    }
    as_device(source, entry, tags).await
}

/// The file and the length of a device, where the root of a snapshot is of one, in blocks or as a stream. Any other entry
/// is given back as it is.
async fn as_device(
    source: &Source,
    entry: SourceEntry,
    tags: &BTreeMap<String, String>,
) -> Result<(SourceEntry, Option<u64>)> {
    Ok(match saved_device(source, &entry, tags).await? {
        Some(SavedDevice { file, length, .. }) => (file, Some(length)),
        None => (entry, None),
    })
}

/// The entry of a device as a file, which has the mode of the file that is there, or is for its user alone: the mode of
/// the snapshot, 0777, is nobody's choice.
fn image_of(device: &SourceEntry, target: &Path) -> SourceEntry {
    let mut image = device.clone();
    if let Some(attributes) = &mut image.attributes {
        attributes.mode = std::fs::metadata(target).map_or(0o600, |there| there.mode() & 0o777);
    }
    image
}

impl RestoreFlags {
    /// Restores an entry and prints the report. Ends with another code where it is not all there.
    pub(crate) async fn restore(&self, restored: Restored<'_>) -> Result<ExitCode> {
        let Restored { source, entry, gaps, length, what, target } = restored;
        let image = length.map(|_| image_of(entry, target));
        let entry = image.as_ref().unwrap_or(entry);
        let options = RestoreOptions {
            existing: match self.existing {
                ExistingFiles::Update => Existing::Update,
                ExistingFiles::Verify => Existing::Verify,
                ExistingFiles::Overwrite => Existing::Overwrite,
                ExistingFiles::Keep => Existing::Keep,
            },
            delete_extra: self.delete_extra,
            sparse: !self.no_sparse,
            // A device has none.
            owners: !self.no_owners && image.is_none(),
            stop_at_first_error: self.stop_at_first_error,
            length,
            ..RestoreOptions::new(target)
        };
        let progress = Arc::new(Progress::default());
        let began = Instant::now();
        let line = || format!("restore: {}", describe(&progress.totals(), began.elapsed()));
        let interrupted = "the restore was interrupted: the same command goes on where it was";
        let report = shown(line, interrupted, restore_from(source, entry, &options, &progress)).await?;
        let report = report.with_context(|| format!("restore {what} to {}", target.display()))?;
        self.print(&report, gaps)?;
        Ok(if is_whole(&report, gaps) { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) })
    }

    fn print(&self, report: &RestoreReport, gaps: &SnapshotGaps) -> Result<()> {
        let totals = &report.totals;
        if let Some(output) = self.output {
            let failures: Vec<_> =
                report.failures.iter().map(|failure| json!({"path": failure.path, "reason": failure.why})).collect();
            let value = json!({
                "files": totals.files,
                "directories": totals.directories,
                "symlinks": totals.symlinks,
                "bytesWritten": totals.bytes_written,
                "bytesFetched": totals.bytes_fetched,
                "bytesUnchanged": totals.bytes_unchanged,
                "deleted": report.deleted,
                "failed": report.failed,
                "failures": failures,
                "missingInSnapshot": report.missing_in_snapshot,
                "unreadInSnapshot": gaps.document(),
                "incomplete": gaps.incomplete(),
                "ownersNotSet": report.owners_not_set,
                "attributesNotSet": report.attributes_not_set,
                "extendedAttributesNotSet": report.extended_attributes_not_set,
                "unfinished": report.unfinished,
                "namesChanged": report.names_changed,
                "sockets": report.sockets,
                "notCleared": report.not_cleared,
            });
            return print_resource(&value, output);
        }
        for failure in &report.failures {
            let path = if failure.path.is_empty() { "the root" } else { &failure.path };
            writeln!(std::io::stderr(), "error: {}: {}", printable(path), printable(&failure.why))?;
        }
        for warning in warnings(report) {
            writeln!(std::io::stderr(), "warning: {warning}")?;
        }
        for sentence in gaps.sentences() {
            writeln!(std::io::stderr(), "warning: {sentence}")?;
        }
        writeln!(
            std::io::stdout(),
            "{} files, {} directories, {} symlinks; {} bytes written, {} fetched, {} there already; {} deleted, {} failed",
            totals.files,
            totals.directories,
            totals.symlinks,
            totals.bytes_written,
            totals.bytes_fetched,
            totals.bytes_unchanged,
            report.deleted,
            report.failed
        )?;
        Ok(())
    }
}

/// True where everything that was saved is there.
fn is_whole(report: &RestoreReport, gaps: &SnapshotGaps) -> bool {
    gaps.incomplete().is_none() && report.failed == 0 && report.missing_in_snapshot == 0 && report.unfinished == 0
}

/// Differences from what was saved that are no failures of single files.
fn warnings(report: &RestoreReport) -> Vec<String> {
    let more = report.failed.saturating_sub(report.failures.len() as u64);
    let counted = [
        (more, "more entries failed"),
        (report.missing_in_snapshot, "entries could not be read when the snapshot was taken, and are not in it"),
        (report.unfinished, "files were cut short while they were saved, and are left out"),
        (report.names_changed, "names had bytes that are no UTF-8: the repository has U+FFFD in their place"),
        (
            report.attributes_not_set,
            "entries of other owners keep their permissions and times: run it as root to set them",
        ),
        (report.sockets, "sockets are left out: the programs that listen make them"),
        (
            report.extended_attributes_not_set,
            "extended attributes are not set: this user or the file system of the target cannot have them",
        ),
        (report.not_cleared, "directories keep what the snapshot may not have: it does not have all that was in them"),
    ];
    let mut warnings: Vec<String> =
        counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect();
    if report.owners_not_set {
        warnings.push("owners are those of the user who restores: run it as root to set them".to_owned());
    }
    warnings
}

/// Counts, rate, and the time that is left as soon as the whole is known.
fn describe(totals: &Totals, elapsed: Duration) -> String {
    let bytes = totals.bytes_written + totals.bytes_unchanged;
    let rate = bytes as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    let (done, rate_text) = (mebibytes(bytes as f64), mebibytes(rate));
    if totals.expected_bytes == 0 && totals.expected_files == 0 {
        return format!("{} files, {done}, {rate_text}/s", totals.files);
    }
    let left = time_left(totals.expected_bytes.saturating_sub(bytes), rate, "");
    format!(
        "{} of {} files, {done} of {}, {rate_text}/s{left}",
        totals.files,
        totals.expected_files,
        mebibytes(totals.expected_bytes as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::snapshot::SnapshotDocument;
    use lifeboat_kopia::format::time::UnixNanos;
    use lifeboat_mover::tree::Attributes;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn progress_tells_how_much_and_how_long_yet() {
        let mut totals = Totals { files: 3, bytes_written: 5 << 20, bytes_unchanged: 5 << 20, ..Totals::default() };
        assert_eq!(describe(&totals, Duration::from_secs(10)), "3 files, 10.0 MiB, 1.0 MiB/s");
        (totals.expected_files, totals.expected_bytes) = (9, 40 << 20);
        assert_eq!(
            describe(&totals, Duration::from_secs(10)),
            "3 of 9 files, 10.0 MiB of 40.0 MiB, 1.0 MiB/s, 30 s left"
        );
    }

    #[test]
    fn the_image_of_a_device_is_for_its_user_or_keeps_the_mode_that_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let attributes = Attributes { mode: 0o777, uid: 0, gid: 0, modified: UnixNanos(7), extended: None };
        let device = SourceEntry { attributes: Some(attributes), ..SourceEntry::directory("disk".into()) };
        let target = folder.path().join("image");
        let mode = || image_of(&device, &target).attributes.unwrap().mode;
        assert_eq!(mode(), 0o600);
        std::fs::write(&target, "").unwrap();
        std::fs::set_permissions(&target, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(mode(), 0o640);
    }

    /// The gaps of a snapshot that was not finished.
    fn checkpoint() -> SnapshotGaps {
        let text = r#"{"incomplete":"checkpoint","rootEntry":{"name":"p","type":"d","obj":"k00"}}"#;
        SnapshotGaps::of_snapshot(&SnapshotDocument::parse(text).unwrap())
    }

    #[test]
    fn a_restore_is_whole_only_when_everything_that_was_saved_is_there() {
        let whole = RestoreReport { owners_not_set: true, names_changed: 1, ..RestoreReport::default() };
        let no_gaps = SnapshotGaps::default();
        assert!(is_whole(&whole, &no_gaps));
        assert!(!is_whole(&whole, &checkpoint()), "whole directories may be missing");
        assert_eq!(warnings(&whole).len(), 2);
        for part in [
            RestoreReport { failed: 1, ..RestoreReport::default() },
            RestoreReport { missing_in_snapshot: 1, ..RestoreReport::default() },
            RestoreReport { unfinished: 1, ..RestoreReport::default() },
        ] {
            assert!(!is_whole(&part, &no_gaps), "{part:?}");
            assert_eq!(warnings(&part).len(), 1, "{part:?}");
        }
    }
}
