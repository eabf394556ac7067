//! The backup of a volume (velero: pkg/uploader/kopia, pkg/uploader/block).

use super::check::{check_volume, is_empty};
use super::events::WARNING;
use super::failure::{Failure, cut, with_message};
use super::repository::{VolumeRepository, clock};
use super::resource::BackupResource;
use super::restore::named;
use super::role::{Done, Work, files_done, perform};
use super::source::{BACKUP_SETTINGS, VolumeSource, number, without_effect};
use super::transfer::{MoverEnv, Transfer};
use lifeboat_kopia::format::policy::PolicyTarget;
use lifeboat_kopia::format::snapshot::Source;
use lifeboat_kopia::snapshot::Snapshot;
use lifeboat_kopia::{KopiaError, RepositoryWriter, WriteOptions};
use lifeboat_mover::protocol::BackupResult;
use lifeboat_mover::snapshot::{BlockForm, Named, SnapshotOptions, SnapshotReport, snapshot};
use lifeboat_repository::CLIENT_NAME;
use serde_json::value::RawValue;
use std::path::Path;

/// The most puts at once.
const UPLOADS: usize = 8;
/// The entries whose failures are named.
const NAMED: usize = 10;
/// The entries of each sort that a result names, which has room for little.
const NAMED_IN_RESULT: usize = 3;
/// The most bytes of the ID of a snapshot in a message.
const LONGEST_ID: usize = 100;

/// Performs the backup that a resource asks for. Gives true where it has succeeded.
///
/// # Errors
/// A termination message that cannot be written.
pub async fn backup<R: BackupResource>(env: &MoverEnv, transfer: &Transfer) -> std::io::Result<bool> {
    perform(env, transfer, async |work: Work<'_, R>| Box::pin(save(work)).await).await
}

async fn save<R: BackupResource>(work: Work<'_, R>) -> Result<Done, Failure> {
    let (env, source, volume) = (work.env, work.resource.source(), &work.transfer.volume);
    check_volume(volume)?;
    let mut not_done = without_effect(&source.settings, &BACKUP_SETTINGS);
    if is_empty(volume)? {
        tracing::info!("the volume {} is empty: no snapshot is made", volume.by_path);
        let result =
            |message| BackupResult { empty_snapshot: true, source: volume.clone(), message, ..BackupResult::default() };
        return Ok(Done { result: with_message(&not_done.join("; "), result)?, total_bytes: 0, files: 0 });
    }
    let found = VolumeRepository::find(env, &source.location, &source.namespace).await?;
    found.ensure(env.threads).await?;
    let repository = found.open(env.threads).await?;
    let attempt = format!("save the volume {}", volume.by_path);
    let failed = |e: KopiaError| Failure::from_storage(&attempt, &e);
    let writer = repository.writer(write_options(env)).await.map_err(failed)?;
    let options = options(env, &source);
    let files_at_once = options.files_at_once.unwrap_or(env.threads);
    // compat: devices that are saved as blocks have no policy.
    if source.device_name.is_none() {
        set_policy(&writer, &options.source, files_at_once).await.map_err(failed)?;
    }
    if let Some(parent) = &options.parent {
        let snapshots = writer.repository().manifests().await.map_err(failed)?.snapshots();
        not_done.extend(parent_without_effect(&snapshots, parent, source.device_name.is_some()));
    }
    let saved = snapshot(&writer, Path::new(&volume.by_path), options, work.progress).await;
    let report = saved.map_err(|e| Failure::from_storage(&attempt, &e))?;
    if report.failed.count > 0 && !is_of_file_system(&report.failed) {
        let lost = named(&report.failed.first, report.failed.count);
        let kept = forget(&writer, &report.id).await;
        return Err(Failure::new(
            &attempt,
            format!("{} entries could not be read: {lost}; {kept}", report.failed.count),
        ));
    }
    for text in differences(&report, NAMED).iter().chain(&report.warnings).chain(&not_done) {
        tracing::warn!("{text}");
        work.events.tell(WARNING, text).await;
    }
    let totals = report.totals;
    let total_bytes = match source.device_name {
        // compat: the length of the device; that of the snapshot has whole blocks.
        Some(_) => i64::try_from(totals.bytes_read + totals.bytes_unchanged).unwrap_or(i64::MAX),
        None => report.document.stats.total_size,
    };
    let files = files_done(work.progress, volume.volume_mode);
    let result = |message| BackupResult {
        snapshot_id: report.id.clone(),
        empty_snapshot: false,
        source: volume.clone(),
        total_bytes,
        incremental_bytes: i64::try_from(totals.bytes_read).unwrap_or(i64::MAX),
        files,
        message,
    };
    let told = [differences(&report, NAMED_IN_RESULT), not_done].concat().join("; ");
    Ok(Done { result: with_message(&told, result)?, total_bytes, files })
}

/// The reason for which the snapshot that a resource names as its parent has no effect.
fn parent_without_effect(snapshots: &[Snapshot], parent: &str, is_device: bool) -> Option<String> {
    if is_device {
        let why = "spec.parentSnapshot has no effect: a volume that is moved as a device is read as a whole";
        return Some(why.to_owned());
    }
    let is_finished = snapshots.iter().any(|snapshot| snapshot.id == parent && snapshot.is_complete());
    let id = cut(parent, LONGEST_ID);
    (!is_finished).then(|| {
        format!("spec.parentSnapshot names {id}, which is no finished snapshot of the repository: all files were read")
    })
}

/// Options of the writer.
pub(super) fn write_options(env: &MoverEnv) -> WriteOptions {
    WriteOptions {
        user: CLIENT_NAME.to_owned(),
        host: CLIENT_NAME.to_owned(),
        random: env.random.clone(),
        threads: env.threads,
        memory: WriteOptions::usual_memory(env.threads),
        uploads: UPLOADS,
    }
}

/// Deletes a snapshot that is in no record, because its backup fails: it is pinned, and nothing else would ever delete it. Says what became of
/// it.
pub(super) async fn forget(writer: &RepositoryWriter, id: &str) -> String {
    let deleted = async {
        writer.delete_manifest(id)?;
        writer.flush().await
    };
    match deleted.await {
        Ok(_) => "the snapshot of the rest was deleted again".to_owned(),
        Err(e) => format!("snapshot {id} has the rest, and could not be deleted: {e}"),
    }
}

/// Options of Velero's snapshots.
fn options(env: &MoverEnv, source: &VolumeSource) -> SnapshotOptions {
    let of = Source { host: CLIENT_NAME.to_owned(), user: CLIENT_NAME.to_owned(), path: source.path.clone() };
    let parent = match source.parent.as_str() {
        "" | "auto" | "none" => None,
        id => Some(id.to_owned()),
    };
    SnapshotOptions {
        description: if source.device_name.is_some() { "Block Uploader" } else { "Kopia Uploader" }.to_owned(),
        tags: source.tags.clone(),
        pins: vec!["velero-pin".to_owned()],
        incremental: source.parent != "none",
        parent,
        blocks: source.device_name.as_deref().map(BlockForm::of),
        files_at_once: number(&source.settings, "ParallelFilesUpload"),
        errors_kept: NAMED,
        ..SnapshotOptions::new(of, clock(env), env.random.clone())
    }
}

/// Sets the policy that Velero gives a source, in place of the one before. One that is the same stays.
async fn set_policy(writer: &RepositoryWriter, source: &Source, files_at_once: usize) -> Result<(), KopiaError> {
    let labels = PolicyTarget::Path(source.clone()).labels();
    let policy = policy(files_at_once);
    let manifests = writer.repository().manifests().await?;
    let before = manifests.find(&labels);
    if let [same] = before.as_slice()
        && same.data.get() == policy
    {
        return Ok(());
    }
    let old: Vec<String> = before.iter().map(|entry| entry.id.clone()).collect();
    let data = RawValue::from_string(policy)
        .map_err(|e| KopiaError::Refused { attempt: "write the policy of a volume".to_owned(), why: e.to_string() })?;
    writer.put_manifest(labels, data)?;
    for id in old {
        writer.delete_manifest(&id)?;
    }
    writer.flush().await.map(drop)
}

/// The policy as Velero writes it: nothing is deleted by retention, entries of unknown types do not fail.
fn policy(files_at_once: usize) -> String {
    let most = i32::MAX;
    let kept = ["Latest", "Hourly", "Daily", "Weekly", "Monthly", "Annual"];
    let kept: Vec<String> = kept.iter().map(|period| format!(r#""keep{period}":{most}"#)).collect();
    format!(
        r#"{{"retention":{{{}}},"files":{{}},"errorHandling":{{"ignoreUnknownTypes":true}},"scheduling":{{"manual":true}},"compression":{{"compressorName":"none"}},"metadataCompression":{{}},"splitter":{{}},"actions":{{}},"osSnapshots":{{"volumeShadowCopy":{{}}}},"logging":{{"directories":{{}},"entries":{{}}}},"upload":{{"maxParallelFileReads":{files_at_once},"parallelUploadAboveSize":2147483648}}}}"#,
        kept.join(",")
    )
}

/// Returns true if all that could not be read is the folder of a file system itself, which is that of user 0 alone: a mover without privilege
/// would save no volume that has one.
fn is_of_file_system(failed: &Named) -> bool {
    let is_denied = |why: &str| why.contains("Permission denied");
    failed.count == 1 && failed.first.iter().all(|entry| entry.path == "lost+found" && is_denied(&entry.why))
}

/// The differences of the snapshot from the volume although nothing has failed. Names at most `most` entries of each sort.
fn differences(report: &SnapshotReport, most: usize) -> Vec<String> {
    let of_file_system =
        "folder of the file system itself (lost+found) may not be read by the mover, and is not in the snapshot";
    let kinds = [
        (&report.failed, of_file_system),
        (&report.changed, "files changed while they were read: the snapshot has them as they were read last"),
        (&report.passed_over, "entries could not be read, and the policy passes over them"),
        (&report.special, "sockets, pipes and devices are not in the snapshot"),
        (
            &report.caches,
            "directories say of themselves that they are caches, and are in the snapshot without what is in them",
        ),
        (&report.refused, "entries are left out by the policy"),
        (
            &report.vanished,
            "entries were deleted, renamed or replaced while the volume was read, and are not in the snapshot under these names",
        ),
    ];
    let sentence = |(entries, text): (&Named, &str)| {
        let first = entries.first.get(..most).unwrap_or(&entries.first);
        format!("{} {text}: {}", entries.count, named(first, entries.count))
    };
    let named = kinds.into_iter().filter(|(entries, _)| entries.count > 0).map(sentence);
    named.chain(report.lost_attributes.sentences()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_kopia::content::writer::Written;
    use lifeboat_kopia::format::policy::Policy;
    use lifeboat_kopia::format::snapshot::{SnapshotDocument, Stats};
    use lifeboat_kopia::format::time::UnixNanos;
    use lifeboat_mover::Totals;
    use lifeboat_mover::restore::EntryFailure;
    use lifeboat_mover::snapshot::LostAttributes;
    use std::collections::BTreeMap;

    /// The report of a snapshot with all that was there.
    fn whole() -> SnapshotReport {
        let source = Source { host: String::new(), user: String::new(), path: String::new() };
        let document = SnapshotDocument {
            source,
            description: String::new(),
            start: UnixNanos(0),
            end: UnixNanos(0),
            stats: Stats::default(),
            incomplete: None,
            root: None,
            tags: BTreeMap::new(),
            pins: Vec::new(),
        };
        SnapshotReport {
            id: "k1".to_owned(),
            document,
            written: Written::default(),
            totals: Totals::default(),
            failed: Named::default(),
            passed_over: Named::default(),
            changed: Named::default(),
            vanished: Named::default(),
            lost_attributes: LostAttributes::default(),
            special: Named::default(),
            caches: Named::default(),
            refused: Named::default(),
            warnings: Vec::new(),
            parents: 0,
            checkpoints: 0,
        }
    }

    /// So many entries, of which some are named.
    fn entries(count: u64, names: &[&str], why: &str) -> Named {
        let first = names.iter().map(|path| EntryFailure { path: (*path).to_owned(), why: why.to_owned() });
        Named { count, first: first.collect() }
    }

    #[test]
    fn what_went_or_changed_while_a_volume_was_read_is_told() {
        assert_eq!(differences(&whole(), NAMED), Vec::<String>::new());
        let vanished = entries(3, &["log.1", "log.2"], "it was deleted before it was read");
        let changed = entries(4, &["a", "b", "c", "d"], "it was changed each time while it was read");
        let lost_attributes = LostAttributes { hard_links: 1204, ..LostAttributes::default() };
        let report = SnapshotReport { vanished, changed, lost_attributes, ..whole() };
        let expected = [
            "4 files changed while they were read: the snapshot has them as they were read last: a: it was changed each time \
             while it was read; b: it was changed each time while it was read; and 2 more",
            "3 entries were deleted, renamed or replaced while the volume was read, and are not in the snapshot under these names: log.1: it was deleted \
             before it was read; log.2: it was deleted before it was read; and 1 more",
            "1204 names are hard links: each comes back as a separate file",
        ];
        assert_eq!((report.is_whole(), differences(&report, 2)), (true, expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn a_parent_without_effect_is_told_with_the_reason() {
        let unfinished = Snapshot { id: "k1".to_owned(), written: UnixNanos(0), document: Ok(whole().document) };
        let told = |parent: &str, is_device| {
            parent_without_effect(std::slice::from_ref(&unfinished), parent, is_device).unwrap()
        };
        let device = "spec.parentSnapshot has no effect: a volume that is moved as a device is read as a whole";
        assert_eq!(told("k1", true), device);
        for parent in ["k1", "k2"] {
            let expected = format!(
                "spec.parentSnapshot names {parent}, which is no finished snapshot of the repository: all files were read"
            );
            assert_eq!(told(parent, false), expected);
        }
    }

    #[test]
    fn only_the_folder_of_the_file_system_itself_may_be_unreadable() {
        let failed_by = |why: &str, paths: &[&str], count: u64| entries(count, paths, why);
        let failed = |paths: &[&str], count| failed_by("cannot open it: Permission denied (os error 13)", paths, count);
        for (failed, expected) in [
            (failed(&["lost+found"], 1), true),
            (failed(&["lost+found", "data"], 2), false),
            (failed(&["data/lost+found"], 1), false),
            (failed(&["data"], 1), false),
            (failed_by("cannot read it: Input/output error (os error 5)", &["lost+found"], 1), false),
        ] {
            assert_eq!(is_of_file_system(&failed), expected, "{failed:?}");
        }
    }

    #[test]
    fn the_policy_is_the_one_of_velero_and_can_be_read() {
        let text = policy(3);
        let read = Policy::parse(&text).unwrap();
        assert_eq!(
            (read.upload.max_parallel_file_reads, read.upload.parallel_upload_above_size),
            (Some(3), Some(2 << 30))
        );
        assert!(text.starts_with(r#"{"retention":{"keepLatest":2147483647,"keepHourly":2147483647,"#), "{text}");
        // The length of those that Velero 1.18 has written.
        assert_eq!(text.len(), 488);
    }
}
