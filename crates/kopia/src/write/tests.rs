#![allow(clippy::unwrap_used, reason = "tests")]

mod beside;
mod contents;
mod create;
mod faults;
mod histories;
mod manifests;
mod objects;
