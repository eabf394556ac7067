//! Manifests that wait for a flush. Pure.

use crate::KopiaError;
use crate::format::manifest::ManifestEntry;
use crate::format::snapshot::SnapshotDocument;
use crate::format::time::UnixNanos;
use crate::manifest::Manifests;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The label without which kopia refuses a manifest.
const TYPE: &str = "type";

/// The labels of a snapshot: those by which kopia finds it, and its tags.
pub(super) fn snapshot_labels(document: &SnapshotDocument) -> Result<BTreeMap<String, String>, KopiaError> {
    let source = &document.source;
    let own = [(TYPE, "snapshot"), ("hostname", &source.host), ("username", &source.user), ("path", &source.path)];
    let mut labels: BTreeMap<String, String> = own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    for (key, value) in &document.tags {
        if labels.insert(key.clone(), value.clone()).is_some() {
            let why = format!("the tag {key:?} is a label of every snapshot: give it another name");
            return Err(KopiaError::refused("save a snapshot", why));
        }
    }
    Ok(labels)
}

/// The document of a snapshot as it is written. What could not be read again as it was is refused: kopia passes over a
/// snapshot that it cannot read, and deletes what only that one needs.
pub(super) fn snapshot_data(document: &SnapshotDocument) -> Result<Box<RawValue>, KopiaError> {
    let refused = |why: &dyn std::fmt::Display| KopiaError::refused("save a snapshot", why);
    let text = String::from_utf8(document.write()).map_err(|e| refused(&e))?;
    let again = SnapshotDocument::parse(&text).map_err(|e| refused(&e))?;
    if again != *document {
        return Err(refused(&"its document would not be read as it was written"));
    }
    RawValue::from_string(text).map_err(|e| refused(&e))
}

/// A manifest with a new ID.
pub(super) fn new_manifest(
    id: [u8; 16],
    labels: BTreeMap<String, String>,
    data: Box<RawValue>,
    modified: UnixNanos,
) -> Result<ManifestEntry, KopiaError> {
    if labels.get(TYPE).is_none_or(String::is_empty) {
        return Err(KopiaError::refused("save a manifest", "its labels have no type"));
    }
    Ok(ManifestEntry { id: hex::encode(id), labels, modified, is_deleted: false, data })
}

/// The note of the deletion of a manifest.
pub(super) fn tombstone(id: &str, modified: UnixNanos) -> ManifestEntry {
    let (labels, data) = (BTreeMap::new(), RawValue::NULL.to_owned());
    ManifestEntry { id: id.to_owned(), labels, modified, is_deleted: true, data }
}

/// Makes each deletion later than the manifest that it deletes, whatever the clock of its writer said.
pub(super) fn outlast(entries: &mut [ManifestEntry], known: &Manifests) {
    for at in 0..entries.len() {
        let (before, rest) = entries.split_at_mut(at);
        let Some(entry) = rest.first_mut().filter(|entry| entry.is_deleted) else { continue };
        let own = before.iter().filter(|other| other.id == entry.id).map(|other| other.modified).max();
        let last = own.max(known.get(&entry.id).map(|known| known.modified));
        if let Some(last) = last {
            entry.modified = entry.modified.max(UnixNanos(last.0.saturating_add(1)));
        }
    }
}
