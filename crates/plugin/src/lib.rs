//! Runs external plugins and presents them as what the engines know: actions, snapshotters of volumes, buckets
//! (velero: pkg/plugin, pkg/plugin/velero).
//!
//! A plugin is a program in the plugin directory. [`PluginHost::discover`] asks each once what it has; from then on one process a
//! program runs for as long as something uses it, is started anew after its end, and is stopped when nothing needs it. Built-in
//! actions are no concern of this room: they come before those of plugins, by [`HostOptions::built_in`] their names are taken.
//!
//! Start reading at [`PluginHost`].

mod audience;
mod backup_item;
mod caller;
mod client;
mod connection;
mod delete_item;
mod error;
mod failure;
mod first;
mod handshake;
mod host;
mod identity;
mod item_block;
mod json;
mod keeper;
mod launch;
mod lines;
mod log_pipe;
mod object_store;
mod options;
mod process;
mod processes;
mod program;
mod registry;
mod restore_item;
mod stderr;
mod volume_snapshotter;
mod wire;

pub use error::{DiscoveryError, PluginError};
pub use host::PluginHost;
pub use identity::{InvalidName, PluginIdentity, PluginKind, PluginName};
pub use options::HostOptions;
