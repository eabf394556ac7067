//! `lifeboat backup describe` as text (velero: pkg/cmd/util/output/backup_describer.go).

use super::facts::{FetchedFile, OperationFiles};
use super::page::{Page, Style, Tone};
use super::results::{self, OutcomeCounts};
use super::spec;
use super::volumes::{self, BackupVolumes};
use lifeboat_api::{
    Backup, BackupPhase, DeleteBackupRequest, DeleteBackupRequestPhase, TypedLocalObjectReference, well_known,
};
use lifeboat_lifecycle::phase::hold::Hold;

/// Everything that is known of a backup. Its `files.volumes` are in `volumes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupFacts {
    /// The backup.
    pub backup: Backup,
    /// Its files.
    pub files: OperationFiles,
    /// Its volumes.
    pub volumes: BackupVolumes,
    /// Requests to delete it.
    pub deletions: Vec<DeleteBackupRequest>,
    /// Warning about the certificate of its location.
    pub warning: Option<String>,
}

/// The whole text.
pub fn describe(facts: &BackupFacts, style: &Style) -> String {
    let mut page = Page::new(style);
    let backup = &facts.backup;
    page.metadata(&backup.metadata);
    page.blank();
    phase(&mut page, backup);
    if let Some(reference) = &backup.spec.resource_policy {
        spec::reference(&mut page, "Resource policies", reference);
    }
    if let Some(reference) = global_policy(backup) {
        spec::reference(&mut page, "Global volume policies", &reference);
    }
    spec::uploader(&mut page, &backup.spec);
    page.validation_errors(&backup.status.validation_errors);
    if let Some(warning) = &facts.warning {
        page.blank();
        page.line(warning);
    }
    page.blank();
    messages(&mut page, facts);
    page.blank();
    spec::describe(&mut page, &backup.spec);
    page.blank();
    status(&mut page, facts);
    deletions(&mut page, &facts.deletions);
    page.finish()
}

/// The ConfigMap of volume policies for all backups that was used.
pub(crate) fn global_policy(backup: &Backup) -> Option<TypedLocalObjectReference> {
    let name = backup.metadata.annotations.get(well_known::ANNOTATION_GLOBAL_VOLUME_POLICY)?;
    let reference = || TypedLocalObjectReference {
        kind: "configmap".to_owned(),
        name: name.clone(),
        ..TypedLocalObjectReference::default()
    };
    (!name.is_empty()).then(reference)
}

fn phase(page: &mut Page<'_>, backup: &Backup) {
    use BackupPhase as P;
    let phase = backup.status.phase.unwrap_or(P::New);
    let tone = match phase {
        P::Completed => Tone::Good,
        P::FailedValidation | P::PartiallyFailed | P::Failed => Tone::Bad,
        _ => Tone::Plain,
    };
    let hint = match phase {
        P::Failed | P::PartiallyFailed => {
            format!(" (run `{} backup logs {}` for more information)", page.style.program, backup.metadata.name)
        }
        _ => String::new(),
    };
    page.field("Phase", format_args!("{}{hint}", page.toned(phase.as_str(), tone)));
    if phase == P::Queued {
        page.field("Queue position", backup.status.queue_position);
    }
    page.attempt(backup.status.attempt);
}

fn messages(page: &mut Page<'_>, facts: &BackupFacts) {
    let (warnings, errors) = (facts.backup.status.warnings, facts.backup.status.errors);
    if warnings == 0 && errors == 0 {
        return;
    }
    match &facts.files.results {
        FetchedFile::There(found) => results::results(page, found, warnings, errors),
        FetchedFile::Missing => {
            page.field("Errors", errors);
            page.field("Warnings", warnings);
        }
        FetchedFile::Ungotten(why) => results::failed_results(page, "getting", why),
        FetchedFile::Unreadable(why) => results::failed_results(page, "decoding", why),
    }
}

fn status(page: &mut Page<'_>, facts: &BackupFacts) {
    let status = &facts.backup.status;
    page.field("Backup Format Version", &status.format_version);
    page.blank();
    page.field("Started", page.time(status.start_timestamp, "<n/a>"));
    page.field("Completed", page.time(status.completion_timestamp, "<n/a>"));
    page.blank();
    page.field("Expiration", page.time(status.expiration, "<nil>"));
    if let Some(hold) = Hold::of(&facts.backup.metadata) {
        page.field("Hold", hold);
    }
    page.blank();
    if let Some(progress) = &status.progress {
        let (total, done) = match status.phase {
            Some(BackupPhase::InProgress) => ("Estimated total items to be backed up", "Items backed up so far"),
            _ => ("Total items to be backed up", "Items backed up"),
        };
        page.field(total, progress.total_items);
        page.field(done, progress.items_backed_up);
        page.blank();
    }
    if status.backup_item_operations_attempted > 0 {
        let counts = OutcomeCounts {
            attempted: status.backup_item_operations_attempted,
            completed: status.backup_item_operations_completed,
            failed: status.backup_item_operations_failed,
        };
        results::operations(page, "Backup", &counts, &facts.files.operations);
        page.blank();
    }
    if page.style.details {
        results::resource_list(page, "backup", &facts.files.resources);
        page.blank();
    }
    volumes::of_backup(page, &facts.volumes);
    results::hooks(page, status.hook_status.as_ref(), "");
}

fn deletions(page: &mut Page<'_>, requests: &[DeleteBackupRequest]) {
    if requests.is_empty() {
        return;
    }
    page.blank();
    let failed = failed(requests);
    page.line(if failed > 0 {
        format!("Deletion Attempts ({failed} failed):")
    } else {
        "Deletion Attempts:".to_owned()
    });
    for (at, request) in requests.iter().enumerate() {
        if at > 0 {
            page.blank();
        }
        let phase = request.status.phase.unwrap_or(DeleteBackupRequestPhase::New);
        page.line(format!("\t{}: {}", page.time(request.metadata.creation_timestamp, "<n/a>"), phase.as_str()));
        if !request.status.errors.is_empty() {
            page.line("\tErrors:");
            for error in &request.status.errors {
                page.line(format!("\t\t{error}"));
            }
        }
    }
}

/// Counts the requests that ended with errors.
pub fn failed(requests: &[DeleteBackupRequest]) -> usize {
    let ended = |request: &&DeleteBackupRequest| {
        request.status.phase == Some(DeleteBackupRequestPhase::Processed) && !request.status.errors.is_empty()
    };
    requests.iter().filter(ended).count()
}
