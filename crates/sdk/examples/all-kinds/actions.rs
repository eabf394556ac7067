//! Actions that begin nothing.

use lifeboat_plugin_sdk::{
    ActionError, ActionScope, Backup, BackupItemAction, BackupItemInput, BackupItemOutput, DeleteItemAction,
    GroupResource, ItemBlockAction, ObjectKey, async_trait,
};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

/// The name of an object.
pub(crate) fn name(item: &Value) -> &str {
    item["metadata"]["name"].as_str().unwrap_or_default()
}

/// Does what the name of the object says.
pub(crate) struct Odd;

#[async_trait]
impl BackupItemAction for Odd {
    fn name(&self) -> &str {
        "example.io/odd"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::default()
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let item = input.item;
        match name(&item) {
            "fail" => Err(ActionError::item("there is no space for \"fail\"")),
            "passing" => Err(ActionError::passing("the storage is busy")),
            "panic" => panic!("{} is odd", name(&item)),
            "no-object" => Ok(BackupItemOutput::changed(json!({}))),
            "long-error" => Err(ActionError::item("ä".repeat(20_000))),
            "slow" => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(BackupItemOutput::unchanged(item))
            }
            "loud" => {
                let text = [b'x'; 1024];
                for _ in 0..1024 {
                    let _ = std::io::stdout().write_all(&text);
                    let _ = std::io::stderr().write_all(&text);
                }
                let _ = std::io::stderr().write_all(b"\n");
                Ok(BackupItemOutput::unchanged(item))
            }
            "log" => {
                let span = tracing::info_span!("saving", item = "pods/log");
                span.in_scope(|| {
                    tracing::error!(error = "no space", "an error");
                    tracing::warn!(count = 3, "a warning");
                    tracing::info!(is_first = true, "a step");
                    tracing::debug!("a detail");
                    tracing::trace!("a trifle");
                    tracing::info!("long {}", "x".repeat(100_000));
                });
                Ok(BackupItemOutput::unchanged(item))
            }
            _ => Ok(BackupItemOutput::unchanged(item)),
        }
    }
}

/// Fails for what is named `fail`.
pub(crate) struct Delete;

#[async_trait]
impl DeleteItemAction for Delete {
    fn name(&self) -> &str {
        "example.io/delete"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope { label_selector: "app in (shop),tier".to_owned(), ..ActionScope::resources(&["secrets"]) }
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError> {
        if name(item) == "fail" {
            return Err(ActionError::item(format!("what {} keeps elsewhere cannot be removed", backup.metadata.name)));
        }
        tracing::info!(item = name(item), backup = backup.metadata.name, "removed");
        Ok(())
    }
}

/// Each object belongs with its namespace's ConfigMap of the same name and a node.
pub(crate) struct Block;

#[async_trait]
impl ItemBlockAction for Block {
    fn name(&self) -> &str {
        "example.io/block"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["pods", "deployments.apps"])
    }

    async fn related_items(&self, item: &Value, _backup: &Backup) -> Result<Vec<ObjectKey>, ActionError> {
        let namespace = item["metadata"]["namespace"].as_str();
        Ok(vec![
            ObjectKey::new(GroupResource::new("", "configmaps"), namespace, name(item)),
            ObjectKey::new(GroupResource::new("", "nodes"), None, "n1"),
        ])
    }
}
