//! The method by which a PersistentVolume of a backup comes back (velero: pkg/restore/restore.go).
//!
//! A volume whose data is not on its old storage any more is not made again there: it is made anew from its native snapshot, or its
//! claim gets a new one, from the CSI snapshot of its data, or an empty one. One whose snapshot failed is treated by its reclaim policy,
//! like one of which nothing was to be saved.

use crate::restore_plan::loss::{Loss, UnsupportedMethod};
use crate::restore_plan::recorded::{FileFormat, RecordedMethod, RecordedVolumes, claim};
use serde_json::Value;

/// The method by which a volume comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMethod {
    /// It is made again as it is: its data is on its storage.
    AsIs,
    /// It is made again with a new volume behind it, from its native snapshot.
    NativeSnapshot,
    /// It is not made; its claim gets a new one from the CSI snapshot of its data.
    CsiSnapshot,
    /// It is not made; its claim gets a new one, which a mover fills with its files.
    FsBackup,
    /// It is not made; its claim gets a new one, which is filled with the data that was moved out of its CSI snapshot.
    DataMovement,
    /// It is not made; its claim gets a new one from its storage class, which is empty, for this reason.
    Empty(Loss),
}

impl RestoreMethod {
    /// Returns true if the volume is not made, because its claim gets a new one.
    #[must_use]
    pub fn is_provisioned_anew(self) -> bool {
        match self {
            Self::AsIs | Self::NativeSnapshot => false,
            Self::CsiSnapshot | Self::FsBackup | Self::DataMovement | Self::Empty(_) => true,
        }
    }
}

/// The movers of data that the environment of a restore has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Movers {
    /// None.
    #[default]
    Missing,
    /// A node agent is there.
    NodeAgent,
    /// The restore starts a pod for each claim itself, which fills it before anything mounts it.
    Pods,
}

impl Movers {
    /// The reason why files of this format do not come back.
    ///
    /// # Errors
    /// [`UnsupportedMethod`].
    pub(super) fn read_files(self, format: FileFormat) -> Result<(), UnsupportedMethod> {
        match (format, self) {
            (FileFormat::Restic, _) => Err(UnsupportedMethod::Restic),
            (FileFormat::Kopia, Self::Missing) => Err(UnsupportedMethod::FsBackup),
            (FileFormat::Kopia, Self::NodeAgent | Self::Pods) => Ok(()),
        }
    }

    /// The reason why data that was moved does not come back. A mover of somebody else is waited for, whoever is there.
    ///
    /// # Errors
    /// [`UnsupportedMethod`].
    pub(super) fn bring_back(self, is_foreign: bool) -> Result<(), UnsupportedMethod> {
        match self {
            Self::Missing if !is_foreign => Err(UnsupportedMethod::DataMovement),
            _ => Ok(()),
        }
    }
}

/// The wishes of the user of a restore, and the movers that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreMeans {
    /// False when the user wants no volumes from snapshots.
    pub wants_volumes: bool,
    /// The movers.
    pub movers: Movers,
}

/// A PersistentVolume as it was saved.
#[derive(Clone, Copy, Debug)]
pub struct SavedVolume<'a> {
    /// Its name.
    pub name: &'a str,
    /// The object.
    pub object: &'a Value,
}

/// Decides about one volume of a backup.
#[must_use]
pub fn plan_volume(volume: SavedVolume<'_>, recorded: &RecordedVolumes, means: RestoreMeans) -> RestoreMethod {
    let RestoreMeans { wants_volumes: is_wanted, movers } = means;
    let SavedVolume { name, object } = volume;
    let text = |p: &str| object.pointer(p).and_then(Value::as_str).unwrap_or_default();
    let or_lost = |method, by: Result<(), UnsupportedMethod>| match by {
        Ok(()) => method,
        Err(how) => RestoreMethod::Empty(Loss::Unsupported(how)),
    };
    let by_policy = |loss| match text("/spec/persistentVolumeReclaimPolicy") {
        "Delete" => RestoreMethod::Empty(loss),
        _ => RestoreMethod::AsIs,
    };
    let native = || match recorded.native.get(name) {
        // compat: Velero makes it again on its old storage whatever the reclaim policy, also where that was deleted with it.
        _ if !is_wanted => by_policy(Loss::NotWanted),
        Some(snapshot) if snapshot.is_taken() => RestoreMethod::NativeSnapshot,
        _ => by_policy(Loss::NotTaken),
    };
    let claim = claim(text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
    let files = recorded.pod_volumes.get(&claim).map(|files| files.format);
    let of_files = |format| or_lost(RestoreMethod::FsBackup, movers.read_files(format));
    let is_moved = recorded.moved.contains_key(&claim);
    match recorded.methods.get(name) {
        // By a reader pod: no pod of the restore brings it back.
        Some(RecordedMethod::PodVolumeBackup) if is_moved => {
            or_lost(RestoreMethod::DataMovement, movers.bring_back(false))
        }
        Some(RecordedMethod::NativeSnapshot) => native(),
        Some(RecordedMethod::Failed) if recorded.native.contains_key(name) => native(),
        Some(RecordedMethod::Failed) => files.map_or_else(|| by_policy(Loss::NotTaken), of_files),
        Some(RecordedMethod::PodVolumeBackup) => of_files(files.unwrap_or_default()),
        Some(RecordedMethod::CsiSnapshot) => RestoreMethod::CsiSnapshot,
        Some(RecordedMethod::MovedCsiSnapshot { is_foreign }) => {
            or_lost(RestoreMethod::DataMovement, movers.bring_back(*is_foreign))
        }
        Some(RecordedMethod::Other) => by_policy(Loss::NotSaved),
        // Backups of older versions have no volume information.
        None if recorded.native.contains_key(name) => native(),
        None => match files {
            Some(format) => of_files(format),
            None if recorded.snapshots.contains_key(&claim) => RestoreMethod::CsiSnapshot,
            None => by_policy(Loss::NotSaved),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore_plan::recorded::{MovedSnapshot, SavedFiles};
    use lifeboat_archive::native_snapshot::{COMPLETED, NativeSnapshot};
    use lifeboat_archive::volume_info::CsiSnapshotInfo;
    use serde_json::json;

    /// Other records of a volume than its volume information.
    #[derive(Clone, Copy, Debug)]
    enum Also {
        Nothing,
        NativeTaken,
        NativeFailed,
        Files(FileFormat),
        Snapshot,
        /// Files that a reader pod has held.
        ByReader,
    }

    /// The method for a volume with these records, by its reclaim policy: `Retain`, `Delete`.
    fn methods(method: Option<RecordedMethod>, also: Also, means: RestoreMeans) -> [RestoreMethod; 2] {
        let mut recorded = RecordedVolumes::default();
        recorded.methods.extend(method.map(|method| ("pv".to_owned(), method)));
        let native = |id: &str| {
            let mut snapshot = NativeSnapshot::default();
            snapshot.status.provider_snapshot_id = id.into();
            snapshot.status.phase = if id.is_empty() { "Failed" } else { COMPLETED }.into();
            ("pv".to_owned(), snapshot)
        };
        match also {
            Also::Nothing => {}
            Also::NativeTaken => recorded.native.extend([native("snap-1")]),
            Also::NativeFailed => recorded.native.extend([native("")]),
            Also::Files(format) => {
                recorded.pod_volumes.extend([(claim("n", "c"), SavedFiles { format, ..SavedFiles::default() })]);
            }
            Also::Snapshot => recorded.snapshots.extend([(claim("n", "c"), CsiSnapshotInfo::default())]),
            Also::ByReader => recorded.moved.extend([(claim("n", "c"), MovedSnapshot::default())]),
        }
        ["Retain", "Delete"].map(|policy| {
            let object =
                json!({"spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "n", "name": "c"}}});
            plan_volume(SavedVolume { name: "pv", object: &object }, &recorded, means)
        })
    }

    #[test]
    fn each_record_of_a_volume_gives_one_method_by_its_reclaim_policy() {
        use RecordedMethod as R;
        let by_policy = |loss| [RestoreMethod::AsIs, RestoreMethod::Empty(loss)];
        let always = |method| [method, method];
        let unsupported = |how| always(RestoreMethod::Empty(Loss::Unsupported(how)));
        let (native, csi) = (always(RestoreMethod::NativeSnapshot), always(RestoreMethod::CsiSnapshot));
        let (not_taken, not_saved) = (by_policy(Loss::NotTaken), by_policy(Loss::NotSaved));
        let restic = unsupported(UnsupportedMethod::Restic);
        let [kopia_files, restic_files] = [FileFormat::Kopia, FileFormat::Restic].map(Also::Files);
        let all = [Also::Nothing, Also::NativeTaken, Also::NativeFailed, kopia_files, restic_files, Also::Snapshot];
        for movers in [Movers::NodeAgent, Movers::Pods, Movers::Missing] {
            let are_there = movers != Movers::Missing;
            let moved = |is_foreign: bool| match are_there || is_foreign {
                true => always(RestoreMethod::DataMovement),
                false => unsupported(UnsupportedMethod::DataMovement),
            };
            let files =
                if are_there { always(RestoreMethod::FsBackup) } else { unsupported(UnsupportedMethod::FsBackup) };
            for (method, expected) in [
                (Some(R::NativeSnapshot), [not_taken, native, not_taken, not_taken, not_taken, not_taken]),
                (Some(R::Failed), [not_taken, native, not_taken, files, restic, not_taken]),
                (Some(R::CsiSnapshot), [csi; 6]),
                (Some(R::MovedCsiSnapshot { is_foreign: false }), [moved(false); 6]),
                (Some(R::MovedCsiSnapshot { is_foreign: true }), [moved(true); 6]),
                (Some(R::PodVolumeBackup), [files, files, files, files, restic, files]),
                (Some(R::Other), [not_saved; 6]),
                (None, [not_saved, native, not_taken, files, restic, csi]),
            ] {
                let means = |wants_volumes| RestoreMeans { wants_volumes, movers };
                assert_eq!(all.map(|also| methods(method, also, means(true))), expected, "{method:?}");
                // Only native snapshots are left alone because of the volume: the others are so with their claims.
                let unwanted = by_policy(Loss::NotWanted);
                let is_native = |also| {
                    let has_native = matches!(also, Also::NativeTaken | Also::NativeFailed);
                    method == Some(R::NativeSnapshot) || has_native && matches!(method, Some(R::Failed) | None)
                };
                let expected = std::array::from_fn(|n| if is_native(all[n]) { unwanted } else { expected[n] });
                let found = all.map(|also| methods(method, also, means(false)));
                assert_eq!(found, expected, "{method:?}, not wanted");
            }
        }
    }

    #[test]
    fn a_volume_that_a_reader_pod_has_held_is_brought_back_without_a_pod() {
        let means = |movers| RestoreMeans { wants_volumes: true, movers };
        let found = [Movers::NodeAgent, Movers::Pods, Movers::Missing].map(|movers| {
            let [retained, deleted] = methods(Some(RecordedMethod::PodVolumeBackup), Also::ByReader, means(movers));
            assert_eq!(retained, deleted);
            retained
        });
        let unsupported = RestoreMethod::Empty(Loss::Unsupported(UnsupportedMethod::DataMovement));
        assert_eq!(found, [RestoreMethod::DataMovement, RestoreMethod::DataMovement, unsupported]);
    }

    #[test]
    fn a_claim_gets_a_new_volume_where_the_old_one_is_not_made() {
        let all = [
            (RestoreMethod::AsIs, false),
            (RestoreMethod::NativeSnapshot, false),
            (RestoreMethod::CsiSnapshot, true),
            (RestoreMethod::FsBackup, true),
            (RestoreMethod::DataMovement, true),
            (RestoreMethod::Empty(Loss::NotSaved), true),
        ];
        assert_eq!(all.map(|(method, _)| method.is_provisioned_anew()), all.map(|(_, expected)| expected));
    }
}
