//! The door: makes a backup, from the claim of its name to its record.

use crate::env::Env;
use crate::error::BackupError;
use crate::hook::Commands;
use crate::objects::{ObjectPipeline, ObjectsRequest, objects};
use crate::output::archive_upload::ArchiveUpload;
use crate::output::seal::{Native, UnrecordedBackup, Unsealed, seal};
use crate::output::write::Written;
use crate::process::{ProcessedFacts, ProcessingStages};
use crate::request::load::policies;
use crate::request::settings::{Request, Settings, prepare};
use crate::volumes::file_backups::{file_backups, find_movers, remove_left_readers};
use crate::volumes::mover_check::check_movers;
use crate::volumes::outcomes::Volumes;
use crate::volumes::side_effects::SideEffects;
use crate::volumes::snapshot_notes::forget_beside_claim;
use crate::volumes::snapshots::{
    asked_for_in_vain, native_snapshots, remove_before, remove_native, remove_untaken, remove_unwanted, tell_native,
};
use crate::volumes::useless::has_uploads_at_work;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_object::{ResultScope, Results, chain};
use lifeboat_operation::Subject;
use lifeboat_store::{BackupWriter, ClaimOutcome, ClaimRequest};
use lifeboat_volume::fs_backup::FileBackups;
use lifeboat_volume::native::{NativeSnapshots, SnapshotNote};
use std::time::Duration;
use tokio::task::JoinSet;

/// The result of a backup.
#[derive(Debug)]
pub struct Outcome {
    /// The resource as stored in the bucket. In its final state, unless it waits for operations ([`Outcome::is_pending`]).
    pub backup: Backup,
    /// Warnings and errors.
    pub results: Results,
    /// True when an earlier attempt had done everything already.
    pub was_complete: bool,
    /// Bytes of the archive, when this run has written it.
    pub archive_size: Option<u64>,
}

impl Outcome {
    /// Returns true if actions have begun operations for which the backup waits. It can be proved and restored
    /// meanwhile; [`crate::look_after_operations`] says when they have ended, and [`crate::end::finalize`] ends it then.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        use BackupPhase as P;
        let owes = [
            P::WaitingForPluginOperations,
            P::WaitingForPluginOperationsPartiallyFailed,
            P::Finalizing,
            P::FinalizingPartiallyFailed,
        ];
        self.backup.status.phase.is_some_and(|phase| owes.contains(&phase))
    }
}

/// Makes a backup: claims its name, lists the cluster, writes the archive, and commits.
///
/// Objects that fail are in the results and the others go on. Running it again with the same UID continues from where
/// an interrupted run was, and returns a committed backup unchanged. A backup whose actions have begun asynchronous
/// operations is committed too, and pending: nothing runs for it then.
///
/// # Errors
/// [`BackupError`]; then the name stays claimed and nothing else is visible.
pub async fn run(request: &Request, env: &Env) -> Result<Outcome, BackupError> {
    env.operation.trace().begin(subject(&request.backup));
    let outcome = Box::pin(to_its_end(request, env)).await;
    match &outcome {
        Ok(Outcome { backup, .. }) if backup.status.errors > 0 => {
            env.operation.trace().failed(backup.status.phase.map_or("", BackupPhase::as_str));
        }
        Ok(_) => {}
        Err(e) => env.operation.trace().failed(&chain(e)),
    }
    outcome
}

/// A backup, as its trace names it.
pub(crate) fn subject(backup: &Backup) -> Subject<'_> {
    let metadata = &backup.metadata;
    Subject { kind: "backup", namespace: &metadata.namespace, name: &metadata.name, uid: &metadata.uid }
}

async fn to_its_end(request: &Request, env: &Env) -> Result<Outcome, BackupError> {
    let mut tasks = JoinSet::new();
    let side_effects = SideEffects::new(Commands::new(&env.cluster, &env.operation));
    let made = tokio::select! {
        made = Box::pin(make(request, &side_effects, env, &mut tasks)) => made,
        () = overdue(env) => Err(BackupError::Cancelled),
    };
    // However that ended, no task of this operation runs on, and no application stays frozen.
    tasks.shutdown().await;
    side_effects.commands.end().await;
    if let Some(snapshots) = side_effects.snapshots() {
        snapshots.end().await;
    }
    if let Some(native) = side_effects.native() {
        native.end().await;
    }
    if let Some(files) = side_effects.files() {
        files.end().await;
    }
    if may_be_again(request) {
        // Of claims that this attempt did not come to.
        remove_left_readers(&request.backup, &request.settings, env).await;
    }
    let sealed = match made {
        Ok(RunResult::Archive(unsealed)) => sealed(*unsealed, env).await,
        Ok(RunResult::Before(backup)) => {
            forget_beside_claim(&backup.metadata.name, env).await;
            let results = Results::default();
            return Ok(Outcome { backup: *backup, results, was_complete: true, archive_size: None });
        }
        Err(e) => Err(e),
    };
    let (UnrecordedBackup { backup, closed, sealed }, archive_size) = match sealed {
        Ok(sealed) => sealed,
        Err(e) => {
            Box::pin(remove_useless(request, &side_effects, env)).await;
            return Err(e);
        }
    };
    // A cancellation does not end this wait: it must be known whether the backup is visible.
    env.operation.trace().stage("publish", sealed.publish(&backup)).await?;
    if side_effects.native().is_some() || may_be_again(request) {
        forget_beside_claim(&backup.metadata.name, env).await;
    }
    Ok(Outcome { backup, results: closed.results, was_complete: false, archive_size: Some(archive_size) })
}

/// A backup of which only the record is missing, and the size of its archive.
async fn sealed(unsealed: Unsealed, env: &Env) -> Result<(UnrecordedBackup, u64), BackupError> {
    if env.operation.cancel.is_cancelled() {
        return Err(BackupError::Cancelled);
    }
    let size = unsealed.written.summary.size;
    tokio::select! {
        finished = env.operation.trace().stage("seal", Box::pin(seal(unsealed, env))) => Ok((finished?, size)),
        () = overdue(env) => Err(BackupError::Cancelled),
    }
}

/// Removes the snapshots of a backup that does not come to its end: nobody can restore from them. Another process that has taken the backup
/// over does that. So does the next attempt with what data movers work on, when this process is told to stop: they outlive it.
async fn remove_useless(request: &Request, side_effects: &SideEffects, env: &Env) {
    if (env.operation.fence)().is_err() {
        return;
    }
    let is_again = may_be_again(request);
    let is_left = env.operation.shutdown.is_cancelled() && has_uploads_at_work(&request.backup, env).await;
    if !is_left && (is_again || side_effects.snapshots().is_some()) {
        remove_unwanted(&request.backup, None, env).await;
    }
    if let Some(native) = side_effects.native() {
        // What this run knows does not depend on its notes, which may be gone with the Backup.
        native.remove_taken().await;
    }
    if is_again || side_effects.native().is_some() {
        let left = remove_native(env, |_| true).await;
        tell_native(&left.unwrap_or_default(), &request.backup.metadata.name, env);
    }
}

/// Returns true if an attempt before this one may have taken snapshots. This one may end before it knows that from the
/// bucket.
fn may_be_again(request: &Request) -> bool {
    request.settings.take_over || request.backup.status.attempt > 1
}

/// The longest time for which a cancelled backup waits for a read or an upload that hangs and does not see the
/// cancellation.
const GRACE: Duration = Duration::from_secs(4);

async fn overdue(env: &Env) {
    env.operation.cancel.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// A backup whose files can be completed.
enum RunResult {
    /// The archive is stored; the rest is to be put beside it.
    Archive(Box<Unsealed>),
    /// It was complete before.
    Before(Box<Backup>),
}

async fn make(
    request: &Request,
    side_effects: &SideEffects,
    env: &Env,
    tasks: &mut JoinSet<()>,
) -> Result<RunResult, BackupError> {
    let version = env.cluster.version().await?;
    let backup = prepare(request, &version, (env.operation.clock)())?;
    let policies = policies(&backup, &request.settings, env).await?;
    let (settings, movers) = (&request.settings, find_movers(&backup, &request.settings, env).await?);
    let wanted = ObjectsRequest { backup: &backup, policies: policies.as_ref(), settings, movers };
    check_movers(wanted, env).await?;
    let trace = env.operation.trace();
    let writer = match trace.stage("claim", claim(&backup, &request.settings, env)).await? {
        ClaimOutcome::Writer(writer) => *writer,
        ClaimOutcome::Complete(backup) => {
            side_effects.commands.pay(false).await;
            return Ok(RunResult::Before(backup));
        }
    };
    env.operation
        .journal
        .info("Beginning backup", &[("attempt", &writer.attempt().to_string()), ("cluster", &version.git_version)]);
    let attempt = writer.attempt();
    trace.attempt(attempt);
    if attempt > 1 {
        let asked_for = asked_for_in_vain(&side_effects.commands, &backup.metadata.uid, env).await;
        // What the attempt before has frozen comes first.
        side_effects.commands.pay(true).await;
        if let Some(untaken) = asked_for {
            remove_untaken(&backup.metadata.uid, env, &untaken).await;
        }
        // Of a backup that had the name before; what cannot be removed is tried again when this one is deleted.
        Box::pin(remove_before(&backup.metadata.name, env)).await;
        // Its snapshots are older than what is saved now.
        let mut left = remove_native(env, |_| true).await.unwrap_or_default();
        left.retain(|one| one.note.snapshot_id.is_empty());
        tell_native(&left, &backup.metadata.name, env);
    }
    native_snapshots(&backup, attempt, env).into_iter().for_each(|native| side_effects.hold_native(native));
    if movers.has_node_agent {
        side_effects.hold_files(file_backups(&backup, &request.settings, env));
    }
    let objects = objects(wanted, Some(side_effects), env, tasks).await?;
    let ObjectsResult { written, mut learned, kept_out } = Box::pin(walk(request, objects, &writer, env)).await?;
    if attempt > 1 {
        // Of pods that this attempt did not come to.
        side_effects.commands.pay(false).await;
    }
    if attempt > 1 || learned.volumes.may_have_left_snapshots() {
        // Of claims that an attempt before has found and that are gone, of those that are not in the backup, and what failed and could
        // not be removed then.
        Box::pin(remove_unwanted(&backup, Some(&learned.volumes), env)).await;
    }
    if let Some(native) = side_effects.native() {
        remove_unsaved(native, &mut learned.volumes, env).await;
    }
    let left = if attempt > 1 { left_of_before(&backup, attempt, env).await } else { Vec::new() };
    learned.volumes.tell(&backup, &env.operation.journal);
    let volumes = learned.volumes.records();
    let native = Native { snapshots: learned.volumes.native(), left };
    let pod_volumes = side_effects.files().map(FileBackups::resources).unwrap_or_default();
    let mut backup = backup;
    // The record lists them beside the namespaces that the user excludes.
    backup.spec.excluded_namespaces.extend(kept_out);
    backup.status.unprotected_volumes = i64::try_from(learned.volumes.unprotected().len()).unwrap_or(i64::MAX);
    Ok(RunResult::Archive(Box::new(Unsealed {
        backup,
        writer,
        written,
        volumes,
        native,
        pod_volumes,
        operations: learned.operations,
        hooks: learned.hooks,
        tool: request.settings.tool.clone(),
        cluster_version: version.git_version,
    })))
}

/// Removes the native snapshots whose PersistentVolumes are not in the backup: an action has left them out, or they failed.
async fn remove_unsaved(native: &NativeSnapshots, volumes: &mut Volumes, env: &Env) {
    for volume in volumes.unsaved() {
        match native.remove(&volume).await {
            Ok(()) => volumes.forget(&volume),
            Err(why) => {
                let text = format!(
                    "the PersistentVolume {volume} is not in the backup, and its snapshot stays until the backup is deleted: {why}"
                );
                env.operation.journal.warn(&ResultScope::Velero, text);
            }
        }
    }
}

/// The native snapshots of attempts before that cannot be deleted: they are deleted with the backup.
async fn left_of_before(backup: &Backup, attempt: u32, env: &Env) -> Vec<NativeSnapshot> {
    let is_known = |note: &SnapshotNote| note.attempt < attempt && !note.snapshot_id.is_empty();
    let left = remove_native(env, is_known).await.unwrap_or_default();
    tell_native(&left, &backup.metadata.name, env);
    let metadata = &backup.metadata;
    left.iter().filter_map(|one| one.record(&metadata.name, &metadata.uid)).collect()
}

/// Claims the name of a backup in the bucket.
pub(crate) async fn claim(backup: &Backup, settings: &Settings, env: &Env) -> Result<ClaimOutcome, BackupError> {
    let request = ClaimRequest {
        name: backup.metadata.name.clone(),
        backup_uid: backup.metadata.uid.clone(),
        cluster_uid: env.cluster.uid().await?,
        namespace: if settings.served { backup.metadata.namespace.clone() } else { String::new() },
        take_over: settings.take_over,
        now: (env.operation.clock)(),
    };
    Ok(env.store.claim(&request).await?)
}

/// The result of the walk over the objects.
struct ObjectsResult {
    written: Written,
    learned: ProcessedFacts,
    kept_out: Vec<String>,
}

async fn walk(
    request: &Request,
    objects: ObjectPipeline,
    writer: &BackupWriter,
    env: &Env,
) -> Result<ObjectsResult, BackupError> {
    let ObjectPipeline { processed, kept_out, tally, .. } = objects;
    let ProcessingStages { entries, learned, refusal } = processed;
    let archive = ArchiveUpload { level: request.settings.compression, writer, tally: &tally, env };
    let written = env.operation.trace().stage("write", Box::pin(archive.put(entries, refusal))).await?;
    tally.balance()?;
    let learned = learned.await.map_err(|_| BackupError::Worker("processing objects"))?;
    for ((resource, reason), count) in &learned.left_out {
        let fields =
            [("resource", resource.to_string()), ("count", count.to_string()), ("reason", (*reason).to_owned())];
        env.operation.journal.info("Left out objects", &fields.each_ref().map(|(key, value)| (*key, value.as_str())));
    }
    Ok(ObjectsResult { written, learned, kept_out })
}
