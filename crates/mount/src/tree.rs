//! Answers to questions about the tree of a snapshot, or of several.
//!
//! # Inodes
//!
//! The entries of a directory get numbers that follow each other when it is read for the first time, and keep them.
//! A snapshot does not change, so a directory that was forgotten is read again when it is asked for, and gives the same.

use crate::attributes::NodeAttributes;
use crate::error::TreeError;
use crate::listing::{DirectoryListing, ListedEntry};
use crate::open_file::OpenFile;
use crate::pieces::RecentPieces;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use lifeboat_mover::FileReader;
use lifeboat_mover::tree::{EntryKind, ExtendedAttribute, Object, Source, SourceEntry};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OnceCell, Semaphore};

/// The inode of the root.
pub const ROOT: u64 = 1;
/// The longest target of a symlink.
const LONGEST_TARGET: usize = 4096;

/// The memory of a tree.
#[derive(Debug, Clone, Copy)]
pub struct TreeOptions {
    /// The most entries of directories that are kept; the newest directory is kept however many it has.
    pub entries: usize,
    /// The most bytes of files that are kept.
    pub bytes: usize,
    /// The most files that are read ahead at once, each by some 24 MiB.
    pub files_ahead: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 64 << 20, files_ahead: 4 }
    }
}

/// The entries of the root.
#[derive(Debug, Clone)]
pub enum Roots {
    /// The entries of this directory.
    Directory(Box<SourceEntry>),
    /// These, by their names.
    Entries(Vec<SourceEntry>),
}

/// The tree of a snapshot, or of several.
#[derive(Debug)]
pub struct Tree {
    source: Source,
    roots: Roots,
    directories: Mutex<Directories>,
    pieces: Mutex<RecentPieces>,
    ahead: Arc<Semaphore>,
    /// The most entries of directories that are kept.
    most_entries: usize,
}

/// The directories that were read.
#[derive(Debug)]
struct Directories {
    /// All that were read once, by inode.
    known: HashMap<u64, KnownDirectory>,
    /// The directory whose entries have the inodes from a number on.
    by_first: BTreeMap<u64, u64>,
    next: u64,
    /// The listings that are in memory, by inode.
    listings: HashMap<u64, KeptListing>,
    /// The sum of their weights.
    held: usize,
    /// Counts uses.
    uses: u64,
}

#[derive(Debug)]
struct KnownDirectory {
    parent: u64,
    object: Option<Object>,
    /// The inode of its first entry.
    first: u64,
}

#[derive(Debug)]
struct KeptListing {
    cell: Arc<OnceCell<Arc<DirectoryListing>>>,
    used: u64,
    /// The number of its entries and 1; 0 while it is being read.
    weight: usize,
}

impl Tree {
    /// A tree of which nothing is read yet.
    #[must_use]
    pub fn new(source: Source, roots: Roots, options: TreeOptions) -> Self {
        let directories = Directories {
            known: HashMap::new(),
            by_first: BTreeMap::new(),
            next: ROOT + 1,
            listings: HashMap::new(),
            held: 0,
            uses: 0,
        };
        Self {
            source,
            roots,
            directories: Mutex::new(directories),
            pieces: Mutex::new(RecentPieces::new(options.bytes)),
            ahead: Arc::new(Semaphore::new(options.files_ahead)),
            most_entries: options.entries,
        }
    }

    /// The attributes of an entry.
    ///
    /// # Errors
    /// An inode that was not given; a directory that cannot be read.
    pub async fn attributes(&self, inode: u64) -> Result<NodeAttributes, TreeError> {
        self.with_entry(inode, NodeAttributes::of).await
    }

    /// Finds an entry of a directory by its name.
    ///
    /// # Errors
    /// No such entry; a directory that cannot be read.
    pub async fn find(&self, directory: u64, name: &OsStr) -> Result<(u64, NodeAttributes), TreeError> {
        let listing = self.listing(directory).await?;
        let (inode, entry) = listing.find(name).ok_or(TreeError::NotFound)?;
        Ok((inode, NodeAttributes::of(entry)))
    }

    /// Gives up to `most` entries of a directory from the place `from` on, in the order of their names.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub async fn list(&self, directory: u64, from: usize, most: usize) -> Result<Vec<ListedEntry>, TreeError> {
        Ok(self.listing(directory).await?.listed_from(from).take(most).collect())
    }

    /// The number of entries of a directory that cannot be shown, because their name cannot be one of a file.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub async fn hidden(&self, directory: u64) -> Result<usize, TreeError> {
        Ok(self.listing(directory).await?.hidden())
    }

    /// The directory of an entry; that of the root is the root.
    pub(crate) fn parent(&self, inode: u64) -> u64 {
        self.directories().parent(inode).unwrap_or(ROOT)
    }

    /// The path of an entry below the root, for people.
    pub(crate) async fn path(&self, mut inode: u64) -> OsString {
        let mut names = Vec::new();
        while inode != ROOT {
            let Ok(name) = self.with_entry(inode, |entry| entry.name.clone()).await else { break };
            names.push(name);
            inode = self.parent(inode);
        }
        names.reverse();
        names.join(OsStr::new("/"))
    }

    /// The target of a symlink.
    ///
    /// # Errors
    /// Another entry; a target that cannot be read, or is longer than any can be.
    pub async fn target(&self, inode: u64) -> Result<Bytes, TreeError> {
        let entry = self.entry(inode).await?;
        if entry.kind != EntryKind::Symlink {
            return Err(TreeError::WrongType);
        }
        let object = bytes_of(&entry)?;
        let mut bytes = self.source.bytes(object);
        let mut target = BytesMut::new();
        while let Some(piece) = bytes.try_next().await? {
            target.extend_from_slice(&piece);
            if target.len() > LONGEST_TARGET {
                return Err(TreeError::Unreadable(format!("its target has more than {LONGEST_TARGET} bytes")));
            }
        }
        Ok(target.freeze())
    }

    /// The extended attributes of an entry; `None` where it or its repository has none.
    ///
    /// # Errors
    /// As [`Tree::attributes`].
    pub async fn extended_attributes(&self, inode: u64) -> Result<Option<Arc<[ExtendedAttribute]>>, TreeError> {
        self.with_entry(inode, |entry| entry.attributes.as_ref().and_then(|attributes| attributes.extended.clone()))
            .await
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Another entry; a file whose bytes the snapshot does not have.
    pub async fn open(&self, inode: u64) -> Result<OpenFile, TreeError> {
        let entry = self.entry(inode).await?;
        match entry.kind {
            EntryKind::File => {}
            EntryKind::Directory => return Err(TreeError::IsADirectory),
            EntryKind::Unknown(ref word) => {
                return Err(TreeError::Unreadable(format!("its type {word:?} is not known")));
            }
            EntryKind::Symlink | EntryKind::Special(_) => return Err(TreeError::WrongType),
        }
        let reader = FileReader::new(&self.source, bytes_of(&entry)?).into();
        let ahead = self.ahead.clone().try_acquire_owned().ok();
        Ok(OpenFile { inode, size: entry.size, reader, ahead })
    }

    /// Reads up to `length` bytes of a file from a place; fewer at its end only.
    ///
    /// # Errors
    /// Bytes that are missing or damaged, and a file that has fewer than its size says.
    pub async fn read(&self, file: &OpenFile, from: u64, length: u32) -> Result<Bytes, TreeError> {
        let end = from.saturating_add(length.into()).min(file.size);
        let (mut at, mut read) = (from, BytesMut::new());
        while at < end {
            let piece = self.piece_at(file, at).await?;
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
            at += wanted as u64;
            let wanted = piece.slice(..wanted);
            if read.is_empty() && at == end {
                return Ok(wanted);
            }
            read.extend_from_slice(&wanted);
        }
        Ok(read.freeze())
    }

    /// The bytes from a place to the end of their piece, at least one.
    async fn piece_at(&self, file: &OpenFile, at: u64) -> Result<Bytes, TreeError> {
        if let Some(bytes) = self.pieces().at(file.inode, at) {
            return Ok(bytes);
        }
        let mut reader = file.reader.lock().await;
        // Another reading may have read it meanwhile.
        if let Some(bytes) = self.pieces().at(file.inode, at) {
            return Ok(bytes);
        }
        let Some(piece) = reader.piece_at(at, file.ahead.is_some()).await? else {
            let why = format!("its bytes end at {at} of {}", file.size);
            return Err(TreeError::Unreadable(why));
        };
        self.pieces().keep(file.inode, &piece);
        let offset = usize::try_from(at.saturating_sub(piece.start)).unwrap_or(usize::MAX).min(piece.bytes.len());
        Ok(piece.bytes.slice(offset..))
    }

    /// An entry by its inode.
    async fn entry(&self, inode: u64) -> Result<SourceEntry, TreeError> {
        self.with_entry(inode, SourceEntry::clone).await
    }

    /// Looks at an entry by its inode.
    async fn with_entry<T>(&self, inode: u64, look: impl FnOnce(&SourceEntry) -> T) -> Result<T, TreeError> {
        if inode == ROOT {
            return Ok(match &self.roots {
                Roots::Directory(entry) => look(entry),
                Roots::Entries(_) => look(&SourceEntry::directory(OsString::new())),
            });
        }
        let parent = self.directories().parent(inode).ok_or(TreeError::NotFound)?;
        self.listing(parent).await?.entry(inode).map(look).ok_or(TreeError::NotFound)
    }

    /// The entries of a directory: from memory, or read.
    async fn listing(&self, directory: u64) -> Result<Arc<DirectoryListing>, TreeError> {
        let cell = self.directories().cell(directory);
        match cell.get_or_try_init(|| self.load(directory)).await {
            Ok(listing) => Ok(listing.clone()),
            Err(error) => {
                self.directories().drop_unread(directory);
                Err(error)
            }
        }
    }

    async fn load(&self, directory: u64) -> Result<Arc<DirectoryListing>, TreeError> {
        let known = self.directories().known.get(&directory).map(|known| known.object.clone());
        let object = match known {
            Some(object) => object,
            None => {
                // The directory that it is in was read before, and is known.
                let entry = Box::pin(self.entry(directory)).await?;
                if entry.kind != EntryKind::Directory {
                    return Err(TreeError::NotADirectory);
                }
                entry.object.clone()
            }
        };
        let entries = match (&object, &self.roots) {
            (Some(object), _) => self.source.entries(object).try_collect().await?,
            (None, Roots::Entries(entries)) if directory == ROOT => entries.clone(),
            (None, _) => return Err(TreeError::Unreadable("it refers to no object that can be read".to_owned())),
        };
        let mut directories = self.directories();
        let first = directories.introduce(directory, object, entries.len());
        directories.hold(directory, entries.len(), self.most_entries);
        Ok(Arc::new(DirectoryListing::new(entries, first)))
    }

    fn directories(&self) -> MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pieces(&self) -> MutexGuard<'_, RecentPieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Directories {
    /// The directory that an entry is in.
    fn parent(&self, inode: u64) -> Option<u64> {
        if let Some(known) = self.known.get(&inode) {
            return Some(known.parent);
        }
        self.by_first.range(..=inode).next_back().map(|(_, directory)| *directory)
    }

    /// The place of a directory's listing, noted as used now.
    fn cell(&mut self, directory: u64) -> Arc<OnceCell<Arc<DirectoryListing>>> {
        self.uses += 1;
        let kept =
            self.listings.entry(directory).or_insert_with(|| KeptListing { cell: Arc::default(), used: 0, weight: 0 });
        kept.used = self.uses;
        kept.cell.clone()
    }

    /// Gives the inode of the first entry of a directory: those that it had, or new ones.
    fn introduce(&mut self, directory: u64, object: Option<Object>, entries: usize) -> u64 {
        if let Some(known) = self.known.get(&directory) {
            return known.first;
        }
        let (parent, first) = (self.parent(directory).unwrap_or(ROOT), self.next);
        self.next += entries as u64;
        self.known.insert(directory, KnownDirectory { parent, object, first });
        if entries > 0 {
            self.by_first.insert(first, directory);
        }
        first
    }

    /// Forgets the place of a listing that could not be read.
    fn drop_unread(&mut self, directory: u64) {
        if self.listings.get(&directory).is_some_and(|kept| kept.weight == 0) {
            self.listings.remove(&directory);
        }
    }

    /// Notes that the listing of a directory is in memory. Where there are more entries than `most`, those that were used longest ago are
    /// forgotten: a quarter at once, so that this is not done for each directory.
    fn hold(&mut self, directory: u64, entries: usize, most: usize) {
        let Some(kept) = self.listings.get_mut(&directory) else { return };
        kept.weight = entries + 1;
        self.held += kept.weight;
        if self.held <= most {
            return;
        }
        let others = self.listings.iter().filter(|(inode, kept)| **inode != directory && kept.weight > 0);
        let mut by_age: Vec<(u64, u64)> = others.map(|(inode, kept)| (kept.used, *inode)).collect();
        by_age.sort_unstable();
        for (_, inode) in by_age {
            if self.held <= most / 4 * 3 {
                return;
            }
            self.held -= self.listings.remove(&inode).map_or(0, |kept| kept.weight);
        }
    }
}

/// The object of an entry's bytes.
fn bytes_of(entry: &SourceEntry) -> Result<&Object, TreeError> {
    entry.object.as_ref().ok_or_else(|| TreeError::Unreadable("it refers to no object that can be read".to_owned()))
}
