//! The walk over the tree of the repository, which gives the pieces that are to be read.

use super::extra::delete_extra;
use super::file::{FileKind, FileTask};
use super::hard_links::HardLinks;
use super::link::{LinkTask, MAX_TARGET};
use super::listing::{Listing, OpenListing};
use super::names::RepeatedNames;
use super::options::Existing;
use super::prepare::{Child, FileStep, Step, prepare};
use super::run::{Ended, Run, blocking};
use super::sink::{Piece, PieceTarget};
use crate::RepositoryError;
use crate::failure::Failed;
use crate::progress::add;
use crate::tree::{Object, Source, SourceEntry, Stored, TreeExtent as Extent};
use futures::TryStreamExt;
use lifeboat_kopia::snapshot::EntryState;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// The deepest listings that stay open while a walk is in a directory below them.
const OPEN_LISTINGS: usize = 16;
/// The longest content that is compared with what is there. Kopia makes none that is longer.
const MAX_COMPARED: u64 = 64 << 20;

/// A walk. It makes directories, begins files and symlinks, and sends what is to be read for them.
pub(super) struct Walk {
    pub(super) source: Source,
    pub(super) run: Arc<Run>,
    pub(super) hard_links: Arc<HardLinks>,
    pub(super) pieces: mpsc::Sender<(Extent, Piece)>,
    /// The pieces that may be on their way at once, with their files.
    pub(super) room: Arc<Semaphore>,
}

/// A directory whose listing is being walked.
struct Frame {
    child: Child,
    listing: Listing,
    repeated: RepeatedNames,
    children: VecDeque<Child>,
}

impl Walk {
    /// Walks a tree, children of a directory in the order of its listing, without recursion.
    pub(super) async fn tree(&self, root: Child) -> Result<(), Ended> {
        let mut stack: Vec<Frame> = Vec::new();
        let mut next = Some(root);
        loop {
            if let Some(child) = next.take() {
                let frame = self.open(child).await?;
                if let Some(above) = stack.len().checked_sub(OPEN_LISTINGS).and_then(|index| stack.get_mut(index)) {
                    above.listing.close();
                }
                stack.push(frame);
            }
            let Some(frame) = stack.last_mut() else { return Ok(()) };
            if let Some(child) = frame.children.pop_front() {
                next = Some(child);
                continue;
            }
            let batch = match frame.listing.next_batch().await {
                Ok(batch) => batch,
                Err(error) => {
                    self.run.fail_repository(&path_of(&frame.child), error)?;
                    Vec::new()
                }
            };
            if !batch.is_empty() {
                self.batch(frame, batch).await?;
                self.read_ahead(&frame.children).await;
                continue;
            }
            if let Some(Frame { child, .. }) = stack.pop() {
                let run = self.run.clone();
                blocking(move || {
                    let _step = run.enter()?;
                    child.directory.release(&run)
                })
                .await?;
            }
        }
    }

    /// Reads the names of a directory, and removes what it does not have.
    async fn open(&self, child: Child) -> Result<Frame, Ended> {
        let OpenListing { listing, names, error } = Listing::open(&self.source, &child.object).await;
        let is_whole = error.is_none() && child.is_complete;
        if let Some(error) = error {
            self.run.fail_repository(&path_of(&child), error)?;
        }
        if !self.run.options.delete_extra || child.directory.is_new() {
            return Ok(Frame { child, listing, repeated: names.into_repeated(), children: VecDeque::new() });
        }
        if !is_whole {
            self.run.note(|report| report.not_cleared += 1);
            return Ok(Frame { child, listing, repeated: names.into_repeated(), children: VecDeque::new() });
        }
        let (run, directory) = (self.run.clone(), child.directory.clone());
        let names = blocking(move || delete_extra(&run, &directory, &names).map(|()| names)).await?;
        Ok(Frame { child, listing, repeated: names.into_repeated(), children: VecDeque::new() })
    }

    /// Works on some entries of a directory.
    async fn batch(&self, frame: &mut Frame, batch: Vec<SourceEntry>) -> Result<(), Ended> {
        let directory = frame.child.directory.clone();
        let mut entries = Vec::with_capacity(batch.len());
        for entry in batch {
            if frame.repeated.is_followed(&entry.name) && !matches!(entry.state, EntryState::CutShort { .. }) {
                let why = "the directory of the snapshot has this name more than once; its last entry counts";
                let path = directory.path(&entry.name);
                self.run.fail(&path, &Failed::Because(why.to_owned()))?;
            } else {
                entries.extend(self.hard_links.keep_further(&directory, entry));
            }
        }
        let run = self.run.clone();
        let steps = blocking(move || prepare(&run, &directory, entries)).await?;
        let mut done = Vec::new();
        for step in steps {
            self.step(step, &mut frame.children, &mut done).await?;
        }
        self.release(&mut done).await
    }

    /// Works on one entry that is no directory of others.
    pub(super) async fn single(&self, step: Step) -> Result<(), Ended> {
        let mut done = Vec::new();
        self.step(step, &mut VecDeque::new(), &mut done).await?;
        self.release(&mut done).await
    }

    async fn step(&self, step: Step, children: &mut VecDeque<Child>, done: &mut Vec<Done>) -> Result<(), Ended> {
        match step {
            Step::Directory(child) => children.push_back(child),
            Step::File(file) => {
                if file.object.is_long() {
                    // It may take long, and the others are finished meanwhile.
                    self.release(done).await?;
                }
                self.file(&file).await?;
                done.push(Done::File(file.task));
            }
            Step::Link { task, object } => done.extend(self.link(task, &object).await?),
        }
        Ok(())
    }

    /// Lets go of tasks, which finishes those of which no piece is to come.
    async fn release(&self, done: &mut Vec<Done>) -> Result<(), Ended> {
        if done.is_empty() {
            return Ok(());
        }
        let (run, done) = (self.run.clone(), std::mem::take(done));
        blocking(move || {
            for one in done {
                let _step = run.enter()?;
                match one {
                    Done::File(task) => task.release(&run),
                    Done::SameLink(task) => task.keep(&run),
                    Done::LostLink(task, error) => task.lose(&run, error),
                    Done::BadLink(task, why) => task.refuse(&run, &why),
                    Done::KnownLink(task, target) => task.make(&run, &target),
                }?;
            }
            Ok(())
        })
        .await
    }

    /// Reads listings into the memory of the repository while nobody waits for each of them. What fails is told later.
    async fn read_ahead(&self, children: &VecDeque<Child>) {
        self.source.read_ahead(children.iter().map(|child| &child.object)).await;
    }

    async fn send(&self, extent: &Extent, place: PieceTarget) -> Result<(), Ended> {
        let room = self.room.clone().acquire_owned().await.map_err(|_| Ended)?;
        // Where nobody takes it the plan has ended, and says why.
        self.pieces.send((*extent, Piece { place, _room: room })).await.map_err(|_| Ended)
    }

    /// Sends the pieces of a file, as far as they are not there already.
    async fn file(&self, FileStep { task, object, size }: &FileStep) -> Result<(), Ended> {
        let compares = match task.kind() {
            FileKind::New => false,
            FileKind::InPlace => true,
            FileKind::Device => self.run.options.existing != Existing::Overwrite,
        };
        let checked = self.source.extents(object).map_ok(|extent| async move {
            let is_there = compares && self.is_there(task, &extent).await;
            Ok::<_, RepositoryError>((extent, is_there))
        });
        let mut checked = Box::pin(checked.try_buffered(self.source.threads()));
        let mut length = 0;
        loop {
            let (extent, is_there) = match checked.try_next().await {
                Ok(Some(checked)) => checked,
                Ok(None) => break,
                Err(error) => return task.fail_repository(&self.run, error),
            };
            length = extent.start.saturating_add(extent.length);
            // What is longer than it should be is told below, and not written.
            let wanted = length.min(task.size()).saturating_sub(extent.start);
            if length > *size {
                break;
            }
            if wanted == 0 {
                continue;
            }
            if is_there {
                add(&self.run.progress.bytes_unchanged, wanted);
                continue;
            }
            task.add();
            let place = PieceTarget::File { task: task.clone(), offset: extent.start, length: wanted };
            self.send(&extent, place).await?;
        }
        if length == *size {
            return Ok(());
        }
        let more = if length > *size { "at least " } else { "" };
        let why = format!("the snapshot has it with {size} bytes, its object has {more}{length}");
        task.fail(&self.run, &Failed::Because(why))
    }

    /// True where the bytes of an extent are in the file already.
    async fn is_there(&self, task: &Arc<FileTask>, extent: &Extent) -> bool {
        // The hash of what was compressed as a whole is not that of the bytes.
        if is_compressed(extent) || extent.length > MAX_COMPARED || self.run.is_over() {
            return false;
        }
        let Ok(length) = usize::try_from(extent.length) else { return false };
        let (run, task, source, extent) = (self.run.clone(), task.clone(), self.source.clone(), *extent);
        let compare = blocking(move || {
            let bytes = task.read(&run, extent.start, length);
            Ok(bytes.is_some_and(|bytes| source.are_bytes_of(&extent, &bytes)))
        });
        compare.await.unwrap_or(false)
    }

    /// Sends what a symlink needs, or tells what is to be done without that.
    async fn link(&self, task: LinkTask, object: &Object) -> Result<Option<Done>, Ended> {
        if let Object::Target(target) = object {
            return Ok(Some(known_link(task, target)));
        }
        let mut extents = self.source.extents(object);
        let extent = match extents.try_next().await {
            Ok(Some(extent)) if (1..=MAX_TARGET).contains(&extent.length) => extent,
            Ok(extent) => {
                let length = extent.map_or(0, |extent| extent.length);
                let why = format!("its target has {length} bytes, which no symlink can have");
                return Ok(Some(Done::BadLink(task, why)));
            }
            Err(error) => return Ok(Some(Done::LostLink(task, error))),
        };
        match extents.try_next().await {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(Some(Done::BadLink(task, "its target has more than one piece".to_owned()))),
            Err(error) => return Ok(Some(Done::LostLink(task, error))),
        }
        let is_same = task.existing.as_ref().is_some_and(|existing| {
            !is_compressed(&extent)
                && existing.len() as u64 == extent.length
                && self.source.are_bytes_of(&extent, existing)
        });
        if is_same {
            return Ok(Some(Done::SameLink(task)));
        }
        let length = extent.length;
        self.send(&extent, PieceTarget::Link { task, length }).await?;
        Ok(None)
    }
}

/// A task that the walk lets go of.
enum Done {
    File(Arc<FileTask>),
    SameLink(LinkTask),
    LostLink(LinkTask, RepositoryError),
    BadLink(LinkTask, String),
    KnownLink(LinkTask, Vec<u8>),
}

/// The rest of the work with a symlink whose target is known.
fn known_link(task: LinkTask, target: &[u8]) -> Done {
    if target.is_empty() || target.len() as u64 > MAX_TARGET {
        return Done::BadLink(task, format!("its target has {} bytes, which no symlink can have", target.len()));
    }
    let is_same = task.existing.as_deref() == Some(target);
    if is_same { Done::SameLink(task) } else { Done::KnownLink(task, target.to_vec()) }
}

/// True where the hash of the stored bytes is not that of the extent.
fn is_compressed(extent: &Extent) -> bool {
    matches!(extent.stored, Stored::Kopia { is_compressed: true, .. })
}

fn path_of(child: &Child) -> String {
    child.directory.own_path()
}
