//! Parts of commands that work from a bucket or from this machine, with no server.

pub(crate) mod backup_source;
pub(crate) mod bucket_url;
pub(crate) mod contents;
pub(crate) mod directory_bucket;
pub(crate) mod dry_run;
pub(crate) mod local_backup;
pub(crate) mod local_operation;
pub(crate) mod local_restore;
pub(crate) mod preview;
