//! Delete item actions of plugins (velero: pkg/plugin/proto).

use crate::caller::PluginCaller;
use crate::client;
use crate::identity::PluginName;
use crate::json;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, DeleteItemAction};
use lifeboat_api::Backup;
use lifeboat_plugin_proto::generated;
use serde_json::Value;
use std::sync::Arc;

/// A delete item action in a process.
pub(crate) struct RemoteDeleteItemAction {
    pub(crate) caller: Arc<PluginCaller>,
    pub(crate) name: PluginName,
    pub(crate) scope: ActionScope,
}

#[async_trait]
impl DeleteItemAction for RemoteDeleteItemAction {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError> {
        let request = generated::DeleteItemActionExecuteRequest {
            plugin: self.name.to_string(),
            item: json::of(item)?,
            backup: json::of(backup)?,
        };
        let execute = |channel| async move { client::delete_item(channel).execute(request).await };
        self.caller.call(&self.name, execute).await?;
        Ok(())
    }
}
