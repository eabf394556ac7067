//! Follows the VolumeSnapshots of a backup by one watch, however many there are and in however many namespaces; the
//! VolumeGroupSnapshots, which say the same of themselves, by another.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lifeboat_api::NamespacedName;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, WatchEvent, WatchRequest};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// The time that one watch lasts.
const LASTING: Duration = Duration::from_secs(300);
/// The pause after an error, before it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// The state of a VolumeSnapshot or VolumeGroupSnapshot, as its status tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SnapshotState {
    metadata: Metadata,
    status: SnapshotStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SnapshotStatus {
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

    /// Returns true if it is the object of this UID, and none that had its name before.
    pub(crate) fn is(&self, uid: &str) -> bool {
        self.metadata.uid == uid
    }

    /// Notes that this is the last that was seen of an object.
    fn set_gone(&mut self) {
        self.metadata.deletion_timestamp.get_or_insert_default();
    }

    /// Its namespace and name.
    fn key(&self) -> NamespacedName {
        NamespacedName::new(&*self.metadata.namespace, &*self.metadata.name)
    }

    /// Returns true if it is gone, or being deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The error that its controller reports.
    pub(crate) fn error(&self) -> Option<&str> {
        self.status.error.as_ref()?.message.as_deref()
    }

    /// The error that its controller reports, else the component to look at.
    pub(crate) fn said(&self) -> &str {
        self.error().unwrap_or(match self.status.bound_volume_snapshot_content_name {
            Some(_) => "its driver has not answered; look at the csi-snapshotter of the driver",
            None => "no controller has taken it up; is the snapshot-controller running?",
        })
    }
}

/// The objects to follow: those of a type that a label selects.
pub(crate) struct FollowQuery {
    pub(crate) cluster: Cluster,
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) selector: String,
}

/// The last known states of the objects of a type, by namespace and name.
#[derive(Debug)]
pub(crate) struct FollowedSnapshots {
    states: Mutex<HashMap<NamespacedName, SnapshotState>>,
    changed: watch::Sender<u64>,
    /// The namespaces in which somebody waits for objects.
    namespaces: watch::Sender<BTreeSet<String>>,
}

impl FollowedSnapshots {
    pub(crate) fn new() -> Self {
        Self { states: Mutex::default(), changed: watch::Sender::new(0), namespaces: watch::Sender::default() }
    }

    /// Says that somebody waits for objects of a namespace.
    pub(crate) fn want(&self, namespace: &str) {
        self.namespaces.send_if_modified(|all| !all.contains(namespace) && all.insert(namespace.to_owned()));
    }

    /// Waits until `wanted` gives something for an object. Gives its last state when the deadline comes before.
    pub(crate) async fn until<T>(
        &self,
        namespace: &str,
        name: &str,
        deadline: Instant,
        wanted: impl Fn(&SnapshotState) -> Option<T>,
    ) -> Result<T, Option<SnapshotState>> {
        let key = NamespacedName::new(namespace, name);
        let mut changes = self.changed.subscribe();
        loop {
            changes.mark_unchanged();
            // An object that the watch has not shown yet is not there and not gone.
            let found = self.lock().get(&key).and_then(&wanted);
            if let Some(found) = found {
                return Ok(found);
            }
            match timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                // The sender lives as long as this.
                Ok(Err(_)) | Err(_) => return Err(self.lock().get(&key).cloned()),
            }
        }
    }

    /// Follows them for ever; the caller ends it by dropping it. Where the user may not look at all namespaces together, each in which
    /// somebody waits is followed by itself.
    pub(crate) async fn follow(self: Arc<Self>, source: FollowQuery) {
        loop {
            match self.once(&source, None).await {
                Err(e) if e.is_denied() => return self.each_namespace(&source).await,
                // Whoever waits has a deadline; an error is tried again until then.
                Ok(()) | Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn each_namespace(&self, source: &FollowQuery) {
        let mut wanted = self.namespaces.subscribe();
        let (mut begun, mut following) = (BTreeSet::new(), FuturesUnordered::new());
        loop {
            let all = wanted.borrow_and_update().clone();
            for namespace in all {
                if begun.insert(namespace.clone()) {
                    following.push(async move {
                        loop {
                            let _ = self.once(source, Some(&namespace)).await;
                            sleep(PAUSE).await;
                        }
                    });
                }
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                // They go on for ever.
                Some(()) = following.next() => {}
            }
        }
    }

    /// Lists and then watches, in one namespace or in all, until there is an error.
    async fn once(&self, source: &FollowQuery, namespace: Option<&str>) -> Result<(), ClusterError> {
        let FollowQuery { cluster, resource, selector } = source;
        let mut list = cluster.list(
            ListRequest::all(Arc::clone(resource))
                .in_namespace(namespace.map(str::to_owned))
                .labelled(selector.clone()),
        );
        let mut listed: HashMap<NamespacedName, SnapshotState> = HashMap::new();
        while let Some(bodies) = list.next().await? {
            listed.extend(bodies.iter().filter_map(read).map(|state| (state.key(), state)));
        }
        let mut resource_version = list.end().resource_version.clone();
        {
            let mut states = self.lock();
            let is_listed = |place: &str| namespace.is_none_or(|namespace| namespace == place);
            // Those that went while nothing was watched.
            states.iter_mut().filter(|(key, _)| is_listed(&key.namespace)).for_each(|(_, state)| state.set_gone());
            states.extend(listed);
        }
        self.changed.send_modify(|version| *version += 1);
        loop {
            let request = WatchRequest {
                resource: Arc::clone(resource),
                namespace: namespace.map(str::to_owned),
                selector: selector.clone(),
                fields: String::new(),
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
                let Some(mut state) = read(&body) else { continue };
                resource_version.clone_from(&state.metadata.resource_version);
                if is_gone {
                    state.set_gone();
                }
                self.lock().insert(state.key(), state);
                self.changed.send_modify(|version| *version += 1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NamespacedName, SnapshotState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(body: &Bytes) -> Option<SnapshotState> {
    serde_json::from_slice(body).ok()
}
