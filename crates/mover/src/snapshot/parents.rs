//! The snapshots whose files are taken over where they are unchanged.

use super::entry::{Entry, Kind};
use crate::block_form::is_saved_as_blocks;
use futures::TryStreamExt;
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::content::Contents;
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source};
use lifeboat_kopia::format::time::{SECOND, UnixNanos};
use lifeboat_kopia::snapshot::{EntryState, Snapshot, entries};
use std::collections::BTreeMap;

/// The most snapshots that were not finished and are asked: each directory is read in all of them.
const UNFINISHED: usize = 3;

/// The longest time in which a file system gives all writes the same time, in nanoseconds: that of FAT, and of some shares.
pub(super) const TICK: i64 = 2 * SECOND;

/// An earlier snapshot of the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parent<'a> {
    /// Its root.
    pub(super) root: &'a DirectoryEntry,
    /// Its beginning.
    start: UnixNanos,
}

impl<'a> Parent<'a> {
    /// The snapshot of a document; `None` where it has no root.
    pub(super) fn of(document: &'a SnapshotDocument) -> Option<Self> {
        Some(Self { root: document.root.as_ref()?, start: document.start })
    }
}

/// A directory of an earlier snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParentDirectory {
    pub(super) object: ObjectId,
    /// The beginning of the snapshot.
    pub(super) start: UnixNanos,
}

impl ParentDirectory {
    /// The roots that are directories, each once: of equal ones that of the later snapshot, which has looked at the files
    /// again.
    pub(super) fn of_roots(parents: &[Parent<'_>]) -> Vec<Self> {
        let mut roots = Vec::new();
        for Parent { root, start } in parents {
            if let (Some(object), EntryType::Directory) = (root.object, &root.entry_type) {
                Self { object, start: *start }.add_to(&mut roots);
            }
        }
        roots
    }

    /// Adds it to others, unless its object is among them: then the later beginning counts.
    fn add_to(self, known: &mut Vec<Self>) {
        match known.iter_mut().find(|known| known.object == self.object) {
            Some(known) => known.start = known.start.max(self.start),
            None => known.push(self),
        }
    }

    /// True for a file whose time tells that it has not changed since it was read. One that was written while the snapshot was
    /// taken, or just before, may have been written again within the same tick of the clock, after it was read.
    fn is_settled(&self, modified: UnixNanos) -> bool {
        modified.0.saturating_add(TICK) < self.start.0
    }
}

/// True for a snapshot in kopia's form: one in blocks has no files that could be taken over.
fn is_of_files(document: &SnapshotDocument) -> bool {
    !is_saved_as_blocks(&document.tags)
}

/// The parents of a new snapshot of a source, in the order in which they are asked: the latest complete one, or the one that is
/// given by its ID; and those with the most bytes that began after it and were not finished.
pub(super) fn choose<'a>(snapshots: &'a [Snapshot], source: &Source, given: Option<&str>) -> Vec<&'a SnapshotDocument> {
    let of_source = || {
        let documents = snapshots.iter().filter_map(|snapshot| snapshot.document.as_ref().ok());
        documents.filter(|document| document.source == *source && document.root.is_some() && is_of_files(document))
    };
    let complete = match given {
        None => of_source().filter(|document| document.incomplete.is_none()).max_by_key(|document| document.start),
        Some(id) => {
            let document =
                snapshots.iter().find(|snapshot| snapshot.id == id).and_then(|one| one.document.as_ref().ok());
            document
                .filter(|document| document.incomplete.is_none() && document.root.is_some() && is_of_files(document))
        }
    };
    let begin = complete.map(|complete| complete.start);
    let is_later = |document: &&SnapshotDocument| document.incomplete.is_some() && Some(document.start) > begin;
    let mut later: Vec<&SnapshotDocument> = of_source().filter(is_later).collect();
    let bytes = |document: &SnapshotDocument| document.root.as_ref()?.summary.as_ref().map(|summary| summary.size);
    later.sort_by_key(|document| std::cmp::Reverse((bytes(document), document.start)));
    later.truncate(UNFINISHED);
    later.sort_by_key(|document| document.start);
    complete.into_iter().chain(later).collect()
}

/// The directories of parents that belong to directories below one, by the place of these in its listing.
pub(super) type Parents = BTreeMap<usize, Vec<ParentDirectory>>;

/// Takes what is unchanged over from the directories of the parents. Entries are looked up in the listing, so that of the
/// parents' directories nothing is kept.
///
/// Gives the parents of directories below, and the reasons for which a parent could not be read.
pub(super) async fn take_over(
    contents: &Contents,
    parents: &[ParentDirectory],
    listing: &mut [Entry],
) -> (Parents, Vec<KopiaError>) {
    let (mut below, mut errors) = (Parents::new(), Vec::new());
    for parent in parents {
        let mut children = entries(contents, &parent.object);
        loop {
            match children.try_next().await {
                Ok(Some(child)) if child.state == EntryState::Whole => {
                    take_entry(parent, &child.entry, listing, &mut below);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    errors.push(error);
                    break;
                }
            }
        }
    }
    (below, errors)
}

fn take_entry(parent: &ParentDirectory, old: &DirectoryEntry, listing: &mut [Entry], below: &mut Parents) {
    let kind = match &old.entry_type {
        EntryType::Directory => Kind::Directory,
        EntryType::File => Kind::File,
        EntryType::Symlink => Kind::Symlink,
        EntryType::Unknown(_) => return,
    };
    // A name that has lost bytes fits none.
    let (Some(object), false) = (old.object, old.name.is_lossy()) else { return };
    let key = Entry::key(kind, old.name.as_bytes());
    let Ok(at) = listing.binary_search_by(|entry| entry.sort_key().cmp(&key)) else { return };
    let Some(entry) = listing.get_mut(at).filter(|entry| entry.kind == kind) else { return };
    if kind == Kind::Directory {
        ParentDirectory { object, start: parent.start }.add_to(below.entry(at).or_default());
    } else if entry.object.is_none()
        && parent.is_settled(old.modified)
        && (entry.size, entry.modified, entry.mode, entry.uid, entry.gid)
            == (old.size, old.modified, old.mode, old.uid, old.gid)
    {
        entry.object = Some(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::format::content_id::{ContentHash, ContentId};
    use lifeboat_kopia::format::directory::Summary;

    fn object(byte: u8) -> ObjectId {
        ObjectId::direct(ContentId::new(None, ContentHash::new(&[byte; 16]).unwrap()).unwrap())
    }

    fn snapshot(start: i64, incomplete: Option<&str>, path: &str) -> Snapshot {
        let text = format!(
            r#"{{"source":{{"host":"h","userName":"u","path":"{path}"}},"startTime":"{}","endTime":"{}","stats":{{}},"incomplete":"{}","rootEntry":{{"name":"r","type":"d","obj":"k{}"}}}}"#,
            UnixNanos(start),
            UnixNanos(start),
            incomplete.unwrap_or_default(),
            "00".repeat(16)
        );
        let document = SnapshotDocument::parse(&text).map_err(|e| e.to_string());
        assert!(document.is_ok(), "{document:?}");
        Snapshot { id: start.to_string(), written: UnixNanos(start), document }
    }

    #[test]
    fn parents_are_the_latest_complete_snapshot_and_unfinished_ones_after_it() {
        let snapshots = [
            snapshot(1, None, "/p"),
            snapshot(2, Some("checkpoint"), "/p"),
            snapshot(3, None, "/p"),
            snapshot(4, Some("checkpoint"), "/p"),
            snapshot(5, None, "/other"),
            snapshot(6, Some("canceled"), "/p"),
        ];
        let chosen = |path: &str| {
            let source = Source { host: "h".to_owned(), user: "u".to_owned(), path: path.to_owned() };
            choose(&snapshots, &source, None).iter().map(|one| one.start.0).collect::<Vec<_>>()
        };
        assert_eq!((chosen("/p"), chosen("/other"), chosen("/none")), (vec![3, 4, 6], vec![5], vec![]));
    }

    #[test]
    fn a_snapshot_in_blocks_is_no_parent_of_files() {
        let mut in_blocks = snapshot(3, None, "/p");
        let tag = ("snapshot-uploader".to_owned(), "velero-block".to_owned());
        in_blocks.document.as_mut().unwrap().tags.extend([tag]);
        let snapshots = [snapshot(1, None, "/p"), in_blocks];
        let source = Source { host: "h".to_owned(), user: "u".to_owned(), path: "/p".to_owned() };
        let chosen = |given| choose(&snapshots, &source, given).iter().map(|one| one.start.0).collect::<Vec<_>>();
        assert_eq!((chosen(None), chosen(Some("3")), chosen(Some("1"))), (vec![1], vec![], vec![1]));
    }

    #[test]
    fn of_many_unfinished_snapshots_the_largest_are_parents() {
        let sized = |start: i64, size: u64| {
            let mut snapshot = snapshot(start, Some("checkpoint"), "/p");
            let root = snapshot.document.as_mut().unwrap().root.as_mut().unwrap();
            root.summary = Some(Summary { size, ..Summary::default() });
            snapshot
        };
        let snapshots = [sized(1, 9), sized(2, 1), sized(3, 5), sized(4, 5), sized(5, 0), sized(6, 7)];
        let source = Source { host: "h".to_owned(), user: "u".to_owned(), path: "/p".to_owned() };
        let chosen: Vec<i64> = choose(&snapshots, &source, None).iter().map(|one| one.start.0).collect();
        assert_eq!(chosen, [1, 4, 6]);
    }

    #[test]
    fn only_what_has_not_changed_at_all_is_taken_over() {
        let entry = |kind, name: &str| Entry {
            size: 3,
            modified: UnixNanos(7),
            mode: 0o644,
            uid: 1,
            gid: 2,
            ..Entry::new(kind, name.as_bytes())
        };
        let new = || vec![entry(Kind::Directory, "d"), entry(Kind::File, "f"), entry(Kind::Symlink, "l")];
        let old = |entry_type, name: &str| DirectoryEntry {
            name: name.into(),
            entry_type,
            mode: 0o644,
            size: 3,
            modified: UnixNanos(7),
            uid: 1,
            gid: 2,
            object: Some(object(1)),
            summary: None,
        };
        let taken_from = |start: i64, old: DirectoryEntry| {
            let (mut listing, mut below) = (new(), Parents::new());
            let parent = ParentDirectory { object: object(9), start: UnixNanos(start) };
            take_entry(&parent, &old, &mut listing, &mut below);
            (listing.iter().position(|entry| entry.object.is_some()), below.keys().copied().next())
        };
        let taken = |old: DirectoryEntry| taken_from(i64::MAX, old);
        let file = || old(EntryType::File, "f");
        assert_eq!(taken(file()), (Some(1), None));
        assert_eq!(taken(old(EntryType::Symlink, "l")), (Some(2), None));
        assert_eq!(taken(old(EntryType::Directory, "d")), (None, Some(0)));
        for changed in [
            DirectoryEntry { size: 4, ..file() },
            DirectoryEntry { modified: UnixNanos(8), ..file() },
            DirectoryEntry { mode: 0o600, ..file() },
            DirectoryEntry { uid: 0, ..file() },
            DirectoryEntry { gid: 0, ..file() },
            DirectoryEntry { object: None, ..file() },
            old(EntryType::Symlink, "f"),
            old(EntryType::File, "d"),
            old(EntryType::File, "e"),
        ] {
            assert_eq!(taken(changed.clone()), (None, None), "{changed:?}");
        }
        // Its time is 7, and two seconds have to be between that and the snapshot that has read it.
        let starts = [0, 7, 7 + TICK, 8 + TICK].map(|start| taken_from(start, file()).0.is_some());
        assert_eq!(starts, [false, false, false, true]);
    }

    #[test]
    fn a_directory_of_two_parents_is_asked_once_and_has_the_later_time() {
        let parent = |start| ParentDirectory { object: object(9), start: UnixNanos(start) };
        let directory = DirectoryEntry {
            name: "d".into(),
            entry_type: EntryType::Directory,
            mode: 0o755,
            size: 0,
            modified: UnixNanos(7),
            uid: 0,
            gid: 0,
            object: Some(object(1)),
            summary: None,
        };
        let (mut listing, mut below) = (vec![Entry::new(Kind::Directory, b"d")], Parents::new());
        for start in [5, 9, 6] {
            take_entry(&parent(start), &directory, &mut listing, &mut below);
        }
        let expected = ParentDirectory { object: object(1), start: UnixNanos(9) };
        assert_eq!(below, Parents::from([(0, vec![expected])]));
        let file = DirectoryEntry { entry_type: EntryType::File, ..directory.clone() };
        let root = |root, start| Parent { root, start: UnixNanos(start) };
        let roots = [root(&directory, 5), root(&file, 7), root(&directory, 9), root(&directory, 6)];
        assert_eq!(ParentDirectory::of_roots(&roots), [expected]);
    }
}
