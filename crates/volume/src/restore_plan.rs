//! Decides how the volumes of a backup come back. Pure; a restore acts on it, and its preview shows it.
//!
//! [`plan_volume`] gives the method for a PersistentVolume, from what the backup has [recorded](RecordedVolumes), the volume
//! as it was saved, and the wishes of the user. What becomes of the claim of that volume follows in [`plan_claim`]. Where the
//! data lies on the storage of the volume, [`plan_retained`] decides by the state of the cluster, just before the volume or
//! its claim is written.
//!
//! [`PodFiles`] has the volumes of a pod whose files come from a repository, and [`FilesOfPods`] the pod through which each claim is
//! filled.
//!
//! [`CopyRecords`] finds the snapshot in a repository that holds one volume, for reading it without a cluster.
//!
//! Where a backup never came to its end, [`settle_unfinished`] says first which data it does not prove.
//!
//! A method that the environment cannot carry out ([`Movers`]) is a [`Loss`] with its reason ([`UnsupportedMethod`]).

mod claim;
mod loss;
mod method;
mod pod;
mod recorded;
mod repository_copy;
mod retained;
mod unfinished;

pub use claim::{ClaimCopy, ClaimData, SavedClaim, VolumeOfClaim, plan_claim};
pub use loss::{Loss, UnsupportedMethod};
pub use method::{Movers, RestoreMeans, RestoreMethod, SavedVolume, plan_volume};
pub use pod::{FileVolume, FilesOfPods, PodFiles};
pub use recorded::{FileFormat, MovedSnapshot, RecordedMethod, RecordedVolumes, SavedFiles, VolumeFiles};
pub use repository_copy::{CopyRecords, MissingCopy, RepositoryCopy, VolumeName, VolumeOwner};
pub use retained::{
    BackupOrigin, ClaimOfVolume, RetainedFacts, RetainedPlan, RetainedVolume, VolumeHere, VolumePermissions,
    VolumeRefusal, plan_retained,
};
pub use unfinished::{UnfinishedVolume, settle_unfinished};
