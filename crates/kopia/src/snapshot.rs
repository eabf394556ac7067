//! Snapshots and their trees.

mod diff;
mod entries;

use crate::KopiaError;
use crate::content::Contents;
use crate::format::directory::{DirectoryEntry, EntryType};
use crate::format::manifest::ManifestEntry;
use crate::format::snapshot::SnapshotDocument;
use crate::format::time::UnixNanos;
use futures::TryStreamExt;

pub use diff::{ChangedProperty, DiffItem, EntryChange, TreeDiff};
pub use entries::{EntryState, MAX_DEPTH, TreeEntry, entries};

/// The fewest digits by which a snapshot is chosen.
const MIN_PREFIX: usize = 4;
/// The word for the newest snapshot.
pub const LATEST: &str = "latest";

/// A snapshot of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The ID of its manifest.
    pub id: String,
    /// The time at which its manifest was written.
    pub written: UnixNanos,
    /// Its document, or the reason for which that cannot be read.
    pub document: Result<SnapshotDocument, String>,
}

impl Snapshot {
    /// The snapshot of a manifest of that type.
    pub fn from_manifest(entry: &ManifestEntry) -> Self {
        Self {
            id: entry.id.clone(),
            written: entry.modified,
            document: SnapshotDocument::parse(entry.data.get()).map_err(|e| e.to_string()),
        }
    }

    /// The time by which snapshots are ordered: its beginning, or that of its manifest where nobody can say.
    pub fn time(&self) -> UnixNanos {
        self.document.as_ref().map_or(self.written, |document| document.start)
    }

    /// True where the snapshot was finished.
    pub fn is_complete(&self) -> bool {
        self.document.as_ref().is_ok_and(|document| document.incomplete.is_none() && document.root.is_some())
    }
}

/// A snapshot by a text of the user: an ID, a prefix of one (at least four digits, one match), or `latest`, which is the
/// newest that was finished.
///
/// # Errors
/// None or several that fit, with the candidates.
pub fn choose<'a>(snapshots: &'a [Snapshot], text: &str) -> Result<&'a Snapshot, KopiaError> {
    let refuse = |why: String| Err(KopiaError::NotChosen { text: text.to_owned(), why });
    if text == LATEST {
        let complete = snapshots.iter().filter(|snapshot| snapshot.is_complete());
        return match complete.max_by(|a, b| (a.time(), &a.id).cmp(&(b.time(), &b.id))) {
            Some(snapshot) => Ok(snapshot),
            None if snapshots.is_empty() => refuse("the repository has no snapshots".to_owned()),
            None => refuse(format!("none of the {} snapshots was finished: name one by its ID", snapshots.len())),
        };
    }
    if let Some(snapshot) = snapshots.iter().find(|snapshot| snapshot.id == text) {
        return Ok(snapshot);
    }
    if text.len() < MIN_PREFIX {
        return refuse(format!("it has fewer than {MIN_PREFIX} digits of an ID, and is not {LATEST:?}"));
    }
    let found: Vec<&Snapshot> = snapshots.iter().filter(|snapshot| snapshot.id.starts_with(text)).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => refuse("no ID begins with it".to_owned()),
        several => {
            let ids: Vec<&str> = several.iter().take(10).map(|snapshot| snapshot.id.as_str()).collect();
            refuse(format!("{} IDs begin with it: {}", several.len(), ids.join(", ")))
        }
    }
}

/// The entry at a path below the root of a snapshot. Names are compared as the repository has them; of two equal names the
/// last counts, as in kopia. Empty parts of the path are passed over.
///
/// # Errors
/// A path that does not exist, with the longest part that does.
pub async fn entry_at(contents: &Contents, root: &DirectoryEntry, path: &str) -> Result<DirectoryEntry, KopiaError> {
    let mut entry = root.clone();
    let mut walked = String::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let missing = |why: &str| {
            let place = if walked.is_empty() { "the root" } else { &walked };
            Err(KopiaError::Missing { what: format!("the path {path:?} of the snapshot ({place} {why} {name:?})") })
        };
        let object = match (&entry.entry_type, entry.object) {
            (EntryType::Directory, Some(object)) => object,
            _ => return missing("is no directory that could hold"),
        };
        let mut found = None;
        let mut children = entries(contents, &object);
        while let Some(child) = children.try_next().await? {
            if *child.entry.name == *name {
                found = Some(child.entry);
            }
        }
        let Some(child) = found else { return missing("is a directory without") };
        entry = child;
        walked = format!("{walked}/{name}");
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::snapshot::{Source, Stats};
    use std::collections::BTreeMap;

    fn snapshot(id: &str, start: i64, incomplete: Option<&str>) -> Snapshot {
        let root = DirectoryEntry {
            name: "root".into(),
            entry_type: EntryType::Directory,
            mode: 0o755,
            size: 0,
            modified: UnixNanos(1),
            uid: 0,
            gid: 0,
            object: None,
            summary: None,
        };
        let document = SnapshotDocument {
            source: Source { host: "h".to_owned(), user: "u".to_owned(), path: "/p".to_owned() },
            description: String::new(),
            start: UnixNanos(start),
            end: UnixNanos(start),
            stats: Stats::default(),
            incomplete: incomplete.map(str::to_owned),
            root: Some(root),
            tags: BTreeMap::new(),
            pins: Vec::new(),
        };
        Snapshot { id: id.to_owned(), written: UnixNanos(start), document: Ok(document) }
    }

    #[test]
    fn a_snapshot_is_chosen_by_its_id_or_a_beginning_that_no_other_has() {
        let broken = Snapshot { id: "cafe0".to_owned(), written: UnixNanos(9), document: Err("no".to_owned()) };
        let snapshots = [
            snapshot("abcd1", 1, None),
            snapshot("abcd2", 3, None),
            snapshot("abcd", 2, None),
            snapshot("ffff1", 5, Some("checkpoint")),
            broken,
        ];
        let chosen = |text: &str| choose(&snapshots, text).map(|one| one.id.clone()).map_err(|e| e.to_string());
        let refused = |text: &str, why: &str| Err(format!("no snapshot is chosen by {text:?}: {why}"));
        for (text, expected) in [
            ("latest", Ok("abcd2".to_owned())),
            ("abcd", Ok("abcd".to_owned())),
            ("abcd1", Ok("abcd1".to_owned())),
            ("ffff", Ok("ffff1".to_owned())),
            ("cafe", Ok("cafe0".to_owned())),
            ("fff", refused("fff", "it has fewer than 4 digits of an ID, and is not \"latest\"")),
            ("0000", refused("0000", "no ID begins with it")),
        ] {
            assert_eq!(chosen(text), expected, "{text}");
        }
        let two = &snapshots[..2];
        let error = choose(two, "abcd").unwrap_err().to_string();
        assert_eq!(error, "no snapshot is chosen by \"abcd\": 2 IDs begin with it: abcd1, abcd2");
        let error = choose(&snapshots[3..], "latest").unwrap_err().to_string();
        let expected = "no snapshot is chosen by \"latest\": none of the 2 snapshots was finished: name one by its ID";
        assert_eq!(error, expected);
        let error = choose(&[], "latest").unwrap_err().to_string();
        assert_eq!(error, "no snapshot is chosen by \"latest\": the repository has no snapshots");
    }
}
