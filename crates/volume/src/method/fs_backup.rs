//! Pod volume backups: the files of a volume, saved and restored by a node agent through a pod that mounts it.
//!
//! [`FileRestores`] makes a PodVolumeRestore for each volume of a restored pod, and follows them to their ends.
//! [`cancel_all`] stops all data movement of a restore that has failed.

pub(crate) mod cancel;
mod progress;
pub(crate) mod repository;
mod resource;
mod restore;
mod scheduled;

pub use cancel::{cancel_all, cancel_if_wanted};
pub use restore::{ClaimsFilled, FileEnd, FileOutcome, FileRestoreSettings, FileRestores, RestoredPod};
