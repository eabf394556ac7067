//! The walk over everything that snapshots reach, each object once.

use super::packs::ListedPacks;
use super::report::VerifyOptions;
use super::sink::{FilePath, Progress, WantedBy};
use crate::KopiaError;
use crate::Repository;
use crate::content::Contents;
use crate::content::index_set::{IndexSet, Location, Record};
use crate::content::read_plan::Wanted;
use crate::format::content_id::ContentId;
use crate::format::directory::EntryType;
use crate::format::object_id::ObjectId;
use crate::marks::Marks;
use crate::object::{Extent, extents};
use crate::progress::add;
use crate::snapshot::{EntryState, Snapshot, TreeEntry, entries};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The walk, and what it has seen.
pub(super) struct Walk {
    contents: Contents,
    /// The indexes as they were at the beginning; the marks go by its numbers.
    set: Arc<IndexSet>,
    packs: Arc<ListedPacks>,
    objects: Marks,
    read: Marks,
    /// A file is read where its hash is below this.
    threshold: f64,
    seed: u64,
    directories: usize,
    progress: Arc<Progress>,
    to_reader: mpsc::Sender<Wanted<WantedBy>>,
}

/// A directory that is to be read.
struct Directory {
    object: ObjectId,
    place: FilePath,
}

impl Walk {
    pub(super) async fn new(
        repository: &Repository,
        options: &VerifyOptions,
        progress: Arc<Progress>,
        to_reader: mpsc::Sender<Wanted<WantedBy>>,
    ) -> Result<Self, KopiaError> {
        let contents = repository.contents().clone();
        let set = contents.index_set();
        let packs = Arc::new(ListedPacks::list(repository.blobs(), set.clone()).await?);
        add(&progress.packs_without_index, packs.without_index);
        // There is one walk.
        let _ = progress.packs.set(packs.clone());
        let (objects, read) = (Marks::new(set.len()), Marks::new(set.len()));
        let threshold = (options.files_percent / 100.0).clamp(0.0, 1.0);
        let (seed, directories) = (options.seed, options.directories.max(1));
        Ok(Self { contents, set, packs, objects, read, threshold, seed, directories, progress, to_reader })
    }

    /// Walks all snapshots. When it is dropped nothing more is read.
    pub(super) async fn run(self, snapshots: Vec<Snapshot>) -> Result<(), KopiaError> {
        let mut waiting = Vec::new();
        let mut reading = FuturesUnordered::new();
        for snapshot in snapshots {
            add(&self.progress.counts.snapshots, 1);
            let id: Arc<str> = snapshot.id.into();
            let what = || format!("the manifest of snapshot {id}");
            let root = match snapshot.document {
                Ok(document) => document.root.ok_or_else(|| KopiaError::damaged(what(), "it has no root")),
                Err(why) => Err(KopiaError::damaged(what(), why)),
            };
            match root {
                Ok(root) => waiting.extend(self.entry(&id, String::new(), TreeEntry::new(root)).await?),
                Err(error) => self.progress.tell(&id, "", error),
            }
            // The last ones first: depth before breadth keeps few waiting.
            loop {
                while reading.len() < self.directories
                    && let Some(directory) = waiting.pop()
                {
                    reading.push(self.directory(directory));
                }
                match reading.next().await {
                    Some(found) => waiting.extend(found?),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Reads a directory and gives those below it.
    async fn directory(&self, directory: Directory) -> Result<Vec<Directory>, KopiaError> {
        let Directory { object, place } = directory;
        let mut below = Vec::new();
        let mut children = entries(&self.contents, &object);
        loop {
            match children.try_next().await {
                Ok(Some(child)) => {
                    let path = format!("{}/{}", place.path, &*child.entry.name);
                    below.extend(self.entry(&place.snapshot, path, child).await?);
                }
                Ok(None) => {
                    add(&self.progress.counts.directories, 1);
                    return Ok(below);
                }
                Err(error) => {
                    self.problem(&place, error)?;
                    return Ok(below);
                }
            }
        }
    }

    /// Looks at an entry. A directory that nobody has looked at yet is given back.
    async fn entry(
        &self,
        snapshot: &Arc<str>,
        path: String,
        entry: TreeEntry,
    ) -> Result<Option<Directory>, KopiaError> {
        let place = FilePath { snapshot: snapshot.clone(), path };
        let TreeEntry { entry, state } = entry;
        let (object, has_size) = match (entry.object, state) {
            (Some(object), EntryState::Whole) => (object, true),
            (Some(object), EntryState::CutShort { .. }) => (object, false),
            (_, EntryState::Unreadable { why }) => {
                self.problem(&place, KopiaError::damaged("the entry", why))?;
                return Ok(None);
            }
            (None, _) => return Ok(None),
        };
        match self.locate(&object.content) {
            Ok(found) if !self.objects.add(found.number) => return Ok(None),
            Ok(_) => {}
            Err(error) => {
                self.problem(&place, error)?;
                return Ok(None);
            }
        }
        if entry.entry_type == EntryType::Directory {
            return Ok(Some(Directory { object, place }));
        }
        add(&self.progress.counts.files, 1);
        let size = (has_size && entry.entry_type == EntryType::File).then_some(entry.size);
        let place = Arc::new(place);
        if let Err(error) = self.file(&object, size, &place).await {
            self.problem(&place, error)?;
        }
        Ok(None)
    }

    /// Looks at all contents of a file, and has them read where the file is among those that are read.
    async fn file(&self, object: &ObjectId, size: Option<u64>, place: &Arc<FilePath>) -> Result<(), KopiaError> {
        let is_read = self.is_read(object);
        let mut length = 0;
        let mut extents = extents(&self.contents, object);
        while let Some(extent) = extents.try_next().await? {
            length = extent.start + extent.length;
            let found = self.locate(&extent.content)?;
            if is_read && self.read.add(found.number) {
                self.want(&extent, &found.record, place).await?;
            }
        }
        match size.filter(|size| *size != length) {
            Some(size) => {
                let why = format!("it has {length} bytes, the directory says {size}");
                Err(KopiaError::damaged(format!("object {object}"), why))
            }
            None => Ok(()),
        }
    }

    /// Has a content read, but for one that was read before the verification was cut off.
    async fn want(&self, extent: &Extent, record: &Record, place: &Arc<FilePath>) -> Result<(), KopiaError> {
        let entry = || record.into_entry(self.set.pack_name(record.pack));
        let note = self.progress.note_of(&entry, extent);
        if note.is_some_and(|note| self.progress.was_read(note, record.original_length)) {
            return Ok(());
        }
        // The note is made of the place where it is read: maintenance may move it until then.
        let wanted = extent.wanted(WantedBy { file: place.clone(), extent: *extent, note: None });
        self.to_reader.send(wanted).await.map_err(|_| KopiaError::Cancelled)
    }

    /// Finds a content in the indexes, and its bytes in a pack that is there.
    fn locate(&self, id: &ContentId) -> Result<Location, KopiaError> {
        let found = self.set.locate(id)?.ok_or_else(|| crate::content::missing(id))?;
        let record = &found.record;
        let length = self.packs.numbered(record.pack).length;
        let end = u64::from(record.offset) + u64::from(record.packed_length);
        if end > length {
            let pack = self.set.pack_name(record.pack);
            return Err(match length {
                0 => KopiaError::Missing { what: format!("pack {pack} with content {id}") },
                _ => KopiaError::damaged(
                    format!("pack {pack}"),
                    format_args!("it has {length} bytes, content {id} ends at {end}"),
                ),
            });
        }
        Ok(found)
    }

    /// True for a share of the files, by a hash of the object and the seed.
    fn is_read(&self, object: &ObjectId) -> bool {
        let hash = object.content.hash().as_bytes();
        let mixed = hash.iter().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, |mixed, byte| {
            (mixed ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // 53 bits are what a double holds.
        let share = ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1_u64 << 53) as f64;
        share < self.threshold
    }

    /// Tells a problem; an error that concerns everything ends the walk.
    fn problem(&self, place: &FilePath, error: KopiaError) -> Result<(), KopiaError> {
        let concerns_all = match &error {
            KopiaError::UpgradeInProgress { .. } | KopiaError::Scratch { .. } | KopiaError::Cancelled => true,
            KopiaError::Bucket(error) => !error.is_not_found(),
            _ => false,
        };
        if concerns_all {
            return Err(error);
        }
        self.progress.tell(&place.snapshot, &place.path, error);
        Ok(())
    }
}
