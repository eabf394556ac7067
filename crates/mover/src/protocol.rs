//! The words between a mover's pod and the node agent that started it (velero: pkg/datapath/micro_service_watcher.go).
//!
//! The pod waits until its resource is `InProgress`, moves the bytes, and reports by Events on that resource and by its
//! termination message, with which it ends: the result as JSON and exit code 0, or the error's text and exit code 1. Where an
//! Event and the termination message differ the latter holds.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The file in which a container leaves the text that its pod's status shows.
pub const TERMINATION_FILE: &str = "/dev/termination-log";

/// The end of an error's text by which a node agent sees that the transfer was canceled and did not fail.
pub const CANCELED: &str = "data path is canceled";

/// The termination message of a mover that was told to end by a signal: it says nothing about the volume.
pub const TOLD_TO_END: &str = "the mover's pod was told to end before the transfer was done";

/// The termination message of a mover whose resource is at a later attempt.
pub const REPLACED: &str = "another mover was begun in place of this one, which has ended so that not both write";

/// The termination message of a mover that could not look at its resource for [`SIGHT_LIMIT`].
pub const LOST_SIGHT: &str =
    "the mover could not reach the API server for 4 minutes, and has ended because another one may begin then";

/// The termination message of a mover that could not look at its resource while it waited for its turn.
pub const LOST_TURN: &str = "the mover could not reach the API server for 30 minutes while it waited for its turn, and has ended; another one goes on";

/// The termination message of a mover whose turn did not come although nothing moved before it.
pub const TURN_STALLED: &str = "nothing was moved on the node for 3 hours while the mover waited for its turn, and it has ended; another attempt follows, three in all";

/// The end of the termination message of a mover whose bucket did not answer for [`BUCKET_PATIENCE`].
pub const BUCKET_UNAVAILABLE: &str =
    "the bucket did not answer for too long; another attempt continues from what is kept";

/// The time for which a mover tries one operation of its bucket: a transfer of hours is not to end because of an update of the
/// storage. It is shorter than the time after which a transfer without progress is canceled.
pub const BUCKET_PATIENCE: Duration = Duration::from_secs(15 * 60);

/// The longest time for which a mover goes on without seeing its resource. No other one begins before it is over.
pub const SIGHT_LIMIT: Duration = Duration::from_secs(240);

/// The most bytes of a termination message (Kubernetes cuts longer ones).
pub const TERMINATION_LIMIT: usize = 4096;

/// Returns true for the termination message of a mover that was ended from outside, or by a bucket that did not answer: it says
/// nothing about the volume.
#[must_use]
pub fn is_ended_from_outside(message: &str) -> bool {
    let message = message.trim_end();
    [TOLD_TO_END, REPLACED, LOST_SIGHT, LOST_TURN, TURN_STALLED].contains(&message)
        || message.ends_with(BUCKET_UNAVAILABLE)
}

/// The number of the attempt that a resource is at, counted from 1, by its annotation about movers that were killed.
#[must_use]
pub fn attempt_of(killed_movers: Option<&str>) -> usize {
    let killed = killed_movers.and_then(|noted| serde_json::from_str::<Vec<IgnoredAny>>(noted).ok());
    killed.map_or(0, |killed| killed.len()) + 1
}

/// The directory in a restored volume, and the file in it named by the UID of the Restore, for which the init container
/// `restore-wait` waits (velero: pkg/podvolume).
pub const MARK_DIRECTORY: &str = ".velero";

/// The reasons of the Events of a pod on its resource.
pub mod reason {
    /// The transfer begins.
    pub const STARTED: &str = "Data-Path-Started";
    /// Bytes and files so far: [`MovedData`](super::MovedData) as JSON.
    pub const PROGRESS: &str = "Data-Path-Progress";
    /// The result: [`BackupResult`](super::BackupResult) or [`RestoreResult`](super::RestoreResult) as JSON.
    pub const COMPLETED: &str = "Data-Path-Completed";
    /// The error's text.
    pub const FAILED: &str = "Data-Path-Failed";
    /// A cancellation was seen.
    pub const CANCELING: &str = "Data-Path-Canceling";
    /// The transfer was canceled.
    pub const CANCELED: &str = "Data-Path-Canceled";
    /// The last Event, always.
    pub const STOPPED: &str = "Data-Path-Stopped";
}

/// The part of a transfer that is done so far. Velero's Events have no files, and its node agent passes over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MovedData {
    /// Bytes in all, as far as known.
    pub total_bytes: i64,
    /// Bytes that are done.
    pub done_bytes: i64,
    /// Files in all, as far as known; 0 for a device.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_files: i64,
    /// Files that are done.
    #[serde(skip_serializing_if = "is_zero")]
    pub done_files: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The mode of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeMode {
    /// A mounted file system.
    #[default]
    Filesystem,
    /// A device.
    Block,
}

/// A volume as the pod sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessPoint {
    /// The mount point or device in the pod.
    pub by_path: String,
    /// Its mode.
    pub volume_mode: VolumeMode,
}

/// The result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupResult {
    /// The snapshot in the repository; empty for an empty volume.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// True when there was nothing to save.
    pub empty_snapshot: bool,
    /// The volume.
    pub source: AccessPoint,
    /// Bytes in all.
    pub total_bytes: i64,
    /// Bytes that were not taken from the snapshot before.
    pub incremental_bytes: i64,
    /// Files in all. Velero's results have no such field, and its node agent passes over it.
    #[serde(skip_serializing_if = "is_zero")]
    pub files: i64,
    /// Differences of the snapshot from the volume although nothing has failed, for people. Velero's results have no such field,
    /// and its node agent passes over it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoreResult {
    /// The volume.
    pub target: AccessPoint,
    /// Bytes in all.
    pub total_bytes: i64,
    /// Files in all. Velero's results have no such field.
    #[serde(skip_serializing_if = "is_zero")]
    pub files: i64,
    /// Differences from the volume that was saved although nothing has failed, for people. Velero's results have no such field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The type of the file system on a device that was written, such as `ext4`; empty where none is known, and for a
    /// mounted volume. Velero's results have no such field, and its node agent passes over it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
}

/// The end of a pod, as its termination message says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodEnd<R> {
    /// It is done.
    Completed(R),
    /// It was canceled, with the whole text.
    Canceled(String),
    /// It failed, with the text.
    Failed(String),
}

/// Reads the termination message of a pod that has ended with this success. A message that is no result is a failure.
#[must_use]
pub fn pod_end<R: for<'de> Deserialize<'de>>(has_succeeded: bool, message: &str) -> PodEnd<R> {
    if !has_succeeded {
        return match message.trim_end().ends_with(CANCELED) {
            true => PodEnd::Canceled(message.to_owned()),
            false => PodEnd::Failed(message.to_owned()),
        };
    }
    match serde_json::from_str(message) {
        Ok(result) => PodEnd::Completed(result),
        Err(e) => PodEnd::Failed(format!("the mover's pod has ended without a result that can be read ({e})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_have_the_names_of_velero() {
        let source = AccessPoint { by_path: "/uid".into(), volume_mode: VolumeMode::Block };
        let backup = BackupResult {
            snapshot_id: "k1".into(),
            empty_snapshot: false,
            source: source.clone(),
            total_bytes: 3,
            incremental_bytes: 2,
            files: 0,
            message: String::new(),
        };
        let access = json!({"byPath": "/uid", "volumeMode": "Block"});
        let expected = json!({
            "snapshotID": "k1", "emptySnapshot": false, "source": access, "totalBytes": 3, "incrementalBytes": 2,
        });
        assert_eq!(serde_json::to_value(&backup).unwrap(), expected);
        let restore = RestoreResult { target: source, total_bytes: 3, ..RestoreResult::default() };
        assert_eq!(serde_json::to_value(&restore).unwrap(), json!({"target": access, "totalBytes": 3}));
        let files = [
            serde_json::to_value(BackupResult { files: 5, ..backup }).unwrap(),
            serde_json::to_value(RestoreResult { files: 5, ..restore.clone() }).unwrap(),
        ];
        assert_eq!(files.map(|result| result["files"].clone()), [json!(5), json!(5)]);
        let restore = RestoreResult { message: "1 socket".into(), fs_type: "xfs".into(), ..restore };
        let told = json!({"target": access, "totalBytes": 3, "message": "1 socket", "fsType": "xfs"});
        assert_eq!(serde_json::to_value(&restore).unwrap(), told);
        let device = MovedData { total_bytes: 9, done_bytes: 4, ..MovedData::default() };
        assert_eq!(serde_json::to_value(device).unwrap(), json!({"totalBytes": 9, "doneBytes": 4}));
        let files = MovedData { total_files: 3, done_files: 1, ..device };
        let expected = json!({"totalBytes": 9, "doneBytes": 4, "totalFiles": 3, "doneFiles": 1});
        assert_eq!(serde_json::to_value(files).unwrap(), expected);
        assert_eq!(serde_json::from_value::<MovedData>(expected).unwrap(), files);
    }

    #[test]
    fn a_resource_says_which_attempt_it_is_at() {
        let two = r#"[{"pod":"p1","reason":"drained"},{"pod":"","reason":"removed"}]"#;
        let of = [None, Some("[]"), Some("broken"), Some(two)].map(attempt_of);
        assert_eq!(of, [1, 1, 1, 3]);
        let told = format!("{} minutes", SIGHT_LIMIT.as_secs() / 60);
        assert!(LOST_SIGHT.contains(&told), "{LOST_SIGHT}");
    }

    #[test]
    fn an_end_is_read_from_the_termination_message() {
        let done = r#"{"target":{"byPath":"/uid","volumeMode":"Filesystem"},"totalBytes":7}"#;
        let target = AccessPoint { by_path: "/uid".into(), volume_mode: VolumeMode::Filesystem };
        let completed = PodEnd::Completed(RestoreResult { target, total_bytes: 7, ..RestoreResult::default() });
        assert_eq!(pod_end::<RestoreResult>(true, done), completed);
        let canceled = "error running data path: data path is canceled";
        assert_eq!(pod_end::<RestoreResult>(false, canceled), PodEnd::Canceled(canceled.into()));
        assert_eq!(pod_end::<RestoreResult>(false, "no space"), PodEnd::Failed("no space".into()));
        let PodEnd::Failed(message) = pod_end::<RestoreResult>(true, "") else {
            panic!("an empty message is no result")
        };
        assert!(message.starts_with("the mover's pod has ended without a result that can be read"), "{message}");
    }
}
