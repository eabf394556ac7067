//! Follows the VolumeSnapshots of a backup in one namespace by one watch, however many there are; the VolumeGroupSnapshots, which say
//! the same of themselves, by another.

use super::objects::selector;
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, WatchEvent, WatchRequest};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// How long one watch lasts.
const LASTING: Duration = Duration::from_secs(300);
/// After an error, before it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What a VolumeSnapshot says of itself, or a VolumeGroupSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotState {
    metadata: Metadata,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(alias = "boundVolumeGroupSnapshotContentName")]
    bound_volume_snapshot_content_name: Option<String>,
    creation_time: Option<String>,
    error: Option<Failed>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Failed {
    message: Option<String>,
}

impl SnapshotState {
    /// The content of a snapshot that was taken, and when that was.
    pub(crate) fn taken(&self) -> Option<(&str, &str)> {
        Some((self.status.bound_volume_snapshot_content_name.as_deref()?, self.status.creation_time.as_deref()?))
    }

    /// Whether it is the object of this UID, and none that had its name before.
    pub(crate) fn is(&self, uid: &str) -> bool {
        self.metadata.uid == uid
    }

    /// The last that was seen of an object that is gone.
    fn gone(mut self) -> Self {
        self.metadata.deletion_timestamp.get_or_insert_default();
        self
    }

    /// Whether it is gone, or goes.
    pub(crate) fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// What its controller says is wrong with it.
    pub(crate) fn error(&self) -> Option<&str> {
        self.status.error.as_ref()?.message.as_deref()
    }

    /// What its controller says of it.
    pub(crate) fn said(&self) -> &str {
        self.error().unwrap_or(match self.status.bound_volume_snapshot_content_name {
            Some(_) => "its driver has not answered; look at the csi-snapshotter of the driver",
            None => "no controller has taken it up; is the snapshot-controller running?",
        })
    }
}

/// Those of one namespace.
#[derive(Debug)]
pub(crate) struct Followed {
    states: Mutex<HashMap<String, Option<SnapshotState>>>,
    changed: watch::Sender<u64>,
}

impl Followed {
    pub(crate) fn new() -> Self {
        Self { states: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Waits until `wanted` gives something for a snapshot. Gives its last state when the deadline comes before.
    pub(crate) async fn until<T>(
        &self,
        name: &str,
        deadline: Instant,
        wanted: impl Fn(Option<&SnapshotState>) -> Option<T>,
    ) -> Result<T, Option<SnapshotState>> {
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            // An object that the watch has not shown yet is not there and not gone.
            let state = self.lock().get(name).cloned();
            if let Some(state) = &state
                && let Some(wanted) = wanted(state.as_ref())
            {
                return Ok(wanted);
            }
            match timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                // The sender lives as long as this.
                Ok(Err(_)) | Err(_) => return Err(state.flatten()),
            }
        }
    }

    /// Follows them for ever; the caller ends it by dropping it.
    pub(crate) async fn follow(
        self: Arc<Self>,
        cluster: Cluster,
        resource: Arc<ApiResource>,
        namespace: String,
        backup_uid: String,
    ) {
        let selector = selector(&backup_uid);
        loop {
            // Whoever waits has a deadline; an error is tried again until then.
            let _ = self.once(&cluster, &resource, &namespace, &selector).await;
            sleep(PAUSE).await;
        }
    }

    async fn once(
        &self,
        cluster: &Cluster,
        resource: &Arc<ApiResource>,
        namespace: &str,
        selector: &str,
    ) -> Result<(), ClusterError> {
        let mut list = cluster.list(ListRequest {
            resource: Arc::clone(resource),
            namespace: Some(namespace.to_owned()),
            selector: selector.to_owned(),
            metadata_only: false,
        });
        let mut listed: HashMap<String, Option<SnapshotState>> = HashMap::new();
        while let Some(bodies) = list.next().await? {
            listed.extend(bodies.iter().filter_map(read).map(|state| (state.metadata.name.clone(), Some(state))));
        }
        let mut resource_version = list.end().resource_version.clone();
        {
            let mut states = self.lock();
            // Those that went while nothing was watched.
            states.values_mut().for_each(|state| *state = state.take().map(SnapshotState::gone));
            states.extend(listed);
        }
        self.changed.send_modify(|version| *version += 1);
        loop {
            let request = WatchRequest {
                resource: Arc::clone(resource),
                namespace: Some(namespace.to_owned()),
                selector: selector.to_owned(),
                resource_version: resource_version.clone(),
                lasting: LASTING,
            };
            let mut events = cluster.watch(&request).await?;
            while let Some(event) = events.next().await? {
                let (body, is_gone) = match event {
                    WatchEvent::Applied(body) => (body, false),
                    WatchEvent::Deleted(body) => (body, true),
                    WatchEvent::Bookmark(revision) => {
                        resource_version = revision;
                        continue;
                    }
                };
                let Some(state) = read(&body) else { continue };
                resource_version.clone_from(&state.metadata.resource_version);
                let name = state.metadata.name.clone();
                self.lock().insert(name, Some(if is_gone { state.gone() } else { state }));
                self.changed.send_modify(|version| *version += 1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<SnapshotState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(body: &Bytes) -> Option<SnapshotState> {
    serde_json::from_slice(body).ok()
}
