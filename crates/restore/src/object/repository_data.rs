//! Begins to bring data from repositories into volumes, once the pod or claim is made that it comes with
//! (velero: pkg/podvolume/restorer.go, pkg/restore/actions/csi).

use crate::actions::known;
use crate::actions::restore_wait::awaited_volumes;
use crate::object::refused::Refused;
use crate::state::attempt::{Attempt, AttemptNumber, SourceObject};
use crate::state::lock::lock;
use crate::walk::context::RestoreContext;
use lifeboat_api::well_known::ANNOTATION_OVERWRITE_VOLUMES;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_volume::FileVolume;
use lifeboat_volume::csi::CLAIM_RESTORE_ACTION;
use lifeboat_volume::data_movement::restore::{ClaimToFill, begin as begin_download};
use lifeboat_volume::facts::name_of_object;
use lifeboat_volume::fs_backup::{ClaimsFilled, RestoredPod};
use serde_json::Value;
use tokio::time::Instant;

/// An object that this restore has made.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) from_backup: &'a Value,
    pub(crate) in_cluster: &'a Value,
}

/// Lets a pod come after the pods through which claims that it mounts are filled. One that was in the cluster before fills none.
pub(crate) fn check_claims(
    context: &RestoreContext,
    source: &ObjectKey,
    target: &ObjectKey,
    turn: AttemptNumber,
) -> Result<(), Refused> {
    if source.resource != GroupResource::new("", "pods") {
        return Ok(());
    }
    let (namespace, state) = (source.namespace.as_deref().unwrap_or_default(), &context.state);
    let Some(files) = context.builder.volumes.retained.files.of(&name_of_object(source)) else { return Ok(()) };
    for name in &files.after {
        let first = known::pod(namespace, name);
        let in_cluster = context.scope.target_of(&first);
        let why = match state.pods.files.claims_through(in_cluster.namespace.as_deref().unwrap_or_default(), name) {
            Some(ClaimsFilled::Yes) => continue,
            Some(ClaimsFilled::No(why)) => why,
            // The restore of files gives it up when no bytes are moved any more.
            Some(ClaimsFilled::NotYet) => return Err(Refused::Filling),
            None if state.notes.lost_claims.has_pod(&in_cluster) => "that pod could not be restored".to_owned(),
            None => match context.scope.find(&first) {
                Some(row) if is_to_come(context, row, turn) => return Err(Refused::Filling),
                _ => continue,
            },
        };
        let text = format!(
            "error restoring {target}: held back, because a claim that it mounts is filled through the pod {name}: {why}; when that is \
             mended, make another Restore"
        );
        state.messages.error(target, &text);
        return Err(Refused::Reported);
    }
    Ok(())
}

/// Returns true if an attempt at a pod goes on or is still to come.
fn is_to_come(context: &RestoreContext, row: usize, turn: AttemptNumber) -> bool {
    if lock(&context.state.notes.ended_pods).contains(&row) || Instant::now() >= context.state.attempts.filling.until()
    {
        return false;
    }
    // All levels have had their turn when it is tried again: what no attempt led to was done by an earlier run.
    !turn.again || context.state.claimed.has_begun(row)
}

/// Notes the end of an attempt at a pod through which others may have their claims filled.
pub(crate) fn note_end(context: &RestoreContext, source: &SourceObject, attempt: Attempt) {
    if matches!(attempt, Attempt::Done { .. })
        && source.key.resource == GroupResource::new("", "pods")
        && context.builder.volumes.retained.files.of(&name_of_object(&source.key)).is_some()
    {
        lock(&context.state.notes.ended_pods).insert(source.row);
    }
}

/// Begins it for an object, by its keys in the backup and in the cluster. Doing it again begins nothing twice.
pub(crate) async fn begin(context: &RestoreContext, source: &ObjectKey, target: &ObjectKey, written: Written<'_>) {
    if source.resource == GroupResource::new("", "pods") {
        fill_pod(context, source, target, written.in_cluster);
    } else if source.resource == GroupResource::new("", "persistentvolumeclaims") {
        fill_claim(context, source, target, written).await;
    }
}

fn fill_pod(context: &RestoreContext, source: &ObjectKey, target: &ObjectKey, in_cluster: &Value) {
    let source_namespace = source.namespace.as_deref().unwrap_or_default();
    let Some(files) = context.builder.volumes.retained.files.of(&name_of_object(source)) else { return };
    let messages = &context.state.messages;
    for volume in &files.refused {
        let why = "a path of its node (hostPath), to which nothing is written";
        messages
            .warning(target, &format!("the files of the volume {volume} of {target} are not restored: it is {why}"));
    }
    let awaited = awaited_volumes(in_cluster);
    let (filled, kept): (Vec<FileVolume>, Vec<FileVolume>) =
        files.restored.iter().cloned().partition(|one| awaited.contains(one.volume.as_str()));
    for FileVolume { volume, claim, .. } in &kept {
        let claim = claim.as_deref().unwrap_or_default();
        messages.warning(
            target,
            &format!(
                "the files of the volume {volume} of {target} are not restored: its claim {claim} was in the cluster before this restore and \
                 keeps what it holds; to write the files of the backup over that, delete the pod and make another Restore with \
                 --overwrite-volumes (the annotation {ANNOTATION_OVERWRITE_VOLUMES}: \"true\" of the restore)"
            ),
        );
    }
    if !filled.is_empty() {
        context.state.pods.files.begin(RestoredPod { in_cluster, source_namespace, volumes: &filled });
        // A run again has to know how they ended.
        messages.leave_open(target);
    }
}

async fn fill_claim(context: &RestoreContext, source: &ObjectKey, target: &ObjectKey, written: Written<'_>) {
    let (volumes, restore) = (&context.builder.volumes, &context.scope.restore);
    let Some(moved) = volumes.retained.treatments.moved(written.from_backup, restore) else { return };
    let claim = ClaimToFill {
        namespace: target.namespace.as_deref().unwrap_or_default(),
        name: written.in_cluster["metadata"]["name"].as_str().unwrap_or(&target.name),
        uid: written.in_cluster["metadata"]["uid"].as_str().unwrap_or_default(),
        has_volume: written.in_cluster["spec"]["volumeName"].as_str().is_some_and(|volume| !volume.is_empty()),
        source_namespace: source.namespace.as_deref().unwrap_or_default(),
        source_uid: written.from_backup["metadata"]["uid"].as_str().unwrap_or_default(),
        moved: &moved,
    };
    let begun = match (context.env.operation.fence)() {
        Ok(()) => begin_download(claim, restore, &volumes.downloads, &context.env.cluster).await,
        Err(why) => Err(why),
    };
    match begun {
        Ok(id) => context.state.attempts.operations.begin(CLAIM_RESTORE_ACTION, target, &id).await,
        Err(why) => {
            let next = "delete the claim and make another Restore";
            let text = format!("error restoring {target}: its data is not brought from the repository: {why}; {next}");
            context.state.messages.error(target, &text);
        }
    }
}
