//! Manifests of a repository: which of them count (kopia: repo/manifest).

use crate::KopiaError;
use crate::content::Contents;
use crate::content::read_plan::{Sink, Wanted, read};
use crate::format::content_id::ContentId;
use crate::format::manifest::{self, ManifestEntry};
use crate::snapshot::Snapshot;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// The prefix of contents that hold manifests.
pub const PREFIX: u8 = b'm';
/// The most plain bytes of one content with manifests: some 100,000 snapshots take 100 MB.
const MAX_PLAIN: usize = 512 << 20;

/// All manifests that are not deleted, each as its latest form. Documents of snapshots are kept as text; a repository of
/// 100,000 snapshots takes about 100 MB here.
#[derive(Debug, Default)]
pub struct Manifests {
    entries: BTreeMap<String, ManifestEntry>,
}

impl Manifests {
    /// Takes the entries of all contents, in any order: of each ID the latest form counts.
    pub fn from_entries(entries: impl IntoIterator<Item = ManifestEntry>) -> Self {
        let mut latest = Self::default();
        for entry in entries {
            latest.add(entry);
        }
        latest.drop_deleted();
        latest
    }

    fn add(&mut self, entry: ManifestEntry) {
        match self.entries.entry(entry.id.clone()) {
            Entry::Vacant(place) => drop(place.insert(entry)),
            Entry::Occupied(mut known) => {
                // At the same time: a manifest rather than the note of its deletion, which only costs space. Otherwise it is
                // the same in every order.
                let rank = |entry: &ManifestEntry| (entry.modified, !entry.is_deleted, entry.data.get().to_owned());
                if rank(&entry) > rank(known.get()) {
                    known.insert(entry);
                }
            }
        }
    }

    /// All that is there, the notes of deletions among it where they were loaded.
    pub(crate) fn into_entries(self) -> Vec<ManifestEntry> {
        self.entries.into_values().collect()
    }

    fn drop_deleted(&mut self) {
        self.entries.retain(|_, entry| !entry.is_deleted);
    }

    /// Gives the manifests whose labels hold all of `labels`, oldest first.
    pub fn find(&self, labels: &BTreeMap<String, String>) -> Vec<&ManifestEntry> {
        let fits = |entry: &&ManifestEntry| labels.iter().all(|(key, value)| entry.labels.get(key) == Some(value));
        let mut found: Vec<&ManifestEntry> = self.entries.values().filter(fits).collect();
        // Where one of several is wanted it is the last.
        found.sort_by(|a, b| (a.modified, &a.id).cmp(&(b.modified, &b.id)));
        found
    }

    /// Gives the manifests of a type, oldest first.
    pub fn of_type(&self, manifest_type: &str) -> Vec<&ManifestEntry> {
        self.find(&BTreeMap::from([("type".to_owned(), manifest_type.to_owned())]))
    }

    /// Gives the snapshots, in the order in which their manifests were written. One that cannot be read is there with the reason.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.of_type("snapshot").into_iter().map(Snapshot::from_manifest).collect()
    }

    /// Gives the manifest with this ID.
    pub fn get(&self, id: &str) -> Option<&ManifestEntry> {
        self.entries.get(id)
    }

    /// The number of manifests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Loads the manifests of all contents with prefix `m`.
///
/// # Errors
/// A content that is missing or damaged: nobody may take a manifest for absent because it could not be read.
pub async fn load(contents: &Contents) -> Result<Manifests, KopiaError> {
    let mut manifests = load_with_deletions(contents).await?;
    manifests.drop_deleted();
    Ok(manifests)
}

/// Loads them as [`load`] does, with the notes of deletions.
///
/// # Errors
/// As [`load`].
pub(crate) async fn load_with_deletions(contents: &Contents) -> Result<Manifests, KopiaError> {
    contents.refresh_when_old().await?;
    let live = contents.scan(Some(PREFIX)).filter_map(|entry| match entry {
        Ok(entry) if entry.is_deleted => None,
        Ok(entry) => Some(Ok(Wanted::whole(entry.id, entry.id))),
        Err(e) => Some(Err(e)),
    });
    let gathered = Arc::new(Gathered::default());
    read(contents, futures::stream::iter(live), contents.limits(), gathered.clone()).await?;
    let manifests = std::mem::take(&mut *gathered.manifests.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(manifests)
}

/// The manifests of the contents that were read so far.
#[derive(Default)]
struct Gathered {
    manifests: Mutex<Manifests>,
}

impl Sink<ContentId> for Gathered {
    fn take(&self, bytes: &Bytes, tags: Vec<ContentId>) -> Result<(), KopiaError> {
        let name = || format!("content {} with manifests", tags.first().map(ToString::to_string).unwrap_or_default());
        let entries = manifest::parse(bytes, MAX_PLAIN).map_err(|e| KopiaError::damaged(name(), e))?;
        let mut manifests = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            manifests.add(entry);
        }
        Ok(())
    }

    fn fail(&self, error: KopiaError, _tags: Vec<ContentId>) -> Result<(), KopiaError> {
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::UnixNanos;
    use serde_json::value::RawValue;

    fn entry(id: &str, modified: i64, data: Option<&str>, labels: &[(&str, &str)]) -> ManifestEntry {
        ManifestEntry {
            id: id.to_owned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            modified: UnixNanos(modified),
            is_deleted: data.is_none(),
            data: RawValue::from_string(data.unwrap_or("null").to_owned()).unwrap(),
        }
    }

    fn documents(manifests: &Manifests) -> Vec<(&str, &str)> {
        manifests.find(&BTreeMap::new()).into_iter().map(|entry| (entry.id.as_str(), entry.data.get())).collect()
    }

    #[test]
    fn of_each_manifest_the_latest_form_counts_in_every_order() {
        let entries = [
            entry("a", 1, Some("1"), &[]),
            entry("a", 3, Some("3"), &[]),
            entry("a", 2, Some("2"), &[]),
            entry("b", 1, Some("1"), &[]),
            entry("b", 2, None, &[]),
            entry("c", 2, None, &[]),
            entry("c", 3, Some("3"), &[]),
            // Both at once.
            entry("d", 4, None, &[]),
            entry("d", 4, Some("4"), &[]),
            entry("e", 5, Some("1"), &[]),
            entry("e", 5, Some("2"), &[]),
        ];
        let expected = [("a", "3"), ("c", "3"), ("d", "4"), ("e", "2")];
        assert_eq!(documents(&Manifests::from_entries(entries.clone())), expected);
        assert_eq!(documents(&Manifests::from_entries(entries.into_iter().rev())), expected);
    }

    #[test]
    fn manifests_are_found_by_some_of_their_labels_oldest_first() {
        let manifests = Manifests::from_entries([
            entry("b", 5, Some("1"), &[("type", "snapshot"), ("path", "/x")]),
            entry("a", 5, Some("2"), &[("type", "snapshot"), ("path", "/y")]),
            entry("c", 4, Some("3"), &[("type", "snapshot"), ("path", "/x")]),
            entry("d", 1, Some("4"), &[("type", "policy"), ("path", "/x")]),
        ]);
        let ids = |entries: Vec<&ManifestEntry>| entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(manifests.of_type("snapshot")), ["c", "a", "b"]);
        let labels = [("type", "snapshot"), ("path", "/x")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(ids(manifests.find(&labels.into())), ["c", "b"]);
        assert_eq!(ids(manifests.of_type("user")), [""; 0]);
    }
}
