//! Restores into a sandbox, by the public functions of the crate.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cloud;
mod ground;
mod native;
mod native_kills;
mod trip;
