//! Removes what was made for a transfer. Each part may be gone already.

use crate::delivery::{KEPT, has_restored_data};
use crate::exposer::claim::cache_name;
use crate::exposer::copies::{UnfinishedUids, remove_copies};
use crate::exposer::made_volume::{deletion_patch, is_of_claim, policy_of, with_policy};
use crate::exposer::upload_objects::{UploadObjects, perform_release};
use crate::exposer::upload_removal::{RemovalStep, RemovalView, made_volume, next_step};
use crate::kube::{Kube, ObjectName, is_owned_by, text, uid};
use crate::resources;
use crate::transfer::{RemadeVolume, Transfer, TransferKind, TransferRequest};
use lifeboat_api::well_known::ANNOTATION_DELIVERY;
use lifeboat_api::{DataPathPhase, DataUploadSpec};
use lifeboat_cluster::ClusterError;
use serde_json::Value;

/// The most steps of the removal of a DataUpload that are done one after the other.
const MOST_STEPS: usize = 16;

/// The outcome of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// All that can be removed is. What is left is waited for no longer; empty for nothing.
    Done { left: String },
    /// It waits for this.
    Waits(String),
    /// This is to be told of restored bytes that are kept, before the rest is removed.
    Keeps(String),
    /// Copies are not removed yet, for this reason. `left` is noted now, because no later look sees it.
    Left { left: String, reason: String },
}

/// Removes pod, claims with their volumes, snapshots, and copies of Secrets and ConfigMaps. Others are waited for only when that is asked
/// for.
///
/// `unfinished` has the UIDs of transfers that are known to go on.
pub(crate) async fn remove_all(
    kube: &Kube,
    transfer: &Transfer,
    may_wait: bool,
    unfinished: &UnfinishedUids,
) -> Result<Removal, ClusterError> {
    remove_pod(kube, transfer).await?;
    if transfer.kind == TransferKind::PodVolumeBackup {
        return Ok(Removal::Done { left: String::new() });
    }
    let mut left = String::new();
    if let TransferRequest::DataUpload(spec) = &transfer.request {
        match remove_upload(kube, transfer, spec, may_wait).await? {
            Removal::Done { left: of_upload } => left = of_upload,
            waits => return Ok(waits),
        }
    } else {
        if let Some(told) = keep_delivered(kube, transfer).await? {
            return Ok(Removal::Keeps(told));
        }
        for name in [&transfer.meta.name, &cache_name(transfer)] {
            remove_claim(kube, transfer, name).await?;
        }
    }
    if !transfer.kind.is_of_any_node() {
        return Ok(Removal::Done { left });
    }
    after_copies(transfer, left, remove_copies(kube, transfer, unfinished).await)
}

/// The outcome of a removal whose last part are the copies.
fn after_copies(
    transfer: &Transfer,
    left: String,
    copies: Result<bool, ClusterError>,
) -> Result<Removal, ClusterError> {
    match copies {
        Ok(true) => Ok(Removal::Done { left }),
        Ok(false) => {
            let reason = "a copy of a Secret or ConfigMap has changed meanwhile".to_owned();
            Ok(Removal::Left { left, reason })
        }
        // It was noted already, and the error is tried again as any other.
        Err(e) if transfer.message.contains(&left) => Err(e),
        Err(e) => Ok(Removal::Left { left, reason: e.to_string() }),
    }
}

/// Removes the pod of a transfer.
pub(crate) async fn remove_pod(kube: &Kube, transfer: &Transfer) -> Result<(), ClusterError> {
    let resource = resources::pods();
    let of = ObjectName { resource: &resource, namespace: Some(&transfer.meta.namespace), name: &transfer.meta.name };
    match kube.get(of).await? {
        Some(pod) if is_owned_by(&pod, &transfer.meta.uid) => kube.delete(of, uid(&pod)).await,
        _ => Ok(()),
    }
}

/// A claim of this name, if the transfer owns it.
async fn own_claim(kube: &Kube, transfer: &Transfer, name: &str) -> Result<Option<Value>, ClusterError> {
    let claim = kube.find(&resources::claims(), Some(&transfer.meta.namespace), name).await?;
    Ok(claim.filter(|claim| is_owned_by(claim, &transfer.meta.uid)))
}

/// Removes a claim of a transfer, and the volume that was made for it, whatever the storage class says of volumes. A volume with a delivery
/// that was begun holds the restored bytes, and stays.
async fn remove_claim(kube: &Kube, transfer: &Transfer, name: &str) -> Result<(), ClusterError> {
    let resource = resources::claims();
    let Some(claim) = own_claim(kube, transfer, name).await? else { return Ok(()) };
    let volume = text(&claim, &["spec", "volumeName"]);
    let is_kept = transfer.delivery().is_some_and(|delivery| delivery.volume == volume);
    if !volume.is_empty() && !is_kept {
        let volumes = resources::volumes();
        let of = ObjectName { resource: &volumes, namespace: None, name: volume };
        let found = kube.get(of).await?;
        if let Some(patch) = found.and_then(|found| deletion_patch(transfer, &found, &claim)) {
            kube.patch(of, &patch).await?;
        }
    }
    let of = ObjectName { resource: &resource, namespace: Some(&transfer.meta.namespace), name };
    kube.delete(of, uid(&claim)).await
}

/// Has a volume whose delivery was given up outlive the claim in which it was filled. Gives news of it for people.
async fn keep_delivered(kube: &Kube, transfer: &Transfer) -> Result<Option<String>, ClusterError> {
    let Some(delivery) = transfer.delivery() else { return Ok(None) };
    let resource = resources::volumes();
    let of = ObjectName { resource: &resource, namespace: None, name: &delivery.volume };
    let filled = kube.get(of).await?;
    if let Some(volume) = &filled
        && is_of_claim(volume, transfer)
        && policy_of(volume) != "Retain"
    {
        kube.patch(of, &with_policy(volume, "Retain")).await?;
    }
    let stays = filled.is_some_and(|volume| volume["metadata"]["deletionTimestamp"].is_null());
    match &delivery.remade {
        Some(remade) if !stays && transfer.phase != DataPathPhase::Completed => {
            let told = keep_remade(kube, transfer, remade).await?;
            // The agent that has given it up may have told it.
            Ok(told.filter(|told| !transfer.message.contains(&told.beginning)).map(|told| told.beginning + &told.rest))
        }
        _ => Ok(None),
    }
}

/// News for people, which are known by their beginning.
struct KeptNotice {
    beginning: String,
    rest: String,
}

/// Has a PersistentVolume for restored bytes whose first one is gone, or goes. An agent that was stopped between its look
/// and its step may have removed that after another agent has given up the delivery.
async fn keep_remade(
    kube: &Kube,
    transfer: &Transfer,
    remade: &RemadeVolume,
) -> Result<Option<KeptNotice>, ClusterError> {
    let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(None) };
    let (resource, name, target) = (resources::volumes(), remade.name.as_str(), &spec.target_volume);
    let kept = KeptNotice { beginning: has_restored_data(name), rest: KEPT.to_owned() };
    if let Some(made) = kube.find(&resource, None, name).await? {
        return Ok((policy_of(&made) == "Retain").then_some(kept));
    }
    let target = kube.find(&resources::claims(), Some(&target.namespace), &target.pvc).await?;
    // One that was bound has been there, and somebody has deleted it.
    if !remade.manifest.is_object() || target.is_some_and(|target| text(&target, &["spec", "volumeName"]) == name) {
        return Ok(None);
    }
    match kube.create(ObjectName { resource: &resource, namespace: None, name }, &remade.manifest).await {
        Ok(_) => Ok(Some(kept)),
        Err(e) if e.can_pass() => Err(e),
        Err(e) => {
            let beginning = "no PersistentVolume has the restored data any more".to_owned();
            let rest = format!(
                ", because none could be made: {e}: make the one that the annotation {ANNOTATION_DELIVERY} has, or delete the volume in the storage"
            );
            Ok(Some(KeptNotice { beginning, rest }))
        }
    }
}

/// Removes claim, volume and snapshot of a DataUpload.
async fn remove_upload(
    kube: &Kube,
    transfer: &Transfer,
    spec: &DataUploadSpec,
    may_wait: bool,
) -> Result<Removal, ClusterError> {
    let (claims, volumes) = (resources::claims(), resources::volumes());
    let (snapshots, contents) = (resources::snapshots(), resources::snapshot_contents());
    let (name, own) = (transfer.meta.name.as_str(), Some(transfer.meta.namespace.as_str()));
    let own_object = |resource| ObjectName { resource, namespace: own, name };
    let own_content = ObjectName { resource: &contents, namespace: None, name };
    // Claim and copy, which say it, may go before it.
    let mut volume_name = String::new();
    for _ in 0..MOST_STEPS {
        let claim = own_claim(kube, transfer, name).await?;
        let objects = UploadObjects::read(kube, transfer, spec).await?;
        let seen = made_volume(claim.as_ref(), objects.copy.as_ref());
        if !seen.is_empty() {
            seen.clone_into(&mut volume_name);
        }
        let of_volume = ObjectName { resource: &volumes, namespace: None, name: &volume_name };
        let volume = match volume_name.as_str() {
            "" => None,
            _ => kube.get(of_volume).await?,
        };
        let step = next_step(&RemovalView {
            transfer,
            claim: claim.as_ref(),
            volume: volume.as_ref(),
            source: objects.source.as_ref(),
            source_content: objects.source_content.as_ref(),
            copy: objects.copy.as_ref(),
            copy_content: objects.copy_content.as_ref(),
            may_wait,
        });
        match step {
            RemovalStep::PatchCopy(patch) => drop(kube.patch(own_object(&snapshots), &patch).await?),
            RemovalStep::PatchCopyContent(patch) => drop(kube.patch(own_content, &patch).await?),
            RemovalStep::PatchVolume(patch) => drop(kube.patch(of_volume, &patch).await?),
            RemovalStep::DeleteClaim { uid } => kube.delete(own_object(&claims), &uid).await?,
            RemovalStep::DeleteCopy { uid } => kube.delete(own_object(&snapshots), &uid).await?,
            RemovalStep::DeleteCopyContent { uid } => kube.delete(own_content, &uid).await?,
            RemovalStep::Release(step) => {
                if let Some(reason) = perform_release(kube, spec, &step).await? {
                    return Ok(Removal::Waits(reason));
                }
            }
            RemovalStep::Wait(reason) => return Ok(Removal::Waits(reason)),
            RemovalStep::Done { left } => {
                let left = left.join("; ");
                if !left.is_empty() {
                    tracing::warn!(name, left, "nobody waits any longer for what is left of a DataUpload");
                }
                return Ok(Removal::Done { left });
            }
        }
    }
    Ok(Removal::Waits("what is left of it changes all the time".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_cluster::Failure;
    use serde_json::json;

    #[test]
    fn a_copy_that_cannot_be_removed_says_why_and_hides_nothing_that_is_left() {
        let error = || ClusterError { verb: "patch", what: "key".into(), failure: Failure::Invalid("no room".into()) };
        let read = |message: &str| {
            let status = json!({"phase": "Failed", "message": message});
            let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": "t"}, "spec": {}, "status": status});
            Transfer::parse(TransferKind::DataUpload, object.to_string().as_bytes()).unwrap()
        };
        let after = |message: &str, left: &str, copies| after_copies(&read(message), left.to_owned(), copies);
        let left = |reason: String| Removal::Left { left: "the snapshot s".to_owned(), reason };
        assert_eq!(after("", "", Ok(true)).unwrap(), Removal::Done { left: String::new() });
        assert_eq!(after("", "the snapshot s", Err(error())).unwrap(), left(error().to_string()));
        let changed = "a copy of a Secret or ConfigMap has changed meanwhile".to_owned();
        assert_eq!(after("", "the snapshot s", Ok(false)).unwrap(), left(changed));
        // Where nothing else is left, or it is noted, the error itself is tried again.
        for (message, of) in [("", ""), ("failed; the snapshot s", "the snapshot s")] {
            assert_eq!(after(message, of, Err(error())).unwrap_err().to_string(), error().to_string());
        }
    }
}
