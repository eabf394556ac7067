//! Deletes what a backup has outside its files: what its actions keep elsewhere, and its snapshots
//! (velero: pkg/controller/backup_deletion_controller.go, internal/delete/actions/csi).

use crate::end::archived_objects::archived_objects;
use crate::end::look_after::open_options;
use crate::end::repository_snapshots::{delete_repository_snapshots, list_repository_snapshots};
use crate::env::Env;
use crate::request::lane::ScopedAction;
use crate::volumes::snapshots::{remove_before, remove_csi, remove_native};
use crate::volumes::useless::{await_movers, stop_useless_files, stop_useless_uploads};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use lifeboat_action::{ActionError, DeleteItemAction, call, caught};
use lifeboat_api::{Backup, source_cluster};
use lifeboat_archive::index::Row;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::unproven::{self, UnprovenDeletions, UnprovenSnapshot};
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_object::{ApiResource, Catalog, GroupResource, ResultScope, counted, first_names};
use lifeboat_operation::Operation;
use lifeboat_store::{Archive, StoreError};
use lifeboat_volume::csi::{ArchivedSnapshots, SNAPSHOT_API, Unproven, delete_actions, recorded_contents};
use lifeboat_volume::native::{delete_recorded, noted};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Objects whose actions are called at once.
const AT_ONCE: usize = 64;
/// Errors that are told one by one.
const MOST_TOLD: usize = 200;

/// Calls the delete item actions, the engine's own first, for the objects of a backup as its archive holds them. Then
/// removes the snapshots of the backup that an attempt has left in the cluster, and last deletes its native snapshots and those in
/// repositories.
/// `uid` is the UID in the files of the backup, which is not its own when it was made by another cluster.
///
/// Every object has its turn, whatever comes of the others. It can be cut off anywhere and done again, and must be done
/// before the files are deleted: nothing else knows what lies in the storage. For a backup whose archive is gone, the
/// CSI snapshots that its volume information names are deleted.
///
/// # Errors
/// Messages for people about what was not removed and why: the files are to stay then. There are at most some hundreds,
/// and the last one says how many more there are.
pub async fn run_delete_actions(backup: &Backup, uid: &str, env: &Env) -> Result<(), Vec<String>> {
    let mut failed = DeletionFailures::default();
    let is_asked = [stop_useless_uploads(backup, env, |_| false).await, stop_useless_files(backup, env).await];
    match is_asked.iter().all(|asked| *asked) {
        true => await_movers(backup, env).await.into_iter().for_each(|why| failed.add(why)),
        false => failed.add("data movers still work for this backup; the log of the server says why".to_owned()),
    }
    // What data movers have finished until now is among them.
    list_repository_snapshots(backup, uid, env).await.map_err(|e| vec![e])?;
    let unproven = Unproven::default();
    let mut calling = ActionCall { backup, uid, unproven: &unproven, failed: &mut failed, env };
    if let Err(e) = Box::pin(calling.call_actions()).await {
        failed.add(e);
    }
    if let Err(e) = note_unproven(backup, uid, unproven.take(), env).await {
        failed.add(e);
    }
    let is_before_gone = remove_before(&backup.metadata.name, env).await;
    if !remove_csi(uid, env, |_| false).await || !is_before_gone {
        failed.add("snapshots of this backup may be left in the cluster; the log of the server says why".to_owned());
    }
    match env.store.backup_file::<Option<Vec<NativeSnapshot>>>(&backup.metadata.name, BackupFile::VolumeSnapshots).await
    {
        Ok(snapshots) => {
            // What is noted, too, is deleted with its note below: not every provider deletes a snapshot twice.
            let noted = noted_snapshots(&env.operation).await;
            let snapshots = snapshots.flatten().unwrap_or_default().into_iter();
            let snapshots: Vec<_> = snapshots.filter(|one| !noted.contains(&one.status.provider_snapshot_id)).collect();
            let deleted = delete_recorded(&env.operation, &env.actions.volume_snapshotters, &snapshots).await;
            deleted.into_iter().for_each(|e| failed.add(e));
        }
        Err(e) => failed.add(format!("error reading which native snapshots the backup has: {e}")),
    }
    // Of a backup that failed when its files could not be stored.
    match remove_native(env, |note| !note.snapshot_id.is_empty()).await {
        Some(left) => left.iter().for_each(|one| failed.add(one.tell(&backup.metadata.name))),
        None => {
            failed.add("it is not known whether native snapshots of this backup are left in the storage".to_owned());
        }
    }
    if let Err(errors) = Box::pin(delete_repository_snapshots(&backup.metadata.name, uid, env)).await {
        errors.into_iter().for_each(|e| failed.add(e));
    }
    failed.into_result()
}

/// Leaves in the bucket what perhaps stays in the storage, and says it: nothing else knows of it when the files of the backup are deleted.
async fn note_unproven(backup: &Backup, uid: &str, all: Vec<UnprovenSnapshot>, env: &Env) -> Result<(), String> {
    if all.is_empty() {
        return Ok(());
    }
    let name = &backup.metadata.name;
    let list = UnprovenDeletions {
        format: unproven::FORMAT.to_owned(),
        backup: name.clone(),
        backup_uid: uid.to_owned(),
        cluster_uid: source_cluster(backup).map(str::to_owned),
        deleted: (env.operation.clock)().to_string(),
        snapshots: all,
    };
    let key = env.store.put_unproven(name, uid, &list).await.map_err(|e| {
        format!("error noting which snapshots perhaps stay in the storage, so that the backup is not deleted: {e}")
    })?;
    let handles: Vec<&str> = list.snapshots.iter().map(|one| one.handle.as_str()).collect();
    let text = format!(
        "{} of backup {name} may stay in the storage when the backup is deleted ({}): {key} in the bucket lists them with the reasons",
        counted(handles.len() as u64, "snapshot"),
        first_names(&handles)
    );
    env.operation.journal.warn(&ResultScope::Velero, text);
    Ok(())
}

/// The native snapshots that are noted among the records of the backup; none where these cannot be read, which is told later.
async fn noted_snapshots(operation: &Operation) -> BTreeSet<String> {
    let noted = noted(operation, |note| !note.snapshot_id.is_empty(), "").await;
    noted.map(|found| found.left.into_iter().map(|one| one.note.snapshot_id).collect()).unwrap_or_default()
}

/// A call of all actions.
struct ActionCall<'a> {
    backup: &'a Backup,
    /// The UID of the backup in its files.
    uid: &'a str,
    unproven: &'a Unproven,
    failed: &'a mut DeletionFailures,
    env: &'a Env,
}

impl ActionCall<'_> {
    async fn call_actions(&mut self) -> Result<(), String> {
        let Self { backup, uid, unproven, env, .. } = *self;
        let name = &backup.metadata.name;
        let unreadable = |e: StoreError| format!("error reading the objects of the backup: {e}");
        let archive = match env.store.open_archive(name, &open_options(env)).await {
            Ok(archive) => archive,
            Err(StoreError::NoBackup { .. }) => {
                env.operation
                    .journal
                    .info("The backup has no archive: no delete item actions are called for its objects", &[]);
                return Box::pin(self.delete_recorded_csi()).await;
            }
            Err(e) => return Err(unreadable(e)),
        };
        let served =
            env.cluster.discover().await.map_err(|e| format!("error discovering what the cluster serves: {e}"))?;
        let own = delete_actions(&env.cluster, &served, snapshots(&archive, uid).await.map_err(unreadable)?, unproven);
        let types = with_archived_types(&served, &archive);
        let mut actions = Vec::new();
        for action in own.iter().chain(&env.actions.delete_item) {
            let named = (action.name(), action.applies_to());
            actions.push(ScopedAction::new(action, named, &types).map_err(|e| e.to_string())?);
        }
        let is_covered =
            |row: &Row| row.preferred && actions.iter().any(|action| action.covers(&row.resource, row.namespace()));
        let rows: Vec<usize> = archive.rows().enumerate().filter(|(_, row)| is_covered(row)).map(|(n, _)| n).collect();
        let mut reading = JoinSet::new();
        let mut contents = archive.read(rows, &mut reading);
        let mut calls: FuturesUnordered<BoxFuture<'_, Vec<String>>> = FuturesUnordered::new();
        while let Some(item) = contents.next().await.map_err(unreadable)? {
            let Some(row) = archive.row(item.row) else { continue };
            let of_item = actions.iter().filter(|action| action.applies(&row.resource, &item.head));
            let of_item: Vec<&dyn DeleteItemAction> = of_item.map(|action| &*action.action).collect();
            if of_item.is_empty() {
                continue;
            }
            let (key, object) = (row.key().to_string(), serde_json::from_slice(&item.body).map_err(|e| e.to_string()));
            calls.push(DeleteActionCalls { actions: of_item, key, object, backup, env }.make().boxed());
            if calls.len() >= AT_ONCE {
                calls.next().await.into_iter().flatten().for_each(|e| self.failed.add(e));
            }
        }
        while let Some(errors) = calls.next().await {
            errors.into_iter().for_each(|e| self.failed.add(e));
        }
        Ok(())
    }

    /// Deletes the CSI snapshots of a backup that has no archive, by what its volume information says of them.
    async fn delete_recorded_csi(&mut self) -> Result<(), String> {
        let Self { backup, uid, unproven, env, .. } = *self;
        let volumes =
            env.store.backup_file::<Option<Vec<BackupVolumeInfo>>>(&backup.metadata.name, BackupFile::VolumeInfo);
        let volumes = volumes.await.map_err(|e| format!("error reading which snapshots the backup has: {e}"))?;
        let contents = recorded_contents(&volumes.flatten().unwrap_or_default(), backup, uid);
        if contents.is_empty() {
            return Ok(());
        }
        let served =
            env.cluster.discover().await.map_err(|e| format!("error discovering what the cluster serves: {e}"))?;
        let mut archived = ArchivedSnapshots::of(uid);
        contents.iter().for_each(|(_, content)| archived.take(content));
        let own = delete_actions(&env.cluster, &served, archived, unproven);
        let calls = contents.into_iter().map(|(claim, content)| {
            let actions = own.iter().map(|action| &**action).collect();
            let key = format!("the snapshot {} of the claim {claim}", handle(&content));
            DeleteActionCalls { actions, key, object: Ok(content), backup, env }.make().boxed()
        });
        let calls: Vec<BoxFuture<'_, Vec<String>>> = calls.collect();
        let mut calls = futures::stream::iter(calls).buffer_unordered(AT_ONCE);
        while let Some(errors) = calls.next().await {
            errors.into_iter().for_each(|e| self.failed.add(e));
        }
        Ok(())
    }
}

/// The driver's name of the snapshot behind a content.
fn handle(content: &Value) -> &str {
    content["status"]["snapshotHandle"].as_str().unwrap_or_default()
}

/// Reads the snapshots of a backup out of its archive.
async fn snapshots(archive: &Archive, uid: &str) -> Result<ArchivedSnapshots, StoreError> {
    let says = |resource: &GroupResource| {
        let is_one = |name: &str| *resource == GroupResource::new(SNAPSHOT_API, name);
        is_one("volumesnapshots") || is_one("volumesnapshotcontents")
    };
    let mut snapshots = ArchivedSnapshots::of(uid);
    archived_objects(archive, says).await?.iter().for_each(|object| snapshots.take(object));
    Ok(snapshots)
}

/// The types that the cluster serves, and those of the archive that it does not serve: an action may be for these too.
fn with_archived_types(served: &Catalog, archive: &Archive) -> Catalog {
    let archived: BTreeSet<_> =
        archive.rows().filter(|row| row.preferred).map(|row| (&row.resource, &row.version)).collect();
    let unserved = archived.into_iter().filter(|(resource, _)| served.find(resource).is_none());
    // Its kind is not in the rows; its plural name is what it is found by.
    let unserved = unserved
        .map(|(resource, version)| Arc::new(ApiResource::new(&resource.group, &**version, &resource.resource, "")));
    Catalog::new(served.all().cloned().chain(unserved).collect(), Vec::new())
}

/// The calls of the actions of one object.
struct DeleteActionCalls<'a> {
    actions: Vec<&'a dyn DeleteItemAction>,
    /// The name of the object in errors.
    key: String,
    /// The object, or why it cannot be read.
    object: Result<Value, String>,
    backup: &'a Backup,
    env: &'a Env,
}

impl DeleteActionCalls<'_> {
    /// Makes them one after the other; one that fails does not keep the next from its turn.
    async fn make(self) -> Vec<String> {
        let Self { actions, key, object, backup, env } = self;
        let object = match object {
            Ok(object) => object,
            Err(e) => return vec![format!("{key}: it cannot be read: {e}")],
        };
        let mut errors = Vec::new();
        for action in actions {
            let called = call(&env.operation.cancel, || async {
                (env.operation.fence)().map_err(ActionError::item)?;
                caught(action.execute(&object, backup)).await
            });
            if let Err(e) = called.await {
                errors.push(format!("{key}: error of the action {}: {e}", action.name()));
            }
        }
        errors
    }
}

/// Messages about what was not removed, up to a bound.
#[derive(Default)]
struct DeletionFailures {
    told: Vec<String>,
    more: usize,
}

impl DeletionFailures {
    fn add(&mut self, error: String) {
        if self.told.len() < MOST_TOLD { self.told.push(error) } else { self.more += 1 }
    }

    fn into_result(mut self) -> Result<(), Vec<String>> {
        if self.more > 0 {
            self.told.push(format!("and {} more", self.more));
        }
        if self.told.is_empty() { Ok(()) } else { Err(self.told) }
    }
}
