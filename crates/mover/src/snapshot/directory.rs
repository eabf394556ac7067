//! A directory that is being saved.

use super::entry::{DELETED, Entry, Kind, gone};
use super::policies::Settings;
use super::run::Run;
use crate::failure::Failed;
use crate::handles::{Identity, KEPT_OPEN, MAX_DEPTH, Slot, open_beneath, reopen, too_deep};
use lifeboat_kopia::format::directory::{EntryError, Summary};
use lifeboat_kopia::format::json::Text;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::writer::ObjectWriter;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, statat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The most errors that a directory names; it counts all.
pub(super) const ERRORS: usize = 10_000;

/// The most bytes of the path of a directory: all those on the way to where the walk is have theirs in memory.
const MAX_PATH: usize = 256 << 10;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A directory from its first look to the writing of its object. A checkpoint reads its state at any moment.
#[derive(Debug)]
pub(super) struct Directory {
    above: Option<Arc<Directory>>,
    name: OsString,
    /// The path below the root of the snapshot: empty, or with a slash before each name.
    pub(super) path: String,
    /// The number of directories above it.
    depth: usize,
    pub(super) settings: Arc<Settings>,
    place: Mutex<Option<Identity>>,
    slot: Arc<Slot>,
    state: Mutex<State>,
}

/// The state of a directory.
#[derive(Debug)]
pub(super) struct State {
    /// The directory itself.
    pub(super) itself: Entry,
    /// Its entries in the order of the format; those with an object are done. Late ones are behind all others, in the same
    /// order, so that each keeps its place.
    pub(super) entries: Vec<Entry>,
    /// The place of the first late entry: those that only the second listing had.
    late_from: Option<usize>,
    /// True where its listing does not hold any more: what has vanished of it may be there under another name.
    pub(super) is_stale: bool,
    /// The names of entries that have vanished.
    pub(super) vanished: BTreeSet<Box<[u8]>>,
    /// The names of directories below that are not at their places any more: others may be.
    moved: BTreeSet<Box<[u8]>>,
    /// The names of what was listed and is not among the entries, and was told.
    pub(super) told: BTreeSet<Box<[u8]>>,
    /// Directories below that are being saved, by their place among the entries. Their tasks have them, so that all go when a
    /// snapshot is dropped.
    pub(super) below: Vec<(usize, Weak<Directory>)>,
    /// Files that are being read, by their place.
    pub(super) uploads: Vec<(usize, SharedWriter)>,
    /// Finished parts of files that are being read, by the place of these.
    pub(super) parts: Vec<(usize, ObjectId)>,
    pub(super) failures: Failures,
}

/// The writer of a file that a checkpoint may ask for what there is so far.
pub(super) type SharedWriter = Arc<tokio::sync::Mutex<Option<ObjectWriter>>>;

/// Entries that could not be read.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) failed: u64,
    pub(super) passed_over: u64,
    pub(super) errors: Vec<EntryError>,
}

impl State {
    /// Adds the entries of a listing, sorted. Those of a second listing come behind the others.
    pub(super) fn add_entries(&mut self, entries: Vec<Entry>) {
        if self.entries.is_empty() {
            self.entries = entries;
        } else {
            let first = self.first_listed();
            self.late_from = Some(first);
            for late in entries.iter().filter(|late| self.moved.contains(late.name().as_bytes())) {
                // It stands in the place of the one that was there.
                let key = Entry::key(Kind::Directory, late.name().as_bytes());
                let found =
                    self.entries.get(..first).unwrap_or_default().binary_search_by(|one| one.sort_key().cmp(&key));
                if let Some(entry) = found.ok().and_then(|at| self.entries.get_mut(at)) {
                    (entry.object, entry.summary) = (None, None);
                }
            }
            self.entries.reserve_exact(entries.len());
            self.entries.extend(entries);
        }
    }

    /// The number of entries of the first listing.
    pub(super) fn first_listed(&self) -> usize {
        self.late_from.unwrap_or(self.entries.len())
    }

    /// True where the first listing had an entry of this name, and that has neither vanished nor moved.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        let listed = self.entries.get(..self.first_listed()).unwrap_or_default();
        let is_listed = |kind| {
            let key = Entry::key(kind, name);
            listed.binary_search_by(|entry| entry.sort_key().cmp(&key)).is_ok()
        };
        let is_entry = is_listed(Kind::Directory) || is_listed(Kind::File);
        self.told.contains(name) || is_entry && !self.vanished.contains(name) && !self.moved.contains(name)
    }
}

impl Directory {
    /// The root of a snapshot.
    pub(super) fn root(itself: Entry, settings: Arc<Settings>, slot: Slot) -> Self {
        Self::build(None, OsString::new(), itself, settings, slot)
    }

    /// A directory below another one, unless it lies too deep: whoever can write there may nest without end.
    pub(super) fn below(above: &Arc<Self>, entry: &Entry, run: &Run) -> Result<Self, Failed> {
        let path = above.path_of(entry.name());
        if above.depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        if path.len() > MAX_PATH {
            return Err(Failed::Because(format!("its path has more than {MAX_PATH} bytes, and it is left out")));
        }
        let settings = run.policies.at(|| path.clone()).unwrap_or(&above.settings).clone();
        let name = entry.name().to_owned();
        let mut directory = Self::build(Some(above.clone()), name, entry.clone(), settings, Slot::default());
        (directory.path, directory.depth) = (path, above.depth + 1);
        Ok(directory)
    }

    fn build(above: Option<Arc<Self>>, name: OsString, itself: Entry, settings: Arc<Settings>, slot: Slot) -> Self {
        let state = State {
            itself,
            entries: Vec::new(),
            late_from: None,
            is_stale: false,
            vanished: BTreeSet::new(),
            moved: BTreeSet::new(),
            told: BTreeSet::new(),
            below: Vec::new(),
            uploads: Vec::new(),
            parts: Vec::new(),
            failures: Failures::default(),
        };
        Self {
            above,
            name,
            path: String::new(),
            depth: 0,
            settings,
            place: Mutex::default(),
            slot: Arc::new(slot),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of an entry below the root, with a slash before it.
    pub(super) fn path_of(&self, name: &OsStr) -> String {
        let name = Text::from_bytes(name.as_bytes());
        format!("{}/{name}", self.path)
    }

    /// Its path in reports: below the root, without a slash before it; a dot is the root itself.
    pub(super) fn shown(&self) -> &str {
        self.path.strip_prefix('/').unwrap_or(".")
    }

    /// The path of an entry in reports: below the root, without a slash before it.
    pub(super) fn shown_path_of(&self, name: &OsStr) -> String {
        self.path_of(name).split_off(1)
    }

    /// Opens the directory, and takes its attributes.
    pub(super) fn open(&self, run: &Run) -> Result<(Arc<File>, Stat), Failed> {
        let file = match &self.above {
            None => self.slot.get().ok_or_else(|| Failed::Because("it is not open".to_owned()))?,
            Some(above) => {
                let above = above.file(run)?;
                let open = |flags| open_beneath(&above, &self.name, FLAGS | flags, Mode::empty());
                let opened = match open(OFlags::NOATIME) {
                    Err(Errno::PERM) => open(OFlags::empty()),
                    other => other,
                };
                let is_directory = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_dir();
                Arc::new(opened.map_err(|e| gone(&above, &self.name, is_directory, Failed::to("open it")(e)))?)
            }
        };
        let stat = fstat(&file).map_err(Failed::to("look at it"))?;
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Identity::of(&stat));
        if self.above.is_some() {
            run.limits.open.keep(&self.slot, &file);
        }
        Ok((file, stat))
    }

    /// The open directory. Where too many others were open meanwhile it is opened again, from the nearest one above it that is
    /// open. One that is not there then, or is another one, has failed: nothing shows that its entries were deleted.
    pub(super) fn file(&self, run: &Run) -> Result<Arc<File>, Failed> {
        let not_open = || Failed::Because("it is not open".to_owned());
        let mut closed = Vec::new();
        let mut at = self;
        let mut file = loop {
            if let Some(file) = at.slot.get() {
                break file;
            }
            closed.push(at);
            at = at.above.as_ref().ok_or_else(not_open)?;
        };
        while let Some(directory) = closed.pop() {
            let place = *directory.place.lock().unwrap_or_else(PoisonError::into_inner);
            let place = place.ok_or_else(not_open)?;
            file = reopen(&file, &directory.name, FLAGS, place)?;
            if closed.len() < KEPT_OPEN {
                run.limits.open.keep(&directory.slot, &file);
            }
        }
        Ok(file)
    }

    /// Has the directory above listed once more where this one is not at its place any more: whoever deleted it may have put
    /// its files into another directory first. Returns false there; true where nobody knows, and for the root.
    pub(super) fn look_for_itself(&self, run: &Run) -> bool {
        let Some(above) = &self.above else { return true };
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(file) = above.file(run) else {
            above.state().is_stale = true;
            return true;
        };
        let is_there = match statat(&*file, self.name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(Identity::of(&stat)) == place,
            Err(error) => error != Errno::NOENT,
        };
        if !is_there {
            let mut above = above.state();
            above.is_stale = true;
            above.moved.insert(self.name.as_bytes().into());
        }
        is_there
    }

    /// Closes it; nothing below it is needed any more.
    pub(super) fn close(&self) {
        self.slot.close();
    }

    /// Takes note of an entry whose bytes are in the repository, with its attributes when it was read.
    pub(super) fn finish(&self, at: usize, object: ObjectId, length: u64, stat: Option<&Stat>) {
        if let Some(entry) = self.state().entries.get_mut(at) {
            if let Some(stat) = stat {
                entry.set_attributes(stat);
            }
            entry.size = length;
            entry.object = Some(object);
        }
    }

    /// Takes note of a directory below that is finished.
    pub(super) fn finish_below(&self, at: usize, itself: Entry, object: ObjectId, summary: Summary) {
        let mut state = self.state();
        state.below.retain(|(place, _)| *place != at);
        if let Some(entry) = state.entries.get_mut(at) {
            *entry = Entry { object: Some(object), summary: Some(Box::new(summary)), ..itself };
        }
    }

    /// Records an entry that cannot be read, or that is gone. It hides no other.
    pub(super) fn fail(&self, run: &Run, name: &OsStr, failed: &Failed, is_passed_over: bool) {
        let path = self.shown_path_of(name);
        let Failed::Gone(why) = failed else { return self.record(run, &path, failed, is_passed_over) };
        let is_new = {
            let mut state = self.state();
            state.is_stale = true;
            state.vanished.insert(name.as_bytes().into())
        };
        if is_new {
            run.note(|notes, most| notes.vanished.add(path, *why, most));
        }
    }

    /// Records that the directory itself has vanished.
    pub(super) fn vanish_itself(&self, run: &Run) {
        run.note(|notes, most| notes.vanished.add(self.shown().to_owned(), DELETED, most));
    }

    fn record(&self, run: &Run, path: &str, failed: &Failed, is_passed_over: bool) {
        run.fail(path, failed, is_passed_over);
        let mut state = self.state();
        let failures = &mut state.failures;
        *if is_passed_over { &mut failures.passed_over } else { &mut failures.failed } += 1;
        if failures.errors.len() < ERRORS {
            failures.errors.push(EntryError { path: path.to_owned(), error: failed.to_string() });
        }
    }

    /// Records that not all of the directory can be listed. What was listed is saved.
    pub(super) fn fail_itself(&self, run: &Run, failed: &Failed) {
        let is_passed_over = self.settings.policy.errors.ignore_directory_errors.unwrap_or(false);
        self.record(run, self.shown(), failed, is_passed_over);
    }

    /// Records a file that cannot be read.
    pub(super) fn fail_file(&self, run: &Run, name: &OsStr, failed: &Failed) {
        let is_passed_over = self.settings.policy.errors.ignore_file_errors.unwrap_or(false);
        self.fail(run, name, failed, is_passed_over);
    }
}

impl Drop for Directory {
    /// Ends those above it that nobody else has one after the other, however many they are.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.above.take();
        }
    }
}
