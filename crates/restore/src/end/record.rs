//! Stores the results of a restore: its files in the bucket, beside the backups, and the status of its resource. A
//! restore whose actions have begun operations waits for these then
//! (velero: pkg/controller/restore_operations_controller.go).

use crate::actions::known;
use crate::end::files::FileUploads;
use crate::end::item_listing::ItemListing;
use crate::end::outcome::{ObjectsOutcome, Outcome};
use crate::state::env::Env;
use crate::state::item_result::ItemResult;
use crate::state::stop::BrokenOff;
use crate::volumes::patches;
use crate::volumes::report::FromNative;
use crate::volumes::repository_records::FilesReport;
use lifeboat_api::{Restore, RestorePhase, RestoreProgress, RestoreStatus, Time};
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::sidecar;
use lifeboat_object::{GroupResource, ObjectKey, ResultScope, chain};
use lifeboat_operation::{ClosedJournal, Log};
use lifeboat_store::{Content, StoreError};
use std::collections::HashMap;

/// Decides the phase, and puts log, results, resource list, operations and volume information. With a reason to withhold them it puts
/// none, and says so as of any that could not be stored.
pub(crate) async fn record(
    mut restore: Restore,
    mut walked: ObjectsOutcome,
    withheld: Option<String>,
    env: &Env,
) -> Result<Outcome, StoreError> {
    let cancelled = env.operation.cancel.is_cancelled();
    let broken_off = walked.broken_off.take();
    let (_, planned) = env.operation.progress.get();
    let spec = restore.spec.clone();
    let notes = std::mem::take(&mut walked.notes);
    let listed = ItemListing::of(&walked, &spec);
    let items = listed.len();
    let ended_early = format!(
        "the restore was cancelled: {items} of {planned} objects were looked at, and the resource list says what was done"
    );
    if cancelled {
        env.operation.journal.error(&ResultScope::Velero, ended_early.as_str());
    }
    if let Some(why) = &broken_off {
        restore.status.failure_reason = broke_off(&spec.backup_name, why, walked.not_looked_at);
        env.operation.journal.error(&ResultScope::Velero, &restore.status.failure_reason);
    }
    let done = volumes_and_claims(&walked);
    let from_native = |volume: &str| match done.get(&known::volume(volume)) {
        Some(ItemResult::Created | ItemResult::Recreated) => FromNative::Made(walked.volumes.native.name_of(volume)),
        Some(ItemResult::Updated | ItemResult::Skipped | ItemResult::Differs) => FromNative::WasThere,
        Some(ItemResult::Failed | ItemResult::Removed) | None => FromNative::Failed,
    };
    let treatments = &walked.volumes.retained.treatments;
    let files_report = FilesReport::Outcomes(&walked.files);
    let volumes = treatments.tell(&restore, |key| done.get(key).copied(), from_native, files_report);
    if let Some(warning) = volumes.warning {
        env.operation.journal.warn(&ResultScope::Velero, warning);
    }
    if !cancelled && broken_off.is_none() {
        env.operation.journal.info("restore completed", &[]);
    } else if let Some(warning) = patches::unwaited(&volumes.records) {
        env.operation.journal.warn(&ResultScope::Velero, warning);
    }
    let name = restore.metadata.name.clone();
    let mut files = FileUploads::of(&name, broken_off.is_some(), env).withheld(withheld);
    if cancelled {
        restore.status.failure_reason = ended_early;
    }
    let mut is_pending = false;
    if cancelled {
        walked.operations.tell_left("the restore was cancelled");
    } else if walked.operations.count() > 0 {
        let operations = StoreError::encoded("the item operations", sidecar::encode(&*walked.operations))?;
        files.put(RestoreFile::ItemOperations, operations).await;
        is_pending = files.unstored.is_empty();
        if !is_pending {
            walked.operations.tell_left("the list of all operations could not be stored");
        }
    }
    files.put(RestoreFile::Logs, log_content(env.operation.journal.close().log)).await;
    // What was restored is there; only that its log is missing counts (velero: pkg/controller/restore_controller.go).
    if let Some(why) = files.unstored.first() {
        env.operation.journal.error(&ResultScope::Velero, why.as_str());
    }
    let ClosedJournal { mut results, warnings, errors, .. } = env.operation.journal.close();
    results.notes = notes;
    let status = &mut restore.status;
    count(status, warnings, errors);
    let items = i64::try_from(items).unwrap_or(i64::MAX);
    let not_looked_at = i64::try_from(walked.not_looked_at).unwrap_or(i64::MAX);
    let total_items = items.saturating_add(not_looked_at);
    status.progress = Some(RestoreProgress { total_items, items_restored: items, ..RestoreProgress::default() });
    status.restore_item_operations_attempted = i64::try_from(walked.operations.count()).unwrap_or(i64::MAX);
    status.hook_status = Some(walked.hooks.status().unwrap_or_default());
    // The claims that were made may have no volumes yet.
    let finalizes = !cancelled
        && broken_off.is_none()
        && !is_pending
        && files.unstored.is_empty()
        && (walked.has_stubs || volumes.records.iter().any(patches::is_awaited));
    status.completion_timestamp = (!is_pending && !finalizes).then(|| Time::new((env.operation.clock)()));
    status.phase = Some(match (is_pending, errors) {
        _ if cancelled => RestorePhase::Failed,
        (_, 0) if finalizes => RestorePhase::Finalizing,
        _ if finalizes => RestorePhase::FinalizingPartiallyFailed,
        (false, 0) => RestorePhase::Completed,
        (false, _) => RestorePhase::PartiallyFailed,
        (true, 0) => RestorePhase::WaitingForPluginOperations,
        (true, _) => RestorePhase::WaitingForPluginOperationsPartiallyFailed,
    });
    if !is_pending {
        let operations = StoreError::encoded("the item operations", sidecar::encode(&*walked.operations))?;
        files.put(RestoreFile::ItemOperations, operations).await;
    }
    for (file, bytes) in [
        (RestoreFile::Results, StoreError::encoded("the results", sidecar::encode(&results))?),
        (RestoreFile::ResourceList, StoreError::encoded("the resource list", sidecar::encode(&listed))?),
        (RestoreFile::VolumeInfo, StoreError::encoded("the volume information", sidecar::encode(&volumes.records))?),
    ] {
        files.put(file, bytes).await;
    }
    let unstored = files.unstored;
    if !cancelled && env.operation.cancel.is_cancelled() && !unstored.is_empty() {
        restore.status.phase = Some(RestorePhase::Failed);
        restore.status.completion_timestamp.get_or_insert(Time::new((env.operation.clock)()));
        restore.status.failure_reason = format!(
            "the restore was cancelled: {items} of {planned} objects were looked at, but not all of its files could be stored in time"
        );
    }
    if finalizes && !unstored.is_empty() {
        // What finalizing builds on is not there.
        restore.status.phase = Some(RestorePhase::PartiallyFailed);
        restore.status.completion_timestamp = Some(Time::new((env.operation.clock)()));
    }
    if restore.status.failure_reason.is_empty() && !unstored.is_empty() {
        // What they would say is nowhere else.
        restore.status.failure_reason =
            format!("not all files of the restore could be stored: {}", unstored.join("; "));
    }
    Ok(Outcome { restore, results, unstored, done: listed.count(), broken_off })
}

/// Explains, for people, that a restore broke off.
fn broke_off(backup: &str, why: &BrokenOff, not_looked_at: u64) -> String {
    let objects = if not_looked_at == 1 { "1 object was" } else { &format!("{not_looked_at} objects were") };
    let what = match why {
        BrokenOff::Archive(_) => format!("the archive of backup {backup} could not be read to its end: "),
        BrokenOff::Action { .. } => String::new(),
    };
    format!("the restore broke off, because {what}{}; {objects} not looked at", chain(why))
}

/// Returns the outcome for each volume and each claim of the backup.
fn volumes_and_claims(walked: &ObjectsOutcome) -> HashMap<ObjectKey, ItemResult> {
    let types = ["persistentvolumes", "persistentvolumeclaims"];
    let is_wanted = |of: &GroupResource| of.group.is_empty() && types.contains(&&*of.resource);
    let rows = walked.done.iter().filter_map(|one| Some((walked.archive.row(one.row)?, one.action)));
    rows.filter(|(row, _)| is_wanted(&row.resource)).map(|(row, action)| (row.key(), action)).collect()
}

/// A log, to be stored.
pub(crate) fn log_content(log: Log) -> Content {
    Content::read_by(log.length(), move |at, most| log.read_at(at, most))
}

pub(crate) fn count(status: &mut RestoreStatus, warnings: u64, errors: u64) {
    status.warnings = i64::try_from(warnings).unwrap_or(i64::MAX);
    status.errors = i64::try_from(errors).unwrap_or(i64::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_that_breaks_off_says_how_many_objects_were_not_looked_at() {
        let said = |objects| broke_off("b", &StoreError::Worker("reading").into(), objects);
        let expected = |objects: &str| {
            format!(
                "the restore broke off, because the archive of backup b could not be read to its end: a worker thread died \
                 while reading; {objects} not looked at"
            )
        };
        let objects = ["0 objects were", "1 object was", "2 objects were"];
        assert_eq!([0, 1, 2].map(said), objects.map(expected));
    }
}
