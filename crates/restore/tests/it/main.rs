//! Restores into a sandbox, by the doors of the room.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cloud;
mod ground;
mod native;
mod native_kills;
mod trip;
