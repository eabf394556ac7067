//! Actions that say which objects are saved together (velero: pkg/plugin/proto).

use crate::call::{applies_to, call};
use crate::catalog::Catalog;
use crate::wire;
use lifeboat_action::ItemBlockAction;
use lifeboat_api::Backup;
use lifeboat_plugin_proto::v1::item_block_action_server::ItemBlockAction as Service;
use lifeboat_plugin_proto::v1::{
    ItemBlockActionAppliesToRequest, ItemBlockActionAppliesToResponse, ItemBlockActionGetRelatedItemsRequest,
    ItemBlockActionGetRelatedItemsResponse,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Serves them.
pub(crate) struct ItemBlocks(pub(crate) Arc<Catalog>);

impl ItemBlocks {
    fn find(&self, name: &str) -> Result<&dyn ItemBlockAction, Status> {
        Ok(&**self.0.item_block.find(name)?)
    }
}

#[tonic::async_trait]
impl Service for ItemBlocks {
    async fn applies_to(
        &self,
        request: Request<ItemBlockActionAppliesToRequest>,
    ) -> Result<Response<ItemBlockActionAppliesToResponse>, Status> {
        let action = self.find(&request.get_ref().plugin)?;
        let resource_selector = applies_to(|| action.applies_to())?;
        Ok(Response::new(ItemBlockActionAppliesToResponse { resource_selector }))
    }

    async fn get_related_items(
        &self,
        request: Request<ItemBlockActionGetRelatedItemsRequest>,
    ) -> Result<Response<ItemBlockActionGetRelatedItemsResponse>, Status> {
        let ItemBlockActionGetRelatedItemsRequest { plugin, item, backup } = request.into_inner();
        let action = self.find(&plugin)?;
        let backup: Backup = wire::read_resource(&backup)?;
        let item = wire::read("object", &item)?;
        let related = call(action.related_items(&item, &backup)).await?;
        Ok(Response::new(ItemBlockActionGetRelatedItemsResponse { related_items: wire::identifiers(related) }))
    }
}
