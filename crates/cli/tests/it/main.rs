//! The binary against a real control plane. `make test` builds and starts what is needed.

mod api_faults;
mod bucket_faults;
mod budget;
mod calls;
mod dry_run;
mod faults;
mod golden_in;
mod golden_out;
mod hostile;
mod kept_out;
mod kills;
mod moved;
mod object_storage;
mod refusals;
mod results;
mod sandbox;
mod server;
mod shop;
mod snapshot;
mod support;
mod walk;
mod walk_existing;
mod walk_filtered;
mod walk_mapped;
mod walk_sandbox;
mod walk_shop;
