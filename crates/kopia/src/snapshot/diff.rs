//! Differences of two trees, found by the IDs of their objects: a directory that is the same object on both sides is not
//! read.

use super::entries::{EntryState, MAX_DEPTH, TreeEntry, entries};
use crate::KopiaError;
use crate::content::Contents;
use crate::format::directory::{DirectoryEntry, EntryType};
use crate::format::object_id::ObjectId;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// A property in which an entry differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedProperty {
    /// The type, such as file and directory.
    Type,
    /// The bytes of a file, the target of a link.
    Content,
    /// The permission bits.
    Mode,
    /// The owner or the group.
    Owner,
    /// The time of the last change.
    Time,
}

impl ChangedProperty {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Content => "content",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Time => "time",
        }
    }
}

/// An entry that is on one side only, or differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryChange {
    /// The path below the trees that are compared; empty for these themselves.
    pub path: String,
    /// The entry of the first tree.
    pub before: Option<DirectoryEntry>,
    /// The entry of the second tree.
    pub after: Option<DirectoryEntry>,
}

impl EntryChange {
    /// The properties in which the two entries differ; none where there is only one.
    pub fn properties(&self) -> Vec<ChangedProperty> {
        let (Some(before), Some(after)) = (&self.before, &self.after) else { return Vec::new() };
        let is_retyped = before.entry_type != after.entry_type;
        // Entries of a directory are told by themselves.
        let has_content = !is_retyped && before.entry_type != EntryType::Directory;
        let differs = [
            (ChangedProperty::Type, is_retyped),
            (ChangedProperty::Content, has_content && (before.object, before.size) != (after.object, after.size)),
            (ChangedProperty::Mode, before.mode != after.mode),
            (ChangedProperty::Owner, (before.uid, before.gid) != (after.uid, after.gid)),
            (ChangedProperty::Time, before.modified != after.modified),
        ];
        differs.into_iter().filter_map(|(property, differs)| differs.then_some(property)).collect()
    }

    fn is_one_sided(&self) -> bool {
        self.before.is_none() || self.after.is_none()
    }
}

/// An item of a comparison.
#[derive(Debug)]
pub enum DiffItem {
    /// An entry that is on one side only, or differs.
    Change(Box<EntryChange>),
    /// An entry or directory that could not be read, so that what is below it was not compared.
    Unreadable {
        /// The path below the trees that are compared.
        path: String,
        /// The error.
        error: KopiaError,
    },
}

/// A comparison of two trees that is under way. Paths come in the order of their names, each directory before its
/// entries. In memory are the directories on the way down; of those that are longer than a content, one entry each.
pub struct TreeDiff {
    contents: Contents,
    open: Vec<OpenDirectory>,
    ready: VecDeque<DiffItem>,
}

/// A directory whose entries are being compared.
struct OpenDirectory {
    path: String,
    pairs: BoxStream<'static, Result<EntryPair, KopiaError>>,
}

/// The entries of one name.
struct EntryPair {
    before: Option<DirectoryEntry>,
    after: Option<DirectoryEntry>,
}

impl TreeDiff {
    /// Begins the comparison of two entries of one repository.
    pub fn new(contents: &Contents, before: DirectoryEntry, after: DirectoryEntry) -> Self {
        let mut diff = Self { contents: contents.clone(), open: Vec::new(), ready: VecDeque::new() };
        diff.visit(String::new(), EntryPair { before: Some(before), after: Some(after) });
        diff
    }

    /// Gives the next item.
    ///
    /// # Errors
    /// Errors of the bucket and of this machine. What concerns one directory is an item.
    pub async fn next(&mut self) -> Result<Option<DiffItem>, KopiaError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let Some(open) = self.open.last_mut() else { return Ok(None) };
            match open.pairs.try_next().await {
                Ok(Some(pair)) => {
                    let path = pair.path_below(&open.path);
                    self.visit(path, pair);
                }
                Ok(None) => drop(self.open.pop()),
                Err(error) if !error.concerns_one() => return Err(error),
                Err(error) => {
                    let path = std::mem::take(&mut open.path);
                    self.open.pop();
                    return Ok(Some(DiffItem::Unreadable { path, error }));
                }
            }
        }
    }

    /// Compares two entries, and opens the directories among them.
    fn visit(&mut self, path: String, pair: EntryPair) {
        let [before, after] = [&pair.before, &pair.after].map(|entry| directory_of(entry.as_ref()));
        let unreadable = [&pair.before, &pair.after].into_iter().flatten().find_map(why_unreadable);
        let change = EntryChange { path: path.clone(), before: pair.before, after: pair.after };
        if change.is_one_sided() || !change.properties().is_empty() {
            self.ready.push_back(DiffItem::Change(Box::new(change)));
        }
        let too_deep = || format!("the tree is deeper than {MAX_DEPTH} directories");
        let is_too_deep = before != after && self.open.len() >= MAX_DEPTH;
        if let Some(why) = unreadable.or_else(|| is_too_deep.then(too_deep)) {
            self.ready.push_back(DiffItem::Unreadable { path, error: KopiaError::damaged("the entry", why) });
        } else if before != after {
            let pairs = paired(listing(&self.contents, before), listing(&self.contents, after));
            self.open.push(OpenDirectory { path, pairs });
        }
    }
}

impl EntryPair {
    fn path_below(&self, path: &str) -> String {
        let name = self.before.as_ref().or(self.after.as_ref()).map_or("", |entry| entry.name.as_str());
        if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
    }
}

/// The object of a directory.
fn directory_of(entry: Option<&DirectoryEntry>) -> Option<ObjectId> {
    entry.filter(|entry| entry.entry_type == EntryType::Directory)?.object
}

fn why_unreadable(entry: &DirectoryEntry) -> Option<String> {
    if entry.object.is_some() && !matches!(entry.entry_type, EntryType::Unknown(_)) {
        return None;
    }
    match TreeEntry::new(entry.clone()).state {
        EntryState::Unreadable { why } => Some(why),
        EntryState::Whole | EntryState::CutShort { .. } => None,
    }
}

type EntryStream = BoxStream<'static, Result<DirectoryEntry, KopiaError>>;

/// The entries of a directory in the order of their names, each name once: of two the last counts, as in kopia. No entries
/// without an object.
fn listing(contents: &Contents, object: Option<ObjectId>) -> EntryStream {
    let Some(object) = object else { return futures::stream::empty().boxed() };
    let all = entries(contents, &object).map_ok(|child| child.entry);
    if object.levels == 0 {
        return sorted(all.boxed());
    }
    // Kopia writes the directories first, then all others, each of them in order.
    let is_directory = |entry: &DirectoryEntry| entry.entry_type == EntryType::Directory;
    let directories = all.try_filter(move |entry| std::future::ready(is_directory(entry))).boxed();
    let all = entries(contents, &object).map_ok(|child| child.entry);
    let others = all.try_filter(move |entry| std::future::ready(!is_directory(entry))).boxed();
    let pairs = paired(in_order(object, directories), in_order(object, others));
    pairs.try_filter_map(|pair| std::future::ready(Ok(pair.after.or(pair.before)))).boxed()
}

/// Sorts the entries of a directory of one content.
fn sorted(entries: EntryStream) -> EntryStream {
    let all = async move {
        let mut all: Vec<DirectoryEntry> = entries.try_collect().await?;
        all.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        all.dedup_by(|later, kept| {
            let is_same = later.name.as_str() == kept.name.as_str();
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        Ok::<_, KopiaError>(futures::stream::iter(all.into_iter().map(Ok)))
    };
    futures::stream::once(all).try_flatten().boxed()
}

/// The entries as they come, which must be in the order of their names.
fn in_order(object: ObjectId, entries: EntryStream) -> EntryStream {
    let held: Option<DirectoryEntry> = None;
    let ordered = futures::stream::try_unfold((entries.fuse(), held), move |(mut entries, held)| async move {
        let first = match held {
            Some(entry) => Some(entry),
            None => entries.try_next().await?,
        };
        let Some(mut entry) = first else { return Ok(None) };
        while let Some(next) = entries.try_next().await? {
            match next.name.as_str().cmp(entry.name.as_str()) {
                Ordering::Greater => return Ok(Some((entry, (entries, Some(next))))),
                Ordering::Equal => entry = next,
                Ordering::Less => {
                    let why = "its entries are not in the order of their names, and too many to be sorted here";
                    return Err(KopiaError::damaged(format!("directory {object}"), why));
                }
            }
        }
        Ok(Some((entry, (entries, None))))
    });
    ordered.boxed()
}

/// A side of a comparison, with the entry that comes next.
struct Side {
    entries: futures::stream::Fuse<EntryStream>,
    head: Option<DirectoryEntry>,
}

impl Side {
    fn new(entries: EntryStream) -> Self {
        Self { entries: entries.fuse(), head: None }
    }

    async fn fill(&mut self) -> Result<(), KopiaError> {
        if self.head.is_none() {
            self.head = self.entries.try_next().await?;
        }
        Ok(())
    }

    fn take_if(&mut self, is_taken: bool) -> Option<DirectoryEntry> {
        if is_taken { self.head.take() } else { None }
    }
}

/// Puts entries of one name together.
fn paired(before: EntryStream, after: EntryStream) -> BoxStream<'static, Result<EntryPair, KopiaError>> {
    let sides = (Side::new(before), Side::new(after));
    let pairs = futures::stream::try_unfold(sides, |(mut before, mut after)| async move {
        before.fill().await?;
        after.fill().await?;
        let order = match (&before.head, &after.head) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => before.name.as_str().cmp(after.name.as_str()),
        };
        let pair = EntryPair { before: before.take_if(order.is_le()), after: after.take_if(order.is_ge()) };
        Ok(Some((pair, (before, after))))
    });
    pairs.boxed()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
