//! Tests that need a node, with real containers and volumes. `make test-node` runs them, as root.

mod application;
mod data_uploads;
mod devices;
mod driver;
mod golden;
mod golden_files;
mod groups;
mod hooks;
mod installed;
mod local_volumes;
mod long;
mod movers;
mod place;
mod protect_files;
mod readers;
mod repository_jobs;
mod snapshot_kills;
mod snapshot_restores;
mod snapshots;
mod transfer_faults;
mod transfer_kills;
mod turn;
mod verdicts;
mod volume_kinds;
