//! The patches by which a transfer shows its steps. Pure.

use crate::attempts::{KilledMover, killed_movers, note as note_of};
use crate::outcome::{SavedVolume, TransferResult};
use crate::rules::Ending;
use crate::transfer::{Transfer, TransferKind};
use jiff::Timestamp;
use lifeboat_api::well_known::{
    ANNOTATION_KILLED_MOVERS, ANNOTATION_MOVED_AT, ANNOTATION_MOVED_FILES, ANNOTATION_OTHERS_MOVED_AT,
    LABEL_EXPOSE_ON_GOING,
};
use lifeboat_api::{DataPathPhase, MovedFiles, NodeOs, Time};
use lifeboat_mover::protocol::MovedData;
use serde_json::{Value, json};

/// A patch of this very version of a transfer.
fn of(transfer: &Transfer, metadata: Value, rest: Value) -> Value {
    let mut patch = rest;
    patch["metadata"] = metadata;
    patch["metadata"]["resourceVersion"] = json!(transfer.meta.resource_version);
    patch
}

fn with_finalizer(transfer: &Transfer) -> Vec<String> {
    let mut finalizers = transfer.meta.finalizers.clone();
    if !transfer.has_finalizer() {
        finalizers.push(transfer.kind.finalizer().to_owned());
    }
    finalizers
}

pub(super) fn add_finalizer(transfer: &Transfer) -> Value {
    of(transfer, json!({"finalizers": with_finalizer(transfer)}), json!({}))
}

/// Ends the clean-up of a transfer, and tells what it has left.
pub(super) fn remove_finalizer(transfer: &Transfer, left: &str) -> Value {
    let others = transfer.meta.finalizers_without(transfer.kind.finalizer());
    let told = tell_left(transfer, left).unwrap_or_else(|| json!({}));
    of(transfer, json!({"finalizers": others, "labels": {LABEL_EXPOSE_ON_GOING: null}}), told)
}

/// Tells what the clean-up of a transfer has left, while there is more to do; `None` where nothing is, or it is told already.
pub(super) fn note_left(transfer: &Transfer, left: &str) -> Option<Value> {
    Some(of(transfer, json!({}), tell_left(transfer, left)?))
}

/// The message of what was left, behind the one that is there.
fn tell_left(transfer: &Transfer, left: &str) -> Option<Value> {
    if left.is_empty() || transfer.message.contains(left) {
        return None;
    }
    let left = format!(
        "clean-up was given up after --resource-timeout: {left}; delete what is still there, and its snapshot in the storage"
    );
    Some(json!({"status": {"message": joined(&transfer.message, &left)}}))
}

/// Two texts as one, each of which may be empty.
pub(super) fn joined(first: &str, second: &str) -> String {
    [first, second].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

pub(super) fn accept(transfer: &Transfer, node: &str, now: Timestamp) -> Value {
    // What it has waited for until now is over.
    let message = note_of(&killed_movers(transfer));
    let mut status = json!({"phase": DataPathPhase::Accepted, "acceptedTimestamp": Time::new(now), "message": message});
    match transfer.kind {
        TransferKind::PodVolumeRestore => status["node"] = json!(node),
        TransferKind::DataDownload | TransferKind::DataUpload => status["acceptedByNode"] = json!(node),
        // It names the node itself.
        TransferKind::PodVolumeBackup => {}
    }
    let metadata = json!({"finalizers": with_finalizer(transfer), "labels": {LABEL_EXPOSE_ON_GOING: "true"}});
    of(transfer, metadata, json!({"status": status}))
}

pub(super) fn prepare(transfer: &Transfer, node: &str, os: NodeOs) -> Value {
    let message = note_of(&killed_movers(transfer));
    let mut status = json!({"phase": DataPathPhase::Prepared, "message": message});
    if transfer.kind != TransferKind::PodVolumeBackup {
        status["node"] = json!(node);
    }
    if transfer.kind == TransferKind::DataUpload {
        status["nodeOS"] = json!(os);
    }
    of(transfer, json!({}), json!({"status": status}))
}

pub(super) fn begin(transfer: &Transfer, now: Timestamp) -> Value {
    let message = note_of(&killed_movers(transfer));
    let started = transfer.started.unwrap_or_else(|| Time::new(now));
    let status = json!({"phase": DataPathPhase::InProgress, "startTimestamp": started, "message": message});
    let annotations = json!({ANNOTATION_MOVED_AT: Time::new(now)});
    let metadata = json!({"labels": {LABEL_EXPOSE_ON_GOING: null}, "annotations": annotations});
    of(transfer, metadata, json!({"status": status}))
}

/// Goes back to where a pod is made, after these movers were killed.
pub(super) fn again(transfer: &Transfer, killed: &[KilledMover], node: &str, now: Timestamp) -> Value {
    let mut status = json!({
        "phase": DataPathPhase::Accepted, "acceptedTimestamp": Time::new(now), "message": note_of(killed),
    });
    if transfer.kind.is_of_any_node() {
        status["acceptedByNode"] = json!(node);
        status["node"] = Value::Null;
    }
    let noted = serde_json::to_string(killed).unwrap_or_default();
    let metadata = json!({"labels": {LABEL_EXPOSE_ON_GOING: "true"}, "annotations": {ANNOTATION_KILLED_MOVERS: noted}});
    of(transfer, metadata, json!({"status": status}))
}

pub(super) fn request_cancel(transfer: &Transfer, message: &str) -> Value {
    of(transfer, json!({}), json!({"spec": {"cancel": true}, "status": {"message": message}}))
}

pub(super) fn show_canceling(transfer: &Transfer) -> Value {
    of(transfer, json!({}), json!({"status": {"phase": DataPathPhase::Canceling}}))
}

pub(super) fn note(transfer: &Transfer, message: &str) -> Value {
    of(transfer, json!({}), json!({"status": {"message": message}}))
}

/// Notes when those that it waits for last moved something, so that nobody takes its wait for a standstill.
pub(super) fn note_others(transfer: &Transfer, moved: Timestamp) -> Value {
    of(transfer, json!({"annotations": {ANNOTATION_OTHERS_MOVED_AT: Time::new(moved)}}), json!({}))
}

/// As [`note`], and the time of the preparation begins anew.
pub(super) fn note_anew(transfer: &Transfer, message: &str, now: Timestamp) -> Value {
    of(transfer, json!({}), json!({"status": {"message": message, "acceptedTimestamp": Time::new(now)}}))
}

/// The files that a mover tells of; `None` of a device.
pub(super) fn files_of(moved: MovedData) -> Option<MovedFiles> {
    let MovedData { done_files: done, total_files: total, .. } = moved;
    (total > 0).then_some(MovedFiles { done, total })
}

/// Shows how far a transfer has come. Velero's definitions have bytes alone: files are an annotation.
pub(super) fn progress(transfer: &Transfer, moved: MovedData, now: Timestamp) -> Value {
    let files = files_of(moved).map(|files| files.to_string());
    let metadata = json!({"annotations": {ANNOTATION_MOVED_AT: Time::new(now), ANNOTATION_MOVED_FILES: files}});
    let progress = json!({"totalBytes": moved.total_bytes, "bytesDone": moved.done_bytes});
    of(transfer, metadata, json!({"status": {"progress": progress}}))
}

pub(super) fn end(transfer: &Transfer, ending: &Ending, now: Timestamp) -> Value {
    // What was passed over does not make it fail, and is told.
    let told = ending.result.as_ref().map(|result| &result.message);
    let message = Some(joined(&ending.message, told.map_or("", String::as_str))).filter(|all| !all.is_empty());
    let mut status = json!({"phase": ending.phase, "message": message, "completionTimestamp": Time::new(now)});
    let mut metadata = json!({"labels": {LABEL_EXPOSE_ON_GOING: null}});
    if let Some(TransferResult { total_bytes, files, saved, .. }) = &ending.result {
        if *files > 0 {
            let files = MovedFiles { done: *files, total: *files };
            metadata["annotations"] = json!({ANNOTATION_MOVED_FILES: files.to_string()});
        }
        status["progress"] = json!({"totalBytes": total_bytes, "bytesDone": total_bytes});
        if let Some(SavedVolume { snapshot_id, path, incremental_bytes }) = saved {
            status["snapshotID"] = json!(snapshot_id);
            status["path"] = json!(path);
            // As Velero leaves it out.
            status["incrementalBytes"] = json!(Some(incremental_bytes).filter(|bytes| **bytes != 0));
        }
    }
    of(transfer, metadata, json!({"status": status}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_transfer_tells_all_that_is_known() {
        let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": "t"}, "spec": {}, "status": {"phase": "InProgress"}});
        let transfer = Transfer::parse(TransferKind::DataUpload, object.to_string().as_bytes()).unwrap();
        for (own, told, expected) in [
            ("", "", Value::Null),
            ("empty", "", json!("empty")),
            ("", "2 sockets", json!("2 sockets")),
            ("empty", "2 sockets", json!("empty; 2 sockets")),
        ] {
            let result = TransferResult { message: told.to_owned(), ..TransferResult::restored(0) };
            let (phase, message) = (DataPathPhase::Completed, own.to_owned());
            let ending = Ending { phase, message, result: Some(result), has_no_pod: false };
            assert_eq!(end(&transfer, &ending, Timestamp::UNIX_EPOCH)["status"]["message"], expected);
        }
    }

    #[test]
    fn what_clean_up_has_left_is_told_once_also_before_it_ends() {
        let read = |message: &str| {
            let status = json!({"phase": "Completed", "message": message});
            let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": "t", "resourceVersion": "7"}, "spec": {}, "status": status});
            Transfer::parse(TransferKind::DataUpload, object.to_string().as_bytes()).unwrap()
        };
        let transfer = read("2 sockets");
        assert_eq!(note_left(&transfer, ""), None);
        let noted = note_left(&transfer, "the snapshot s").unwrap();
        let told = noted["status"]["message"].as_str().unwrap();
        assert!(
            told.starts_with("2 sockets; clean-up was given up after --resource-timeout: the snapshot s; "),
            "{told}"
        );
        // The next look sees nothing of it any more, or the same.
        for left in ["", "the snapshot s"] {
            assert_eq!(note_left(&read(told), left), None, "{left}");
            assert!(remove_finalizer(&read(told), left).get("status").is_none(), "{left}");
        }
        assert_eq!(remove_finalizer(&transfer, "the snapshot s")["status"], noted["status"]);
    }
}
