//! Tests of the room as a user of it: what a restore makes of repositories that kopia wrote, and of hostile ones, and what a
//! snapshot makes of odd trees.
#![allow(clippy::unwrap_used, reason = "tests")]

mod away;
mod block_parents;
mod blocks;
mod checkpoints;
mod device;
mod existing;
mod extra;
mod fixture;
mod hostile;
mod interrupted;
mod killed;
mod maker;
mod matrix;
mod page_cache;
mod pieces;
mod restic;
mod snapshot;
mod target;
mod tree;
mod unsettled;
mod written;
