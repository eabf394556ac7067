//! Snapshots of volumes that exist by their names only.

use lifeboat_plugin_sdk::{ActionError, Config, VolumeFacts, VolumeRequest, VolumeSnapshotter, async_trait};
use serde_json::Value;
use std::collections::BTreeMap;

/// The volumes of a zone.
pub(crate) struct Volumes {
    pub(crate) config: Config,
}

#[async_trait]
impl VolumeSnapshotter for Volumes {
    fn name(&self) -> &str {
        "example.io/volumes"
    }

    async fn volume_id(&self, persistent_volume: &Value) -> Result<Option<String>, ActionError> {
        Ok(persistent_volume["spec"]["csi"]["volumeHandle"].as_str().map(str::to_owned))
    }

    async fn volume_facts(&self, volume_id: &str, zone: &str) -> Result<VolumeFacts, ActionError> {
        let iops = (volume_id == "fast").then_some(3000);
        Ok(VolumeFacts { volume_type: format!("type of {volume_id} in {zone}"), iops })
    }

    async fn create_snapshot(
        &self,
        volume_id: &str,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, ActionError> {
        if volume_id == "busy" {
            return Err(ActionError::passing("the volume is busy"));
        }
        let configured = self.config.get("zone").map_or("", String::as_str);
        Ok(format!("{volume_id} in {zone} of {configured} with {tags:?}"))
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        let VolumeRequest { snapshot_id, facts, zone } = request;
        Ok(format!("{snapshot_id}, {} with {:?} in {zone}", facts.volume_type, facts.iops))
    }

    async fn set_volume_id(&self, mut persistent_volume: Value, volume_id: &str) -> Result<Value, ActionError> {
        persistent_volume["spec"]["csi"]["volumeHandle"] = volume_id.into();
        Ok(persistent_volume)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError> {
        tracing::info!(snapshot = snapshot_id, "deleted");
        Ok(())
    }
}
