//! Takes the CSI snapshots of one backup.

use crate::class::{ClassChoice, SnapshotClasses};
use crate::facts::Claim;
use crate::method::csi::answer::{failed, is_being_deleted, text};
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::backup::follow::{FollowQuery, FollowedSnapshots, SnapshotState};
use crate::method::csi::backup::listed_snapshots::ListedSnapshots;
use crate::method::csi::backup::moves::SnapshotMoves;
use crate::method::csi::backup::outcomes::{Outcomes, SnapshotPromise, TakenSnapshot};
use crate::method::csi::backup::refusal::{WaitLimit, is_final};
use crate::method::csi::content::SnapshotContent;
use crate::method::csi::delete::clean::remove;
use crate::method::csi::delete::kept_groups::KeptGroups;
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::{SnapshotTypes, is_snapshot_of, name_of, selector, snapshot_of};
use crate::method::data_movement::backup::DataUploads;
use crate::method::lock::lock;
use crate::priority::{Priority, PrioritySlots};
use crate::record::Report;
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_action::ActionError;
use lifeboat_api::{Backup, NamespacedName, Time};
use lifeboat_cluster::{Cluster, ClusterError, WriteBody};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, Severity};
use lifeboat_operation::Operation;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{AcquireError, OnceCell, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Snapshots of each priority that are asked for and not taken yet, at once.
const AT_ONCE: usize = 256;
/// The pause between questions for the content of a snapshot that was taken.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

/// The backup that the snapshots are taken for.
#[derive(Clone, Debug)]
pub struct CsiBackup {
    /// The backup, with its UID.
    pub backup: Backup,
    /// The types of snapshots.
    pub types: SnapshotTypes,
}

/// Takes the snapshots of a backup as tasks, until [`CsiSnapshots::end`]. Clones are the same.
#[derive(Clone)]
pub struct CsiSnapshots {
    pub(crate) cluster: Cluster,
    pub(crate) operation: Operation,
    pub(crate) of: Arc<CsiBackup>,
    shared: Arc<SnapshotsState>,
}

/// The snapshot that is wanted of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedSnapshot {
    /// The CSI driver.
    pub driver: String,
    /// The class that a policy names; empty for none.
    pub class: String,
    /// True when its data is to be moved out of it.
    pub is_moved: bool,
}

struct SnapshotsState {
    classes: OnceCell<SnapshotClasses>,
    look: OnceCell<Result<ListedSnapshots, ActionError>>,
    followed: Mutex<HashMap<GroupResource, Arc<FollowedSnapshots>>>,
    outcomes: Arc<Outcomes>,
    uploads: DataUploads,
    groups: GroupsState,
    tasks: Mutex<JoinSet<()>>,
    places: PrioritySlots,
}

/// State of the groups of snapshots.
#[derive(Default)]
struct GroupsState {
    /// Groups that were asked for in vain, and may be in the cluster.
    left: Mutex<BTreeSet<NamespacedName>>,
    /// The groups that are set to retain their snapshots.
    kept: KeptGroups,
}

impl CsiSnapshots {
    /// Takes none yet.
    #[must_use]
    pub fn new(cluster: &Cluster, operation: &Operation, of: CsiBackup) -> Self {
        let shared = SnapshotsState {
            classes: OnceCell::new(),
            look: OnceCell::new(),
            followed: Mutex::default(),
            outcomes: Arc::default(),
            uploads: DataUploads::new(cluster, operation),
            groups: GroupsState::default(),
            tasks: Mutex::default(),
            places: PrioritySlots::new(AT_ONCE),
        };
        Self { cluster: cluster.clone(), operation: operation.clone(), of: Arc::new(of), shared: Arc::new(shared) }
    }

    /// The API by which they are taken.
    pub(crate) fn api(&self) -> SnapshotApi<'_> {
        SnapshotApi { cluster: &self.cluster, types: &self.of.types }
    }

    /// All snapshots of the backup in the cluster. They are read once: make new [`CsiSnapshots`] to read them again.
    pub(crate) async fn look(&self) -> Result<&ListedSnapshots, ActionError> {
        let look = || async { ListedSnapshots::take(self.api(), &self.of.backup).await.map_err(failed) };
        // An error too: as many as ask would ask again.
        self.shared.look.get_or_init(look).await.as_ref().map_err(Clone::clone)
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.operation.clock)()
    }

    /// Tells that a content could not be labelled with its backup, and told to keep its snapshot.
    pub(crate) fn tell_unkept(&self, content: &ObjectKey, error: &ClusterError) {
        let message = "it could not be labelled with its backup and told to keep its snapshot: who deletes its VolumeSnapshot, or the \
                       namespace of that, before the backup ends may delete the data in the storage";
        self.operation.journal.item(Severity::Warning, content, message, Some(&error.to_string()));
    }

    /// Begins to take a snapshot of a claim, unless that was done before.
    pub fn begin(&self, claim: &Claim, priority: Priority, wanted: WantedSnapshot) {
        let Some(promise) = self.promise(&claim.key) else { return };
        if wanted.is_moved {
            self.moves().note(&claim.key);
        }
        let (this, claim) = (self.clone(), claim.clone());
        let task = async move {
            let taken = this.take(&claim, priority, &wanted).await;
            promise.keep(taken.map(Arc::new).map_err(|e| Arc::from(e.to_string())));
        };
        self.spawn(task);
    }

    /// Notes that the snapshot of a claim is begun; `None` when it was before.
    pub(crate) fn promise(&self, claim: &NamespacedName) -> Option<SnapshotPromise> {
        self.shared.outcomes.promise(claim)
    }

    /// The movement of the data of the snapshots.
    pub(crate) fn moves(&self) -> SnapshotMoves<'_> {
        let SnapshotsState { outcomes, uploads, .. } = &*self.shared;
        SnapshotMoves { backup: &self.of.backup, outcomes, uploads }
    }

    /// The DataUploads that were made, by their claims.
    #[must_use]
    pub fn begun_uploads(&self) -> BTreeMap<NamespacedName, NamespacedName> {
        self.shared.outcomes.uploads()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.shared.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Waits for its turn: not all snapshots are asked for at once.
    pub(crate) async fn place(&self, priority: Priority) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.shared.places.take(priority).await
    }

    /// Returns true if the snapshot of a claim was begun.
    #[must_use]
    pub fn has_begun(&self, claim: &NamespacedName) -> bool {
        self.shared.outcomes.has_begun(claim)
    }

    /// Waits for the snapshot of a claim: until it was taken, or it is certain that it will not be. `None` when none was begun.
    pub async fn taken(&self, claim: &NamespacedName) -> Option<Result<Arc<TakenSnapshot>, Arc<str>>> {
        self.shared.outcomes.of(claim).await
    }

    /// The snapshot of this name, if this has taken it.
    #[must_use]
    pub fn named(&self, namespace: &str, name: &str) -> Option<Arc<TakenSnapshot>> {
        self.shared.outcomes.named(namespace, name)
    }

    /// Notes the operation that waits until the snapshot of this name is ready.
    pub fn note_operation(&self, namespace: &str, name: &str, operation: &str) {
        self.shared.outcomes.note_operation(namespace, name, operation);
    }

    /// The outcome for each claim of which a snapshot was begun.
    #[must_use]
    pub fn reports(&self) -> BTreeMap<NamespacedName, Report> {
        self.shared.outcomes.reports()
    }

    /// The snapshots that were taken, by their claims.
    #[must_use]
    pub fn all_taken(&self) -> BTreeMap<NamespacedName, Arc<TakenSnapshot>> {
        self.shared.outcomes.taken()
    }

    /// Returns true if groups may be in the cluster that were not taken, whatever became of their claims.
    #[must_use]
    pub fn may_have_left_groups(&self) -> bool {
        !lock(&self.shared.groups.left).is_empty()
    }

    /// Notes that a group may be in the cluster that no claim goes by.
    pub(crate) fn note_left_group(&self, namespace: &str, name: &str) {
        lock(&self.shared.groups.left).insert(NamespacedName::new(namespace, name));
    }

    /// The groups that are set to retain their snapshots.
    pub(crate) fn kept_groups(&self) -> &KeptGroups {
        &self.shared.groups.kept
    }

    /// Ends the tasks that still take snapshots. What they have begun stays until it is removed.
    pub async fn end(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.shared.tasks));
        tasks.shutdown().await;
    }

    pub(crate) async fn take(
        &self,
        claim: &Claim,
        priority: Priority,
        wanted: &WantedSnapshot,
    ) -> Result<TakenSnapshot, CsiError> {
        let _place = self.place(priority).await;
        let (namespace, name) = (claim.key.namespace.as_str(), name_of(&self.of.backup.metadata.uid, claim));
        if wanted.is_moved
            && let Some(taken) = self.moves().begun_before(claim, &name).await?
        {
            return Ok(taken);
        }
        if wanted.is_moved {
            self.moves().check(claim).await?;
        }
        let choice = ClassChoice { of_claim: &claim.snapshot_class, of_policy: &wanted.class };
        let class = self.classes().await?.choose(&wanted.driver, choice);
        let class = class.map_err(|trouble| CsiError::NoClass { driver: wanted.driver.clone(), trouble })?;
        let types = &self.of.types;
        let followed = self.followed(&types.snapshots, namespace);
        let timeout = self.of.backup.spec.csi_snapshot_timeout.to_std();
        let deadline = Instant::now() + timeout;
        let body = Bytes::from(snapshot_of(&self.of.backup, claim, class, types).to_string());
        let is_of_claim = |found: &Value| text(found, "/spec/source/persistentVolumeClaimName") == claim.key.name;
        let wanted = ToCreate { resource: &types.snapshots, namespace, name: &name, body, is_it: &is_of_claim };
        let uid = self.create(wanted, deadline).await?;
        let created = Created { what: "VolumeSnapshot", namespace, name: &name, uid: &uid };
        let patience = WaitLimit::new(deadline, priority == Priority::Frozen);
        match self.wait(&followed, created, patience).await {
            Ok(taken) => Ok(TakenSnapshot { class: class.name.clone(), ..taken }),
            Err(e) => {
                let error = match e {
                    WaitFailure::TimedOut(said) => {
                        CsiError::TimedOut { name: format!("{namespace}/{name}"), within: timeout, said }
                    }
                    WaitFailure::Refused(said) => CsiError::Refused(format!("VolumeSnapshot {namespace}/{name}"), said),
                    WaitFailure::Unpassed(said) => {
                        CsiError::Unpassed(format!("VolumeSnapshot {namespace}/{name}"), said)
                    }
                    WaitFailure::Failed(error) => error,
                };
                // Of a cancelled backup all go in the end, when their drivers have ended; until then a pod may stand still.
                if !matches!(error, CsiError::Cancelled) {
                    self.give_up(namespace, &name).await;
                }
                Err(error)
            }
        }
    }

    /// Removes objects that were begun and failed. Where that fails too, the sweep of the backup does it.
    async fn give_up(&self, namespace: &str, name: &str) {
        if (self.operation.fence)().is_err() {
            // Who has taken the backup over has taken up what is there.
            return;
        }
        if let Err(e) = remove(self.api(), namespace, name).await {
            let snapshot = format!("{namespace}/{name}");
            let fields = [("volumesnapshot", snapshot.as_str()), ("why", &e.to_string())];
            self.operation.journal.info("A snapshot that failed cannot be removed yet", &fields);
        }
    }

    async fn classes(&self) -> Result<&SnapshotClasses, CsiError> {
        let load =
            || async { Ok(SnapshotClasses::new(self.api().classes().await?, &self.of.backup.metadata.annotations)) };
        self.shared.classes.get_or_try_init(load).await
    }

    /// The follower of the objects of a type, this namespace included.
    pub(crate) fn followed(&self, resource: &Arc<ApiResource>, namespace: &str) -> Arc<FollowedSnapshots> {
        let mut all = lock(&self.shared.followed);
        let followed = all.entry(resource.group_resource()).or_insert_with(|| {
            let followed = Arc::new(FollowedSnapshots::new());
            let selector = selector(&self.of.backup.metadata.uid);
            let source = FollowQuery { cluster: self.cluster.clone(), resource: Arc::clone(resource), selector };
            lock(&self.shared.tasks).spawn(Arc::clone(&followed).follow(source));
            followed
        });
        followed.want(namespace);
        Arc::clone(followed)
    }

    /// Creates an object, or finds the one that an attempt before has created, and gives its UID. An object that is
    /// being removed is waited for.
    pub(crate) async fn create(&self, wanted: ToCreate<'_>, deadline: Instant) -> Result<String, CsiError> {
        let ToCreate { resource, namespace, name, body, is_it } = wanted;
        let place = || format!("{} {namespace}/{name}", resource.kind);
        let uid_of = |object: &Value| text(object, "/metadata/uid").to_owned();
        loop {
            (self.operation.fence)().map_err(CsiError::Fenced)?;
            match self.cluster.create(resource, Some(namespace), name, WriteBody::of(body.clone())).await {
                Ok(created) => return Ok(uid_of(&serde_json::from_slice(&created).unwrap_or_default())),
                Err(e) if e.is_already_exists() => {}
                Err(e) => return Err(e.into()),
            }
            if let Some(found) = self.cluster.get(resource, Some(namespace), name).await? {
                let found: Value = serde_json::from_slice(&found).unwrap_or_default();
                if !is_snapshot_of(&self.of.backup, &found) || !is_it(&found) {
                    return Err(CsiError::Foreign(place()));
                }
                if !is_being_deleted(&found) {
                    return Ok(uid_of(&found));
                }
            }
            if Instant::now() + PAUSE > deadline {
                let said = "an attempt before has asked for it, and it has not gone in time; look at its finalizers";
                return Err(CsiError::Remains(place(), said.to_owned()));
            }
            self.pause().await?;
        }
    }

    /// Waits a moment before the cluster is asked again.
    pub(crate) async fn pause(&self) -> Result<(), CsiError> {
        tokio::select! {
            () = sleep(PAUSE) => Ok(()),
            () = self.operation.cancel.cancelled() => Err(CsiError::Cancelled),
        }
    }

    /// Waits until an object is bound to a content that says that it was taken. It ends before where the object is refused, or an error stays
    /// while pods stand still.
    pub(crate) async fn bound(
        &self,
        followed: &FollowedSnapshots,
        created: Created<'_>,
        mut patience: WaitLimit,
    ) -> Result<BoundTo, WaitFailure> {
        loop {
            let until = followed.until(created.namespace, created.name, patience.until(), |state| {
                state.is(created.uid).then(|| SnapshotEvent::of(state, patience.has_error())).flatten()
            });
            let until = tokio::select! {
                until = until => until,
                () = self.operation.cancel.cancelled() => return Err(WaitFailure::Failed(CsiError::Cancelled)),
            };
            match until {
                Ok(SnapshotEvent::Taken(taken)) => return Ok(taken),
                Ok(SnapshotEvent::Gone) => return Err(created.gone()),
                Ok(SnapshotEvent::Refused(said)) => return Err(WaitFailure::Refused(said)),
                Ok(SnapshotEvent::Error(has_error)) => patience.see(has_error, Instant::now()),
                Err(state) => {
                    let said = state.unwrap_or_default().said().to_owned();
                    return Err(if patience.is_shortened() {
                        WaitFailure::Unpassed(said)
                    } else {
                        WaitFailure::TimedOut(said)
                    });
                }
            }
        }
    }

    async fn wait(
        &self,
        followed: &FollowedSnapshots,
        created: Created<'_>,
        mut patience: WaitLimit,
    ) -> Result<TakenSnapshot, WaitFailure> {
        let BoundTo { content, at } = self.bound(followed, created, patience).await?;
        loop {
            let content = self.content(&content).await?.ok_or_else(|| created.gone())?;
            let content = SnapshotContent::of(&content);
            if !content.handle.is_empty() {
                let (namespace, name) = (created.namespace.to_owned(), created.name.to_owned());
                let class = String::new();
                return Ok(TakenSnapshot { namespace, name, class, content, at, group: None });
            }
            patience.see(!content.error.is_empty(), Instant::now());
            let said = format!("its content {} has no handle: {}", content.name, content.error);
            if is_final(&content.error) {
                return Err(WaitFailure::Refused(said));
            }
            if Instant::now() + PAUSE > patience.until() {
                return Err(if patience.is_shortened() {
                    WaitFailure::Unpassed(said)
                } else {
                    WaitFailure::TimedOut(said)
                });
            }
            self.pause().await.map_err(WaitFailure::Failed)?;
        }
    }

    /// A VolumeSnapshotContent, if it is there.
    pub(crate) async fn content(&self, name: &str) -> Result<Option<Value>, WaitFailure> {
        self.api().read(&self.of.types.contents, None, name).await.map_err(WaitFailure::Failed)
    }
}

/// An object that is to be created.
pub(crate) struct ToCreate<'a> {
    pub(crate) resource: &'a ApiResource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) body: Bytes,
    /// Returns true if an object of its name that says that it is of the backup is the wanted one.
    pub(crate) is_it: &'a (dyn Fn(&Value) -> bool + Sync),
}

/// An object that is there.
#[derive(Clone, Copy)]
pub(crate) struct Created<'a> {
    /// Its kind.
    pub(crate) what: &'static str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

impl Created<'_> {
    /// Its namespace and name.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The error that somebody has deleted it.
    pub(crate) fn gone(&self) -> WaitFailure {
        WaitFailure::Failed(CsiError::Deleted(format!("{} {}", self.what, self.place())))
    }
}

/// News of an object that is waited for.
enum SnapshotEvent {
    /// It was taken.
    Taken(BoundTo),
    /// It goes, or is gone.
    Gone,
    /// It is refused for good; what is said of it.
    Refused(String),
    /// It has an error that can pass (true), or has none any more.
    Error(bool),
}

impl SnapshotEvent {
    /// The news in this state for somebody who has seen an error, or none; `None` when there is none.
    fn of(state: &SnapshotState, had_error: bool) -> Option<Self> {
        if state.is_deleted() {
            return Some(Self::Gone);
        }
        if let Some((content, at)) = state.taken() {
            let at = at.parse().ok().map(Time::new);
            return Some(Self::Taken(BoundTo { content: content.to_owned(), at }));
        }
        match state.error() {
            Some(said) if is_final(said) => Some(Self::Refused(said.to_owned())),
            error => (error.is_some() != had_error).then_some(Self::Error(error.is_some())),
        }
    }
}

/// The content that a taken object is bound to.
pub(crate) struct BoundTo {
    /// The name of the content.
    pub(crate) content: String,
    /// The time when it was taken, as its driver says.
    pub(crate) at: Option<Time>,
}

/// The reason for which something was not taken.
pub(crate) enum WaitFailure {
    /// It was not taken in time; with the controller's message.
    TimedOut(String),
    /// It is refused for good; what is said of it.
    Refused(String),
    /// Its error has not passed, and pods stand still; what is said of it.
    Unpassed(String),
    Failed(CsiError),
}
