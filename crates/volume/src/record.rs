//! Makes the volume information of a backup (velero: internal/volume/volumes_information.go) from decisions and
//! outcomes.

use crate::facts::{PersistentVolume, PodVolumeName};
use crate::inventory::{DecidedVolume, Verdicts};
use crate::verdict::{FilePod, Method, MethodReason, Verdict};
use lifeboat_api::{NamespacedName, Time};
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::volume_info::{
    BackupVolumeInfo, CSI_SNAPSHOT, CsiSnapshotInfo, FAILED, NATIVE_SNAPSHOT, NativeSnapshotInfo, POD_VOLUME_BACKUP,
    PVB_INFO, PodVolumeBackupInfo, PvInfo, SUCCEEDED, UPLOAD_INFO, UploadInfo,
};
use lifeboat_object::first_names;
use std::collections::{BTreeMap, BTreeSet};

/// The claims, volumes and pods that are in the backup.
#[derive(Clone, Debug, Default)]
pub struct SavedObjects {
    /// Claims.
    pub claims: BTreeSet<NamespacedName>,
    /// Names of PersistentVolumes.
    pub volumes: BTreeSet<String>,
    /// Pods.
    pub pods: BTreeSet<NamespacedName>,
}

impl SavedObjects {
    /// Adds what another worker has saved.
    pub fn add(&mut self, other: Self) {
        self.claims.extend(other.claims);
        self.volumes.extend(other.volumes);
        self.pods.extend(other.pods);
    }

    /// Returns true if a volume is in scope: its claim, itself, or its pod is in the backup.
    #[must_use]
    pub fn has(&self, decided: &DecidedVolume) -> bool {
        decided.claim.as_ref().is_some_and(|claim| self.claims.contains(claim))
            || decided.volume.as_ref().is_some_and(|volume| self.volumes.contains(volume))
            || decided.of_pod.as_ref().is_some_and(|of_pod| self.pods.contains(&of_pod.pod))
    }
}

/// The outcomes of saving the data of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Outcomes of CSI snapshots, by claim.
    pub of_claims: BTreeMap<NamespacedName, Report>,
    /// Outcomes of volumes that are saved by their files and have no claim.
    pub of_pods: BTreeMap<PodVolumeName, Report>,
    /// Outcomes of native snapshots, by the name of the PersistentVolume.
    pub of_volumes: BTreeMap<String, Report>,
}

impl Reports {
    /// The outcome for a volume; `None` when nothing was begun.
    #[must_use]
    pub fn of(&self, decided: &DecidedVolume) -> Option<&Report> {
        match &decided.verdict.method {
            Method::NativeSnapshot => self.of_volumes.get(decided.volume.as_ref()?),
            Method::FsBackup { .. } if decided.claim.is_none() => self.of_pods.get(decided.of_pod.as_ref()?),
            _ => self.of_claims.get(decided.claim.as_ref()?),
        }
    }
}

/// The outcome of saving the data of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The CSI driver has taken a snapshot.
    CsiSnapshot {
        /// When.
        taken: Option<Time>,
        /// The facts about it for the volume information.
        info: CsiSnapshotInfo,
    },
    /// The CSI driver has taken a snapshot, and a data mover was asked for its data. The end of the operation says what came of it.
    Moved {
        /// The CSI driver.
        driver: String,
        /// The value of the label of the claims that it was taken with; empty for none.
        group: String,
        /// The facts about it for the volume information.
        info: UploadInfo,
    },
    /// A node agent has saved the files.
    PodVolume {
        /// The time when it was begun.
        begun: Option<Time>,
        /// The time when it ended.
        ended: Option<Time>,
        /// The facts about it for the volume information.
        info: PodVolumeBackupInfo,
    },
    /// A snapshotter has taken a snapshot.
    NativeSnapshot {
        /// Its record.
        snapshot: Box<NativeSnapshot>,
        /// The time when it was begun.
        begun: Time,
        /// The time when the snapshotter had given its name.
        ended: Time,
    },
    /// A snapshotter was to take a snapshot and failed, which is an error in the results.
    NativeFailed {
        /// Its record.
        snapshot: Box<NativeSnapshot>,
        /// The reason.
        why: String,
    },
    /// No snapshotter knows the volume: it is skipped.
    NotOwned {
        /// The reason, with the snapshotters that were asked.
        why: String,
    },
    /// It failed, which is an error in the results.
    Failed {
        /// The reason.
        why: String,
    },
}

impl Report {
    /// Returns true if the data is safe, or nothing but a data mover is waited for.
    #[must_use]
    pub fn is_saved(&self) -> bool {
        match self {
            Self::CsiSnapshot { .. } | Self::Moved { .. } | Self::NativeSnapshot { .. } | Self::PodVolume { .. } => {
                true
            }
            Self::NativeFailed { .. } | Self::NotOwned { .. } | Self::Failed { .. } => false,
        }
    }

    /// The reason of the failure, which is an error in the results; `None` when it did not fail.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed { why } | Self::NativeFailed { why, .. } => Some(why),
            Self::CsiSnapshot { .. }
            | Self::Moved { .. }
            | Self::NativeSnapshot { .. }
            | Self::NotOwned { .. }
            | Self::PodVolume { .. } => None,
        }
    }
}

/// The reason for which the data of a volume is not saved whose verdict needs a mover.
const NO_MOVER: &str = "and no data mover is there that does it";
/// The same of one that is saved by its files.
const NO_NODE_AGENT: &str = "and no node agent is there that does it";

/// The records of the volumes in scope: skipped ones, then native snapshots, then those of CSI drivers, each in the
/// order of [`Verdicts::iter`].
#[must_use]
pub fn records(verdicts: &Verdicts, saved: &SavedObjects, reports: &Reports) -> Vec<BackupVolumeInfo> {
    let (mut skipped, mut native, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    for decided in verdicts.iter().filter(|decided| saved.has(decided)) {
        let report = reports.of(decided);
        let mut info = base(decided, verdicts, saved);
        match (&decided.verdict.method, report) {
            // It was to be snapshotted, as an error in the results says: known before or after, that is one outcome.
            (Method::Skip, _) if decided.verdict.has_failed() => {
                failed(
                    &mut info,
                    format!("{}; {}", decided.verdict.reason(), decided.verdict.advice().unwrap_or_default()),
                );
            }
            (Method::Skip, _) => {
                info.skipped = true;
                info.skipped_reason = decided.verdict.skipped_reason();
            }
            (_, Some(Report::NativeSnapshot { snapshot, begun, ended })) => {
                (info.start_timestamp, info.completion_timestamp) = (Some(*begun), Some(*ended));
                by_native_snapshot(&mut info, snapshot);
            }
            (_, Some(Report::NativeFailed { snapshot, why })) => {
                by_native_snapshot(&mut info, snapshot);
                info.message.clone_from(why);
            }
            (_, Some(Report::NotOwned { why })) => {
                info.skipped = true;
                info.skipped_reason = format!("volumeSnapshot: {}, but {why};", decided.verdict.reason());
            }
            (_, Some(Report::CsiSnapshot { taken, info: snapshot })) => {
                CSI_SNAPSHOT.clone_into(&mut info.backup_method);
                info.preserve_local_snapshot = true;
                info.start_timestamp = *taken;
                info.csi_snapshot_info = Some(snapshot.clone());
            }
            (_, Some(Report::Moved { driver, group, info: upload })) => {
                CSI_SNAPSHOT.clone_into(&mut info.backup_method);
                info.snapshot_data_moved = true;
                info.csi_snapshot_info = Some(moved_out_of(driver, group));
                info.other.extend(serde_json::to_value(upload).ok().map(|upload| (UPLOAD_INFO.to_owned(), upload)));
            }
            (_, Some(Report::PodVolume { begun, ended, info: files })) => {
                (info.start_timestamp, info.completion_timestamp) = (*begun, *ended);
                POD_VOLUME_BACKUP.clone_into(&mut info.backup_method);
                SUCCEEDED.clone_into(&mut info.result);
                info.other.extend(serde_json::to_value(files).ok().map(|files| (PVB_INFO.to_owned(), files)));
            }
            (Method::FsBackup { through }, Some(Report::Failed { why })) => {
                POD_VOLUME_BACKUP.clone_into(&mut info.backup_method);
                FAILED.clone_into(&mut info.result);
                info.message.clone_from(why);
                // A reader pod is gone, and its name says nothing.
                let (pod, volume) = match through {
                    FilePod::Mounting { pod, volume } => (pod.clone(), volume.clone()),
                    FilePod::Reader(_) => <(String, String)>::default(),
                };
                let files = PodVolumeBackupInfo {
                    uploader_type: "kopia".to_owned(),
                    volume_name: volume,
                    pod_name: pod,
                    pod_namespace: decided.namespace().unwrap_or_default().to_owned(),
                    phase: "Failed".to_owned(),
                    ..PodVolumeBackupInfo::default()
                };
                info.other.extend(serde_json::to_value(files).ok().map(|files| (PVB_INFO.to_owned(), files)));
            }
            (Method::CsiSnapshot { .. } | Method::MovedCsiSnapshot { .. }, Some(Report::Failed { why })) => {
                failed(&mut info, why.clone());
            }
            (method, report) => {
                info.skipped = true;
                let why = match report {
                    Some(Report::Failed { why }) => why.clone(),
                    _ if matches!(method, Method::FsBackup { .. }) => NO_NODE_AGENT.to_owned(),
                    _ if method.needs_mover() => NO_MOVER.to_owned(),
                    _ => "and nothing was done".to_owned(),
                };
                if let Some(Report::Failed { why }) = report {
                    FAILED.clone_into(&mut info.result);
                    info.message.clone_from(why);
                }
                let (reason, description) = (decided.verdict.reason(), method.describe());
                info.skipped_reason = format!("any: {reason}: {description} was to be done, {why};");
            }
        }
        match (info.skipped, info.native_snapshot_info.is_some()) {
            (true, _) => &mut skipped,
            (false, true) => &mut native,
            (false, false) => &mut snapshots,
        }
        .push(info);
    }
    [skipped, native, snapshots].concat()
}

/// The snapshot that data is moved out of, as Velero records it: it is gone when the backup ends.
fn moved_out_of(driver: &str, group: &str) -> CsiSnapshotInfo {
    let unknown = || "unknown".to_owned();
    CsiSnapshotInfo {
        snapshot_handle: unknown(),
        vsc_name: unknown(),
        operation_id: unknown(),
        driver: driver.to_owned(),
        volume_group: group.to_owned(),
        ..CsiSnapshotInfo::default()
    }
}

/// Records a CSI snapshot that was not taken.
fn failed(info: &mut BackupVolumeInfo, why: String) {
    CSI_SNAPSHOT.clone_into(&mut info.backup_method);
    FAILED.clone_into(&mut info.result);
    info.message = why;
}

fn by_native_snapshot(info: &mut BackupVolumeInfo, NativeSnapshot { spec, status }: &NativeSnapshot) {
    NATIVE_SNAPSHOT.clone_into(&mut info.backup_method);
    let is_taken = status.phase == lifeboat_archive::native_snapshot::COMPLETED;
    (if is_taken { SUCCEEDED } else { FAILED }).clone_into(&mut info.result);
    info.native_snapshot_info = Some(NativeSnapshotInfo::of(spec, status));
}

fn base(decided: &DecidedVolume, verdicts: &Verdicts, saved: &SavedObjects) -> BackupVolumeInfo {
    let volume = decided.volume.as_deref().and_then(|name| verdicts.volume(name));
    let claim = decided.claim.clone().or_else(|| volume?.claim.clone()).unwrap_or_default();
    let is_saved = |volume: &&PersistentVolume| saved.volumes.contains(&volume.name);
    BackupVolumeInfo {
        pvc_namespace: claim.namespace,
        pvc_name: claim.name,
        pv_name: decided.volume.clone().unwrap_or_default(),
        pv_info: volume
            .filter(is_saved)
            .map(|volume| PvInfo { reclaim_policy: volume.reclaim_policy.clone(), labels: volume.labels.clone() }),
        ..BackupVolumeInfo::default()
    }
}

/// The names of the volumes in scope that nothing protects, sorted: as [`DecidedVolume::name`] gives them. A claim without a
/// volume has no data, and a volume that a policy skips is left out on purpose.
#[must_use]
pub fn unprotected(verdicts: &Verdicts, saved: &SavedObjects, reports: &Reports) -> Vec<String> {
    let is_unprotected = |decided: &&DecidedVolume| {
        let has_snapshot = || reports.of(decided).is_some_and(Report::is_saved);
        saved.has(decided) && is_to_be_protected(decided, verdicts) && !has_snapshot()
    };
    let mut names: Vec<String> = verdicts.iter().filter(is_unprotected).map(DecidedVolume::name).collect();
    names.sort();
    names
}

/// Returns true if a volume has data that nobody has left out on purpose.
#[must_use]
pub fn is_to_be_protected(decided: &DecidedVolume, verdicts: &Verdicts) -> bool {
    // Nobody uses one whose claim is gone.
    let volume = decided.volume.as_deref().and_then(|name| verdicts.volume(name));
    let is_unused = decided.claim.is_none() && volume.is_some_and(|volume| volume.is_released);
    !is_left_out_on_purpose(&decided.verdict) && !is_unused
}

/// A warning in one line about the volumes that nothing protects; `None` when there are none.
#[must_use]
pub fn unprotected_warning(names: &[String]) -> Option<String> {
    let (count, s, their) = match names.len() {
        0 => return None,
        1 => (1, "", "its object"),
        count => (count, "s", "their objects"),
    };
    Some(format!(
        "the data of {count} volume{s} is not in this backup, only {their}: {}; describe --details and the volume \
         information file list all with the reasons, and volume explain says what would have to change",
        first_names(names)
    ))
}

fn is_left_out_on_purpose(verdict: &Verdict) -> bool {
    matches!(verdict.why, MethodReason::NotBound { .. } | MethodReason::Policy { action: "skip" | "custom", .. })
}

#[cfg(test)]
mod tests;
