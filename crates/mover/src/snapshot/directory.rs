//! A directory that is being saved.

use super::entry::Entry;
use super::policies::Settings;
use super::run::Run;
use crate::failure::Failed;
use crate::handles::{Identity, Slot, open_beneath, reopen};
use lifeboat_kopia::format::directory::{EntryError, Summary};
use lifeboat_kopia::format::json::Text;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::object::writer::ObjectWriter;
use rustix::fs::{Mode, OFlags, Stat, fstat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most errors that a directory names; it counts all.
pub(super) const ERRORS: usize = 10_000;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A directory from its first look to the writing of its object. A checkpoint reads its state at any moment.
#[derive(Debug)]
pub(super) struct Directory {
    above: Option<Arc<Directory>>,
    name: OsString,
    /// The path below the root of the snapshot: empty, or with a slash before each name.
    pub(super) path: String,
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
    /// Its entries in the order of the format; those with an object are done.
    pub(super) entries: Vec<Entry>,
    /// Directories below that are being saved, by their place among the entries.
    pub(super) below: Vec<(usize, Arc<Directory>)>,
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

impl Directory {
    /// The root of a snapshot.
    pub(super) fn root(itself: Entry, settings: Arc<Settings>, slot: Slot) -> Self {
        Self::build(None, OsString::new(), itself, settings, slot)
    }

    /// A directory below another one.
    pub(super) fn below(above: &Arc<Self>, entry: &Entry, run: &Run) -> Self {
        let path = above.path_of(entry.name());
        let settings = run.policies.at(|| path.clone()).unwrap_or(&above.settings).clone();
        let name = entry.name().to_owned();
        Self { path, ..Self::build(Some(above.clone()), name, entry.clone(), settings, Slot::default()) }
    }

    fn build(above: Option<Arc<Self>>, name: OsString, itself: Entry, settings: Arc<Settings>, slot: Slot) -> Self {
        let state = State {
            itself,
            entries: Vec::new(),
            below: Vec::new(),
            uploads: Vec::new(),
            parts: Vec::new(),
            failures: Failures::default(),
        };
        Self {
            above,
            name,
            path: String::new(),
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
                Arc::new(opened.map_err(Failed::to("open it"))?)
            }
        };
        let stat = fstat(&file).map_err(Failed::to("look at it"))?;
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Identity::of(&stat));
        if self.above.is_some() {
            run.open.keep(&self.slot, &file);
        }
        Ok((file, stat))
    }

    /// The open directory, which is opened again where too many others were open meanwhile.
    pub(super) fn file(&self, run: &Run) -> Result<Arc<File>, Failed> {
        if let Some(file) = self.slot.get() {
            return Ok(file);
        }
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(above), Some(place)) = (&self.above, place) else {
            return Err(Failed::Because("it is not open".to_owned()));
        };
        let file = reopen(&*above.file(run)?, &self.name, FLAGS, place)?;
        run.open.keep(&self.slot, &file);
        Ok(file)
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

    /// Records an entry that cannot be read. It hides no other.
    pub(super) fn fail(&self, run: &Run, name: &OsStr, failed: &Failed, is_passed_over: bool) {
        self.record(run, &self.shown_path_of(name), failed, is_passed_over);
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
