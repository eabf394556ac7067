//! Decides how the volumes of a backup come back. Pure; a restore acts on it, and its preview shows it.
//!
//! [`plan_volume`] gives the method for a PersistentVolume, from what the backup has [recorded](RecordedVolumes), the volume
//! as it was saved, and the wishes of the user. What becomes of the claim of that volume follows in [`plan_claim`]. Where the
//! data lies on the storage of the volume, [`plan_retained`] decides by the state of the cluster, just before the volume or
//! its claim is written.
//!
//! A method that this version cannot carry out is a [`Loss`] with its reason ([`UnsupportedMethod`]): what is to carry it out
//! becomes a variant of [`RestoreMethod`], and the compiler names each place that has to act on it.

mod claim;
mod loss;
mod method;
mod recorded;
mod retained;

pub use claim::{ClaimData, SavedClaim, VolumeOfClaim, plan_claim};
pub use loss::{Loss, UnsupportedMethod};
pub use method::{RestoreMethod, SavedVolume, plan_volume};
pub use recorded::{RecordedMethod, RecordedVolumes, VolumeFiles};
pub use retained::{
    BackupOrigin, ClaimOfVolume, RetainedFacts, RetainedPlan, RetainedVolume, VolumeHere, VolumePermissions,
    VolumeRefusal, plan_retained,
};
