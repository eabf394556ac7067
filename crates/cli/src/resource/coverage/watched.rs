//! What `lifeboat status --watch` shows, kept up to date by watches.

use super::looked::{Asking, View, WITHOUT_CLAIMS, WITHOUT_NAMESPACES};
use anyhow::{Result, bail};
use lifeboat_api::{Backup, BackupStorageLocation, DeleteBackupRequest, ObjectMeta, Restore, Schedule};
use lifeboat_client::{Client, Object, api_resource};
use lifeboat_cluster::metadata_of;
use lifeboat_control::{Inventory, namespace_to_protect};
use lifeboat_object::{ApiResource, chain};
use lifeboat_reconcile::{Mirrored, Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

/// The shortest time between two screens.
const PACE: Duration = Duration::from_secs(1);
/// The longest one: ages change, when nothing else does.
const AGES: Duration = Duration::from_secs(5);
/// A screen, or a list, takes a tenth of the time at most: the pause after it is so many times as long.
const SHARE: u32 = 9;
/// Between two lists of what may be listed and not watched.
const LOOK: Duration = Duration::from_secs(5);
/// Between two questions to the server, each of which is an object of the cluster, and between two lists that are refused.
const ASK: Duration = Duration::from_secs(30);
/// News that wait until they are taken in.
const WAITING: usize = 64;

/// Shows the status again and again: soon after something has changed, and when ages have. `show` is given what is known, or why something is
/// not; the first time, when all is known or something cannot be read.
///
/// # Errors
/// Those of `show`.
pub(super) async fn watch(
    client: &Client,
    asking: Asking,
    mut show: impl FnMut(Result<View<'_>, String>) -> Result<()>,
) -> Result<()> {
    let (sender, mut news) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    let mut known = begin(client, &mut tasks, &sender);
    tasks.spawn(ask(asking, sender));
    let (mut due, mut last) = (Instant::now(), None);
    loop {
        let until = last.map_or_else(|| Instant::now() + ASK, |last: Instant| due.max(last + AGES));
        match timeout_at(until, news.recv()).await {
            Ok(Some(one)) => known.take(one),
            Ok(None) => bail!("the watches of the cluster have ended"),
            Err(_) => {}
        }
        // What comes before the next screen is due is shown with it.
        while let Ok(Some(one)) = timeout_at(due, news.recv()).await {
            known.take(one);
        }
        let Some(shown) = known.shown() else { continue };
        let begun = Instant::now();
        show(shown)?;
        (due, last) = (Instant::now() + pause(PACE, begun.elapsed()), Some(begun));
    }
}

/// How long it is until something that took so long is done again.
fn pause(least: Duration, took: Duration) -> Duration {
    least.max(took.saturating_mul(SHARE))
}

/// What is known of the cluster.
#[derive(Default)]
struct Known {
    /// The namespace of the server.
    own: String,
    inventory: Inventory,
    /// The names of the claims of each namespace; `None` when they may not be listed.
    claims: Option<BTreeMap<String, BTreeSet<String>>>,
    server: Option<Result<String, String>>,
    /// Types that are not known now; with the reason, unless they are just being read.
    unknown: BTreeMap<String, Option<String>>,
}

/// Takes in what has changed.
type TakeIn = Box<dyn FnOnce(&mut Known) + Send>;

/// What there is new to know.
enum News {
    /// Of the objects of this type: what changes it, or why they cannot be read.
    Objects(String, Result<TakeIn, String>),
    /// Of the server: its version, or why that is not known.
    Server(Result<String, String>),
}

impl Known {
    fn take(&mut self, news: News) {
        match news {
            News::Server(answer) => self.server = Some(answer),
            News::Objects(kind, Ok(change)) => {
                self.unknown.remove(&kind);
                change(self);
            }
            News::Objects(kind, Err(why)) => drop(self.unknown.insert(kind, Some(why))),
        }
    }

    /// What is to be shown; `None` as long as all is just being read.
    fn shown(&mut self) -> Option<Result<View<'_>, String>> {
        if let Some(why) = self.unknown.values().flatten().next() {
            return Some(Err(why.clone()));
        }
        let server = self.server.as_ref().filter(|_| self.unknown.is_empty())?;
        for one in &mut self.inventory.namespaces {
            let of = |claims: &BTreeMap<_, BTreeSet<String>>| claims.get(&one.facts.name).map_or(0, BTreeSet::len);
            one.claims = self.claims.as_ref().map(|claims| of(claims) as u64);
        }
        Some(Ok(View { inventory: &self.inventory, server }))
    }

    fn see_namespaces(&mut self, change: Change<ObjectMeta>) {
        let namespaces = &mut self.inventory.namespaces;
        self.inventory.namespaces_are_hidden = matches!(change, Change::Forbidden);
        match change {
            Change::Forbidden => namespaces.clear(),
            Change::All(all) => {
                *namespaces = all.into_iter().filter_map(|one| namespace_to_protect(one, &self.own)).collect();
            }
            Change::Is(one) => {
                namespaces.retain(|known| known.facts.name != one.name);
                namespaces.extend(namespace_to_protect(one, &self.own));
            }
            Change::Gone(one) => namespaces.retain(|known| known.facts.name != one.name),
        }
    }

    fn see_claims(&mut self, change: Change<ObjectMeta>) {
        let add = |claims: &mut BTreeMap<String, BTreeSet<String>>, one: ObjectMeta| {
            claims.entry(one.namespace).or_default().insert(one.name);
        };
        if let Change::Forbidden = change {
            self.claims = None;
            return;
        }
        let known = self.claims.get_or_insert_default();
        match change {
            Change::Forbidden => {}
            Change::All(all) => {
                known.clear();
                all.into_iter().for_each(|one| add(known, one));
            }
            Change::Is(one) => add(known, one),
            Change::Gone(one) => {
                if let Some(claims) = known.get_mut(&one.namespace) {
                    claims.remove(&one.name);
                }
            }
        }
    }
}

/// What was seen of the objects of a type.
enum Change<T> {
    /// All that there are.
    All(Vec<T>),
    /// One that is new, or is like this now.
    Is(T),
    /// One that is gone.
    Gone(T),
    /// They may not be listed.
    Forbidden,
}

/// Reads an object out of its JSON.
type Read<T> = fn(&[u8]) -> serde_json::Result<T>;

impl<T> Change<T> {
    fn of(seen: &Seen, read: Read<T>) -> serde_json::Result<Self> {
        match seen {
            Seen::All(bodies) => bodies.iter().map(|body| read(body)).collect::<Result<_, _>>().map(Self::All),
            Seen::Applied(body) => read(body).map(Self::Is),
            Seen::Deleted(body) => read(body).map(Self::Gone),
        }
    }

    /// Brings a list up to date that is in the order of the names.
    fn apply(self, all: &mut Vec<T>, name: fn(&T) -> &str) {
        let find = |all: &[T], one: &T| all.binary_search_by(|known| name(known).cmp(name(one)));
        match self {
            Self::All(mut seen) => {
                // A list may hand one out twice.
                seen.sort_by(|a, b| name(a).cmp(name(b)));
                seen.dedup_by(|a, b| name(a) == name(b));
                *all = seen;
            }
            Self::Is(one) => match find(all, &one) {
                Ok(at) => all[at] = one,
                Err(at) => all.insert(at, one),
            },
            Self::Gone(one) => {
                if let Ok(at) = find(all, &one) {
                    all.remove(at);
                }
            }
            Self::Forbidden => all.clear(),
        }
    }
}

/// Begins to follow all that is shown of the cluster; nothing of it is known yet.
fn begin(client: &Client, tasks: &mut JoinSet<()>, news: &mpsc::Sender<News>) -> Known {
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
    let namespaces = ApiResource::namespaces();
    following.metadata(namespaces, WITHOUT_NAMESPACES, Known::see_namespaces);
    following.metadata(ApiResource::persistent_volume_claims(), WITHOUT_CLAIMS, Known::see_claims);
    let unknown = following.unknown;
    Known { own: client.namespace.clone(), unknown, ..Known::default() }
}

/// Begins to follow types.
struct Following<'a> {
    client: &'a Client,
    tasks: &'a mut JoinSet<()>,
    news: &'a mpsc::Sender<News>,
    unknown: BTreeMap<String, Option<String>>,
}

impl Following<'_> {
    /// Follows a type of ours in the namespace of the server.
    fn own<T: Object>(&mut self, take: fn(&mut Known, Change<T>)) {
        let (resource, namespace) = (api_resource::<T>(), Some(self.client.namespace.clone()));
        let cluster = self.client.cluster.clone();
        let mirrored = Mirrored { cluster, resource, namespace, metadata_only: false };
        self.follow(Followed { mirrored, without: None, read: |body| serde_json::from_slice(body), take });
    }

    /// Follows the metadata of all objects of a type; `without` says what is missed without them.
    fn metadata(&mut self, resource: ApiResource, without: &'static str, take: fn(&mut Known, Change<ObjectMeta>)) {
        let (cluster, resource) = (self.client.cluster.clone(), Arc::new(resource));
        let mirrored = Mirrored { cluster, resource, namespace: None, metadata_only: true };
        self.follow(Followed { mirrored, without: Some(without), read: metadata_of, take });
    }

    fn follow<T: Send + 'static>(&mut self, followed: Followed<T>) {
        self.unknown.insert(followed.kind(), None);
        self.tasks.spawn(followed.follow(self.news.clone()));
    }
}

/// A type that is followed.
struct Followed<T> {
    mirrored: Mirrored,
    /// What is missed without its objects, where they are not needed for all else.
    without: Option<&'static str>,
    read: Read<T>,
    take: fn(&mut Known, Change<T>),
}

impl<T: Send + 'static> Followed<T> {
    fn kind(&self) -> String {
        self.mirrored.resource.resource.clone()
    }

    /// Tells what becomes of the objects, until nobody listens.
    async fn follow(self, news: mpsc::Sender<News>) {
        let mut mirror = self.mirrored.clone().start();
        let mut listing = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let told = match mirror.next().await {
                // The next list says whether something is wrong, and if not, all that was missed.
                Err(e) if e.verb == "watch" && !e.is_denied() => {
                    mirror.list_anew();
                    continue;
                }
                // It may be listed, and not be watched.
                Err(e) if e.verb == "watch" => {
                    sleep(pause(LOOK, listing)).await;
                    mirror = self.mirrored.clone().start();
                    continue;
                }
                Err(e) if e.is_forbidden() && self.without.is_some() => Ok(Change::Forbidden),
                Err(e) => Err(chain(&e)),
                Ok(seen) => {
                    if matches!(seen, Seen::All(_)) {
                        listing = begun.elapsed();
                    }
                    let change = Change::of(&seen, self.read);
                    change.map_err(|e| format!("one of the {} cannot be read: {e}", self.kind()))
                }
            };
            let again = match &told {
                Ok(Change::Forbidden) => Some(ASK),
                Err(_) => Some(pause(PACE, listing)),
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

    fn news(&self, told: Result<Change<T>, String>) -> News {
        let take = self.take;
        let told = match told {
            Ok(change) => Ok(Box::new(move |known: &mut Known| take(known, change)) as TakeIn),
            Err(why) => Err(self.without.map_or_else(|| why.clone(), |without| format!("{without}: {why}"))),
        };
        News::Objects(self.kind(), told)
    }
}

/// Asks the server again and again, until nobody listens.
async fn ask(asking: Asking, news: mpsc::Sender<News>) {
    loop {
        if news.send(News::Server(asking.ask().await)).await.is_err() {
            return;
        }
        sleep(ASK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_done_rarely() {
        let seconds = Duration::from_secs;
        for (took, expected) in [(0, 5), (1, 9), (30, 270)] {
            assert_eq!(pause(seconds(5), seconds(took)), seconds(expected));
        }
    }

    #[test]
    fn a_list_stays_in_the_order_of_names_whatever_changes() {
        let mut all = Vec::new();
        let mut seen = Vec::new();
        for change in [
            Change::All(vec!["c1", "a1", "c1"]),
            Change::Is("b1"),
            Change::Is("c2"),
            Change::Gone("a1"),
            Change::Gone("d1"),
            Change::All(vec!["e1"]),
        ] {
            change.apply(&mut all, |one| &one[..1]);
            seen.push(all.join(" "));
        }
        assert_eq!(seen, ["a1 c1", "a1 b1 c1", "a1 b1 c2", "b1 c2", "b1 c2", "e1"]);
    }

    fn object(namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta { namespace: namespace.to_owned(), name: name.to_owned(), ..ObjectMeta::default() }
    }

    #[test]
    fn nothing_is_shown_until_all_is_known_and_what_cannot_be_read_is_told() {
        let mut known = Known { own: "velero".to_owned(), ..Known::default() };
        known.unknown = [("namespaces".to_owned(), None), ("persistentvolumeclaims".to_owned(), None)].into();
        let objects = |kind: &str, change: fn(&mut Known)| News::Objects(kind.to_owned(), Ok(Box::new(change)));
        let shown = |known: &mut Known| {
            let claims = |view: View<'_>| {
                let all = view.inventory.namespaces.iter();
                all.map(|one| format!("{} {:?}", one.facts.name, one.claims)).collect::<Vec<_>>().join(", ")
            };
            known.shown().map(|shown| shown.map_or_else(|why| why, claims))
        };
        known.take(News::Server(Ok("v1".to_owned())));
        known.take(objects("namespaces", |known| {
            known.see_namespaces(Change::All(["velero", "shop", "web"].map(|name| object("", name)).into()));
        }));
        assert_eq!(shown(&mut known), None);
        known.take(objects("persistentvolumeclaims", |known| {
            known.see_claims(Change::All(
                [("shop", "a"), ("shop", "b"), ("web", "a")].map(|(n, c)| object(n, c)).into(),
            ));
        }));
        assert_eq!(shown(&mut known).as_deref(), Some("shop Some(2), web Some(1)"));
        known.take(objects("persistentvolumeclaims", |known| known.see_claims(Change::Gone(object("shop", "b")))));
        known.take(objects("namespaces", |known| known.see_namespaces(Change::Gone(object("", "web")))));
        assert_eq!(shown(&mut known).as_deref(), Some("shop Some(1)"));
        known.take(News::Objects("namespaces".to_owned(), Err("no route".to_owned())));
        assert_eq!(shown(&mut known).as_deref(), Some("no route"));
        known.take(objects("namespaces", |known| known.see_namespaces(Change::Is(object("", "new")))));
        assert_eq!(shown(&mut known).as_deref(), Some("shop Some(1), new Some(0)"));
        known.take(objects("persistentvolumeclaims", |known| known.see_claims(Change::Forbidden)));
        assert_eq!(shown(&mut known).as_deref(), Some("shop None, new None"));
        known.take(objects("namespaces", |known| known.see_namespaces(Change::Forbidden)));
        assert!(known.inventory.namespaces_are_hidden);
        assert_eq!(shown(&mut known).as_deref(), Some(""));
    }
}
