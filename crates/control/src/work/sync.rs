//! Takes over what a bucket holds (velero: pkg/controller/backup_sync_controller.go).

use super::backup::is_record_of;
use super::bucket_id::{empty_though, may_be_unmounted};
use super::kept_snapshots::delete_kept_snapshots;
use super::{Context, Effect, StepError, StepResult, sweep};
use crate::world::{Leftover, MirroredKind, World};
use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::NamespacedName;
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, ManagedFields, ObjectMeta, PodVolumeBackup, Resource, Schedule, Time,
    label_value, well_known,
};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_client::ObjectIdentity;
use lifeboat_lifecycle::passed_over::{NotedNames as PassedNames, PassedOver};
use lifeboat_lifecycle::phase::hold::agree_alone;
use lifeboat_lifecycle::phase::taken_over::{note_source_cluster, note_taken_over, was_taken_over};
use lifeboat_store::{Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Backups taken over at once.
const AT_ONCE: usize = 8;

/// Names of all Backups of a namespace, and of those that are gone while a task is still at work on them. All syncs that begin at one time
/// share them: there may be many of both.
pub(crate) type BackupNames = Arc<BTreeSet<String>>;

/// The names beside this location; `busy` are backups that tasks work on. Nothing of another namespace counts.
pub(crate) fn names<'a>(
    world: &World,
    location: &BackupStorageLocation,
    busy: impl Iterator<Item = &'a NamespacedName>,
) -> BackupNames {
    let busy = busy.filter(|backup| backup.namespace == location.metadata.namespace).map(|backup| backup.name.clone());
    Arc::new(world.backups.beside(location).map(|backup| backup.metadata.name.clone()).chain(busy).collect())
}

/// The facts from the cluster that a sync needs.
#[derive(Debug)]
pub(crate) struct SyncFacts {
    names: BackupNames,
    /// Backups of the location whose files should be there, by name.
    stored: BTreeMap<String, ObjectIdentity>,
    /// Other backups of the location: those that run, or have failed, may have a folder too.
    unstored: BTreeSet<String>,
    /// UIDs of the Schedules.
    schedules: BTreeMap<String, String>,
}

impl SyncFacts {
    /// With the names beside the location.
    pub(crate) fn of(world: &World, location: &BackupStorageLocation, names: BackupNames) -> Self {
        let label = label_value(&location.metadata.name);
        let stored = |b: &&Backup| is_stored_in(b, &label);
        let unstored = |b: &&Backup| is_in(b, &label) && !is_stored_in(b, &label);
        let schedules = world.schedules.beside(location);
        Self {
            names,
            stored: world
                .backups
                .beside(location)
                .filter(stored)
                .map(|b| (b.metadata.name.clone(), ObjectIdentity::of(&b.metadata)))
                .collect(),
            unstored: world.backups.beside(location).filter(unstored).map(|b| b.metadata.name.clone()).collect(),
            schedules: schedules.map(|s| (s.metadata.name.clone(), s.metadata.uid.clone())).collect(),
        }
    }

    /// The folders among these whose names Backups of other locations have, as far as the world tells.
    fn of_other_locations(&self, folders: &BTreeSet<String>) -> BTreeSet<String> {
        let is_here = |name: &String| self.stored.contains_key(name) || self.unstored.contains(name);
        folders.intersection(&self.names).filter(|name| !is_here(name)).cloned().collect()
    }

    /// Returns true if two syncs share the names that they know.
    #[cfg(test)]
    pub(crate) fn shares_names_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.names, &other.names)
    }
}

/// Returns true if the files of a backup should be in the location of this label.
pub(super) fn is_stored_in(backup: &Backup, label: &str) -> bool {
    let ended = match backup.status.phase {
        Some(phase) if phase.has_contents() => true,
        // One that failed here may never have had a record.
        Some(BackupPhase::Failed) => was_taken_over(backup),
        _ => false,
    };
    ended && is_in(backup, label)
}

/// Returns true if a backup is one of the location of this label.
fn is_in(backup: &Backup, label: &str) -> bool {
    backup.metadata.labels.get(well_known::LABEL_STORAGE_LOCATION).is_some_and(|of| of == label)
}

/// Syncs a location, and notes that.
pub(crate) async fn sync(context: &Context, location: BackupStorageLocation, known: SyncFacts) -> StepResult {
    let mut effects = sync_backups(context, &location, &known).await?;
    let mut after = location.clone();
    after.status.last_synced_time = Some(Time::new(context.env.now()));
    let passed_over = context.notes.locations.passed_over(&location);
    passed_over.note(&mut after);
    let stored = context.client.change(&location, &after).await?;
    effects.push(Effect::stored(stored));
    tell_of_passed_over(context, &location, &passed_over).await;
    Ok(effects)
}

/// Tells by an event what a sync has not taken over, when that was not noted before.
pub(super) async fn tell_of_passed_over(context: &Context, before: &BackupStorageLocation, found: &PassedOver) {
    if PassedOver::of(before) != *found
        && let Some(text) = found.text()
    {
        tracing::warn!(location = before.metadata.name, "{text}");
        context.warn_of(before, "NotTakenOver", &text).await;
    }
}

/// Makes a Backup of each backup in the bucket that the cluster does not know, and removes Backups whose files are gone.
/// Reads the files of new ones only.
pub(super) async fn sync_backups(context: &Context, location: &BackupStorageLocation, known: &SyncFacts) -> StepResult {
    let store = context.visited_store(location).await.map_err(StepError::Because)?;
    let failed = |e: StoreError| StepError::Because(e.to_string());
    let folders: BTreeSet<String> = store.folders().await.map_err(failed)?.into_iter().collect();
    if folders.is_empty() && !known.stored.is_empty() && context.env.providers.is_directory(location) {
        let bucket = context.visited_bucket(location).await.map_err(StepError::Because)?;
        if may_be_unmounted(location, &*bucket).await.map_err(StepError::Because)? {
            let names: Vec<String> = known.stored.keys().cloned().collect();
            return Err(StepError::Because(empty_though(&bucket.describe(), &names)));
        }
    }
    let mut effects = Vec::new();
    let store = &store;
    let names: Vec<&String> = folders.difference(&known.names).collect();
    let cluster = if names.is_empty() { String::new() } else { context.cluster_uid().await? };
    let found = Mutex::default();
    let finder = BackupAdopter { context, store, location, known, cluster: &cluster, found: &found };
    let new: Vec<_> = names.into_iter().map(|name| finder.adopt(name).boxed()).collect();
    let taken: Vec<_> = futures::stream::iter(new).buffer_unordered(AT_ONCE).collect().await;
    effects.extend(taken.into_iter().flatten());
    finder.look_at(&known.of_other_locations(&folders)).await;
    let NotTaken { waiting, damaged } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let same_name = PassedNames::of(context.notes.locations.others_of_known_names(location));
    let passed_over = PassedOver { waiting: PassedNames::of(waiting), same_name, damaged: PassedNames::of(damaged) };
    context.notes.locations.note_passed_over(location, passed_over);
    for (name, gone) in known.stored.iter().filter(|(name, _)| !folders.contains(*name)) {
        // A list may lag behind; the record itself decides.
        match store.backup(name).await {
            Err(StoreError::NoBackup { .. }) => match context.client.delete_exactly::<Backup>(gone).await {
                Ok(_) => {
                    tracing::info!(backup = name, "removed a Backup whose files are gone");
                    effects.push(Effect::Gone(MirroredKind::Backup, gone.clone()));
                }
                Err(e) => {
                    tracing::warn!(backup = name, error = %e, "a Backup whose files are gone could not be removed");
                }
            },
            Err(e) => tracing::warn!(backup = name, error = %e, "it is not known whether the files are still there"),
            Ok(_) => {}
        }
    }
    sweep::sweep_restores(context, store, location).await;
    delete_kept_snapshots(context, store, location).await;
    Ok(effects)
}

/// Takes backups over that were found in the bucket of a location.
struct BackupAdopter<'a> {
    context: &'a Context,
    store: &'a Store,
    location: &'a BackupStorageLocation,
    known: &'a SyncFacts,
    /// The UID of this cluster; empty when it cannot be read.
    cluster: &'a str,
    found: &'a Mutex<NotTaken>,
}

/// The names of backups that are not taken over.
#[derive(Default)]
struct NotTaken {
    /// Backups that wait for operations of the cluster that has made them, for longer than these may take.
    waiting: Vec<String>,
    /// Backups whose record is damaged.
    damaged: Vec<String>,
}

/// Number of backups with known names that one sync looks at; the next sync continues.
const LOOKED_AT: usize = 50;

impl BackupAdopter<'_> {
    /// Makes a Backup of one that was found; one that cannot be read or taken over is left out.
    async fn adopt(&self, name: &str) -> Option<Effect> {
        let Self { context, store, location, known, .. } = *self;
        let found = match store.backup(name).await {
            Ok(found) => found,
            // Being written, or given up.
            Err(StoreError::NoBackup { .. }) => {
                let left = sweep::is_left(context, store, location, name).await;
                return left
                    .then(|| Effect::Left(Box::new(Leftover { location: location.clone(), name: name.to_owned() })));
            }
            Err(e) => {
                tracing::warn!(backup = name, error = %e, "a backup in the bucket cannot be read and is left out");
                if e.is_damage() {
                    self.note(|found| found.damaged.push(name.to_owned()));
                }
                return None;
            }
        };
        let now = context.env.now();
        let is_overdue = is_overdue(&found, now) && !self.moves_on(name, now).await;
        let Some(mut backup) = as_taken_over(found, location, &known.schedules, now) else {
            if is_overdue {
                self.note(|found| found.waiting.push(name.to_owned()));
            }
            return None;
        };
        let source = self.source(name).await?;
        note_taken_over(&mut backup.metadata, source.as_deref() == Some(self.cluster));
        note_source_cluster(&mut backup.metadata, source.as_deref());
        match context.client.create(name, &backup).await {
            Ok(stored) => {
                let stored = stored?;
                tracing::info!(backup = name, location = location.metadata.name, "took over a backup");
                if let Err(why) = take_over_volumes(context, store, &stored).await {
                    tracing::warn!(backup = name, why, "not all PodVolumeBackups of a backup could be taken over");
                }
                Some(Effect::stored(stored))
            }
            Err(e) => {
                tracing::warn!(backup = name, error = %e, "a backup could not be taken over");
                None
            }
        }
    }

    /// Returns true if the bucket shows that operations of a backup go on. One whose operations cannot be read does not count.
    async fn moves_on(&self, name: &str, now: Timestamp) -> bool {
        let operations = self.store.backup_file::<Vec<BackupOperation>>(name, BackupFile::ItemOperations).await;
        operations.ok().flatten().is_some_and(|operations| have_moved_lately(&operations, now))
    }

    fn note(&self, note: impl FnOnce(&mut NotTaken)) {
        note(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Finds backups in the bucket that are not those of the Backups with their names, which lie in another location.
    /// Looks at a part of the unknown ones in each sync.
    async fn look_at(&self, names: &BTreeSet<String>) {
        let Self { context, store, location, .. } = *self;
        let label = label_value(&location.metadata.name);
        for name in context.notes.locations.unknown_names(location, names, LOOKED_AT) {
            let looked = async {
                let backup = context.client.get::<Backup>(&name).await.ok()??;
                let of = backup.metadata.labels.get(well_known::LABEL_STORAGE_LOCATION);
                // One that is being written, or has failed, is of this location.
                let is_elsewhere = of.is_some_and(|of| *of != label) && backup.status.start_timestamp.is_some();
                let record = if is_elsewhere { store.backup(&name).await.ok()? } else { return None };
                Some(!is_record_of(&record, &backup))
            };
            if let Some(is_another) = looked.await {
                context.notes.locations.note_name(location, name, is_another);
            }
        }
    }

    /// The UID of the cluster that has made a backup, as its claim says; `Some(None)` where nothing says it, as for Velero's, which
    /// have no claim. `None` when the bucket does not tell now: the backup is taken over by the next sync.
    async fn source(&self, name: &str) -> Option<Option<String>> {
        match self.store.cluster_of(name).await {
            Ok(cluster) => Some(cluster),
            Err(e) if e.is_damage() => Some(None),
            Err(e) => {
                tracing::warn!(backup = name, error = %e, "it is not known which cluster has made a backup, which is left out");
                None
            }
        }
    }
}

/// The time that operations have for which a backup names none.
const OPERATIONS: SignedDuration = SignedDuration::from_hours(4);
/// The time that a backup has for all else, such as for being written, and that clocks may differ by.
const ALL_ELSE: SignedDuration = SignedDuration::from_hours(1);

/// Returns true if a backup waits for its operations, or is finalized, for longer than a cluster that lives would take for it. One that does not
/// say when it began counts.
fn is_overdue(found: &Backup, now: Timestamp) -> bool {
    let waits = found.status.phase.is_some_and(|phase| phase.waits_for_operations() || phase.is_finalizing());
    let timeout = SignedDuration::from_nanos(found.spec.item_operation_timeout.nanoseconds());
    let most = if timeout.is_zero() { OPERATIONS } else { timeout }.saturating_add(ALL_ELSE);
    let began = found.status.start_timestamp.map(Time::timestamp);
    waits && began.is_none_or(|began| now.duration_since(began) >= most)
}

/// The time within which the cluster of a backup shows in the bucket that its operations go on: it does so every hour.
const SHOWN_WITHIN: SignedDuration = SignedDuration::from_hours(2);

/// Returns true if an operation has not ended, and did move lately.
fn have_moved_lately(operations: &[BackupOperation], now: Timestamp) -> bool {
    let going = operations.iter().map(|operation| &operation.status).filter(|status| !status.has_ended());
    let mut updated = going.filter_map(|status| status.updated).map(Time::timestamp);
    // A clock that is wrong does not vouch for a cluster that is gone.
    updated.any(|updated| {
        let ago = now.duration_since(updated);
        ago < SHOWN_WITHIN && ago > -ALL_ELSE
    })
}

/// Makes the PodVolumeBackups of a Backup that was taken over.
async fn take_over_volumes(context: &Context, store: &Store, backup: &Backup) -> Result<(), String> {
    let name = &backup.metadata.name;
    let found: Option<Option<Vec<PodVolumeBackup>>> =
        store.backup_file(name, BackupFile::PodVolumeBackups).await.map_err(|e| e.to_string())?;
    let mut refused = Ok(());
    for volume in found.flatten().unwrap_or_default() {
        let volume = of_backup(volume, backup);
        // One that is there is of an earlier sync.
        if let Err(e) = context.client.create(&volume.metadata.name, &volume).await {
            refused = Err(e.to_string());
        }
    }
    refused
}

/// A PodVolumeBackup as one of this Backup.
fn of_backup(mut volume: PodVolumeBackup, backup: &Backup) -> PodVolumeBackup {
    volume.spec.backup_storage_location.clone_from(&backup.spec.storage_location);
    let (meta, uid) = (&mut volume.metadata, &backup.metadata.uid);
    meta.namespace.clone_from(&backup.metadata.namespace);
    meta.labels.insert(well_known::LABEL_BACKUP_UID.to_owned(), uid.clone());
    for owner in meta.owner_references.iter_mut().filter(|o| o.kind == Backup::KIND && o.name == backup.metadata.name) {
        owner.uid.clone_from(uid);
    }
    forget_cluster(meta);
    volume
}

/// Takes off what the cluster gave in which an object was made.
fn forget_cluster(meta: &mut ObjectMeta) {
    meta.resource_version.clear();
    meta.uid.clear();
    meta.generation = None;
    meta.creation_timestamp = None;
    meta.deletion_timestamp = None;
    meta.finalizers.clear();
    meta.managed_fields = ManagedFields::default();
    meta.other.clear();
}

/// The Backup to make of one that was found; `None` when it must not be taken over, or not yet.
pub(crate) fn as_taken_over(
    mut found: Backup,
    location: &BackupStorageLocation,
    schedules: &BTreeMap<String, String>,
    now: Timestamp,
) -> Option<Backup> {
    use BackupPhase as P;
    match found.status.phase? {
        P::Completed | P::PartiallyFailed | P::Failed => {}
        phase if phase.waits_for_operations() || phase.is_finalizing() => {
            if found.status.expiration.is_none_or(|end| end.timestamp() > now) {
                return None;
            }
            // It has expired unfinished; in this phase it can be collected.
            found.status.phase = Some(P::PartiallyFailed);
        }
        _ => return None,
    }
    found.spec.hooks = Default::default();
    let name = &location.metadata.name;
    found.spec.storage_location.clone_from(name);
    let meta = &mut found.metadata;
    meta.namespace.clone_from(&location.metadata.namespace);
    meta.labels.insert(well_known::LABEL_STORAGE_LOCATION.to_owned(), label_value(name));
    meta.owner_references
        .retain(|owner| owner.kind != Schedule::KIND || schedules.get(&owner.name) == Some(&owner.uid));
    agree_alone(&mut meta.annotations);
    forget_cluster(meta);
    Some(found)
}

#[cfg(test)]
mod tests;
