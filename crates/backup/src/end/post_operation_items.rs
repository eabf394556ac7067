//! Saves objects again whose operations have ended (velero: pkg/controller/backup_finalizer_controller.go): as they are
//! in the cluster now, with their actions, past all filters, without hooks and without volumes.

use crate::action_lane::body_store::BodyStore;
use crate::action_lane::fetch::{ItemReceiver, named, tell_absent};
use crate::action_lane::index::Index;
use crate::action_lane::lane_items::LaneItems;
use crate::action_lane::save::{SaveContext, SavePass, Worker};
use crate::action_lane::save_report::AdditionalItem;
use crate::collect::tally::Tally;
use crate::collect::terminating::TerminatingObjects;
use crate::env::Env;
use crate::error::{BackupError, FinalizeError};
use crate::output::entry::{ArchiveEntry, Entries, FAILED};
use crate::output::entry_sender::EntrySender;
use crate::request::lane::Lane;
use crate::request::scope::{HookScope, Scope, VolumeScope};
use crate::stage_error::{ActionRefusal, StageError};
use crate::volumes::snapshots::csi_snapshots_of;
use lifeboat_api::{Backup, BackupSpec};
use lifeboat_object::{Item, ObjectKey, ResultScope, Severity};
use lifeboat_select::BackupFilter;
use lifeboat_store::{Broken, StreamReceiver, stream};
use lifeboat_volume::csi::{SNAPSHOT_API, SnapshotTypes, served_by};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Name of this stage in messages.
const SAVING_AGAIN: &str = "saving objects again after their operations";
/// The longest time that all of it may take: an action that hangs must not keep the backup from its end.
const LONGEST: Duration = Duration::from_secs(600);
/// Rounds in which objects bring further ones.
const ROUNDS: usize = 16;
/// Batches between saving and gathering.
const WAITING: usize = 4;

/// Reads these objects and saves them, each with the object whose operation names it. Objects that cannot be saved are
/// errors in the journal, and the others go on.
pub(crate) async fn save_again(
    wanted: BTreeMap<ObjectKey, ObjectKey>,
    record: &Backup,
    env: &Env,
) -> Result<Vec<ArchiveEntry>, FinalizeError> {
    let is_snapshot = |key: &ObjectKey| key.resource.group == SNAPSHOT_API;
    let has_snapshots = wanted.keys().any(is_snapshot);
    let scope = match scope(record, has_snapshots, env).await {
        Ok(scope) => Arc::new(scope),
        Err(NoScope::Cluster(e)) => return Err(e),
        Err(NoScope::Actions(e)) => {
            env.operation
                .journal
                .error(&ResultScope::Velero, format!("no object is saved again after its operation: {e}"));
            return Ok(Vec::new());
        }
    };
    let context = SaveContext {
        actions: scope.lane.backup_item(Arc::default(), Arc::default()),
        scope,
        env: env.clone(),
        tally: Arc::new(Tally::default()),
        items: LaneItems::new(Index::default(), BodyStore::new(0, &env.operation.scratch)),
        verdicts: Arc::default(),
        turn: SavePass::AfterOperations,
    };
    let (sender, entries) = stream(WAITING, SAVING_AGAIN);
    let worker = Worker::new(Arc::new(context), EntrySender::one(&sender, SAVING_AGAIN));
    sender.end();
    let again = Again { env: env.clone(), worker, asked: BTreeMap::new() };
    let mut saved = Vec::new();
    let ended = tokio::select! {
        (ended, gathered) = async { tokio::join!(again.run(wanted), gather(entries, &mut saved)) } => {
            ended.and(gathered.map_err(StageError::StageDied))
        }
        () = sleep(LONGEST) => {
            let message = format!(
                "{} objects were saved again after their operations within {} s, and the others stand in the archive as before: \
                 make another backup",
                saved.len(),
                LONGEST.as_secs()
            );
            env.operation.journal.error(&ResultScope::Velero, message);
            Ok(())
        }
        () = env.operation.cancel.cancelled() => Err(StageError::OperationEnded),
    };
    match ended {
        Ok(()) => Ok(saved),
        Err(StageError::OperationEnded) => Err(FinalizeError::Stopped),
        Err(StageError::StageDied(broken)) => Err(FinalizeError::Worker(broken.0)),
        Err(StageError::ActionRefused(refusal)) => {
            let ActionRefusal { action, object, message } = *refusal;
            let error = format!("{action}: {message}: no further object is saved again");
            env.operation.journal.item(Severity::Error, &object, FAILED, Some(&error));
            Ok(saved)
        }
    }
}

/// The reason for which no object can be saved again.
enum NoScope {
    /// The cluster did not answer: that may pass.
    Cluster(FinalizeError),
    /// No action can be called.
    Actions(BackupError),
}

impl<E: Into<FinalizeError>> From<E> for NoScope {
    fn from(error: E) -> Self {
        Self::Cluster(error.into())
    }
}

/// The scope of a save after operations, which includes everything.
async fn scope(record: &Backup, has_snapshots: bool, env: &Env) -> Result<Scope, NoScope> {
    let catalog = env.cluster.discover().await?;
    let filter = BackupFilter::new(&BackupSpec::default(), None, &catalog, &[]);
    // Types that only this discovery lacks would be taken for snapshots that are gone.
    let types = if has_snapshots { served_by(&env.cluster, &catalog).await? } else { SnapshotTypes::of(&catalog) };
    let lane = Lane::new(&catalog, &env.actions, types.map(|types| csi_snapshots_of(record, types, env)));
    match (filter, lane) {
        (Ok(filter), Ok(lane)) => {
            Ok(Scope {
                backup: record.clone(),
                catalog,
                filter,
                namespaces: Vec::new(),
                lane,
                volumes: VolumeScope::default(),
                // What is saved again is not quiesced again: its snapshots are taken.
                hooks: HookScope::default(),
                terminating: TerminatingObjects::default(),
            })
        }
        (_, Err(e)) => Err(NoScope::Actions(e)),
        (Err(e), Ok(_)) => {
            Err(NoScope::Actions(BackupError::Invalid(crate::request::settings::ValidationErrors(vec![e.to_string()]))))
        }
    }
}

async fn gather(mut entries: StreamReceiver<Entries>, saved: &mut Vec<ArchiveEntry>) -> Result<(), Broken> {
    while let Some(Entries { entries, .. }) = entries.next().await? {
        saved.extend(entries);
    }
    Ok(())
}

struct Again {
    env: Env,
    worker: Worker,
    /// Objects that are being read, each with the object that needs it.
    asked: BTreeMap<ObjectKey, ObjectKey>,
}

impl Again {
    async fn run(mut self, mut wanted: BTreeMap<ObjectKey, ObjectKey>) -> Result<(), StageError> {
        let scope = Arc::clone(&self.worker.context().scope);
        let env = self.env.clone();
        for _ in 0..ROUNDS {
            self.asked = wanted;
            let keys: Vec<ObjectKey> = self.asked.keys().cloned().collect();
            named(keys, &scope, &env, &mut self).await?;
            let additional_items = std::mem::take(&mut self.worker.report.additional_items);
            wanted = additional_items.into_iter().map(|(key, AdditionalItem { parent, .. })| (key, parent)).collect();
            if wanted.is_empty() {
                break;
            }
        }
        for (key, parent) in wanted {
            let error =
                format!("{parent} needs it, and is itself needed, and so on, {ROUNDS} deep: it stands as before");
            env.operation.journal.item(Severity::Error, &key, FAILED, Some(&error));
        }
        self.worker.end().await.map(drop)
    }
}

impl ItemReceiver for Again {
    async fn take(&mut self, item: Item) -> Result<(), StageError> {
        self.worker.found(item, true).await?;
        // What is saved counts, also when the time is over before the next one is.
        self.worker.out.flush().await?;
        Ok(())
    }

    fn absent(&mut self, key: ObjectKey) {
        if let Some(parent) = self.asked.get(&key) {
            tell_absent(&key, parent, &self.env);
        }
    }

    fn unread(&mut self, _: ObjectKey) {}
}
