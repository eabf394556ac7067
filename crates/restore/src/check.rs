//! What is there already, found out by few requests before a level is written.
//!
//! A hint, never the truth: an object may come or go meanwhile, and a create that is answered "already exists" takes the
//! same way as one that was seen here.

use crate::env::Env;
use crate::item::{Action, Done};
use crate::plan::Level;
use crate::read::State;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head, ObjectKey};
use lifeboat_store::Archive;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Below this many objects of a type in a namespace it is cheaper just to try.
const WORTH_A_LIST: usize = 50;
/// So many lists are read at once.
const LISTS_AT_ONCE: usize = 4;
/// So many objects of the archive are looked for ahead of their level, and all of the first one: what is seen is kept in
/// memory until its level comes.
const AHEAD: usize = 100_000;

/// What was seen of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Not looked for.
    Unknown,
    /// Not there.
    Absent,
    /// There, and the very state that the backup holds.
    Unchanged,
    /// There, in another state.
    Exists,
}

/// The objects of some levels that were found in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// Types and target namespaces that were listed.
    listed: HashSet<Place>,
    /// State by key, both as digests.
    found: HashMap<[u8; 16], State>,
}

/// Where to look for objects of an archive.
#[derive(Clone, Copy)]
pub(crate) struct Lookout<'a> {
    pub(crate) archive: &'a Archive,
    pub(crate) catalog: &'a Catalog,
    pub(crate) namespace_mapping: &'a BTreeMap<String, String>,
    pub(crate) env: &'a Env,
}

/// A type, and a target namespace.
type Place = (GroupResource, Option<String>);
/// The key of an object, as a digest, and its state.
type Found = ([u8; 16], State);

impl Lookout<'_> {
    /// Types and target namespaces of a level that hold enough objects to be listed.
    pub(crate) fn places(&self, level: &Level) -> Vec<Place> {
        let mut places: BTreeMap<Place, usize> = BTreeMap::new();
        for row in level.items.iter().filter_map(|one| self.archive.row(one.row)) {
            let target = row.namespace().map(|name| self.namespace_mapping.get(name).map_or(name, String::as_str));
            *places.entry(((*row.resource).clone(), target.map(str::to_owned))).or_default() += 1;
        }
        // Namespaces have a way of their own.
        let namespaces = GroupResource::new("", "namespaces");
        let worth = |((resource, _), count): &(Place, usize)| *count >= WORTH_A_LIST && *resource != namespaces;
        places.into_iter().filter(worth).map(|(place, _)| place).collect()
    }

    /// One list of metadata for each of these places. A list that fails leaves its objects unknown.
    pub(crate) async fn look(&self, places: Vec<Place>) -> Presence {
        let mut out = Presence::default();
        let mut left = places.into_iter();
        let mut lists = JoinSet::new();
        loop {
            while lists.len() < LISTS_AT_ONCE
                && !self.env.cancel.is_cancelled()
                && let Some(place) = left.next()
            {
                let Some(found) = self.catalog.find(&place.0) else { continue };
                lists.spawn(list(self.env.cluster.clone(), Arc::clone(found), place));
            }
            let Some(ended) = lists.join_next().await else { return out };
            match ended {
                Ok((place, Ok(found))) => {
                    out.found.extend(found);
                    out.listed.insert(place);
                }
                Ok(((resource, namespace), Err(e))) => {
                    tracing::debug!(%resource, ?namespace, error = %e, "what exists is not known");
                }
                Err(e) => tracing::error!(error = %e, "a list died, what exists is not known"),
            }
        }
    }

    /// Looks at the first levels that are worth it, before anything is written.
    pub(crate) async fn look_ahead(&self, levels: Vec<Level>) -> Ahead {
        let levels = levels.into_iter().map(|level| (self.places(&level), level.items.len(), level.name));
        let (levels, places) = worth_a_look(levels);
        Ahead { levels, presence: Arc::new(self.look(places).await) }
    }
}

/// Lists the objects of a place: their keys and states.
async fn list(cluster: Cluster, found: Arc<ApiResource>, place: Place) -> (Place, Result<Vec<Found>, ClusterError>) {
    let (resource, namespace) = &place;
    let request =
        ListRequest { resource: found, namespace: namespace.clone(), selector: String::new(), metadata_only: true };
    let mut list = cluster.list(request);
    let mut out = Vec::new();
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                for head in bodies.iter().filter_map(|body| Head::parse(body).ok()) {
                    let key = ObjectKey::new(resource.clone(), head.namespace.as_deref(), &*head.name);
                    out.push((key.digest(), State::of(&head)));
                }
            }
            Ok(None) => return (place, Ok(out)),
            Err(e) => return (place, Err(e)),
        }
    }
}

/// Of levels with their places and how many objects they have: those to look at ahead, and all their places.
fn worth_a_look(levels: impl IntoIterator<Item = (Vec<Place>, usize, String)>) -> (BTreeSet<String>, Vec<Place>) {
    let (mut names, mut all) = (BTreeSet::new(), Vec::new());
    let mut objects = 0;
    for (places, count, name) in levels.into_iter().filter(|(places, ..)| !places.is_empty()) {
        objects += count;
        if objects > AHEAD && !names.is_empty() {
            break;
        }
        names.insert(name);
        all.extend(places);
    }
    (names, all)
}

/// What was seen while the archive was still being read, of levels that are to come.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Names of the levels.
    levels: BTreeSet<String>,
    presence: Arc<Presence>,
}

impl Ahead {
    /// What was seen of this level, once.
    pub(crate) fn take(&mut self, level: &str) -> Option<Arc<Presence>> {
        let presence = self.levels.remove(level).then(|| Arc::clone(&self.presence));
        if self.levels.is_empty() {
            self.presence = Arc::default();
        }
        presence
    }

    /// What was seen no longer counts when this may have changed something.
    pub(crate) fn forget_after(&mut self, done: &[Done]) {
        if !self.levels.is_empty() && done.iter().any(|one| one.action != Action::Skipped) {
            *self = Self::default();
        }
    }
}

impl Presence {
    /// What was seen of the object that this one of the backup would become.
    pub(crate) fn look(&self, target: &ObjectKey, in_backup: State) -> Seen {
        match self.found.get(&target.digest()) {
            Some(found) if *found == in_backup => Seen::Unchanged,
            Some(_) => Seen::Exists,
            None if self.listed.contains(&(target.resource.clone(), target.namespace.clone())) => Seen::Absent,
            None => Seen::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_levels_are_looked_at_ahead() {
        let place = |resource: &str| (GroupResource::new("", resource), Some("n".to_owned()));
        let level = |name: &str, count: usize| (vec![place(name)], count, name.to_owned());
        let few = (Vec::new(), 3, "few".to_owned());
        for (levels, expected) in [
            (vec![few.clone()], vec![]),
            (vec![few, level("a", 1), level("b", 2)], vec!["a", "b"]),
            (vec![level("a", AHEAD - 1), level("b", 2), level("c", 1)], vec!["a"]),
            (vec![level("a", AHEAD + 1), level("b", 1)], vec!["a"]),
        ] {
            let (names, places) = worth_a_look(levels);
            assert_eq!(names, expected.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(places, expected.iter().map(|name| place(name)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_was_seen_ahead_counts_once_and_until_something_is_written() {
        let done = |action| [Done { row: 0, action }];
        let ahead = || {
            let mut ahead = Ahead { levels: ["a", "b"].map(str::to_owned).into(), presence: Arc::default() };
            (ahead.take("a").is_some(), ahead.take("a").is_some(), ahead)
        };
        for (action, counts) in
            [(Action::Skipped, true), (Action::Created, false), (Action::Updated, false), (Action::Failed, false)]
        {
            let (first, again, mut ahead) = ahead();
            ahead.forget_after(&done(action));
            assert_eq!((first, again, ahead.take("b").is_some()), (true, false, counts), "{action:?}");
        }
    }

    #[test]
    fn only_the_very_state_of_the_backup_is_unchanged() {
        let state = |uid: &str, version: &str| {
            State::of(&Head { name: "a".into(), uid: uid.into(), resource_version: version.into(), ..Head::default() })
        };
        let key =
            |name: &str, namespace: &str| ObjectKey::new(GroupResource::new("", "configmaps"), Some(namespace), name);
        let mut presence = Presence::default();
        presence.listed.insert((GroupResource::new("", "configmaps"), Some("n".into())));
        presence.found.insert(key("a", "n").digest(), state("u", "1"));
        for (key, state, expected) in [
            (key("a", "n"), state("u", "1"), Seen::Unchanged),
            (key("a", "n"), state("u", "2"), Seen::Exists),
            (key("a", "n"), state("v", "1"), Seen::Exists),
            (key("b", "n"), state("u", "1"), Seen::Absent),
            (key("a", "m"), state("u", "1"), Seen::Unknown),
        ] {
            assert_eq!(presence.look(&key, state), expected, "{key}");
        }
    }
}
