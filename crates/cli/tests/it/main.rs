//! The binary against a real control plane. `make test` builds and starts what is needed.

mod budget;
mod dry_run;
mod golden_in;
mod golden_out;
mod hostile;
mod kept_out;
mod object_storage;
mod refusals;
mod sandbox;
mod snapshot;
mod support;
mod walk;
