//! Takes the native snapshots of one backup.

use super::delete::{delete, missing, tell_note_stays};
use super::location::{AT_ONCE, SnapshotterLocation};
use super::note::{NoteStore, SnapshotNote};
use super::zone::{TAG_BACKUP, TAG_VOLUME, tags, zone_of};
use crate::method::lock::lock;
use crate::priority::{Priority, PrioritySlots};
use crate::record::Report;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_action::{ActionError, LocatedSnapshotter, VolumeFacts};
use lifeboat_api::{Backup, Time};
use lifeboat_archive::native_snapshot::{COMPLETED, FAILED, NativeSnapshot, NativeSnapshotSpec, NativeSnapshotStatus};
use lifeboat_object::{GroupResource, ObjectKey, ResultScope, Severity};
use lifeboat_operation::Operation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Volumes of each priority whose PersistentVolumes are in memory at once, over all locations.
const IN_MEMORY: usize = 256;
/// The longest wait for calls that may have an effect when the backup is broken off.
const GRACE: Duration = Duration::from_secs(5);
/// The reason for which a snapshot is missing whose turn did not come.
const ENDED: &str = "the backup ended before it was taken";

/// The attempt at a backup that the snapshots are taken for.
#[derive(Clone, Debug)]
pub struct NativeBackup {
    /// The backup, with its labels and its UID.
    pub backup: Backup,
    /// The number of the attempt.
    pub attempt: u32,
}

/// A snapshotter's message that no call of it can succeed: the backup ends with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeRefusal {
    /// The snapshotter and its location, for people.
    pub snapshotter: String,
    /// The PersistentVolume.
    pub volume: ObjectKey,
    /// The snapshotter's message.
    pub message: String,
}

/// Takes the snapshots of a backup as tasks, until [`NativeSnapshots::end`] or the last clone is dropped. Clones are the same.
#[derive(Clone)]
pub struct NativeSnapshots {
    inner: Arc<SnapshotRun>,
    /// The tasks, which do not hold this value themselves: they end with its last clone.
    tasks: Arc<Mutex<JoinSet<()>>>,
}

struct SnapshotRun {
    operation: Operation,
    of: NativeBackup,
    /// The locations, in the order in which they are asked.
    locations: Vec<SnapshotterLocation>,
    /// Locations that the backup names and that have no snapshotter.
    missing: Vec<String>,
    notes: NoteStore<SnapshotNote>,
    begun: Mutex<BTreeMap<String, watch::Receiver<Option<NativeOutcome>>>>,
    places: PrioritySlots,
    /// Set when nothing more is to be begun.
    stop: CancellationToken,
}

/// The outcome for one volume.
#[derive(Clone)]
struct NativeOutcome {
    report: Report,
    refusal: Option<NativeRefusal>,
}

impl NativeSnapshots {
    /// Begins without snapshots. The locations that the backup names are asked in their order; all of them when it
    /// names none. A named location without a snapshotter is an error in the results.
    #[must_use]
    pub fn new(operation: &Operation, of: NativeBackup, snapshotters: &[LocatedSnapshotter]) -> Self {
        let (mut locations, mut absent) = (Vec::new(), Vec::new());
        let named = &of.backup.spec.volume_snapshot_locations;
        for name in named {
            match snapshotters.iter().find(|located| located.location == *name) {
                Some(located) => locations.push(SnapshotterLocation::of(located)),
                None => absent.push(name.clone()),
            }
        }
        if named.is_empty() {
            locations = snapshotters.iter().map(SnapshotterLocation::of).collect();
        }
        for name in &absent {
            operation
                .journal
                .error(&ResultScope::Velero, format!("no snapshot is taken in the location {name}: {}", missing(name)));
        }
        let inner = SnapshotRun {
            notes: NoteStore::new(&operation.records),
            stop: operation.cancel.child_token(),
            operation: operation.clone(),
            of,
            locations,
            missing: absent,
            begun: Mutex::default(),
            places: PrioritySlots::new(IN_MEMORY),
        };
        Self { inner: Arc::new(inner), tasks: Arc::default() }
    }

    /// Begins to take the snapshot of the volume behind a PersistentVolume, unless that was done before. `object` gives that, or
    /// why it cannot be read.
    pub fn begin<F>(&self, volume: &str, priority: Priority, object: F)
    where
        F: Future<Output = Result<Value, String>> + Send + 'static,
    {
        let mut begun = lock(&self.inner.begun);
        if begun.contains_key(volume) || self.inner.stop.is_cancelled() {
            return;
        }
        let (sender, receiver) = watch::channel(None);
        begun.insert(volume.to_owned(), receiver);
        drop(begun);
        let (inner, volume) = (Arc::clone(&self.inner), volume.to_owned());
        let task = async move {
            let outcome = match inner.take(&volume, priority, object).await {
                Ok(report) => NativeOutcome { report, refusal: None },
                Err(failure) => failure.outcome(),
            };
            // Whoever waits for it may be gone.
            let _ = sender.send(Some(outcome));
        };
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits until it is certain of the volumes among these what becomes of them.
    ///
    /// # Errors
    /// [`NativeRefusal`].
    pub async fn ended<'a>(&self, volumes: impl IntoIterator<Item = &'a str>) -> Result<(), NativeRefusal> {
        for volume in volumes {
            let begun = lock(&self.inner.begun).get(volume).cloned();
            self.ended_one(begun).await?;
        }
        Ok(())
    }

    /// Waits until it is certain of all volumes what becomes of them.
    ///
    /// # Errors
    /// [`NativeRefusal`].
    pub async fn all_ended(&self) -> Result<(), NativeRefusal> {
        let all: Vec<_> = lock(&self.inner.begun).values().cloned().collect();
        for begun in all {
            self.ended_one(Some(begun)).await?;
        }
        Ok(())
    }

    async fn ended_one(&self, begun: Option<watch::Receiver<Option<NativeOutcome>>>) -> Result<(), NativeRefusal> {
        let Some(mut begun) = begun else { return Ok(()) };
        // Its task may have died; then it has no outcome.
        let outcome = begun.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        outcome.ok().flatten().and_then(|outcome| outcome.refusal).map_or(Ok(()), Err)
    }

    /// The outcome for each PersistentVolume of whose volume a snapshot was begun.
    #[must_use]
    pub fn reports(&self) -> BTreeMap<String, Report> {
        let report = |outcome: Option<&NativeOutcome>| match outcome {
            Some(outcome) => outcome.report.clone(),
            None => Report::Failed { why: ENDED.to_owned() },
        };
        let begun = lock(&self.inner.begun);
        begun.iter().map(|(volume, outcome)| (volume.clone(), report(outcome.borrow().as_ref()))).collect()
    }

    /// Deletes the snapshot of a volume that is not in the backup: nobody can restore from it.
    ///
    /// # Errors
    /// The reason, for people. It is noted still.
    pub async fn remove(&self, volume: &str) -> Result<(), String> {
        let snapshot = match self.reports().remove(volume) {
            Some(Report::NativeSnapshot { snapshot, .. }) => snapshot,
            _ => return Ok(()),
        };
        let inner = &self.inner;
        let NativeSnapshot { spec, status } = &*snapshot;
        let Some(location) = inner.locations.iter().find(|one| one.name == spec.location) else { return Ok(()) };
        // It goes also when the backup was cancelled: that is why it goes.
        let goes_on = CancellationToken::new();
        delete(location, &status.provider_snapshot_id, &goes_on, &inner.operation).await?;
        if let Err(e) = inner.notes.remove(&inner.note(volume, location, &spec.provider_volume_id)).await {
            tell_note_stays(&inner.operation, &status.provider_snapshot_id, &e);
        }
        Ok(())
    }

    /// Deletes all snapshots that were taken, because the backup did not come to its end. Snapshots that cannot be
    /// deleted stay noted.
    pub async fn remove_taken(&self) {
        let works: Vec<BoxFuture<'_, ()>> =
            self.reports().into_keys().map(|volume| self.remove_or_log(volume).boxed()).collect();
        futures::stream::iter(works).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    async fn remove_or_log(&self, volume: String) {
        if let Err(why) = self.remove(&volume).await {
            let fields = [("persistentVolume", volume.as_str()), ("why", &why)];
            self.inner.operation.journal.info("A snapshot cannot be deleted yet", &fields);
        }
    }

    /// Ends the tasks that take snapshots: waits a while for snapshots that are being taken, so that their outcome is
    /// known, and begins nothing more. Snapshots that were taken stay until they are removed.
    pub async fn end(&self) {
        self.inner.stop.cancel();
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let all = async { while tasks.join_next().await.is_some() {} };
        // The name of what is taken later is not known; it is told by its tags.
        let _ = timeout(GRACE, all).await;
        tasks.shutdown().await;
    }
}

/// The reason for which a volume has no snapshot.
enum SnapshotFailure {
    /// This reason, for people.
    Because(String),
    /// It is of no location.
    NotOwned(String),
    /// It was tried.
    NotTaken(Box<NativeSnapshot>, String),
    /// No call can succeed.
    Fatal(NativeRefusal),
}

impl SnapshotFailure {
    fn outcome(self) -> NativeOutcome {
        let (report, refusal) = match self {
            Self::Because(why) => (Report::Failed { why }, None),
            Self::NotOwned(why) => (Report::NotOwned { why }, None),
            Self::NotTaken(snapshot, why) => (Report::NativeFailed { snapshot, why }, None),
            Self::Fatal(refusal) => (Report::Failed { why: refusal.message.clone() }, Some(refusal)),
        };
        NativeOutcome { report, refusal }
    }
}

/// The facts about a volume that is to be snapshotted.
struct VolumeToSnapshot<'a> {
    /// The name of its PersistentVolume.
    volume: &'a str,
    /// The provider's name of it.
    volume_id: String,
    zone: String,
    facts: VolumeFacts,
}

impl SnapshotRun {
    async fn take<F>(&self, volume: &str, priority: Priority, object: F) -> Result<Report, SnapshotFailure>
    where
        F: Future<Output = Result<Value, String>>,
    {
        let read = async { (self.places.take(priority).await, object.await) };
        let (_in_memory, object) = tokio::select! {
            (place, object) = read => (place, object.map_err(SnapshotFailure::Because)?),
            () = self.stop.cancelled() => return Err(SnapshotFailure::Because(ENDED.to_owned())),
        };
        let (location, volume_id) = self.owner(volume, priority, &object).await?;
        let zone = zone_of(&object);
        let facts = location.ask(priority, &self.stop, |snapshotter| {
            let (volume_id, zone) = (&volume_id, &zone);
            async move { snapshotter.volume_facts(volume_id, zone).await }
        });
        let facts = facts.await.map_err(|e| {
            let refused = self.refusal(location, volume, &e);
            refused.unwrap_or_else(|| SnapshotFailure::Because(format!("{} cannot tell of it: {e}", location.called())))
        })?;
        let Some(_place) = location.place(priority, &self.stop).await else {
            return Err(SnapshotFailure::Because(ENDED.to_owned()));
        };
        let snapshot = self.record(location, VolumeToSnapshot { volume, volume_id, zone, facts });
        self.create(location, snapshot).await
    }

    /// The first location that knows the volume, and the provider's name of that.
    async fn owner(
        &self,
        volume: &str,
        priority: Priority,
        object: &Value,
    ) -> Result<(&SnapshotterLocation, String), SnapshotFailure> {
        let (mut strangers, mut silent) = (Vec::new(), self.missing.clone());
        for location in &self.locations {
            let asked =
                location.ask(priority, &self.stop, |snapshotter| async move { snapshotter.volume_id(object).await });
            match asked.await {
                Ok(Some(id)) if !id.is_empty() => return Ok((location, id)),
                Ok(_) => strangers.push(location.name.clone()),
                Err(_) if self.stop.is_cancelled() => return Err(SnapshotFailure::Because(ENDED.to_owned())),
                Err(e) => {
                    if let Some(refusal) = self.refusal(location, volume, &e) {
                        return Err(refusal);
                    }
                    let error = format!("{}: {e}", location.called());
                    let message = "its snapshotter could not say whether the volume is one of its location";
                    self.operation.journal.item(Severity::Error, &key(volume), message, Some(&error));
                    silent.push(location.name.clone());
                }
            }
        }
        let list = |names: &[String], one: &str, many: &str| match names {
            [] => None,
            [name] => Some(format!("{one} {name}")),
            names => Some(format!("{many} {}", names.join(", "))),
        };
        let parts = [
            list(&strangers, "it is not of the location", "it is of none of the locations"),
            list(&silent, "the location", "the locations").map(|all| format!("{all} could not be asked")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Err(SnapshotFailure::NotOwned(format!("no applicable volumesnapshotter found: {}", parts.join(", and "))))
    }

    fn refusal(&self, location: &SnapshotterLocation, volume: &str, error: &ActionError) -> Option<SnapshotFailure> {
        let refusal =
            || NativeRefusal { snapshotter: location.called(), volume: key(volume), message: error.message.clone() };
        error.is_fatal().then(|| SnapshotFailure::Fatal(refusal()))
    }

    fn record(&self, location: &SnapshotterLocation, known: VolumeToSnapshot<'_>) -> NativeSnapshot {
        let VolumeToSnapshot { volume, volume_id, zone, facts } = known;
        let metadata = &self.of.backup.metadata;
        NativeSnapshot {
            spec: NativeSnapshotSpec {
                backup_name: metadata.name.clone(),
                backup_uid: metadata.uid.clone(),
                location: location.name.clone(),
                persistent_volume_name: volume.to_owned(),
                provider_volume_id: volume_id,
                volume_type: facts.volume_type,
                volume_az: zone,
                volume_iops: facts.iops.filter(|iops| *iops != 0),
            },
            status: NativeSnapshotStatus::default(),
        }
    }

    fn note(&self, volume: &str, location: &SnapshotterLocation, volume_id: &str) -> SnapshotNote {
        SnapshotNote {
            attempt: self.of.attempt,
            persistent_volume: volume.to_owned(),
            location: location.name.clone(),
            volume_id: volume_id.to_owned(),
            snapshot_id: String::new(),
        }
    }

    /// Takes a snapshot, which is noted before and after. Nothing of it is given up when the backup is broken off: a snapshot whose
    /// name nobody hears stays in the storage.
    async fn create(
        &self,
        location: &SnapshotterLocation,
        mut snapshot: NativeSnapshot,
    ) -> Result<Report, SnapshotFailure> {
        let spec = snapshot.spec.clone();
        let volume = spec.persistent_volume_name.as_str();
        let mut note = self.note(volume, location, &spec.provider_volume_id);
        if let Err(e) = self.notes.write(&note).await {
            let why = format!("that a snapshot may exist cannot be noted, so none is taken: {e}");
            return Err(SnapshotFailure::Because(why));
        }
        let fields =
            [("persistentVolume", volume), ("volumeID", &spec.provider_volume_id), ("location", &location.name)];
        self.operation.journal.info("Snapshotting a persistent volume", &fields);
        let (begun, tags) = (self.now(), tags(&self.of.backup, volume));
        let within = self.of.backup.spec.item_operation_timeout.to_std();
        let made = location.make(&self.stop, &self.operation.fence, within, |snapshotter| {
            let (spec, tags) = (&spec, &tags);
            async move { snapshotter.create_snapshot(&spec.provider_volume_id, &spec.volume_az, tags).await }
        });
        match made.await {
            Ok(id) => {
                note.snapshot_id.clone_from(&id);
                if let Err(e) = self.notes.write(&note).await {
                    let text = format!(
                        "the snapshot {id} of the PersistentVolume {volume} is taken, and that cannot be noted: were the backup \
                         cut off, it would have to be found by its tags: {e}"
                    );
                    self.operation.journal.warn(&ResultScope::Velero, text);
                }
                self.operation.journal.info("Snapshot taken", &[("persistentVolume", volume), ("snapshotID", &id)]);
                snapshot.status = NativeSnapshotStatus { provider_snapshot_id: id, phase: COMPLETED.to_owned() };
                Ok(Report::NativeSnapshot { snapshot: Box::new(snapshot), begun, ended: self.now() })
            }
            Err(not_made) => {
                let mut why = format!("{}: {}", location.called(), not_made.error);
                if not_made.may_exist {
                    // The note stays until the backup ends: who takes it up again tells it again.
                    why.push_str(&format!(
                        ": it is not known whether there is a snapshot: look for one with the tags {TAG_BACKUP}={} and \
                         {TAG_VOLUME}={volume} in the storage, and delete it",
                        spec.backup_name
                    ));
                } else if let Err(e) = self.notes.remove(&note).await {
                    tell_note_stays(&self.operation, "", &e);
                }
                if let Some(refusal) = self.refusal(location, volume, &not_made.error) {
                    return Err(refusal);
                }
                FAILED.clone_into(&mut snapshot.status.phase);
                Err(SnapshotFailure::NotTaken(Box::new(snapshot), why))
            }
        }
    }

    fn now(&self) -> Time {
        Time::new((self.operation.clock)())
    }
}

/// The key of a PersistentVolume.
fn key(volume: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "persistentvolumes"), None, volume)
}
