//! Fills a claim that was made from a repository, by a pod that the restore starts itself. The claim counts as restored when it is
//! full: what mounts it comes later, and so never sees half of it.
//!
//! The mark on a claim decides ([`awaits_files`]): it is put on when the claim is made, and taken off when it is full. So a claim that was
//! there before keeps what it holds, and one that a killed restore has left is filled by the next.

use crate::actions::awaits_files;
use crate::object::apply::ActionSelection;
use crate::object::desired::Desired;
use crate::object::refused::Refused;
use crate::state::item_result::ItemResult;
use crate::volumes::mounting_pods::MountingPod;
use crate::walk::context::RestoreContext;
use lifeboat_api::well_known::ANNOTATION_AWAITS_FILES;
use lifeboat_cluster::MergePatch;
use lifeboat_object::{ApiResource, GroupResource, ObjectKey};
use lifeboat_store::StoreError;
use lifeboat_volume::mover_pod::{ClaimToFill, FilledClaim, MoverPlacement, MoverPods, UnfilledClaim, UnfilledState};
use serde_json::{Value, json};

/// The next step of the user after a claim that was not filled.
const NEXT: &str = "when the reason is gone, run the same command again";

/// A claim that was written.
#[derive(Clone, Copy)]
pub(crate) struct WrittenClaim<'a> {
    /// Its keys in the backup and in the cluster.
    pub(crate) source: &'a ObjectKey,
    pub(crate) target: &'a ObjectKey,
    pub(crate) from_backup: &'a Value,
    pub(crate) result: ItemResult,
}

/// Fills an object that was written, where it is a claim that a pod of the restore fills. Gives the outcome for the object.
///
/// # Errors
/// [`Refused`]: the claim was not filled. One that this restore has made is deleted then, so that nothing starts on it, unless only the time
/// was over.
pub(crate) async fn fill(context: &RestoreContext, written: WrittenClaim<'_>) -> Result<ItemResult, Refused> {
    let WrittenClaim { source, target, from_backup, result } = written;
    let volumes = &context.builder.volumes;
    let Some(pods) = &volumes.pods else { return Ok(result) };
    if source.resource != GroupResource::new("", "persistentvolumeclaims") {
        return Ok(result);
    }
    let restore = &context.scope.restore;
    let Some(copy) = volumes.retained.treatments.by_mover_pod(source, from_backup, restore) else { return Ok(result) };
    let (claims, namespace) =
        (ApiResource::persistent_volume_claims(), target.namespace.as_deref().unwrap_or_default());
    let found = context.env.cluster.get(&claims, Some(namespace), &target.name).await;
    let found = found.map_err(|e| Refused::Because(Box::new(e)))?;
    let Some(claim) = found.map(|body| serde_json::from_slice::<Value>(&body).unwrap_or_default()) else {
        return Ok(result);
    };
    if !awaits_files(&claim) {
        return Ok(result);
    }
    let mounting = volumes.mounting.of(source);
    let placement = match mounting {
        Some(pod) => placement(context, source, pod).await?,
        None => MoverPlacement::default(),
    };
    let claim = ClaimToFill {
        namespace,
        name: &target.name,
        uid: claim["metadata"]["uid"].as_str().unwrap_or_default(),
        is_block: claim["spec"]["volumeMode"] == "Block",
        copy: &copy,
        timeout: context.scope.options.files_timeout,
        placement: &placement,
        now: (context.env.operation.clock)(),
    };
    match until_filled(context, pods, claim).await? {
        FillOutcome::Filled(filled) => {
            full(context, target, claim, &filled).await;
            Ok(result)
        }
        FillOutcome::Failed(UnfilledClaim { why, state }) => {
            let kept = match result {
                ItemResult::Created | ItemResult::Recreated => delete(context, claim).await,
                _ => "the claim stays, with its annotation and half of its data".to_owned(),
            };
            let held = mounting.filter(|_| state == UnfilledState::NotBegun && placement != MoverPlacement::default());
            let held = held.map(|pod| format!("; it may run only where the pod {} of the restore may", pod.name));
            let why = format!("{why}{}", held.unwrap_or_default());
            let text =
                format!("error restoring {target}: its data is not brought from the repository: {why}; {kept}; {NEXT}");
            context.state.messages.error(target, &text);
            Err(Refused::Reported)
        }
    }
}

/// The end of a pod that fills a claim.
enum FillOutcome {
    /// The claim is full.
    Filled(FilledClaim),
    /// It is not full, as this says.
    Failed(UnfilledClaim),
}

/// The nodes for the mover of a claim of the backup: those for this pod, as the restore is to make it, which mounts it afterwards.
///
/// # Errors
/// [`Refused::Stopped`].
async fn placement(context: &RestoreContext, claim: &ObjectKey, pod: &MountingPod) -> Result<MoverPlacement, Refused> {
    let from_backup = match context.reader.load_to_restore(pod.row).await {
        Ok(body) => serde_json::from_slice::<Value>(&body).unwrap_or_default(),
        Err(StoreError::Stopped) => return Err(Refused::Stopped),
        // It is read once more when its turn comes, and has its own error then.
        Err(_) => return Ok(MoverPlacement::default()),
    };
    let pods = GroupResource::new("", "pods");
    let key = context.scope.target_of(&ObjectKey::new(pods, claim.namespace.as_deref(), &pod.name));
    let desired = context.builder.desired(&context.scope, &key, &from_backup, ActionSelection::Pure).await;
    Ok(match desired {
        Ok(Desired::Object(pod)) => MoverPlacement::of_pod(&pod.item),
        _ => MoverPlacement::of_pod(&from_backup),
    })
}

/// Fills the claim. It waits beside the attempts that can go on.
///
/// # Errors
/// [`Refused::Stopped`]: the restore ends. Its pod is removed.
async fn until_filled(
    context: &RestoreContext,
    pods: &MoverPods,
    claim: ClaimToFill<'_>,
) -> Result<FillOutcome, Refused> {
    let (restore, env) = (&context.scope.restore, &context.env);
    let _slot = context.state.attempts.wait_slots.step();
    let claimed = format!("{}/{}", claim.namespace, claim.name);
    let fields = [("claim", &*claimed), ("snapshot", &*claim.copy.snapshot_id)];
    env.operation.journal.info("Filling a claim from a repository by a pod", &fields);
    tokio::select! {
        filled = pods.fill(claim, restore, &env.cluster) => {
            Ok(filled.map_or_else(FillOutcome::Failed, FillOutcome::Filled))
        }
        () = context.stop.wait() => {
            if let Err(why) = pods.remove(claim, restore, &env.cluster).await {
                tracing::warn!("{why}");
            }
            Err(Refused::Stopped)
        }
    }
}

/// Takes the mark off a claim that is full, and tells how it differs from what was saved.
async fn full(context: &RestoreContext, target: &ObjectKey, claim: ClaimToFill<'_>, filled: &FilledClaim) {
    let (cluster, messages) = (&context.env.cluster, &context.state.messages);
    if !filled.differences.is_empty() {
        messages.warning(target, &format!("the data of {target} is restored: {}", filled.differences));
    }
    let body = json!({"metadata": {"uid": claim.uid, "annotations": {ANNOTATION_AWAITS_FILES: null}}}).to_string();
    let claims = ApiResource::persistent_volume_claims();
    let patched = cluster.patch(&claims, Some(claim.namespace), claim.name, MergePatch::of(body.into())).await;
    if let Err(e) = patched {
        let text = format!(
            "{target} has its data, and its annotation {ANNOTATION_AWAITS_FILES} could not be removed: {e}; remove it, because another \
             restore would write over the claim"
        );
        messages.warning(target, &text);
    }
}

/// Deletes a claim that was made and not filled. Gives what became of it, as a part of a sentence.
async fn delete(context: &RestoreContext, claim: ClaimToFill<'_>) -> String {
    let claims = ApiResource::persistent_volume_claims();
    let deleted = context.env.cluster.delete_exactly(&claims, Some(claim.namespace), claim.name, claim.uid).await;
    match deleted {
        Ok(_) => "the claim is deleted, so that nothing starts on half of its data".to_owned(),
        Err(e) => format!("the claim could not be deleted ({e}): delete it before anything mounts it"),
    }
}
