//! Deletes the snapshots that a backup has in the repositories of movers (velero: pkg/controller/backup_deletion_controller.go).
//!
//! Their IDs are listed in the bucket before anything of the backup is deleted, and each leaves the list when it is deleted in its
//! repository. So none is forgotten when a deletion is cut off, or cannot open a repository: the list outlives the backup.

use crate::end::archived_objects::archived_objects;
use crate::end::look_after::open_options;
use crate::env::Env;
use lifeboat_action::{DeletedSnapshots, SnapshotDeletion, SnapshotsToDelete};
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_BACKUP_UID, LABEL_DATA_UPLOAD_SNAPSHOT_INFO};
use lifeboat_api::{Backup, DataUpload, PodVolumeBackup, Resource, label_value};
use lifeboat_archive::layout::{BackupFile, repository_snapshots_key};
use lifeboat_archive::repository_snapshot::{RepositorySnapshot, SnapshotRecords, repository_snapshots};
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_cluster::{ClusterError, ListRequest};
use lifeboat_object::{ApiResource, GroupResource, ResultScope, chain, counted, first_names};
use lifeboat_store::StoreError;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Lists the snapshots that a backup has in repositories, where they are found when its files are gone.
///
/// # Errors
/// A message for people that they are not listed: then nothing may be deleted.
pub(crate) async fn list_repository_snapshots(backup: &Backup, uid: &str, env: &Env) -> Result<(), String> {
    list(backup, uid, env).await.map_err(|e| {
        format!("error keeping the IDs of the snapshots that the backup has in repositories; nothing was deleted: {e}")
    })
}

async fn list(backup: &Backup, uid: &str, env: &Env) -> Result<(), String> {
    let name = &backup.metadata.name;
    let pod_volumes: Vec<Value> = read(name, BackupFile::PodVolumeBackups, env).await.map_err(|e| e.to_string())?;
    let infos: Vec<BackupVolumeInfo> = read(name, BackupFile::VolumeInfo, env).await.map_err(|e| e.to_string())?;
    let is_moved = backup.spec.snapshot_move_data == Some(true);
    let mut uploads = if is_moved { data_uploads(name, env).await } else { Vec::new() };
    // A backup that has failed has no such records in the bucket. They go with the Backup.
    let pod_volumes = [pod_volumes, in_cluster::<PodVolumeBackup>(backup, uid, env).await?].concat();
    uploads.extend(in_cluster::<DataUpload>(backup, uid, env).await?);
    let notes = if is_moved { notes_of_velero(backup, env).await } else { Vec::new() };
    let data: Vec<Value> = notes.iter().map(|note| note["data"].clone()).collect();
    let records = SnapshotRecords { pod_volumes: &pod_volumes, infos: &infos, uploads: &uploads, notes: &data };
    let snapshots = repository_snapshots(name, records, (env.operation.clock)());
    if snapshots.is_empty() {
        return Ok(());
    }
    env.store.list_repository_snapshots(name, uid, &snapshots).await.map_err(|e| e.to_string())?;
    remove_notes(backup, &notes, env).await;
    Ok(())
}

/// Reads a list beside the archive. A damaged list names nothing, now or later: that is reported, and the backup can be
/// deleted all the same.
async fn read<T: DeserializeOwned>(name: &str, file: BackupFile, env: &Env) -> Result<Vec<T>, StoreError> {
    match env.store.backup_file::<Option<Vec<T>>>(name, file).await {
        Ok(list) => Ok(list.flatten().unwrap_or_default()),
        Err(e @ StoreError::Sidecar { .. }) => {
            let text =
                format!("what the backup has in repositories may stay there, because it cannot be read: {}", chain(&e));
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(Vec::new())
        }
        Err(e) => Err(e),
    }
}

/// The DataUploads in the archive. An archive that cannot be read is an error of the delete item actions, and keeps the files.
async fn data_uploads(name: &str, env: &Env) -> Vec<Value> {
    let Ok(archive) = env.store.open_archive(name, &open_options(env)).await else { return Vec::new() };
    let resource = GroupResource::new(lifeboat_api::GROUP, "datauploads");
    archived_objects(&archive, |found| *found == resource).await.unwrap_or_default()
}

/// The ConfigMaps in which a Velero that was deleting the backup has noted its moved snapshots. Where they cannot be listed, the
/// other records are all there is.
async fn notes_of_velero(backup: &Backup, env: &Env) -> Vec<Value> {
    let namespace = &backup.metadata.namespace;
    let selector =
        format!("{LABEL_BACKUP_NAME}={},{LABEL_DATA_UPLOAD_SNAPSHOT_INFO}=true", label_value(&backup.metadata.name));
    let location = &backup.spec.storage_location;
    let is_own = |note: &Value| {
        let named = note["data"]["backupStorageLocation"].as_str().unwrap_or_default();
        named.is_empty() || location.is_empty() || named == location
    };
    match listed(config_maps(), namespace, selector, env).await {
        Ok(notes) => notes.into_iter().filter(is_own).collect(),
        Err(e) => {
            let text =
                format!("ConfigMaps of Velero with snapshots of the backup in namespace {namespace} are left: {e}");
            env.operation.journal.warn(&ResultScope::Velero, text);
            Vec::new()
        }
    }
}

/// The resources of a backup that ask for the bytes of volumes, as far as the cluster has them.
pub(crate) async fn in_cluster<R: Resource>(backup: &Backup, uid: &str, env: &Env) -> Result<Vec<Value>, String> {
    let resource = ApiResource::new(lifeboat_api::GROUP, R::VERSION, R::PLURAL, R::KIND);
    let namespace = &backup.metadata.namespace;
    if namespace.is_empty() {
        // It was made without a server, and so without movers.
        return Ok(Vec::new());
    }
    match listed(resource, namespace, format!("{LABEL_BACKUP_UID}={uid}"), env).await {
        Ok(found) => Ok(found),
        // Velero's definitions are older, or none.
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        Err(e) if e.is_denied() => {
            let text =
                format!("snapshots of the backup may stay in repositories: its {} are not known: {e}", R::PLURAL);
            env.operation.journal.warn(&ResultScope::Velero, text);
            Ok(Vec::new())
        }
        Err(e) => Err(format!("error listing the {} of the backup: {e}", R::PLURAL)),
    }
}

async fn listed(
    resource: ApiResource,
    namespace: &str,
    selector: String,
    env: &Env,
) -> Result<Vec<Value>, ClusterError> {
    let request = ListRequest::all(resource).in_namespace(namespace.to_owned()).labelled(selector);
    let mut list = env.cluster.list(request);
    let mut found = Vec::new();
    while let Some(bodies) = list.next().await? {
        found.extend(bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok()));
    }
    Ok(found)
}

/// Removes these ConfigMaps; the list has what they say.
async fn remove_notes(backup: &Backup, notes: &[Value], env: &Env) {
    for note in notes {
        let [name, uid] = ["name", "uid"].map(|field| note["metadata"][field].as_str().unwrap_or_default());
        let namespace = Some(backup.metadata.namespace.as_str());
        if let Err(e) = env.cluster.delete_exactly(&config_maps(), namespace, name, uid).await {
            env.operation.journal.warn(&ResultScope::Velero, format!("the ConfigMap {name} is left: {e}"));
        }
    }
}

fn config_maps() -> ApiResource {
    ApiResource::new("", "v1", "configmaps", "ConfigMap")
}

/// Deletes the listed snapshots of a backup, and warns of those that stay because nothing here can delete them, and of repositories that
/// could not be searched for more.
///
/// # Errors
/// Messages for people. Those of repositories that could not be opened stay in the list.
pub(crate) async fn delete_repository_snapshots(name: &str, uid: &str, env: &Env) -> Result<(), Vec<String>> {
    let done = delete_listed_snapshots(name, uid, env).await;
    let left = match env.store.repository_snapshots(name, uid).await {
        Ok(left) => left,
        Err(e) => return Err(vec![unread(&e)]),
    };
    let key = repository_snapshots_key(name, uid);
    let warn = |count: usize, why: &str| {
        if count > 0 {
            let text = format!("the data of {} stays in repositories {why}", counted(count as u64, "volume"));
            env.operation.journal.warn(&ResultScope::Velero, text);
        }
    };
    let (by_tags, named): (Vec<_>, Vec<_>) = left.iter().partition(|one| one.is_by_tags());
    let of_kopia = named.iter().filter(|one| one.is_of_kopia()).count();
    if env.actions.repositories.is_none() {
        warn(of_kopia, &format!("until a server deletes it by the list {key}"));
        if !by_tags.is_empty() {
            let all: Vec<&str> = by_tags.iter().map(|one| &*one.repository).collect();
            let text = format!(
                "snapshots of attempts of the backup that no record names may be in {}; a server deletes them by the list {key}",
                first_names(&all)
            );
            env.operation.journal.warn(&ResultScope::Velero, text);
        }
    }
    let why = format!("of another program, which this version cannot change; the snapshot IDs are kept in {key}");
    warn(named.len() - of_kopia, &why);
    done
}

/// Deletes the snapshots that the list of a backup names, in their repositories. Each leaves the list when it is deleted. Without
/// anything that opens repositories nothing is done.
///
/// # Errors
/// Messages for people, one for each repository with snapshots that are known. What could not be deleted stays in the list; that a
/// repository could not be searched for snapshots that no record names is a warning alone.
pub async fn delete_listed_snapshots(name: &str, uid: &str, env: &Env) -> Result<(), Vec<String>> {
    let Some(repositories) = &env.actions.repositories else { return Ok(()) };
    let listed = env.store.repository_snapshots(name, uid).await.map_err(|e| vec![unread(&e)])?;
    let mut by_repository: BTreeMap<String, Vec<RepositorySnapshot>> = BTreeMap::new();
    for one in listed.into_iter().filter(RepositorySnapshot::is_of_kopia) {
        by_repository.entry(one.volume_namespace.clone()).or_default().push(one);
    }
    let mut errors = Vec::new();
    for (volume_namespace, snapshots) in by_repository {
        let named: Vec<RepositorySnapshot> = snapshots.iter().filter(|one| !one.is_by_tags()).cloned().collect();
        let request = SnapshotsToDelete {
            volume_namespace: volume_namespace.clone(),
            snapshot_ids: named.iter().map(|one| one.snapshot_id.clone()).collect(),
            backup: name.to_owned(),
            backup_uid: uid.to_owned(),
        };
        let deleted = async {
            (env.operation.fence)()?;
            let deleted = tokio::select! {
                biased;
                () = env.operation.cancel.cancelled() => return Err("the deletion was cancelled".to_owned()),
                deleted = repositories.delete_snapshots(&request) => deleted?,
            };
            tell(&request, &named, &deleted, env);
            env.store.unlist_repository_snapshots(name, uid, &snapshots).await.map_err(|e| e.to_string())
        };
        let Err(why) = deleted.await else { continue };
        if named.is_empty() {
            let text = format!(
                "the repository of namespace {volume_namespace} could not be searched for snapshots of backup {name} that no record names: \
                 {why}; a server tries it again once a day, by the list {}",
                repository_snapshots_key(name, uid)
            );
            env.operation.journal.warn(&ResultScope::Velero, text);
        } else {
            errors.push(format!(
                "error deleting {} of backup {name} in the repository of namespace {volume_namespace}: {why}; the IDs are kept in {}; \
                 delete the backup again when that is mended",
                counted(named.len() as u64, "snapshot"),
                repository_snapshots_key(name, uid)
            ));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Logs the ends of deletions in one repository. A snapshot of something else is no longer this backup's affair.
fn tell(request: &SnapshotsToDelete, snapshots: &[RepositorySnapshot], deleted: &DeletedSnapshots, env: &Env) {
    let (name, volume_namespace) = (&request.backup, &request.volume_namespace);
    let DeletedSnapshots { ends, unnamed } = deleted;
    let journal = &env.operation.journal;
    for (one, end) in snapshots.iter().zip(ends) {
        if let SnapshotDeletion::OfAnother(owner) = end {
            let text = format!(
                "the snapshot {} in {}, which backup {name} names, stays there, because it belongs to {owner}",
                one.snapshot_id, one.repository
            );
            journal.warn(&ResultScope::Velero, text);
        }
    }
    let deleted = ends.iter().filter(|end| **end == SnapshotDeletion::Deleted).count() + unnamed;
    if deleted > 0 {
        let fields = [("namespace", &**volume_namespace), ("snapshots", &*deleted.to_string())];
        journal.info("Deleted snapshots in a repository; its maintenance gives their space back", &fields);
    }
}

fn unread(error: &StoreError) -> String {
    format!("error reading which snapshots the backup has in repositories: {}", chain(error))
}
