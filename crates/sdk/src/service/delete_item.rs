//! Actions on the objects of a backup that is being deleted (velero: pkg/plugin/proto).

use crate::call::{applies_to, call};
use crate::catalog::Catalog;
use crate::wire;
use lifeboat_action::DeleteItemAction;
use lifeboat_api::Backup;
use lifeboat_plugin_proto::generated::delete_item_action_server::DeleteItemAction as Service;
use lifeboat_plugin_proto::generated::{
    DeleteItemActionAppliesToRequest, DeleteItemActionAppliesToResponse, DeleteItemActionExecuteRequest, Empty,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Serves them.
pub(crate) struct DeleteItems(pub(crate) Arc<Catalog>);

impl DeleteItems {
    fn find(&self, name: &str) -> Result<&dyn DeleteItemAction, Status> {
        Ok(&**self.0.delete_item.find(name)?)
    }
}

#[tonic::async_trait]
impl Service for DeleteItems {
    async fn applies_to(
        &self,
        request: Request<DeleteItemActionAppliesToRequest>,
    ) -> Result<Response<DeleteItemActionAppliesToResponse>, Status> {
        let action = self.find(&request.get_ref().plugin)?;
        let resource_selector = applies_to(|| action.applies_to())?;
        Ok(Response::new(DeleteItemActionAppliesToResponse { resource_selector }))
    }

    async fn execute(&self, request: Request<DeleteItemActionExecuteRequest>) -> Result<Response<Empty>, Status> {
        let DeleteItemActionExecuteRequest { plugin, item, backup } = request.into_inner();
        let action = self.find(&plugin)?;
        let backup: Backup = wire::read_resource(&backup)?;
        let item = wire::read("object", &item)?;
        call(action.execute(&item, &backup)).await?;
        Ok(Response::new(Empty {}))
    }
}
