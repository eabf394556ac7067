//! Backup item actions of plugins, of both versions (velero: pkg/plugin/proto, pkg/plugin/clientmgmt).

use crate::caller::PluginCaller;
use crate::client;
use crate::identity::PluginName;
use crate::{json, wire};
use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, OperationProgress,
};
use lifeboat_api::Backup;
use lifeboat_plugin_proto::{generated, v2};
use std::sync::Arc;

/// Error of actions of the first version when they are asked about an operation, in Velero's words.
pub(crate) const NO_OPERATIONS: &str = "Plugin does not support asynchronous operations";

/// A backup item action in a process.
pub(crate) struct RemoteBackupItemAction {
    pub(crate) caller: Arc<PluginCaller>,
    pub(crate) name: PluginName,
    pub(crate) scope: ActionScope,
    /// True when it is of the second version.
    pub(crate) is_v2: bool,
}

#[async_trait]
impl BackupItemAction for RemoteBackupItemAction {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let (plugin, backup) = (self.name.to_string(), json::of(input.backup)?);
        let sent = json::of(&input.item)?;
        let answer = if self.is_v2 {
            let request = v2::ExecuteRequest { plugin, item: sent.clone(), backup };
            let execute = |channel| async move { client::backup_item_v2(channel).execute(request).await };
            self.caller.call(&self.name, execute).await?
        } else {
            let request = generated::ExecuteRequest { plugin, item: sent.clone(), backup };
            let execute = |channel| async move { client::backup_item(channel).execute(request).await };
            let answer = self.caller.call(&self.name, execute).await?;
            v2::ExecuteResponse {
                item: answer.item,
                additional_items: answer.additional_items,
                ..v2::ExecuteResponse::default()
            }
        };
        // One that changes nothing sends back what it was given.
        let answered = match answer.item == sent {
            true => None,
            false => Some(json::object(&self.name, &answer.item)?).filter(|item| *item != input.item),
        };
        Ok(BackupItemOutput {
            is_changed: answered.is_some(),
            item: answered.unwrap_or(input.item),
            additional_items: wire::keys(answer.additional_items),
            operation_id: answer.operation_id,
            post_operation_items: wire::keys(answer.post_operation_items),
        })
    }

    async fn progress(&self, operation_id: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        if !self.is_v2 {
            return Err(ActionError::item(NO_OPERATIONS));
        }
        let request = v2::BackupItemActionProgressRequest {
            plugin: self.name.to_string(),
            operation_id: operation_id.to_owned(),
            backup: json::of(backup)?,
        };
        let progress = |channel| async move { client::backup_item_v2(channel).progress(request).await };
        Ok(wire::progress(self.caller.call(&self.name, progress).await?.progress))
    }

    async fn cancel(&self, operation_id: &str, backup: &Backup) -> Result<(), ActionError> {
        if !self.is_v2 {
            return Ok(());
        }
        let request = v2::BackupItemActionCancelRequest {
            plugin: self.name.to_string(),
            operation_id: operation_id.to_owned(),
            backup: json::of(backup)?,
        };
        let cancel = |channel| async move { client::backup_item_v2(channel).cancel(request).await };
        Ok(self.caller.call(&self.name, cancel).await?)
    }
}
