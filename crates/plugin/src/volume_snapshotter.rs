//! Volume snapshotters of plugins (velero: pkg/plugin/proto, pkg/plugin/velero/volumesnapshotter).

use crate::caller::PluginCaller;
use crate::client;
use crate::failure::CallFailure;
use crate::identity::PluginName;
use crate::json;
use async_trait::async_trait;
use lifeboat_action::{ActionError, VolumeFacts, VolumeRequest, VolumeSnapshotter};
use lifeboat_plugin_proto::generated;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A volume snapshotter in a process of its own, which has its configuration.
pub(crate) struct RemoteVolumeSnapshotter {
    pub(crate) caller: Arc<PluginCaller>,
    pub(crate) name: PluginName,
}

#[async_trait]
impl VolumeSnapshotter for RemoteVolumeSnapshotter {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    async fn volume_id(&self, persistent_volume: &Value) -> Result<Option<String>, ActionError> {
        let persistent_volume = json::of(persistent_volume)?;
        let request = generated::GetVolumeIdRequest { plugin: self.name.to_string(), persistent_volume };
        let ask = |channel| async move { client::volume_snapshotter(channel).get_volume_id(request).await };
        let id = self.caller.call(&self.name, ask).await?.volume_id;
        Ok(Some(id).filter(|id| !id.is_empty()))
    }

    async fn volume_facts(&self, volume_id: &str, zone: &str) -> Result<VolumeFacts, ActionError> {
        let request = generated::GetVolumeInfoRequest {
            plugin: self.name.to_string(),
            volume_id: volume_id.to_owned(),
            volume_az: zone.to_owned(),
        };
        let ask = |channel| async move { client::volume_snapshotter(channel).get_volume_info(request).await };
        let info = self.caller.call(&self.name, ask).await?;
        Ok(VolumeFacts { volume_type: info.volume_type, iops: Some(info.iops).filter(|iops| *iops != 0) })
    }

    async fn create_snapshot(
        &self,
        volume_id: &str,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, ActionError> {
        let request = generated::CreateSnapshotRequest {
            plugin: self.name.to_string(),
            volume_id: volume_id.to_owned(),
            volume_az: zone.to_owned(),
            tags: tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        };
        let create = |channel| async move { client::volume_snapshotter(channel).create_snapshot(request).await };
        let answer = self.caller.call(&self.name, create).await.map_err(CallFailure::of_creation)?;
        named(&self.name, "a snapshot", answer.snapshot_id)
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        let request = generated::CreateVolumeRequest {
            plugin: self.name.to_string(),
            snapshot_id: request.snapshot_id.clone(),
            volume_type: request.facts.volume_type.clone(),
            volume_az: request.zone.clone(),
            iops: request.facts.iops.unwrap_or_default(),
        };
        let create =
            |channel| async move { client::volume_snapshotter(channel).create_volume_from_snapshot(request).await };
        let answer = self.caller.call(&self.name, create).await.map_err(CallFailure::of_creation)?;
        named(&self.name, "a volume", answer.volume_id)
    }

    async fn set_volume_id(&self, persistent_volume: Value, volume_id: &str) -> Result<Value, ActionError> {
        let request = generated::SetVolumeIdRequest {
            plugin: self.name.to_string(),
            persistent_volume: json::of(&persistent_volume)?,
            volume_id: volume_id.to_owned(),
        };
        let set = |channel| async move { client::volume_snapshotter(channel).set_volume_id(request).await };
        let answer = self.caller.call(&self.name, set).await?;
        Ok(json::object(&self.name, &answer.persistent_volume)?)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError> {
        let request =
            generated::DeleteSnapshotRequest { plugin: self.name.to_string(), snapshot_id: snapshot_id.to_owned() };
        let delete = |channel| async move { client::volume_snapshotter(channel).delete_snapshot(request).await };
        self.caller.call(&self.name, delete).await?;
        Ok(())
    }
}

/// The name of what a plugin has made. Where it tells none, there may be something all the same, and only its tags find it.
fn named(plugin: &PluginName, what: &str, id: String) -> Result<String, ActionError> {
    if id.is_empty() {
        return Err(ActionError::gone(format!("the plugin {plugin} says that it has made {what}, but not which")));
    }
    Ok(id)
}
