//! Restore item actions of plugins, of both versions (velero: pkg/plugin/proto, pkg/plugin/clientmgmt).

use crate::backup_item::NO_OPERATIONS;
use crate::caller::PluginCaller;
use crate::client;
use crate::identity::PluginName;
use crate::{json, wire};
use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, OperationProgress, RestoreItemAction, RestoreItemInput, RestoreItemOutput,
};
use lifeboat_api::Restore;
use lifeboat_object::ObjectKey;
use lifeboat_plugin_proto::{generated, v2};
use std::sync::Arc;
use std::time::Duration;

/// A restore item action in a process.
pub(crate) struct RemoteRestoreItemAction {
    pub(crate) caller: Arc<PluginCaller>,
    pub(crate) name: PluginName,
    pub(crate) scope: ActionScope,
    /// True when it is of the second version.
    pub(crate) is_v2: bool,
}

#[async_trait]
impl RestoreItemAction for RemoteRestoreItemAction {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let (plugin, restore) = (self.name.to_string(), json::of(input.restore)?);
        let (item, item_from_backup) = (json::of(&input.item)?, json::of(input.item_from_backup)?);
        let answer = if self.is_v2 {
            let request = v2::RestoreItemActionExecuteRequest { plugin, item, restore, item_from_backup };
            let execute = |channel| async move { client::restore_item_v2(channel).execute(request).await };
            self.caller.call(&self.name, execute).await?
        } else {
            let request = generated::RestoreItemActionExecuteRequest { plugin, item, restore, item_from_backup };
            let execute = |channel| async move { client::restore_item(channel).execute(request).await };
            let answer = self.caller.call(&self.name, execute).await?;
            v2::RestoreItemActionExecuteResponse {
                item: answer.item,
                additional_items: answer.additional_items,
                skip_restore: answer.skip_restore,
                ..v2::RestoreItemActionExecuteResponse::default()
            }
        };
        if answer.skip_restore {
            // A plugin may restore the object itself, and go on with that.
            let operation_id = answer.operation_id;
            return Ok(RestoreItemOutput { item: input.item, operation_id, ..RestoreItemOutput::skip() });
        }
        let patience = answer.additional_items_ready_timeout.unwrap_or_default();
        Ok(RestoreItemOutput {
            item: json::object(&self.name, &answer.item)?,
            skip: false,
            additional_items: wire::keys(answer.additional_items),
            // A negative time is no time to wait for, so it is as if none were given.
            wait_for_additional_items: answer
                .wait_for_additional_items
                .then(|| Duration::try_from(patience).unwrap_or(Duration::ZERO)),
            operation_id: answer.operation_id,
        })
    }

    async fn are_additional_items_ready(&self, items: &[ObjectKey], restore: &Restore) -> Result<bool, ActionError> {
        if !self.is_v2 {
            return Ok(true);
        }
        let request = v2::RestoreItemActionItemsReadyRequest {
            plugin: self.name.to_string(),
            restore: json::of(restore)?,
            additional_items: wire::identifiers(items),
        };
        let ready = |channel| async move { client::restore_item_v2(channel).are_additional_items_ready(request).await };
        Ok(self.caller.call(&self.name, ready).await?.ready)
    }

    async fn progress(&self, operation_id: &str, restore: &Restore) -> Result<OperationProgress, ActionError> {
        if !self.is_v2 {
            return Err(ActionError::item(NO_OPERATIONS));
        }
        let request = v2::RestoreItemActionProgressRequest {
            plugin: self.name.to_string(),
            operation_id: operation_id.to_owned(),
            restore: json::of(restore)?,
        };
        let progress = |channel| async move { client::restore_item_v2(channel).progress(request).await };
        Ok(wire::progress(self.caller.call(&self.name, progress).await?.progress))
    }

    async fn cancel(&self, operation_id: &str, restore: &Restore) -> Result<(), ActionError> {
        if !self.is_v2 {
            return Ok(());
        }
        let request = v2::RestoreItemActionCancelRequest {
            plugin: self.name.to_string(),
            operation_id: operation_id.to_owned(),
            restore: json::of(restore)?,
        };
        let cancel = |channel| async move { client::restore_item_v2(channel).cancel(request).await };
        Ok(self.caller.call(&self.name, cancel).await?)
    }
}
