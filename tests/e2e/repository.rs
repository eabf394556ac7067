//! Repositories of volume data, beside kopia itself, and those that restic wrote.

mod at_once;
mod blocks;
mod compared;
mod deletion;
mod flags;
mod kills;
mod maintenance;
mod mount;
mod object_storage;
mod password;
mod reading;
mod restic;
mod velero;
mod writing;
