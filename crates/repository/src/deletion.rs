//! Deletes snapshots of a backup (velero: pkg/repository/provider/unified_repo.go, `BatchForget`): their manifests go, and maintenance
//! gives their space back.

use crate::volume_repository::{RepositoryError, WriterOptions, write_options};
use lifeboat_bucket::{BlobStore, ListOptions};
use lifeboat_kopia::KopiaError;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::manifest::ManifestEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The type of the manifests of snapshots.
const SNAPSHOT: &str = "snapshot";
/// The tag of data movement.
const OPERATION: &str = "velero.io/async-operation-id";
/// The most puts at once of the writer.
const UPLOADS: usize = 2;

/// The backup whose snapshots are deleted.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOwner<'a> {
    /// Its name.
    pub backup: &'a str,
    /// Its UID; empty where its record has none, as those of very old programs: then its name alone says what is its own.
    pub backup_uid: &'a str,
}

/// The end of the deletion of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletedSnapshot {
    /// Its manifest is deleted.
    Deleted,
    /// There is none.
    Missing,
    /// It belongs to something else, which this text names.
    OfAnother(String),
}

/// The outcome of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletedSnapshots {
    /// The ends of the snapshots that were named, in their order.
    pub ends: Vec<DeletedSnapshot>,
    /// The number of others that were deleted, because their tags have the UID of the backup.
    pub unnamed: usize,
}

/// Deletes the snapshots with these IDs in the repository in this place. One whose tags name another backup stays. Those whose tags have the
/// UID of the backup go too: an attempt that was cut off has left them in no record. Where nothing lies, nothing is to be deleted.
///
/// # Errors
/// [`RepositoryError`]: then nothing is deleted.
pub async fn delete_snapshots(
    blobs: Arc<dyn BlobStore>,
    password: Password,
    ids: &[String],
    owner: SnapshotOwner<'_>,
    options: WriterOptions,
) -> Result<DeletedSnapshots, RepositoryError> {
    let write = write_options(&options, UPLOADS);
    let repository = match crate::open(blobs.clone(), password, options.open).await {
        Err(RepositoryError::Kopia(KopiaError::NotARepository { .. })) if is_empty(&*blobs).await? => {
            return Ok(DeletedSnapshots { ends: vec![DeletedSnapshot::Missing; ids.len()], unnamed: 0 });
        }
        opened => opened?,
    };
    let manifests = repository.manifests().await?;
    let ends: Vec<DeletedSnapshot> = ids
        .iter()
        .map(|id| match manifests.get(id) {
            None => DeletedSnapshot::Missing,
            Some(entry) => {
                other_owner(&entry.labels, owner).map_or(DeletedSnapshot::Deleted, DeletedSnapshot::OfAnother)
            }
        })
        .collect();
    let is_deleted = |(_, end): &(&String, &DeletedSnapshot)| **end == DeletedSnapshot::Deleted;
    let named = ids.iter().zip(&ends).filter(is_deleted).map(|(id, _)| id);
    let is_unnamed = |entry: &&&ManifestEntry| is_tagged(&entry.labels, owner.backup_uid) && !ids.contains(&entry.id);
    let snapshots = manifests.of_type(SNAPSHOT);
    let unnamed: Vec<&String> = snapshots.iter().filter(is_unnamed).map(|entry| &entry.id).collect();
    let all: BTreeSet<&String> = named.chain(unnamed.iter().copied()).collect();
    let unnamed = unnamed.len();
    if all.is_empty() {
        return Ok(DeletedSnapshots { ends, unnamed });
    }
    let writer = repository.writer(write).await?;
    for id in all {
        writer.delete_manifest(id)?;
    }
    writer.flush().await?;
    Ok(DeletedSnapshots { ends, unnamed })
}

/// Returns true if nothing lies in the place of a repository.
async fn is_empty(blobs: &dyn BlobStore) -> Result<bool, KopiaError> {
    let mut options = ListOptions { page_size: 2, ..ListOptions::default() };
    loop {
        let page = blobs.list(options.clone()).await?;
        if !page.entries.is_empty() {
            return Ok(false);
        }
        match page.continuation {
            None => return Ok(true),
            next => options.continuation = next,
        }
    }
}

/// Returns true if the tags of a snapshot have this UID of a backup.
fn is_tagged(labels: &BTreeMap<String, String>, uid: &str) -> bool {
    let is_operation = |id: &String| {
        let rest = id.strip_prefix("du-").and_then(|rest| rest.strip_prefix(uid));
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let is_saved_by_files = labels.get("backup-uid").is_some_and(|tag| tag == uid);
    !uid.is_empty() && (is_saved_by_files || labels.get(OPERATION).is_some_and(is_operation))
}

/// The owner of a manifest by its labels, when that is not this backup. Snapshots of data movement name the operation of their backup, and
/// those of Velero 1.10 name nothing.
fn other_owner(labels: &BTreeMap<String, String>, owner: SnapshotOwner<'_>) -> Option<String> {
    let label = |key: &str| labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let kind = label("type").unwrap_or_default();
    if kind != SNAPSHOT {
        return Some(format!("it is no snapshot, but a manifest of type {kind:?}"));
    }
    if let Some(uid) = label("backup-uid").filter(|_| !owner.backup_uid.is_empty()) {
        let name = label("backup").unwrap_or_default();
        return (uid != owner.backup_uid).then(|| format!("the backup {name:?} with the UID {uid}"));
    }
    if let Some(name) = label("backup") {
        return (name != owner.backup).then(|| format!("the backup {name:?}"));
    }
    let operation = label(OPERATION)?;
    let is_own = operation.strip_prefix("du-").is_none_or(|rest| rest.starts_with(owner.backup_uid));
    (!is_own).then(|| format!("the backup of the operation {operation:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_belongs_to_the_backup_that_its_tags_name() {
        let owner = SnapshotOwner { backup: "nightly", backup_uid: "u-1" };
        let of = |pairs: &[(&str, &str)]| {
            let all = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            other_owner(&all.collect(), owner)
        };
        let snapshot = ("type", "snapshot");
        for own in [
            &[snapshot][..],
            &[snapshot, ("backup", "nightly")],
            &[snapshot, ("backup", "renamed"), ("backup-uid", "u-1")],
            &[snapshot, ("velero.io/async-operation-id", "du-u-1.c")],
            &[snapshot, ("velero.io/async-operation-id", "")],
            &[snapshot, ("velero.io/async-operation-id", "of somebody else's form")],
        ] {
            assert_eq!(of(own), None, "{own:?}");
        }
        let tagged = |key: &str, value: &str| is_tagged(&BTreeMap::from([(key.to_owned(), value.to_owned())]), "u-1");
        assert!(tagged("backup-uid", "u-1") && tagged(OPERATION, "du-u-1.c"));
        assert!(!tagged("backup", "nightly") && !tagged(OPERATION, "du-u-12.c") && !tagged("backup-uid", "u-2"));
        // A record without a UID.
        let nameless = SnapshotOwner { backup_uid: "", ..owner };
        let of_name = |name: &str| {
            let pairs = [snapshot, ("backup", name), ("backup-uid", "u-1")];
            other_owner(&pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), nameless)
        };
        assert_eq!((of_name("nightly"), of_name("weekly")), (None, Some("the backup \"weekly\"".to_owned())));
        for (other, expected) in [
            (&[snapshot, ("backup", "weekly")][..], "the backup \"weekly\""),
            (&[snapshot, ("backup", "nightly"), ("backup-uid", "u-2")], "the backup \"nightly\" with the UID u-2"),
            (&[snapshot, ("velero.io/async-operation-id", "du-u-2.c")], "the backup of the operation \"du-u-2.c\""),
            (&[("type", "policy")], "it is no snapshot, but a manifest of type \"policy\""),
        ] {
            assert_eq!(of(other).as_deref(), Some(expected));
        }
    }
}
