//! Runs a restore, from the archive of its backup to the last object.

use crate::end::claim::{claim, give_signs, note_run, reading};
use crate::end::outcome::{ObjectsOutcome, Outcome, RestoreError};
use crate::end::owners::Owners;
use crate::end::record::record;
use crate::hooks::commands::PodCommands;
use crate::object::answer_cache::AnswerCache;
use crate::object::namespaces::Namespaces;
use crate::plan::cluster_only;
use crate::plan::confirmed::ConfirmedPlan;
use crate::request::settings::{Request, prepare};
use crate::state::checkpoint::Checkpoint;
use crate::state::claimed_rows::ClaimedRows;
use crate::state::env::Env;
use crate::state::item_result::{HandledItem, ItemResult};
use crate::state::messages::Messages;
use crate::state::operations::Operations;
use crate::state::restore_state::{AttemptMemory, ItemNotes, PodWork, RestoreState};
use crate::state::terminating::TerminationWaits;
use crate::state::wait::WaitBudget;
use crate::state::wait_slots::WaitSlots;
use crate::volumes::group_stubs;
use crate::volumes::snapshot_groups::SnapshotGroups;
use crate::walk::context::RestoreContext;
use crate::walk::deferred::Deferred;
use crate::walk::execute::{LevelResult, level, pass_over};
use crate::walk::made_anew::look_again;
use crate::walk::preparation::PreparedRestore;
use crate::walk::scope::RestoreScope;
use crate::walk::source::read_source;
use lifeboat_api::{Restore, RestorePhase, Time};
use lifeboat_archive::index::Row;
use lifeboat_archive::layout::replaced_prefix;
use lifeboat_object::{GroupResource, ObjectKey, ResultScope, chain};
use lifeboat_operation::{RecordsError, Subject};
use lifeboat_store::{Archive, RestoreOwner, StoreError};
use lifeboat_volume::fs_backup::{FileRestoreSettings, FileRestores, cancel_if_wanted};
use std::sync::Arc;

/// Restores a backup: reads and checks its whole archive, then writes objects level by level.
///
/// Objects that fail are in the results and the others go on. When the archive cannot be read to its end the restore
/// breaks off, with an outcome that has the objects that were restored and the number of the others. Running it again
/// is safe: with the same UID it goes on where the last run was cut off according to the checkpoint, and completes the
/// writes that follow a create; otherwise objects that exist already are left alone.
///
/// A restore that waits for asynchronous operations of its actions, or for the volumes of its claims, is pending then
/// ([`Outcome::is_pending`]): nothing runs for it.
///
/// # Errors
/// [`RestoreError`].
pub async fn run(request: &Request, env: &Env) -> Result<Outcome, RestoreError> {
    let trace = env.operation.trace();
    trace.begin(subject(&request.restore));
    trace.attempt(u32::try_from(request.restore.status.attempt).unwrap_or_default().max(1));
    let outcome = Box::pin(to_its_end(request, env)).await;
    match &outcome {
        Ok(Outcome { broken_off: Some(why), .. }) => trace.failed(&chain(why)),
        Ok(Outcome { restore, .. }) if restore.status.errors > 0 => {
            trace.failed(restore.status.phase.map_or("", RestorePhase::as_str));
        }
        Ok(_) => {}
        Err(e) => trace.failed(&chain(e)),
    }
    outcome
}

/// A restore, as its trace names it.
pub(crate) fn subject(restore: &Restore) -> Subject<'_> {
    let metadata = &restore.metadata;
    Subject { kind: "restore", namespace: &metadata.namespace, name: &metadata.name, uid: &metadata.uid }
}

async fn to_its_end(request: &Request, env: &Env) -> Result<Outcome, RestoreError> {
    let mut restore = prepare(request)?;
    let backup = read_source(&restore.spec.backup_name, env).await?;
    // A restore that was cut off keeps the time at which it began.
    restore.status.start_timestamp.get_or_insert(Time::new((env.operation.clock)()));
    restore.status.phase = Some(RestorePhase::InProgress);
    let owner = tokio::select! {
        owner = Box::pin(claim(&restore, Some(reading(&backup, env)), &request.settings, env)) => owner?,
        () = env.operation.cancel.cancelled() => return Err(RestoreError::Cancelled),
    };
    let outcome = tokio::select! {
        outcome = Box::pin(claimed(request, restore, &owner, env)) => outcome,
        () = give_signs(&owner, env) => Err(RestoreError::Cancelled),
    };
    // One that broke off is run again. Where its files could not be put, nothing can be noted either.
    if let Ok(ended) = &outcome
        && ended.broken_off.is_none()
        && ended.unstored.is_empty()
    {
        note_run(&ended.restore, &owner, ended.is_pending(), env).await;
    }
    if let Err(RestoreError::Invalid(_)) = &outcome
        && let Err(e) = env.store.release_restore(&owner).await
    {
        tracing::warn!(restore = owner.name, error = %e, "the claim of a restore that was refused stays in the bucket");
    }
    outcome
}

/// Runs a restore whose files in the bucket are its own.
async fn claimed(
    request: &Request,
    restore: Restore,
    owner: &RestoreOwner,
    env: &Env,
) -> Result<Outcome, RestoreError> {
    let pinned = tokio::select! {
        pinned = Box::pin(ConfirmedPlan::begin(request, &restore, env)) => pinned?.map(Arc::new),
        () = env.operation.cancel.cancelled() => return Err(RestoreError::Cancelled),
    };
    let mut walked = Box::pin(run_stages(request, &restore, pinned, env)).await?;
    let has_stubs = walked.has_stubs;
    if let Some(note) = originals_stay(walked.originals(), owner) {
        env.operation.journal.info(&note, &[]);
        walked.notes.push(note);
    }
    let withheld = withheld(owner, env).await;
    let outcome = env.operation.trace().stage("record", Box::pin(record(restore, walked, withheld, env))).await?;
    // Of one that is not run again and not finalized, nobody else removes them.
    if has_stubs && !outcome.is_pending() && outcome.broken_off.is_none() {
        group_stubs::remove_now(&outcome.restore, true, env).await;
    }
    Ok(outcome)
}

/// The note that the originals of so many objects stay, where and until when; `None` when there are none.
fn originals_stay(count: usize, owner: &RestoreOwner) -> Option<String> {
    let (until, place) = (Time::new(owner.keep_replaced_until), replaced_prefix(&owner.name));
    let objects = match count {
        0 => return None,
        1 => "1 object that was recreated or removed is".to_owned(),
        count => format!("{count} objects that were recreated or removed are"),
    };
    Some(format!(
        "{objects} kept as before, below {place} in the bucket, until {until}, also when the restore and its backup are deleted"
    ))
}

/// The reason for which the files of a restore that has done its work are not stored: its name is another restore's by now, or nobody
/// can tell whose it is. Another has it where the store keeps no condition, or where nothing could be put when this one began.
async fn withheld(owner: &RestoreOwner, env: &Env) -> Option<String> {
    match env.store.check_restore_claim(owner).await {
        Err(StoreError::RestoreNameTaken { name, place, cluster, uid, since }) => Some(format!(
            "the files of the restore are not stored: in {place} the name {name:?} is that of another restore (of cluster {cluster}, \
             restore UID {uid}, since {since}), whose files would be written over"
        )),
        Err(e) if e.is_damage() => Some(format!(
            "the files of the restore are not stored: whose those are that lie under its name is not known, because of its claim: {e}"
        )),
        // A bucket that is away says so of each file.
        _ => None,
    }
}

async fn run_stages(
    request: &Request,
    restore: &Restore,
    plan: Option<Arc<ConfirmedPlan>>,
    env: &Env,
) -> Result<ObjectsOutcome, RestoreError> {
    let mut prepared = tokio::select! {
        begun = env.operation.trace().stage("read", Box::pin(PreparedRestore::begin(request, restore, env))) => begun?,
        () = env.operation.cancel.cancelled() => return Err(RestoreError::Cancelled),
    };
    let operations = Arc::new(Operations::new(Arc::clone(&prepared.scope.restore), &env.operation));
    operations.load().await;
    let mut checkpoint = checkpoint(restore, &prepared, request.settings.looks_again, env).await?;
    env.operation.progress.found(prepared.levels.iter().map(|level| level.items.len() as u64).sum());
    env.operation.progress.found_all();
    let state = Arc::new(new_state(&prepared, Arc::clone(&operations), plan.clone(), &checkpoint)?);
    state.pods.commands.load().await;
    let volumes = Arc::clone(&prepared.builder.volumes);
    volumes.native.load().await;
    let context = RestoreContext::new(&prepared, Arc::clone(&state), plan);
    let levels = Box::pin(levels(&mut prepared, Arc::new(context), &mut checkpoint));
    let reached = env.operation.trace().stage("levels", levels).await;
    let reached = reached.map(|(mut result, context)| {
        result.done.extend(done_before(&context.scope.archive, &state.claimed, &checkpoint));
        (result, context)
    });
    state.notes.left_to_jobs.tell(&env.operation.journal);
    // Also of a restore that loses the cluster.
    let namespaces = state.namespaces.report(&env.operation.journal).await;
    let mut removed = Vec::new();
    if let Ok((reached, context)) = &reached {
        if let Some(plan) = context.plan.as_ref().filter(|_| restore.spec.prune && !context.stop.has_come()) {
            removed = remove_extras(plan, reached, &namespaces, &context.scope, env).await;
        }
        // Nothing gets an owner back that goes.
        if context.scope.restore.spec.restore_owner_references {
            let with_owners = &prepared.contents.with_owners;
            Owners::new(context).give_back(with_owners, &reached.done, checkpoint.is_resumed()).await;
        }
    }
    let PreparedRestore { scope, contents, stop, .. } = prepared;
    let made = reached.as_ref().map(|(reached, _)| reached.done.as_slice()).unwrap_or_default();
    let made = made.iter().filter(|one| matches!(one.action, ItemResult::Created | ItemResult::Recreated));
    let rows: Vec<&Row> = made.filter_map(|one| scope.archive.row(one.row)).collect();
    let made = rows.iter().filter(|row| *row.resource == GroupResource::new("", "persistentvolumes"));
    let made = made.map(|row| &*row.name);
    if let Some(warning) = volumes.retained.warning(made.clone()) {
        env.operation.journal.warn(&ResultScope::Velero, warning);
    }
    match &reached {
        Ok(_) => volumes.native.end(made, env).await,
        Err(_) => volumes.native.break_off(&scope.restore, env).await,
    }
    let broken_off = stop.take_reason().filter(|_| !env.operation.cancel.is_cancelled());
    if broken_off.is_some() {
        save(&mut checkpoint, env).await;
    }
    let (files, hooks) = match (&broken_off, &reached) {
        (None, Ok(_)) => tokio::join!(state.pods.files.end(), state.pods.commands.end()),
        // Another run comes back to the pods.
        _ => tokio::join!(state.pods.files.break_off(), state.pods.commands.break_off()),
    };
    let moves = !files.is_empty() || operations.count() > 0;
    if moves
        && env.operation.cancel.is_cancelled()
        && let Err(why) = cancel_if_wanted(&scope.restore, &env.cluster).await
    {
        let next = "set spec.cancel of its PodVolumeRestores and DataDownloads";
        let text = format!("data of volumes may be moved still for this restore: {why}; {next}");
        env.operation.journal.error(&ResultScope::Velero, text);
    }
    let (LevelResult { done, not_looked_at }, _) = reached?;
    Ok(ObjectsOutcome {
        done,
        renamed: state.notes.renamed.take(),
        namespaces,
        removed,
        archive: scope.archive.clone(),
        kinds: contents.kinds,
        volumes,
        has_stubs: state.groups.has_any(),
        operations,
        hooks,
        files,
        notes: Vec::new(),
        not_looked_at,
        broken_off,
    })
}

/// The state of a restore that begins, or that goes on where an earlier run was cut off.
///
/// # Errors
/// The cluster serves no namespaces.
fn new_state(
    prepared: &PreparedRestore,
    operations: Arc<Operations>,
    plan: Option<Arc<ConfirmedPlan>>,
    checkpoint: &Checkpoint,
) -> Result<RestoreState, RestoreError> {
    let PreparedRestore { scope, env, .. } = prepared;
    let RestoreScope { restore, .. } = &**scope;
    let (is_resumed, timeout) = (checkpoint.is_resumed(), scope.options.terminating_timeout);
    let began = restore.metadata.creation_timestamp.filter(|_| is_resumed).map(Time::timestamp);
    let longest_hook = restore.spec.item_operation_timeout.to_std();
    Ok(RestoreState {
        messages: Messages::new(&env.operation.journal),
        claimed: ClaimedRows::new(scope.archive.rows().len()),
        namespaces: Namespaces::new(prepared.namespaces()?, timeout, began, plan).noting(checkpoint.namespaces()),
        attempts: AttemptMemory {
            operations,
            answers: AnswerCache::default(),
            terminating: TerminationWaits::new(timeout),
            wait_slots: WaitSlots::default(),
            filling: WaitBudget::new(scope.options.files_timeout),
        },
        notes: ItemNotes::default(),
        groups: SnapshotGroups::new(prepared.contents.groups.clone(), env),
        pods: PodWork {
            commands: PodCommands::new(Arc::clone(&scope.hooks), longest_hook, env),
            files: FileRestores::new(&env.cluster, &env.operation, file_settings(prepared)),
        },
        is_resumed,
    })
}

fn file_settings(prepared: &PreparedRestore) -> FileRestoreSettings {
    let RestoreScope { restore, options, .. } = &*prepared.scope;
    FileRestoreSettings {
        restore: Arc::clone(restore),
        location: prepared.builder.volumes.downloads.location.clone(),
        whole: options.files_timeout,
        resource_timeout: options.resource_timeout,
    }
}

/// Removes objects that the backup lacks, if the plan names them. Nothing is removed unless the rest of the plan was
/// carried out completely: an object to be removed may be the replacement of one that could not be restored.
async fn remove_extras(
    pinned: &ConfirmedPlan,
    reached: &LevelResult,
    namespaces: &[(String, ItemResult)],
    scope: &RestoreScope,
    env: &Env,
) -> Vec<((String, String), ObjectKey, ItemResult)> {
    let journal = &env.operation.journal;
    if pinned.removed.is_empty() {
        return Vec::new();
    }
    // What was skipped is as in the backup already: somebody else has made it so.
    let rows = reached.done.iter().filter(|one| one.action != ItemResult::Failed);
    let keys = rows.filter_map(|one| Some(scope.target_of(&scope.archive.row(one.row)?.key())));
    let made = namespaces.iter().filter(|(_, action)| *action == ItemResult::Created);
    let made = made.map(|(name, _)| ObjectKey::new(GroupResource::namespaces(), None, name.as_str()));
    let written = keys.chain(made).map(|key| key.digest()).collect();
    let (missing, errors) = (pinned.not_written(&written), journal.close().errors);
    if missing > 0 || errors > 0 || reached.not_looked_at > 0 {
        let count = pinned.removed.len();
        let text = format!(
            "{count} objects that the backup lacks stay, because the plan was not carried out before: {missing} objects were not \
             written, and there were {errors} errors"
        );
        journal.error(&ResultScope::Velero, text);
        return Vec::new();
    }
    let mut out = Vec::new();
    for one in &pinned.removed {
        if env.operation.cancel.is_cancelled() {
            break;
        }
        let key = &one.0;
        let (kind, action) = match cluster_only::remove(scope, one, env).await {
            Ok(api) => ((api.api_version(), api.kind.clone()), ItemResult::Removed),
            Err(why) => {
                let text = format!("could not remove {key}, which the backup lacks: {why}");
                journal.error(&ResultScope::of(key.namespace.as_deref()), text);
                let api = scope.catalog.find(&key.resource);
                (api.map(|api| (api.api_version(), api.kind.clone())).unwrap_or_default(), ItemResult::Failed)
            }
        };
        out.push((kind, key.clone(), action));
    }
    out
}

/// Restores all levels, and the deferred objects. When it ends early, the remaining levels are skipped. Returns the context
/// of the last level, too.
async fn levels(
    prepared: &mut PreparedRestore,
    mut context: Arc<RestoreContext>,
    checkpoint: &mut Checkpoint,
) -> Result<(LevelResult, Arc<RestoreContext>), RestoreError> {
    let mut deferred = Deferred::default();
    let LevelResult { mut done, mut not_looked_at } = LevelResult::default();
    for one in std::mem::take(&mut prepared.levels) {
        if context.stop.has_come() {
            let passed = pass_over(one, &context, checkpoint).await;
            done.extend(passed.done);
            not_looked_at += passed.not_looked_at;
            continue;
        }
        let (settles, defines_types) = (one.must_settle(), one.defines_types());
        let fields = [("level", &*one.name), ("items", &one.items.len().to_string())];
        context.env.operation.journal.info("Restoring a level", &fields);
        let ahead = prepared.ahead.take(&one.name);
        let reached = level(one, ahead, &context, checkpoint, &mut deferred).await;
        let mut of_level = reached.done;
        not_looked_at += reached.not_looked_at;
        if settles || defines_types {
            of_level.extend(deferred.drain(&context, checkpoint, false).await);
        }
        prepared.ahead.forget_after(&of_level);
        done.extend(of_level);
        if defines_types && !context.stop.has_come() {
            prepared.discover_again(&context.state.notes.defined).await?;
            context = Arc::new(context.serving(prepared));
        }
    }
    done.extend(deferred.drain(&context, checkpoint, true).await);
    Ok((LevelResult { done, not_looked_at }, context))
}

/// Objects that an earlier run has restored because others need them, and that no turn of their own leads to.
fn done_before(archive: &Archive, claimed: &ClaimedRows, checkpoint: &Checkpoint) -> Vec<HandledItem> {
    // Namespaces have a list of their own.
    let rows = archive.rows().enumerate().filter(|(_, row)| !row.resource.is_namespaces());
    let done = rows.filter_map(|(row, _)| Some(HandledItem { row, action: checkpoint.done(row)? }));
    done.filter(|one| claimed.begin(one.row)).collect()
}

/// The checkpoint, saved before the first write.
///
/// # Errors
/// [`RestoreError::Unnoted`]: without it a run again would take what this one has done for a change of the plan.
async fn checkpoint(
    restore: &Restore,
    prepared: &PreparedRestore,
    looks_again: bool,
    env: &Env,
) -> Result<Checkpoint, RestoreError> {
    let archive = &prepared.scope.archive;
    let (uid, rows) = (&restore.metadata.uid, archive.rows().len());
    let (mut checkpoint, problem) =
        Checkpoint::open(Arc::clone(&env.operation.records), uid, archive.digest(), rows).await;
    if let Some(problem) = problem {
        env.operation.journal.warn(
            &ResultScope::Velero,
            format!("the checkpoint is not used, every object is looked at again: {problem}"),
        );
    }
    if looks_again {
        checkpoint.forget_marks();
    } else if checkpoint.is_resumed() {
        let (scope, namespaces) = (&prepared.scope, prepared.namespaces()?);
        tokio::select! {
            () = Box::pin(look_again(&mut checkpoint, scope, &namespaces, env)) => {}
            () = env.operation.cancel.cancelled() => return Err(RestoreError::Cancelled),
        }
    }
    let pinned = &restore.spec.plan_digest;
    match checkpoint.save().await {
        Err(source) if !pinned.is_empty() => return Err(RestoreError::Unnoted { pinned: pinned.clone(), source }),
        saved => tell_unsaved(saved, env),
    }
    Ok(checkpoint)
}

async fn save(checkpoint: &mut Checkpoint, env: &Env) {
    tell_unsaved(checkpoint.save().await, env);
}

fn tell_unsaved(saved: Result<(), RecordsError>, env: &Env) {
    if let Err(e) = saved {
        env.operation.journal.warn(&ResultScope::Velero, format!("the checkpoint could not be saved: {e}"));
    }
}

#[cfg(test)]
mod ephemeral_claims;
#[cfg(test)]
mod existing;
#[cfg(test)]
mod kept_claims;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod mover_pods;
#[cfg(test)]
mod reader_pods;
#[cfg(test)]
mod repository_data;
#[cfg(test)]
mod retained_volumes;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unfinished;
