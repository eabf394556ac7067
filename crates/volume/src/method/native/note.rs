//! Notes about snapshots and volumes, written before and after they are made. The format is
//! `docs/formats/checkpoint.md`.

use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_operation::{Records, RecordsError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// A note of one kind.
pub(crate) trait Note: Serialize + DeserializeOwned {
    /// The start of the keys of these notes.
    const PREFIX: &'static str;

    /// The rest of its key.
    fn rest_of_key(&self) -> String;
}

/// A note that an attempt of a backup may have taken a snapshot, or has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SnapshotNote {
    /// The number of the attempt.
    pub attempt: u32,
    /// The name of the PersistentVolume.
    pub persistent_volume: String,
    /// The location of the snapshotter.
    pub location: String,
    /// The provider's name of the volume.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
    /// The provider's name of the snapshot; empty as long as it is not known whether there is one.
    #[serde(rename = "snapshotID", skip_serializing_if = "String::is_empty")]
    pub snapshot_id: String,
}

impl SnapshotNote {
    /// The start of the keys of these notes, and of no others.
    pub const KEYS: &'static str = "snapshot-";
}

impl Note for SnapshotNote {
    const PREFIX: &'static str = Self::KEYS;

    /// The snapshots of one attempt are not those of another.
    fn rest_of_key(&self) -> String {
        format!("{}-{}", digest(&self.persistent_volume), self.attempt)
    }
}

/// A note that a restore may have made a volume from a snapshot, or has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeNote {
    /// The UID of the restore.
    #[serde(rename = "restoreUID")]
    pub(crate) restore_uid: String,
    /// The name of the PersistentVolume in the backup.
    pub(crate) persistent_volume: String,
    /// Its name in the cluster.
    pub(crate) name: String,
    /// The location of the snapshotter.
    pub(crate) location: String,
    /// The provider's name of the snapshot.
    #[serde(rename = "snapshotID")]
    pub(crate) snapshot_id: String,
    /// The provider's name of the volume; empty as long as it is not known whether there is one.
    #[serde(rename = "volumeID", skip_serializing_if = "String::is_empty")]
    pub(crate) volume_id: String,
    /// The number of volumes that may have been made before, by runs that were cut off before they had the name.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) unheard: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "for serde")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Note for VolumeNote {
    const PREFIX: &'static str = "volume-";

    fn rest_of_key(&self) -> String {
        digest(&self.persistent_volume)
    }
}

/// Names may be longer than keys.
fn digest(volume: &str) -> String {
    hex::encode(ObjectKey::new(GroupResource::new("", "persistentvolumes"), None, volume).digest())
}

/// The notes of one kind among the records of an operation.
#[derive(Clone, Debug)]
pub(crate) struct NoteStore<N> {
    records: Arc<dyn Records>,
    kind: PhantomData<fn() -> N>,
}

impl<N: Note> NoteStore<N> {
    pub(crate) fn new(records: &Arc<dyn Records>) -> Self {
        Self { records: Arc::clone(records), kind: PhantomData }
    }

    /// Writes a note in place of the one before. Once this returns, it survives the process.
    pub(crate) async fn write(&self, note: &N) -> Result<(), RecordsError> {
        let bytes = serde_json::to_vec(note).map_err(|e| RecordsError::Unavailable(e.to_string()))?;
        self.records.write(BTreeMap::from([(key(note), Some(bytes.into()))])).await
    }

    /// Removes a note.
    pub(crate) async fn remove(&self, note: &N) -> Result<(), RecordsError> {
        self.records.write(BTreeMap::from([(key(note), None)])).await
    }

    /// All notes in the order of their keys, and the keys of those that cannot be read.
    pub(crate) async fn all(&self) -> Result<(Vec<N>, Vec<String>), RecordsError> {
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        for (key, note) in self.records.read_all(N::PREFIX).await? {
            match serde_json::from_slice(&note) {
                Ok(note) => all.push(note),
                Err(_) => unreadable.push(key),
            }
        }
        Ok((all, unreadable))
    }
}

fn key<N: Note>(note: &N) -> String {
    format!("{}{}", N::PREFIX, note.rest_of_key())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_operation::{InMemory, is_key};

    #[tokio::test]
    async fn a_run_again_finds_what_was_noted() {
        let records: Arc<dyn Records> = Arc::new(InMemory::default());
        let notes = NoteStore::<SnapshotNote>::new(&records);
        let note = |volume: &str, attempt| SnapshotNote {
            attempt,
            persistent_volume: volume.to_owned(),
            location: "aws".to_owned(),
            volume_id: "vol-1".to_owned(),
            snapshot_id: String::new(),
        };
        let taken = SnapshotNote { snapshot_id: "snap-1".to_owned(), ..note("b", 1) };
        for one in [note("a", 1), note("a", 2), note("b", 1), taken.clone()] {
            notes.write(&one).await.unwrap();
        }
        notes.remove(&note("a", 1)).await.unwrap();
        let others = [("snapshot-x", "?"), ("checkpoint", "{}"), ("volume-x", "{}")];
        let others = others.map(|(key, note)| (key.to_owned(), Some(note.into())));
        records.write(others.into()).await.unwrap();
        let (mut all, unreadable) = NoteStore::<SnapshotNote>::new(&records).all().await.unwrap();
        all.sort_by(|a, b| a.persistent_volume.cmp(&b.persistent_volume));
        assert_eq!((all, unreadable), (vec![note("a", 2), taken], vec!["snapshot-x".to_owned()]));
        assert!(is_key(&key(&note(&"long.".repeat(60), u32::MAX))));
    }
}
