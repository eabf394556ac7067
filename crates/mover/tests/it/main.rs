//! Tests of the room as a user of it: what a restore makes of repositories that kopia wrote, and of hostile ones.
#![allow(clippy::unwrap_used, reason = "tests")]

mod existing;
mod extra;
mod fixture;
mod hostile;
mod interrupted;
mod maker;
mod matrix;
mod pieces;
mod target;
mod tree;
