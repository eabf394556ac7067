//! Item block actions of plugins (velero: pkg/plugin/proto).

use crate::caller::PluginCaller;
use crate::client;
use crate::identity::PluginName;
use crate::{json, wire};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, ItemBlockAction};
use lifeboat_api::Backup;
use lifeboat_object::ObjectKey;
use lifeboat_plugin_proto::v1;
use serde_json::Value;
use std::sync::Arc;

/// An item block action in a process.
pub(crate) struct RemoteItemBlockAction {
    pub(crate) caller: Arc<PluginCaller>,
    pub(crate) name: PluginName,
    pub(crate) scope: ActionScope,
}

#[async_trait]
impl ItemBlockAction for RemoteItemBlockAction {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn related_items(&self, item: &Value, backup: &Backup) -> Result<Vec<ObjectKey>, ActionError> {
        let request = v1::ItemBlockActionGetRelatedItemsRequest {
            plugin: self.name.to_string(),
            item: json::of(item)?,
            backup: json::of(backup)?,
        };
        let related = |channel| async move { client::item_block(channel).get_related_items(request).await };
        Ok(wire::keys(self.caller.call(&self.name, related).await?.related_items))
    }
}
