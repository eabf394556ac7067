//! The outcome of a pod that has ended. Pure.

use crate::pod::PodView;
use crate::transfer::{Delivery, TransferKind};
use lifeboat_mover::protocol::{BackupResult, CANCELED, PodEnd, RestoreResult, pod_end};
use serde::de::DeserializeOwned;

/// The result of a transfer that is completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransferResult {
    /// Bytes in all.
    pub(crate) total_bytes: i64,
    /// Files in all; 0 where they are not known.
    pub(crate) files: i64,
    /// The snapshot, where one was asked for.
    pub(crate) saved: Option<SavedVolume>,
    /// Differences from the volume that are no failure, for people.
    pub(crate) message: String,
    /// The type of the file system on a device that was restored; empty where the mover knows none.
    pub(crate) fs_type: String,
}

/// The snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedVolume {
    /// Its ID in the repository; `None` for an empty volume.
    pub(crate) snapshot_id: Option<String>,
    /// The path of the volume in the mover's pod.
    pub(crate) path: String,
    /// Bytes that were not taken from the snapshot before.
    pub(crate) incremental_bytes: i64,
}

impl TransferResult {
    /// The result of a restore.
    pub(crate) fn restored(total_bytes: i64) -> Self {
        Self { total_bytes, files: 0, saved: None, message: String::new(), fs_type: String::new() }
    }
}

impl Delivery {
    /// The result of the restore whose volume is delivered.
    pub(crate) fn result(&self) -> TransferResult {
        TransferResult {
            files: self.files,
            message: self.message.clone(),
            ..TransferResult::restored(self.total_bytes)
        }
    }
}

/// The end of a transfer of a kind, as its pod tells it.
pub(crate) fn of_transfer(kind: TransferKind, pod: &PodView) -> Option<PodEnd<TransferResult>> {
    if !kind.is_backup() {
        return Some(match of_pod::<RestoreResult>(pod)? {
            PodEnd::Completed(result) => PodEnd::Completed(TransferResult {
                files: result.files,
                message: result.message,
                fs_type: result.fs_type,
                ..TransferResult::restored(result.total_bytes)
            }),
            PodEnd::Canceled(message) => PodEnd::Canceled(message),
            PodEnd::Failed(message) => PodEnd::Failed(message),
        });
    }
    Some(match of_pod::<BackupResult>(pod)? {
        PodEnd::Completed(result) => saved(result),
        PodEnd::Canceled(message) => PodEnd::Canceled(message),
        PodEnd::Failed(message) => PodEnd::Failed(message),
    })
}

/// The result of a backup. Without the ID of a snapshot nothing can be restored, so there is one, or the volume was empty.
fn saved(result: BackupResult) -> PodEnd<TransferResult> {
    let BackupResult { snapshot_id, empty_snapshot, source, total_bytes, incremental_bytes, files, message } = result;
    if snapshot_id.is_empty() && !empty_snapshot {
        return PodEnd::Failed("the mover's pod has ended without the ID of a snapshot".to_owned());
    }
    let snapshot_id = (!empty_snapshot).then_some(snapshot_id);
    let saved = Some(SavedVolume { snapshot_id, path: source.by_path, incremental_bytes });
    PodEnd::Completed(TransferResult { total_bytes, files, saved, message, fs_type: String::new() })
}

/// The end of a pod, with a result of this type.
fn of_pod<R: DeserializeOwned>(pod: &PodView) -> Option<PodEnd<R>> {
    if !pod.has_ended() {
        return None;
    }
    let has_succeeded = pod.phase == "Succeeded";
    let (reason, said) = pod.terminated().unwrap_or_default();
    if has_succeeded || said.trim_end().ends_with(CANCELED) {
        return Some(pod_end(has_succeeded, said));
    }
    // A container that was killed has said nothing that tells why.
    let message = match (pod.reason.as_str(), reason) {
        ("Evicted", _) => format!("data path pod was evicted, message: {}", pod.message),
        (_, "OOMKilled") => format!(
            "the mover's pod was killed because it needed more memory than its limit; raise podResources of the node agent's ConfigMap. {said}"
        ),
        _ if !said.is_empty() => said.to_owned(),
        _ if !pod.message.is_empty() => pod.message.clone(),
        (own, of_container) => {
            let why = [own, of_container].into_iter().find(|why| !why.is_empty()).unwrap_or("it gave no reason");
            format!("the mover's pod has failed without a message: {why}")
        }
    };
    Some(PodEnd::Failed(message.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_mover::protocol::AccessPoint;
    use serde_json::{Value, json};

    fn outcome(status: Value) -> Option<PodEnd<RestoreResult>> {
        of_pod(&PodView::parse(json!({"status": status}).to_string().as_bytes()).unwrap())
    }

    #[test]
    fn the_end_of_a_pod_tells_the_outcome_with_its_reason() {
        let ended = |phase: &str, reason: &str, message: &str| json!({"phase": phase, "containerStatuses": [{"name": "u", "state": {"terminated": {"exitCode": 1, "reason": reason, "message": message}}}]});
        let result = r#"{"target":{"byPath":"/u","volumeMode":"Filesystem"},"totalBytes":7}"#;
        let target = AccessPoint { by_path: "/u".into(), ..AccessPoint::default() };
        let failed = |why: &str| Some(PodEnd::Failed(why.to_owned()));
        let canceled = "error: data path is canceled";
        let evicted =
            json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
        for (status, expected) in [
            (json!({"phase": "Running"}), None),
            (
                ended("Succeeded", "Completed", result),
                Some(PodEnd::Completed(RestoreResult { target, total_bytes: 7, ..RestoreResult::default() })),
            ),
            (ended("Failed", "Error", canceled), Some(PodEnd::Canceled(canceled.to_owned()))),
            (ended("Failed", "Error", "no space\n"), failed("no space")),
            (evicted, failed("data path pod was evicted, message: The node was low on resource: memory.")),
            (
                ended("Failed", "OOMKilled", ""),
                failed(
                    "the mover's pod was killed because it needed more memory than its limit; raise podResources of the node agent's ConfigMap.",
                ),
            ),
            (json!({"phase": "Failed", "message": "node is shutting down"}), failed("node is shutting down")),
            (ended("Failed", "Error", ""), failed("the mover's pod has failed without a message: Error")),
            (json!({"phase": "Failed"}), failed("the mover's pod has failed without a message: it gave no reason")),
        ] {
            assert_eq!(outcome(status), expected);
        }
    }

    #[test]
    fn a_restored_device_has_the_file_system_that_its_mover_found() {
        let outcome = |more: &str| {
            let message = format!(r#"{{"target":{{"byPath":"/u","volumeMode":"Block"}},"totalBytes":7{more}}}"#);
            let state = json!({"terminated": {"exitCode": 0, "reason": "Completed", "message": message}});
            let status = json!({"phase": "Succeeded", "containerStatuses": [{"name": "u", "state": state}]});
            let pod = PodView::parse(json!({"status": status}).to_string().as_bytes()).unwrap();
            of_transfer(TransferKind::DataDownload, &pod)
        };
        let done = |fs_type: &str| {
            let result = TransferResult { fs_type: fs_type.to_owned(), ..TransferResult::restored(7) };
            Some(PodEnd::Completed(result))
        };
        // A mover of Velero, or of an earlier version, tells none.
        assert_eq!([outcome(""), outcome(r#","fsType":"xfs""#)], [done(""), done("xfs")]);
    }

    #[test]
    fn a_backup_is_done_with_a_snapshot_or_an_empty_volume_only() {
        let outcome = |message: &str| {
            let state = json!({"terminated": {"exitCode": 0, "reason": "Completed", "message": message}});
            let status = json!({"phase": "Succeeded", "containerStatuses": [{"name": "u", "state": state}]});
            let pod = PodView::parse(json!({"status": status}).to_string().as_bytes()).unwrap();
            of_transfer(TransferKind::PodVolumeBackup, &pod)
        };
        let done = |total_bytes: i64, snapshot: Option<&str>, incremental_bytes: i64, message: &str| {
            let snapshot_id = snapshot.map(str::to_owned);
            let saved = Some(SavedVolume { snapshot_id, path: "/u".to_owned(), incremental_bytes });
            let files = if message.is_empty() { 0 } else { 5 };
            let (message, fs_type) = (message.to_owned(), String::new());
            Some(PodEnd::Completed(TransferResult { total_bytes, files, saved, message, fs_type }))
        };
        let source = r#""source":{"byPath":"/u","volumeMode":"Filesystem"}"#;
        let full =
            format!(r#"{{"snapshotID":"k1","emptySnapshot":false,{source},"totalBytes":7,"incrementalBytes":3}}"#);
        assert_eq!(outcome(&full), done(7, Some("k1"), 3, ""));
        let with_message = full.replace(r#""totalBytes""#, r#""files":5,"message":"2 sockets","totalBytes""#);
        assert_eq!(outcome(&with_message), done(7, Some("k1"), 3, "2 sockets"));
        let empty = format!(r#"{{"snapshotID":"","emptySnapshot":true,{source},"totalBytes":0,"incrementalBytes":0}}"#);
        assert_eq!(outcome(&empty), done(0, None, 0, ""));
        let none = "the mover's pod has ended without the ID of a snapshot";
        assert_eq!(outcome(r#"{"totalBytes":7}"#), Some(PodEnd::Failed(none.to_owned())));
    }
}
