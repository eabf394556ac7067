//! The source of the data of a claim that a restore makes, which follows from its volume.

use crate::restore_plan::loss::{Loss, UnsupportedMethod};
use crate::restore_plan::method::{Movers, RestoreMeans, RestoreMethod};
use crate::restore_plan::recorded::FileFormat;

/// A claim of a backup.
#[derive(Clone, Copy, Debug)]
pub struct SavedClaim<'a> {
    /// The name of its volume; empty for none.
    pub volume_name: &'a str,
    /// The volume, where the backup has it.
    pub volume: Option<VolumeOfClaim>,
    /// The copy of its data that the backup has by the claim itself.
    pub copy: Option<ClaimCopy>,
    /// True when a pod of the restore mounts it, with which its files come.
    pub has_pod: bool,
}

/// A copy of the data of a claim that the backup records of the claim itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimCopy {
    /// A CSI snapshot.
    Snapshot,
    /// A CSI snapshot that was moved into a repository.
    Moved {
        /// True when a data mover of somebody else has done it.
        is_foreign: bool,
    },
    /// Files in a repository of this format.
    Files(FileFormat),
}

/// The volume of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeOfClaim {
    /// The method by which it comes back.
    pub method: RestoreMethod,
    /// True when it is part of the restore.
    pub is_included: bool,
}

/// The source of the data of a claim that is made, or its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimData {
    /// It comes with its volume, from a native snapshot.
    WithVolume,
    /// It comes from the CSI snapshot of the claim.
    FromSnapshot,
    /// A data mover brings it from a repository, after the claim is made.
    FromMovedSnapshot,
    /// A node agent brings its files from a repository, through the pod that mounts the claim.
    FromFiles,
    /// A pod that the restore starts brings it from a repository, after the claim is made.
    ByMoverPod,
    /// It is on the storage of its volume, which is made again as it is.
    OnStorage,
    /// It does not come.
    Lost(Loss),
    /// The claim had no volume, and so no data.
    NotBound,
    /// The backup does not have its volume.
    VolumeUnknown,
    /// Its volume is not part of the restore.
    VolumeLeftOut,
}

/// Decides about the data of a claim.
#[must_use]
pub fn plan_claim(claim: SavedClaim<'_>, means: RestoreMeans) -> ClaimData {
    let SavedClaim { volume_name, volume, copy, has_pod } = claim;
    let RestoreMeans { wants_volumes: is_wanted, movers } = means;
    let lost = |loss: Loss| match loss.holds_back() && !is_wanted {
        true => ClaimData::Lost(Loss::NotWanted),
        false => ClaimData::Lost(loss),
    };
    let unsupported = |how: UnsupportedMethod| lost(Loss::Unsupported(how));
    // compat: files come also where the user wants no volumes from snapshots.
    let files = || match movers {
        Movers::Pods if matches!(copy, Some(ClaimCopy::Files(_))) => ClaimData::ByMoverPod,
        // Its record names no snapshot.
        Movers::Pods => lost(Loss::NotTaken),
        _ if has_pod => ClaimData::FromFiles,
        _ => lost(Loss::WithPod),
    };
    let moved = |is_foreign: bool| match movers {
        Movers::Pods if !is_foreign => ClaimData::ByMoverPod,
        _ => ClaimData::FromMovedSnapshot,
    };
    match copy {
        Some(ClaimCopy::Snapshot | ClaimCopy::Moved { .. }) if !is_wanted => return ClaimData::Lost(Loss::NotWanted),
        Some(ClaimCopy::Snapshot) => return ClaimData::FromSnapshot,
        Some(ClaimCopy::Moved { is_foreign }) => {
            return movers.bring_back(is_foreign).map_or_else(unsupported, |()| moved(is_foreign));
        }
        Some(ClaimCopy::Files(_)) | None => {}
    }
    let Some(VolumeOfClaim { method, is_included }) = volume else {
        return match copy {
            Some(ClaimCopy::Files(format)) => movers.read_files(format).map_or_else(unsupported, |()| files()),
            _ if volume_name.is_empty() => ClaimData::NotBound,
            _ => ClaimData::VolumeUnknown,
        };
    };
    match method {
        RestoreMethod::AsIs | RestoreMethod::NativeSnapshot if !is_included => ClaimData::VolumeLeftOut,
        RestoreMethod::AsIs => ClaimData::OnStorage,
        RestoreMethod::NativeSnapshot => ClaimData::WithVolume,
        // The claim has none of its own: the snapshot failed, or is of another claim.
        RestoreMethod::CsiSnapshot | RestoreMethod::DataMovement => lost(Loss::NotTaken),
        RestoreMethod::FsBackup => files(),
        RestoreMethod::Empty(loss) => lost(loss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: Loss = Loss::Unsupported(UnsupportedMethod::FsBackup);

    fn means(wants_volumes: bool, are_there: bool) -> RestoreMeans {
        RestoreMeans { wants_volumes, movers: if are_there { Movers::NodeAgent } else { Movers::Missing } }
    }

    #[test]
    fn the_data_of_each_claim_follows_from_its_copy_and_its_volume() {
        use ClaimData as D;
        let lost = D::Lost;
        let wanted_or_not = |volume_name: &'static str, volume: Option<RestoreMethod>| {
            let data = |is_included, is_wanted| {
                let volume = volume.map(|method| VolumeOfClaim { method, is_included });
                plan_claim(SavedClaim { volume_name, volume, copy: None, has_pod: true }, means(is_wanted, true))
            };
            [data(true, true), data(true, false), data(false, true), data(false, false)]
        };
        let not_taken = [lost(Loss::NotTaken), lost(Loss::NotWanted), lost(Loss::NotTaken), lost(Loss::NotWanted)];
        // Part of the restore or not, and snapshots wanted or not: yes and yes, yes and no, no and yes, no and no.
        for (volume_name, method, expected) in [
            ("", None, [D::NotBound; 4]),
            ("pv", None, [D::VolumeUnknown; 4]),
            ("pv", Some(RestoreMethod::AsIs), [D::OnStorage, D::OnStorage, D::VolumeLeftOut, D::VolumeLeftOut]),
            (
                "pv",
                Some(RestoreMethod::NativeSnapshot),
                [D::WithVolume, D::WithVolume, D::VolumeLeftOut, D::VolumeLeftOut],
            ),
            ("pv", Some(RestoreMethod::CsiSnapshot), not_taken),
            ("pv", Some(RestoreMethod::DataMovement), not_taken),
            ("pv", Some(RestoreMethod::FsBackup), [D::FromFiles; 4]),
            ("pv", Some(RestoreMethod::Empty(Loss::NotSaved)), [lost(Loss::NotSaved); 4]),
            ("pv", Some(RestoreMethod::Empty(Loss::NotWanted)), [lost(Loss::NotWanted); 4]),
            ("pv", Some(RestoreMethod::Empty(Loss::NotTaken)), not_taken),
            (
                "pv",
                Some(RestoreMethod::Empty(FILES)),
                [lost(FILES), lost(Loss::NotWanted), lost(FILES), lost(Loss::NotWanted)],
            ),
        ] {
            assert_eq!(wanted_or_not(volume_name, method), expected, "{volume_name:?} {method:?}");
        }
    }

    #[test]
    fn a_snapshot_of_a_claim_decides_whatever_its_volume_is() {
        use ClaimData as D;
        let volumes = [
            None,
            Some(RestoreMethod::AsIs),
            Some(RestoreMethod::NativeSnapshot),
            Some(RestoreMethod::CsiSnapshot),
            Some(RestoreMethod::DataMovement),
            Some(RestoreMethod::Empty(FILES)),
        ];
        let (unwanted, unmoved) =
            (D::Lost(Loss::NotWanted), D::Lost(Loss::Unsupported(UnsupportedMethod::DataMovement)));
        for method in volumes {
            let volume = method.map(|method| VolumeOfClaim { method, is_included: true });
            // Movers are there or not, and volumes are wanted or not.
            for (copy, expected) in [
                (ClaimCopy::Snapshot, [D::FromSnapshot, D::FromSnapshot, unwanted, unwanted]),
                (ClaimCopy::Moved { is_foreign: false }, [D::FromMovedSnapshot, unmoved, unwanted, unwanted]),
                (
                    ClaimCopy::Moved { is_foreign: true },
                    [D::FromMovedSnapshot, D::FromMovedSnapshot, unwanted, unwanted],
                ),
            ] {
                let claim = SavedClaim { volume_name: "pv", volume, copy: Some(copy), has_pod: false };
                let data = [(true, true), (true, false), (false, true), (false, false)];
                let data = data.map(|(is_wanted, are_there)| plan_claim(claim, means(is_wanted, are_there)));
                assert_eq!(data, expected, "{method:?} {copy:?}");
            }
        }
    }

    #[test]
    fn files_of_a_claim_come_with_a_pod_also_without_its_volume_in_the_backup() {
        use ClaimData as D;
        let (files, restic) = (D::Lost(FILES), D::Lost(Loss::Unsupported(UnsupportedMethod::Restic)));
        let (no_pod, unwanted) = (D::Lost(Loss::WithPod), D::Lost(Loss::NotWanted));
        // With a pod and movers, with movers, with a pod, and with a pod and movers where no volumes are wanted.
        for (format, expected) in [
            (FileFormat::Kopia, [D::FromFiles, no_pod, files, D::FromFiles]),
            (FileFormat::Restic, [restic, restic, restic, unwanted]),
        ] {
            let data = |has_pod, are_there, is_wanted| {
                let copy = Some(ClaimCopy::Files(format));
                let claim = SavedClaim { volume_name: "pv", volume: None, copy, has_pod };
                plan_claim(claim, means(is_wanted, are_there))
            };
            let data =
                [data(true, true, true), data(false, true, true), data(true, false, true), data(true, true, false)];
            assert_eq!(data, expected, "{format:?}");
        }
    }

    #[test]
    fn a_pod_of_the_restore_fills_claims_whose_data_is_in_a_repository() {
        let data = |copy, volume, has_pod, wants_volumes| {
            let claim = SavedClaim { volume_name: "pv", volume, copy: Some(copy), has_pod };
            plan_claim(claim, RestoreMeans { wants_volumes, movers: Movers::Pods })
        };
        let volume = |method| Some(VolumeOfClaim { method, is_included: true });
        let (moved, files) = (|is_foreign| ClaimCopy::Moved { is_foreign }, ClaimCopy::Files(FileFormat::Kopia));
        for (copy, volume, wants_volumes, expected) in [
            (moved(false), volume(RestoreMethod::DataMovement), true, ClaimData::ByMoverPod),
            (moved(true), volume(RestoreMethod::DataMovement), true, ClaimData::FromMovedSnapshot),
            (moved(false), None, false, ClaimData::Lost(Loss::NotWanted)),
            (files, volume(RestoreMethod::FsBackup), true, ClaimData::ByMoverPod),
            (files, None, false, ClaimData::ByMoverPod),
            (ClaimCopy::Snapshot, volume(RestoreMethod::CsiSnapshot), true, ClaimData::FromSnapshot),
            (
                ClaimCopy::Files(FileFormat::Restic),
                None,
                true,
                ClaimData::Lost(Loss::Unsupported(UnsupportedMethod::Restic)),
            ),
        ] {
            let found = [true, false].map(|has_pod| data(copy, volume, has_pod, wants_volumes));
            assert_eq!(found, [expected; 2], "{copy:?} {volume:?} {wants_volumes}");
        }
        let claim =
            SavedClaim { volume_name: "pv", volume: volume(RestoreMethod::FsBackup), copy: None, has_pod: true };
        let without_snapshot = plan_claim(claim, RestoreMeans { wants_volumes: true, movers: Movers::Pods });
        assert_eq!(without_snapshot, ClaimData::Lost(Loss::NotTaken));
    }
}
