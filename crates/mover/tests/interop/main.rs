//! The room beside kopia: each reads and continues what the other has written. Owners are compared as root only.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "the makers of repositories are those of all tests")]

mod algorithms;
mod continuing;
#[path = "../it/fixture.rs"]
mod fixture;
mod ground;
mod maintenance;
mod password;
mod policies;
mod reading;
mod restic;
mod source;
#[path = "../it/tree.rs"]
mod tree;
