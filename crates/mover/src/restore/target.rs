//! The target of a restore: a folder, a file, a symlink or a device.

use super::directory::{Directory, DirectoryChanges, OpenDirectory};
use super::file::{FilePlace, FileTask};
use super::options::RestoreOptions;
use super::prepare::{Child, FileStep, Step, open_writable, prepare_entry};
use super::run::Run;
use crate::failure::Failed;
use crate::page_cache::forget_device;
use crate::tree::{EntryKind, Source, SourceEntry};
use crate::{MoverError, RepositoryError};
use futures::TryStreamExt;
use lifeboat_kopia::snapshot::EntryState;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of entry that is restored, and the kind of its target.
#[derive(Debug)]
pub(super) enum Plan {
    /// A tree into a folder.
    Tree(SourceEntry),
    /// A file or symlink at a path.
    Single(SourceEntry),
    /// A file onto a device.
    Device(SourceEntry),
}

fn failed(attempt: &'static str, path: &Path) -> impl Fn(std::io::Error) -> MoverError {
    move |source| MoverError::Target { attempt, path: path.to_owned(), source }
}

fn refused(path: &Path, why: &str) -> MoverError {
    MoverError::Refused(format!("cannot restore to {}: {why}", path.display()))
}

/// The metadata of a path, with links followed, where it exists.
fn look(path: &Path) -> Result<Option<Metadata>, MoverError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("look at it", path)(e)),
    }
}

/// Decides what goes where. Nothing is changed.
pub(super) async fn plan(source: &Source, root: &SourceEntry, options: &RestoreOptions) -> Result<Plan, MoverError> {
    let plan = choose(source, root, options).await?;
    match (&plan, options.length) {
        (Plan::Tree(_), Some(length)) => Err(refused(
            &options.target,
            &format!("a length ({length} bytes) is given, and the snapshot is a directory"),
        )),
        _ => Ok(plan),
    }
}

async fn choose(source: &Source, root: &SourceEntry, options: &RestoreOptions) -> Result<Plan, MoverError> {
    let path = &options.target;
    let found = look(path)?;
    let is_device = found.as_ref().is_some_and(|found| found.file_type().is_block_device());
    match &root.kind {
        EntryKind::Directory => {
            if found.as_ref().is_some_and(Metadata::is_dir) {
                return Ok(Plan::Tree(root.clone()));
            }
            // The snapshot of a device is a directory with one file that is called like the device.
            let file = only_file(source, root).await?;
            match (found, file) {
                (Some(_), Some(file)) if is_device => Ok(Plan::Device(file)),
                (Some(found), Some(file)) if found.is_file() => Ok(Plan::Single(file)),
                (Some(_), _) => Err(refused(path, "the snapshot is a directory, the target is none")),
                (None, Some(file)) if file.name.as_encoded_bytes().contains(&b'/') => Ok(Plan::Single(file)),
                (None, _) => Ok(Plan::Tree(root.clone())),
            }
        }
        EntryKind::File if is_device => Ok(Plan::Device(root.clone())),
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            if found.is_some_and(|found| found.is_dir()) {
                return Err(refused(
                    path,
                    "the snapshot is a file, the target is a directory: add the name of the file",
                ));
            }
            Ok(Plan::Single(root.clone()))
        }
        EntryKind::Unknown(word) => Err(refused(path, &format!("the type {word:?} of the snapshot is not known"))),
    }
}

/// The file that is the only entry of a directory.
pub(super) async fn only_file(source: &Source, root: &SourceEntry) -> Result<Option<SourceEntry>, RepositoryError> {
    let Some(object) = &root.object else { return Ok(None) };
    let mut children = source.entries(object);
    let (Some(first), None) = (children.try_next().await?, children.try_next().await?) else { return Ok(None) };
    Ok((first.state == EntryState::Whole && first.kind == EntryKind::File).then_some(first))
}

/// Opens the target, and makes it where it is missing.
pub(super) fn open(run: &Run, plan: Plan) -> Result<Option<Step>, MoverError> {
    match plan {
        Plan::Tree(root) => open_tree(run, &root).map(Some),
        Plan::Single(entry) => open_single(run, &entry),
        Plan::Device(entry) => open_device(run, &entry).map(Some),
    }
}

fn open_tree(run: &Run, root: &SourceEntry) -> Result<Step, MoverError> {
    let path = &run.options.target;
    let object =
        root.object.clone().ok_or_else(|| refused(path, "the snapshot refers to no object that can be read"))?;
    let mode = Mode::from_raw_mode(if run.options.permissions { 0o700 } else { 0o777 });
    let is_new = match rustix::fs::mkdir(path, mode) {
        Ok(()) => true,
        Err(rustix::io::Errno::EXIST) => false,
        Err(e) => return Err(failed("make the folder", path)(e.into())),
    };
    // The path is the user's own, with its links.
    let path = path.canonicalize().map_err(failed("open it", path))?;
    let (above, name) = match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => (above, name),
        _ => (&*path, OsStr::new(".")),
    };
    let above = folder(above)?;
    let opened = open_writable(&above, name);
    let (file, mode_before) = opened.map_err(|e| refused(&path, &e.to_string()))?;
    let changes = DirectoryChanges { is_new, attributes: root.attributes.clone(), mode_before };
    let opened = OpenDirectory { file, changes };
    let directory = Directory::root(opened).map_err(|e| refused(&path, &e.to_string()))?;
    Ok(Step::Directory(Child { directory, object, is_complete: root.is_complete }))
}

fn folder(path: &Path) -> Result<File, MoverError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed("open the folder", path)(e.into()))?;
    Ok(file.into())
}

/// The folder that a path is in, as a place that stays as it is.
fn place(path: &Path) -> Result<Arc<Directory>, MoverError> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let opened = OpenDirectory { file: folder(above)?, changes: DirectoryChanges::default() };
    Directory::root(opened).map_err(|e| refused(path, &e.to_string()))
}

fn open_single(run: &Run, entry: &SourceEntry) -> Result<Option<Step>, MoverError> {
    let target = &run.options.target;
    // A link to a file stands for the file, but for one that is replaced by a link.
    let path: PathBuf = match entry.kind {
        EntryKind::File => target.canonicalize().unwrap_or_else(|_| target.clone()),
        _ => target.clone(),
    };
    let name = path.file_name().ok_or_else(|| refused(target, "it has no name of a file"))?;
    let directory = place(&path)?;
    prepare_entry(run, &directory, name, entry).map_err(|e| match &e {
        Failed::Io { attempt, source } => failed(attempt, &path)((*source).into()),
        Failed::Gone(why) => refused(&path, why),
        Failed::Because(why) => refused(&path, why),
    })
}

fn open_device(run: &Run, entry: &SourceEntry) -> Result<Step, MoverError> {
    let path = &run.options.target;
    let object =
        entry.object.clone().ok_or_else(|| refused(path, "the snapshot refers to no object that can be read"))?;
    // With EXCL a device that is mounted, or used by another one, is busy.
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed("open the device", path)(e.into()))?;
    let mut file = File::from(file);
    let metadata = file.metadata().map_err(failed("look at it", path))?;
    if !metadata.file_type().is_block_device() {
        return Err(refused(path, &format!("it is no block device any more (mode {:o})", metadata.mode())));
    }
    // What is there is compared with what was saved.
    let attempt = "let the system forget what it has read of it before";
    forget_device(&file).map_err(|e| failed(attempt, path)(e.into()))?;
    let has = file.seek(SeekFrom::End(0)).map_err(failed("find its size", path))?;
    let size = run.options.length.unwrap_or(entry.size).min(entry.size);
    if size > has {
        return Err(refused(path, &format!("the device has {has} bytes, the snapshot {size}: take a larger device")));
    }
    let directory = place(path)?;
    let name = path.file_name().unwrap_or_default().to_owned();
    let attributes =
        entry.attributes.clone().ok_or_else(|| refused(path, "the snapshot has neither its mode nor its owner"))?;
    let place = FilePlace { directory, name, attributes, size };
    Ok(Step::File(FileStep { task: FileTask::device(place, file), object, size: entry.size }))
}
