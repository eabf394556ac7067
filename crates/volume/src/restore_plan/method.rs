//! The method by which a PersistentVolume of a backup comes back (restore.md 2.9, 2.10).
//!
//! A volume whose data is not on its old storage any more is not made again there: it is made anew from its native snapshot, or its
//! claim gets a new one, from the CSI snapshot of its data, or an empty one. One whose snapshot failed is treated by its reclaim policy,
//! like one of which nothing was to be saved.

use crate::restore_plan::loss::{Loss, UnsupportedMethod};
use crate::restore_plan::recorded::{RecordedMethod, RecordedVolumes, claim};
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
    /// It is not made; its claim gets a new one from its storage class, which is empty, for this reason.
    Empty(Loss),
}

impl RestoreMethod {
    /// Returns true if the volume is not made, because its claim gets a new one.
    #[must_use]
    pub fn is_provisioned_anew(self) -> bool {
        match self {
            Self::AsIs | Self::NativeSnapshot => false,
            Self::CsiSnapshot | Self::Empty(_) => true,
        }
    }
}

/// A PersistentVolume as it was saved.
#[derive(Clone, Copy, Debug)]
pub struct SavedVolume<'a> {
    /// Its name.
    pub name: &'a str,
    /// The object.
    pub object: &'a Value,
}

/// Decides about one volume of a backup. `is_wanted` is false when the user wants no volumes from snapshots.
#[must_use]
pub fn plan_volume(volume: SavedVolume<'_>, recorded: &RecordedVolumes, is_wanted: bool) -> RestoreMethod {
    let SavedVolume { name, object } = volume;
    let text = |p: &str| object.pointer(p).and_then(Value::as_str).unwrap_or_default();
    let unsupported = |how| RestoreMethod::Empty(Loss::Unsupported(how));
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
    match recorded.methods.get(name) {
        Some(RecordedMethod::NativeSnapshot) => native(),
        Some(RecordedMethod::Failed) if recorded.native.contains_key(name) => native(),
        Some(RecordedMethod::Failed) => by_policy(Loss::NotTaken),
        Some(RecordedMethod::PodVolumeBackup) => unsupported(UnsupportedMethod::FsBackup),
        Some(RecordedMethod::CsiSnapshot) => RestoreMethod::CsiSnapshot,
        Some(RecordedMethod::MovedCsiSnapshot) => unsupported(UnsupportedMethod::DataMovement),
        Some(RecordedMethod::Other) => by_policy(Loss::NotSaved),
        // Backups of older versions have no volume information.
        None if recorded.native.contains_key(name) => native(),
        None if recorded.pod_volumes.contains(&claim) => unsupported(UnsupportedMethod::FsBackup),
        None if recorded.snapshots.contains_key(&claim) => RestoreMethod::CsiSnapshot,
        None => by_policy(Loss::NotSaved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::native_snapshot::{COMPLETED, NativeSnapshot};
    use lifeboat_archive::volume_info::CsiSnapshotInfo;
    use serde_json::json;

    /// Other records of a volume than its volume information.
    #[derive(Clone, Copy, Debug)]
    enum Also {
        Nothing,
        NativeTaken,
        NativeFailed,
        PodVolume,
        Snapshot,
    }

    /// The method for a volume with these records, by its reclaim policy: `Retain`, `Delete`.
    fn methods(method: Option<RecordedMethod>, also: Also, is_wanted: bool) -> [RestoreMethod; 2] {
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
            Also::PodVolume => recorded.pod_volumes.extend([claim("n", "c")]),
            Also::Snapshot => recorded.snapshots.extend([(claim("n", "c"), CsiSnapshotInfo::default())]),
        }
        ["Retain", "Delete"].map(|policy| {
            let object =
                json!({"spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "n", "name": "c"}}});
            plan_volume(SavedVolume { name: "pv", object: &object }, &recorded, is_wanted)
        })
    }

    #[test]
    fn each_record_of_a_volume_gives_one_method_by_its_reclaim_policy() {
        use RecordedMethod as R;
        let by_policy = |loss| [RestoreMethod::AsIs, RestoreMethod::Empty(loss)];
        let always = |method| [method, method];
        let unsupported = |how| always(RestoreMethod::Empty(Loss::Unsupported(how)));
        let (files, moved) = (unsupported(UnsupportedMethod::FsBackup), unsupported(UnsupportedMethod::DataMovement));
        let (native, csi) = (always(RestoreMethod::NativeSnapshot), always(RestoreMethod::CsiSnapshot));
        let (not_taken, not_saved) = (by_policy(Loss::NotTaken), by_policy(Loss::NotSaved));
        let all = [Also::Nothing, Also::NativeTaken, Also::NativeFailed, Also::PodVolume, Also::Snapshot];
        for (method, expected) in [
            (Some(R::NativeSnapshot), [not_taken, native, not_taken, not_taken, not_taken]),
            (Some(R::Failed), [not_taken, native, not_taken, not_taken, not_taken]),
            (Some(R::CsiSnapshot), [csi; 5]),
            (Some(R::MovedCsiSnapshot), [moved; 5]),
            (Some(R::PodVolumeBackup), [files; 5]),
            (Some(R::Other), [not_saved; 5]),
            (None, [not_saved, native, not_taken, files, csi]),
        ] {
            assert_eq!(all.map(|also| methods(method, also, true)), expected, "{method:?}");
            // Only native snapshots are left alone because of the volume: the others are so with their claims.
            let unwanted = by_policy(Loss::NotWanted);
            let is_native = |also| {
                let has_native = matches!(also, Also::NativeTaken | Also::NativeFailed);
                method == Some(R::NativeSnapshot) || has_native && matches!(method, Some(R::Failed) | None)
            };
            let expected = std::array::from_fn(|n| if is_native(all[n]) { unwanted } else { expected[n] });
            assert_eq!(all.map(|also| methods(method, also, false)), expected, "{method:?}, not wanted");
        }
    }

    #[test]
    fn a_claim_gets_a_new_volume_where_the_old_one_is_not_made() {
        let all = [
            (RestoreMethod::AsIs, false),
            (RestoreMethod::NativeSnapshot, false),
            (RestoreMethod::CsiSnapshot, true),
            (RestoreMethod::Empty(Loss::NotSaved), true),
        ];
        assert_eq!(all.map(|(method, _)| method.is_provisioned_anew()), all.map(|(_, expected)| expected));
    }
}
