//! A snapshot of a tree, a file or a device.
//!
//! A walk lists each directory once, takes what is unchanged over from earlier snapshots of the source, and reads the rest,
//! several files at once: what is split, hashed and encrypted is so on the threads of the writer, so that one long file
//! keeps all of them busy. An entry that cannot be read is named in its directory and in the report, and hides no other.
//! From time to time what is done is kept as a checkpoint, from which a later run goes on.

mod attributes;
mod blocks;
mod checkpoint;
mod directory;
mod document;
mod entry;
mod file;
mod lost;
mod options;
mod parents;
mod policies;
mod read;
mod root;
mod rules;
mod run;
mod walk;
mod whole;

use crate::{MoverError, Progress};
use blocks::find_block_parent;
use checkpoint::{CHECKPOINT, Checkpoints};
use lifeboat_kopia::RepositoryWriter;
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source};
use lifeboat_kopia::format::time::{HOUR, UnixNanos};
use lifeboat_kopia::snapshot::Snapshot;
use parents::{Parent, choose};
use policies::Policies;
use root::Root;
use run::{Run, blocking};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Notify;

pub use crate::block_form::{BlockChanges, BlockForm};
pub use attributes::LostAttributes;
pub use options::{Checkpoints as CheckpointTimes, Named, SnapshotOptions, SnapshotReport};

/// Checkpoints of others than this run that are younger may be of one that is under way.
const ABANDONED: i64 = 2 * HOUR;

/// Takes a snapshot of what is at a path: a directory, a file, or a block device (as the only file of a directory, both
/// called like the device), which may be saved as blocks instead ([`SnapshotOptions::blocks`]), as may an image of one in a
/// file. The snapshot is in the repository when this returns. Entries that could not be read are in the report.
///
/// # Errors
/// The path as a whole, the repository as a whole, policies that cannot be followed. Then there is no snapshot; what a
/// checkpoint has kept stays. Dropping the future ends it likewise.
pub async fn snapshot(
    writer: &RepositoryWriter,
    path: &Path,
    options: SnapshotOptions,
    progress: &Arc<Progress>,
) -> Result<SnapshotReport, MoverError> {
    let Source { host, user, path: source } = &options.source;
    if [host, user, source].into_iter().any(String::is_empty) {
        return Err(MoverError::Refused("a snapshot needs a host, a user and a path as its source".to_owned()));
    }
    let start = (options.clock)();
    let manifests = writer.repository().manifests().await?;
    let policies = Policies::load(&manifests, &options.source)?;
    let snapshots = manifests.snapshots();
    let block_parent = find_block_parent(&snapshots, &options);
    let earlier = match options.incremental && options.blocks.is_none() {
        true => choose(&snapshots, &options.source, options.parent.as_deref()),
        false => Vec::new(),
    };
    let parents: Vec<Parent<'_>> = earlier.into_iter().filter_map(Parent::of).collect();
    expect(&parents, progress);
    let mut run = Run::new(writer.clone(), options, progress.clone(), policies);
    for text in std::mem::take(&mut run.policies.told) {
        run.warn(text);
    }
    let block_parent = block_parent.unwrap_or_else(|why| {
        run.warn(why);
        None
    });
    run.note(|notes, _| notes.parents = parents.len());
    let run = Arc::new(run);
    let root = {
        let (run, path) = (run.clone(), path.to_owned());
        blocking(move || Root::open(&run, &path)).await??
    };
    let is_done = Notify::new();
    let saving = async {
        let saved = root.save(&run, &parents, block_parent.as_ref()).await;
        is_done.notify_one();
        saved
    };
    // One that is under way when the tree is done goes to its end.
    let keeping = async {
        let checkpoints = Checkpoints::new(run.clone(), root.directory().clone(), start);
        checkpoints.until(&is_done).await
    };
    let (entry, checkpoints) = futures::future::try_join(Box::pin(saving), Box::pin(keeping)).await?;
    checkpoints.check_pause()?;
    let document = document(&run, &root, start, entry);
    let id = writer.save_snapshot(&document)?;
    for old in checkpoints.last.iter().map(String::as_str).chain(abandoned(&snapshots, &document)) {
        writer.delete_manifest(old)?;
    }
    run.flush().await?;
    run.warn_of_future();
    warn_of_markers(&run);
    Ok(run.report(id, document))
}

/// The document of a snapshot that is complete.
fn document(run: &Run, root: &Root, start: UnixNanos, entry: DirectoryEntry) -> SnapshotDocument {
    let mut tags = run.options.tags.clone();
    tags.extend(root.tags());
    SnapshotDocument {
        source: run.options.source.clone(),
        description: run.options.description.clone(),
        start,
        end: (run.options.clock)(),
        stats: run.stats(),
        incomplete: None,
        root: Some(entry),
        tags,
        pins: run.options.pins.clone(),
    }
}

/// Warns of markers of sessions that stay.
fn warn_of_markers(run: &Run) {
    let left = run.writer.contents().undeleted_markers();
    if left > 0 {
        run.warn(format!(
            "{left} markers of sessions (blobs s…) could not be deleted: maintenance deletes them after four days, and keeps \
             packs of these sessions until then"
        ));
    }
}

/// Tells the progress how much the source had when it was saved last.
fn expect(parents: &[Parent<'_>], progress: &Progress) {
    if let Some(summary) = parents.first().and_then(|parent| parent.root.summary.as_ref()) {
        progress.expected_files.store(summary.files, Ordering::Relaxed);
        progress.expected_bytes.store(summary.size, Ordering::Relaxed);
    }
}

/// The manifests of checkpoints of a source that nobody needs any more, since a complete snapshot came after them: those whose
/// run has ended long ago.
fn abandoned<'a>(snapshots: &'a [Snapshot], new: &SnapshotDocument) -> impl Iterator<Item = &'a str> {
    let is_abandoned = |old: &&Snapshot| {
        old.document.as_ref().is_ok_and(|document| {
            document.source == new.source
                && document.incomplete.as_deref() == Some(CHECKPOINT)
                && document.pins.is_empty()
                && document.start < new.start
                && old.written.0.saturating_add(ABANDONED) < new.end.0
        })
    };
    let ids: Vec<&str> = snapshots.iter().filter(is_abandoned).map(|old| old.id.as_str()).collect();
    ids.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::snapshot::Stats;
    use std::collections::BTreeMap;

    #[test]
    fn only_old_checkpoints_of_the_source_are_abandoned() {
        let document = |path: &str, start: i64, incomplete: Option<&str>| SnapshotDocument {
            source: Source { host: "h".to_owned(), user: "u".to_owned(), path: path.to_owned() },
            description: String::new(),
            start: UnixNanos(start * HOUR),
            end: UnixNanos(start * HOUR),
            stats: Stats::default(),
            incomplete: incomplete.map(str::to_owned),
            root: None,
            tags: BTreeMap::new(),
            pins: Vec::new(),
        };
        let snapshot = |id: &str, hour: i64, document| Snapshot {
            id: id.to_owned(),
            written: UnixNanos(hour * HOUR),
            document: Ok(document),
        };
        let pinned = SnapshotDocument { pins: vec!["x".to_owned()], ..document("/p", 1, Some(CHECKPOINT)) };
        let snapshots = [
            snapshot("old", 2, document("/p", 1, Some(CHECKPOINT))),
            snapshot("young", 9, document("/p", 8, Some(CHECKPOINT))),
            snapshot("canceled", 2, document("/p", 1, Some("canceled"))),
            snapshot("complete", 2, document("/p", 1, None)),
            snapshot("other", 2, document("/q", 1, Some(CHECKPOINT))),
            snapshot("later", 2, document("/p", 11, Some(CHECKPOINT))),
            snapshot("pinned", 2, pinned),
        ];
        assert_eq!(abandoned(&snapshots, &document("/p", 10, None)).collect::<Vec<_>>(), ["old"]);
    }
}
