//! Gaps of snapshots: entries that could not be read when they were taken, and those that were not reached.

use lifeboat_kopia::format::directory::{DirectoryEntry, EntryError, EntryType};
use lifeboat_kopia::format::snapshot::SnapshotDocument;
use lifeboat_object::printable;
use lifeboat_terminal::output::errors::warn;
use serde_json::{Value, json};

/// Entries that are named; all are counted.
const NAMED: usize = 20;

/// The gaps of a snapshot, or of what is below an entry of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotGaps {
    /// The reason for which the snapshot was not finished: whole directories may be missing then.
    incomplete: Option<String>,
    /// The number of entries that could not be read.
    unread: u64,
    /// The first of them, by their paths in the snapshot.
    first: Vec<EntryError>,
}

impl SnapshotGaps {
    /// The gaps of a whole snapshot.
    pub(crate) fn of_snapshot(document: &SnapshotDocument) -> Self {
        let below = document.root.as_ref().map(|root| Self::below(document, root)).unwrap_or_default();
        Self { incomplete: document.incomplete.clone(), unread: document.unread_entries(), ..below }
    }

    /// The gaps below an entry. A file that is there lacks nothing of others.
    pub(crate) fn below(document: &SnapshotDocument, entry: &DirectoryEntry) -> Self {
        let is_directory = entry.entry_type == EntryType::Directory;
        let incomplete = document.incomplete.clone().filter(|_| is_directory);
        let Some(summary) = &entry.summary else { return Self { incomplete, ..Self::default() } };
        let first = summary.errors.iter().take(NAMED).cloned().collect();
        Self { incomplete, unread: summary.unread_entries(), first }
    }

    /// The reason for which the snapshot was not finished.
    pub(crate) fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// Sentences about an unfinished snapshot and each entry that is named.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let unfinished = self.incomplete.iter().map(|reason| unfinished("the snapshot", reason));
        let sentence = |entry: &EntryError| {
            let path = if entry.path.is_empty() { "the root" } else { &entry.path };
            format!("{} could not be read when the snapshot was taken: {}", printable(path), printable(&entry.error))
        };
        unfinished.chain(self.first.iter().map(sentence)).collect()
    }

    /// The snapshot and its gaps in one line; `None` where it has none.
    pub(crate) fn note(&self, snapshot: &str) -> Option<String> {
        let mut gaps: Vec<String> = self.incomplete.iter().map(|reason| unfinished("it", reason)).collect();
        if self.unread > 0 {
            let named: Vec<String> =
                self.first.iter().map(|entry| format!("{}: {}", entry.path, entry.error)).collect();
            let named = if named.is_empty() { String::new() } else { format!(": {}", named.join("; ")) };
            let count = self.unread;
            gaps.push(format!("{count} entries could not be read when it was taken, and are not in it{named}"));
        }
        (!gaps.is_empty()).then(|| format!("snapshot {snapshot}: {}", gaps.join("; ")))
    }

    /// Warns of the gaps on standard error.
    pub(crate) fn warn(&self, snapshot: &str) {
        if let Some(note) = self.note(snapshot) {
            warn(Some(&format!("warning: {note}")));
        }
    }

    /// The number and the first ones as JSON.
    pub(crate) fn document(&self) -> Value {
        let first: Vec<Value> =
            self.first.iter().map(|entry| json!({"path": entry.path, "reason": entry.error})).collect();
        json!({"count": self.unread, "first": first})
    }
}

/// Says that a snapshot was not finished, and for which reason. `snapshot` begins the sentence.
fn unfinished(snapshot: &str, reason: &str) -> String {
    format!("{snapshot} was not finished ({}): whole directories may be missing", printable(reason))
}

/// The state of a snapshot for people.
pub(crate) fn state(document: &SnapshotDocument) -> String {
    let state = match &document.incomplete {
        Some(reason) => format!("incomplete ({})", printable(reason)),
        None => "complete".to_owned(),
    };
    match document.unread_entries() {
        0 => state,
        count => format!("{state}, {count} not read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(incomplete: &str, failed: u64) -> SnapshotDocument {
        let errors = r#"[{"path":"a/b","error":"permission denied"}]"#;
        let text = format!(
            r#"{{"incomplete":"{incomplete}",
                "rootEntry":{{"name":"p","type":"d","obj":"k00","summ":{{"numFailed":{failed},"errors":{errors}}}}}}}"#
        );
        SnapshotDocument::parse(&text).unwrap()
    }

    #[test]
    fn a_snapshot_that_lacks_entries_does_not_look_whole() {
        let state = |incomplete, failed| state(&document(incomplete, failed));
        assert_eq!(state("", 0), "complete");
        assert_eq!(state("", 2), "complete, 2 not read");
        assert_eq!(state("checkpoint", 0), "incomplete (checkpoint)");
        assert_eq!(state("checkpoint", 1), "incomplete (checkpoint), 1 not read");
    }

    #[test]
    fn what_a_snapshot_lacks_is_named() {
        let gaps = SnapshotGaps::of_snapshot(&document("", 2));
        let expected =
            "snapshot ab: 2 entries could not be read when it was taken, and are not in it: a/b: permission denied";
        assert_eq!(gaps.note("ab").as_deref(), Some(expected));
        let first = json!([{"path": "a/b", "reason": "permission denied"}]);
        assert_eq!(gaps.document(), json!({"count": 2, "first": first}));
        let sentence = "a/b could not be read when the snapshot was taken: permission denied";
        assert_eq!(gaps.sentences(), [sentence]);
        assert_eq!(SnapshotGaps::default().note("ab"), None);
    }

    #[test]
    fn an_unfinished_snapshot_may_lack_directories_and_nothing_of_its_files() {
        let document = document("checkpoint", 0);
        let root = document.root.clone().unwrap();
        let gaps = SnapshotGaps::below(&document, &root);
        assert_eq!(gaps.incomplete(), Some("checkpoint"));
        let unfinished = "the snapshot was not finished (checkpoint): whole directories may be missing";
        assert_eq!(gaps.sentences()[0], unfinished);
        let note = "snapshot ab: it was not finished (checkpoint): whole directories may be missing";
        assert_eq!(gaps.note("ab").as_deref(), Some(note));
        let file = DirectoryEntry { entry_type: EntryType::File, summary: None, ..root };
        assert_eq!(SnapshotGaps::below(&document, &file), SnapshotGaps::default());
    }
}
