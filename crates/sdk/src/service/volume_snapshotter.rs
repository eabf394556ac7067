//! Snapshots of volumes by the API of their storage (velero: pkg/plugin/proto, pkg/plugin/velero/volumesnapshotter).

use crate::call::call;
use crate::catalog::Catalog;
use crate::wire;
use lifeboat_action::{VolumeFacts, VolumeRequest, VolumeSnapshotter};
use lifeboat_plugin_proto::generated::volume_snapshotter_server::VolumeSnapshotter as Service;
use lifeboat_plugin_proto::generated::{
    CreateSnapshotRequest, CreateSnapshotResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest,
    Empty, GetVolumeIdRequest, GetVolumeIdResponse, GetVolumeInfoRequest, GetVolumeInfoResponse, SetVolumeIdRequest,
    SetVolumeIdResponse, VolumeSnapshotterInitRequest,
};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Serves them.
pub(crate) struct VolumeSnapshotters(pub(crate) Arc<Catalog>);

impl VolumeSnapshotters {
    fn find(&self, name: &str) -> Result<Arc<dyn VolumeSnapshotter>, Status> {
        self.0.volume_snapshotter.find(name)?.get()
    }
}

#[tonic::async_trait]
impl Service for VolumeSnapshotters {
    async fn init(&self, request: Request<VolumeSnapshotterInitRequest>) -> Result<Response<Empty>, Status> {
        let VolumeSnapshotterInitRequest { plugin, config } = request.into_inner();
        self.0.volume_snapshotter.find(&plugin)?.init(config.into_iter().collect()).await?;
        Ok(Response::new(Empty {}))
    }

    async fn create_volume_from_snapshot(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let CreateVolumeRequest { plugin, snapshot_id, volume_type, volume_az, iops } = request.into_inner();
        let facts = VolumeFacts { volume_type, iops: Some(iops).filter(|iops| *iops != 0) };
        let wanted = VolumeRequest { snapshot_id, facts, zone: volume_az };
        let volume_id = call(self.find(&plugin)?.create_volume(&wanted)).await?;
        Ok(Response::new(CreateVolumeResponse { volume_id }))
    }

    async fn get_volume_info(
        &self,
        request: Request<GetVolumeInfoRequest>,
    ) -> Result<Response<GetVolumeInfoResponse>, Status> {
        let GetVolumeInfoRequest { plugin, volume_id, volume_az } = request.into_inner();
        let facts = call(self.find(&plugin)?.volume_facts(&volume_id, &volume_az)).await?;
        let VolumeFacts { volume_type, iops } = facts;
        Ok(Response::new(GetVolumeInfoResponse { volume_type, iops: iops.unwrap_or_default() }))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let CreateSnapshotRequest { plugin, volume_id, volume_az, tags } = request.into_inner();
        let tags = tags.into_iter().collect();
        let snapshot_id = call(self.find(&plugin)?.create_snapshot(&volume_id, &volume_az, &tags)).await?;
        Ok(Response::new(CreateSnapshotResponse { snapshot_id }))
    }

    async fn delete_snapshot(&self, request: Request<DeleteSnapshotRequest>) -> Result<Response<Empty>, Status> {
        let DeleteSnapshotRequest { plugin, snapshot_id } = request.into_inner();
        call(self.find(&plugin)?.delete_snapshot(&snapshot_id)).await?;
        Ok(Response::new(Empty {}))
    }

    async fn get_volume_id(
        &self,
        request: Request<GetVolumeIdRequest>,
    ) -> Result<Response<GetVolumeIdResponse>, Status> {
        let GetVolumeIdRequest { plugin, persistent_volume } = request.into_inner();
        let snapshotter = self.find(&plugin)?;
        let volume = wire::read("PersistentVolume", &persistent_volume)?;
        // None means to a server that another snapshotter may have it.
        let volume_id = call(snapshotter.volume_id(&volume)).await?.unwrap_or_default();
        Ok(Response::new(GetVolumeIdResponse { volume_id }))
    }

    async fn set_volume_id(
        &self,
        request: Request<SetVolumeIdRequest>,
    ) -> Result<Response<SetVolumeIdResponse>, Status> {
        let SetVolumeIdRequest { plugin, persistent_volume, volume_id } = request.into_inner();
        let snapshotter = self.find(&plugin)?;
        let volume = wire::read("PersistentVolume", &persistent_volume)?;
        let changed = call(snapshotter.set_volume_id(volume, &volume_id)).await?;
        Ok(Response::new(SetVolumeIdResponse { persistent_volume: wire::write(&changed)? }))
    }
}
