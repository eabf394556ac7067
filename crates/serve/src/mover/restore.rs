//! The restore of a volume (velero: pkg/uploader/kopia).

use super::check::check_volume;
use super::events::WARNING;
use super::failure::{Failure, with_message};
use super::mark::mark;
use super::repository::VolumeRepository;
use super::resource::RestoreResource;
use super::role::{Done, Work, files_done, perform};
use super::source::{RESTORE_SETTINGS, flag, number, without_effect};
use super::transfer::{MoverEnv, Transfer};
use lifeboat_api::UnsupportedPart;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_kopia::snapshot::Snapshot;
use lifeboat_mover::protocol::{AccessPoint, RestoreResult, VolumeMode};
use lifeboat_mover::restore::{
    EntryFailure, Existing, RestoreOptions, RestoreReport, SavedDevice, restore as restore_entry, saved_device,
};
use lifeboat_mover::tree::{Source, SourceEntry};
use lifeboat_mover::{Progress, SUPERBLOCKS, find_file_system};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The command that has a device all the same.
const VOLUME_RESTORE: &str = "lifeboat volume restore writes it into a file";
/// The entries whose failures are named.
const NAMED: usize = 10;

/// Performs the restore that a resource asks for. Gives true where it has succeeded.
///
/// # Errors
/// A termination message that cannot be written.
pub async fn restore<R: RestoreResource>(env: &MoverEnv, transfer: &Transfer) -> std::io::Result<bool> {
    perform(env, transfer, async |work: Work<'_, R>| Box::pin(fill(work)).await).await
}

async fn fill<R: RestoreResource>(work: Work<'_, R>) -> Result<Done, Failure> {
    let source = work.resource.source();
    let volume = &work.transfer.volume;
    if source.is_restic {
        return Err(Failure::Failed(UnsupportedPart::Restic.refusal_of_restore()));
    }
    if source.snapshot.is_empty() {
        return Err(Failure::Failed(
            "the resource names no snapshot: its volume was empty, or its backup failed".to_owned(),
        ));
    }
    check_volume(volume)?;
    let threads = number(&source.settings, "ParallelFilesDownload").unwrap_or(work.env.threads);
    let found = VolumeRepository::find(work.env, &source.location, &source.namespace).await?;
    let repository = Arc::new(found.open(threads).await?);
    // Of a device holes are zeros all the same.
    let sparse = volume.volume_mode == VolumeMode::Block || flag(&source.settings, "WriteSparseFiles");
    let restore = SnapshotRestore {
        repository: &repository,
        snapshot: &source.snapshot,
        volume,
        sparse,
        progress: work.progress,
    };
    let RestoredVolume { mut differences, total_bytes, files, fs_type } = restore.run().await?;
    differences.extend(without_effect(&source.settings, &RESTORE_SETTINGS));
    for text in &differences {
        tracing::warn!("{text}");
        work.events.tell(WARNING, text).await;
    }
    if let Some(uid) = work.resource.marked_restore() {
        mark(Path::new(&volume.by_path), &uid)?;
    }
    let fs_type = fs_type.unwrap_or_default();
    let result =
        |message| RestoreResult { target: volume.clone(), total_bytes, files, message, fs_type: fs_type.to_owned() };
    Ok(Done { result: with_message(&differences.join("; "), result)?, total_bytes, files })
}

/// A snapshot of a repository that is written into a volume.
pub(crate) struct SnapshotRestore<'a> {
    pub(crate) repository: &'a Arc<Repository>,
    /// The ID of the snapshot's manifest.
    pub(crate) snapshot: &'a str,
    pub(crate) volume: &'a AccessPoint,
    /// Set when zeros become holes.
    pub(crate) sparse: bool,
    pub(crate) progress: &'a Arc<Progress>,
}

/// A volume that has what the snapshot has.
pub(crate) struct RestoredVolume {
    /// Differences from the volume that was saved, for people.
    pub(crate) differences: Vec<String>,
    /// Bytes in all.
    pub(crate) total_bytes: i64,
    /// Files in all.
    pub(crate) files: i64,
    /// The type of the file system on a device, where one is known.
    pub(crate) fs_type: Option<&'static str>,
}

impl SnapshotRestore<'_> {
    /// Writes it.
    pub(crate) async fn run(self) -> Result<RestoredVolume, Failure> {
        let Self { repository, snapshot, volume, sparse, progress } = self;
        let SnapshotRoot { root, tags } = root_of(repository, snapshot).await?;
        let attempt = format!("restore snapshot {snapshot} to {}", volume.by_path);
        let device = saved_device(&Source::Kopia(Arc::clone(repository)), &SourceEntry::from(&root), &tags).await;
        let device = device.map_err(|e| Failure::from_storage(&attempt, &e))?;
        let length = length_of(device.as_ref(), volume).map_err(|why| Failure::new(&attempt, why))?;
        let options = RestoreOptions {
            length,
            // Velero writes every file. Here one is left alone where its bytes are the same, so that a second attempt goes on.
            existing: Existing::Verify,
            sparse,
            errors_kept: NAMED,
            ..RestoreOptions::new(&volume.by_path)
        };
        let report = restore_entry(repository, &root, &options, progress).await;
        let report = report.map_err(|e| Failure::from_storage(&attempt, &e))?;
        if let Some(lost) = lost(&report) {
            return Err(Failure::new(&attempt, lost));
        }
        let total = length.unwrap_or_else(|| root.summary.as_ref().map_or(root.size, |summary| summary.size));
        Ok(RestoredVolume {
            differences: differences(&report),
            total_bytes: i64::try_from(total).unwrap_or(i64::MAX),
            files: files_done(progress, volume.volume_mode),
            fs_type: read_fs_type(volume),
        })
    }
}

/// The length of the device that goes to a volume; `None` where all of the snapshot goes there.
///
/// # Errors
/// The snapshot is none for a volume of this mode. Nothing was changed.
fn length_of(device: Option<&SavedDevice>, volume: &AccessPoint) -> Result<Option<u64>, String> {
    match (device, volume.volume_mode) {
        (Some(device), VolumeMode::Block) => Ok(Some(device.length)),
        (None, _) => Ok(None),
        (Some(device), VolumeMode::Filesystem) if device.may_have_files => Err(format!(
            "the data mover velero-block has saved the whole device of the volume, with the file system on it, and this volume is mounted; \
             nothing was changed. Restore it with a node agent, which fills the device, or into a claim with volumeMode: Block; {VOLUME_RESTORE}"
        )),
        (Some(_), VolumeMode::Filesystem) => Err(format!(
            "it is the snapshot of a block device, and this volume is mounted; nothing was changed. Restore it into a claim with \
             volumeMode: Block; {VOLUME_RESTORE}"
        )),
    }
}

/// Reads the type of the file system on a device that was written. The bytes are there whatever it is, so it is not
/// known where it cannot be read.
fn read_fs_type(volume: &AccessPoint) -> Option<&'static str> {
    if volume.volume_mode != VolumeMode::Block {
        return None;
    }
    let mut beginning = Vec::new();
    let device = File::open(&volume.by_path);
    let read = device.and_then(|device| device.take(SUPERBLOCKS as u64).read_to_end(&mut beginning));
    match read {
        Ok(_) => find_file_system(&beginning),
        Err(e) => {
            tracing::warn!("cannot read from {} which file system it has now: {e}", volume.by_path);
            None
        }
    }
}

/// The root of a snapshot, and its tags.
struct SnapshotRoot {
    root: DirectoryEntry,
    tags: BTreeMap<String, String>,
}

/// The root of a snapshot, by the ID of its manifest.
async fn root_of(repository: &Repository, id: &str) -> Result<SnapshotRoot, Failure> {
    let attempt = format!("find snapshot {id} in the repository");
    let manifests = repository.manifests().await.map_err(|e| Failure::from_storage(&attempt, &e))?;
    let missing = "it is not there: it was deleted with its backup, or the repository is another one";
    let entry = manifests.get(id).ok_or_else(|| Failure::new(&attempt, missing))?;
    let document = Snapshot::from_manifest(entry).document.map_err(|e| Failure::new(&attempt, e))?;
    if let Some(reason) = &document.incomplete {
        return Err(Failure::new(&attempt, format!("it was not finished ({reason})")));
    }
    let root = document.root.ok_or_else(|| Failure::new(&attempt, "it has no root"))?;
    Ok(SnapshotRoot { root, tags: document.tags })
}

/// The entries of the snapshot that the volume lacks, as a sentence.
fn lost(report: &RestoreReport) -> Option<String> {
    if report.failed == 0 && report.unfinished == 0 {
        return None;
    }
    let lost = report.failed.saturating_add(report.unfinished);
    Some(format!("{lost} entries are not as the snapshot has them: {}", named(&report.failures, report.failed)))
}

/// The first of so many entries with their reasons.
pub(super) fn named(entries: &[EntryFailure], count: u64) -> String {
    let first: Vec<String> = entries.iter().take(NAMED).map(|entry| format!("{}: {}", entry.path, entry.why)).collect();
    let more = count.saturating_sub(first.len() as u64);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("{}{more}", first.join("; "))
}

/// Differences from the volume that was saved that leave all of its data there.
fn differences(report: &RestoreReport) -> Vec<String> {
    let counted = [
        (report.missing_in_snapshot, "entries could not be saved when the snapshot was taken, and are not in it"),
        (report.names_changed, "names had bytes that are no UTF-8: the repository has U+FFFD in their place"),
        (
            report.attributes_not_set,
            "entries of other owners keep their permissions and times, for want of the right to set them",
        ),
    ];
    let mut texts: Vec<String> =
        counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect();
    if report.owners_not_set {
        texts.push("owners and groups are those of the mover, which has not the right to set others".to_owned());
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_volume_lacks_is_counted_and_the_first_are_named() {
        let failure = |n: usize| EntryFailure { path: format!("f{n}"), why: "no space".to_owned() };
        let report = RestoreReport { failed: 12, failures: (0..10).map(failure).collect(), ..RestoreReport::default() };
        let text = lost(&report).unwrap();
        assert!(text.starts_with("12 entries are not as the snapshot has them: f0: no space; f1: "), "{text}");
        assert!(text.ends_with("f9: no space; and 2 more"), "{text}");
        let whole = RestoreReport { owners_not_set: true, attributes_not_set: 3, ..RestoreReport::default() };
        assert_eq!((lost(&whole), differences(&whole).len()), (None, 2));
        assert!(lost(&RestoreReport { unfinished: 1, ..RestoreReport::default() }).is_some());
    }

    #[test]
    fn the_type_of_a_file_system_is_read_from_a_device_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, volume_mode| AccessPoint {
            by_path: folder.path().join(name).display().to_string(),
            volume_mode,
        };
        let mut long = b"XFSB".to_vec();
        long.resize(SUPERBLOCKS + 9, 0);
        for (name, bytes) in [("long", &long[..]), ("short", &b"XFSB"[..]), ("other", &b"none"[..])] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let of_devices = ["long", "short", "other", "missing"].map(|name| read_fs_type(&at(name, VolumeMode::Block)));
        assert_eq!(of_devices, [Some("xfs"), Some("xfs"), None, None]);
        assert_eq!(read_fs_type(&at("long", VolumeMode::Filesystem)), None);
    }
}
