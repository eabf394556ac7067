//! The path of which a snapshot is taken: a directory, a file or a device.

use super::blocks::{BlockDevice, BlockParent, save_blocks};
use super::directory::Directory;
use super::document::{Unfinished, write};
use super::entry::{Entry, Kind};
use super::file::{Handle, SMALL, Source, save_batch, save_long, save_source};
use super::parents::{Parent, ParentDirectory};
use super::rules::Rules;
use super::run::Run;
use super::walk::{Visit, save};
use crate::MoverError;
use crate::failure::{Failed, NotSaved};
use crate::handles::Slot;
use crate::page_cache::forget_device;
use crate::progress::add;
use lifeboat_kopia::format::directory::{DirectoryEntry, Summary};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, seek};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The path that is saved.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    kind: RootKind,
}

#[derive(Debug)]
enum RootKind {
    Directory(Arc<Directory>),
    /// A file, as the only entry of its directory; and its name in the snapshot.
    File(Arc<Directory>, OsString),
    /// A device as the only entry of a directory that is made up.
    Device(Arc<Directory>, Arc<Handle>),
    /// A device, or an image of one, that is saved as blocks.
    Blocks(Arc<Directory>, Arc<BlockDevice>),
}

fn failed(attempt: &'static str, path: &Path) -> impl Fn(rustix::io::Errno) -> MoverError {
    move |source| MoverError::Source { attempt, path: path.to_owned(), source: source.into() }
}

impl Root {
    /// Opens a path. Links in it are followed: it is the user's own.
    pub(super) fn open(run: &Run, path: &Path) -> Result<Self, MoverError> {
        let real = path.canonicalize().map_err(|source| MoverError::Source {
            attempt: "find it",
            path: path.to_owned(),
            source,
        })?;
        if let Some(form) = &run.options.blocks {
            let (directory, device) = BlockDevice::open(run, &real, form)?;
            return Ok(Self { path: path.to_owned(), kind: RootKind::Blocks(directory, Arc::new(device)) });
        }
        let name = path.file_name().or(real.file_name()).unwrap_or(OsStr::new("/"));
        let stat = rustix::fs::stat(&real).map_err(failed("look at it", path))?;
        let settings = run.policies.root.clone();
        let open = |path: &Path, flags: OFlags| {
            let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty());
            file.map(File::from).map_err(failed("open it", path))
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let file = open(&real, OFlags::DIRECTORY)?;
                let mut itself = Entry::new(Kind::Directory, name.as_bytes());
                itself.set_attributes(&stat);
                RootKind::Directory(Arc::new(Directory::root(itself, settings, Slot::with(Arc::new(file)))))
            }
            FileType::RegularFile => {
                let (Some(above), Some(real_name)) = (real.parent(), real.file_name()) else {
                    return Err(MoverError::Refused(format!("{} has no directory", real.display())));
                };
                let file = open(above, OFlags::DIRECTORY)?;
                let above = fstat(&file).map_err(failed("look at its directory", path))?;
                let mut itself = Entry::new(Kind::Directory, b"");
                itself.set_attributes(&above);
                let directory = Directory::root(itself, settings, Slot::with(Arc::new(file)));
                let mut entry = Entry::new(Kind::File, real_name.as_bytes());
                entry.set_attributes(&stat);
                directory.state().entries = vec![entry];
                RootKind::File(Arc::new(directory), name.to_owned())
            }
            FileType::BlockDevice => {
                let device = open(&real, OFlags::empty())?;
                forget_device(&device).map_err(failed("let the system forget what it has read of it before", path))?;
                let size = seek(&device, SeekFrom::End(0)).map_err(failed("find its length", path))?;
                let name = real.as_os_str().as_bytes();
                let now = (run.options.clock)();
                let like = |kind| Entry { mode: 0o777, modified: now, ..Entry::new(kind, name) };
                let directory = Directory::root(like(Kind::Directory), settings, Slot::default());
                directory.state().entries = vec![Entry { size, ..like(Kind::File) }];
                RootKind::Device(Arc::new(directory), Arc::new(Handle::Device(device)))
            }
            _ => {
                let path = path.display();
                return Err(MoverError::Refused(format!(
                    "{path} is no directory, file or block device: it has no bytes"
                )));
            }
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    /// The directory of which checkpoints are made. That of a single file is made up, and keeps what is stored of the file.
    pub(super) fn directory(&self) -> &Arc<Directory> {
        let (RootKind::Directory(directory)
        | RootKind::Device(directory, _)
        | RootKind::File(directory, _)
        | RootKind::Blocks(directory, _)) = &self.kind;
        directory
    }

    /// The tags that belong to its form.
    pub(super) fn tags(&self) -> BTreeMap<String, String> {
        match &self.kind {
            RootKind::Blocks(_, device) => device.tags(),
            RootKind::Directory(_) | RootKind::Device(..) | RootKind::File(..) => BTreeMap::new(),
        }
    }

    /// Saves it, and gives the root of the snapshot.
    pub(super) async fn save(
        &self,
        run: &Arc<Run>,
        parents: &[Parent<'_>],
        block_parent: Option<&BlockParent>,
    ) -> Result<DirectoryEntry, MoverError> {
        match &self.kind {
            RootKind::Directory(directory) => {
                let parents = ParentDirectory::of_roots(parents);
                let visit = Visit { directory: directory.clone(), rules: Arc::new(Rules::default()), parents };
                let (object, summary) = save(run.clone(), visit).await.map_err(|not_saved| self.ended_by(not_saved))?;
                let itself = directory.state().itself.to_repository();
                Ok(DirectoryEntry { object: Some(object), summary: Some(summary), ..itself })
            }
            RootKind::File(directory, name) => {
                let size = directory.state().entries.first().map_or(0, |entry| entry.size);
                if size > SMALL {
                    save_long(run, directory, 0).await?;
                } else {
                    save_batch(run, directory, vec![0]).await?;
                }
                let state = directory.state();
                let Some(entry) = state.entries.first().filter(|entry| entry.object.is_some()) else {
                    let why =
                        state.failures.errors.first().map_or_else(|| "it is gone".to_owned(), |e| e.error.clone());
                    return Err(self.refuse(&Failed::Because(why)));
                };
                let mut entry = entry.to_repository();
                entry.name = lifeboat_kopia::format::json::Text::from_bytes(name.as_bytes());
                let totals = Summary { size: entry.size, files: 1, max_time: entry.modified, ..Summary::default() };
                Ok(DirectoryEntry { summary: Some(totals), ..entry })
            }
            RootKind::Device(directory, handle) => self.save_device(run, directory, handle).await,
            RootKind::Blocks(directory, device) => {
                let saved = save_blocks(run, directory, device, block_parent).await;
                saved.map_err(|not_saved| self.ended_by(not_saved))
            }
        }
    }

    async fn save_device(
        &self,
        run: &Arc<Run>,
        directory: &Arc<Directory>,
        handle: &Arc<Handle>,
    ) -> Result<DirectoryEntry, MoverError> {
        let (name, size) = {
            let state = directory.state();
            state.entries.first().map(|entry| (entry.name().to_owned(), entry.size)).unwrap_or_default()
        };
        add(&run.counts.directories, 1);
        add(&run.counts.non_cached_files, 1);
        let source = Source {
            size,
            has_holes: false,
            options: directory.settings.of_file(name.as_bytes(), size),
            // compat: what is read as a stream is one object.
            part: None,
            at: 0,
            handle: handle.clone(),
        };
        let saved = save_source(run, directory, &source).await.map_err(|not_saved| self.ended_by(not_saved))?;
        if saved.length < size {
            let why =
                format!("it ended after {} of {size} bytes: there is no snapshot of a part of a device", saved.length);
            return Err(self.refuse(&Failed::Because(why)));
        }
        add(&run.counts.files, 1);
        add(&run.counts.total_size, saved.length);
        add(&run.progress.files, 1);
        directory.finish(0, saved.object, saved.length, None);
        let (object, summary) = write(run, directory, Unfinished::default()).await?;
        let itself = directory.state().itself.to_repository();
        Ok(DirectoryEntry { object: Some(object), summary: Some(summary), ..itself })
    }

    /// The error of the snapshot whose root is not saved.
    fn ended_by(&self, not_saved: NotSaved) -> MoverError {
        match not_saved {
            NotSaved::Entry(failed) => self.refuse(&failed),
            NotSaved::Snapshot(error) => error,
        }
    }

    fn refuse(&self, failed: &Failed) -> MoverError {
        MoverError::Refused(format!("{}: {failed}", self.path.display()))
    }
}
