//! The states of restored pods, as far as commands that are to run in them wait for these: one watch for each namespace,
//! however many pods it has.

use crate::env::Env;
use crate::lock::lock;
use lifeboat_cluster::{ClusterError, ListRequest, WatchEvent, WatchRequest};
use lifeboat_object::ApiResource;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
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
    pods: Mutex<HashMap<String, Followed>>,
    /// Set when nothing keeps the states up to date any more.
    is_dead: AtomicBool,
}

/// A pod that is waited for.
struct Followed {
    uid: String,
    /// Whether something was heard of it since it is waited for. What is heard of another one of its name before that may be
    /// the end of the one that was there before it.
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
        let (watched, is_new) = {
            let mut namespaces = lock(&self.namespaces);
            let is_new = namespaces.get(namespace).is_none_or(|watched| watched.is_dead.load(Ordering::Acquire));
            if is_new {
                namespaces.insert(namespace.to_owned(), Arc::default());
            }
            (Arc::clone(namespaces.entry(namespace.to_owned()).or_default()), is_new)
        };
        let receiver = watched.follow(&pod);
        if is_new {
            let (env, namespace) = (self.env.clone(), namespace.to_owned());
            let keeper = Keeper(watched);
            lock(&self.tasks).spawn(async move { keeper.0.keep(&namespace, &env).await });
        }
        receiver
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
struct Keeper(Arc<Watched>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.is_dead.store(true, Ordering::Release);
        lock(&self.0.pods).clear();
    }
}

fn pods() -> ApiResource {
    ApiResource { namespaced: true, ..ApiResource::new("", "v1", "pods", "Pod") }
}

impl Watched {
    fn follow(&self, pod: &Pod) -> watch::Receiver<PodState> {
        let Metadata { name, uid, .. } = &pod.metadata;
        let mut pods = lock(&self.pods);
        if let Some(followed) = pods.get(name).filter(|followed| followed.uid == *uid) {
            return followed.state.subscribe();
        }
        let (state, receiver) = watch::channel(pod.state());
        pods.insert(name.clone(), Followed { uid: uid.clone(), is_heard: false, state });
        receiver
    }

    /// Takes in what was read of a pod, unless the watch knows better.
    fn read(&self, name: &str, body: Option<&[u8]>) {
        let is_heard = lock(&self.pods).get(name).is_none_or(|followed| followed.is_heard);
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
                selector: String::new(),
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
        let is_there = |followed: &Followed| matches!(*followed.state.borrow(), PodState::There { .. });
        let there = pods.iter().filter(|(_, followed)| is_there(followed));
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
        let is_told = lock(&self.pods).get_mut(&pod.metadata.name).is_some_and(|followed| {
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
        if let Some(followed) = lock(&self.pods).get(name) {
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
    status: Status,
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

    fn body(uid: &str, revision: &str, status: &Value) -> Vec<u8> {
        let metadata = json!({"name": "a", "uid": uid, "resourceVersion": revision});
        json!({"metadata": metadata, "status": status}).to_string().into_bytes()
    }

    #[test]
    fn those_that_wait_for_a_pod_are_told_of_it() {
        let watched = Watched::default();
        let pod = body("u", "7", &json!({}));
        let mut receiver = watched.follow(&serde_json::from_slice(&pod).unwrap());
        assert_eq!(*receiver.borrow_and_update(), there(&[], false), "as it was when it was made");
        assert_eq!(watched.heard(&pod, false, "6".to_owned()), "7");
        assert!(!receiver.has_changed().unwrap());
        watched.tell(&body("u", "8", &json!({"phase": "Failed"})), false);
        assert_eq!(*receiver.borrow_and_update(), there(&[], true));
        watched.tell(&pod, true);
        assert_eq!(*receiver.borrow_and_update(), PodState::Gone);
        // Of another pod, or of none.
        let other = String::from_utf8(pod).unwrap().replace(r#""a""#, r#""b""#);
        assert_eq!(watched.heard(other.as_bytes(), false, "7".to_owned()), "7");
        assert_eq!(watched.heard(b"?", false, "7".to_owned()), "7");
    }

    #[test]
    fn what_is_heard_late_of_the_pod_before_is_not_taken_for_its_successor() {
        let watched = Watched::default();
        let mut receiver = watched.follow(&serde_json::from_slice(&body("new", "9", &json!({}))).unwrap());
        let before = receiver.borrow_and_update().clone();
        watched.tell(&body("old", "5", &json!({"phase": "Failed"})), false);
        watched.tell(&body("old", "6", &json!({})), true);
        assert_eq!(*receiver.borrow_and_update(), before);
        // Once it was itself heard of, another one of its name is another one.
        watched.tell(&body("new", "9", &json!({})), false);
        watched.tell(&body("next", "12", &json!({})), false);
        let PodState::There { uid, .. } = receiver.borrow_and_update().clone() else { panic!() };
        assert_eq!(uid, "next");
    }

    #[test]
    fn a_pod_that_rests_is_read_unless_the_watch_knows_better() {
        let watched = Watched::default();
        let up =
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}]});
        let mut receiver = watched.follow(&serde_json::from_slice(&body("u", "1", &json!({}))).unwrap());
        watched.read("a", Some(&body("u", "3", &up)));
        assert_eq!(*receiver.borrow_and_update(), there(&[("c", true, true)], false));
        watched.tell(&body("u", "4", &json!({"phase": "Failed"})), false);
        watched.read("a", Some(&body("u", "3", &up)));
        watched.read("a", None);
        assert_eq!(*receiver.borrow_and_update(), there(&[], true));

        let mut receiver = watched.follow(&serde_json::from_slice(&body("v", "5", &json!({}))).unwrap());
        watched.read("a", None);
        assert_eq!(*receiver.borrow_and_update(), PodState::Gone);
    }

    #[tokio::test]
    async fn who_waits_is_told_when_nothing_is_watched_any_more() {
        let keeper = Keeper(Arc::default());
        let mut receiver = keeper.0.follow(&serde_json::from_slice(&body("u", "1", &json!({}))).unwrap());
        drop(keeper);
        assert!(receiver.changed().await.is_err());
    }
}
