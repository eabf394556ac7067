//! Backups of a sandbox, by the doors of the room.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cloud;
mod deletion;
mod driver;
mod files;
mod finalize;
mod ground;
mod groups;
mod hooks;
mod kept;
mod lost;
mod moved;
mod native;
mod native_kills;
mod orphans;
mod readers;
mod related;
mod snapshots;
mod snapshotted;
mod snapshotter;
mod trip;
