//! Makes the reader pods of a backup, waits until they run, and removes them.
//!
//! A pod has a name that follows from the backup and the claim, so that an attempt after this one takes it up. It is removed when its
//! volume has ended, when the backup ends, and by [`remove_readers`] where a server before was killed. It belongs to its claim, and ends
//! by itself, whatever happens.

use crate::facts::Claim;
use crate::method::fs_backup::place::{PlaceWait, is_about_room};
use crate::method::fs_backup::reader_pod::{ReaderPod, ReaderState, reader_pod_name};
use crate::method::fs_backup::saved_volume::SavedPod;
use crate::method::fs_backup::settings::FileBackupSettings;
use crate::method::lock::lock;
use crate::method::mover_pod::{has_ended, pods};
use crate::method::server_image::find_server_image;
use lifeboat_api::well_known::{LABEL_BACKUP_UID, LABEL_READER_OF_BACKUP, NODE_AGENT};
use lifeboat_api::{Backup, NamespacedName};
use lifeboat_cluster::{Access, AccessRequest, Cluster, ClusterError, ListRequest, WriteBody};
use lifeboat_object::{ApiResource, ResultScope};
use lifeboat_operation::Operation;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

/// Reader pods at once.
const AT_ONCE: usize = 8;
/// The most further pods that wait for room on a node.
const WAITING_AT_ONCE: usize = 32;
/// The pauses between two looks at a pod: the first, which doubles, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// The time for which a reader pod outlives the limits of its backup: a volume of which bytes are moved is waited for longer.
const SPARE: Duration = Duration::from_secs(24 * 3600);
/// The words of the cluster that an error has at most, in characters.
const MOST_CHARACTERS: usize = 1000;

/// The facts of the cluster that all reader pods of a backup need.
#[derive(Debug, Default)]
struct ReaderFacts {
    image: String,
    tolerations: Value,
}

/// The right to make reader pods in a namespace, or the refusal; all claims of the namespace wait for it.
type PreparedNamespace = Arc<OnceCell<Option<String>>>;

/// The reader pods of one backup.
pub(super) struct Readers {
    cluster: Cluster,
    operation: Operation,
    settings: FileBackupSettings,
    places: Semaphore,
    /// Places of pods for which no node has room.
    waiting: Semaphore,
    facts: OnceCell<ReaderFacts>,
    /// The outcomes of [`Readers::prepare_namespace`].
    prepared_namespaces: Mutex<BTreeMap<String, PreparedNamespace>>,
    /// The claims whose pods may be there.
    made: Mutex<BTreeSet<NamespacedName>>,
    outcomes: Mutex<Outcomes>,
}

/// The outcomes of the reader pods of a backup so far.
#[derive(Debug, Default)]
struct Outcomes {
    has_run: bool,
    /// The reason of the first one that did not run in time.
    late: Option<String>,
}

impl Readers {
    pub(super) fn new(cluster: &Cluster, operation: &Operation, settings: &FileBackupSettings) -> Self {
        Self {
            cluster: cluster.clone(),
            operation: operation.clone(),
            settings: settings.clone(),
            places: Semaphore::new(AT_ONCE),
            waiting: Semaphore::new(WAITING_AT_ONCE),
            facts: OnceCell::new(),
            prepared_namespaces: Mutex::default(),
            made: Mutex::default(),
            outcomes: Mutex::default(),
        }
    }

    /// A place for one more pod, which is waited for.
    pub(super) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// The pod of a claim, which runs: made, or taken up from an earlier attempt. `place` is that of the pod; it becomes another one
    /// while no node has room.
    ///
    /// # Errors
    /// The reason for people, with the words of the cluster.
    pub(super) async fn running<'a>(
        &'a self,
        claim: &Claim,
        place: &mut SemaphorePermit<'a>,
    ) -> Result<SavedPod, String> {
        let facts = self.facts.get_or_try_init(|| self.look()).await?;
        self.prepare_namespace(&claim.key.namespace).await?;
        self.give_up_all()?;
        let pod = ReaderPod {
            backup: &self.settings.backup,
            claim,
            image: &facts.image,
            tolerations: &facts.tolerations,
            lifetime: self.settings.whole + self.settings.resource_timeout + SPARE,
        };
        lock(&self.made).insert(claim.key.clone());
        let name = reader_pod_name(&self.settings.backup, &claim.key);
        let uid = self.make(pod, &name).await?;
        self.wait(&claim.key.beside(&name), &uid, place).await
    }

    /// Checks once per namespace that reader pods may be deleted, and removes ended ones of other backups.
    async fn prepare_namespace(&self, namespace: &str) -> Result<(), String> {
        let prepared = Arc::clone(lock(&self.prepared_namespaces).entry(namespace.to_owned()).or_default());
        match prepared.get_or_try_init(|| self.look_at_namespace(namespace)).await? {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(()),
        }
    }

    /// The refusal for a namespace, if any; the error is that it is not known, which the next claim asks again.
    async fn look_at_namespace(&self, namespace: &str) -> Result<Option<String>, String> {
        let refusal = self.check_may_delete_pods(namespace).await?;
        if refusal.is_none()
            && let Err(e) = self.remove_ended(namespace).await
        {
            let fields = [("namespace", namespace), ("error", &e.to_string())];
            self.operation.journal.info("Reader pods of earlier backups cannot be looked for", &fields);
        }
        Ok(refusal)
    }

    /// Makes sure that a pod is not made which nobody may remove: installations of older versions may lack the right. Gives the
    /// refusal, if any.
    async fn check_may_delete_pods(&self, namespace: &str) -> Result<Option<String>, String> {
        let request = AccessRequest { verb: "delete", group: "", resource: "pods", namespace };
        let access = self.cluster.access(request).await;
        let access = access.map_err(|e| format!("ask whether reader pods may be deleted in {namespace}: {e}"))?;
        let Access::Denied(why) = access else { return Ok(None) };
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        Ok(Some(format!(
            "no reader pod is made for the claim, because the server may not delete pods in {namespace}{why}, and it would stay: install the \
             rights of this version (`install`)"
        )))
    }

    /// Fails once a pod was waited for to no avail while no other has run: each of those that follow would take as long.
    fn give_up_all(&self) -> Result<(), String> {
        let outcomes = lock(&self.outcomes);
        let Some(why) = outcomes.late.as_ref().filter(|_| !outcomes.has_run) else { return Ok(()) };
        Err(format!("no reader pod is made for the claim, because none of this backup has run so far: {why}"))
    }

    /// Reads the image of the server where it is not known, and the tolerations of the node agents.
    async fn look(&self) -> Result<ReaderFacts, String> {
        let mut image = self.settings.image.clone();
        if image.is_empty() {
            image = find_server_image(&self.cluster, &self.settings.backup.metadata.namespace).await;
        }
        if image.is_empty() {
            return Err(format!(
                "no reader pod can be made for the claim: the image of the server is not known, because neither its pod nor its Deployment \
                 velero can be read in {}",
                self.settings.backup.metadata.namespace
            ));
        }
        let daemon_sets = ApiResource::new("apps", "v1", "daemonsets", "DaemonSet");
        let agents = self.cluster.get(&daemon_sets, Some(&self.settings.backup.metadata.namespace), NODE_AGENT).await;
        let agents: Value =
            agents.ok().flatten().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        let tolerations = agents.pointer("/spec/template/spec/tolerations").cloned().unwrap_or_default();
        Ok(ReaderFacts { image, tolerations })
    }

    /// Makes the pod; one of its name that cannot be taken up goes before. Gives its UID.
    async fn make(&self, pod: ReaderPod<'_>, name: &str) -> Result<String, String> {
        let (object, namespace) = (pod.object(), pod.claim.key.namespace.as_str());
        let (deadline, [mut pause, longest]) = (Instant::now() + self.settings.resource_timeout, PAUSES);
        let failed = |e: &ClusterError| format!("make the reader pod {namespace}/{name} for the claim: {e}");
        loop {
            (self.operation.fence)()?;
            match self.cluster.create(&pods(), Some(namespace), name, WriteBody::of(object.to_string().into())).await {
                Ok(made) => return Ok(uid_of(&serde_json::from_slice(&made).unwrap_or_default())),
                Err(e) if e.is_already_exists() => {}
                Err(e) => return Err(failed(&e)),
            }
            let found = self.cluster.get(&pods(), Some(namespace), name).await.map_err(|e| failed(&e))?;
            if let Some(found) = found.and_then(|body| serde_json::from_slice::<Value>(&body).ok()) {
                if pod.is_this(&found) {
                    return Ok(uid_of(&found));
                }
                let deleted = self.cluster.delete_exactly(&pods(), Some(namespace), name, &uid_of(&found)).await;
                deleted.map_err(|e| failed(&e))?;
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the reader pod {namespace}/{name} of an earlier attempt does not go away: look at its node"
                ));
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Waits until the pod runs. Nodes that are full are waited for longer, and meanwhile others have its place: their nodes may have room.
    async fn wait<'a>(
        &'a self,
        pod: &NamespacedName,
        uid: &str,
        place: &mut SemaphorePermit<'a>,
    ) -> Result<SavedPod, String> {
        let NamespacedName { namespace, name } = pod;
        let (begun, [mut pause, longest]) = (Instant::now(), PAUSES);
        let mut wait = PlaceWait::new(self.settings.resource_timeout);
        let (mut why, mut has_waiting_place) = (String::new(), false);
        loop {
            match self.cluster.get(&pods(), Some(namespace), name).await {
                Ok(found) => {
                    let pod = found.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
                    match (ReaderState::of(pod.as_ref(), uid), pod) {
                        (ReaderState::Running, Some(pod)) => {
                            lock(&self.outcomes).has_run = true;
                            return SavedPod::of(&pod);
                        }
                        (ReaderState::Lost(why), _) => {
                            return Err(format!("the reader pod {namespace}/{name} does not hold the volume: {why}"));
                        }
                        (ReaderState::Starting(waits), _) => {
                            if wait.look(begun.elapsed(), is_about_room(&waits)) {
                                let fields = [("pod", &*format!("{namespace}/{name}")), ("scheduler", &waits)];
                                self.operation.journal.info("No node has room for a reader pod", &fields);
                            }
                            if !has_waiting_place
                                && is_about_room(&waits)
                                && let Ok(waiting) = self.waiting.try_acquire()
                            {
                                (*place, has_waiting_place) = (waiting, true);
                            }
                            why = waits;
                        }
                        (ReaderState::Running, None) => {}
                    }
                }
                Err(e) if e.can_pass() => why = e.to_string(),
                Err(e) => return Err(format!("look at the reader pod {namespace}/{name}: {e}")),
            }
            if wait.is_over(begun.elapsed() + pause) {
                let words = self.words_about(namespace, uid, &why).await;
                let limit = wait.limit_words("--resource-timeout");
                let why = format!("the reader pod {namespace}/{name} does not run after {limit}: {words}");
                lock(&self.outcomes).late.get_or_insert_with(|| why.clone());
                return Err(why);
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// The reason for which a pod does not run: what its status says, and the newest of the cluster's events about it.
    async fn words_about(&self, namespace: &str, uid: &str, why: &str) -> String {
        let event = self.newest_warning(namespace, uid).await;
        let words: Vec<&str> = [why, &event].into_iter().filter(|words| !words.is_empty()).collect();
        let words = if words.is_empty() { "the cluster says nothing about it".to_owned() } else { words.join("; ") };
        words.chars().take(MOST_CHARACTERS).collect()
    }

    /// The newest warning among the events about a pod; empty for none, and where they cannot be read.
    async fn newest_warning(&self, namespace: &str, uid: &str) -> String {
        let events = ApiResource::new("", "v1", "events", "Event");
        let request = ListRequest::all(events).in_namespace(namespace.to_owned());
        let mut list = self.cluster.list(request).with_fields(format!("involvedObject.uid={uid}"));
        let mut newest = (String::new(), String::new());
        while let Ok(Some(bodies)) = list.next().await {
            let read = bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok());
            for event in read.filter(|event| event["type"] == "Warning" && event["involvedObject"]["uid"] == uid) {
                let text = |field: &str| event[field].as_str().unwrap_or_default();
                let time = event["lastTimestamp"].as_str().or(event["eventTime"].as_str()).unwrap_or_default();
                if time >= newest.0.as_str() {
                    newest = (time.to_owned(), format!("{}: {}", text("reason"), text("message")));
                }
            }
        }
        newest.1
    }

    /// Removes the pod of a claim. That it cannot be removed is a warning, and tried again at the end of the backup.
    pub(super) async fn remove(&self, claim: &NamespacedName) {
        let (namespace, name) = (claim.namespace.as_str(), reader_pod_name(&self.settings.backup, claim));
        if !lock(&self.made).contains(claim) {
            return;
        }
        match self.cluster.delete(&pods(), Some(namespace), &name).await {
            Ok(_) => drop(lock(&self.made).remove(claim)),
            Err(e) => {
                let text = format!("the reader pod {namespace}/{name} could not be deleted ({e}): delete it");
                self.operation.journal.warn(&ResultScope::Namespace(namespace.to_owned()), text);
            }
        }
    }

    /// Removes all pods that may be there.
    pub(super) async fn remove_all(&self) {
        let left: Vec<NamespacedName> = lock(&self.made).iter().cloned().collect();
        for claim in &left {
            self.remove(claim).await;
        }
    }

    /// Removes the reader pods of other backups in a namespace that have ended: nobody else does so of backups that are gone. Those of
    /// this backup go with it, after their waits have read why they ended.
    async fn remove_ended(&self, namespace: &str) -> Result<(), ClusterError> {
        let of_others = format!("{LABEL_READER_OF_BACKUP},{LABEL_BACKUP_UID}!={}", self.settings.backup.metadata.uid);
        let request = ListRequest::all(pods()).in_namespace(namespace.to_owned()).labelled(of_others);
        remove(request, has_ended, &self.cluster).await
    }
}

/// Removes the reader pods that attempts at a backup have left.
///
/// # Errors
/// [`ClusterError`]: some may be left.
pub async fn remove_readers(backup: &Backup, cluster: &Cluster) -> Result<(), ClusterError> {
    let selector = format!("{LABEL_BACKUP_UID}={},{LABEL_READER_OF_BACKUP}", backup.metadata.uid);
    remove(ListRequest::all(pods()).labelled(selector).metadata_only(), |_| true, cluster).await
}

/// Removes the pods of a list that are to go.
async fn remove(request: ListRequest, goes: fn(&Value) -> bool, cluster: &Cluster) -> Result<(), ClusterError> {
    let resource = Arc::clone(&request.resource);
    let mut list = cluster.list(request);
    while let Some(bodies) = list.next().await? {
        let found = bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok());
        for pod in found.filter(goes) {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            cluster.delete_exactly(&resource, Some(text("namespace")), text("name"), text("uid")).await?;
        }
    }
    Ok(())
}

fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}
