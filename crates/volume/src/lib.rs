//! Decides about each volume of a backup, takes its snapshot, and records the result (design: one verdict with one
//! reason for each volume).
//!
//! A [`VolumeInventory`] collects facts about pods, claims and volumes ([`facts`]). [`decide()`] gives the verdict on each
//! volume with its reason: a pure function, the same for a backup, its dry run and `volume explain`. For claims that
//! are to be snapshotted together, [`Verdicts::settle_groups`] then decides if they can be. The outcome is a
//! [`Report`], and [`records`] makes the volume information of a backup from verdicts and reports, never from guesses.
//!
//! A restore has its own decision ([`plan_volume`], [`plan_claim`]): the method by which a volume comes back, and the source of
//! the data of its claim. How a volume comes back whose data lies on its own storage follows in [`plan_retained`].
//!
//! Start reading at [`decide()`].

mod class;
mod decide;
pub mod facts;
mod group;
mod inventory;
mod method;
mod priority;
mod reason;
mod record;
mod restore_plan;
mod verdict;

pub use class::{ClassChoice, ClassTrouble, SnapshotClass, SnapshotClasses};
pub use decide::{Rules, Volume, decide};
pub use group::{GroupClass, GroupKey, GroupRules};
pub use inventory::{DecidedVolume, GroupNote, Verdicts, VolumeInventory};
pub use method::{csi, data_movement, fs_backup, mover_pod, native};
pub use priority::Priority;
pub use record::{Report, Reports, SavedObjects, is_to_be_protected, records, unprotected, unprotected_warning};
pub use restore_plan::{
    BackupOrigin, ClaimCopy, ClaimData, ClaimOfVolume, CopyRecords, FileFormat, FileVolume, FilesOfPods, Loss,
    MissingCopy, MovedSnapshot, Movers, PodFiles, RecordedMethod, RecordedVolumes, RepositoryCopy, RestoreMeans,
    RestoreMethod, RetainedFacts, RetainedPlan, RetainedVolume, SavedClaim, SavedFiles, SavedVolume, UnfinishedVolume,
    UnsupportedMethod, VolumeFiles, VolumeHere, VolumeName, VolumeOfClaim, VolumeOwner, VolumePermissions,
    VolumeRefusal, plan_claim, plan_retained, plan_volume, settle_unfinished,
};
pub use verdict::{
    BackupMovers, Blocker, DriverSnapshot, FilePod, Flags, Group, GroupTrouble, Method, MethodReason, MissingMover,
    NoPod, NoSnapshot, Verdict,
};
