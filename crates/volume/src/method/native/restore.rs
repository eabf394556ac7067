//! Makes volumes from the native snapshots of a backup, for one restore.

use super::delete::missing;
use super::location::{NotMade, SnapshotterLocation};
use super::note::{NoteStore, VolumeNote};
use crate::method::lock::lock;
use crate::priority::Priority;
use lifeboat_action::{ActionError, LocatedSnapshotter, VolumeFacts, VolumeRequest};
use lifeboat_archive::native_snapshot::{NativeSnapshot, NativeSnapshotSpec};
use lifeboat_object::ResultScope;
use lifeboat_operation::{Operation, RecordsError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The longest time for making one volume.
const LONGEST: Duration = Duration::from_secs(4 * 3600);
/// The longest wait for volumes that are being made when the restore is broken off.
const GRACE: Duration = Duration::from_secs(5);

/// A volume that was made from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeVolume {
    /// The name of its PersistentVolume in the cluster.
    pub name: String,
    /// The provider's name of it.
    pub volume_id: String,
}

/// A volume that was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotMadeVolume {
    /// This reason.
    #[error("{0}")]
    Because(String),
    /// The snapshotter says that no call of it can succeed.
    #[error("{snapshotter} says that no call of it can succeed: {message}")]
    Fatal {
        /// The snapshotter and its location, for people.
        snapshotter: String,
        /// The snapshotter's message.
        message: String,
    },
    /// The restore ended before.
    #[error("the restore ended before its volume was made")]
    Ended,
}

/// Makes the volumes of one restore, each once, also when the restore is run again. Volumes are made by tasks, until
/// [`NativeVolumes::end`] or the last clone is dropped. Clones share them.
#[derive(Clone, Debug)]
pub struct NativeVolumes {
    inner: Arc<VolumeRun>,
    /// The tasks, which do not hold this value themselves: they end with its last clone.
    tasks: Arc<Mutex<JoinSet<()>>>,
}

#[derive(Debug)]
struct VolumeRun {
    operation: Operation,
    restore_uid: String,
    locations: Vec<SnapshotterLocation>,
    notes: NoteStore<VolumeNote>,
    /// The known volumes, by the name of the PersistentVolume in the backup.
    known: Mutex<BTreeMap<String, KnownVolume>>,
    stop: CancellationToken,
}

/// A volume that was or may have been made.
#[derive(Clone, Debug)]
struct KnownVolume {
    note: VolumeNote,
    uses: VolumeUse,
}

/// Tells whether a PersistentVolume uses a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VolumeUse {
    /// No PersistentVolume does.
    #[default]
    No,
    /// A PersistentVolume does.
    Yes,
    /// It cannot be seen.
    Unknown,
}

impl NativeVolumes {
    /// Begins for a restore that has made no volumes.
    #[must_use]
    pub fn new(operation: &Operation, restore_uid: &str, snapshotters: &[LocatedSnapshotter]) -> Self {
        let inner = VolumeRun {
            operation: operation.clone(),
            restore_uid: restore_uid.to_owned(),
            locations: snapshotters.iter().map(SnapshotterLocation::of).collect(),
            notes: NoteStore::new(&operation.records),
            known: Mutex::default(),
            stop: operation.cancel.child_token(),
        };
        Self { inner: Arc::new(inner), tasks: Arc::default() }
    }

    /// Takes up the notes of an earlier run of this restore, and warns of each note that cannot be read.
    ///
    /// # Errors
    /// [`RecordsError`]: nothing may be made then, for it may be there already.
    pub async fn load(&self) -> Result<(), RecordsError> {
        let (all, unreadable) = self.inner.notes.all().await?;
        for key in unreadable {
            let text = format!(
                "the note {key} of a volume cannot be read: a volume that an earlier run of a restore has made may lie in the storage \
                 unused"
            );
            self.inner.operation.journal.warn(&ResultScope::Velero, text);
        }
        for note in all {
            if note.restore_uid == self.inner.restore_uid {
                lock(&self.inner.known)
                    .insert(note.persistent_volume.clone(), KnownVolume { note, uses: VolumeUse::No });
            } else {
                // Of another restore that had its name.
                self.inner.notes.remove(&note).await?;
            }
        }
        Ok(())
    }

    /// The reason for which no volume can be made in a location; `None` when one can.
    #[must_use]
    pub fn refusal(&self, location: &str) -> Option<String> {
        self.inner.find(location).is_none().then(|| missing(location))
    }

    /// The volume that was made for a PersistentVolume of the backup, by this run or an earlier one.
    #[must_use]
    pub fn made(&self, volume: &str) -> Option<MadeVolume> {
        let known = lock(&self.inner.known);
        let note = &known.get(volume).filter(|known| !known.note.volume_id.is_empty())?.note;
        Some(MadeVolume { name: note.name.clone(), volume_id: note.volume_id.clone() })
    }

    /// Makes the volume of a snapshot, for a PersistentVolume that gets this name in the cluster. A volume that was
    /// made before is given again, with the name that it was made for.
    ///
    /// It goes on when the caller is dropped, so that the outcome is known.
    ///
    /// # Errors
    /// [`NotMadeVolume`].
    pub async fn make(&self, snapshot: &NativeSnapshot, name: &str) -> Result<MadeVolume, NotMadeVolume> {
        let volume = snapshot.spec.persistent_volume_name.clone();
        if let Some(made) = self.made(&volume) {
            return Ok(made);
        }
        if self.inner.stop.is_cancelled() {
            return Err(NotMadeVolume::Ended);
        }
        let note = VolumeNote {
            restore_uid: self.inner.restore_uid.clone(),
            persistent_volume: volume,
            name: name.to_owned(),
            location: snapshot.spec.location.clone(),
            snapshot_id: snapshot.status.provider_snapshot_id.clone(),
            volume_id: String::new(),
            unheard: 0,
        };
        let (sender, made) = oneshot::channel();
        let (inner, spec) = (Arc::clone(&self.inner), snapshot.spec.clone());
        let task = async move {
            // The caller may be gone.
            let _ = sender.send(inner.make(note, spec).await);
        };
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(task);
        }
        made.await.unwrap_or_else(|_| Err(NotMadeVolume::Because("the task that made it died".to_owned())))
    }

    /// The PersistentVolume with a volume that was made behind it, as the snapshotter of the location says.
    ///
    /// # Errors
    /// [`NotMadeVolume`].
    pub async fn set_volume_id(&self, location: &str, object: &Value, volume_id: &str) -> Result<Value, NotMadeVolume> {
        let location = self.inner.find(location).ok_or_else(|| NotMadeVolume::Because(missing(location)))?;
        let set = location.ask(Priority::Normal, &self.inner.stop, |snapshotter| async move {
            snapshotter.set_volume_id(object.clone(), volume_id).await
        });
        match set.await {
            Ok(set) if set["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty()) => Ok(set),
            Ok(_) => Err(NotMadeVolume::Because(format!("{} answered with no PersistentVolume", location.called()))),
            Err(e) => Err(self.inner.failed(location, &e)),
        }
    }

    /// Notes that a PersistentVolume uses the volume that was made for it.
    pub fn uses(&self, volume: &str) {
        if let Some(known) = lock(&self.inner.known).get_mut(volume) {
            known.uses = VolumeUse::Yes;
        }
    }

    /// Notes that it cannot be seen whether a PersistentVolume uses the volume that was made for it.
    pub fn may_use(&self, volume: &str) {
        if let Some(known) = lock(&self.inner.known).get_mut(volume) {
            known.uses = VolumeUse::Unknown;
        }
    }

    /// The PersistentVolumes for which volumes were made: their names in the backup, and in the cluster.
    #[must_use]
    pub fn all_made(&self) -> Vec<(String, String)> {
        let known = lock(&self.inner.known);
        let made = known.values().filter(|known| !known.note.volume_id.is_empty());
        made.map(|known| (known.note.persistent_volume.clone(), known.note.name.clone())).collect()
    }

    /// Ends the tasks that make volumes: waits a while for volumes that are being made, so that their outcome is known,
    /// and begins nothing more. Gives messages for people about volumes that may lie in the storage and nothing uses.
    pub async fn end(&self) -> Vec<String> {
        self.inner.stop.cancel();
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let all = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout(GRACE, all).await;
        tasks.shutdown().await;
        let known = lock(&self.inner.known);
        let unused = known.values().filter(|known| !known.note.volume_id.is_empty()).filter_map(|known| {
            let VolumeNote { persistent_volume, location, snapshot_id, volume_id, .. } = &known.note;
            let made = format!("the volume {volume_id} was made from the snapshot {snapshot_id} in the location {location}");
            match known.uses {
                VolumeUse::Yes => None,
                VolumeUse::No => Some(format!(
                    "{made}, and no PersistentVolume {persistent_volume} is known to use it: delete it in the storage, unless the same \
                     restore is run again and uses it"
                )),
                VolumeUse::Unknown => Some(format!(
                    "{made}, and it cannot be seen whether the PersistentVolume {persistent_volume} uses it: look for that, and delete it \
                     in the storage if none does"
                )),
            }
        });
        let unheard = known.values().filter(|known| known.note.unheard > 0 || known.note.volume_id.is_empty());
        unused.chain(unheard.map(|known| unheard_volume(&known.note))).collect()
    }
}

/// A message that it is not known if there is a volume.
fn unheard_volume(note: &VolumeNote) -> String {
    let VolumeNote { persistent_volume, location, snapshot_id, .. } = note;
    format!(
        "it is not known whether a volume was made from the snapshot {snapshot_id} for the PersistentVolume {persistent_volume}, \
         because nobody heard its name: look for one in the storage of the location {location} that nothing uses, and delete it"
    )
}

impl VolumeRun {
    fn find(&self, location: &str) -> Option<&SnapshotterLocation> {
        self.locations.iter().find(|one| one.name == location)
    }

    fn failed(&self, location: &SnapshotterLocation, error: &ActionError) -> NotMadeVolume {
        match error.is_fatal() {
            true => NotMadeVolume::Fatal { snapshotter: location.called(), message: error.message.clone() },
            false if self.stop.is_cancelled() => NotMadeVolume::Ended,
            false => NotMadeVolume::Because(format!("{}: {error}", location.called())),
        }
    }

    async fn make(&self, mut note: VolumeNote, spec: NativeSnapshotSpec) -> Result<MadeVolume, NotMadeVolume> {
        let because = NotMadeVolume::Because;
        let location = self.find(&note.location).ok_or_else(|| because(missing(&note.location)))?;
        let Some(_place) = location.place(Priority::Normal, &self.stop).await else { return Err(NotMadeVolume::Ended) };
        let volume = note.persistent_volume.clone();
        // The data counts more than a volume too many, and the protocol has no way to look for one whose name nobody heard.
        let before = lock(&self.known).get(&volume).map(|known| known.note.unheard + 1);
        note.unheard = before.unwrap_or_default();
        let noted = self.notes.write(&note).await;
        noted.map_err(|e| because(format!("that a volume may exist cannot be noted, so none is made: {e}")))?;
        self.know(&note);
        let fields =
            [("persistentVolume", volume.as_str()), ("snapshotID", &note.snapshot_id), ("location", &note.location)];
        self.operation.journal.info("Making a volume from a snapshot", &fields);
        let request = VolumeRequest {
            snapshot_id: note.snapshot_id.clone(),
            facts: VolumeFacts { volume_type: spec.volume_type, iops: spec.volume_iops.filter(|iops| *iops != 0) },
            zone: spec.volume_az,
        };
        let made = location.make(&self.stop, &self.operation.fence, LONGEST, |snapshotter| {
            let request = &request;
            async move { snapshotter.create_volume(request).await }
        });
        match made.await {
            Ok(id) => {
                note.volume_id.clone_from(&id);
                self.know(&note);
                if let Err(e) = self.notes.write(&note).await {
                    let text = format!(
                        "the volume {id} is made from the snapshot {}, and that cannot be noted: were the restore cut off, it would \
                         be made once more: {e}",
                        note.snapshot_id
                    );
                    self.operation.journal.warn(&ResultScope::Velero, text);
                }
                self.operation.journal.info("Volume made", &[("persistentVolume", &volume), ("volumeID", &id)]);
                Ok(MadeVolume { name: note.name, volume_id: id })
            }
            Err(NotMade { error, may_exist }) => {
                if !may_exist {
                    self.forget(note).await;
                }
                Err(self.failed(location, &error))
            }
        }
    }

    /// Forgets a volume that was certainly not made, but not those before it.
    async fn forget(&self, mut note: VolumeNote) {
        // A note that stays makes a run again tell of a volume that may exist, and does not.
        let Some(unheard) = note.unheard.checked_sub(1) else {
            lock(&self.known).remove(&note.persistent_volume);
            let _ = self.notes.remove(&note).await;
            return;
        };
        note.unheard = unheard;
        self.know(&note);
        let _ = self.notes.write(&note).await;
    }

    fn know(&self, note: &VolumeNote) {
        let known = KnownVolume { note: note.clone(), uses: VolumeUse::No };
        lock(&self.known).insert(note.persistent_volume.clone(), known);
    }
}
