//! What a program offers, and how it is served.

use crate::object_store::ObjectStore;
use lifeboat_action::{
    ActionError, BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction, VolumeSnapshotter,
};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The configuration of a location, as its resource has it, and what the server adds (plugin-protocol.md 4.4).
pub type Config = BTreeMap<String, String>;

/// What a program offers.
#[derive(Default)]
pub struct Plugin {}

impl Plugin {
    /// Offers nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers an action for objects that are being saved, registered by its name as one of the second version
    /// (plugin-protocol.md 1.3).
    #[must_use]
    pub fn backup_item_action(self, action: impl BackupItemAction + 'static) -> Self {
        let _ = action;
        todo!()
    }

    /// Offers an action for objects that are being restored, registered by its name as one of the second version.
    #[must_use]
    pub fn restore_item_action(self, action: impl RestoreItemAction + 'static) -> Self {
        let _ = action;
        todo!()
    }

    /// Offers an action for objects of a backup that is being deleted.
    #[must_use]
    pub fn delete_item_action(self, action: impl DeleteItemAction + 'static) -> Self {
        let _ = action;
        todo!()
    }

    /// Offers an action that says which objects are saved together.
    #[must_use]
    pub fn item_block_action(self, action: impl ItemBlockAction + 'static) -> Self {
        let _ = action;
        todo!()
    }

    /// Offers a snapshotter of volumes by this name. `make` is called each time a server gives the configuration of a location; what
    /// it makes takes the place of what it made before.
    #[must_use]
    pub fn volume_snapshotter<S, F>(self, name: &str, make: impl Fn(Config) -> F + Send + Sync + 'static) -> Self
    where
        S: VolumeSnapshotter + 'static,
        F: Future<Output = Result<S, ActionError>> + Send + 'static,
    {
        let _ = (name, make);
        todo!()
    }

    /// Offers an object store by this name, made as [`Self::volume_snapshotter`] says.
    #[must_use]
    pub fn object_store<S, F>(self, name: &str, make: impl Fn(Config) -> F + Send + Sync + 'static) -> Self
    where
        S: ObjectStore + 'static,
        F: Future<Output = Result<S, ActionError>> + Send + 'static,
    {
        let _ = (name, make);
        todo!()
    }

    /// Serves what is offered until the server that has started this program says that it is to end, or is gone. Makes a runtime of its
    /// own. Started by a person, it says what it is and fails.
    #[must_use]
    pub fn serve(self) -> ExitCode {
        todo!()
    }
}
