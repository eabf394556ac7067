//! Makes the backups of schedules (velero: pkg/controller/schedule_controller.go).

use super::{Context, Effect, StepError, StepResult};
use lifeboat_api::{Backup, KeptBy, Schedule, SchedulePhase, Time, well_known};
use lifeboat_client::is_refused;
use lifeboat_lifecycle::phase::kept_backups::rules_of;
use lifeboat_lifecycle::phase::schedule::{ScheduledRun, run_name};
use lifeboat_lifecycle::phase::taken_over::was_taken_over;
use lifeboat_operation::{Subject, Trace};

/// Changes what a schedule says of itself.
pub(crate) async fn note(context: &Context, schedule: &Schedule, after: &Schedule) -> StepResult {
    let name = &schedule.metadata.name;
    if after.status.phase != schedule.status.phase || !after.status.validation_errors.is_empty() {
        let errors = after.status.validation_errors.join("; ");
        let phase = after.status.phase.map(SchedulePhase::as_str);
        tracing::info!(schedule = name, phase, errors, "a schedule was read");
    }
    if after.status.last_skipped != schedule.status.last_skipped {
        tracing::info!(schedule = name, "a run that is due is left out, as the schedule or the server's flag says");
    }
    if after.status.last_backup != schedule.status.last_backup {
        tracing::warn!(
            schedule = name,
            last = schedule.status.last_backup.map(|last| last.to_string()),
            "the last run of a schedule was in a time to come, by this clock: runs are counted from now on"
        );
    }
    let stored = context.client.change(schedule, after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Makes the backup of a run, and notes that. One that is there already was made by a server that could not note it any more.
pub(crate) async fn run(context: &Context, schedule: &Schedule, run: ScheduledRun) -> StepResult {
    let (trace, metadata) = (Trace::default(), &schedule.metadata);
    let (namespace, name, uid) = (&metadata.namespace, &metadata.name, &metadata.uid);
    trace.begin(Subject { kind: "schedule run", namespace, name, uid });
    let finished = Box::pin(make(context, schedule, run)).await;
    if let Err(why) = &finished {
        trace.failed(&why.to_string());
    }
    finished
}

async fn make(context: &Context, schedule: &Schedule, run: ScheduledRun) -> StepResult {
    let mut backup = schedule.backup();
    backup.metadata.name = run_name(&schedule.metadata.name, run.due);
    if let Some(rules) = rules_of(schedule, &context.options.zone) {
        let kept = KeptBy { cluster: context.cluster_uid().await?, since: Some(Time::new(run.now)), ..rules };
        backup.metadata.annotations.insert(well_known::ANNOTATION_KEPT_BY.to_owned(), kept.value());
    }
    let name = &backup.metadata.name;
    context.leadership.check().map_err(|lost| StepError::Because(lost.to_string()))?;
    let mut effects = Vec::new();
    let made = match context.client.create(name, &backup).await {
        Ok(Some(made)) => {
            let (due, since) = (run.due.to_string(), run.since.to_string());
            tracing::info!(
                schedule = schedule.metadata.name,
                backup = name,
                due,
                since,
                "a backup of a schedule is due"
            );
            Ok(Some(made))
        }
        Ok(None) => found(context, schedule, name).await,
        Err(e) if is_refused(&e) => Err(StepError::Because(format!("backup {name}, which is due, is refused: {e}"))),
        Err(e) => return Err(e.into()),
    };
    let mut after = schedule.clone();
    match made {
        Ok(made) => effects.extend(made.map(Effect::stored)),
        Err(why) => {
            after.status.message = why.to_string();
            context.client.change(schedule, &after).await?;
            return Err(why);
        }
    }
    after.status.last_backup = Some(Time::new(run.now));
    after.status.message.clear();
    let stored = context.client.change(schedule, &after).await?;
    effects.push(Effect::stored(stored));
    Ok(effects)
}

/// The backup of a run that is there already; `None` when it is gone again.
///
/// # Errors
/// When it is not one of this schedule.
async fn found(context: &Context, schedule: &Schedule, name: &str) -> Result<Option<Backup>, StepError> {
    let Some(found) = context.client.get::<Backup>(name).await? else { return Ok(None) };
    if was_taken_over(&found) {
        return Err(StepError::Because(format!(
            "the run of schedule {} would be backup {name}, which another cluster has made in the same bucket: give each cluster a prefix \
             of its own in its storage location, or its schedule another name",
            schedule.metadata.name
        )));
    }
    if found.schedule_label() == Some(&*schedule.label()) {
        return Ok(Some(found));
    }
    Err(StepError::Because(format!(
        "the run of schedule {} would be backup {name}, which is there already and is not one of this schedule: delete it, or \
         wait for the next run",
        schedule.metadata.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Providers;
    use crate::stub::{context, sandbox};
    use async_trait::async_trait;
    use jiff::Timestamp;
    use lifeboat_api::{BackupStorageLocation, Retention};
    use lifeboat_bucket::{BlobStore, StorageAccess};
    use std::sync::Arc;

    /// Schedules have no storage.
    #[derive(Debug)]
    struct Nowhere;

    #[async_trait]
    impl Providers for Nowhere {
        async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
            Err("there is none".to_owned())
        }

        fn may_keep(&self, _: &BackupStorageLocation) -> bool {
            false
        }
    }

    fn at(text: &str) -> Timestamp {
        format!("2026-11-22T{text}Z").parse().unwrap()
    }

    fn due(hour: &str) -> ScheduledRun {
        let due = at(&format!("{hour}:00:00"));
        ScheduledRun { due, since: due, now: due }
    }

    /// A schedule that is in the cluster.
    async fn nightly(context: &Context) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.metadata.name = "nightly".into();
        schedule.metadata.namespace = "velero".into();
        schedule.spec.schedule = "0 3 * * *".into();
        schedule.spec.template.included_namespaces = vec!["shop".into()];
        schedule.status.phase = Some(SchedulePhase::Enabled);
        schedule.status.message = "a run is due".into();
        context.client.create("nightly", &schedule).await.unwrap().unwrap()
    }

    async fn backups(context: &Context) -> Vec<String> {
        let all: Vec<Backup> = context.client.list("").await.unwrap();
        all.into_iter()
            .map(|backup| format!("{} {:?}", backup.metadata.name, backup.spec.included_namespaces))
            .collect()
    }

    #[tokio::test]
    async fn a_run_that_could_not_be_noted_is_not_made_twice() {
        let (_sandbox, cluster) = sandbox().await;
        let context = context(cluster, Arc::new(Nowhere));
        let schedule = nightly(&context).await;
        // A server makes it, another one that has not seen that makes it again, and then one that has.
        let first = run(&context, &schedule, due("03")).await.unwrap();
        assert_eq!(first.len(), 2);
        let again = run(&context, &schedule, due("03")).await.unwrap_err();
        assert!(matches!(&again, StepError::Cluster(e) if e.is_conflict()), "{again}");
        let noted: Schedule = context.client.get("nightly").await.unwrap().unwrap();
        assert_eq!((noted.status.last_backup, noted.status.message.as_str()), (Some(Time::new(at("03:00:00"))), ""));
        run(&context, &noted, due("03")).await.unwrap();
        let noted: Schedule = context.client.get("nightly").await.unwrap().unwrap();
        run(&context, &noted, due("04")).await.unwrap();
        assert_eq!(backups(&context).await, ["nightly-20261122030000 [\"shop\"]", "nightly-20261122040000 [\"shop\"]"]);
    }

    /// So that it is kept by them when the schedule is gone.
    #[tokio::test]
    async fn a_backup_says_by_which_rules_it_is_kept() {
        let (_sandbox, cluster) = sandbox().await;
        let uid = cluster.uid().await.unwrap();
        let context = context(cluster, Arc::new(Nowhere));
        let before = nightly(&context).await;
        let mut schedule = before.clone();
        schedule.spec.schedule = "CRON_TZ=Europe/Berlin 0 3 * * *".into();
        let rules = Some(Retention { keep_daily: Some(7), ..Retention::default() });
        schedule.spec.retention.clone_from(&rules);
        let schedule = context.client.change(&before, &schedule).await.unwrap();
        run(&context, &schedule, due("03")).await.unwrap();
        let made: Backup = context.client.get("nightly-20261122030000").await.unwrap().unwrap();
        let expected = KeptBy {
            schedule: "nightly".into(),
            cluster: uid,
            rules,
            zone: Some("Europe/Berlin".into()),
            shrink_threshold: Some(50),
            since: Some(Time::new(at("03:00:00"))),
            ..KeptBy::default()
        };
        assert_eq!(KeptBy::of(&made.metadata), Some(Ok(expected)));
    }

    #[tokio::test]
    async fn a_backup_of_somebody_else_is_no_run() {
        let (_sandbox, cluster) = sandbox().await;
        let context = context(cluster, Arc::new(Nowhere));
        let schedule = nightly(&context).await;
        let mut other = Backup::default();
        other.metadata.name = "nightly-20261122030000".into();
        context.client.create(&other.metadata.name, &other).await.unwrap().unwrap();
        let why = run(&context, &schedule, due("03")).await.unwrap_err().to_string();
        assert!(why.contains("is there already and is not one of this schedule"), "{why}");
        // Nor is one that another cluster with a schedule of this name has made, and that was found in the bucket.
        let mut found = Backup::default();
        found.metadata.name = "nightly-20261122040000".into();
        found.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), "nightly".into());
        found.status.completion_timestamp = Some(Time::new(Timestamp::from_second(-3600).unwrap()));
        context.client.create(&found.metadata.name, &found).await.unwrap().unwrap();
        let noted: Schedule = context.client.get("nightly").await.unwrap().unwrap();
        let why = run(&context, &noted, due("04")).await.unwrap_err().to_string();
        assert!(why.contains("which another cluster has made in the same bucket"), "{why}");
        let noted: Schedule = context.client.get("nightly").await.unwrap().unwrap();
        assert_eq!(noted.status.last_backup, None);
        assert_eq!(noted.status.message, why);
    }
}
