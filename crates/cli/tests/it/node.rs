//! What only a node can show: real containers and volumes. `make test-node` runs these tests, as root.

mod application;
mod driver;
mod golden;
mod groups;
mod hooks;
mod installed;
mod place;
mod snapshot_kills;
mod snapshot_restores;
mod snapshots;
mod turn;
mod verdicts;
