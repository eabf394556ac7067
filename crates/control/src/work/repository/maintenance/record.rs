//! The record of runs: in the status, an annotation, an Event, the log and the metrics.

use super::outcome::EndedRun;
use crate::event::{emit, note, warning};
use crate::work::{Context, Effect, StepError};
use lifeboat_api::well_known::ANNOTATION_LAST_MAINTENANCE;
use lifeboat_api::{BackupRepository, BackupRepositoryMaintenanceResult as Outcome, Time};
use lifeboat_lifecycle::phase::maintenance::note_runs;
use lifeboat_repository::MaintenanceSummary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The last run of a kind that had something to do, as the annotation has it.
#[derive(Debug, Serialize, Deserialize)]
struct LastRun {
    completed: Time,
    #[serde(flatten)]
    summary: MaintenanceSummary,
}

/// Records runs that have ended. `None` when all of them are recorded already.
pub(super) async fn record(
    context: &Context,
    before: &BackupRepository,
    ended: Vec<EndedRun>,
) -> Result<Option<Effect>, StepError> {
    let mut after = before.clone();
    let last = before.status.recent_maintenance.last().and_then(|run| run.result);
    let ended: Vec<EndedRun> = ended.into_iter().map(|ended| ended.after(last)).collect();
    let new = note_runs(&mut after.status, ended.iter().map(|ended| ended.run.clone()).collect());
    if new.is_empty() {
        return Ok(None);
    }
    let mut ended: Vec<EndedRun> = ended.into_iter().filter(|ended| new.contains(&ended.run)).collect();
    ended.sort_by_key(|ended| ended.run.start_timestamp);
    note_summaries(&mut after, &ended);
    let stored = context.client.change(before, &after).await?;
    for run in &ended {
        tell(context, &stored, run).await;
    }
    Ok(Some(Effect::stored(stored)))
}

/// Notes the reports of runs in which something was due.
fn note_summaries(repository: &mut BackupRepository, ended: &[EndedRun]) {
    let annotations = &mut repository.metadata.annotations;
    let noted = annotations.get(ANNOTATION_LAST_MAINTENANCE);
    let mut last: BTreeMap<String, LastRun> =
        noted.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    for EndedRun { run, summary } in ended {
        if let (Some(completed), Some(summary)) = (run.complete_timestamp, summary)
            && summary.has_run()
        {
            last.insert(summary.mode.clone(), LastRun { completed, summary: summary.clone() });
        }
    }
    if !last.is_empty()
        && let Ok(text) = serde_json::to_string(&last)
    {
        annotations.insert(ANNOTATION_LAST_MAINTENANCE.to_owned(), text);
    }
}

/// Tells of a run: in the log, in the metrics, and by an Event where it is of interest to people.
async fn tell(context: &Context, repository: &BackupRepository, ended: &EndedRun) {
    let (name, run) = (&repository.metadata.name, &ended.run);
    let has_succeeded = run.result == Some(Outcome::Succeeded);
    let seconds = match (run.start_timestamp, run.complete_timestamp) {
        (Some(start), Some(end)) => end.timestamp().duration_since(start.timestamp()).as_secs_f64(),
        _ => 0.0,
    };
    context.metrics.maintenance_ended(name, has_succeeded, seconds);
    let report = ended.summary.as_ref().map(MaintenanceSummary::to_string).unwrap_or_default();
    if has_succeeded && ended.summary.as_ref().is_some_and(|summary| !summary.other_run.is_empty()) {
        tracing::info!(repository = name, report, "a repository was left to another run");
        return;
    }
    if has_succeeded {
        tracing::info!(repository = name, report, "a repository was maintained");
    } else {
        tracing::warn!(repository = name, error = run.message, "a repository could not be maintained");
    }
    let is_full = ended.summary.as_ref().is_some_and(|summary| summary.mode == "full");
    let content = match (has_succeeded, run.message.is_empty()) {
        (false, _) => warning(repository, "MaintenanceFailed", &run.message),
        (true, false) => warning(repository, "MaintenanceBlocked", &run.message),
        (true, true) if is_full => note(repository, "Maintained", &report),
        // Of each merge of indexes, every hour, nobody wants to hear.
        (true, true) => return,
    };
    let event = content.event(&context.options.identity, context.env.now());
    emit(&context.client, event).await;
}
