//! Restores one object (velero: pkg/restore/restore.go): makes it, restores the objects that it needs, and writes it.
//! Attempts that wait for the objects that they need are a stack, so that no chain of needs is too long.

use crate::object::additional::{AdditionalItem, NeedProgress, next_item};
use crate::object::apply::{ActionSelection, Need};
use crate::object::decision::ItemRoute;
use crate::object::desired::{Desired, DesiredObject};
use crate::object::item_failure::{refused, unreadable};
use crate::object::item_volumes::{prepared_volume, retained_volume};
use crate::object::mover_pods::{self, WrittenClaim};
use crate::object::refused::Refused;
use crate::object::repository_data;
use crate::object::required_namespaces;
use crate::object::update;
use crate::object::write::{ClusterWriter, ToWrite};
use crate::request::modifier::Modified;
use crate::state::attempt::{Attempt, AttemptNumber, Obstacle, SourceObject};
use crate::state::claimed_rows::AdditionalAttempt;
use crate::state::item_result::ItemResult;
use crate::state::retry::can_be_read_later;
use crate::walk::context::RestoreContext;
use crate::walk::same_target::taken;
use lifeboat_object::ObjectKey;
use lifeboat_volume::csi::CsiError;
use serde_json::Value;

/// Restores one object in its own turn, after the objects that it needs. What goes wrong is in the journal, unless it may
/// pass and there is a later turn.
pub(crate) async fn restore(context: &RestoreContext, source: SourceObject, turn: AttemptNumber) -> Attempt {
    if !context.state.claimed.begin(source.row) && !turn.again {
        return Attempt::Elsewhere;
    }
    let mut open: Vec<ItemAttempt<'_>> = Vec::new();
    let mut item = ItemAttempt { source, turn, additional: None, prepared: None };
    loop {
        let ended = match item.step(context).await {
            Step::Restore(needed) => {
                open.push(item);
                match ItemAttempt::of_additional(context, needed).await {
                    Ok(begun) => {
                        item = begun;
                        continue;
                    }
                    Err(ended) => ended,
                }
            }
            Step::Ended(attempt) => {
                repository_data::note_end(context, &item.source, attempt);
                if let Some(additional) = item.additional.take() {
                    additional.ended(attempt);
                }
                attempt
            }
        };
        match open.pop() {
            Some(parent) => item = parent.after(context, ended),
            None => return ended,
        }
    }
}

/// An attempt at one object.
struct ItemAttempt<'a> {
    source: SourceObject,
    turn: AttemptNumber,
    /// Notes the end of an attempt at an additional item; `None` for an object in its own turn.
    additional: Option<AdditionalAttempt<'a>>,
    /// The object as it is to be written, once that is known.
    prepared: Option<PreparedItem>,
}

/// An object that is restored when the objects that it needs are.
struct PreparedItem {
    /// Its key in the cluster.
    target: ObjectKey,
    from_backup: Value,
    desired: DesiredItem,
    needs: NeedProgress,
    /// Set when its namespace is there.
    has_namespace: bool,
}

/// The object to write, or the needs of one that is left out.
enum DesiredItem {
    LeftOut(Vec<Need>),
    Object(Box<DesiredObject>),
}

/// Progress of an attempt.
enum Step<'a> {
    /// This object has to be restored before.
    Restore(AdditionalItem<'a>),
    /// It has ended.
    Ended(Attempt),
}

impl<'a> ItemAttempt<'a> {
    /// An attempt at an object that another one needs, and that the caller has begun.
    ///
    /// # Errors
    /// The end of the attempt, when the object cannot be read.
    async fn of_additional(context: &RestoreContext, needed: AdditionalItem<'a>) -> Result<Self, Attempt> {
        let AdditionalItem { row, key, attempt: additional } = needed;
        let ended = match context.reader.load_to_restore(row).await {
            Ok(body) => {
                let source = SourceObject { row, key, body, exists: false };
                let (turn, additional) = (AttemptNumber::default(), Some(additional));
                return Ok(Self { source, turn, additional, prepared: None });
            }
            Err(e) if can_be_read_later(&e) => Attempt::Later(Obstacle::Passing),
            Err(e) => unreadable(context, row, &e),
        };
        additional.ended(ended);
        Err(ended)
    }

    /// The attempt, after an object that it needs has been restored with this outcome.
    fn after(mut self, context: &RestoreContext, needed: Attempt) -> Self {
        if let Some(prepared) = &mut self.prepared {
            prepared.needs.ended(context, &self.source.key, needed);
        }
        self
    }

    /// Goes on until another object has to be restored first, or to the end.
    async fn step(&mut self, context: &'a RestoreContext) -> Step<'a> {
        let Self { source, turn, prepared, .. } = self;
        let item = match prepared {
            Some(item) => item,
            None => match begin(context, source, *turn).await {
                Ok(item) => prepared.insert(item),
                Err(ended) => return Step::Ended(ended),
            },
        };
        let done = match item.next_need(context, source).await {
            Ok(Some(needed)) => return Step::Restore(needed),
            Ok(None) => item.write(context, source).await,
            Err(refused) => Err(refused),
        };
        item.keep(context, source.row, &done);
        Step::Ended(attempt(context, source, &item.target, turn.last, done).await)
    }
}

/// The end of an attempt at an object in which this was done.
async fn attempt(
    context: &RestoreContext,
    source: &SourceObject,
    target: &ObjectKey,
    last: bool,
    done: Result<ItemResult, Refused>,
) -> Attempt {
    match done {
        // It is there, and could not be changed.
        Ok(ItemResult::Failed) => Attempt::FAILED,
        Ok(action) => {
            let state = &context.state;
            let settled = !state.messages.is_open(target) && state.attempts.operations.are_noted(target);
            Attempt::Done { action, listed: true, settled }
        }
        Err(why) => refused(context, source, target, why, last).await,
    }
}

/// Prepares an object, unless nothing is to be done with it.
///
/// # Errors
/// The end of the attempt.
async fn begin(context: &RestoreContext, source: &SourceObject, turn: AttemptNumber) -> Result<PreparedItem, Attempt> {
    let (key, scope, messages) = (&source.key, &context.scope, &context.state.messages);
    let target = scope.target_of(key);
    let object: Value = serde_json::from_slice(&source.body).map_err(|e| {
        messages.error(&target, &format!("error decoding {key}: {e}"));
        Attempt::FAILED
    })?;
    match ItemRoute::of(source.row, key, &object, scope) {
        ItemRoute::Namespace => return Err(required_namespaces::restore(context, key, object, turn.last).await),
        ItemRoute::Ended => return Err(Attempt::Done { action: ItemResult::Skipped, listed: false, settled: true }),
        // The other one comes first.
        ItemRoute::Second { .. } if !turn.again => return Err(Attempt::Later(Obstacle::Passing)),
        ItemRoute::Second { other, is_merged: false } => {
            return Err(match beside(context, source, &target, &object, &other.key).await {
                Ok(true) => Attempt::Done { action: ItemResult::Skipped, listed: true, settled: true },
                Ok(false) => Attempt::Done { action: ItemResult::Differs, listed: true, settled: false },
                Err(why) => refused(context, source, &target, why, turn.last).await,
            });
        }
        ItemRoute::Second { .. } | ItemRoute::Write => {}
    }
    if let Err(why) = repository_data::check_claims(context, &source.key, &target, turn) {
        return Err(refused(context, source, &target, why, turn.last).await);
    }
    match desired(context, source, &target, &object).await {
        Ok(desired) => {
            let needs = NeedProgress::default();
            Ok(PreparedItem { target, from_backup: object, desired, needs, has_namespace: false })
        }
        Err(why) => Err(refused(context, source, &target, why, turn.last).await),
    }
}

/// Tells of an object whose place another one of the backup has, unless both are the same. Gives whether a run again has nothing
/// to say about it.
async fn beside(
    context: &RestoreContext,
    source: &SourceObject,
    target: &ObjectKey,
    from_backup: &Value,
    other: &ObjectKey,
) -> Result<bool, Refused> {
    let (scope, messages) = (&context.scope, &context.state.messages);
    let desired = context.builder.desired(scope, target, from_backup, ActionSelection::Pure).await;
    let desired = match desired.map_err(Refused::Unprepared)? {
        Desired::Object(object) => object.item,
        Desired::Skip { reason, .. } => {
            messages.left_out(target, &reason);
            return Ok(true);
        }
    };
    let in_cluster = ClusterWriter(context).read(target, &desired).await?;
    let is_same = in_cluster.is_some_and(|there| update::patch(&desired, &there).is_none());
    if !is_same {
        let why = taken(other);
        messages.warning(target, &format!("could not restore {} as {target}: {why}", source.key));
    }
    Ok(is_same)
}

/// The object to write, unless it is held back.
async fn desired(
    context: &RestoreContext,
    source: &SourceObject,
    target: &ObjectKey,
    from_backup: &Value,
) -> Result<DesiredItem, Refused> {
    let RestoreContext { env, scope, builder, state, .. } = context;
    if let Some(claim) = state.notes.lost_claims.holding_back(target, from_backup) {
        let why = "could not be restored and would be made anew, empty";
        let next = "restore the claim, then run the restore again";
        let message = format!("error restoring {target}: held back, because its claim {claim} {why}; {next}");
        state.messages.error(target, &message);
        return Err(Refused::Reported);
    }
    let lost = builder.volumes.retained.lost(target, from_backup, scope, env).await;
    if let Some(why) = lost.map_err(|e| Refused::Because(Box::new(e)))? {
        state.messages.error(target, &format!("error restoring {target}: {why}"));
        return Err(Refused::Reported);
    }
    if let Some(object) = state.attempts.answers.take(source.row) {
        return Ok(DesiredItem::Object(Box::new(object)));
    }
    let ask = ActionSelection::All(&state.attempts.operations);
    match builder.desired(scope, target, from_backup, ask).await.map_err(Refused::Unprepared)? {
        Desired::Object(object) => Ok(DesiredItem::Object(object)),
        Desired::Skip { mut needs, reason, job } => {
            state.messages.left_out(target, &reason);
            // One that is there runs on.
            if let Some(job) = job
                && ClusterWriter(context).read(target, from_backup).await?.is_none()
            {
                state.notes.left_to_jobs.add(target, job);
            }
            needs.iter_mut().for_each(|need| need.wait = None);
            Ok(DesiredItem::LeftOut(needs))
        }
    }
}

impl PreparedItem {
    /// Takes the next object that has to be restored before this one. Its namespace is there then.
    async fn next_need<'a>(
        &mut self,
        context: &'a RestoreContext,
        source: &SourceObject,
    ) -> Result<Option<AdditionalItem<'a>>, Refused> {
        let needs = match &mut self.desired {
            DesiredItem::LeftOut(needs) => needs,
            DesiredItem::Object(object) => {
                if let Some(namespace) = source.key.namespace.as_ref().filter(|_| !self.has_namespace) {
                    required_namespaces::ensure(context, namespace).await.map_err(Refused::Namespace)?;
                    self.has_namespace = true;
                }
                &mut object.needs
            }
        };
        next_item(context, &source.key, needs, &mut self.needs).await
    }

    /// Writes the object; all that it needs is there.
    async fn write(&self, context: &RestoreContext, source: &SourceObject) -> Result<ItemResult, Refused> {
        let Self { target: key, from_backup, .. } = self;
        let DesiredItem::Object(desired) = &self.desired else { return Ok(ItemResult::Skipped) };
        let RestoreContext { scope, builder, state, .. } = context;
        if let Some(action) = retained_volume(context, key, &desired.item).await? {
            return Ok(action);
        }
        let prepared = match builder.volumes.native.follow(&source.key, &desired.item) {
            Ok(None) => prepared_volume(context, source, key, from_backup, &desired.item).await?,
            Ok(claim) => claim,
            Err(volume) => {
                let why = format!("its PersistentVolume {volume} could not be restored");
                let next = "when that is there, run the restore again";
                state.messages.error(key, &format!("error restoring {key}: held back, because {why}; {next}"));
                return Err(Refused::Reported);
            }
        };
        let DesiredObject { item: planned, status, .. } = &**desired;
        let item = prepared.as_ref().unwrap_or(planned);
        let object = ToWrite { source, key, from_backup, desired: item, planned, status: status.as_ref() };
        match state.groups.content(key, from_backup, scope).await {
            Ok(()) => {}
            Err(CsiError::Cluster(e)) => return Err(Refused::Because(Box::new(e))),
            Err(e) => {
                state.messages.error(key, &format!("error restoring {key}: its content could not be made: {e}"));
                return Err(Refused::Reported);
            }
        }
        let warn = |warning: Option<String>| {
            if let Some(warning) = warning {
                state.messages.warning(key, &warning);
            }
        };
        warn(state.groups.before(key, from_backup, scope).await);
        let written = ClusterWriter(context).write(&object).await;
        if matches!(written, Ok(ItemResult::Created)) {
            warn(state.groups.after(key, object.name(), from_backup, scope).await);
        }
        mover_pods::fill(context, WrittenClaim { source: &source.key, target: key, from_backup, result: written? })
            .await
    }

    /// Keeps the answers of actions that must not be asked again, when the object is tried again; reports what the resource
    /// modifiers had to say when it is not.
    fn keep(&mut self, context: &RestoreContext, row: usize, done: &Result<ItemResult, Refused>) {
        let DesiredItem::Object(desired) = &mut self.desired else { return };
        if matches!(done, Ok(_) | Err(Refused::Reported)) {
            tell_modified(context, &self.target, &desired.modified);
        } else if desired.is_asked_once {
            context.state.attempts.answers.keep(row, std::mem::take(&mut **desired));
        }
    }
}

fn tell_modified(context: &RestoreContext, target: &ObjectKey, modified: &Modified) {
    let messages = &context.state.messages;
    for error in &modified.errors {
        messages.error(target, &format!("error applying resource modifiers to {target}: {error}"));
    }
    for warning in &modified.warnings {
        messages.warning(target, &format!("resource modifiers of {target}: {warning}"));
    }
}
