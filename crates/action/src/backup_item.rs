//! Actions on objects that are being saved (backup.md 1.11, 2.2).

use crate::{ActionError, ActionScope};
use async_trait::async_trait;
use lifeboat_api::Backup;
use lifeboat_object::ObjectKey;
use serde_json::Value;

/// What an action is called with.
#[derive(Clone, Debug)]
pub struct BackupItemInput<'a> {
    /// The object, changed by the actions before.
    pub item: Value,
    /// The backup.
    pub backup: &'a Backup,
}

/// What an action answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupItemOutput {
    /// The object to go on with.
    pub item: Value,
    /// Objects to save too, before this one.
    pub additional_items: Vec<ObjectKey>,
    /// An asynchronous operation that was begun; empty for none.
    pub operation_id: String,
    /// Objects to read again when the operation has ended.
    pub post_operation_items: Vec<ObjectKey>,
}

/// Changes objects on their way into a backup, and names others that belong to them.
#[async_trait]
pub trait BackupItemAction: Send + Sync {
    /// Its name, such as `velero.io/pod`.
    fn name(&self) -> &str;

    /// Which objects it is called for; tested on the object as it came from the cluster.
    fn applies_to(&self) -> ActionScope;

    /// Called once for each object, at the same time for several.
    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError>;
}

/// Names objects that should be saved together with another one.
#[async_trait]
pub trait ItemBlockAction: Send + Sync {
    /// Its name, such as `velero.io/pvc`.
    fn name(&self) -> &str;

    /// Which objects it is called for.
    fn applies_to(&self) -> ActionScope;

    /// The related objects, as far as they are known.
    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ObjectKey>, ActionError>;
}
