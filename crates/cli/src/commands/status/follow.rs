//! Follows the objects that the status shows: by watches, by lists where watches are forbidden, and by requests to the
//! server.

use super::looked::{
    ServerQuery, WITHOUT_CLAIMS, WITHOUT_NAMESPACES, WITHOUT_NODE_AGENTS, WITHOUT_REPOSITORIES, WITHOUT_TRANSFERS,
};
use super::node_agents::{daemon_set, daemon_sets, is_node_agent};
use super::rhythm::pause;
use super::state::{ObjectParser, ObjectsChange, StateUpdate, TakeIn, WatchedState};
use lifeboat_api::{
    Backup, BackupRepository, BackupStorageLocation, DataDownload, DataUpload, DeleteBackupRequest, ObjectMeta,
    PodVolumeBackup, PodVolumeRestore, Resource, Restore, Schedule,
};
use lifeboat_client::{Client, Object, api_resource};
use lifeboat_cluster::metadata_of;
use lifeboat_object::{ApiResource, chain};
use lifeboat_reconcile::{MirrorEvent, MirrorFailure, MirroredType};
use lifeboat_view::transfer::VolumeTransfer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// Between two lists of what may be listed and not watched, at least.
const LOOK: Duration = Duration::from_secs(5);
/// After a list that has failed, or has brought what cannot be read, at least.
const BROKEN: Duration = Duration::from_secs(1);
/// After a list that is refused, of what is not needed for all else.
const REFUSED: Duration = Duration::from_secs(30);
/// Between two questions to the server, each of which is an object of the cluster.
const ASK: Duration = Duration::from_secs(30);
/// Between two questions for what the next backups would do, for which the server looks at claims and volumes.
const ASK_FOR_NEXT: Duration = Duration::from_secs(120);

/// Begins to follow all that is shown of the cluster; nothing of it is known yet.
pub(super) fn begin(client: &Client, tasks: &mut JoinSet<()>, news: &mpsc::Sender<StateUpdate>) -> WatchedState {
    let mut following = Following { client, tasks, news, unknown: BTreeMap::new() };
    following.own::<Backup>(|known, change| change.apply(&mut known.inventory.lists.backups, |one| &one.metadata.name));
    following
        .own::<Schedule>(|known, change| change.apply(&mut known.inventory.lists.schedules, |one| &one.metadata.name));
    following.own::<DeleteBackupRequest>(|known, change| {
        change.apply(&mut known.inventory.lists.requests, |one| &one.metadata.name);
    });
    following.own::<BackupStorageLocation>(|known, change| {
        change.apply(&mut known.inventory.lists.locations, |one| &one.metadata.name);
    });
    following
        .own::<Restore>(|known, change| change.apply(&mut known.inventory.lists.restores, |one| &one.metadata.name));
    following.own_if_allowed(
        api_resource::<BackupRepository>(),
        WITHOUT_REPOSITORIES,
        BackupRepository::from_json,
        |known, change| {
            change.apply(&mut known.inventory.movers.repositories, |one| &one.metadata.name);
        },
    );
    following.own_if_allowed(Arc::new(daemon_sets()), WITHOUT_NODE_AGENTS, daemon_set, |known, change| {
        change.apply(&mut known.inventory.movers.node_agents, |one| &one.name);
        known.inventory.movers.node_agents.retain(is_node_agent);
    });
    following.transfers::<PodVolumeBackup>(|known, change| known.see_transfers(PodVolumeBackup::KIND, change));
    following.transfers::<PodVolumeRestore>(|known, change| known.see_transfers(PodVolumeRestore::KIND, change));
    following.transfers::<DataUpload>(|known, change| known.see_transfers(DataUpload::KIND, change));
    following.transfers::<DataDownload>(|known, change| known.see_transfers(DataDownload::KIND, change));
    let namespaces = ApiResource::namespaces();
    following.metadata(namespaces, WITHOUT_NAMESPACES, WatchedState::see_namespaces);
    following.metadata(ApiResource::persistent_volume_claims(), WITHOUT_CLAIMS, WatchedState::see_claims);
    let unknown = following.unknown;
    WatchedState::new(client.namespace.clone(), unknown)
}

/// Begins to follow types.
struct Following<'a> {
    client: &'a Client,
    tasks: &'a mut JoinSet<()>,
    news: &'a mpsc::Sender<StateUpdate>,
    unknown: BTreeMap<String, Option<String>>,
}

impl Following<'_> {
    /// Follows a type of ours in the namespace of the server.
    fn own<T: Object>(&mut self, take: fn(&mut WatchedState, ObjectsChange<T>)) {
        let (resource, namespace) = (api_resource::<T>(), Some(self.client.namespace.clone()));
        let cluster = self.client.cluster.clone();
        let mirrored = MirroredType { cluster, resource, namespace, fields: String::new(), metadata_only: false };
        self.follow(FollowedType { mirrored, without: None, may_be_undefined: false, read: T::from_json, take });
    }

    /// Follows a type in the namespace of the server, with the part of the status that is missing where the user may not list it.
    fn own_if_allowed<T: Send + 'static>(
        &mut self,
        resource: Arc<ApiResource>,
        without: &'static str,
        read: ObjectParser<T>,
        take: fn(&mut WatchedState, ObjectsChange<T>),
    ) {
        let mirrored = self.own_type(resource);
        self.follow(FollowedType { mirrored, without: Some(without), may_be_undefined: false, read, take });
    }

    /// Follows the transfers of volumes of a kind.
    fn transfers<T: Object>(&mut self, take: fn(&mut WatchedState, ObjectsChange<VolumeTransfer>))
    where
        for<'a> VolumeTransfer: From<&'a T>,
    {
        let mirrored = self.own_type(api_resource::<T>());
        let (without, read) = (Some(WITHOUT_TRANSFERS), VolumeTransfer::parse::<T>);
        self.follow(FollowedType { mirrored, without, may_be_undefined: true, read, take });
    }

    /// Follows the metadata of all objects of a type; `without` names the part of the status that is missing without
    /// them.
    fn metadata(
        &mut self,
        resource: ApiResource,
        without: &'static str,
        take: fn(&mut WatchedState, ObjectsChange<ObjectMeta>),
    ) {
        let (cluster, resource) = (self.client.cluster.clone(), Arc::new(resource));
        let mirrored = MirroredType { cluster, resource, namespace: None, fields: String::new(), metadata_only: true };
        let without = Some(without);
        self.follow(FollowedType { mirrored, without, may_be_undefined: false, read: metadata_of, take });
    }

    /// A type in the namespace of the server.
    fn own_type(&self, resource: Arc<ApiResource>) -> MirroredType {
        let (cluster, namespace) = (self.client.cluster.clone(), Some(self.client.namespace.clone()));
        MirroredType { cluster, resource, namespace, fields: String::new(), metadata_only: false }
    }

    fn follow<T: Send + 'static>(&mut self, followed: FollowedType<T>) {
        self.unknown.insert(followed.kind(), None);
        self.tasks.spawn(followed.follow(self.news.clone()));
    }
}

/// A type that is followed.
struct FollowedType<T> {
    mirrored: MirroredType,
    /// Explains the part of the status that is missing without its objects; `None` when they are needed for everything.
    without: Option<&'static str>,
    /// True for kinds that a cluster need not know.
    may_be_undefined: bool,
    read: ObjectParser<T>,
    take: fn(&mut WatchedState, ObjectsChange<T>),
}

impl<T: Send + 'static> FollowedType<T> {
    fn kind(&self) -> String {
        self.mirrored.resource.resource.clone()
    }

    /// Sends the changes of the objects, until nobody receives them.
    async fn follow(self, news: mpsc::Sender<StateUpdate>) {
        let mut mirror = self.mirrored.clone().start();
        // The time of the last list; one that comes after a failure begins with a pause of the mirror.
        let (mut listing, mut has_failed) = (Duration::ZERO, false);
        let mut watches_lost = 0;
        loop {
            let begun = Instant::now();
            let told = match mirror.next().await {
                // The next list says whether something is wrong, and if not, all that was missed. It comes after the pause of the mirror, which
                // grows as long as watches fail; and where none holds, lists are as rare as where nothing may be watched.
                Err(MirrorFailure::Watch(e)) if !e.is_denied() => {
                    watches_lost += 1;
                    if watches_lost > 1 {
                        sleep(pause(LOOK, listing)).await;
                    }
                    mirror.list_anew();
                    has_failed = true;
                    continue;
                }
                // It may be listed, and not be watched: the lists have a pause of their own, which does not grow.
                Err(MirrorFailure::Watch(_)) => {
                    sleep(pause(LOOK, listing)).await;
                    mirror = self.mirrored.clone().start();
                    continue;
                }
                // A cluster of an older Velero has no definition of some.
                Err(MirrorFailure::List(e))
                    if self.without.is_some() && (e.is_forbidden() || (self.may_be_undefined && e.is_not_found())) =>
                {
                    Ok(ObjectsChange::Forbidden)
                }
                Err(MirrorFailure::List(e)) => {
                    has_failed = true;
                    Err(chain(&e))
                }
                Ok(seen) => {
                    match seen {
                        MirrorEvent::All(_) if !has_failed => listing = begun.elapsed(),
                        MirrorEvent::All(_) => has_failed = false,
                        MirrorEvent::Applied(_) | MirrorEvent::Deleted(_) => watches_lost = 0,
                    }
                    let change = ObjectsChange::of(&seen, self.read);
                    change.map_err(|e| format!("one of the {} cannot be read: {e}", self.kind()))
                }
            };
            let again = match &told {
                Ok(ObjectsChange::Forbidden) => Some(REFUSED),
                Err(_) => Some(pause(BROKEN, listing)),
                Ok(_) => None,
            };
            if news.send(self.news(told)).await.is_err() {
                return;
            }
            if let Some(again) = again {
                mirror.list_anew();
                sleep(again).await;
            }
        }
    }

    fn news(&self, told: Result<ObjectsChange<T>, String>) -> StateUpdate {
        let take = self.take;
        let told = match told {
            Ok(change) => Ok(Box::new(move |known: &mut WatchedState| take(known, change)) as TakeIn),
            Err(why) => Err(self.without.map_or_else(|| why.clone(), |without| format!("{without}: {why}"))),
        };
        StateUpdate::Objects(self.kind(), told)
    }
}

/// Asks the server again and again, until nobody listens.
pub(super) async fn ask(asking: ServerQuery, news: mpsc::Sender<StateUpdate>) {
    let (mut report, mut looked) = (asking.ask().await, Instant::now());
    while news.send(StateUpdate::Server(report.clone())).await.is_ok() {
        sleep(ASK).await;
        let is_due = looked.elapsed() >= ASK_FOR_NEXT;
        if is_due {
            looked = Instant::now();
        }
        report = asking.ask_again(&report, is_due).await;
    }
}
