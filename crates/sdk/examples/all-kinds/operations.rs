//! Actions that begin operations. How far one is follows from its ID alone: another process may be asked.

use crate::actions::name;
use lifeboat_plugin_sdk::{
    ActionError, ActionScope, Backup, BackupItemAction, BackupItemInput, BackupItemOutput, GroupResource, ObjectKey,
    OperationProgress, RestoreItemAction, RestoreItemInput, RestoreItemOutput, async_trait,
};
use std::time::Duration;

/// The progress of the operation of this ID.
fn progress(operation_id: &str, owner: &str) -> Result<OperationProgress, ActionError> {
    let time = |text: &str| text.parse().ok();
    let runs = OperationProgress {
        n_completed: 3,
        n_total: 7,
        operation_units: "Bytes".to_owned(),
        description: format!("of {owner}"),
        ..OperationProgress::default()
    };
    match operation_id {
        "new" => Ok(runs),
        "runs" => Ok(OperationProgress {
            started: time("2026-11-22T12:00:00Z"),
            updated: time("2026-11-22T12:00:01.5Z"),
            ..runs
        }),
        "failed" => Ok(OperationProgress { completed: true, error: "no space".to_owned(), ..runs }),
        other => Err(ActionError::item(format!("there is no operation {other}"))),
    }
}

fn key(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new(group, resource), namespace, name)
}

/// Marks objects that are saved, and begins an operation for each.
pub(crate) struct Save;

#[async_trait]
impl BackupItemAction for Save {
    fn name(&self) -> &str {
        "example.io/Save_1"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope {
            included_resources: vec!["pods".to_owned(), "deployments.apps".to_owned()],
            excluded_resources: vec!["secrets".to_owned()],
            included_namespaces: vec!["shop".to_owned()],
            excluded_namespaces: vec!["kube-*".to_owned()],
            label_selector: "app=web".to_owned(),
        }
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let mut item = input.item;
        let backup = &input.backup.metadata.name;
        if name(&item) == "plain" {
            return Ok(BackupItemOutput::unchanged(item));
        }
        item["metadata"]["annotations"]["example.io/saved-by"] = backup.as_str().into();
        Ok(BackupItemOutput {
            additional_items: vec![key("apps", "deployments", Some("shop"), "web"), key("", "nodes", None, "n1")],
            operation_id: format!("{backup}-{}", name(&item)),
            post_operation_items: vec![key("", "secrets", Some("shop"), "later")],
            ..BackupItemOutput::changed(item)
        })
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        progress(operation_id, &backup.metadata.name)
    }

    async fn cancel(&self, operation_id: &str, _backup: &Backup) -> Result<(), ActionError> {
        tracing::info!(operation = operation_id, "cancelled");
        Ok(())
    }
}

/// Renames what is restored, waits for what belongs to it, and begins an operation.
pub(crate) struct Restore;

#[async_trait]
impl RestoreItemAction for Restore {
    fn name(&self) -> &str {
        "example.io/restore"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["pods"])
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let mut item = input.item;
        match name(&item) {
            "skip" => Ok(RestoreItemOutput::skip()),
            "plain" => Ok(RestoreItemOutput::with(item)),
            "wait" => Ok(RestoreItemOutput {
                wait_for_additional_items: Some(Duration::ZERO),
                additional_items: vec![key("", "nodes", None, "n1")],
                ..RestoreItemOutput::with(item)
            }),
            _ => {
                item["metadata"]["annotations"]["example.io/uid"] = input.item_from_backup["metadata"]["uid"].clone();
                item["metadata"]["annotations"]["example.io/of"] = input.restore.spec.backup_name.as_str().into();
                Ok(RestoreItemOutput {
                    additional_items: vec![key("", "secrets", Some("shop"), "first")],
                    wait_for_additional_items: Some(Duration::from_millis(90_500)),
                    operation_id: "runs".to_owned(),
                    ..RestoreItemOutput::with(item)
                })
            }
        }
    }

    async fn are_additional_items_ready(
        &self,
        items: &[ObjectKey],
        _restore: &lifeboat_plugin_sdk::Restore,
    ) -> Result<bool, ActionError> {
        Ok(items.iter().all(|item| item.namespace.as_deref() == Some("shop") && item.resource.group.is_empty()))
    }

    async fn progress(
        &self,
        operation_id: &str,
        restore: &lifeboat_plugin_sdk::Restore,
    ) -> Result<OperationProgress, ActionError> {
        progress(operation_id, &restore.metadata.name)
    }
}
