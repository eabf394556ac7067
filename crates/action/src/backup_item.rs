//! Actions on objects that are being saved (velero: pkg/backup/item_backupper.go).

use crate::{ActionError, ActionScope, OperationProgress};
use async_trait::async_trait;
use lifeboat_api::Backup;
use lifeboat_object::{Item, ObjectKey};
use serde_json::Value;

/// The arguments of a call of an action.
#[derive(Clone, Debug)]
pub struct BackupItemInput<'a> {
    /// The object as it would be saved now, changed by the actions before.
    pub item: Value,
    /// The backup.
    pub backup: &'a Backup,
}

/// The result of an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupItemOutput {
    /// The object to go on with. Annotations on it speak to the engine: `velero.io/skip-from-backup` leaves the object out, and
    /// `backup.velero.io/must-include-additional-items: "true"` takes the additional items past all filters; neither is saved.
    pub item: Value,
    /// True when `item` differs from the object that the action was given. When no action has changed the object, the
    /// bytes that the API server sent are saved as they are.
    pub is_changed: bool,
    /// Objects that must be saved with this one. They are saved before it; one that fails makes this one fail too.
    pub additional_items: Vec<ObjectKey>,
    /// An asynchronous operation that was begun; empty for none. The backup ends when it has.
    pub operation_id: String,
    /// Objects that are saved again when that operation has ended.
    pub post_operation_items: Vec<ObjectKey>,
}

impl BackupItemOutput {
    /// Go on with the object as it was given.
    #[must_use]
    pub fn unchanged(item: Value) -> Self {
        Self { item, ..Self::default() }
    }

    /// Go on with this object.
    #[must_use]
    pub fn changed(item: Value) -> Self {
        Self { item, is_changed: true, ..Self::default() }
    }
}

/// Changes objects on their way into a backup, and names others that belong to them.
#[async_trait]
pub trait BackupItemAction: Send + Sync {
    /// Its name, such as `velero.io/pod`.
    fn name(&self) -> &str;

    /// The objects that it is called for, chosen by the state that the API server has sent: changes by actions before
    /// it do not count.
    fn applies_to(&self) -> ActionScope;

    /// Called for each object, at the same time for several. It may be called again for one after a crash, or after an error
    /// that can pass: what it begins elsewhere goes by a name that follows from the backup and the object.
    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError>;

    /// The additional objects that the action names for an object that it would leave unchanged, found without reading
    /// all of it: exactly those that [`Self::execute`] would name, when the call has no other effect. `None` when
    /// [`Self::execute`] has to be called.
    fn named_if_unchanged(&self, item: &Item, backup: &Backup) -> Option<Vec<ObjectKey>> {
        let _ = (item, backup);
        None
    }

    /// Asks for the progress of an operation that [`Self::execute`] has begun, perhaps in an earlier process.
    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        let _ = backup;
        Err(ActionError::item(format!("{} has begun no operation {operation_id}", self.name())))
    }

    /// Asks an operation to end; its progress tells when it has.
    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<(), ActionError> {
        let _ = (operation_id, backup);
        Ok(())
    }
}
