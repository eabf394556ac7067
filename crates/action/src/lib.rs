//! The extension points of the engines.
//!
//! Traits carry the semantics of Velero's v2 interfaces (backup.md 2.2, restore.md 2.11). Built-in actions and external
//! plugins are the same to the engines; calls are asynchronous because plugins are other processes. No implementation
//! lives here.

mod restore_item;
mod scope;

pub use restore_item::{RestoreItemAction, RestoreItemInput, RestoreItemOutput};
pub use scope::{ActionError, ActionScope};
