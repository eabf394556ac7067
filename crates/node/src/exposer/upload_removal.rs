//! Removes what was made for a DataUpload, and the snapshot itself, step by step: the claim, then its volume, then the source, then the copy of
//! the snapshot. Each step is decided from the objects alone. Pure.
//!
//! Drivers refuse to delete a snapshot while a volume that was made from it exists, so the volume is waited for.

use crate::exposer::handover::{ReleaseStep, release, with_policy};
use crate::exposer::made_volume::{deletion_patch, is_of_claim};
use crate::exposer::moved_snapshot::{
    CopyOwner, MovedSnapshot, handle_of, is_being_deleted, is_in_group, may_be_source,
};
use crate::kube::{text, uid};
use crate::transfer::Transfer;
use lifeboat_api::well_known::ANNOTATION_MADE_VOLUME;
use serde_json::{Value, json};

/// On a content: its driver shall do as its policy says, and let it go.
const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// The objects of a DataUpload that has ended, and whose pod is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemovalView<'a> {
    pub(crate) transfer: &'a Transfer,
    /// The claim that the DataUpload owns.
    pub(crate) claim: Option<&'a Value>,
    /// The PersistentVolume named by [`made_volume`].
    pub(crate) volume: Option<&'a Value>,
    pub(crate) source: Option<&'a Value>,
    /// The content of the source.
    pub(crate) source_content: Option<&'a Value>,
    pub(crate) copy: Option<&'a Value>,
    pub(crate) copy_content: Option<&'a Value>,
    /// There is time to wait for others. Without, nothing is waited for, and what is left is told.
    pub(crate) may_wait: bool,
}

/// A step of a removal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RemovalStep {
    /// Applies this patch to the copied VolumeSnapshot.
    PatchCopy(Value),
    /// Applies this patch to the copied content.
    PatchCopyContent(Value),
    /// Applies this patch to the PersistentVolume.
    PatchVolume(Value),
    DeleteClaim {
        uid: String,
    },
    /// Does this to the source.
    Release(ReleaseStep),
    DeleteCopy {
        uid: String,
    },
    DeleteCopyContent {
        uid: String,
    },
    /// Waits for others.
    Wait(String),
    /// All that can be done is done; this is left.
    Done {
        left: Vec<String>,
    },
}

/// The PersistentVolume that was made from the snapshot; empty where none was.
pub(crate) fn made_volume<'a>(claim: Option<&'a Value>, copy: Option<&'a Value>) -> &'a str {
    match claim.map_or("", |claim| text(claim, &["spec", "volumeName"])) {
        "" => copy.map_or("", |copy| text(copy, &["metadata", "annotations", ANNOTATION_MADE_VOLUME])),
        volume => volume,
    }
}

/// The next step of a removal.
pub(crate) fn next_step(view: &RemovalView<'_>) -> RemovalStep {
    let transfer = view.transfer;
    let own = |object: &&Value| CopyOwner::of(transfer, object) != CopyOwner::Foreign;
    let (copy, copy_content) = (view.copy.filter(own), view.copy_content.filter(own));
    let (mut waits, name) = (Vec::new(), &transfer.meta.name);
    if let Some(claim) = view.claim {
        let volume = made_volume(Some(claim), None);
        if let Some(copy) = copy
            && !volume.is_empty()
            && text(copy, &["metadata", "annotations", ANNOTATION_MADE_VOLUME]) != volume
        {
            return RemovalStep::PatchCopy(json!({"metadata": {"annotations": {ANNOTATION_MADE_VOLUME: volume}}}));
        }
        if let Some(patch) = view.volume.and_then(|volume| deletion_patch(transfer, volume, claim)) {
            return RemovalStep::PatchVolume(patch);
        }
        match is_being_deleted(claim) {
            true => waits.push(format!("the claim {name}, from which it was read, is being deleted")),
            false => return RemovalStep::DeleteClaim { uid: uid(claim).to_owned() },
        }
    } else if let Some(volume) = view.volume.filter(|volume| is_of_claim(volume, transfer)) {
        let volume = text(volume, &["metadata", "name"]);
        waits.push(format!("the volume {volume}, which was made from the snapshot, is being deleted"));
    }
    if let (Some(reason), true) = (waits.first(), view.may_wait) {
        return RemovalStep::Wait(reason.clone());
    }
    match source_step(view, copy, copy_content) {
        Some(ReleaseStep::Wait(reason)) if view.may_wait => return RemovalStep::Wait(reason),
        Some(ReleaseStep::Wait(reason)) => waits.push(reason),
        Some(step) => return RemovalStep::Release(step),
        None => {}
    }
    if let Some(copy) = copy {
        let reason = format!("the VolumeSnapshot {name}, the copy of the snapshot, is being deleted");
        match (is_being_deleted(copy), view.may_wait) {
            (false, _) => return RemovalStep::DeleteCopy { uid: uid(copy).to_owned() },
            (true, true) => return RemovalStep::Wait(reason),
            (true, false) => waits.push(reason),
        }
    }
    if let Some(content) = copy_content {
        let reason = format!("the VolumeSnapshotContent {name}, and its snapshot, are being deleted");
        let is_deleting = is_being_deleted(content);
        if !is_deleting && let Some(patch) = told_to_delete(content) {
            return RemovalStep::PatchCopyContent(patch);
        }
        match (is_deleting, view.may_wait) {
            (false, _) => return RemovalStep::DeleteCopyContent { uid: uid(content).to_owned() },
            (true, true) => return RemovalStep::Wait(reason),
            (true, false) => waits.push(reason),
        }
    }
    RemovalStep::Done { left: waits }
}

/// The patch by which the driver of a content is told of its deletion; `None` where it is. Without it the content is never let go, not even
/// one that retains its snapshot.
fn told_to_delete(content: &Value) -> Option<Value> {
    let is_told = !content["metadata"]["annotations"][BEING_DELETED].is_null();
    (!is_told).then(|| {
        json!({"metadata": {
            "resourceVersion": content["metadata"]["resourceVersion"], "annotations": {BEING_DELETED: "yes"},
        }})
    })
}

/// The next step with the source. Where the copy owns the snapshot, the source goes and leaves it; else the snapshot goes with the source. One
/// of a group is left to the group.
fn source_step(view: &RemovalView<'_>, copy: Option<&Value>, copy_content: Option<&Value>) -> Option<ReleaseStep> {
    let noted = |object: &Value| CopyOwner::of(view.transfer, object).own();
    let absent = Value::Null;
    let (source, content) = (view.source, view.source_content);
    if is_in_group(source.unwrap_or(&absent), content.unwrap_or(&absent)) {
        return None;
    }
    match copy_content.and_then(noted) {
        Some(moved) if moved.is_in_group => return None,
        Some(moved) => return release(source, content, &moved),
        None => {}
    }
    if copy.and_then(noted).is_some_and(|moved: MovedSnapshot| moved.is_in_group) {
        return None;
    }
    let source = source.filter(|source| !is_being_deleted(source) && may_be_source(view.transfer, source))?;
    match content.filter(|content| text(content, &["spec", "deletionPolicy"]) != "Delete") {
        Some(content) if !handle_of(content).is_empty() => Some(ReleaseStep::PatchContent {
            name: text(content, &["metadata", "name"]).to_owned(),
            patch: with_policy(content, "Delete"),
        }),
        _ => Some(ReleaseStep::DeleteSource { uid: uid(source).to_owned() }),
    }
}
