//! Actions on objects that are being saved (velero: pkg/plugin/proto).

use crate::call::{applies_to, call};
use crate::catalog::Catalog;
use crate::wire;
use lifeboat_action::{BackupItemAction, BackupItemInput};
use lifeboat_api::Backup;
use lifeboat_plugin_proto::v2::backup_item_action_server::BackupItemAction as Service;
use lifeboat_plugin_proto::v2::{
    BackupItemActionAppliesToRequest, BackupItemActionAppliesToResponse, BackupItemActionCancelRequest,
    BackupItemActionProgressRequest, BackupItemActionProgressResponse, ExecuteRequest, ExecuteResponse,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Serves them.
pub(crate) struct BackupItems(pub(crate) Arc<Catalog>);

impl BackupItems {
    fn find(&self, name: &str) -> Result<&dyn BackupItemAction, Status> {
        Ok(&**self.0.backup_item.find(name)?)
    }
}

#[tonic::async_trait]
impl Service for BackupItems {
    async fn applies_to(
        &self,
        request: Request<BackupItemActionAppliesToRequest>,
    ) -> Result<Response<BackupItemActionAppliesToResponse>, Status> {
        let action = self.find(&request.get_ref().plugin)?;
        let resource_selector = applies_to(|| action.applies_to())?;
        Ok(Response::new(BackupItemActionAppliesToResponse { resource_selector }))
    }

    async fn execute(&self, request: Request<ExecuteRequest>) -> Result<Response<ExecuteResponse>, Status> {
        let ExecuteRequest { plugin, item, backup } = request.into_inner();
        let action = self.find(&plugin)?;
        let backup: Backup = wire::read_resource(&backup)?;
        let input = BackupItemInput { item: wire::read("object", &item)?, backup: &backup };
        let output = call(action.execute(input)).await?;
        Ok(Response::new(ExecuteResponse {
            // A server cannot read an answer without an object.
            item: if output.is_changed { wire::write(&output.item)? } else { item },
            additional_items: wire::identifiers(output.additional_items),
            operation_id: output.operation_id,
            post_operation_items: wire::identifiers(output.post_operation_items),
        }))
    }

    async fn progress(
        &self,
        request: Request<BackupItemActionProgressRequest>,
    ) -> Result<Response<BackupItemActionProgressResponse>, Status> {
        let BackupItemActionProgressRequest { plugin, operation_id, backup } = request.into_inner();
        let action = self.find(&plugin)?;
        let backup: Backup = wire::read_resource(&backup)?;
        let progress = call(action.progress(&operation_id, &backup)).await?;
        Ok(Response::new(BackupItemActionProgressResponse { progress: Some(wire::progress(progress)) }))
    }

    async fn cancel(&self, request: Request<BackupItemActionCancelRequest>) -> Result<Response<()>, Status> {
        let BackupItemActionCancelRequest { plugin, operation_id, backup } = request.into_inner();
        let action = self.find(&plugin)?;
        let backup: Backup = wire::read_resource(&backup)?;
        call(action.cancel(&operation_id, &backup)).await?;
        Ok(Response::new(()))
    }
}
