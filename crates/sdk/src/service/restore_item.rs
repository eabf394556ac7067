//! Actions on objects that are being restored (velero: pkg/plugin/proto).

use crate::call::{applies_to, call};
use crate::catalog::Catalog;
use crate::wire;
use lifeboat_action::{RestoreItemAction, RestoreItemInput};
use lifeboat_api::Restore;
use lifeboat_plugin_proto::v2::restore_item_action_server::RestoreItemAction as Service;
use lifeboat_plugin_proto::v2::{
    RestoreItemActionAppliesToRequest, RestoreItemActionAppliesToResponse, RestoreItemActionCancelRequest,
    RestoreItemActionExecuteRequest, RestoreItemActionExecuteResponse, RestoreItemActionItemsReadyRequest,
    RestoreItemActionItemsReadyResponse, RestoreItemActionProgressRequest, RestoreItemActionProgressResponse,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Serves them.
pub(crate) struct RestoreItems(pub(crate) Arc<Catalog>);

impl RestoreItems {
    fn find(&self, name: &str) -> Result<&dyn RestoreItemAction, Status> {
        Ok(&**self.0.restore_item.find(name)?)
    }
}

#[tonic::async_trait]
impl Service for RestoreItems {
    async fn applies_to(
        &self,
        request: Request<RestoreItemActionAppliesToRequest>,
    ) -> Result<Response<RestoreItemActionAppliesToResponse>, Status> {
        let action = self.find(&request.get_ref().plugin)?;
        let resource_selector = applies_to(|| action.applies_to())?;
        Ok(Response::new(RestoreItemActionAppliesToResponse { resource_selector }))
    }

    async fn execute(
        &self,
        request: Request<RestoreItemActionExecuteRequest>,
    ) -> Result<Response<RestoreItemActionExecuteResponse>, Status> {
        let RestoreItemActionExecuteRequest { plugin, item, restore, item_from_backup } = request.into_inner();
        let action = self.find(&plugin)?;
        let restore: Restore = wire::read_resource(&restore)?;
        let item_from_backup = wire::read("object of the backup", &item_from_backup)?;
        let input = RestoreItemInput {
            item: wire::read("object", &item)?,
            item_from_backup: &item_from_backup,
            restore: &restore,
        };
        let output = call(action.execute(input)).await?;
        Ok(Response::new(RestoreItemActionExecuteResponse {
            // A server cannot read an answer without an object, even where it leaves it out.
            item: if output.skip { item } else { wire::write(&output.item)? },
            additional_items: wire::identifiers(output.additional_items),
            skip_restore: output.skip,
            operation_id: output.operation_id,
            wait_for_additional_items: output.wait_for_additional_items.is_some(),
            additional_items_ready_timeout: Some(wire::duration(output.wait_for_additional_items.unwrap_or_default())),
        }))
    }

    async fn progress(
        &self,
        request: Request<RestoreItemActionProgressRequest>,
    ) -> Result<Response<RestoreItemActionProgressResponse>, Status> {
        let RestoreItemActionProgressRequest { plugin, operation_id, restore } = request.into_inner();
        let action = self.find(&plugin)?;
        let restore: Restore = wire::read_resource(&restore)?;
        let progress = call(action.progress(&operation_id, &restore)).await?;
        Ok(Response::new(RestoreItemActionProgressResponse { progress: Some(wire::progress(progress)) }))
    }

    async fn cancel(&self, request: Request<RestoreItemActionCancelRequest>) -> Result<Response<()>, Status> {
        let RestoreItemActionCancelRequest { plugin, operation_id, restore } = request.into_inner();
        let action = self.find(&plugin)?;
        let restore: Restore = wire::read_resource(&restore)?;
        call(action.cancel(&operation_id, &restore)).await?;
        Ok(Response::new(()))
    }

    async fn are_additional_items_ready(
        &self,
        request: Request<RestoreItemActionItemsReadyRequest>,
    ) -> Result<Response<RestoreItemActionItemsReadyResponse>, Status> {
        let RestoreItemActionItemsReadyRequest { plugin, restore, additional_items } = request.into_inner();
        let action = self.find(&plugin)?;
        let restore: Restore = wire::read_resource(&restore)?;
        let items = wire::keys(additional_items);
        let ready = call(action.are_additional_items_ready(&items, &restore)).await?;
        Ok(Response::new(RestoreItemActionItemsReadyResponse { ready }))
    }
}
