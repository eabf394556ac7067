//! Maintains a repository by a Job (velero: pkg/repository/maintenance, pkg/controller/backup_repository_controller.go).
//!
//! No task waits for a Job: each look begins one, records one that has ended, or says when to look again. So a server finds the Jobs
//! of the one before it. A server that runs in no pod, whose Jobs would have nothing to inherit from, does the work itself.

mod here;
mod job;
mod outcome;
mod record;
mod settings;
mod template;
#[cfg(test)]
mod tests;

use crate::work::{Context, StepError, StepResult};
use crate::world::Meta;
use bytes::Bytes;
use jiff::SignedDuration;
use job::{JobParts, job, repository_label};
use lifeboat_api::well_known::LABEL_REPO_NAME;
use lifeboat_api::{BackupRepository, BackupStorageLocation, Time};
use lifeboat_cluster::{ClusterError, ListRequest, Preconditions, WriteBody};
use lifeboat_object::ApiResource;
use outcome::{EndedRun, JobState, MaintenanceJob};
use record::record;
use serde_json::Value;
use settings::{JobSettings, settings};
use std::collections::BTreeMap;
use std::time::Duration;
use template::PodTemplate;
use tokio_util::sync::CancellationToken;

/// A pod that has not started for so long is given up.
const STARTING: SignedDuration = SignedDuration::from_mins(30);
/// The pause between two looks at a Job in its first minute, and later on.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];
/// The pause before the next look where too many Jobs run.
const FULL: Duration = Duration::from_secs(5);

/// Begins the maintenance of a repository, or sees how far it is.
pub(crate) async fn maintain(
    context: &Context,
    before: &BackupRepository,
    location: &BackupStorageLocation,
    stop: CancellationToken,
) -> StepResult {
    if context.env.process.pod.is_none() {
        return Box::pin(here::maintain(context, before, location, stop)).await;
    }
    let (now, key) = (context.env.now(), before.key());
    let all = jobs_of(context, before).await?;
    if let Some(active) = all.iter().find(|job| job.state == JobState::Active) {
        context.notes.maintenance_jobs.saw(key, now);
        return look(context, before, active).await;
    }
    context.notes.maintenance_jobs.ended(&key);
    let is_recorded = |job: &&MaintenanceJob| {
        let mut runs = before.status.recent_maintenance.iter();
        runs.any(|run| run.start_timestamp == Some(job.started))
    };
    if !all.iter().all(|job| is_recorded(&job)) {
        let pods = pods_of(context, before).await?;
        let ended = all.iter().filter_map(|job| job.ended(&pods)).collect();
        if let Some(stored) = record(context, before, ended).await? {
            delete_old(context, before, &all).await;
            return Ok(vec![stored]);
        }
    }
    if !context.notes.maintenance_jobs.take_place(key.clone(), now) {
        return Err(StepError::NotYet(FULL));
    }
    let Some(template) = PodTemplate::of_own_pod(context).await? else {
        return Box::pin(here::maintain(context, before, location, stop)).await;
    };
    let begun = begin(context, before, &template).await;
    if begun.is_ok() {
        context.notes.maintenance_jobs.ended(&key);
    }
    begun
}

/// Makes a Job. One that is refused is recorded as a run that failed.
async fn begin(context: &Context, before: &BackupRepository, template: &PodTemplate) -> StepResult {
    let now = context.env.now();
    let settings = settings_for(context, before).await;
    let log_arguments = &context.options.repository.jobs.log_arguments;
    let (body, warnings) = job(&JobParts { repository: before, template, settings: &settings, log_arguments, now });
    for warning in warnings {
        tracing::warn!(repository = before.metadata.name, "{warning}");
    }
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let client = &context.client;
    let made = WriteBody::of(Bytes::from(body.to_string()));
    match client.cluster.create(&jobs(), Some(&client.namespace), name, made).await {
        Ok(_) => {
            tracing::info!(repository = before.metadata.name, job = name, "the maintenance of a repository begins");
        }
        // The answer to the first attempt was lost.
        Err(e) if e.is_already_exists() => {}
        Err(e) if e.can_pass() => return Err(e.into()),
        Err(e) => {
            let why = format!("Failed to start maintenance job, err: {e}");
            let ended = EndedRun::failed(&why, [Time::new(now); 2]);
            return Ok(record(context, before, vec![ended]).await?.into_iter().collect());
        }
    }
    Err(StepError::NotYet(PAUSES[0]))
}

/// Looks at a Job that has not ended. One whose pod does not start is given up.
async fn look(context: &Context, before: &BackupRepository, active: &MaintenanceJob) -> StepResult {
    let now = context.env.now();
    let age = now.duration_since(active.created);
    if age >= STARTING
        && let Some(why) = active.obstacle(&pods_of(context, before).await?)
    {
        let why = format!("the Job {} did not start within {} minutes: {why}", active.name, STARTING.as_mins());
        let ended = EndedRun::failed(&why, [active.started, Time::new(now)]);
        let stored = record(context, before, vec![ended]).await?;
        delete(context, active).await?;
        context.notes.maintenance_jobs.ended(&before.key());
        return Ok(stored.into_iter().collect());
    }
    Err(StepError::NotYet(if age < SignedDuration::from_mins(1) { PAUSES[0] } else { PAUSES[1] }))
}

/// Deletes the Jobs of a repository but for the newest. One that stays for now goes with the next run.
async fn delete_old(context: &Context, before: &BackupRepository, all: &[MaintenanceJob]) {
    let kept = settings_for(context, before).await.kept;
    for old in all.iter().rev().skip(kept) {
        if let Err(error) = delete(context, old).await {
            tracing::warn!(%error, job = old.name, "a maintenance Job that has ended cannot be deleted");
        }
    }
}

async fn delete(context: &Context, job: &MaintenanceJob) -> Result<(), ClusterError> {
    let exactly = Preconditions { uid: &job.uid, resource_version: &job.resource_version };
    let client = &context.client;
    client.cluster.delete_with_dependents(&jobs(), Some(&client.namespace), &job.name, exactly).await.map(drop)
}

/// The settings of the Jobs of a repository. What cannot be read does not keep it from maintenance.
async fn settings_for(context: &Context, repository: &BackupRepository) -> JobSettings {
    let flags = &context.options.repository.jobs;
    let data = match &flags.config_map {
        None => BTreeMap::new(),
        Some(name) => config_map(context, name).await.unwrap_or_else(|why| {
            tracing::warn!(config_map = name, "{why}: maintenance Jobs get the defaults");
            BTreeMap::new()
        }),
    };
    let spec = &repository.spec;
    let key = format!("{}-{}-{}", spec.volume_namespace, spec.backup_storage_location, spec.repository_type.as_str());
    let (settings, warnings) = settings(&data, &key, flags);
    for warning in warnings {
        let name = flags.config_map.as_deref().unwrap_or_default();
        tracing::warn!(config_map = name, repository = repository.metadata.name, "{warning}");
    }
    settings
}

async fn config_map(context: &Context, name: &str) -> Result<BTreeMap<String, String>, String> {
    let maps = ApiResource::new("", "v1", "configmaps", "ConfigMap");
    let client = &context.client;
    let found = client.cluster.get(&maps, Some(&client.namespace), name).await;
    let found = found.map_err(|e| format!("the ConfigMap with settings of maintenance cannot be read: {e}"))?;
    let found = found.ok_or("the ConfigMap with settings of maintenance is not there")?;
    let map: Value = serde_json::from_slice(&found).map_err(|e| format!("the ConfigMap is no JSON: {e}"))?;
    let data = map["data"].as_object().into_iter().flatten();
    Ok(data.filter_map(|(key, text)| Some((key.clone(), text.as_str()?.to_owned()))).collect())
}

/// The Jobs of a repository, the oldest first.
async fn jobs_of(context: &Context, repository: &BackupRepository) -> Result<Vec<MaintenanceJob>, ClusterError> {
    let mut all: Vec<_> =
        listed(context, repository, jobs()).await?.iter().filter_map(|body| MaintenanceJob::parse(body)).collect();
    all.sort_by(|one, other| (one.created, &one.name).cmp(&(other.created, &other.name)));
    Ok(all)
}

async fn pods_of(context: &Context, repository: &BackupRepository) -> Result<Vec<Value>, ClusterError> {
    let pods = ApiResource::new("", "v1", "pods", "Pod");
    let bodies = listed(context, repository, pods).await?;
    Ok(bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()).collect())
}

/// The objects of a type with the label of a repository.
async fn listed(
    context: &Context,
    repository: &BackupRepository,
    resource: ApiResource,
) -> Result<Vec<Bytes>, ClusterError> {
    let client = &context.client;
    let selector = format!("{LABEL_REPO_NAME}={}", repository_label(&repository.metadata.name));
    let request = ListRequest::all(resource).in_namespace(client.namespace.clone()).labelled(selector);
    let mut list = client.cluster.list(request);
    let mut out = Vec::new();
    while let Some(bodies) = list.next().await? {
        out.extend(bodies);
    }
    Ok(out)
}

fn jobs() -> ApiResource {
    ApiResource::new("batch", "v1", "jobs", "Job")
}
