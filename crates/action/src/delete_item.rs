//! Actions on the objects of a backup that is being deleted (velero: internal/delete/delete_item_action_handler.go).

use crate::{ActionError, ActionScope};
use async_trait::async_trait;
use lifeboat_api::Backup;
use serde_json::Value;

/// Removes what a backup keeps elsewhere for an object, before its files go.
#[async_trait]
pub trait DeleteItemAction: Send + Sync {
    /// Its name, such as `velero.io/csi-volumesnapshotcontent-delete`.
    fn name(&self) -> &str;

    /// The objects of the backup that it is called for.
    fn applies_to(&self) -> ActionScope;

    /// Called for each object as it stands in the backup, and again when the deletion is tried again: what is gone already is
    /// no error. An error is told and makes the deletion fail, after all other objects had their turn.
    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError>;
}
