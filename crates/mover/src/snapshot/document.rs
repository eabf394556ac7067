//! The object of a directory: its entries, and the totals below it.

use super::directory::{Directory, ERRORS, State};
use super::entry::{Entry, Kind};
use super::run::Run;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::format::directory::{DirectoryEntry, DirectoryWriter, EntryError, EntryType, Summary};
use lifeboat_kopia::format::object_id::ObjectId;
use std::collections::BTreeMap;
use std::ops::Range;

/// The entries that are written at once.
const CHUNK: usize = 1024;

/// The parts of a directory that only a checkpoint has.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// Directories below, by their place.
    pub(super) below: BTreeMap<usize, (ObjectId, Summary)>,
    /// The beginnings of files.
    pub(super) files: Vec<DirectoryEntry>,
    /// The word by which the directory says that it is not complete.
    pub(super) reason: Option<&'static str>,
}

/// Writes the object of a directory with what is done of it. Equal directories give the bytes that kopia gives them.
pub(super) async fn write(
    run: &Run,
    directory: &Directory,
    mut unfinished: Unfinished,
) -> Result<(ObjectId, Summary), KopiaError> {
    unfinished.files.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()).reverse());
    let mut object = run.writer.object(directory.settings.of_directory());
    let (mut writer, mut totals) = (DirectoryWriter::begin(), Totals::default());
    let mut places = Places::of(&directory.state());
    loop {
        let length = write_chunk(&directory.state(), &mut places, &mut unfinished, &mut |entry| {
            totals.add(entry);
            writer.push(entry);
        });
        if length == 0 {
            break;
        }
        object.write(writer.take().into()).await?;
    }
    while let Some(file) = unfinished.files.pop() {
        totals.add(&file);
        writer.push(&file);
    }
    let summary = totals.finish(&directory.state(), unfinished.reason);
    object.write(writer.end(Some(&summary)).into()).await?;
    Ok((object.finish().await?, summary))
}

/// The places of the entries that are not written yet. Entries that come meanwhile are not among them.
struct Places {
    listed: Range<usize>,
    late: Range<usize>,
}

impl Places {
    fn of(state: &State) -> Self {
        let first = state.first_listed();
        Self { listed: 0..first, late: first..state.entries.len() }
    }

    /// The next place in the order of the format.
    fn next(&mut self, entries: &[Entry]) -> Option<usize> {
        let is_late = match (first_of(entries, &self.listed), first_of(entries, &self.late)) {
            (Some(listed), Some(late)) => late.sort_key() < listed.sort_key(),
            (listed, _) => listed.is_none(),
        };
        if is_late { self.late.next() } else { self.listed.next() }
    }
}

fn first_of<'a>(entries: &'a [Entry], places: &Range<usize>) -> Option<&'a Entry> {
    entries.get(places.clone())?.first()
}

/// Gives the entries of a chunk that are done; and the length of the chunk.
fn write_chunk(
    state: &State,
    places: &mut Places,
    unfinished: &mut Unfinished,
    give: &mut dyn FnMut(&DirectoryEntry),
) -> usize {
    let mut length = 0;
    while length < CHUNK
        && let Some(place) = places.next(&state.entries)
    {
        length += 1;
        let Some(entry) = state.entries.get(place) else { continue };
        // The beginnings of files lie among the files; the last of the list is next.
        while entry.kind != Kind::Directory
            && let Some(file) = unfinished.files.pop_if(|file| (true, file.name.as_bytes()) < entry.sort_key())
        {
            give(&file);
        }
        if entry.object.is_some() {
            give(&entry.to_repository());
        } else if let Some((object, summary)) = unfinished.below.remove(&place) {
            give(&Entry { object: Some(object), summary: Some(Box::new(summary)), ..entry.clone() }.to_repository());
        }
    }
    length
}

/// The totals of a directory as its entries come (kopia: snapshot/snapshotfs/dir_manifest_builder.go).
#[derive(Debug, Default)]
struct Totals {
    summary: Summary,
    is_filled: bool,
}

impl Totals {
    fn add(&mut self, entry: &DirectoryEntry) {
        self.is_filled = true;
        let to = &mut self.summary;
        to.max_time = to.max_time.max(entry.modified);
        match &entry.entry_type {
            EntryType::File => {
                to.files += 1;
                to.size = to.size.saturating_add(entry.size);
            }
            EntryType::Symlink => to.symlinks += 1,
            EntryType::Directory => {
                let Some(below) = &entry.summary else { return };
                to.files += below.files;
                to.size = to.size.saturating_add(below.size);
                to.symlinks += below.symlinks;
                to.directories += below.directories;
                to.failed += below.failed;
                to.ignored += below.ignored;
                to.max_time = to.max_time.max(below.max_time);
                add_errors(&mut to.errors, &below.errors);
            }
            EntryType::Unknown(_) => {}
        }
    }

    fn finish(self, state: &State, reason: Option<&'static str>) -> Summary {
        let Self { mut summary, is_filled } = self;
        summary.directories += 1;
        summary.failed += state.failures.failed;
        summary.ignored += state.failures.passed_over;
        add_errors(&mut summary.errors, &state.failures.errors);
        summary.errors.sort_by(|a, b| a.path.cmp(&b.path));
        if !is_filled {
            summary.max_time = state.itself.modified;
        }
        summary.incomplete = reason.map(str::to_owned);
        summary
    }
}

fn add_errors(to: &mut Vec<EntryError>, from: &[EntryError]) {
    let room = ERRORS.saturating_sub(to.len());
    to.extend(from.iter().take(room).cloned());
}
