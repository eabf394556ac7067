//! Existence check before a level is written: finds with few requests which of its objects are in the cluster.
//!
//! A hint, never the truth: an object may come or go meanwhile, and a create that is answered "already exists" takes the
//! same way as one that was seen here.

use crate::state::env::Env;
use crate::walk::levels::Level;
use crate::walk::read::StateDigest;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head, ObjectKey};
use lifeboat_store::Archive;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Below this many objects of a type in a namespace it is cheaper just to try.
const WORTH_A_LIST: usize = 50;
/// Most objects in a list that is read, as a multiple of the objects that the backup has there. Results stay in memory,
/// and for longer lists it is cheaper just to try the creates.
const WORTH_READING: usize = 10;
/// Longest time for the existence check of one level. Objects whose list has not answered by then are unknown.
pub(crate) const LOOK_FOR: Duration = Duration::from_secs(600);
/// So many lists are read at once.
const LISTS_AT_ONCE: usize = 4;

/// State of an object according to the existence check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existence {
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
pub(crate) struct ExistingObjects {
    /// Types and target namespaces that were listed.
    listed: HashSet<ListScope>,
    /// State by key, both as digests.
    found: HashMap<[u8; 16], StateDigest>,
    /// Types and namespaces whose lists had not ended when their time was over.
    unanswered: HashSet<ListScope>,
}

/// Where to look for objects of an archive.
#[derive(Clone, Copy)]
pub(crate) struct ExistenceLookup<'a> {
    pub(crate) archive: &'a Archive,
    pub(crate) catalog: &'a Catalog,
    pub(crate) namespace_mapping: &'a BTreeMap<String, String>,
    /// Set when objects are listed at all; otherwise there is nothing to look at.
    pub(crate) lists: bool,
    pub(crate) env: &'a Env,
}

/// A type, and a target namespace.
pub(crate) type ListScope = (GroupResource, Option<String>);
/// Places, with how many objects of the backup belong there.
pub(crate) type ListScopes = BTreeMap<ListScope, usize>;
/// The key of an object, as a digest, and its state.
type DigestState = ([u8; 16], StateDigest);

impl ExistenceLookup<'_> {
    /// Types and target namespaces of a level that hold enough objects to be listed.
    pub(crate) fn places(&self, level: &Level) -> ListScopes {
        let mut places = ListScopes::new();
        if !self.lists {
            return places;
        }
        for row in level.items.iter().filter_map(|one| self.archive.row(one.row)) {
            let target = row.namespace().map(|name| self.namespace_mapping.get(name).map_or(name, String::as_str));
            *places.entry(((*row.resource).clone(), target.map(str::to_owned))).or_default() += 1;
        }
        // Namespaces have a way of their own.
        places.retain(|(resource, _), count| *count >= WORTH_A_LIST && !resource.is_namespaces());
        places
    }

    /// Lists the metadata of each of these types and namespaces. A list that fails leaves its objects unknown, and so
    /// does one that is far longer than the number of objects that the backup has there, or that has not ended after
    /// this time.
    pub(crate) async fn look(&self, places: ListScopes, time: Duration) -> ExistingObjects {
        let mut out = ExistingObjects { unanswered: places.keys().cloned().collect(), ..ExistingObjects::default() };
        // What was not asked or has not answered by then stays among the unanswered.
        let _ = timeout(time, self.look_into(places, &mut out)).await;
        out
    }

    async fn look_into(&self, places: ListScopes, out: &mut ExistingObjects) {
        let mut left = places.into_iter();
        let mut lists = JoinSet::new();
        loop {
            while lists.len() < LISTS_AT_ONCE
                && !self.env.operation.cancel.is_cancelled()
                && let Some((place, count)) = left.next()
            {
                let Some(api) = self.catalog.find(&place.0) else { continue };
                lists.spawn(list(
                    self.env.cluster.clone(),
                    Arc::clone(api),
                    place,
                    count.saturating_mul(WORTH_READING),
                ));
            }
            let Some(ended) = lists.join_next().await else { return };
            if let Ok((place, _)) = &ended {
                out.unanswered.remove(place);
            }
            match ended {
                Ok((place, Ok(Some(found)))) => {
                    out.found.extend(found);
                    out.listed.insert(place);
                }
                Ok(((resource, namespace), Ok(None))) => {
                    tracing::debug!(%resource, ?namespace, "the list is far longer than the backup, what exists is not known");
                }
                Ok(((resource, namespace), Err(e))) => {
                    tracing::debug!(%resource, ?namespace, error = %e, "what exists is not known");
                }
                Err(e) => tracing::error!(error = %e, "a list died, what exists is not known"),
            }
        }
    }
}

/// Lists the objects of a place: their keys and states; `None` when there are more than `most`.
async fn list(
    cluster: Cluster,
    api: Arc<ApiResource>,
    place: ListScope,
    most: usize,
) -> (ListScope, Result<Option<Vec<DigestState>>, ClusterError>) {
    let (resource, namespace) = &place;
    let request = ListRequest::all(api).in_namespace(namespace.clone()).metadata_only();
    let mut list = cluster.list(request);
    let mut out = Vec::new();
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                for head in bodies.iter().filter_map(|body| Head::parse(body).ok()) {
                    let key = ObjectKey::new(resource.clone(), head.namespace.as_deref(), &*head.name);
                    out.push((key.digest(), StateDigest::of(&head)));
                }
                if out.len() > most {
                    return (place, Ok(None));
                }
            }
            Ok(None) => return (place, Ok(Some(out))),
            Err(e) => return (place, Err(e)),
        }
    }
}

impl ExistingObjects {
    /// The namespaces of which something is known.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().filter_map(|(_, namespace)| namespace.as_deref())
    }

    /// Returns true if the lists of all these types and namespaces have ended, successfully or not.
    pub(crate) fn has_answers(&self, places: &ListScopes) -> bool {
        !places.keys().any(|place| self.unanswered.contains(place))
    }

    /// Returns the state of the object that this object of the backup would become.
    pub(crate) fn look(&self, target: &ObjectKey, in_backup: StateDigest) -> Existence {
        match self.found.get(&target.digest()) {
            Some(found) if *found == in_backup => Existence::Unchanged,
            Some(_) => Existence::Exists,
            None if self.listed.contains(&(target.resource.clone(), target.namespace.clone())) => Existence::Absent,
            None => Existence::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_known_when_all_its_lists_have_ended() {
        let place = |resource: &str| (GroupResource::new("", resource), Some("n".to_owned()));
        let presence = ExistingObjects { unanswered: [place("pods")].into(), ..ExistingObjects::default() };
        let known = |names: &[&str]| presence.has_answers(&names.iter().map(|name| (place(name), 50)).collect());
        assert_eq!((known(&["secrets"]), known(&["secrets", "pods"])), (true, false));
    }

    #[test]
    fn only_the_very_state_of_the_backup_is_unchanged() {
        let state = |uid: &str, version: &str| {
            StateDigest::of(&Head {
                name: "a".into(),
                uid: uid.into(),
                resource_version: version.into(),
                ..Head::default()
            })
        };
        let key =
            |name: &str, namespace: &str| ObjectKey::new(GroupResource::new("", "configmaps"), Some(namespace), name);
        let mut presence = ExistingObjects::default();
        presence.listed.insert((GroupResource::new("", "configmaps"), Some("n".into())));
        presence.found.insert(key("a", "n").digest(), state("u", "1"));
        for (key, state, expected) in [
            (key("a", "n"), state("u", "1"), Existence::Unchanged),
            (key("a", "n"), state("u", "2"), Existence::Exists),
            (key("a", "n"), state("v", "1"), Existence::Exists),
            (key("b", "n"), state("u", "1"), Existence::Absent),
            (key("a", "m"), state("u", "1"), Existence::Unknown),
        ] {
            assert_eq!(presence.look(&key, state), expected, "{key}");
        }
    }
}
