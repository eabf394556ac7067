//! The first step with an entry: what is in its place, and what is to be done.

use super::directory::{DIRECTORY, Directory, DirectoryChanges, OpenDirectory};
use super::file::{FilePlace, FileTask};
use super::in_place::{keeps, kind, look, make_room};
use super::link::{LinkTask, MAX_TARGET};
use super::names::refusal;
use super::options::Existing;
use super::run::{Ended, Run};
use super::special::prepare_special;
use crate::failure::Failed;
use crate::handles::{MAX_DEPTH, open_beneath, too_deep};
use crate::progress::add;
use crate::tree::{Attributes, EntryKind, Object, SourceEntry};
use lifeboat_kopia::snapshot::EntryState;
use rustix::fs::{Mode, OFlags, Stat, chmod, fchmod, fstat, mkdirat, readlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// The next step with an entry.
#[derive(Debug)]
pub(super) enum Step {
    /// Its listing follows.
    Directory(Child),
    /// Its pieces follow.
    File(FileStep),
    /// Its target follows.
    Link {
        /// The symlink.
        task: LinkTask,
        /// The target.
        object: Object,
    },
}

/// A directory that is made or found, and not listed yet.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) directory: Arc<Directory>,
    pub(super) object: Object,
    /// True where the snapshot has everything that was in it.
    pub(super) is_complete: bool,
}

/// A file and where its bytes are.
#[derive(Debug)]
pub(super) struct FileStep {
    pub(super) task: Arc<FileTask>,
    pub(super) object: Object,
    /// The length as the snapshot has it.
    pub(super) size: u64,
}

/// Looks at the places of entries of a directory. Those that fail or are finished give no step.
pub(super) fn prepare(run: &Run, directory: &Arc<Directory>, entries: Vec<SourceEntry>) -> Result<Vec<Step>, Ended> {
    let mut steps = Vec::with_capacity(entries.len());
    for entry in entries {
        let _step = run.enter()?;
        let name = entry.name.clone();
        if entry.is_lossy {
            run.note(|report| report.names_changed += 1);
        }
        let prepared = match &entry.state {
            EntryState::CutShort { .. } => {
                run.note(|report| report.unfinished += 1);
                continue;
            }
            EntryState::Unreadable { why } => Err(Failed::Because(why.clone())),
            EntryState::Whole => match refusal(&entry.name) {
                Some(why) => Err(Failed::Because(why.to_owned())),
                None => prepare_entry(run, directory, &name, &entry),
            },
        };
        match prepared {
            Ok(step) => steps.extend(step),
            Err(failed) => run.fail(&directory.path(&name), &failed)?,
        }
    }
    Ok(steps)
}

/// Looks at the place of one entry under a name that is one.
pub(super) fn prepare_entry(
    run: &Run,
    directory: &Arc<Directory>,
    name: &OsStr,
    entry: &SourceEntry,
) -> Result<Option<Step>, Failed> {
    let Some(attributes) = entry.attributes.clone() else {
        return Err(Failed::Because("it has neither mode nor owner".to_owned()));
    };
    if let EntryKind::Special(special) = &entry.kind {
        return prepare_special(run, directory, name, *special, &attributes).map(|()| None);
    }
    let Some(object) = entry.object.clone() else {
        return Err(Failed::Because("it refers to no object that can be read".to_owned()));
    };
    match &entry.kind {
        EntryKind::Directory => prepare_directory(run, directory, name, attributes).map(|directory| {
            let child = Child { directory, object, is_complete: entry.is_complete };
            Some(Step::Directory(child))
        }),
        EntryKind::File => {
            let place = FilePlace {
                directory: directory.clone(),
                name: name.to_owned(),
                attributes,
                size: run.options.length.filter(|_| directory.depth() == 0).unwrap_or(entry.size).min(entry.size),
            };
            let task = prepare_file(run, place)?;
            Ok(task.map(|task| Step::File(FileStep { task, object, size: entry.size })))
        }
        EntryKind::Symlink => {
            let existing = if directory.is_new() { None } else { existing_link(run, directory, name)? };
            directory.add();
            let (directory, name) = (directory.clone(), name.to_owned());
            let task = LinkTask { directory, name, attributes, existing };
            Ok(Some(Step::Link { task, object }))
        }
        EntryKind::Unknown(word) => Err(Failed::Because(format!("its type {word:?} is not known"))),
        EntryKind::Special(_) => Ok(None),
    }
}

fn prepare_directory(
    run: &Run,
    parent: &Arc<Directory>,
    name: &OsStr,
    attributes: Attributes,
) -> Result<Arc<Directory>, Failed> {
    if parent.depth() >= MAX_DEPTH {
        return Err(too_deep());
    }
    let at = parent.file(run)?;
    let mode = Mode::from_raw_mode(if run.options.permissions { 0o700 } else { 0o777 });
    let is_new = match mkdirat(&at, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => match look(&at, name)? {
            Some(stat) if kind(&stat).is_dir() => false,
            Some(stat) => {
                keeps(run)?;
                make_room(run, parent, name, &stat)?;
                mkdirat(&at, name, mode).map_err(Failed::to("make the directory"))?;
                true
            }
            None => return Err(Failed::to("make the directory")(Errno::EXIST)),
        },
        Err(e) => return Err(Failed::to("make the directory")(e)),
    };
    let (file, mode_before) = open_writable(&at, name)?;
    let attributes = Some(attributes);
    parent.child(name, OpenDirectory { file, changes: DirectoryChanges { is_new, attributes, mode_before } }, run)
}

/// Opens a directory so that entries can be made in it, and gives the permissions that it had before where they were
/// changed for that.
pub(super) fn open_writable(at: &File, name: &OsStr) -> Result<(File, Option<u32>), Failed> {
    let open = || open_beneath(at, name, DIRECTORY, Mode::empty());
    let cannot = Failed::to("open the directory");
    match open() {
        Ok(file) => {
            let stat = fstat(&file).map_err(Failed::to("look at it"))?;
            let before = opened_up(&stat);
            if let Some(mode) = before {
                fchmod(&file, Mode::from_raw_mode(mode | 0o700)).map_err(Failed::to("make the directory writable"))?;
            }
            Ok((file, before))
        }
        Err(Errno::ACCESS) => {
            let path = open_beneath(at, name, DIRECTORY | OFlags::PATH, Mode::empty()).map_err(&cannot)?;
            let stat = fstat(&path).map_err(Failed::to("look at it"))?;
            let mode = opened_up(&stat).ok_or_else(|| cannot(Errno::ACCESS))?;
            // The file that is open, whatever has its name now.
            let file = format!("/proc/self/fd/{}", path.as_raw_fd());
            chmod(file, Mode::from_raw_mode(mode | 0o700)).map_err(Failed::to("make the directory writable"))?;
            Ok((open().map_err(&cannot)?, Some(mode)))
        }
        Err(e) => Err(cannot(e)),
    }
}

/// The permissions of a directory of ours in which we could make nothing.
fn opened_up(stat: &Stat) -> Option<u32> {
    let us = rustix::process::geteuid();
    let mode = stat.st_mode & 0o7777;
    (!us.is_root() && us.as_raw() == stat.st_uid && mode & 0o700 != 0o700).then_some(mode)
}

/// The task of a file; `None` where it is finished.
pub(super) fn prepare_file(run: &Run, place: FilePlace) -> Result<Option<Arc<FileTask>>, Failed> {
    if place.directory.is_new() {
        return Ok(Some(FileTask::new(place)));
    }
    let at = place.directory.file(run)?;
    let Some(stat) = look(&at, &place.name)? else { return Ok(Some(FileTask::new(place))) };
    keeps(run)?;
    let is_linked = stat.st_nlink > 1;
    if !kind(&stat).is_file() || run.options.existing == Existing::Overwrite {
        make_room(run, &place.directory, &place.name, &stat)?;
        return Ok(Some(FileTask::new(place)));
    }
    let attributes = &place.attributes;
    let has_size = u64::try_from(stat.st_size) == Ok(place.size);
    let is_believed = run.options.existing == Existing::Update && attributes.tells_finished();
    let is_right = attributes.are_those_of(&stat, run);
    if is_believed && has_size && attributes.has_time_of(&stat) && (is_right || !is_linked) {
        if !is_right {
            let file = open_beneath(&at, &place.name, OFlags::RDONLY, Mode::empty()).map_err(Failed::to("open it"))?;
            attributes.apply(&file, run)?;
        }
        add(&run.progress.files, 1);
        add(&run.progress.bytes_unchanged, place.size);
        return Ok(None);
    }
    if !is_linked {
        match open_beneath(&at, &place.name, OFlags::RDWR, Mode::empty()) {
            Ok(file) => return FileTask::in_place(place, file, run).map(Some),
            // It is read-only, or a program that runs.
            Err(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => {}
            Err(e) => return Err(Failed::to("open it")(e)),
        }
    }
    // Whatever else has the same bytes by another name keeps them.
    make_room(run, &place.directory, &place.name, &stat)?;
    Ok(Some(FileTask::new(place)))
}

/// The target of the symlink in the place of one. Anything else is removed.
fn existing_link(run: &Run, directory: &Arc<Directory>, name: &OsStr) -> Result<Option<Vec<u8>>, Failed> {
    let at = directory.file(run)?;
    let Some(stat) = look(&at, name)? else { return Ok(None) };
    keeps(run)?;
    if !kind(&stat).is_symlink() {
        make_room(run, directory, name, &stat)?;
        return Ok(None);
    }
    let buffer = Vec::with_capacity(usize::try_from(MAX_TARGET).unwrap_or_default() + 1);
    let target = readlinkat(&at, name, buffer).map_err(Failed::to("read the symlink in its place"))?;
    Ok(Some(target.into_bytes()))
}
