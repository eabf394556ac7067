//! Hands the snapshot of a DataUpload over from the namespace of its claim to that of the node agent, step by step. Each step is decided
//! from the objects alone, so that a handover that was broken off goes on. Pure.
//!
//! The snapshot in the storage always has a content that owns it: the copy is made first; then the content of the source is told to
//! retain the snapshot, and only when it was read back as such, source and content go.

use crate::exposer::moved_snapshot::{
    CopyOwner, MovedSnapshot, content_copy, content_of, handle_of, is_being_deleted, is_in_group, may_be_source,
    snapshot_copy, source_name,
};
use crate::kube::{text, uid};
use crate::transfer::Transfer;
use lifeboat_api::DataUploadSpec;
use serde_json::{Value, json};

/// The objects of a handover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandoverView<'a> {
    pub(crate) transfer: &'a Transfer,
    pub(crate) spec: &'a DataUploadSpec,
    /// The VolumeSnapshot that the DataUpload names.
    pub(crate) source: Option<&'a Value>,
    /// The content named by [`source_content`].
    pub(crate) source_content: Option<&'a Value>,
    /// The VolumeSnapshot of the DataUpload's name, in its namespace.
    pub(crate) copy: Option<&'a Value>,
    /// The VolumeSnapshotContent of the DataUpload's name.
    pub(crate) copy_content: Option<&'a Value>,
}

/// A step of a handover.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HandoverStep {
    /// Creates this VolumeSnapshot.
    CreateSnapshot(Value),
    /// Creates this VolumeSnapshotContent.
    CreateContent(Value),
    /// Does a step that takes the source out of the cluster.
    Release(ReleaseStep),
    /// Waits for others.
    Wait(String),
    /// It cannot be done any more.
    Failed(String),
    /// Volumes can be made from the copy.
    Done(MovedSnapshot),
}

/// A step that takes the source of a handed over snapshot out of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReleaseStep {
    /// Applies this patch to the content.
    PatchContent { name: String, patch: Value },
    /// Deletes the source, which has this UID.
    DeleteSource { uid: String },
    /// Deletes the content.
    DeleteContent { name: String, uid: String },
    /// Waits for others.
    Wait(String),
}

/// The name of the source's content, from the objects that are there; empty where it is not known.
pub(crate) fn source_content(transfer: &Transfer, source: Option<&Value>, copies: [Option<&Value>; 2]) -> String {
    let noted = |copy: &Value| CopyOwner::of(transfer, copy).own().map(|moved| moved.content);
    let noted = copies.into_iter().flatten().find_map(|copy| noted(copy).filter(|name| !name.is_empty()));
    noted.unwrap_or_else(|| source.map_or("", content_of).to_owned())
}

/// The next step of a handover.
pub(crate) fn next_step(view: &HandoverView<'_>) -> HandoverStep {
    let transfer = view.transfer;
    let name = &transfer.meta.name;
    let owned = |object: &Value| CopyOwner::of(transfer, object);
    for (object, kind) in [(view.copy, "VolumeSnapshot"), (view.copy_content, "VolumeSnapshotContent")] {
        match object {
            Some(object) if owned(object) == CopyOwner::Foreign => {
                return HandoverStep::Failed(format!(
                    "there is a {kind} {name} that belongs to something else; delete it if nobody needs its snapshot, and make another backup"
                ));
            }
            Some(object) if is_being_deleted(object) => {
                return HandoverStep::Failed(format!("the {kind} {name}, the copy of the snapshot, was deleted"));
            }
            _ => {}
        }
    }
    let (copy, content) = match (view.copy, view.copy_content) {
        (Some(copy), Some(content)) => (copy, content),
        (None, Some(_)) => {
            return HandoverStep::Failed(format!("the VolumeSnapshot {name}, the copy of the snapshot, was deleted"));
        }
        (copy, None) => return copied(view, copy),
    };
    let Some(moved) = owned(content).own() else { return HandoverStep::Wait("the copy of the snapshot".to_owned()) };
    let bound = text(content, &["spec", "volumeSnapshotRef", "uid"]);
    if !bound.is_empty() && bound != uid(copy) {
        return HandoverStep::Failed(format!("the VolumeSnapshot {name}, the copy of the snapshot, was made anew"));
    }
    let restore_size = match moved.restore_size.as_str() {
        "" => text(copy, &["status", "restoreSize"]).to_owned(),
        size => size.to_owned(),
    };
    let absent = Value::Null;
    // A node agent of Velero has not noted it.
    let is_in_group =
        moved.is_in_group || is_in_group(view.source.unwrap_or(&absent), view.source_content.unwrap_or(&absent));
    let moved = MovedSnapshot { restore_size, is_in_group, ..moved };
    if moved.is_in_group {
        return HandoverStep::Done(moved);
    }
    if let Some(content) = view.source_content
        && is_being_deleted(content)
        && text(content, &["spec", "deletionPolicy"]) != "Retain"
    {
        return HandoverStep::Failed(format!(
            "the {} was deleted, and its driver deletes the snapshot in the storage",
            source_name(view.spec)
        ));
    }
    match release(view.source, view.source_content, &moved) {
        Some(step) => HandoverStep::Release(step),
        None => HandoverStep::Done(moved),
    }
}

/// The copies that are still to be made.
fn copied(view: &HandoverView<'_>, copy: Option<&Value>) -> HandoverStep {
    let source_name = source_name(view.spec);
    let is_it = |source: &&Value| !is_being_deleted(source) && may_be_source(view.transfer, source);
    let Some(source) = view.source.filter(is_it) else {
        return HandoverStep::Failed(format!("the {source_name}, which is to be moved, is gone; make another backup"));
    };
    if source["status"]["readyToUse"] != true {
        let error = text(source, &["status", "error", "message"]);
        return HandoverStep::Wait(match error {
            "" => format!("the {source_name} is not ready"),
            error => format!("the {source_name} is not ready: {error}"),
        });
    }
    let Some(content) = view.source_content.filter(|content| !is_being_deleted(content)) else {
        return HandoverStep::Failed(format!("the VolumeSnapshotContent of the {source_name} is gone"));
    };
    let bound = text(content, &["spec", "volumeSnapshotRef", "uid"]);
    if !bound.is_empty() && bound != uid(source) {
        return HandoverStep::Failed(format!("the VolumeSnapshotContent of the {source_name} is of another one"));
    }
    let moved = MovedSnapshot::of_source(view.transfer, source, content);
    if moved.handle.is_empty() {
        return HandoverStep::Wait(format!("the {source_name} has no snapshot in the storage yet"));
    }
    match copy {
        None => HandoverStep::CreateSnapshot(snapshot_copy(view.transfer, source, &moved)),
        Some(copy) => HandoverStep::CreateContent(content_copy(content, copy, &moved)),
    }
}

/// The next step that takes the source of a snapshot out of the cluster, whose copy is there; `None` when nothing is left of it.
pub(crate) fn release(source: Option<&Value>, content: Option<&Value>, moved: &MovedSnapshot) -> Option<ReleaseStep> {
    // A content of another snapshot has only the name.
    let content = content.filter(|content| handle_of(content) == moved.handle);
    let name = content.map_or("", |content| text(content, &["metadata", "name"])).to_owned();
    let source = source.filter(|source| match content_of(source) {
        "" => false,
        bound => bound == name || bound == moved.content,
    });
    if let Some(content) = content
        && text(content, &["spec", "deletionPolicy"]) != "Retain"
    {
        return Some(ReleaseStep::PatchContent { name, patch: with_policy(content, "Retain") });
    }
    match (source, content) {
        (Some(source), _) if is_being_deleted(source) => {
            Some(ReleaseStep::Wait("the VolumeSnapshot that was moved is being deleted".to_owned()))
        }
        (Some(source), _) => Some(ReleaseStep::DeleteSource { uid: uid(source).to_owned() }),
        (None, Some(content)) if is_being_deleted(content) => {
            Some(ReleaseStep::Wait("the VolumeSnapshotContent that was moved is being deleted".to_owned()))
        }
        (None, Some(content)) => Some(ReleaseStep::DeleteContent { name, uid: uid(content).to_owned() }),
        (None, None) => None,
    }
}

/// The patch of this very version of a content that gives it a deletion policy.
pub(crate) fn with_policy(content: &Value, policy: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": content["metadata"]["resourceVersion"]}, "spec": {"deletionPolicy": policy},
    })
}
