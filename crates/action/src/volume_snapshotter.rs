//! Snapshots of volumes by the API of their storage (velero: pkg/plugin/proto, pkg/plugin/velero/volumesnapshotter).

use crate::ActionError;
use async_trait::async_trait;
use serde_json::Value;
use std::collections::BTreeMap;

/// Properties of a volume, as the provider reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFacts {
    /// The provider's type of it, such as `gp3`.
    pub volume_type: String,
    /// Its I/O operations per second, when they are provisioned.
    pub iops: Option<i64>,
}

/// A volume that is to be made from a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeRequest {
    /// The snapshot, by the provider's name.
    pub snapshot_id: String,
    /// Properties of the volume that was snapshotted.
    pub facts: VolumeFacts,
    /// The zone, such as `eu-central-1a`; empty when the volume had none.
    pub zone: String,
}

/// Takes snapshots of volumes and makes volumes from them. Each value serves one snapshot location, with whose
/// configuration it was made.
///
/// The snapshots and volumes of a provider cannot be listed. Therefore an error of
/// [`create_snapshot`](Self::create_snapshot) or [`create_volume`](Self::create_volume) means that nothing was made,
/// unless it is [`Gone`](crate::ActionErrorKind::Gone): then nobody knows, and the call is not repeated. After
/// [`Passing`](crate::ActionErrorKind::Passing) it is.
#[async_trait]
pub trait VolumeSnapshotter: Send + Sync {
    /// Its name, such as `velero.io/aws`.
    fn name(&self) -> &str;

    /// The provider's name of the volume behind a PersistentVolume; `None` when it is not of this provider.
    async fn volume_id(&self, persistent_volume: &Value) -> Result<Option<String>, ActionError>;

    /// Reads the properties of a volume from the provider.
    async fn volume_facts(&self, volume_id: &str, zone: &str) -> Result<VolumeFacts, ActionError>;

    /// Begins a snapshot and gives its name. The caller has noted that it may exist before it asks.
    async fn create_snapshot(
        &self,
        volume_id: &str,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, ActionError>;

    /// Makes a volume from a snapshot and gives its name. The caller has noted that it may exist before it asks.
    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError>;

    /// The PersistentVolume with this volume behind it.
    async fn set_volume_id(&self, persistent_volume: Value, volume_id: &str) -> Result<Value, ActionError>;

    /// Deletes a snapshot; one that is gone already is no error.
    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError>;
}
