//! Pod volume backups: the files of a volume, saved and restored by a node agent through a pod that mounts it.
//!
//! [`FileBackups`] makes a PodVolumeBackup for each volume that is saved by its files, and follows them to their ends. A claim that no
//! running pod mounts is saved through a reader pod ([`reader_pod`]), which holds it on a node while it is read.
//! [`FileRestores`] makes a PodVolumeRestore for each volume of a restored pod, and follows them to their ends.
//! [`cancel_all`] stops all data movement of a restore that has failed.

mod backup;
pub(crate) mod cancel;
mod outcome;
mod place;
mod progress;
mod reader;
mod reader_pod;
pub(crate) mod repository;
mod resource;
mod restore;
mod saved_volume;
mod scheduled;
mod settings;

pub use crate::method::server_image::find_server_image;
pub use backup::{FileBackupEnd, FileBackups};
pub use cancel::{cancel_all, cancel_if_wanted, stop_file_backups, working_file_backups};
pub use outcome::{ClaimsFilled, FileEnd, FileOutcome};
pub use reader::remove_readers;
pub use reader_pod::{READER_VOLUME, reader_pod_name};
pub use restore::{FileRestoreSettings, FileRestores, RestoredPod};
pub use saved_volume::{ClaimIdentity, VolumeToSave};
pub use scheduled::{NodeAgents, node_agents, unready_node_agents, unseen_node_agent};
pub use settings::FileBackupSettings;
