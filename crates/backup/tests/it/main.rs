//! Backups of a sandbox, by the doors of the room.
#![allow(clippy::unwrap_used, reason = "tests")]

mod deletion;
mod finalize;
mod ground;
mod hooks;
mod related;
