//! Watches the restored pods in which commands are to run: one watch for each namespace in which a pod is waited for,
//! however many pods it has.

use crate::state::env::Env;
use crate::state::lock::lock;
use lifeboat_cluster::{ClusterError, ListRequest, WatchEvent, WatchRequest};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Duration of one watch; the next one begins then.
const LASTING: Duration = Duration::from_secs(300);
/// Between attempts at a watch that fails.
const PAUSE: Duration = Duration::from_secs(2);
/// Interval at which a watch checks that pods of its namespace are still waited for. A watch outlives a moment without
/// any, so that pods that are created one after the other do not need a list each.
const LINGER: Duration = Duration::from_secs(10);

/// State of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// It is there.
    There {
        uid: String,
        /// By container, whether it runs, and whether it is ready.
        containers: BTreeMap<String, ContainerReadiness>,
        /// True when it has ended.
        is_over: bool,
    },
    /// It was deleted.
    Gone,
}

/// State of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerReadiness {
    pub(crate) is_running: bool,
    pub(crate) is_ready: bool,
}

/// The states of pods in all namespaces that are watched.
pub(crate) struct PodStates {
    env: Env,
    namespaces: Mutex<HashMap<String, Arc<Watched>>>,
    /// Watches, one for each namespace; they end with this value.
    tasks: Mutex<JoinSet<()>>,
}

/// The pods of one namespace that are waited for.
#[derive(Default)]
struct Watched {
    pods: Mutex<Pods>,
}

#[derive(Default)]
struct Pods {
    by_name: HashMap<String, FollowedPod>,
    /// Set when nothing keeps the states up to date any more: no pod comes to these.
    is_over: bool,
}

/// A pod that is waited for.
struct FollowedPod {
    uid: String,
    /// Set when an event of this pod has come since it is waited for. An earlier event for another pod of this name may
    /// be the deletion of its predecessor.
    is_heard: bool,
    state: watch::Sender<PodState>,
}

impl PodStates {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), namespaces: Mutex::default(), tasks: Mutex::default() }
    }

    /// Follows the state of a pod from now on. `pod` is as the API server gave it, a while ago perhaps: it is read once more by
    /// [`PodStates::read`], since a pod that rests brings no events.
    pub(crate) fn follow(&self, namespace: &str, pod: &Value) -> watch::Receiver<PodState> {
        let pod = Pod::deserialize(pod).unwrap_or_default();
        let mut namespaces = lock(&self.namespaces);
        if let Some(receiver) = namespaces.get(namespace).and_then(|watched| watched.follow(&pod)) {
            return receiver;
        }
        let (watched, receiver) = Watched::of(&pod);
        let watched = Arc::new(watched);
        namespaces.insert(namespace.to_owned(), Arc::clone(&watched));
        drop(namespaces);
        let (env, namespace) = (self.env.clone(), namespace.to_owned());
        let mut tasks = lock(&self.tasks);
        // Those of namespaces that were watched before.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let keeper = WatchGuard(watched);
            tokio::select! {
                () = keeper.0.keep(&namespace, &env) => {}
                () = keeper.0.unused() => {}
            }
        });
        receiver
    }

    /// Forgets a pod that nobody waits for any more.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        if let Some(watched) = lock(&self.namespaces).get(namespace) {
            watched.forget(name);
        }
    }

    /// Returns true if no pod of a namespace is waited for.
    #[cfg(test)]
    pub(crate) fn is_unused(&self, namespace: &str) -> bool {
        lock(&self.namespaces).get(namespace).is_none_or(|watched| lock(&watched.pods).by_name.is_empty())
    }

    /// Reads a pod that is followed, and tells those that wait for it.
    pub(crate) async fn read(&self, namespace: &str, name: &str) {
        let watched = lock(&self.namespaces).get(namespace).cloned();
        let Some(watched) = watched else { return };
        match self.env.cluster.get(&pods(), Some(namespace), name).await {
            Ok(body) => watched.read(name, body.as_deref()),
            // The watch tells what it hears all the same.
            Err(e) => tracing::debug!(namespace, name, error = %e, "a pod cannot be read"),
        }
    }
}

/// Says that nothing keeps the states up to date any more, when the task that did ends or dies.
struct WatchGuard(Arc<Watched>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        *lock(&self.0.pods) = Pods { is_over: true, ..Pods::default() };
    }
}

fn pods() -> ApiResource {
    ApiResource { namespaced: true, ..ApiResource::new("", "v1", "pods", "Pod") }
}

impl Pods {
    fn follow(&mut self, pod: &Pod) -> watch::Receiver<PodState> {
        let Metadata { name, uid, .. } = &pod.metadata;
        if let Some(followed) = self.by_name.get(name).filter(|followed| followed.uid == *uid) {
            return followed.state.subscribe();
        }
        let (state, receiver) = watch::channel(pod.state());
        self.by_name.insert(name.clone(), FollowedPod { uid: uid.clone(), is_heard: false, state });
        receiver
    }
}

impl Watched {
    /// The first pod of a namespace.
    fn of(pod: &Pod) -> (Self, watch::Receiver<PodState>) {
        let mut pods = Pods::default();
        let receiver = pods.follow(pod);
        (Self { pods: Mutex::new(pods) }, receiver)
    }

    /// `None` when nothing keeps the states up to date any more.
    fn follow(&self, pod: &Pod) -> Option<watch::Receiver<PodState>> {
        let mut pods = lock(&self.pods);
        (!pods.is_over).then(|| pods.follow(pod))
    }

    /// Forgets a pod, unless somebody still waits for it, or for another one of its name.
    fn forget(&self, name: &str) {
        let mut pods = lock(&self.pods);
        if pods.by_name.get(name).is_some_and(|followed| followed.state.receiver_count() == 0) {
            pods.by_name.remove(name);
        }
    }

    /// Returns when no pod is waited for any more, and none will be here.
    async fn unused(&self) {
        loop {
            sleep(LINGER).await;
            if self.end_if_unused() {
                return;
            }
        }
    }

    fn end_if_unused(&self) -> bool {
        let mut pods = lock(&self.pods);
        pods.is_over |= pods.by_name.is_empty();
        pods.is_over
    }

    /// Updates the state of a pod from a read, unless the watch has a newer one.
    fn read(&self, name: &str, body: Option<&[u8]>) {
        let is_heard = lock(&self.pods).by_name.get(name).is_none_or(|followed| followed.is_heard);
        if is_heard {
            return;
        }
        let state = match body.map(serde_json::from_slice::<Pod>) {
            None => PodState::Gone,
            Some(Ok(pod)) => pod.state(),
            Some(Err(_)) => return,
        };
        self.set(name, state);
    }

    /// Keeps the states up to date until it is dropped.
    async fn keep(&self, namespace: &str, env: &Env) {
        loop {
            if let Err(e) = self.once(namespace, env).await {
                tracing::debug!(namespace, error = %e, "the pods of a namespace are looked at again");
                sleep(PAUSE).await;
            }
        }
    }

    /// Lists the pods, and watches them until the server ends that.
    async fn once(&self, namespace: &str, env: &Env) -> Result<(), ClusterError> {
        let resource = Arc::new(pods());
        let mut list = env.cluster.list(ListRequest::all(Arc::clone(&resource)).in_namespace(namespace.to_owned()));
        let known = self.there();
        let mut listed = HashSet::new();
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                listed.extend(self.tell(&body, false).map(|pod| pod.name));
            }
        }
        // Those that went while nothing was watched.
        for name in known.difference(&listed) {
            self.set(name, PodState::Gone);
        }
        let mut resource_version = list.end().resource_version.clone();
        loop {
            let request = WatchRequest {
                resource: Arc::clone(&resource),
                namespace: Some(namespace.to_owned()),
                selector: String::new(),
                fields: String::new(),
                resource_version: resource_version.clone(),
                lasting: LASTING,
            };
            let mut watch = env.cluster.watch(&request).await?;
            while let Some(event) = watch.next().await? {
                match event {
                    WatchEvent::Applied(body) => resource_version = self.heard(&body, false, resource_version),
                    WatchEvent::Deleted(body) => resource_version = self.heard(&body, true, resource_version),
                    WatchEvent::Bookmark(revision) => resource_version = revision,
                }
            }
        }
    }

    /// The pods that are waited for and are known to be there.
    fn there(&self) -> HashSet<String> {
        let pods = lock(&self.pods);
        let is_there = |followed: &FollowedPod| matches!(*followed.state.borrow(), PodState::There { .. });
        let there = pods.by_name.iter().filter(|(_, followed)| is_there(followed));
        there.map(|(name, _)| name.clone()).collect()
    }

    /// Takes in an event, and gives the revision to go on from.
    fn heard(&self, body: &[u8], is_gone: bool, before: String) -> String {
        let revision = self.tell(body, is_gone).map(|pod| pod.resource_version).unwrap_or_default();
        if revision.is_empty() { before } else { revision }
    }

    /// Sends an event to those that wait for this pod, if there are any. Returns the metadata of the object; `None`
    /// when it is no pod.
    fn tell(&self, body: &[u8], is_gone: bool) -> Option<Metadata> {
        let pod: Pod = serde_json::from_slice(body).ok()?;
        let is_told = lock(&self.pods).by_name.get_mut(&pod.metadata.name).is_some_and(|followed| {
            let is_it = followed.uid == pod.metadata.uid;
            followed.is_heard |= is_it;
            // The end of another one of its name is not its own, and neither is what is heard before its own first event.
            is_it || followed.is_heard && !is_gone
        });
        if is_told {
            self.set(&pod.metadata.name, if is_gone { PodState::Gone } else { pod.state() });
        }
        Some(pod.metadata)
    }

    fn set(&self, name: &str, state: PodState) {
        if let Some(followed) = lock(&self.pods).by_name.get(name) {
            followed.state.send_if_modified(|known| {
                let is_new = *known != state;
                *known = state;
                is_new
            });
        }
    }
}

#[derive(Default, Deserialize)]
struct Pod {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    running: Option<serde::de::IgnoredAny>,
}

impl Pod {
    fn state(&self) -> PodState {
        let containers = self.status.container_statuses.iter().map(|container| {
            (
                container.name.clone(),
                ContainerReadiness { is_running: container.state.running.is_some(), is_ready: container.ready },
            )
        });
        PodState::There {
            uid: self.metadata.uid.clone(),
            containers: containers.collect(),
            is_over: matches!(self.status.phase.as_str(), "Succeeded" | "Failed"),
        }
    }
}

#[cfg(test)]
mod tests;
