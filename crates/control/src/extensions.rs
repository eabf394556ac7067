//! The actions and snapshotters that plugins give to the operations of a server.

use async_trait::async_trait;
use lifeboat_action::{ActionError, Actions, LocatedSnapshotter, VolumeFacts, VolumeRequest, VolumeSnapshotter};
use lifeboat_api::{PluginInfo, VolumeSnapshotLocation};
use lifeboat_client::Client;
use lifeboat_operation::Journal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::sleep;

/// Provides actions and snapshotters that are not built into the engines.
#[async_trait]
pub trait Extensions: Debug + Send + Sync {
    /// The actions for one operation, without snapshotters. What they log goes into the journal.
    ///
    /// # Errors
    /// A message for people that says why there are none: the operation must not go on without them.
    async fn actions(&self, journal: &Journal) -> Result<Actions, String>;

    /// The snapshotter of a location, whose Secret has these credentials.
    ///
    /// # Errors
    /// A message for people that says why the location cannot be used.
    async fn volume_snapshotter(
        &self,
        location: &VolumeSnapshotLocation,
        credentials: Option<Vec<u8>>,
        journal: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, String>;

    /// Everything that this server has, built in or not, in the order in which it is called.
    fn plugins(&self) -> Vec<PluginInfo>;
}

/// No plugins.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlugins;

#[async_trait]
impl Extensions for NoPlugins {
    async fn actions(&self, _: &Journal) -> Result<Actions, String> {
        Ok(Actions::default())
    }

    async fn volume_snapshotter(
        &self,
        location: &VolumeSnapshotLocation,
        _: Option<Vec<u8>>,
        _: &Journal,
    ) -> Result<Arc<dyn VolumeSnapshotter>, String> {
        Err(format!("there is no plugin that takes snapshots for the provider {:?}", location.spec.provider))
    }

    fn plugins(&self) -> Vec<PluginInfo> {
        Vec::new()
    }
}

/// The snapshotter of a location that can be used, made with the credentials that the location names.
///
/// # Errors
/// A message for people that says why it cannot be used.
pub(crate) async fn open_snapshotter(
    client: &Client,
    extensions: &dyn Extensions,
    location: &VolumeSnapshotLocation,
    journal: &Journal,
) -> Result<Arc<dyn VolumeSnapshotter>, String> {
    let failed = |why: String| format!("volume snapshot location {} cannot be used: {why}", location.metadata.name);
    let credentials = match &location.spec.credential {
        Some(secret) => Some(client.secret(&secret.name, &secret.key).await.map_err(failed)?),
        None => None,
    };
    extensions.volume_snapshotter(location, credentials, journal).await.map_err(failed)
}

/// Before each other try at opening a snapshotter: its provider may be out of reach for a moment.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

/// The snapshotter of a location, made when it is first asked for something: most operations need none of most locations.
pub(crate) fn located(
    client: &Client,
    extensions: &Arc<dyn Extensions>,
    location: VolumeSnapshotLocation,
    journal: &Journal,
) -> LocatedSnapshotter {
    let name = location.metadata.name.clone();
    let snapshotter = Arc::new(LateExtensions {
        client: client.clone(),
        extensions: Arc::clone(extensions),
        location,
        journal: journal.clone(),
        opened: OnceCell::new(),
    });
    LocatedSnapshotter { location: name, snapshotter }
}

struct LateExtensions {
    client: Client,
    extensions: Arc<dyn Extensions>,
    location: VolumeSnapshotLocation,
    journal: Journal,
    /// The snapshotter, or the reason for which it could not be opened. An operation tries that only once, so that each
    /// further volume fails at once.
    opened: OnceCell<Result<Arc<dyn VolumeSnapshotter>, String>>,
}

impl LateExtensions {
    async fn snapshotter(&self) -> Result<&dyn VolumeSnapshotter, ActionError> {
        let open = || async {
            let mut pauses = PAUSES.iter();
            loop {
                let opened = open_snapshotter(&self.client, &*self.extensions, &self.location, &self.journal).await;
                match (opened, pauses.next()) {
                    (Err(_), Some(pause)) => sleep(*pause).await,
                    (opened, _) => return opened,
                }
            }
        };
        self.opened.get_or_init(open).await.as_deref().map_err(ActionError::item)
    }
}

#[async_trait]
impl VolumeSnapshotter for LateExtensions {
    fn name(&self) -> &str {
        &self.location.spec.provider
    }

    async fn volume_id(&self, persistent_volume: &Value) -> Result<Option<String>, ActionError> {
        self.snapshotter().await?.volume_id(persistent_volume).await
    }

    async fn volume_facts(&self, volume_id: &str, zone: &str) -> Result<VolumeFacts, ActionError> {
        self.snapshotter().await?.volume_facts(volume_id, zone).await
    }

    async fn create_snapshot(
        &self,
        volume_id: &str,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, ActionError> {
        self.snapshotter().await?.create_snapshot(volume_id, zone, tags).await
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        self.snapshotter().await?.create_volume(request).await
    }

    async fn set_volume_id(&self, persistent_volume: Value, volume_id: &str) -> Result<Value, ActionError> {
        self.snapshotter().await?.set_volume_id(persistent_volume, volume_id).await
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError> {
        self.snapshotter().await?.delete_snapshot(snapshot_id).await
    }
}
