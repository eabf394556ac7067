//! Actions on objects that are being restored (velero: pkg/restore/restore.go).

use crate::{ActionError, ActionScope, OperationProgress};
use async_trait::async_trait;
use lifeboat_api::Restore;
use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::time::Duration;

/// The arguments of a call of an action.
#[derive(Clone, Debug)]
pub struct RestoreItemInput<'a> {
    /// The object as it would be created now, changed by the actions before.
    pub item: Value,
    /// The object as it stands in the backup.
    pub item_from_backup: &'a Value,
    /// The restore.
    pub restore: &'a Restore,
}

/// The result of an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreItemOutput {
    /// The object to go on with.
    pub item: Value,
    /// Do not restore it; the other fields are ignored then.
    pub skip: bool,
    /// Objects of the backup that must be restored before this one, with their namespaces in the backup. The annotation
    /// `restore.velero.io/must-include-additional-items: "true"` on `item` takes them past all filters; it is not restored.
    pub additional_items: Vec<ObjectKey>,
    /// Wait until the action says that the additional items are ready
    /// ([`RestoreItemAction::are_additional_items_ready`]), at most this long; `Duration::ZERO` for as long as the operation
    /// waits for any resource, `None` for not waiting.
    pub wait_for_additional_items: Option<Duration>,
    /// An asynchronous operation that was begun; empty for none.
    pub operation_id: String,
}

impl RestoreItemOutput {
    /// Go on with this object.
    #[must_use]
    pub fn with(item: Value) -> Self {
        Self { item, ..Self::default() }
    }

    /// Leave the object out.
    #[must_use]
    pub fn skip() -> Self {
        Self { skip: true, ..Self::default() }
    }
}

/// Changes objects on their way into the cluster.
#[async_trait]
pub trait RestoreItemAction: Send + Sync {
    /// Its name, such as `velero.io/service`.
    fn name(&self) -> &str;

    /// The objects that it is called for. The namespace tested is the target's.
    fn applies_to(&self) -> ActionScope;

    /// Called once for each object, at the same time for several.
    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError>;

    /// Returns true if these objects, which the action has named and which are in the cluster, are ready. Their
    /// namespaces are the ones they are restored to. Called each second, until it returns true or the time is over.
    async fn are_additional_items_ready(&self, items: &[ObjectKey], restore: &Restore) -> Result<bool, ActionError> {
        let _ = (items, restore);
        Ok(true)
    }

    /// Asks for the progress of an operation that [`Self::execute`] has begun, perhaps in an earlier process.
    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        let _ = restore;
        Err(ActionError::item(format!("{} has begun no operation {operation_id}", self.name())))
    }

    /// Asks an operation to end; its progress tells when it has.
    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<(), ActionError> {
        let _ = (operation_id, restore);
        Ok(())
    }

    /// Returns true if a call changes nothing anywhere (it may read), so that a preview may call it.
    fn is_pure(&self) -> bool {
        false
    }

    /// Returns true if all that the action does in this restore is to detach objects from the cluster that they came
    /// from: it removes tokens, addresses and notes of controllers, or fields that no API server accepts any more, and
    /// leaves what users wrote. When this holds for all actions of an object, an object that is in the cluster in the
    /// very state of the backup is left as it is. Otherwise the action may be called twice for it, also in a dry run:
    /// an action that returns true here must be pure too ([`Self::is_pure`]).
    fn only_detaches(&self, restore: &Restore) -> bool {
        let _ = restore;
        false
    }
}
