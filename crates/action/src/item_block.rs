//! Actions that say which objects are saved together (velero: pkg/backup/itemblock.go).

use crate::{ActionError, ActionScope};
use async_trait::async_trait;
use lifeboat_api::Backup;
use lifeboat_object::ObjectKey;
use serde_json::Value;

/// Names the objects that belong into one block with another: their hooks run before any of them is saved.
#[async_trait]
pub trait ItemBlockAction: Send + Sync {
    /// Its name, such as `velero.io/pvc`.
    fn name(&self) -> &str;

    /// The objects that it is called for.
    fn applies_to(&self) -> ActionScope;

    /// The objects that belong to this one. An error is told, and the object is saved without them.
    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ObjectKey>, ActionError>;
}
