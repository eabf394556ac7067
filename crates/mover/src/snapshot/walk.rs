//! The walk over a tree: each directory is listed, compared with those of earlier snapshots, its files are saved, then the
//! directories below it, and then its own object is written. Where an entry has vanished before it was read the directory is
//! listed once more before that, and what the first listing did not have is saved as well: it may be the same under a new name.
//!
//! Directories below one another are walked side by side as far as there is room for that. A listing of a million entries
//! takes 150 MB, and up to four times that where all of them are renamed meanwhile. In memory are those of the directories on the way to where the walk is, and of at most 16 beside.

use super::attributes::FoundAttributes;
use super::directory::Directory;
use super::document::{Unfinished, write};
use super::entry::{Entry, Kind, each};
use super::file::{SMALL, save_batch, save_long};
use super::lost::drop_lost;
use super::parents::{ParentDirectory, Parents, take_over};
use super::rules::{Rules, is_cache};
use super::run::{Run, blocking, joined};
use crate::MoverError;
use crate::failure::{Failed, NotSaved};
use crate::handles::Identity;
use crate::progress::add;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use lifeboat_kopia::format::directory::Summary;
use lifeboat_kopia::format::object_id::ObjectId;
use rustix::fs::{FileType, fstat};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

/// The most small files of one batch, and the most bytes of them together.
const BATCH: usize = 64;
const BATCH_BYTES: u64 = 1 << 20;

/// The warning of a snapshot that is empty, and how to get another one.
const CACHE_AS_ROOT: &str = "the folder itself has a CACHEDIR.TAG, which says that it is a cache: the snapshot is empty; with \
                             ignoreCacheDirs: false in the policy it is saved";

/// A directory that is to be saved.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) directory: Arc<Directory>,
    /// The rules that count above it.
    pub(super) rules: Arc<Rules>,
    /// The same directory in earlier snapshots.
    pub(super) parents: Vec<ParentDirectory>,
}

/// A directory that is saved, with its totals.
pub(super) type SavedDirectory = (ObjectId, Summary);

/// Saves a directory and all below it. One that cannot be listed is recorded by the caller.
pub(super) fn save(run: Arc<Run>, visit: Visit) -> BoxFuture<'static, Result<SavedDirectory, NotSaved>> {
    async move {
        let Visit { directory, rules, parents } = visit;
        let listed = {
            let (run, directory) = (run.clone(), directory.clone());
            blocking(move || list(&run, &directory, &rules)).await?
        };
        if !matches!(listed, Err(Failed::Gone(_))) {
            add(&run.counts.directories, 1);
        }
        let (entries, rules) = listed?;
        let saved = save_listed(&run, &directory, ListedDirectory { entries, rules }, &parents).await?;
        add(&run.progress.directories, 1);
        Ok(saved)
    }
    .boxed()
}

/// A directory that is listed.
struct ListedDirectory {
    entries: Vec<Entry>,
    /// The rules that count in it.
    rules: Arc<Rules>,
}

/// Saves what was listed of a directory, and all below it. What is gone since then is left out; what has come in its place is
/// saved.
async fn save_listed(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    listed: ListedDirectory,
    parents: &[ParentDirectory],
) -> Result<SavedDirectory, MoverError> {
    let rules = listed.rules.clone();
    save_entries(run, directory, listed, parents).await?;
    let is_stale = directory.state().is_stale;
    if is_stale {
        let late = {
            let (run, directory, rules) = (run.clone(), directory.clone(), rules.clone());
            blocking(move || list_again(&run, &directory, &rules)).await?
        };
        match late {
            Ok(entries) if entries.is_empty() => {}
            Ok(entries) => {
                Box::pin(save_entries(run, directory, ListedDirectory { entries, rules }, parents)).await?;
            }
            Err(failed) => directory.fail_itself(run, &failed),
        }
    }
    directory.close();
    Ok(write(run, directory, Unfinished::default()).await?)
}

/// Saves the entries of one listing of a directory, and all below them.
async fn save_entries(
    run: &Arc<Run>,
    directory: &Arc<Directory>,
    ListedDirectory { mut entries, rules }: ListedDirectory,
    parents: &[ParentDirectory],
) -> Result<(), MoverError> {
    let (below, errors) = take_over(run.writer.repository().contents(), parents, &mut entries).await;
    for error in errors {
        let shown = directory.shown();
        run.warn(format!("files of the directory {shown} are read anew: an earlier snapshot cannot be read: {error}"));
    }
    drop_lost(run, directory, &mut entries).await?;
    run.count_future(&entries);
    let from = directory.state().entries.len();
    let (batches, directories) = plan(run, &entries, from);
    directory.state().add_entries(entries);
    save_files(run, directory, batches).await?;
    let parents = below.into_iter().map(|(at, parents)| (from + at, parents)).collect();
    save_below(run, directory, &rules, Below { directories, parents }).await
}

/// Lists a directory, sorted, without what rules leave out; and the rules that count in it.
fn list(run: &Run, directory: &Directory, above: &Arc<Rules>) -> Result<(Vec<Entry>, Arc<Rules>), Failed> {
    let (file, stat) = directory.open(run)?;
    directory.state().itself.set_attributes(&stat);
    run.lost_attributes.add(FoundAttributes::of(&file));
    let policy = &directory.settings.policy;
    let own = directory.path.is_empty() || run.policies.at(|| directory.path.clone()).is_some();
    let own = own.then_some(&policy.files);
    if policy.files.ignore_cache_dirs.unwrap_or(true) && is_cache(&file) {
        add(&run.counts.excluded_directories, 1);
        let why = "it says of itself that it is a cache";
        run.note(|notes, most| notes.caches.add(directory.shown().to_owned(), why, most));
        if directory.path.is_empty() {
            run.warn(CACHE_AS_ROOT.to_owned());
        }
        return Ok((Vec::new(), above.clone()));
    }
    let rules = Rules::of_directory(above, &directory.path, own, &file, &mut |text| run.warn(text));
    let listing = Listing { file: &file, device: Identity::of(&stat).device(), rules: &rules, is_again: false };
    let entries = list_entries(run, directory, &listing)?;
    Ok((entries, rules))
}

/// Lists a directory once more of which something has vanished, and gives what the first listing did not have.
fn list_again(run: &Run, directory: &Directory, rules: &Rules) -> Result<Vec<Entry>, Failed> {
    let is_at_its_place = directory.look_for_itself(run);
    let listed = directory.file(run).and_then(|file| {
        let stat = fstat(&*file).map_err(Failed::to("look at it"))?;
        let listing = Listing { file: &file, device: Identity::of(&stat).device(), rules, is_again: true };
        list_entries(run, directory, &listing)
    });
    match listed {
        // All that it had first is dealt with, and the directory above is listed once more for what came in its place.
        Err(_) if !is_at_its_place => {
            directory.vanish_itself(run);
            Ok(Vec::new())
        }
        listed => listed,
    }
}

/// A listing of the entries of a directory.
struct Listing<'a> {
    file: &'a File,
    device: u64,
    rules: &'a Rules,
    /// True for the second one, which passes over what the first one had, and does not count once more what rules leave out.
    is_again: bool,
}

/// Lists the entries, sorted. Those that cannot be looked at, and those that no snapshot has, are told.
fn list_entries(run: &Run, directory: &Directory, listing: &Listing<'_>) -> Result<Vec<Entry>, Failed> {
    let Listing { file, device, rules, is_again } = *listing;
    let has_rules = !rules.is_empty();
    let mut entries = Vec::new();
    let cut = each(file, |name, stat| {
        if is_again && directory.state().has(name.as_bytes()) {
            return;
        }
        let tell = || {
            directory.state().told.insert(name.as_bytes().into());
        };
        let stat = match stat {
            Ok(stat) => stat,
            // Nobody knows its type.
            Err(failed) => {
                match failed {
                    Failed::Gone(_) if has_rules && rules.leave_out(&directory.path_of(name), false) => return,
                    // It may have a name that this listing does not have.
                    Failed::Gone(_) => {}
                    _ => tell(),
                }
                return directory.fail_file(run, name, &failed);
            }
        };
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if has_rules && rules.leave_out(&directory.path_of(name), is_directory) {
            // The first listing has counted it, unless it is new.
            if !is_again {
                count_excluded(run, is_directory, size);
            }
            return;
        }
        let refuse = |why: String| {
            tell();
            let path = directory.shown_path_of(name);
            run.note(|notes, most| notes.refused.add(path, why, most));
        };
        if rules.max_file_size > 0 && !is_directory && size > rules.max_file_size {
            return refuse(format!("it has {size} bytes, and the policy allows {}", rules.max_file_size));
        }
        if rules.one_file_system && Identity::of(&stat).device() != device {
            return refuse("it is on another file system, and the policy wants one".to_owned());
        }
        match Entry::of(name, &stat) {
            Ok(entry) => {
                if entry.kind != Kind::Directory && stat.st_nlink > 1 {
                    run.lost_attributes.add_hard_link();
                }
                // A name that was removed and made anew may be listed twice.
                directory.state().vanished.remove(name.as_bytes());
                entries.push(entry);
            }
            Err(kind) => {
                tell();
                note_special(run, directory, name, kind);
            }
        }
    })?;
    if let Some(failed) = cut {
        directory.fail_itself(run, &failed);
    }
    entries.sort_unstable_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    entries.dedup_by(|a, b| a.sort_key() == b.sort_key());
    Ok(entries)
}

/// Counts an entry that rules leave out.
fn count_excluded(run: &Run, is_directory: bool, size: u64) {
    if is_directory {
        add(&run.counts.excluded_directories, 1);
    } else {
        add(&run.counts.excluded_files, 1);
        add(&run.counts.excluded_size, size);
    }
}

/// Tells of an entry that no snapshot can have.
fn note_special(run: &Run, directory: &Directory, name: &OsStr, kind: FileType) {
    let word = match kind {
        FileType::Socket => "a socket",
        FileType::Fifo => "a named pipe",
        FileType::BlockDevice => "a block device",
        FileType::CharacterDevice => "a character device",
        _ => "of a type that is not known",
    };
    if directory.settings.policy.errors.ignore_unknown_types.unwrap_or(true) {
        let path = directory.shown_path_of(name);
        run.note(|notes, most| notes.special.add(path, format!("it is {word}"), most));
    } else {
        let why = format!("it is {word}, of which a snapshot has none, and the policy does not pass over it");
        directory.fail(run, name, &Failed::Because(why), false);
    }
}

/// A part of the files of a directory that is saved in one go.
enum Batch {
    Small(Vec<usize>),
    Long(usize),
}

/// Counts what is taken over, and says what is to be done with the rest: files, and directories by their places. The place of
/// the first entry is `from`.
fn plan(run: &Run, entries: &[Entry], from: usize) -> (Vec<Batch>, Vec<usize>) {
    let (mut batches, mut directories) = (Vec::new(), Vec::new());
    let (mut small, mut bytes) = (Vec::new(), 0);
    for (at, entry) in (from..).zip(entries) {
        match entry.kind {
            Kind::Directory => directories.push(at),
            _ if entry.object.is_some() => {
                add(&run.counts.cached_files, 1);
                add(&run.counts.total_size, entry.size);
                if entry.kind == Kind::Symlink {
                    add(&run.progress.symlinks, 1);
                } else {
                    add(&run.progress.files, 1);
                    add(&run.progress.bytes_unchanged, entry.size);
                }
            }
            Kind::File if entry.size > SMALL => batches.push(Batch::Long(at)),
            _ => {
                small.push(at);
                bytes += entry.size;
                if small.len() >= BATCH || bytes >= BATCH_BYTES {
                    batches.push(Batch::Small(std::mem::take(&mut small)));
                    bytes = 0;
                }
            }
        }
    }
    if !small.is_empty() {
        batches.push(Batch::Small(small));
    }
    (batches, directories)
}

async fn save_files(run: &Arc<Run>, directory: &Arc<Directory>, batches: Vec<Batch>) -> Result<(), MoverError> {
    let batches = futures::stream::iter(batches.into_iter().map(Ok));
    batches
        .try_for_each_concurrent(run.limits.files_at_once, |batch| async move {
            match batch {
                Batch::Small(batch) => save_batch(run, directory, batch).await,
                Batch::Long(at) => save_long(run, directory, at).await,
            }
        })
        .await
}

/// Directories below, by their places, and the same ones in earlier snapshots.
struct Below {
    directories: Vec<usize>,
    parents: Parents,
}

/// The end of a directory below: its place, and whether it was walked in the place of the one above.
struct EndedVisit {
    at: usize,
    is_inline: bool,
    directory: Arc<Directory>,
    saved: Result<SavedDirectory, Failed>,
}

async fn save_below(
    run: &Arc<Run>,
    above: &Arc<Directory>,
    rules: &Arc<Rules>,
    Below { directories, mut parents }: Below,
) -> Result<(), MoverError> {
    let mut walking: JoinSet<Result<EndedVisit, MoverError>> = JoinSet::new();
    for at in directories {
        let Some(entry) = above.state().entries.get(at).cloned() else { continue };
        let directory = match Directory::below(above, &entry, run) {
            Ok(directory) => Arc::new(directory),
            Err(failed) => {
                let is_passed_over = above.settings.policy.errors.ignore_directory_errors.unwrap_or(false);
                above.fail(run, entry.name(), &failed, is_passed_over);
                continue;
            }
        };
        above.state().below.push((at, Arc::downgrade(&directory)));
        // Where there is no room beside the walk it goes that way itself, so that nobody waits for room.
        let room = run.limits.directories.clone().try_acquire_owned().ok();
        let is_inline = room.is_none();
        let visit = Visit { directory, rules: rules.clone(), parents: parents.remove(&at).unwrap_or_default() };
        walking.spawn(save_one(run.clone(), visit, at, room));
        while let Some(ended) = if is_inline { walking.join_next().await } else { walking.try_join_next() } {
            let ended = joined(ended)??;
            let is_way = ended.is_inline;
            end(run, above, ended);
            if is_way {
                break;
            }
        }
    }
    while let Some(ended) = walking.join_next().await {
        end(run, above, joined(ended)??);
    }
    Ok(())
}

async fn save_one(
    run: Arc<Run>,
    visit: Visit,
    at: usize,
    room: Option<OwnedSemaphorePermit>,
) -> Result<EndedVisit, MoverError> {
    let directory = visit.directory.clone();
    let saved = match save(run, visit).await {
        Ok(saved) => Ok(saved),
        Err(NotSaved::Entry(failed)) => Err(failed),
        Err(NotSaved::Snapshot(error)) => return Err(error),
    };
    Ok(EndedVisit { at, is_inline: room.is_none(), directory, saved })
}

fn end(run: &Run, above: &Directory, ended: EndedVisit) {
    let EndedVisit { at, directory, saved, .. } = ended;
    match saved {
        Ok((object, summary)) => {
            let itself = directory.state().itself.clone();
            above.finish_below(at, itself, object, summary);
        }
        Err(failed) => {
            above.state().below.retain(|(place, _)| *place != at);
            let name = directory.state().itself.name().to_owned();
            let is_passed_over = directory.settings.policy.errors.ignore_directory_errors.unwrap_or(false);
            above.fail(run, &name, &failed, is_passed_over);
        }
    }
}

#[cfg(test)]
mod tests;
