//! Repositories of volume data, beside kopia itself, and those that restic wrote.

mod at_once;
mod compared;
mod deletion;
mod maintenance;
mod mount;
mod password;
mod reading;
mod restic;
mod writing;
