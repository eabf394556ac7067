//! Saves one object of the action lane: runs its actions in their order, saves the objects that they name, then the
//! object itself (velero: pkg/backup/item_backupper.go).

use crate::action_lane::action_calls::{listen, may_speak, run_actions};
use crate::action_lane::fetch::{failed, get, tell_absent};
use crate::action_lane::index::{NotIndexed, RelationFacts};
use crate::action_lane::item_states::{ItemId, ItemState};
use crate::action_lane::lane_items::LaneItems;
use crate::action_lane::save_report::{AdditionalItem, SaveReport};
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::hook::QuiescedPod;
use crate::output::entry::{ArchiveEntry, FAILED, tell_too_deep, whole};
use crate::output::entry_sender::EntrySender;
use crate::output::limits::tell_too_large;
use crate::request::lane::ScopedAction;
use crate::request::scope::Scope;
use crate::stage_error::{ActionRefusal, StageError};
use crate::volumes::policy_exclusions::is_excluded_by_policy;
use futures::future::BoxFuture;
use lifeboat_action::{ActionError, BackupItemAction, BackupItemOutput};
use lifeboat_api::{NamespacedName, OperationPhase, OperationStatus, Time};
use lifeboat_archive::operations::{BackupOperation, BackupOperationSpec};
use lifeboat_hook::HookPod;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, Severity, is_too_deep};
use lifeboat_volume::{Method, Verdicts};
use serde_json::Value;
use std::sync::Arc;

/// The most levels of additional items of additional items; Velero's own are three deep.
const DEEPEST: usize = 64;
/// Reason in the results for leaving out an object that its actions do not want.
const SKIPPED: &str = "an action leaves it out (annotation velero.io/skip-from-backup)";

/// State that all workers of the stage share. Nothing of it changes but the states of items.
pub(crate) struct SaveContext {
    pub(crate) scope: Arc<Scope>,
    pub(crate) env: Env,
    pub(crate) tally: Arc<Tally>,
    pub(crate) actions: Vec<ScopedAction<dyn BackupItemAction>>,
    pub(crate) items: LaneItems,
    /// Decisions about volumes; empty when objects are saved again.
    pub(crate) verdicts: Arc<Verdicts>,
    pub(crate) turn: SavePass,
}

/// Tells the first saving of objects from saving them again after operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavePass {
    /// The backup is being made.
    First,
    /// Operations have ended, and objects that they name are saved again. What actions name must be saved with them, and they
    /// may begin no further operation, for the backup would never end.
    AfterOperations,
}

impl SaveContext {
    /// The related objects that each of these actions names, if all of them see at a glance that they leave the object
    /// as it is.
    fn named_if_unchanged<'a>(
        &self,
        item: &Item,
        actions: &[&'a ScopedAction<dyn BackupItemAction>],
    ) -> Option<Vec<(&'a str, Vec<ObjectKey>)>> {
        if may_speak(&item.body) {
            return None;
        }
        let glance = |action: &&'a ScopedAction<dyn BackupItemAction>| {
            Some((action.action.name(), action.action.named_if_unchanged(item, &self.scope.backup)?))
        };
        actions.iter().map(glance).collect()
    }

    /// Returns true if this object must wait for its own turn, though another one needs it: a claim whose snapshot
    /// begins only when the hooks of its pods have run, and which has to name the snapshot.
    fn waits_for_hooks(&self, key: &ObjectKey) -> bool {
        let (Some(csi), Some(namespace)) = (&self.scope.lane.csi, &key.namespace) else { return false };
        if self.turn != SavePass::First || key.resource != GroupResource::new("", "persistentvolumeclaims") {
            return false;
        }
        let claim = NamespacedName::new(namespace, &key.name);
        let decided = self.verdicts.of_claim(&claim);
        decided.is_some_and(|decided| matches!(decided.verdict.method, Method::CsiSnapshot { .. }))
            && !csi.has_begun(&claim)
    }
}

/// The result of the stage.
pub(crate) struct ActionLaneResult {
    pub(crate) context: Arc<SaveContext>,
    pub(crate) report: SaveReport,
}

/// Saves objects, one after the other.
pub(crate) struct Worker {
    context: Arc<SaveContext>,
    pub(crate) out: EntrySender,
    pub(crate) report: SaveReport,
}

impl Worker {
    pub(crate) fn new(context: Arc<SaveContext>, out: EntrySender) -> Self {
        Self { context, out, report: SaveReport::default() }
    }

    /// Creates a worker that goes on where the stage has ended.
    pub(crate) fn taking_over(acted: ActionLaneResult, out: EntrySender) -> Self {
        Self { context: acted.context, out, report: acted.report }
    }

    pub(crate) fn context(&self) -> &SaveContext {
        &self.context
    }

    /// Sends the remaining entries, and gives the result.
    pub(crate) async fn end(self) -> Result<ActionLaneResult, StageError> {
        self.out.end().await?;
        Ok(ActionLaneResult { context: self.context, report: self.report })
    }

    /// Saves an object of the index, unless a worker has begun it before.
    pub(crate) async fn indexed(&mut self, number: u32) -> Result<ItemState, StageError> {
        self.of_index(number, 0).await
    }

    /// Saves an object that was read for this and is counted, unless a worker has begun it before. One that must be
    /// included is saved whatever the filters say.
    pub(crate) async fn found(&mut self, item: Item, must_include: bool) -> Result<ItemState, StageError> {
        let who = self.context.items.id(&item.digest());
        if let Some(before) = self.context.items.states.begin(who, must_include) {
            self.context.tally.settled(1);
            return Ok(before);
        }
        self.judged(item, must_include, 0).await
    }

    /// Runs the hooks that come before a block in those of its pods that are not saved yet. A pod whose hooks refuse it is
    /// settled as failed.
    pub(crate) async fn quiesce(&mut self, block: &[u32]) -> Result<Vec<QuiescedPod>, StageError> {
        let context = Arc::clone(&self.context);
        let (Some(commands), mut all) = (&context.scope.hooks.commands, Vec::new()) else { return Ok(Vec::new()) };
        for number in block {
            let Some(record) = context.items.index.record(*number) else { continue };
            let who = ItemId::Indexed(*number);
            if !matches!(record.facts, RelationFacts::Pod { may_have_hooks: true, .. })
                || context.items.states.of(who).is_some()
            {
                continue;
            }
            if context.env.operation.cancel.is_cancelled() {
                return Err(StageError::OperationEnded);
            }
            // What cannot be read is told when it is saved.
            let Some(item) = context.items.read(record, &context.env).await else { continue };
            let pod = HookPod::of(&serde_json::from_slice(&item.body).unwrap_or_default());
            let hooks = context.scope.hooks.rules.of(&pod);
            if hooks.is_empty() {
                continue;
            }
            let quiesced = commands.quiesce(pod, hooks, &mut self.report.hooks).await;
            if quiesced.is_refused && context.items.states.begin(who, false).is_none() {
                self.settle(who, ItemState::Failed);
            }
            all.push(quiesced);
        }
        Ok(all)
    }

    /// Runs the hooks that come after a block.
    pub(crate) async fn thaw(&mut self, quiesced: Vec<QuiescedPod>) {
        let context = Arc::clone(&self.context);
        let Some(commands) = &context.scope.hooks.commands else { return };
        commands.thaw_all(quiesced, &mut self.report.hooks).await;
    }

    async fn of_index(&mut self, number: u32, depth: usize) -> Result<ItemState, StageError> {
        let context = Arc::clone(&self.context);
        let Some(record) = context.items.index.record(number) else { return Ok(ItemState::Absent) };
        let who = ItemId::Indexed(number);
        if let Some(before) = context.items.states.begin(who, false) {
            return Ok(before);
        }
        match context.items.read(record, &context.env).await {
            Some(item) => self.item(item, depth).await,
            None => Ok(self.settle(who, ItemState::Failed)),
        }
    }

    /// Notes what became of an object that does not go into the archive.
    fn settle(&mut self, who: ItemId, state: ItemState) -> ItemState {
        self.context.tally.settled(1);
        self.context.items.states.settle(who, state);
        state
    }

    /// Saves an object that the filters have not seen.
    async fn judged(&mut self, item: Item, must_include: bool, depth: usize) -> Result<ItemState, StageError> {
        if let Err(reason) = self.context.scope.includes(&item, must_include) {
            *self.report.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
            return Ok(self.settle(self.context.items.id(&item.digest()), ItemState::LeftOut));
        }
        self.report.used.note(&item);
        self.item(item, depth).await
    }

    /// Saves an object that is begun and in scope.
    fn item(&mut self, item: Item, depth: usize) -> BoxFuture<'_, Result<ItemState, StageError>> {
        Box::pin(async move {
            let context = Arc::clone(&self.context);
            if context.env.operation.cancel.is_cancelled() {
                return Err(StageError::OperationEnded);
            }
            let who = context.items.id(&item.digest());
            let entry = match self.run_all(&item, depth).await {
                Ok(ItemChange::Unchanged) => ArchiveEntry::as_sent(item),
                Ok(ItemChange::Changed(object)) => ArchiveEntry::changed(item, object),
                Ok(ItemChange::LeftOut) => return Ok(self.settle(who, ItemState::LeftOut)),
                Err(SaveError::Item(error)) => {
                    context.env.operation.journal.item(Severity::Error, &item.key(), FAILED, Some(&error));
                    return Ok(self.settle(who, ItemState::Failed));
                }
                Err(SaveError::Stage(error)) => return Err(error),
            };
            self.out.take(entry).await?;
            context.items.states.settle(who, ItemState::Saved);
            Ok(ItemState::Saved)
        })
    }

    /// Runs the actions for an object, and saves the objects that they name.
    async fn run_all(&mut self, item: &Item, depth: usize) -> Result<ItemChange, SaveError> {
        let context = Arc::clone(&self.context);
        let resource = item.resource.group_resource();
        let actions = context.actions.iter().filter(|action| action.applies(&resource, &item.head));
        let actions: Vec<_> =
            actions.filter(|action| !is_excluded_by_policy(action.action.name(), item, &context.verdicts)).collect();
        tell_too_large(item, &context.env.operation.journal);
        if is_too_deep(&item.body) {
            tell_too_deep(&item.key(), &context.env.operation.journal);
            return Ok(ItemChange::Unchanged);
        }
        if let Some(named) = context.named_if_unchanged(item, &actions) {
            for (action, keys) in named {
                let named = NamedItems { action, keys, must_include: false };
                Box::pin(self.all_additional(item, named, depth)).await?;
            }
            self.report.volumes.note(item, &context.verdicts);
            return Ok(ItemChange::Unchanged);
        }
        let mut object = whole(&item.resource, &item.body).map_err(|e| SaveError::Item(e.to_string()))?;
        let mut is_changed = false;
        for action in actions {
            let mut answer = Box::pin(self.act(item, object, is_changed, &*action.action)).await?;
            let (said, action) = (listen(&mut answer.item), action.action.name());
            if said.skip {
                return Ok(self.skipped(item, action));
            }
            is_changed |= answer.is_changed || said.is_changed;
            self.note_operation(item, action, &answer).map_err(SaveError::Item)?;
            object = answer.item;
            let named = NamedItems { action, keys: answer.additional_items, must_include: said.must_include };
            Box::pin(self.all_additional(item, named, depth)).await?;
        }
        self.report.volumes.note(item, &context.verdicts);
        Ok(if is_changed { ItemChange::Changed(object) } else { ItemChange::Unchanged })
    }

    /// Saves the objects that an action names for an object, before that.
    async fn all_additional(&mut self, item: &Item, named: NamedItems<'_>, depth: usize) -> Result<(), SaveError> {
        let NamedItems { action, keys, must_include } = named;
        if depth == DEEPEST && !keys.is_empty() {
            let error = format!("it is an additional item of an additional item, and so on, {DEEPEST} deep");
            return Err(SaveError::Item(format!("{error}, and has further ones")));
        }
        let must_include = must_include || self.context.turn == SavePass::AfterOperations;
        for key in keys {
            let additional_item = AdditionalItem { parent: item.key(), must_include };
            if self.additional(&key, additional_item, depth + 1).await? == ItemState::Failed {
                return Err(SaveError::Item(format!("{key}, which {action} saves with it, failed")));
            }
        }
        Ok(())
    }

    /// Calls one action.
    async fn act(
        &self,
        item: &Item,
        object: Value,
        is_changed: bool,
        action: &dyn BackupItemAction,
    ) -> Result<BackupItemOutput, SaveError> {
        let (backup, cancel) = (&self.context.scope.backup, &self.context.env.operation.cancel);
        let kept = is_changed.then(|| object.clone());
        let again = || kept.clone().unwrap_or_else(|| whole(&item.resource, &item.body).unwrap_or_default());
        let answer = tokio::select! {
            () = cancel.cancelled() => return Err(StageError::OperationEnded.into()),
            answer = run_actions(action, object, again, backup, cancel) => answer,
        };
        let refused = |error: ActionError| ActionRefusal {
            action: action.name().to_owned(),
            object: item.key(),
            message: error.message,
        };
        match answer {
            // What is no object would stand in the archive, where nothing could be made of it.
            Ok(answer) if !answer.item.is_object() => {
                Err(SaveError::Item(format!("{} answered with no object", action.name())))
            }
            Ok(answer) => Ok(answer),
            Err(error) if error.is_fatal() => Err(StageError::ActionRefused(Box::new(refused(error))).into()),
            Err(error) => Err(SaveError::Item(format!("{}: {error}", action.name()))),
        }
    }

    fn skipped(&mut self, item: &Item, action: &str) -> ItemChange {
        let key = item.key().to_string();
        self.context
            .env
            .operation
            .journal
            .info("An action leaves out an object", &[("object", &key), ("action", action)]);
        *self.report.left_out.entry((item.resource.group_resource(), SKIPPED)).or_default() += 1;
        ItemChange::LeftOut
    }

    /// Notes the operation that an action has begun, if any; the error is that of the object.
    fn note_operation(&mut self, item: &Item, action: &str, answer: &BackupItemOutput) -> Result<(), String> {
        if answer.operation_id.is_empty() {
            return Ok(());
        }
        if self.context.turn == SavePass::AfterOperations {
            let id = &answer.operation_id;
            return Err(format!(
                "{action} has begun the operation {id} for an object that is saved again after one: the backup would never end"
            ));
        }
        let metadata = &self.context.scope.backup.metadata;
        let post = (!answer.post_operation_items.is_empty())
            .then(|| answer.post_operation_items.iter().map(Into::into).collect());
        let created = Some(Time::new((self.context.env.operation.clock)()));
        self.report.operations.push(BackupOperation {
            spec: BackupOperationSpec {
                backup_name: metadata.name.clone(),
                backup_uid: metadata.uid.clone(),
                backup_item_action: action.to_owned(),
                resource_identifier: (&item.key()).into(),
                operation_id: answer.operation_id.clone(),
                post_operation_items: post,
            },
            status: OperationStatus { phase: Some(OperationPhase::New), created, ..OperationStatus::default() },
        });
        Ok(())
    }

    /// Saves an object that an action names, before the one that it was called for. If no action looks at its
    /// type, this only notes that it is wanted: a later stage fetches it unless the lists have brought it.
    async fn additional(
        &mut self,
        key: &ObjectKey,
        additional_item: AdditionalItem,
        depth: usize,
    ) -> Result<ItemState, StageError> {
        let context = Arc::clone(&self.context);
        let looked_at = context.scope.catalog.find(&key.resource).filter(|resource| context.scope.lane.takes(resource));
        let Some(resource) = looked_at else {
            self.report.want(key.clone(), additional_item);
            return Ok(ItemState::Begun);
        };
        let digest = key.digest();
        if let Some(number) = context.items.index.number(&digest) {
            if context.waits_for_hooks(key) {
                return Ok(ItemState::Begun);
            }
            return Box::pin(self.of_index(number, depth)).await;
        }
        let known =
            context.items.states.of(ItemId::NotIndexed(digest)).or(match context.items.index.outside(&digest) {
                Some(NotIndexed::Absent) => Some(ItemState::Absent),
                Some(NotIndexed::LeftOut) => Some(ItemState::LeftOut),
                Some(NotIndexed::Unread) => Some(ItemState::Failed),
                None => None,
            });
        match known {
            Some(ItemState::Absent) => return Ok(self.tell_absent(key, &additional_item.parent)),
            Some(ItemState::LeftOut) if additional_item.must_include => {}
            Some(known) => return Ok(known),
            None if !additional_item.must_include && !context.scope.can_include(resource, key.namespace.as_deref()) => {
                return Ok(ItemState::LeftOut);
            }
            None => {}
        }
        self.save_not_indexed(resource, key, &additional_item, depth).await
    }

    /// Reads an object that did not come before.
    async fn save_not_indexed(
        &mut self,
        resource: &Arc<ApiResource>,
        key: &ObjectKey,
        additional_item: &AdditionalItem,
        depth: usize,
    ) -> Result<ItemState, StageError> {
        let context = Arc::clone(&self.context);
        let who = ItemId::NotIndexed(key.digest());
        if let Some(before) = context.items.states.begin(who, additional_item.must_include) {
            return Ok(before);
        }
        let read = tokio::select! {
            () = context.env.operation.cancel.cancelled() => return Err(StageError::OperationEnded),
            read = get(resource, key, &context.env) => read,
        };
        match read {
            Ok(Some(item)) if item.key() == *key => {
                context.tally.came(1);
                context.env.operation.progress.found(1);
                self.judged(item, additional_item.must_include, depth).await
            }
            Ok(Some(_)) => {
                failed(key, &OtherObject, &context.env);
                context.items.states.settle(who, ItemState::Failed);
                Ok(ItemState::Failed)
            }
            Ok(None) => {
                context.items.states.settle(who, ItemState::Absent);
                Ok(self.tell_absent(key, &additional_item.parent))
            }
            Err(_) => {
                context.items.states.settle(who, ItemState::Failed);
                Ok(ItemState::Failed)
            }
        }
    }

    fn tell_absent(&self, key: &ObjectKey, parent: &ObjectKey) -> ItemState {
        tell_absent(key, parent, &self.context.env);
        ItemState::Absent
    }
}

/// The related objects that an action names for an object.
struct NamedItems<'a> {
    action: &'a str,
    keys: Vec<ObjectKey>,
    /// Past all filters.
    must_include: bool,
}

/// The outcome of the actions for an object that can be saved.
enum ItemChange {
    Unchanged,
    Changed(Value),
    /// An action wants it left out.
    LeftOut,
}

/// The reason for which an object is not saved.
enum SaveError {
    /// An error of this object: it is in the results, and the others go on.
    Item(String),
    /// The stage ends.
    Stage(StageError),
}

impl From<StageError> for SaveError {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

/// The answer of an API server that was asked for something else.
#[derive(Debug, thiserror::Error)]
#[error("the API server answered with another object")]
struct OtherObject;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
