//! The source of the data of a claim that a restore makes, which follows from its volume.

use crate::restore_plan::loss::Loss;
use crate::restore_plan::method::RestoreMethod;

/// A claim of a backup.
#[derive(Clone, Copy, Debug)]
pub struct SavedClaim<'a> {
    /// The name of its volume; empty for none.
    pub volume_name: &'a str,
    /// The volume, where the backup has it.
    pub volume: Option<VolumeOfClaim>,
    /// True when the backup has a CSI snapshot of its data.
    pub has_snapshot: bool,
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

/// Decides about the data of a claim. `is_wanted` is false when the user wants no volumes from snapshots.
#[must_use]
pub fn plan_claim(claim: SavedClaim<'_>, is_wanted: bool) -> ClaimData {
    let SavedClaim { volume_name, volume, has_snapshot } = claim;
    if has_snapshot {
        return if is_wanted { ClaimData::FromSnapshot } else { ClaimData::Lost(Loss::NotWanted) };
    }
    let Some(VolumeOfClaim { method, is_included }) = volume else {
        return if volume_name.is_empty() { ClaimData::NotBound } else { ClaimData::VolumeUnknown };
    };
    match method {
        RestoreMethod::AsIs | RestoreMethod::NativeSnapshot if !is_included => ClaimData::VolumeLeftOut,
        RestoreMethod::AsIs => ClaimData::OnStorage,
        RestoreMethod::NativeSnapshot => ClaimData::WithVolume,
        // The claim has none of its own: the snapshot failed, or is of another claim.
        RestoreMethod::CsiSnapshot if is_wanted => ClaimData::Lost(Loss::NotTaken),
        RestoreMethod::CsiSnapshot => ClaimData::Lost(Loss::NotWanted),
        RestoreMethod::Empty(loss) if loss.holds_back() && !is_wanted => ClaimData::Lost(Loss::NotWanted),
        RestoreMethod::Empty(loss) => ClaimData::Lost(loss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore_plan::loss::UnsupportedMethod;

    const FILES: Loss = Loss::Unsupported(UnsupportedMethod::FsBackup);

    #[test]
    fn the_data_of_each_claim_follows_from_its_snapshot_and_its_volume() {
        use ClaimData as D;
        let lost = D::Lost;
        let wanted_or_not = |volume_name: &'static str, volume: Option<RestoreMethod>| {
            let data = |is_included, is_wanted| {
                let volume = volume.map(|method| VolumeOfClaim { method, is_included });
                plan_claim(SavedClaim { volume_name, volume, has_snapshot: false }, is_wanted)
            };
            [data(true, true), data(true, false), data(false, true), data(false, false)]
        };
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
            (
                "pv",
                Some(RestoreMethod::CsiSnapshot),
                [lost(Loss::NotTaken), lost(Loss::NotWanted), lost(Loss::NotTaken), lost(Loss::NotWanted)],
            ),
            ("pv", Some(RestoreMethod::Empty(Loss::NotSaved)), [lost(Loss::NotSaved); 4]),
            ("pv", Some(RestoreMethod::Empty(Loss::NotWanted)), [lost(Loss::NotWanted); 4]),
            (
                "pv",
                Some(RestoreMethod::Empty(Loss::NotTaken)),
                [lost(Loss::NotTaken), lost(Loss::NotWanted), lost(Loss::NotTaken), lost(Loss::NotWanted)],
            ),
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
        let volumes = [
            None,
            Some(RestoreMethod::AsIs),
            Some(RestoreMethod::NativeSnapshot),
            Some(RestoreMethod::CsiSnapshot),
            Some(RestoreMethod::Empty(FILES)),
        ];
        for method in volumes {
            let volume = method.map(|method| VolumeOfClaim { method, is_included: true });
            let claim = SavedClaim { volume_name: "pv", volume, has_snapshot: true };
            let data = [true, false].map(|is_wanted| plan_claim(claim, is_wanted));
            assert_eq!(data, [ClaimData::FromSnapshot, ClaimData::Lost(Loss::NotWanted)], "{method:?}");
        }
    }
}
