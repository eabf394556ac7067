//! Current state of the cluster while the status is watched, and updates of it. Pure.

use super::looked::ServerReport;
use jiff::Timestamp;
use lifeboat_api::ObjectMeta;
use lifeboat_lifecycle::coverage::{Inventory, namespace_to_protect};
use lifeboat_reconcile::MirrorEvent;
use lifeboat_view::status::StatusInput;
use lifeboat_view::transfer::rates::TransferRates;
use lifeboat_view::transfer::{VolumeTransfer, sort_transfers};
use std::collections::{BTreeMap, BTreeSet};

/// The current state of the cluster.
#[derive(Default)]
pub(super) struct WatchedState {
    /// The namespace of the server.
    own: String,
    pub(super) inventory: Inventory,
    /// The names of the claims of each namespace; `None` when they may not be listed.
    claims: Option<BTreeMap<String, BTreeSet<String>>>,
    server: Option<Result<String, String>>,
    /// The transfers of volumes that go on, of each kind in the order of their names.
    transfers: BTreeMap<&'static str, Vec<VolumeTransfer>>,
    /// The same of all kinds, as they were shown last.
    shown_transfers: Vec<VolumeTransfer>,
    rates: TransferRates,
    /// Types that are not known now; with the reason, unless they are just being read.
    unknown: BTreeMap<String, Option<String>>,
}

/// Takes in what has changed.
pub(super) type TakeIn = Box<dyn FnOnce(&mut WatchedState) + Send>;

/// An update of the state.
pub(super) enum StateUpdate {
    /// Of the objects of this type: what changes it, or why they cannot be read.
    Objects(String, Result<TakeIn, String>),
    /// The last answers of the server.
    Server(ServerReport),
}

impl WatchedState {
    /// Before anything was read. `own` is the namespace of the server, `unknown` are the types that are being read.
    pub(super) fn new(own: String, unknown: BTreeMap<String, Option<String>>) -> Self {
        Self { own, unknown, ..Self::default() }
    }

    pub(super) fn take(&mut self, news: StateUpdate) {
        match news {
            StateUpdate::Server(ServerReport { version, next_backups }) => {
                self.server = Some(version);
                self.inventory.next_backups = next_backups;
            }
            StateUpdate::Objects(kind, Ok(change)) => {
                self.unknown.remove(&kind);
                change(self);
            }
            StateUpdate::Objects(kind, Err(why)) => drop(self.unknown.insert(kind, Some(why))),
        }
    }

    /// Returns the view to show at a time; `None` while the first lists are still being read.
    pub(super) fn shown(&mut self, now: Timestamp) -> Option<Result<StatusInput<'_>, String>> {
        if let Some(why) = self.unknown.values().flatten().next() {
            return Some(Err(why.clone()));
        }
        let server = self.server.as_ref().filter(|_| self.unknown.is_empty())?;
        for one in self.inventory.namespaces.iter_mut().flatten() {
            let of = |claims: &BTreeMap<_, BTreeSet<String>>| claims.get(&one.facts.name).map_or(0, BTreeSet::len);
            one.claims = self.claims.as_ref().map(|claims| of(claims) as u64);
        }
        self.shown_transfers = self.transfers.values().flatten().cloned().collect();
        sort_transfers(&mut self.shown_transfers);
        self.rates.note(&mut self.shown_transfers, now);
        Some(Ok(StatusInput { inventory: &self.inventory, server, transfers: &self.shown_transfers }))
    }

    /// Takes in transfers of a kind. Those that have ended are not kept.
    pub(super) fn see_transfers(&mut self, kind: &'static str, change: ObjectsChange<VolumeTransfer>) {
        let all = self.transfers.entry(kind).or_default();
        change.apply(all, |one| &one.name);
        all.retain(|one| !one.has_ended());
    }

    pub(super) fn see_namespaces(&mut self, change: ObjectsChange<ObjectMeta>) {
        if let ObjectsChange::Forbidden = change {
            self.inventory.namespaces = None;
            return;
        }
        let namespaces = self.inventory.namespaces.get_or_insert_default();
        match change {
            ObjectsChange::Forbidden => {}
            ObjectsChange::All(all) => {
                *namespaces = all.into_iter().filter_map(|one| namespace_to_protect(one, &self.own)).collect();
            }
            ObjectsChange::Is(one) => {
                namespaces.retain(|known| known.facts.name != one.name);
                namespaces.extend(namespace_to_protect(one, &self.own));
            }
            ObjectsChange::Gone(one) => namespaces.retain(|known| known.facts.name != one.name),
        }
    }

    pub(super) fn see_claims(&mut self, change: ObjectsChange<ObjectMeta>) {
        let add = |claims: &mut BTreeMap<String, BTreeSet<String>>, one: ObjectMeta| {
            claims.entry(one.namespace).or_default().insert(one.name);
        };
        if let ObjectsChange::Forbidden = change {
            self.claims = None;
            return;
        }
        let known = self.claims.get_or_insert_default();
        match change {
            ObjectsChange::Forbidden => {}
            ObjectsChange::All(all) => {
                known.clear();
                all.into_iter().for_each(|one| add(known, one));
            }
            ObjectsChange::Is(one) => add(known, one),
            ObjectsChange::Gone(one) => {
                if let Some(claims) = known.get_mut(&one.namespace) {
                    claims.remove(&one.name);
                }
            }
        }
    }
}

/// A change of the objects of a type.
pub(super) enum ObjectsChange<T> {
    /// All that there are.
    All(Vec<T>),
    /// An object that is new, or has changed.
    Is(T),
    /// An object that is gone.
    Gone(T),
    /// They may not be listed.
    Forbidden,
}

/// Reads an object out of its JSON.
pub(super) type ObjectParser<T> = fn(&[u8]) -> serde_json::Result<T>;

impl<T> ObjectsChange<T> {
    pub(super) fn of(seen: &MirrorEvent, read: ObjectParser<T>) -> serde_json::Result<Self> {
        match seen {
            MirrorEvent::All(bodies) => bodies.iter().map(|body| read(body)).collect::<Result<_, _>>().map(Self::All),
            MirrorEvent::Applied(body) => read(body).map(Self::Is),
            MirrorEvent::Deleted(body) => read(body).map(Self::Gone),
        }
    }

    /// Brings a list up to date that is in the order of the names.
    pub(super) fn apply(self, all: &mut Vec<T>, name: fn(&T) -> &str) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_lifecycle::next_backups::{NextBackup, NextBackups};
    use lifeboat_view::status::StatusScreen;

    #[test]
    fn a_list_stays_in_the_order_of_names_whatever_changes() {
        let mut all = Vec::new();
        let mut seen = Vec::new();
        for change in [
            ObjectsChange::All(vec!["c1", "a1", "c1"]),
            ObjectsChange::Is("b1"),
            ObjectsChange::Is("c2"),
            ObjectsChange::Gone("a1"),
            ObjectsChange::Gone("d1"),
            ObjectsChange::All(vec!["e1"]),
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
        let mut known = WatchedState { own: "velero".to_owned(), ..WatchedState::default() };
        known.unknown = [("namespaces".to_owned(), None), ("persistentvolumeclaims".to_owned(), None)].into();
        let objects =
            |kind: &str, change: fn(&mut WatchedState)| StateUpdate::Objects(kind.to_owned(), Ok(Box::new(change)));
        let shown = |known: &mut WatchedState| {
            let claims = |view: StatusInput<'_>| {
                let all = view.inventory.namespaces.iter().flatten();
                all.map(|one| format!("{} {:?}", one.facts.name, one.claims)).collect::<Vec<_>>().join(", ")
            };
            known.shown(Timestamp::UNIX_EPOCH).map(|shown| shown.map_or_else(|why| why, claims))
        };
        known.take(StateUpdate::Server(ServerReport { version: Ok("v1".to_owned()), next_backups: None }));
        known.take(objects("namespaces", |known| {
            known.see_namespaces(ObjectsChange::All(["velero", "shop", "web"].map(|name| object("", name)).into()));
        }));
        assert_eq!(shown(&mut known), None);
        known.take(objects("persistentvolumeclaims", |known| {
            known.see_claims(ObjectsChange::All(
                [("shop", "a"), ("shop", "b"), ("web", "a")].map(|(n, c)| object(n, c)).into(),
            ));
        }));
        assert_eq!(shown(&mut known).as_deref(), Some("shop Some(2), web Some(1)"));
        known.take(objects("persistentvolumeclaims", |known| {
            known.see_claims(ObjectsChange::Gone(object("shop", "b")));
        }));
        known.take(objects("namespaces", |known| known.see_namespaces(ObjectsChange::Gone(object("", "web")))));
        assert_eq!(shown(&mut known).as_deref(), Some("shop Some(1)"));
        known.take(StateUpdate::Objects("namespaces".to_owned(), Err("no route".to_owned())));
        assert_eq!(shown(&mut known).as_deref(), Some("no route"));
        known.take(objects("namespaces", |known| known.see_namespaces(ObjectsChange::Is(object("", "new")))));
        assert_eq!(shown(&mut known).as_deref(), Some("shop Some(1), new Some(0)"));
        known.take(objects("persistentvolumeclaims", |known| known.see_claims(ObjectsChange::Forbidden)));
        assert_eq!(shown(&mut known).as_deref(), Some("shop None, new None"));
        known.take(objects("namespaces", |known| known.see_namespaces(ObjectsChange::Forbidden)));
        assert!(known.inventory.namespaces.is_none());
        assert_eq!(shown(&mut known).as_deref(), Some(""));
    }

    #[test]
    fn a_watched_status_says_what_the_next_backups_would_not_save() {
        let mut known = WatchedState::default();
        let attention = |known: &mut WatchedState| {
            let shown = known.shown(Timestamp::UNIX_EPOCH).unwrap().unwrap();
            let status = StatusScreen::of(shown, "velero", "lifeboat", Timestamp::UNIX_EPOCH);
            status.coverage.attention.into_iter().map(|one| one.what).collect::<Vec<_>>()
        };
        let report = |version: Result<&str, &str>, next_backups| {
            let version = version.map(str::to_owned).map_err(str::to_owned);
            StateUpdate::Server(ServerReport { version, next_backups })
        };
        let leaves_out = NextBackup::of(&[("shop/data".to_owned(), "no driver".to_owned())], String::new());
        let next = NextBackups { schedules: [("nightly".to_owned(), leaves_out)].into(), unknown: String::new() };
        known.take(report(Ok("v1"), Some(next)));
        let with_volume = attention(&mut known);
        assert!(with_volume.iter().any(|what| what.contains("shop/data (no driver)")), "{with_volume:?}");
        known.take(report(Err("no server"), None));
        let without = attention(&mut known);
        assert!(!without.iter().any(|what| what.contains("shop/data")), "of a server that is gone: {without:?}");
    }

    #[test]
    fn transfers_that_go_on_are_shown_with_their_rate_and_gone_when_they_end() {
        let mut known = WatchedState::default();
        known.take(StateUpdate::Server(ServerReport { version: Ok("v1".to_owned()), next_backups: None }));
        let upload = |phase: &str, second: i64| {
            let at = Timestamp::from_second(second).unwrap().to_string();
            let start = Timestamp::UNIX_EPOCH.to_string();
            let body = serde_json::json!({
                "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
                "metadata": {"name": "du-1", "uid": "u", "annotations": {"lifeboat.io/moved-at": at}},
                "spec": {"snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop",
                    "backupStorageLocation": "default", "operationTimeout": "10m0s"},
                "status": {"phase": phase, "startTimestamp": start, "progress": {"bytesDone": second << 20, "totalBytes": 1 << 30}},
            });
            VolumeTransfer::parse::<lifeboat_api::DataUpload>(body.to_string().as_bytes()).unwrap()
        };
        let mut lines = |change| {
            known.see_transfers("DataUpload", change);
            let shown = known.shown(Timestamp::from_second(30).unwrap()).unwrap().unwrap();
            shown.transfers.iter().map(VolumeTransfer::line).collect::<Vec<_>>()
        };
        let first = "shop/data InProgress: 10.0 MiB of 1.0 GiB (0 %), 1.0 MiB/s, 16 min 54 s left";
        assert_eq!(lines(ObjectsChange::All(vec![upload("InProgress", 10)])), [first]);
        let second = "shop/data InProgress: 20.0 MiB of 1.0 GiB (1 %), 1.0 MiB/s, 16 min 44 s left";
        assert_eq!(lines(ObjectsChange::Is(upload("InProgress", 20))), [second]);
        assert_eq!(lines(ObjectsChange::Is(upload("Completed", 20))), Vec::<String>::new());
    }
}
