//! Plugins for Velero and Lifeboat, written in Rust.
//!
//! A plugin is a program with actions, snapshotters of volumes and object stores. It says which ones, and
//! [`Plugin::serve`] does the rest: it speaks the protocol of plugins (hashicorp/go-plugin) with whatever server has
//! started it, Velero 1.12 and later or Lifeboat.
//!
//! ```no_run
//! use lifeboat_plugin_sdk::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, Plugin, async_trait};
//!
//! struct Mark;
//!
//! #[async_trait]
//! impl BackupItemAction for Mark {
//!     fn name(&self) -> &str {
//!         "example.io/mark"
//!     }
//!
//!     fn applies_to(&self) -> ActionScope {
//!         ActionScope::resources(&["configmaps"])
//!     }
//!
//!     async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
//!         let mut item = input.item;
//!         item["metadata"]["annotations"]["example.io/saved-by"] = input.backup.metadata.name.as_str().into();
//!         Ok(BackupItemOutput::changed(item))
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     Plugin::new().backup_item_action(Mark).serve()
//! }
//! ```
//!
//! A plugin logs with `tracing`, into the log of the backup or restore that calls it: a line at the level `ERROR`
//! counts as an error of it, one at `WARN` as a warning. Nothing may be printed before [`Plugin::serve`].
//!
//! Another process than the one that began an operation may be asked for its progress: `progress` and `cancel` answer
//! from the operation's ID and from the state outside the process, never from memory.

mod call;
mod catalog;
mod caught;
mod configured_instance;
mod flags;
mod handshake;
mod launch;
mod log;
mod names;
mod object_store;
mod plugin;
mod request_body;
mod server;
mod service;
mod socket;
mod status;
mod upload;
mod wire;

pub use async_trait::async_trait;
pub use configured_instance::Config;
pub use lifeboat_action::{
    ActionError, ActionErrorKind, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, DeleteItemAction,
    ItemBlockAction, OperationProgress, RestoreItemAction, RestoreItemInput, RestoreItemOutput, VolumeFacts,
    VolumeRequest, VolumeSnapshotter,
};
pub use lifeboat_api::{Backup, Restore};
pub use lifeboat_object::{GroupResource, ObjectKey};
pub use object_store::{ByteStream, ObjectStore};
pub use plugin::Plugin;
