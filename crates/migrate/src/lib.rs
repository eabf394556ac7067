//! The check of an installation of Velero before Lifeboat takes its place: what works, what differs, what is to be done.
//!
//! [`installation`] reads, [`report`] says what was found; all between is pure. Start reading at [`report`].

mod differences;
mod finding;
pub mod installation;
mod programs;
pub mod report;
mod resources;
pub mod workload;
