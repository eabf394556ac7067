//! `lifeboat repo snapshots`.

mod restic;

use super::RepositoryArgs;
use super::gaps::{SnapshotGaps, state};
use anyhow::Result;
use clap::Args;
use lifeboat_kopia::snapshot::Snapshot;
use lifeboat_mover::tree::Source;
use lifeboat_object::printable;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::{Output, print_resource};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use tabwriter::TabWriter;

/// `lifeboat repo snapshots`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Print the snapshots as json or yaml: a list of id, source, start, end, root, tags, stats, incomplete, unreadInSnapshot
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

impl SnapshotsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.repository.open_source(globals).await?;
        let (location, snapshots) = match &opened.source {
            Source::Kopia(repository) => {
                let snapshots = repository.snapshots().await?;
                (repository.blobs().location(), snapshots.iter().map(Listed::from).collect::<Vec<_>>())
            }
            Source::Restic(repository) => {
                let snapshots = repository.snapshots().await?;
                (repository.location(), snapshots.iter().map(Listed::from).collect())
            }
        };
        for (id, why) in snapshots.iter().filter_map(|one| Some((&one.id, one.unreadable.as_ref()?))) {
            writeln!(std::io::stderr(), "error: the manifest of snapshot {id} cannot be read: {}", printable(why))?;
        }
        if let Some(output) = self.output {
            let documents: Vec<&Value> = snapshots.iter().map(|one| &one.document).collect();
            print_resource(&documents, output)?;
        } else if snapshots.is_empty() {
            writeln!(std::io::stderr(), "No snapshots found in {location}")?;
        } else {
            let mut table = TabWriter::new(std::io::stdout()).minwidth(3).padding(3);
            writeln!(table, "ID\tSTART\tSOURCE\tFILES\tBYTES\tSTATE\tTAGS")?;
            for snapshot in &snapshots {
                writeln!(table, "{}", snapshot.row)?;
            }
            table.flush()?;
        }
        let all_readable = snapshots.iter().all(|one| one.unreadable.is_none());
        Ok(if all_readable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A snapshot as it is shown.
struct Listed {
    id: String,
    row: String,
    document: Value,
    /// The reason for which it cannot be read.
    unreadable: Option<String>,
}

impl From<&Snapshot> for Listed {
    fn from(snapshot: &Snapshot) -> Self {
        let unreadable = snapshot.document.as_ref().err().cloned();
        Self { id: snapshot.id.clone(), row: row(snapshot), document: value(snapshot), unreadable }
    }
}

impl From<&lifeboat_restic::Snapshot> for Listed {
    fn from(snapshot: &lifeboat_restic::Snapshot) -> Self {
        let unreadable = snapshot.document.as_ref().err().cloned();
        let (row, document) = (restic::row(snapshot), restic::value(snapshot));
        Self { id: snapshot.id.to_string(), row, document, unreadable }
    }
}

/// A line of the table.
fn row(snapshot: &Snapshot) -> String {
    let Ok(document) = &snapshot.document else {
        return format!("{}\t{}\t\t\t\tunreadable\t", snapshot.id, snapshot.written);
    };
    let source = &document.source;
    let summary = document.root.as_ref().and_then(|root| root.summary.as_ref());
    let count = |number: Option<u64>| number.map_or_else(|| "n/a".to_owned(), |number| number.to_string());
    let state = state(document);
    let tags: Vec<String> = document.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(
        "{}\t{}\t{}@{}:{}\t{}\t{}\t{state}\t{}",
        snapshot.id,
        document.start,
        printable(&source.user),
        printable(&source.host),
        printable(&source.path),
        count(summary.map(|summary| summary.files)),
        count(summary.map(|summary| summary.size)),
        printable(tags.join(","))
    )
}

/// A snapshot as JSON.
fn value(snapshot: &Snapshot) -> Value {
    let Ok(document) = &snapshot.document else {
        let why = snapshot.document.as_ref().err();
        return json!({"id": snapshot.id, "written": snapshot.written.to_string(), "error": why});
    };
    let (source, stats) = (&document.source, &document.stats);
    json!({
        "id": snapshot.id,
        "source": {"user": source.user, "host": source.host, "path": source.path},
        "description": document.description,
        "start": document.start.to_string(),
        "end": document.end.to_string(),
        "root": document.root.as_ref().and_then(|root| root.object).map(|object| object.to_string()),
        "tags": document.tags,
        "pins": document.pins,
        "stats": {
            "totalSize": stats.total_size,
            "excludedTotalSize": stats.excluded_total_size,
            "fileCount": stats.file_count,
            "cachedFiles": stats.cached_files,
            "nonCachedFiles": stats.non_cached_files,
            "dirCount": stats.dir_count,
            "excludedFileCount": stats.excluded_file_count,
            "excludedDirCount": stats.excluded_dir_count,
            "ignoredErrorCount": stats.ignored_error_count,
            "errorCount": stats.error_count,
        },
        "incomplete": document.incomplete,
        "unreadInSnapshot": SnapshotGaps::of_snapshot(document).document(),
    })
}
