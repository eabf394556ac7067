//! The states of restored pods, as far as commands that are to run in them wait for these: one watch for each namespace,
//! however many pods it has.

use crate::env::Env;
use crate::lock::lock;
use lifeboat_cluster::{ClusterError, ListRequest, WatchEvent, WatchRequest};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long one watch lasts before the next one begins.
const LASTING: Duration = Duration::from_secs(300);
/// Between attempts at a watch that fails.
const PAUSE: Duration = Duration::from_secs(2);

/// What is known of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// Nothing was heard of it.
    Unknown,
    /// It is there.
    There {
        uid: String,
        /// By container, whether it runs, and whether it is ready.
        containers: BTreeMap<String, Up>,
        /// Whether it has ended.
        is_over: bool,
    },
    /// It was deleted.
    Gone,
}

/// How far a container is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Up {
    pub(crate) is_running: bool,
    pub(crate) is_ready: bool,
}

/// The states of pods in all namespaces that are watched.
pub(crate) struct PodStates {
    env: Env,
    namespaces: Mutex<HashMap<String, Arc<Watched>>>,
    /// One for each namespace; they end with this value.
    tasks: Mutex<JoinSet<()>>,
}

/// The pods of one namespace that are waited for.
#[derive(Default)]
struct Watched {
    pods: Mutex<HashMap<String, watch::Sender<PodState>>>,
}

impl PodStates {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), namespaces: Mutex::default(), tasks: Mutex::default() }
    }

    /// Follows the state of a pod from now on.
    pub(crate) fn follow(&self, namespace: &str, name: &str) -> watch::Receiver<PodState> {
        let (watched, is_new) = {
            let mut namespaces = lock(&self.namespaces);
            let is_new = !namespaces.contains_key(namespace);
            (Arc::clone(namespaces.entry(namespace.to_owned()).or_default()), is_new)
        };
        let receiver = {
            let mut pods = lock(&watched.pods);
            let sender = pods.entry(name.to_owned()).or_insert_with(|| watch::channel(PodState::Unknown).0);
            sender.subscribe()
        };
        if is_new {
            let (env, namespace) = (self.env.clone(), namespace.to_owned());
            lock(&self.tasks).spawn(async move { watched.keep(&namespace, &env).await });
        }
        receiver
    }
}

impl Watched {
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
        let resource = Arc::new(ApiResource { namespaced: true, ..ApiResource::new("", "v1", "pods", "Pod") });
        let mut list = env.cluster.list(ListRequest {
            resource: Arc::clone(&resource),
            namespace: Some(namespace.to_owned()),
            selector: String::new(),
            metadata_only: false,
        });
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
        let there = pods.iter().filter(|(_, state)| matches!(*state.borrow(), PodState::There { .. }));
        there.map(|(name, _)| name.clone()).collect()
    }

    /// Takes in an event, and gives the revision to go on from.
    fn heard(&self, body: &[u8], is_gone: bool, before: String) -> String {
        let revision = self.tell(body, is_gone).map(|pod| pod.resource_version).unwrap_or_default();
        if revision.is_empty() { before } else { revision }
    }

    /// Tells those that wait for this pod, if any do. Gives what the object calls itself; `None` when it is no pod.
    fn tell(&self, body: &[u8], is_gone: bool) -> Option<Metadata> {
        let pod: Pod = serde_json::from_slice(body).ok()?;
        let state = if is_gone { PodState::Gone } else { pod.state() };
        self.set(&pod.metadata.name, state);
        Some(pod.metadata)
    }

    fn set(&self, name: &str, state: PodState) {
        if let Some(sender) = lock(&self.pods).get(name) {
            sender.send_if_modified(|known| {
                let is_new = *known != state;
                *known = state;
                is_new
            });
        }
    }
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<serde::de::IgnoredAny>,
}

impl Pod {
    fn state(&self) -> PodState {
        let containers = self.status.container_statuses.iter().map(|container| {
            (container.name.clone(), Up { is_running: container.state.running.is_some(), is_ready: container.ready })
        });
        PodState::There {
            uid: self.metadata.uid.clone(),
            containers: containers.collect(),
            is_over: matches!(self.status.phase.as_str(), "Succeeded" | "Failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn state(status: Value) -> PodState {
        let pod = json!({"metadata": {"name": "a", "uid": "u"}, "status": status});
        serde_json::from_value::<Pod>(pod).unwrap().state()
    }

    fn there(containers: &[(&str, bool, bool)], is_over: bool) -> PodState {
        let up = |(name, is_running, is_ready): &(&str, bool, bool)| {
            ((*name).to_owned(), Up { is_running: *is_running, is_ready: *is_ready })
        };
        PodState::There { uid: "u".to_owned(), containers: containers.iter().map(up).collect(), is_over }
    }

    #[test]
    fn a_container_is_up_when_it_runs_and_ready_when_it_says_so() {
        assert_eq!(state(json!({})), there(&[], false));
        let containers = json!([
            {"name": "a", "ready": true, "state": {"running": {"startedAt": "now"}}},
            {"name": "b", "ready": false, "state": {"running": {}}},
            {"name": "c", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]);
        assert_eq!(
            state(json!({"phase": "Running", "containerStatuses": containers})),
            there(&[("a", true, true), ("b", true, false), ("c", false, false)], false)
        );
        assert_eq!(state(json!({"phase": "Failed"})), there(&[], true));
    }

    #[test]
    fn those_that_wait_for_a_pod_are_told_of_it() {
        let watched = Watched::default();
        let sender = watch::channel(PodState::Unknown).0;
        let mut receiver = sender.subscribe();
        lock(&watched.pods).insert("a".to_owned(), sender);
        let pod = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}).to_string();
        assert_eq!(watched.heard(pod.as_bytes(), false, "6".to_owned()), "7");
        assert_eq!(*receiver.borrow_and_update(), there(&[], false));
        watched.tell(pod.as_bytes(), false);
        assert!(!receiver.has_changed().unwrap());
        watched.tell(pod.as_bytes(), true);
        assert_eq!(*receiver.borrow_and_update(), PodState::Gone);
        // Of another pod, or of none.
        assert_eq!(watched.heard(pod.replace(r#""a""#, r#""b""#).as_bytes(), false, "7".to_owned()), "7");
        assert_eq!(watched.heard(b"?", false, "7".to_owned()), "7");
    }
}
