//! Saves one object of the action lane: runs its actions in their order, saves the objects that they name, then the
//! object itself (velero: pkg/backup/item_backupper.go).

use crate::action_lane::action_calls::{listen, may_speak, run_actions};
use crate::action_lane::body_store::BodyStore;
use crate::action_lane::fetch::{failed, get, tell_absent};
use crate::action_lane::index::{Body, Index, NotIndexed, Record, RelationFacts};
use crate::action_lane::item_states::{ItemId, ItemState, ItemStates};
use crate::action_lane::save_report::{AdditionalItem, SaveReport};
use crate::actions::service_account::Digest;
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
use lifeboat_api::{OperationPhase, OperationStatus, Time};
use lifeboat_archive::operations::{BackupOperation, BackupOperationSpec};
use lifeboat_hook::HookPod;
use lifeboat_object::{ApiResource, GroupResource, Item, ObjectKey, ResultScope, Severity, is_too_deep};
use lifeboat_volume::facts::ClaimKey;
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
    pub(crate) index: Index,
    pub(crate) body_store: BodyStore,
    pub(crate) states: ItemStates,
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
    /// Returns true if the object is in the backup, or an error in the results.
    pub(crate) fn has_seen(&self, key: &ObjectKey) -> bool {
        matches!(self.states.of(self.who(&key.digest())), Some(ItemState::Saved | ItemState::Failed))
    }

    /// Reads an object of the index before its turn. An object that cannot be read is reported in its turn.
    pub(crate) async fn look_at(&self, number: u32) -> Result<Value, String> {
        let record = self.index.record(number).ok_or("it is not in the index")?;
        let body = match &record.body {
            Body::Stored(place) => self.body_store.take(place).await.map_err(|e| e.to_string())?,
            Body::Cluster(key) => {
                let read = self.env.cluster.get(&record.resource, key.namespace.as_deref(), &key.name).await;
                read.map_err(|e| e.to_string())?.ok_or("it was deleted while it waited for its turn")?
            }
        };
        whole(&record.resource, &body).map_err(|e| e.to_string())
    }

    /// An object of the index; `None` when it is lost, which stands in the results.
    async fn read(&self, record: &Record) -> Option<Item> {
        let journal = &self.env.operation.journal;
        let place = match &record.body {
            Body::Stored(place) => place,
            Body::Cluster(key) => {
                let read = get(&record.resource, key, &self.env).await.ok()?;
                if read.is_none() {
                    let error = "it was deleted while it waited for its turn";
                    journal.item(Severity::Error, key, FAILED, Some(error));
                }
                return read;
            }
        };
        let body = self.body_store.take(place).await.map_err(|e| e.to_string());
        let item = body.and_then(|body| Item::parse(Arc::clone(&record.resource), body).map_err(|e| e.to_string()));
        let lost = |e: &String| {
            let (resource, folder) = (record.resource.group_resource(), self.body_store.folder());
            let text = format!("1 object of {resource} is lost: reading it back from {folder}: {e}");
            journal.error(&ResultScope::Velero, text);
        };
        item.inspect_err(lost).ok()
    }

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
        let claim = ClaimKey { namespace: namespace.clone(), name: key.name.clone() };
        let decided = self.verdicts.of_claim(&claim);
        decided.is_some_and(|decided| matches!(decided.verdict.method, Method::CsiSnapshot { .. }))
            && !csi.has_begun(&claim)
    }

    fn who(&self, digest: &Digest) -> ItemId {
        self.index.number(digest).map_or(ItemId::NotIndexed(*digest), ItemId::Indexed)
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
        let who = self.context.who(&item.digest());
        if let Some(before) = self.context.states.begin(who, must_include) {
            self.context.tally.settled(1);
            return Ok(before);
        }
        self.judged(item, must_include, 0).await
    }

    /// Runs the hooks that come before a block in those of its pods that are not saved yet. A pod whose hooks refuse it is
    /// settled as failed.
    pub(crate) async fn quiesce(&mut self, block: &[u32]) -> Result<Vec<QuiescedPod>, StageError> {
        let context = Arc::clone(&self.context);
        let (Some(commands), mut all) = (&context.scope.commands, Vec::new()) else { return Ok(Vec::new()) };
        for number in block {
            let Some(record) = context.index.record(*number) else { continue };
            let who = ItemId::Indexed(*number);
            if !matches!(record.facts, RelationFacts::Pod { may_have_hooks: true, .. })
                || context.states.of(who).is_some()
            {
                continue;
            }
            if context.env.operation.cancel.is_cancelled() {
                return Err(StageError::OperationEnded);
            }
            // What cannot be read is told when it is saved.
            let Some(item) = context.read(record).await else { continue };
            let pod = HookPod::of(&serde_json::from_slice(&item.body).unwrap_or_default());
            let hooks = context.scope.hooks.of(&pod);
            if hooks.is_empty() {
                continue;
            }
            let quiesced = commands.quiesce(pod, hooks, &mut self.report.hooks).await;
            if quiesced.is_refused && context.states.begin(who, false).is_none() {
                self.settle(who, ItemState::Failed);
            }
            all.push(quiesced);
        }
        Ok(all)
    }

    /// Runs the hooks that come after a block.
    pub(crate) async fn thaw(&mut self, quiesced: Vec<QuiescedPod>) {
        let context = Arc::clone(&self.context);
        let Some(commands) = &context.scope.commands else { return };
        commands.thaw_all(quiesced, &mut self.report.hooks).await;
    }

    async fn of_index(&mut self, number: u32, depth: usize) -> Result<ItemState, StageError> {
        let context = Arc::clone(&self.context);
        let Some(record) = context.index.record(number) else { return Ok(ItemState::Absent) };
        let who = ItemId::Indexed(number);
        if let Some(before) = context.states.begin(who, false) {
            return Ok(before);
        }
        match context.read(record).await {
            Some(item) => self.item(item, depth).await,
            None => Ok(self.settle(who, ItemState::Failed)),
        }
    }

    /// Notes what became of an object that does not go into the archive.
    fn settle(&mut self, who: ItemId, state: ItemState) -> ItemState {
        self.context.tally.settled(1);
        self.context.states.settle(who, state);
        state
    }

    /// Saves an object that the filters have not seen.
    async fn judged(&mut self, item: Item, must_include: bool, depth: usize) -> Result<ItemState, StageError> {
        if let Err(reason) = self.context.scope.includes(&item, must_include) {
            *self.report.left_out.entry((item.resource.group_resource(), reason)).or_default() += 1;
            return Ok(self.settle(self.context.who(&item.digest()), ItemState::LeftOut));
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
            let who = context.who(&item.digest());
            let entry = match self.entry(item, depth).await? {
                SaveOutcome::Entry(entry) => entry,
                SaveOutcome::Nothing(state) => return Ok(self.settle(who, state)),
            };
            self.out.take(entry).await?;
            context.states.settle(who, ItemState::Saved);
            Ok(ItemState::Saved)
        })
    }

    async fn entry(&mut self, item: Item, depth: usize) -> Result<SaveOutcome, StageError> {
        let context = Arc::clone(&self.context);
        let resource = item.resource.group_resource();
        let actions = context.actions.iter().filter(|action| action.applies(&resource, &item.head));
        let actions: Vec<_> =
            actions.filter(|action| !is_excluded_by_policy(action.action.name(), &item, &context.verdicts)).collect();
        tell_too_large(&item, &context.env.operation.journal);
        if is_too_deep(&item.body) {
            tell_too_deep(&item.key(), &context.env.operation.journal);
            return Ok(SaveOutcome::Entry(ArchiveEntry::as_sent(item)));
        }
        if let Some(named) = context.named_if_unchanged(&item, &actions) {
            for (action, keys) in named {
                let named = NamedItems { action, keys, must_include: false };
                if let Err(error) = Box::pin(self.all_additional(&item, named, depth)).await? {
                    return Ok(self.fails(&item, &error));
                }
            }
            self.report.volumes.note(&item, &context.verdicts);
            return Ok(SaveOutcome::Entry(ArchiveEntry::as_sent(item)));
        }
        let mut object = match whole(&item.resource, &item.body) {
            Ok(object) => object,
            Err(e) => return Ok(self.fails(&item, &e.to_string())),
        };
        let mut is_changed = false;
        for action in actions {
            match Box::pin(self.act(&item, object, is_changed, &*action.action)).await? {
                Err(error) => return Ok(self.fails(&item, &error)),
                Ok(mut answer) => {
                    let (said, action) = (listen(&mut answer.item), action.action.name());
                    if said.skip {
                        return Ok(self.skipped(&item, action));
                    }
                    is_changed |= answer.is_changed || said.is_changed;
                    if let Err(error) = self.note_operation(&item, action, &answer) {
                        return Ok(self.fails(&item, &error));
                    }
                    object = answer.item;
                    let named = NamedItems { action, keys: answer.additional_items, must_include: said.must_include };
                    if let Err(error) = Box::pin(self.all_additional(&item, named, depth)).await? {
                        return Ok(self.fails(&item, &error));
                    }
                }
            }
        }
        self.report.volumes.note(&item, &context.verdicts);
        Ok(SaveOutcome::Entry(if is_changed {
            ArchiveEntry::changed(item, object)
        } else {
            ArchiveEntry::as_sent(item)
        }))
    }

    /// Saves the objects that an action names for an object, before that; the inner error is that of the object.
    async fn all_additional(
        &mut self,
        item: &Item,
        named: NamedItems<'_>,
        depth: usize,
    ) -> Result<Result<(), String>, StageError> {
        let NamedItems { action, keys, must_include } = named;
        if depth == DEEPEST && !keys.is_empty() {
            let error = format!("it is an additional item of an additional item, and so on, {DEEPEST} deep");
            return Ok(Err(format!("{error}, and has further ones")));
        }
        let must_include = must_include || self.context.turn == SavePass::AfterOperations;
        for key in keys {
            let additional_item = AdditionalItem { parent: item.key(), must_include };
            if self.additional(&key, additional_item, depth + 1).await? == ItemState::Failed {
                return Ok(Err(format!("{key}, which {action} saves with it, failed")));
            }
        }
        Ok(Ok(()))
    }

    /// Calls one action; the inner error is that of the object.
    async fn act(
        &self,
        item: &Item,
        object: Value,
        is_changed: bool,
        action: &dyn BackupItemAction,
    ) -> Result<Result<BackupItemOutput, String>, StageError> {
        let (backup, cancel) = (&self.context.scope.backup, &self.context.env.operation.cancel);
        let kept = is_changed.then(|| object.clone());
        let again = || kept.clone().unwrap_or_else(|| whole(&item.resource, &item.body).unwrap_or_default());
        let answer = tokio::select! {
            () = cancel.cancelled() => return Err(StageError::OperationEnded),
            answer = run_actions(action, object, again, backup, cancel) => answer,
        };
        let refused = |error: ActionError| ActionRefusal {
            action: action.name().to_owned(),
            object: item.key(),
            message: error.message,
        };
        match answer {
            // What is no object would stand in the archive, where nothing could be made of it.
            Ok(answer) if !answer.item.is_object() => Ok(Err(format!("{} answered with no object", action.name()))),
            Ok(answer) => Ok(Ok(answer)),
            Err(error) if error.is_fatal() => Err(StageError::ActionRefused(Box::new(refused(error)))),
            Err(error) => Ok(Err(format!("{}: {error}", action.name()))),
        }
    }

    fn fails(&self, item: &Item, error: &str) -> SaveOutcome {
        self.context.env.operation.journal.item(Severity::Error, &item.key(), FAILED, Some(error));
        SaveOutcome::Nothing(ItemState::Failed)
    }

    fn skipped(&mut self, item: &Item, action: &str) -> SaveOutcome {
        let key = item.key().to_string();
        self.context
            .env
            .operation
            .journal
            .info("An action leaves out an object", &[("object", &key), ("action", action)]);
        *self.report.left_out.entry((item.resource.group_resource(), SKIPPED)).or_default() += 1;
        SaveOutcome::Nothing(ItemState::LeftOut)
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
        if let Some(number) = context.index.number(&digest) {
            if context.waits_for_hooks(key) {
                return Ok(ItemState::Begun);
            }
            return Box::pin(self.of_index(number, depth)).await;
        }
        let known = context.states.of(ItemId::NotIndexed(digest)).or(match context.index.outside(&digest) {
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
        if let Some(before) = context.states.begin(who, additional_item.must_include) {
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
                context.states.settle(who, ItemState::Failed);
                Ok(ItemState::Failed)
            }
            Ok(None) => {
                context.states.settle(who, ItemState::Absent);
                Ok(self.tell_absent(key, &additional_item.parent))
            }
            Err(_) => {
                context.states.settle(who, ItemState::Failed);
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

/// The outcome of the actions for an object.
enum SaveOutcome {
    /// It is to be written.
    Entry(ArchiveEntry),
    /// It is not in the backup.
    Nothing(ItemState),
}

/// The answer of an API server that was asked for something else.
#[derive(Debug, thiserror::Error)]
#[error("the API server answered with another object")]
struct OtherObject;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
