//! The host with programs that speak the protocol, well and badly.

#![allow(clippy::unwrap_used, reason = "these are tests, and helpers of tests")]

mod actions;
mod bed;
mod bucket;
mod discovery;
mod fixture;
mod life;
mod logs;
mod memory;
mod object;
mod real_plugins;
mod storage;
mod velero_sdk;
