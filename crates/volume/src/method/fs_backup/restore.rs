//! Fills the volumes of restored pods with their files, beside the restore of what follows
//! (velero: pkg/podvolume/restorer.go).
//!
//! Each pod has a task that makes its PodVolumeRestores and sees to it that a node agent runs on its node. One task follows all
//! PodVolumeRestores of the restore with one list. What a run that was cut off has made is found by its name.

use crate::facts::is_ephemeral;
use crate::method::child::list;
use crate::method::definition::Definitions;
use crate::method::fs_backup::outcome::{ClaimsFilled, FileEnd, FileOutcome};
use crate::method::fs_backup::place::{PlaceWait, is_about_room};
use crate::method::fs_backup::progress::{IDLE, VolumeProgress, WaitLimits, WaitProgress, said};
use crate::method::fs_backup::repository::{KnownRepositories, NeededRepository};
use crate::method::fs_backup::resource::{ToFill, make, pod_volume_restore, restored_volume_name};
use crate::method::fs_backup::scheduled::{PodPlace, missing_agent};
use crate::method::lock::lock;
use crate::method::mover_pod::pods;
use crate::restore_plan::FileVolume;
use lifeboat_api::well_known::{ANNOTATION_AWAITS_FILES, LABEL_RESTORE_UID};
use lifeboat_api::{DataPathPhase, PodVolumeRestore, PodVolumeRestoreStatus, Restore};
use lifeboat_cluster::{Cluster, ClusterError, MergePatch};
use lifeboat_object::{ApiResource, ResultScope};
use lifeboat_operation::Operation;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The first pause between two looks, and after each change; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest between two looks at a pod that has no node yet.
const LONGEST_POD_PAUSE: Duration = Duration::from_secs(5);
/// Pods whose resources are made at once.
const AT_ONCE: usize = 16;
/// The message of a wait that was too long.
const LATE: &str = "timed out waiting for all PodVolumeRestores to complete";
/// The consequence for a pod whose files did not come, and the next step.
const THEN: &str = "the pod waits in its init container restore-wait; when the reason is gone, delete the pod and make another Restore";

/// The restore that volumes are filled for, and its limits.
#[derive(Clone, Debug)]
pub struct FileRestoreSettings {
    /// The restore.
    pub restore: Arc<Restore>,
    /// The storage location of its backup.
    pub location: String,
    /// Longest time for all volumes, unless bytes of them are moved.
    pub whole: Duration,
    /// Longest wait for a repository, and for a pod to have a node with a node agent.
    pub resource_timeout: Duration,
}

/// A pod that the restore has made.
#[derive(Clone, Copy, Debug)]
pub struct RestoredPod<'a> {
    /// The pod, as the cluster has it.
    pub in_cluster: &'a Value,
    /// Its namespace in the backup.
    pub source_namespace: &'a str,
    /// The volumes to fill through it.
    pub volumes: &'a [FileVolume],
}

/// Fills the volumes of the pods of one restore. The tasks end with this value.
pub struct FileRestores {
    run: Arc<FileRun>,
    pods: Mutex<JoinSet<()>>,
    follower: Mutex<JoinSet<()>>,
}

/// Shared context of all tasks.
struct FileRun {
    cluster: Cluster,
    operation: Operation,
    settings: FileRestoreSettings,
    /// By the names of their resources.
    volumes: Mutex<BTreeMap<String, FollowedVolume>>,
    repositories: KnownRepositories,
    definitions: Definitions,
    places: Semaphore,
    /// Set when no more pods come.
    closed: CancellationToken,
    /// Set when the restore breaks off.
    given_up: CancellationToken,
}

/// A volume that is filled.
#[derive(Clone)]
struct FollowedVolume {
    pod: Arc<FollowedPod>,
    volume: FileVolume,
    /// True when its resource is in the cluster.
    is_made: bool,
    end: Option<FileEnd>,
}

/// A pod whose volumes are filled.
struct FollowedPod {
    source_namespace: String,
    namespace: String,
    name: String,
    uid: String,
    in_cluster: Value,
}

impl FileRestores {
    /// Begins for a restore that has made no pods.
    #[must_use]
    pub fn new(cluster: &Cluster, operation: &Operation, settings: FileRestoreSettings) -> Self {
        let run = FileRun {
            cluster: cluster.clone(),
            operation: operation.clone(),
            settings,
            volumes: Mutex::default(),
            repositories: KnownRepositories::default(),
            definitions: Definitions::default(),
            places: Semaphore::new(AT_ONCE),
            closed: CancellationToken::new(),
            given_up: CancellationToken::new(),
        };
        Self { run: Arc::new(run), pods: Mutex::default(), follower: Mutex::default() }
    }

    /// Begins to fill volumes of a pod. Of a pod that an earlier run has made, what that has begun goes on.
    pub fn begin(&self, pod: RestoredPod<'_>) {
        let text = |field: &str| pod.in_cluster["metadata"][field].as_str().unwrap_or_default().to_owned();
        let followed = Arc::new(FollowedPod {
            source_namespace: pod.source_namespace.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            in_cluster: pod.in_cluster.clone(),
        });
        let restore = &self.run.settings.restore;
        let mut names = Vec::new();
        {
            let mut volumes = lock(&self.run.volumes);
            for volume in pod.volumes {
                let name = restored_volume_name(restore, &followed.namespace, &followed.name, &volume.volume);
                let new =
                    FollowedVolume { pod: Arc::clone(&followed), volume: volume.clone(), is_made: false, end: None };
                if volumes.get(&name).is_none_or(|known| known.pod.uid != followed.uid) {
                    volumes.insert(name.clone(), new);
                    names.push(name);
                }
            }
        }
        if names.is_empty() {
            return;
        }
        let run = Arc::clone(&self.run);
        lock(&self.pods).spawn(async move { run.pod(&followed, &names).await });
        let mut follower = lock(&self.follower);
        if follower.is_empty() {
            let run = Arc::clone(&self.run);
            follower.spawn(async move { run.follow().await });
        }
    }

    /// The state of the claims that are filled through a pod of the cluster; `None` for a pod of which nothing is filled.
    #[must_use]
    pub fn claims_through(&self, namespace: &str, pod: &str) -> Option<ClaimsFilled> {
        let volumes = lock(&self.run.volumes);
        let is_of = |one: &&FollowedVolume| one.pod.namespace == namespace && one.pod.name == pod;
        let mut ends = volumes.values().filter(is_of).filter(|one| one.volume.claim.is_some()).map(|one| &one.end);
        let mut state = None;
        ends.find_map(|end| match end {
            None => {
                state = Some(ClaimsFilled::NotYet);
                None
            }
            Some(FileEnd::Restored { .. }) => {
                state.get_or_insert(ClaimsFilled::Yes);
                None
            }
            Some(FileEnd::Failed(why)) => Some(ClaimsFilled::No(why.clone())),
        })
        .or(state)
    }

    /// Waits until all volumes are filled, or will not be, and gives the outcomes. Errors are in the journal.
    pub async fn end(&self) -> Vec<FileOutcome> {
        let open = self.run.open().len();
        if open > 0 {
            let fields = [("volumes", &*open.to_string())];
            self.run.operation.journal.info("Waiting for the files of volumes", &fields);
        }
        let mut pods = std::mem::take(&mut *lock(&self.pods));
        self.run.ended(&mut pods).await;
        self.run.closed.cancel();
        let mut follower = std::mem::take(&mut *lock(&self.follower));
        self.run.ended(&mut follower).await;
        self.run.outcomes()
    }

    /// Stops to wait, when a restore breaks off. What moves goes on, and a run again finds it.
    pub async fn break_off(&self) -> Vec<FileOutcome> {
        self.run.given_up.cancel();
        let (mut pods, mut follower) =
            (std::mem::take(&mut *lock(&self.pods)), std::mem::take(&mut *lock(&self.follower)));
        pods.shutdown().await;
        follower.shutdown().await;
        self.run.outcomes()
    }
}

impl FileRun {
    async fn ended(&self, tasks: &mut JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if ended.is_err_and(|e| e.is_panic()) {
                let text =
                    "a task that restores the files of volumes died: look at the PodVolumeRestores of this restore";
                self.operation.journal.error(&ResultScope::Velero, text);
            }
        }
    }

    /// Makes the resources of a pod, and sees to its node.
    async fn pod(&self, pod: &FollowedPod, names: &[String]) {
        let work = async {
            if let Ok(_place) = self.places.acquire().await {
                self.make_all(pod, names).await;
            }
            if let Err(why) = self.placed(pod, names).await {
                names.iter().for_each(|name| self.fail(name, &why));
            }
        };
        tokio::select! {
            biased;
            () = self.operation.cancel.cancelled() => {}
            () = self.given_up.cancelled() => {}
            () = work => {}
        }
    }

    async fn make_all(&self, pod: &FollowedPod, names: &[String]) {
        if let Err(why) = self.repository(&pod.source_namespace).await {
            names.iter().for_each(|name| self.fail(name, &why));
            return;
        }
        for name in names {
            let Some(FollowedVolume { volume, .. }) = lock(&self.volumes).get(name).cloned() else { continue };
            match self.make(pod, &volume).await {
                Ok(()) => {
                    if let Some(one) = lock(&self.volumes).get_mut(name) {
                        one.is_made = true;
                    }
                }
                Err(why) => self.fail(name, &why),
            }
        }
    }

    /// Makes sure of the repository of a namespace of the backup, once for all pods.
    async fn repository(&self, volume_namespace: &str) -> Result<(), String> {
        let FileRestoreSettings { restore, location, resource_timeout, .. } = &self.settings;
        let needed = NeededRepository { namespace: &restore.metadata.namespace, volume_namespace, location };
        self.repositories.ensure(needed, *resource_timeout, &self.cluster).await
    }

    async fn make(&self, pod: &FollowedPod, volume: &FileVolume) -> Result<(), String> {
        let mut claim_uid = String::new();
        if let Some(claim) = &volume.claim {
            let claims = ApiResource::persistent_volume_claims();
            match self.cluster.get_existing(&claims, Some(&pod.namespace), claim).await {
                Ok(body) => {
                    let found: Value = serde_json::from_slice(&body).unwrap_or_default();
                    found["metadata"]["uid"].as_str().unwrap_or_default().clone_into(&mut claim_uid);
                }
                // Kubernetes makes it for the pod.
                Err(e) if e.is_not_found() && has_ephemeral(&pod.in_cluster, &volume.volume) => {}
                Err(e) => return Err(format!("error getting persistent volume claim for volume: {e}")),
            }
        }
        let FileRestoreSettings { restore, location, .. } = &self.settings;
        let source_namespace = &pod.source_namespace;
        let fill = ToFill { pod: &pod.in_cluster, volume, claim_uid: &claim_uid, source_namespace, location };
        (self.operation.fence)()?;
        make(&self.cluster, &self.definitions, &pod_volume_restore(restore, fill)).await.map(drop)
    }

    /// Waits until the pod is on a node where a node agent runs. Nodes that are full are waited for longer.
    async fn placed(&self, pod: &FollowedPod, names: &[String]) -> Result<(), String> {
        let namespace = &self.settings.restore.metadata.namespace;
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        let mut place = PlaceWait::new(self.settings.resource_timeout);
        loop {
            if names.iter().all(|name| self.has_ended(name)) {
                return Ok(());
            }
            let look = async {
                let body = self.cluster.get(&pods(), Some(&pod.namespace), &pod.name).await?;
                let found = body.map(|body| serde_json::from_slice::<Value>(&body).unwrap_or_default());
                Ok::<_, ClusterError>(match PodPlace::of(found.as_ref(), &pod.uid) {
                    PodPlace::Gone => Err("the pod was deleted".to_owned()),
                    PodPlace::Unscheduled(why) => Ok(Some(format!("the pod has no node: {why}"))),
                    PodPlace::OnNode(node) => {
                        let missing = missing_agent(&self.cluster, namespace, &node).await?;
                        Ok(missing.map(|why| format!("node-agent pod is not running in node {node}: {why}")))
                    }
                })
            };
            let why = match look.await {
                Ok(Ok(None)) => return Ok(()),
                Ok(Ok(Some(why))) => {
                    if place.look(begun.elapsed(), is_about_room(&why)) {
                        let fields = [("pod", &*format!("{}/{}", pod.namespace, pod.name)), ("why", &why)];
                        self.operation
                            .journal
                            .info("No node has room for a pod whose volumes are to be filled", &fields);
                    }
                    why
                }
                Ok(Err(gone)) => return Err(gone),
                Err(e) => e.to_string(),
            };
            if place.is_over(begun.elapsed() + pause) {
                let limit = place.limit_words("--resource-timeout of the server");
                return Err(format!("{why}; gave up after {limit}"));
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_POD_PAUSE);
        }
    }

    /// Follows all resources until no volume is open any more.
    async fn follow(&self) {
        let (began, mut progress, mut pause) = (Instant::now(), WaitProgress::default(), FIRST_PAUSE);
        let limits = WaitLimits { whole: self.settings.whole, idle: IDLE, late: LATE };
        let mut before = BTreeMap::new();
        loop {
            let open = self.open();
            if open.is_empty() && self.closed.is_cancelled() {
                return;
            }
            if !open.is_empty() {
                let states = self.look(&open).await;
                if states != before {
                    pause = FIRST_PAUSE;
                }
                before.clone_from(&states);
                let given_up = progress.look(began.elapsed(), states, limits);
                if !given_up.is_empty() {
                    given_up.iter().for_each(|(name, why)| self.fail(name, why));
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = self.operation.cancel.cancelled() => return,
                () = self.given_up.cancelled() => return,
                () = self.closed.cancelled(), if open.is_empty() => {}
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Looks at the resources of these volumes. Gives the progress of those that go on.
    async fn look(&self, open: &BTreeMap<String, bool>) -> BTreeMap<String, VolumeProgress> {
        let unmade = || open.keys().map(|name| (name.clone(), VolumeProgress::default()));
        let found = match self.list().await {
            Ok(found) => found,
            // The limits of the wait hold.
            Err(e) if e.can_pass() => return unmade().collect(),
            Err(e) => {
                open.keys().for_each(|name| self.fail(name, &e.to_string()));
                return BTreeMap::new();
            }
        };
        let mut states = BTreeMap::new();
        for (name, is_made) in open {
            // What an earlier run has made counts when this one has seen that it is for the same pod.
            let status = found.get(name).filter(|_| *is_made).map(|one| &one.status);
            match (status, status.and_then(|status| status.phase)) {
                (Some(status), Some(DataPathPhase::Completed)) => {
                    self.unmark(name).await;
                    self.restored(name, status);
                }
                (Some(status), Some(DataPathPhase::Failed)) => {
                    self.fail(name, &format!("pod volume restore failed: {}", said(&status.message)));
                }
                (Some(status), Some(DataPathPhase::Canceled)) => {
                    self.fail(name, &format!("pod volume restore canceled: {}", said(&status.message)));
                }
                (None, _) if *is_made => self.fail(name, &format!("its PodVolumeRestore {name} was deleted")),
                _ => {
                    let progress = found
                        .get(name)
                        .map(|one| {
                            let status = &one.status;
                            let annotations = &one.metadata.annotations;
                            VolumeProgress::of(status.phase, &status.progress, &status.message, annotations)
                        })
                        .unwrap_or_default();
                    states.insert(name.clone(), progress);
                }
            }
        }
        states
    }

    /// All PodVolumeRestores of the restore, by name.
    async fn list(&self) -> Result<HashMap<String, PodVolumeRestore>, ClusterError> {
        let metadata = &self.settings.restore.metadata;
        let found = list(&self.cluster, &metadata.namespace, format!("{LABEL_RESTORE_UID}={}", metadata.uid)).await?;
        Ok(found.into_iter().map(|one: PodVolumeRestore| (one.metadata.name.clone(), one)).collect())
    }

    /// The volumes that have not ended, and whether their resources are made.
    fn open(&self) -> BTreeMap<String, bool> {
        let volumes = lock(&self.volumes);
        let open = volumes.iter().filter(|(_, one)| one.end.is_none());
        open.map(|(name, one)| (name.clone(), one.is_made)).collect()
    }

    fn has_ended(&self, name: &str) -> bool {
        lock(&self.volumes).get(name).is_none_or(|one| one.end.is_some())
    }

    fn restored(&self, name: &str, status: &PodVolumeRestoreStatus) {
        let bytes = status.progress.total_bytes;
        if let Some(FollowedVolume { pod, volume, .. }) = self.set(name, FileEnd::Restored { bytes }) {
            let (pod, namespace) = (format!("{}/{}", pod.namespace, pod.name), pod.namespace.clone());
            let fields = [("pod", &*pod), ("volume", &volume.volume), ("bytes", &bytes.to_string())];
            self.operation.journal.info("Restored the files of a volume", &fields);
            if !status.message.is_empty() {
                let text = format!("pod {pod}, volume {}: {}", volume.volume, status.message);
                self.operation.journal.warn(&ResultScope::Namespace(namespace), text);
            }
        }
    }

    /// Takes the mark off the claim of a volume that has its files now: later restores leave it alone.
    async fn unmark(&self, name: &str) {
        let Some(FollowedVolume { pod, volume, .. }) = lock(&self.volumes).get(name).cloned() else { return };
        let Some(claim) = &volume.claim else { return };
        let claims = ApiResource::persistent_volume_claims();
        let body = json!({"metadata": {"annotations": {ANNOTATION_AWAITS_FILES: null}}}).to_string();
        match self.cluster.patch(&claims, Some(&pod.namespace), claim, MergePatch::of(body.into())).await {
            Err(e) if !e.is_not_found() => {
                let text = format!(
                    "the claim {}/{claim} has its files, and its annotation {ANNOTATION_AWAITS_FILES} could not be removed: {e}; remove it, \
                     because another restore would write over the claim",
                    pod.namespace
                );
                self.operation.journal.warn(&ResultScope::Namespace(pod.namespace.clone()), text);
            }
            _ => {}
        }
    }

    fn fail(&self, name: &str, why: &str) {
        if let Some(FollowedVolume { pod, volume, .. }) = self.set(name, FileEnd::Failed(why.to_owned())) {
            let marked = match &volume.claim {
                Some(claim) => format!(
                    "; as long as the claim {claim} has the annotation {ANNOTATION_AWAITS_FILES}, another restore fills it: remove that where \
                     the claim is to keep what it holds"
                ),
                None => String::new(),
            };
            let text = format!("pod {}/{}, volume {}: {why}; {THEN}{marked}", pod.namespace, pod.name, volume.volume);
            self.operation.journal.error(&ResultScope::Namespace(pod.namespace.clone()), text);
        }
    }

    /// Notes the end of a volume that has not ended, and gives the volume.
    fn set(&self, name: &str, end: FileEnd) -> Option<FollowedVolume> {
        let mut volumes = lock(&self.volumes);
        let one = volumes.get_mut(name).filter(|one| one.end.is_none())?;
        one.end = Some(end);
        Some(one.clone())
    }

    fn outcomes(&self) -> Vec<FileOutcome> {
        let volumes = lock(&self.volumes);
        let outcome = |FollowedVolume { pod, volume, end, .. }: &FollowedVolume| FileOutcome {
            source_namespace: pod.source_namespace.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            volume: volume.volume.clone(),
            claim: volume.claim.clone(),
            files: volume.files.clone(),
            end: end.clone().unwrap_or_else(|| FileEnd::Failed("the restore ended before".to_owned())),
        };
        volumes.values().map(outcome).collect()
    }
}

/// Returns true if a volume of a pod is a generic ephemeral one.
fn has_ephemeral(pod: &Value, volume: &str) -> bool {
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.any(|one| one["name"] == volume && is_ephemeral(one))
}
