//! The program as its users run it, against a real control plane. `cargo xtask test-e2e NAMES` builds and starts what
//! is needed.

mod backup;
mod browse;
mod bucket;
mod cli;
mod clusters;
mod docs;
mod failures;
mod fixtures;
mod install;
mod kills;
mod node;
mod repository;
mod restore;
mod round_trip;
mod scale;
mod schedule;
mod server;
mod undelete;
mod velero;
mod volumes;

use fixtures::{
    devices, faults, ground, many, moved, page, random, repository_ground, results, shop, snapshot, support, tea,
};
