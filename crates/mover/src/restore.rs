//! Restore of a tree, a file or a device from a snapshot.
//!
//! A walk over the tree makes directories, opens everything beneath the target without following links, and sends the
//! pieces of files that are not there yet into one plan by packs. The plan's threads write each piece at its place. The
//! last piece of a file gives it owner, mode and times; the last entry of a directory does so for that, so that nothing
//! that is made in it changes its times. Of the tree only the listings of one path and one window of the plan are in
//! memory.

mod attributes;
mod directory;
mod extra;
mod file;
mod hard_links;
mod in_place;
mod link;
mod listing;
mod names;
mod options;
mod prepare;
mod run;
mod saved_device;
mod sink;
mod special;
mod target;
mod walk;
mod zeros;

use crate::tree::{EntryKind, Source, SourceEntry};
use crate::{MoverError, Progress};
use futures::TryFutureExt;
use hard_links::HardLinks;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::DirectoryEntry;
use prepare::Step;
use run::{EndOnDrop, Ended, Run, blocking};
use sink::Writer;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{Semaphore, mpsc};
use walk::Walk;

pub use crate::block_form::is_saved_as_blocks;
pub use names::refusal as name_refusal;
pub use options::{EntryFailure, Existing, RestoreOptions, RestoreReport};
pub use saved_device::{SavedDevice, saved_device};

/// The pieces that wait for the plan, beside its window.
const WAITING: usize = 256;
/// The pieces that are sorted at once: of small files about what a pack holds. With their files they take some 4 MB.
const WINDOW: usize = 1 << 13;

/// Restores an entry of a repository of kopia's format, as [`restore_from`] does.
///
/// # Errors
/// Errors of [`restore_from`].
pub async fn restore(
    repository: &Arc<Repository>,
    root: &DirectoryEntry,
    options: &RestoreOptions,
    progress: &Arc<Progress>,
) -> Result<RestoreReport, MoverError> {
    restore_from(&Source::Kopia(repository.clone()), &root.into(), options, progress).await
}

/// Restores the entry `root` of a snapshot (a directory, a file or a symlink) to the target. A restore that is begun again
/// with the same options goes on: finished files have their size and time and are left alone.
///
/// # Errors
/// The target as a whole, the repository as a whole; entries are in the report. Dropping the future ends the restore, and
/// nothing changes the target after that; files that are not finished have the time of the last writing or 1970 then, so
/// that no later run takes them for finished.
pub async fn restore_from(
    source: &Source,
    root: &SourceEntry,
    options: &RestoreOptions,
    progress: &Arc<Progress>,
) -> Result<RestoreReport, MoverError> {
    let plan = target::plan(source, root, options).await?;
    expect(root, progress);
    let run = Arc::new(Run::new(options.clone(), progress.clone()));
    run.note(|report| report.missing_in_snapshot = root.missing);
    let _end = EndOnDrop(run.clone());
    let opening = run.clone();
    let step = blocking(move || {
        let _step = opening.enter()?;
        target::open(&opening, plan).map_err(|e| opening.end(e))
    });
    if let Ok(Some(step)) = step.await {
        // Where it has ended the run knows why.
        let _ = Box::pin(transfer(source, &run, step)).await;
    }
    let report = run.take()?;
    if options.sync {
        let syncing = run.clone();
        let synced = blocking(move || {
            let synced = sync(&syncing);
            synced.map_err(|source| {
                let path = syncing.options.target.clone();
                syncing.end(MoverError::Target { attempt: "write everything to the disk", path, source })
            })
        });
        if synced.await.is_err() {
            run.take()?;
        }
    }
    Ok(report)
}

/// Walks and reads at once, until both are done or one of them has ended.
async fn transfer(source: &Source, run: &Arc<Run>, step: Step) -> Result<(), Ended> {
    let (pieces, mut waiting) = mpsc::channel(WAITING);
    // More than two windows, so that one is filled while others are on their way.
    let room = Arc::new(Semaphore::new(3 * WINDOW));
    let hard_links = Arc::new(HardLinks::default());
    let walk = Walk { source: source.clone(), run: run.clone(), hard_links: hard_links.clone(), pieces, room };
    let walking = async move {
        match step {
            Step::Directory(root) => walk.tree(root).await,
            step => walk.single(step).await,
        }
    };
    let wanted = futures::stream::poll_fn(move |context| waiting.poll_recv(context));
    let writer = Arc::new(Writer(run.clone()));
    let reading = source.read(wanted, WINDOW, writer).map_err(|error| match error {
        // Somebody has ended the run, and said why.
        error if error.is_cancelled() && run.is_over() => Ended,
        error => run.end(error.into()),
    });
    futures::future::try_join(Box::pin(walking), Box::pin(reading)).await?;
    let run = run.clone();
    blocking(move || hard_links.make(&run)).await
}

/// Tells the progress how much is to come.
fn expect(root: &SourceEntry, progress: &Progress) {
    let (files, bytes) = match (root.expected, &root.kind) {
        (Some(expected), _) => expected,
        (None, EntryKind::File) => (1, root.size),
        (None, _) => (0, 0),
    };
    progress.expected_files.store(files, Ordering::Relaxed);
    progress.expected_bytes.store(bytes, Ordering::Relaxed);
}

fn sync(run: &Run) -> std::io::Result<()> {
    let target = &run.options.target;
    if target.is_symlink() && !target.exists() {
        // What was restored is the symlink itself.
        return Ok(());
    }
    let file = std::fs::File::open(target)?;
    if file.metadata()?.file_type().is_block_device() {
        return file.sync_all();
    }
    Ok(rustix::fs::syncfs(&file)?)
}
