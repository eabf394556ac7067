//! Saves the files of volumes of running pods, beside the backup of what follows (velero: pkg/podvolume/backupper.go).
//!
//! Each pod has a task that makes its PodVolumeBackups, when the hooks of the pod have run. A claim that no running pod mounts has one
//! that also makes its reader pod, and removes it at the end. One task follows all PodVolumeBackups of the backup with one list. What an
//! attempt that was cut off has made is found by its name.

use crate::facts::{Claim, PodVolumeName};
use crate::method::child::{list, resource_type};
use crate::method::definition::Definitions;
use crate::method::fs_backup::cancel::cancel;
use crate::method::fs_backup::progress::{IDLE, VolumeProgress, WaitLimits, WaitProgress, said};
use crate::method::fs_backup::reader::Readers;
use crate::method::fs_backup::reader_pod::{READER_VOLUME, reader_pod_name};
use crate::method::fs_backup::repository::{KnownRepositories, NeededRepository};
use crate::method::fs_backup::saved_volume::{SavedPod, VolumeToSave, is_saved, make, pod_volume_backup};
use crate::method::fs_backup::scheduled::missing_agent;
use crate::method::fs_backup::settings::FileBackupSettings;
use crate::method::lock::lock;
use crate::method::mover_pod::pods;
use lifeboat_api::well_known::LABEL_BACKUP_UID;
use lifeboat_api::{Backup, DataPathPhase, NamespacedName, PodVolumeBackup};
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::{ApiResource, ResultScope};
use lifeboat_operation::Operation;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The message of a wait that was too long.
const LATE: &str = "timed out waiting for all PodVolumeBackups to complete";
/// The first pause between two looks, and after each change; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pods whose resources are made at once.
const AT_ONCE: usize = 16;
/// The longest time for volumes that were asked to stop to do so.
const STOPPING: Duration = Duration::from_secs(60);

/// The end of the backup of a volume.
#[derive(Clone, Debug, PartialEq)]
pub enum FileBackupEnd {
    /// Its files are in the repository, as this PodVolumeBackup says.
    Saved(Box<PodVolumeBackup>),
    /// They are not, for this reason.
    Failed(String),
}

/// Saves the files of the volumes of one backup. The tasks end with the last clone.
#[derive(Clone)]
pub struct FileBackups {
    run: Arc<FileBackupRun>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

struct FileBackupRun {
    cluster: Cluster,
    operation: Operation,
    settings: FileBackupSettings,
    /// By the names of their resources.
    volumes: Mutex<BTreeMap<String, FollowedVolume>>,
    repositories: KnownRepositories,
    definitions: Definitions,
    readers: Readers,
    places: Semaphore,
    /// Counts ends of volumes.
    ends: watch::Sender<u64>,
}

struct FollowedVolume {
    name: PodVolumeName,
    /// The claim, when it is saved through a reader pod.
    claim: Option<String>,
    is_made: bool,
    /// The resource, as it was seen last.
    seen: Option<PodVolumeBackup>,
    end: Option<FileBackupEnd>,
}

impl FileBackups {
    /// Begins for a backup of which no volumes are saved.
    #[must_use]
    pub fn new(cluster: &Cluster, operation: &Operation, settings: FileBackupSettings) -> Self {
        let run = FileBackupRun {
            cluster: cluster.clone(),
            operation: operation.clone(),
            readers: Readers::new(cluster, operation, &settings),
            settings,
            volumes: Mutex::default(),
            repositories: KnownRepositories::default(),
            definitions: Definitions::default(),
            places: Semaphore::new(AT_ONCE),
            ends: watch::Sender::new(0),
        };
        Self { run: Arc::new(run), tasks: Arc::default() }
    }

    /// The backup whose volumes are saved.
    #[must_use]
    pub fn backup(&self) -> &Backup {
        &self.run.settings.backup
    }

    /// Begins to save volumes of a pod, unless that was done before.
    pub fn begin(&self, pod: &NamespacedName, volumes: &[VolumeToSave]) {
        let mut new = Vec::new();
        for volume in volumes {
            let name = volume.resource_name(&self.run.settings.backup, &pod.namespace, &pod.name);
            if self.follow(&name, PodVolumeName { pod: pod.clone(), volume: volume.name.clone() }, None) {
                new.push((name, volume.clone()));
            }
        }
        if !new.is_empty() {
            let (run, pod) = (Arc::clone(&self.run), pod.clone());
            lock(&self.tasks).spawn(async move { run.pod(&pod, new).await });
        }
    }

    /// Begins to save the volume of a claim through a reader pod, unless that was done before.
    pub fn begin_claim(&self, claim: &Claim) {
        let pod = claim.key.beside(&reader_pod_name(&self.run.settings.backup, &claim.key));
        let volume = VolumeToSave { is_without_pod: true, ..VolumeToSave::of(READER_VOLUME, Some(claim)) };
        let name = volume.resource_name(&self.run.settings.backup, &pod.namespace, &pod.name);
        let of_reader = PodVolumeName { pod, volume: volume.name.clone() };
        if self.follow(&name, of_reader, Some(claim.key.to_string())) {
            let (run, claim) = (Arc::clone(&self.run), claim.clone());
            lock(&self.tasks).spawn(async move { run.claim(&name, &claim, &volume).await });
        }
    }

    /// Takes up a volume that is to be followed, by the name of its resource; `false` when it was before.
    fn follow(&self, resource: &str, name: PodVolumeName, claim: Option<String>) -> bool {
        let mut all = lock(&self.run.volumes);
        if all.contains_key(resource) {
            return false;
        }
        if all.is_empty() {
            let run = Arc::clone(&self.run);
            lock(&self.tasks).spawn(async move { run.follow().await });
        }
        all.insert(resource.to_owned(), FollowedVolume { name, claim, is_made: false, seen: None, end: None });
        true
    }

    /// Waits until the volumes of a pod that were begun are saved, or will not be. Cancellation of the operation ends the wait.
    pub async fn pod_ended(&self, pod: &NamespacedName) {
        self.run.ended(|volume| volume.pod == *pod).await;
    }

    /// Waits until all volumes that were begun are saved, or will not be. Cancellation of the operation ends the wait.
    pub async fn all_ended(&self) {
        let open = self.run.open().len();
        if open > 0 {
            let fields = [("volumes", &*open.to_string())];
            self.run.operation.journal.info("Waiting for the files of volumes", &fields);
        }
        self.run.ended(|_| true).await;
    }

    /// The ends of all volumes that were begun.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<PodVolumeName, FileBackupEnd> {
        let unknown = || FileBackupEnd::Failed("its PodVolumeBackup had not ended when the backup did".to_owned());
        let all = lock(&self.run.volumes);
        all.values().map(|one| (one.name.clone(), one.end.clone().unwrap_or_else(unknown))).collect()
    }

    /// The PodVolumeBackups as they were seen last, in the order of their names.
    #[must_use]
    pub fn resources(&self) -> Vec<PodVolumeBackup> {
        lock(&self.run.volumes).values().filter_map(|one| one.seen.clone()).collect()
    }

    /// Ends the tasks, and removes the reader pods. Volumes that are still being saved are asked to stop, within a minute: of a backup
    /// that does not come to its end nobody needs them.
    pub async fn end(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.shutdown().await;
        let open: Vec<String> =
            self.run.open().into_iter().filter(|(_, is_made)| *is_made).map(|(name, _)| name).collect();
        // Another process has taken the backup over, and these with it.
        if (self.run.operation.fence)().is_err() {
            return;
        }
        let (kind, namespace) = (kind(), &self.run.settings.backup.metadata.namespace);
        let work = async {
            for name in &open {
                if let Err(e) = cancel(&self.run.cluster, &kind, namespace, name).await {
                    self.run.operation.journal.info(
                        "A PodVolumeBackup could not be asked to stop",
                        &[("name", name), ("error", &e.to_string())],
                    );
                }
            }
            self.run.readers.remove_all().await;
        };
        let _ = tokio::time::timeout(STOPPING, work).await;
    }
}

impl FileBackupRun {
    /// Makes the resources of a pod's volumes.
    async fn pod(&self, pod: &NamespacedName, volumes: Vec<(String, VolumeToSave)>) {
        let work = async {
            let Ok(_place) = self.places.acquire().await else { return };
            let ready = async {
                let saved = self.running(pod).await?;
                self.repository(&pod.namespace).await?;
                Ok::<_, String>(saved)
            };
            match ready.await {
                Ok(saved) => {
                    for (name, volume) in &volumes {
                        // The wait for it may be over.
                        if !self.open().contains_key(name) {
                            continue;
                        }
                        match self.make(&saved, volume).await {
                            Ok(()) => self.is_made(name),
                            Err(why) => self.set(name, FileBackupEnd::Failed(why)),
                        }
                    }
                }
                Err(why) => volumes.iter().for_each(|(name, _)| self.set(name, FileBackupEnd::Failed(why.clone()))),
            }
        };
        tokio::select! {
            biased;
            () = self.operation.cancel.cancelled() => {}
            () = work => {}
        }
    }

    /// Saves a claim through a reader pod, and removes that when the volume has ended, however it did. Where this is cut off, the end of
    /// the backup removes it.
    async fn claim(&self, name: &str, claim: &Claim, volume: &VolumeToSave) {
        let work = async {
            let Some(mut place) = self.readers.place().await else { return };
            match self.make_for_claim(name, claim, volume, &mut place).await {
                Ok(()) => self.is_made(name),
                Err(why) => self.set(name, FileBackupEnd::Failed(why)),
            }
            let pod = claim.key.beside(&reader_pod_name(&self.settings.backup, &claim.key));
            self.ended(|volume| volume.pod == pod).await;
            self.readers.remove(&claim.key).await;
        };
        tokio::select! {
            biased;
            () = self.operation.cancel.cancelled() => {}
            () = work => {}
        }
    }

    /// Makes the reader pod and the resource of a claim, unless an earlier attempt has saved it already.
    async fn make_for_claim<'a>(
        &'a self,
        name: &str,
        claim: &Claim,
        volume: &VolumeToSave,
        place: &mut SemaphorePermit<'a>,
    ) -> Result<(), String> {
        let is_over = || !self.open().contains_key(name);
        let namespace = &self.settings.backup.metadata.namespace;
        let found = self.cluster.get(&kind(), Some(namespace), name).await.map_err(|e| e.to_string())?;
        let found = found.and_then(|body| serde_json::from_slice(&body).ok());
        if is_over() || found.is_some_and(|found| is_saved(&found, &claim.uid)) {
            return Ok(());
        }
        self.repository(&claim.key.namespace).await?;
        let pod = self.readers.running(claim, place).await?;
        self.agent_on(&pod.node).await?;
        if is_over() {
            return Ok(());
        }
        self.make(&pod, volume).await
    }

    /// Waits until these volumes have ended. Cancellation of the operation ends the wait.
    async fn ended(&self, is_waited_for: impl Fn(&PodVolumeName) -> bool) {
        let mut ends = self.ends.subscribe();
        loop {
            let is_open = lock(&self.volumes).values().any(|one| one.end.is_none() && is_waited_for(&one.name));
            if !is_open {
                return;
            }
            tokio::select! {
                () = self.operation.cancel.cancelled() => return,
                changed = ends.changed() => if changed.is_err() { return },
            }
        }
    }

    /// The pod as it is now, on a node where a node agent runs.
    async fn running(&self, pod: &NamespacedName) -> Result<SavedPod, String> {
        let found = self.cluster.get(&pods(), Some(&pod.namespace), &pod.name).await.map_err(|e| e.to_string())?;
        let body = found.ok_or_else(|| format!("the pod {pod} is gone"))?;
        let object: Value = serde_json::from_slice(&body).map_err(|e| format!("the pod cannot be read: {e}"))?;
        let saved = SavedPod::of(&object)?;
        self.agent_on(&saved.node).await?;
        Ok(saved)
    }

    /// Makes sure that a node agent runs on a node.
    async fn agent_on(&self, node: &str) -> Result<(), String> {
        let own = &self.settings.backup.metadata.namespace;
        match missing_agent(&self.cluster, own, node).await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(why) => Err(format!("node-agent pod is not running in node {node}: {why}")),
        }
    }

    /// Makes sure of the repository of a namespace, once for all pods.
    async fn repository(&self, volume_namespace: &str) -> Result<(), String> {
        let FileBackupSettings { backup, resource_timeout, .. } = &self.settings;
        let location = &backup.spec.storage_location;
        let needed = NeededRepository { namespace: &backup.metadata.namespace, volume_namespace, location };
        self.repositories.ensure(needed, *resource_timeout, &self.cluster).await
    }

    async fn make(&self, pod: &SavedPod, volume: &VolumeToSave) -> Result<(), String> {
        (self.operation.fence)()?;
        make(&self.cluster, &self.definitions, &pod_volume_backup(&self.settings.backup, pod, volume)).await
    }

    /// Follows all resources for as long as the task lives.
    async fn follow(&self) {
        let (began, mut progress, mut pause) = (Instant::now(), WaitProgress::default(), FIRST_PAUSE);
        let limits = WaitLimits { whole: self.settings.whole, idle: IDLE, late: LATE };
        let mut before = BTreeMap::new();
        loop {
            let open = self.open();
            if !open.is_empty() {
                let states = self.look(&open).await;
                if states != before {
                    pause = FIRST_PAUSE;
                }
                before.clone_from(&states);
                self.stop(progress.look(began.elapsed(), states, limits)).await;
            }
            tokio::select! {
                biased;
                () = self.operation.cancel.cancelled() => return,
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Asks these to stop, and waits for none of them any more.
    async fn stop(&self, given_up: BTreeMap<String, String>) {
        let (kind, namespace) = (kind(), &self.settings.backup.metadata.namespace);
        for (name, mut why) in given_up {
            let is_made = self.open().get(&name).is_some_and(|is_made| *is_made);
            if is_made && let Err(e) = cancel(&self.cluster, &kind, namespace, &name).await {
                why = format!("{why}; the PodVolumeBackup {name} could not be asked to stop: {e}");
            }
            self.set(&name, FileBackupEnd::Failed(why));
        }
    }

    /// Looks at the resources of these volumes. Gives the progress of those that go on.
    async fn look(&self, open: &BTreeMap<String, bool>) -> BTreeMap<String, VolumeProgress> {
        let found = match self.list().await {
            Ok(found) => found,
            // The limits of the wait hold.
            Err(e) if e.can_pass() => {
                return open.keys().map(|name| (name.clone(), VolumeProgress::default())).collect();
            }
            Err(e) => {
                open.keys().for_each(|name| self.set(name, FileBackupEnd::Failed(e.to_string())));
                return BTreeMap::new();
            }
        };
        let mut states = BTreeMap::new();
        for (name, is_made) in open {
            // What an earlier attempt has made counts when this one has taken it up.
            let one = found.get(name).filter(|_| *is_made);
            if let (Some(one), Some(followed)) = (one, lock(&self.volumes).get_mut(name)) {
                followed.seen = Some(one.clone());
            }
            let message = one.map(|one| said(&one.status.message)).unwrap_or_default();
            match (one, one.and_then(|one| one.status.phase)) {
                (Some(one), Some(DataPathPhase::Completed)) => {
                    self.set(name, FileBackupEnd::Saved(Box::new(one.clone())));
                }
                (_, Some(DataPathPhase::Failed)) => {
                    self.set(name, FileBackupEnd::Failed(format!("pod volume backup failed: {message}")));
                }
                (_, Some(DataPathPhase::Canceled)) => {
                    self.set(name, FileBackupEnd::Failed(format!("pod volume backup canceled: {message}")));
                }
                (None, _) if *is_made => {
                    self.set(name, FileBackupEnd::Failed(format!("its PodVolumeBackup {name} was deleted")));
                }
                _ => {
                    states.insert(
                        name.clone(),
                        one.map(|one| {
                            let status = &one.status;
                            let annotations = &one.metadata.annotations;
                            VolumeProgress::of(status.phase, &status.progress, &status.message, annotations)
                        })
                        .unwrap_or_default(),
                    );
                }
            }
        }
        states
    }

    /// All PodVolumeBackups of the backup, by name.
    async fn list(&self) -> Result<HashMap<String, PodVolumeBackup>, ClusterError> {
        let metadata = &self.settings.backup.metadata;
        // One that cannot be read is as one that has not begun; the limits of the wait hold.
        let found = list(&self.cluster, &metadata.namespace, format!("{LABEL_BACKUP_UID}={}", metadata.uid)).await?;
        Ok(found.into_iter().map(|one: PodVolumeBackup| (one.metadata.name.clone(), one)).collect())
    }

    /// The volumes that have not ended, and whether their resources are made.
    fn open(&self) -> BTreeMap<String, bool> {
        let volumes = lock(&self.volumes);
        let open = volumes.iter().filter(|(_, one)| one.end.is_none());
        open.map(|(name, one)| (name.clone(), one.is_made)).collect()
    }

    fn is_made(&self, name: &str) {
        if let Some(one) = lock(&self.volumes).get_mut(name) {
            one.is_made = true;
        }
    }

    /// Notes the end of a volume that has not ended.
    fn set(&self, name: &str, end: FileBackupEnd) {
        let mut volumes = lock(&self.volumes);
        let Some(one) = volumes.get_mut(name).filter(|one| one.end.is_none()) else { return };
        if let FileBackupEnd::Saved(resource) = &end {
            let PodVolumeName { pod, volume } = &one.name;
            let (pod_name, bytes) = (pod.to_string(), resource.status.progress.total_bytes.to_string());
            let (kind, subject) = one.claim.as_ref().map_or(("pod", &pod_name), |claim| ("claim", claim));
            let fields = [(kind, &**subject), ("volume", volume), ("bytes", &bytes)];
            self.operation.journal.info("Saved the files of a volume", &fields);
            // Without a snapshot it says that the volume was empty.
            let message = &resource.status.message;
            if !message.is_empty() && !resource.status.snapshot_id.is_empty() {
                let text = format!("{kind} {subject}, volume {volume}: {message}");
                self.operation.journal.warn(&ResultScope::Namespace(pod.namespace.clone()), text);
            }
        }
        one.end = Some(end);
        drop(volumes);
        self.ends.send_modify(|count| *count += 1);
    }
}

/// The type of PodVolumeBackups.
fn kind() -> ApiResource {
    resource_type::<PodVolumeBackup>()
}
