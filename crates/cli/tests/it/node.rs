//! What only a node can show: real containers and volumes. `make test-node` runs these tests, as root.

mod groups;
mod hooks;
mod installed;
mod place;
mod snapshot_restores;
mod snapshots;
