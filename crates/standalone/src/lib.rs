//! Backups and restores of this machine, with no server: from a bucket and a kubeconfig.
//!
//! [`local_backup`] and [`local_restore`] run the engines here and go on with what was cut off ([`local_operation`]); [`preview`] computes
//! on this machine what the server would do; [`backup_source`] opens a backup for reading, from a bucket or through the server, and
//! [`repository_copy`] finds the data of one of its volumes. Start reading at [`local_backup`].

pub mod backup_source;
pub mod bucket_url;
mod cluster_location;
pub mod contents;
mod directory_bucket;
mod dry_run;
pub mod local_backup;
pub mod local_operation;
pub mod local_restore;
pub mod preview;
pub mod repository_copy;
