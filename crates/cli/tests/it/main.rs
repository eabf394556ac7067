//! The binary against a real control plane. `make test` builds and starts what is needed.

mod api_faults;
mod bucket_faults;
mod faults;
mod golden_in;
mod golden_out;
mod kills;
mod object_storage;
mod refusals;
mod sandbox;
mod snapshot;
mod support;
mod walk;
