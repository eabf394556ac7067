//! Requests to the server and their answers: files of backups and restores, its version and plugins, the plan of a restore.
//!
//! A request is an object of the cluster that the server fills in, or a call of the port at which it serves files. Start reading at
//! [`artifact`].

pub mod archive;
pub mod artifact;
pub mod describe;
pub mod fetch;
pub mod plan;
pub mod status;
pub mod transfers;
pub mod trust;
pub mod version;
