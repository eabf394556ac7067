//! Tests on a node that take long or need programs that take long to build: `make test-long` runs them.

mod bucket_away;
mod migration;
mod mover_rights;
mod pod_faults;
mod two_installations;
mod velero;
