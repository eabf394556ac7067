//! References: the walk over everything that snapshots reach. It marks each content by one bit.
//!
//! Kopia passes over a snapshot that it cannot parse, and walks only entries of type `d`; then it deletes contents that only
//! these reach. Here each of them is a problem, and maintenance deletes nothing while there is one.

use crate::KopiaError;
use crate::Repository;
use crate::content::index_set::{IndexSet, Location};
use crate::content::{Contents, missing};
use crate::format::content_id::ContentId;
use crate::format::directory::EntryType;
use crate::format::object_id::ObjectId;
use crate::marks::Marks;
use crate::object::parts;
use crate::progress::{WalkProgress, add};
use crate::snapshot::{EntryState, Snapshot, TreeEntry, entries};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The problems after which a walk ends.
const MOST_PROBLEMS: usize = 20;

/// The contents that snapshots reach, as bits by the numbers of one index set: 50 million contents take 6 MiB, and as many
/// more for directories and listings.
#[derive(Debug)]
pub struct References {
    set: Arc<IndexSet>,
    referenced: Marks,
    additions: Vec<SnapshotAddition>,
    problems: Vec<String>,
}

/// The contents that a snapshot reaches, and none of those before it in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotAddition {
    /// The ID of the snapshot.
    pub snapshot: String,
    /// The contents.
    pub contents: ContentTotals,
}

/// A number of contents and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentTotals {
    /// The number.
    pub count: u64,
    /// The bytes before compression and encryption.
    pub plain: u64,
    /// The bytes in packs.
    pub stored: u64,
}

impl ContentTotals {
    /// Adds the content at a location.
    pub(crate) fn add(&mut self, found: &Location) {
        self.count += 1;
        self.plain = self.plain.saturating_add(u64::from(found.record.original_length));
        self.stored = self.stored.saturating_add(u64::from(found.record.packed_length));
    }
}

impl std::ops::AddAssign for ContentTotals {
    fn add_assign(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.plain = self.plain.saturating_add(other.plain);
        self.stored = self.stored.saturating_add(other.stored);
    }
}

impl References {
    /// The index set that has the numbers.
    pub fn set(&self) -> &Arc<IndexSet> {
        &self.set
    }

    /// True for a content that a snapshot reaches, by its number.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.referenced.has(number)
    }

    /// The contents that each snapshot has added, oldest first.
    pub fn additions(&self) -> &[SnapshotAddition] {
        &self.additions
    }

    /// The first snapshots, directories and contents that could not be read, each with the reason. While there is one,
    /// references are missing.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl Repository {
    /// Finds the references of all snapshots, of the incomplete ones, too. `directories` are read at once.
    ///
    /// # Errors
    /// Errors of the bucket and of the scratch space; manifests that cannot be loaded.
    pub async fn references(&self, directories: usize) -> Result<References, KopiaError> {
        self.references_with_progress(directories, Arc::default()).await
    }

    /// Finds the references as [`Repository::references`] does, with counters that others may look at meanwhile.
    pub(crate) async fn references_with_progress(
        &self,
        directories: usize,
        progress: Arc<WalkProgress>,
    ) -> Result<References, KopiaError> {
        let contents = self.contents();
        // The manifests must not be newer than the entries.
        let (set, snapshots) = loop {
            let set = contents.index_set();
            let snapshots = self.snapshots().await?;
            if Arc::ptr_eq(&set, &contents.index_set()) {
                break (set, snapshots);
            }
        };
        add(&progress.expected_snapshots, snapshots.len() as u64);
        add(&progress.expected_contents, set.len());
        let mut problems = Vec::new();
        if set.damaged_entries() > 0 {
            problems.push(format!("{} entries of indexes cannot be read", set.damaged_entries()));
        }
        if set.damaged_packs() > 0 {
            problems.push(format!("{} packs have no index that can be read", set.damaged_packs()));
        }
        let walk = ReferenceWalk {
            contents: contents.clone(),
            referenced: Marks::new(set.len()),
            added: Mutex::default(),
            walked: Mutex::default(),
            set,
            counts: progress,
            problems: Mutex::new(problems),
        };
        let additions = walk.run(snapshots, directories.max(1)).await?;
        let problems = walk.problems.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(References { set: walk.set, referenced: walk.referenced, additions, problems })
    }
}

struct ReferenceWalk {
    contents: Contents,
    set: Arc<IndexSet>,
    referenced: Marks,
    /// The contents that the snapshot which is being walked has added so far.
    added: Mutex<ContentTotals>,
    /// Objects that were walked already. The same content can be a file of one snapshot and a directory of another, and is
    /// walked as each of them.
    walked: Mutex<HashMap<Role, Arc<Marks>>>,
    counts: Arc<WalkProgress>,
    problems: Mutex<Vec<String>>,
}

/// The role in which the content of an object is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Role {
    is_directory: bool,
    is_compressed: bool,
    levels: u8,
}

/// A directory that is to be read.
struct Directory {
    object: ObjectId,
    place: Arc<str>,
}

impl ReferenceWalk {
    /// Walks the snapshots one after the other, and gives what each has added.
    async fn run(&self, snapshots: Vec<Snapshot>, directories: usize) -> Result<Vec<SnapshotAddition>, KopiaError> {
        let mut additions = Vec::with_capacity(snapshots.len());
        let mut waiting = Vec::new();
        let mut reading = FuturesUnordered::new();
        for snapshot in snapshots {
            add(&self.counts.snapshots, 1);
            let place = format!("snapshot {}", snapshot.id);
            match snapshot.document {
                Ok(document) => match document.root {
                    Some(root) => waiting.extend(self.entry(&place, TreeEntry::new(root)).await?),
                    None => self.problem(&place, "its manifest has no root"),
                },
                Err(why) => self.problem(&place, format_args!("its manifest cannot be read: {why}")),
            }
            // The last ones first: depth before breadth keeps few waiting.
            loop {
                while reading.len() < directories
                    && let Some(directory) = waiting.pop()
                {
                    reading.push(self.directory(directory));
                }
                match reading.next().await {
                    Some(found) => waiting.extend(found?),
                    None => break,
                }
                if self.is_over() {
                    return Ok(additions);
                }
            }
            let contents = std::mem::take(&mut *self.added.lock().unwrap_or_else(PoisonError::into_inner));
            additions.push(SnapshotAddition { snapshot: snapshot.id, contents });
        }
        Ok(additions)
    }

    /// Reads a directory and gives those below it.
    async fn directory(&self, directory: Directory) -> Result<Vec<Directory>, KopiaError> {
        let Directory { object, place } = directory;
        let mut below = Vec::new();
        let mut children = entries(&self.contents, &object);
        loop {
            match children.try_next().await {
                Ok(Some(child)) => {
                    let path = format!("{place}/{}", &*child.entry.name);
                    below.extend(self.entry(&path, child).await?);
                }
                Ok(None) => {
                    add(&self.counts.directories, 1);
                    return Ok(below);
                }
                Err(error) => {
                    self.problem_or_end(&place, error)?;
                    return Ok(below);
                }
            }
        }
    }

    /// Marks what an entry refers to. A directory that nobody has read yet is given back.
    async fn entry(&self, place: &str, entry: TreeEntry) -> Result<Option<Directory>, KopiaError> {
        let TreeEntry { entry, state } = entry;
        let object = match (entry.object, state) {
            (_, EntryState::Unreadable { why }) => {
                self.problem(place, why);
                return Ok(None);
            }
            (None, _) => {
                self.problem(place, "it refers to no object");
                return Ok(None);
            }
            (Some(object), _) => object,
        };
        if let Err(error) = self.object(&object).await {
            self.problem_or_end(place, error)?;
            return Ok(None);
        }
        if entry.entry_type != EntryType::Directory {
            add(&self.counts.files, 1);
            return Ok(None);
        }
        if !self.is_new(&object, true)? {
            return Ok(None);
        }
        Ok(Some(Directory { object, place: place.into() }))
    }

    /// Marks all contents of an object, those of its listings among them.
    async fn object(&self, object: &ObjectId) -> Result<(), KopiaError> {
        let mut open = vec![*object];
        while let Some(object) = open.pop() {
            let Some(listing) = object.listing() else {
                self.content(&object.content)?;
                continue;
            };
            if !self.is_new(&object, false)? {
                continue;
            }
            open.push(listing);
            let mut parts = parts(&self.contents, &object)?;
            while let Some(part) = parts.try_next().await? {
                // A file of terabytes has a million of them: only those with listings wait.
                match part.object.levels {
                    0 => self.content(&part.object.content)?,
                    _ => open.push(part.object),
                }
            }
        }
        Ok(())
    }

    fn content(&self, id: &ContentId) -> Result<(), KopiaError> {
        let found = self.set.locate(id)?.ok_or_else(|| missing(id))?;
        if self.referenced.add(found.number) {
            add(&self.counts.contents, 1);
            add(&self.counts.bytes, u64::from(found.record.original_length));
            self.added.lock().unwrap_or_else(PoisonError::into_inner).add(&found);
        }
        Ok(())
    }

    /// True for an object that was not walked in this role yet.
    fn is_new(&self, object: &ObjectId, is_directory: bool) -> Result<bool, KopiaError> {
        let found = self.set.locate(&object.content)?.ok_or_else(|| missing(&object.content))?;
        let role = Role { is_directory, is_compressed: object.is_compressed, levels: object.levels };
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        let marks = walked.entry(role).or_insert_with(|| Arc::new(Marks::new(self.set.len()))).clone();
        drop(walked);
        Ok(marks.add(found.number))
    }

    fn problem(&self, place: &str, why: impl std::fmt::Display) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if problems.len() < MOST_PROBLEMS {
            problems.push(format!("{place}: {why}"));
        }
    }

    fn is_over(&self) -> bool {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).len() >= MOST_PROBLEMS
    }

    /// Notes a problem of one thing; an error that concerns everything ends the walk.
    fn problem_or_end(&self, place: &str, error: KopiaError) -> Result<(), KopiaError> {
        if !error.concerns_one() {
            return Err(error);
        }
        self.problem(place, error);
        Ok(())
    }
}
