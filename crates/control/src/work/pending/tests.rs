//! Backups and restores whose actions have begun operations, step by step.

use super::{backup as pending_backup, restore as pending_restore};
use crate::options::{Providers, ServerClock};
use crate::stub::{FixedActions, context, sandbox};
use crate::work::backup::BackupTarget;
use crate::work::restore::Origin;
use crate::work::{Context, SnapshotLocations, StepError, backup, restore};
use crate::world::{MirroredObject, World};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifeboat_action::{
    ActionError, ActionScope, Actions, BackupItemAction, BackupItemInput, BackupItemOutput, OperationProgress,
    RestoreItemAction, RestoreItemInput, RestoreItemOutput,
};
use lifeboat_api::well_known::ANNOTATION_UNREACHABLE;
use lifeboat_api::{Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationPhase, Restore, RestorePhase};
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::{BlobStore, Memory, StorageAccess};
use lifeboat_object::Results;
use lifeboat_operation::{Operation, TRACE_TARGET};
use lifeboat_sandbox::Sandbox;
use lifeboat_testbed::Spans;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct OneBucket(Arc<dyn BlobStore>);

#[async_trait]
impl Providers for OneBucket {
    async fn open(&self, location: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
        match location.spec.provider.as_str() {
            "memory" => Ok(Arc::clone(&self.0)),
            other => Err(format!("there is no provider {other}")),
        }
    }

    fn may_keep(&self, _: &BackupStorageLocation) -> bool {
        true
    }
}

/// Begins an operation for each ConfigMap of the name `job`, which is done when it is asked for the second time.
#[derive(Default)]
struct Slow {
    asked: AtomicUsize,
    /// The operations that it was told to end.
    cancelled: Mutex<Vec<String>>,
}

impl Slow {
    fn note_cancel(&self, id: &str) {
        self.cancelled.lock().unwrap().push(id.to_owned());
    }

    fn answer(&self) -> OperationProgress {
        let completed = self.asked.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        OperationProgress { completed, ..OperationProgress::default() }
    }
}

fn id_for(item: &serde_json::Value) -> String {
    if item["metadata"]["name"] == "job" { "op-1".to_owned() } else { String::new() }
}

#[async_trait]
impl BackupItemAction for Slow {
    fn name(&self) -> &str {
        "test/slow"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["configmaps"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        Ok(BackupItemOutput { operation_id: id_for(&input.item), ..BackupItemOutput::unchanged(input.item) })
    }

    async fn progress(&self, _: &str, _: &Backup) -> Result<OperationProgress, ActionError> {
        Ok(self.answer())
    }

    async fn cancel(&self, id: &str, _: &Backup) -> Result<(), ActionError> {
        self.note_cancel(id);
        Ok(())
    }
}

#[async_trait]
impl RestoreItemAction for Slow {
    fn name(&self) -> &str {
        "test/slow"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["configmaps"])
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        Ok(RestoreItemOutput { operation_id: id_for(&input.item), ..RestoreItemOutput::with(input.item) })
    }

    async fn progress(&self, _: &str, _: &Restore) -> Result<OperationProgress, ActionError> {
        Ok(self.answer())
    }

    async fn cancel(&self, id: &str, _: &Restore) -> Result<(), ActionError> {
        self.note_cancel(id);
        Ok(())
    }
}

struct Ground {
    sandbox: Sandbox,
    context: Context,
    location: BackupStorageLocation,
    action: Arc<Slow>,
}

impl Ground {
    async fn start() -> Self {
        let (sandbox, cluster) = sandbox().await;
        let mut context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
        let action = Arc::new(Slow::default());
        let actions =
            Actions { backup_item: vec![action.clone()], restore_item: vec![action.clone()], ..Actions::default() };
        context.env.extensions = Arc::new(FixedActions(actions));
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "main".to_owned();
        location.metadata.namespace = "velero".to_owned();
        location.spec.provider = "memory".to_owned();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        let objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job", "namespace": "shop"}}),
            json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b", "namespace": "velero", "uid": "u"},
                "spec": {"includedNamespaces": ["shop"], "storageLocation": "main"}}),
            json!({"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": "r", "namespace": "velero", "uid": "v"},
                "spec": {"backupName": "b", "namespaceMapping": {"shop": "copy"}}}),
        ];
        sandbox.apply(objects).await.unwrap();
        Self { sandbox, context, location, action }
    }

    async fn backup(&self) -> Backup {
        self.context.client.get("b").await.unwrap().unwrap()
    }

    async fn restore(&self) -> Restore {
        self.context.client.get("r").await.unwrap().unwrap()
    }

    fn target(&self) -> BackupTarget {
        Ok(self.location.clone())
    }

    async fn run(&self) -> Backup {
        let running = backup::run(&self.context, self.backup().await, self.target(), CancellationToken::new());
        running.await.unwrap();
        self.backup().await
    }

    /// Makes the backup to its end, and then the restore up to where it waits for its operation.
    async fn run_restore(&self) {
        self.run().await;
        for _ in 0..2 {
            let _ = pending_backup::look_after(&self.context, self.backup().await, self.target()).await;
        }
        Box::pin(pending_backup::end(&self.context, self.backup().await, self.target())).await.unwrap();
        let mut world = World::default();
        world.put(MirroredObject::from(self.backup().await));
        world.put(MirroredObject::from(self.location.clone()));
        let origin = Origin::of(&self.restore().await, &world);
        Box::pin(restore::run(&self.context, self.restore().await, origin, CancellationToken::new())).await.unwrap();
    }
}

#[tokio::test]
async fn a_backup_waits_for_its_operations_and_ends_after_them() {
    let ground = Ground::start().await;
    let pending = ground.run().await;
    let status = &pending.status;
    assert_eq!(status.phase, Some(BackupPhase::WaitingForPluginOperations));
    assert_eq!((status.backup_item_operations_attempted, status.completion_timestamp), (1, None));

    let looked = pending_backup::look_after(&ground.context, ground.backup().await, ground.target()).await;
    assert!(matches!(looked, Err(StepError::NotYet(_))), "{looked:?}");
    assert_eq!(ground.backup().await, pending);
    pending_backup::look_after(&ground.context, ground.backup().await, ground.target()).await.unwrap();
    let finalizing = ground.backup().await;
    assert_eq!(finalizing.status.phase, Some(BackupPhase::Finalizing));
    Box::pin(pending_backup::end(&ground.context, finalizing, ground.target())).await.unwrap();
    let ended = ground.backup().await;
    assert_eq!(ended.status.phase, Some(BackupPhase::Completed));
    assert_eq!((ended.status.backup_item_operations_completed, ended.status.completion_timestamp.is_some()), (1, true));
    let store = ground.context.store(&ground.location).await.unwrap();
    let mut record = store.backup("b").await.unwrap().status;
    record.attempt = ended.status.attempt;
    assert_eq!(record, ended.status);
    drop(ground.sandbox);
}

#[tokio::test]
async fn a_server_takes_over_a_stored_backup_that_a_dead_one_has_not_noted() {
    let ground = Ground::start().await;
    let pending = ground.run().await;
    for _ in 0..2 {
        let _ = pending_backup::look_after(&ground.context, pending.clone(), ground.target()).await;
    }
    let finalizing = ground.backup().await;
    Box::pin(pending_backup::end(&ground.context, finalizing.clone(), ground.target())).await.unwrap();
    let ended = ground.backup().await;
    // Its last writes into the cluster were lost, one after the other.
    for (before, step) in [(finalizing, "finish"), (pending, "operations")] {
        let current = ground.backup().await;
        let mut lost = current.clone();
        lost.status = before.status;
        let lost = ground.context.client.change(&current, &lost).await.unwrap();
        match step {
            "finish" => Box::pin(pending_backup::end(&ground.context, lost, ground.target())).await.unwrap(),
            _ => pending_backup::look_after(&ground.context, lost, ground.target()).await.unwrap(),
        };
        assert_eq!(ground.backup().await.status, ended.status, "{step}");
    }
}

impl Ground {
    /// So many hours after everything began.
    fn set_clock(&mut self, hours: i64) {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        self.context.env.clock = ServerClock(Arc::new(move || now));
    }

    /// The location, whose provider is a plugin that somebody has taken away.
    fn away(&self) -> BackupStorageLocation {
        let mut away = self.location.clone();
        away.spec.provider = "gone".into();
        away
    }
}

const AWAY: &str = "there is no provider gone";
const GIVEN_UP: &str = "there is no provider gone; it has been so since 1970-01-01T03:00:00Z: it is not finalized, and its files \
                        stay as they were";

/// Looks at these hours, each with the presence of the provider, the result, and the annotation after the look.
const LOOKS: [(i64, bool, &str, &str); 5] = [
    (1, false, AWAY, "1970-01-01T01:00:00Z"),
    (2, true, "done", ""),
    (3, false, AWAY, "1970-01-01T03:00:00Z"),
    // Its operations have four hours.
    (27, false, AWAY, "1970-01-01T03:00:00Z"),
    (28, false, "done", ""),
];

#[tokio::test]
async fn a_backup_that_waits_ends_when_its_bucket_was_away_for_a_day() {
    let mut ground = Ground::start().await;
    ground.run().await;
    for (hour, is_there, expected, noted) in LOOKS {
        ground.set_clock(hour);
        let location = if is_there { ground.location.clone() } else { ground.away() };
        let looked = pending_backup::look_after(&ground.context, ground.backup().await, Ok(location)).await;
        assert_eq!(looked.map_or_else(|why| why.to_string(), |_| "done".to_owned()), expected, "{hour}");
        let annotations = ground.backup().await.metadata.annotations;
        assert_eq!(annotations.get(ANNOTATION_UNREACHABLE).map_or("", String::as_str), noted, "{hour}");
    }
    let status = ground.backup().await.status;
    let expected = (Some(BackupPhase::PartiallyFailed), GIVEN_UP, 1);
    assert_eq!((status.phase, status.failure_reason.as_str(), status.errors), expected);
}

#[tokio::test]
async fn a_restore_that_waits_ends_when_its_bucket_was_away_for_a_day() {
    let mut ground = Ground::start().await;
    Box::pin(ground.run_restore()).await;
    for (hour, is_there, expected, noted) in LOOKS {
        ground.set_clock(hour);
        let location = if is_there { ground.location.clone() } else { ground.away() };
        let place = Some((ground.backup().await, location));
        let looked = pending_restore::look_after(&ground.context, ground.restore().await, place).await;
        assert_eq!(looked.map_or_else(|why| why.to_string(), |_| "done".to_owned()), expected, "{hour}");
        let annotations = ground.restore().await.metadata.annotations;
        assert_eq!(annotations.get(ANNOTATION_UNREACHABLE).map_or("", String::as_str), noted, "{hour}");
    }
    let status = ground.restore().await.status;
    let expected = (Some(RestorePhase::PartiallyFailed), GIVEN_UP, 1);
    assert_eq!((status.phase, status.failure_reason.as_str(), status.errors), expected);
}

#[tokio::test]
async fn cancelling_a_backup_that_waits_ends_its_operations_and_then_the_backup() {
    let ground = Ground::start().await;
    let pending = ground.run().await;
    let mut cancelled = pending.clone();
    cancelled.spec.cancel = true;
    let cancelled = ground.context.client.change(&pending, &cancelled).await.unwrap();
    pending_backup::look_after(&ground.context, cancelled, ground.target()).await.unwrap();
    assert_eq!(*ground.action.cancelled.lock().unwrap(), ["op-1"]);
    Box::pin(pending_backup::end(&ground.context, ground.backup().await, ground.target())).await.unwrap();
    let ended = ground.backup().await;
    assert_eq!((ended.status.phase, ended.status.errors), (Some(BackupPhase::PartiallyFailed), 1));
    let store = ground.context.store(&ground.location).await.unwrap();
    let results: Results = store.backup_file("b", BackupFile::Results).await.unwrap().unwrap();
    let errors: Vec<&str> = results.errors.messages().collect();
    let expected = " resource: /configmaps name: /job message: /the operation op-1 of the action test/slow has failed error: \
                    /cancelled on request, plugin: test/slow";
    assert_eq!(errors, [expected]);
}

#[tokio::test]
async fn a_restore_waits_for_its_operations_and_ends_after_them() {
    let ground = Ground::start().await;
    Box::pin(ground.run_restore()).await;
    let place = || async { Some((ground.backup().await, ground.location.clone())) };
    let pending = ground.restore().await;
    assert_eq!(pending.status.phase, Some(RestorePhase::WaitingForPluginOperations));
    assert_eq!((pending.status.restore_item_operations_attempted, pending.status.completion_timestamp), (1, None));

    let looked = pending_restore::look_after(&ground.context, ground.restore().await, place().await).await;
    assert!(matches!(looked, Err(StepError::NotYet(_))), "{looked:?}");
    pending_restore::look_after(&ground.context, ground.restore().await, place().await).await.unwrap();
    assert_eq!(ground.restore().await.status.phase, Some(RestorePhase::Finalizing));
    Box::pin(pending_restore::end(&ground.context, ground.restore().await, place().await)).await.unwrap();
    let ended = ground.restore().await.status;
    assert_eq!((ended.phase, ended.restore_item_operations_completed), (Some(RestorePhase::Completed), 1));
    assert!(ended.completion_timestamp.is_some());
}

#[tokio::test]
async fn the_end_of_a_restore_is_a_span_of_its_own() {
    let ground = Ground::start().await;
    Box::pin(ground.run_restore()).await;
    let place = || async { Some((ground.backup().await, ground.location.clone())) };
    let spans = Spans::note(TRACE_TARGET);
    for _ in 0..2 {
        let _ = pending_restore::look_after(&ground.context, ground.restore().await, place().await).await;
    }
    assert_eq!(spans.take(), [""; 0], "a look is none");
    Box::pin(pending_restore::end(&ground.context, ground.restore().await, place().await)).await.unwrap();
    assert_eq!(ground.restore().await.status.phase, Some(RestorePhase::Completed));
    assert_eq!(spans.take(), ["restore", "restore/finalize"]);
}

/// An action of Velero's CSI plugin.
struct OfCsi;

#[async_trait]
impl RestoreItemAction for OfCsi {
    fn name(&self) -> &str {
        "velero.io/csi-pvc-restorer"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::default()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        Ok(RestoreItemOutput::with(input.item))
    }
}

#[tokio::test]
async fn actions_of_the_csi_plugin_are_given_to_operations_with_the_feature() {
    let mut ground = Ground::start().await;
    let restore_item: Vec<Arc<dyn RestoreItemAction>> = vec![Arc::new(OfCsi), ground.action.clone()];
    ground.context.env.extensions = Arc::new(FixedActions(Actions { restore_item, ..Actions::default() }));
    for (csi, expected) in [(true, &["velero.io/csi-pvc-restorer", "test/slow"][..]), (false, &["test/slow"])] {
        ground.context.options.backup.features.csi = csi;
        let clock = Arc::clone(&ground.context.env.clock.0);
        let operation = Operation::new(clock, "restore=velero/r", std::env::temp_dir());
        let actions = ground.context.actions(&operation.journal, SnapshotLocations::Named(&[])).await.unwrap();
        let names: Vec<&str> = actions.restore_item.iter().map(|action| action.name()).collect();
        assert_eq!(names, expected);
    }
}
