//! Commands: flags, output, errors, completion, and the sandbox.

mod client;
mod debug;
mod kubectl_plugin;
pub(crate) mod refusals;
mod sandbox;
mod status;
mod unknown_fields;
mod waits;
mod wrong_documents;
mod wrong_lines;
