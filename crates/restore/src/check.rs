//! What is there already, found out by few requests before a level is written.
//!
//! A hint, never the truth: an object may come or go meanwhile, and a create that is answered "already exists" takes the
//! same way as one that was seen here.

use crate::env::Env;
use crate::plan::Level;
use crate::read::State;
use lifeboat_cluster::ListRequest;
use lifeboat_object::{Catalog, GroupResource, Head, ObjectKey};
use lifeboat_store::Archive;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Below this many objects of a type in a namespace it is cheaper just to try.
const WORTH_A_LIST: usize = 50;

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

/// The objects of one level that were found in the cluster.
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
        for (resource, namespace) in places {
            if self.env.cancel.is_cancelled() {
                break;
            }
            if let Err(e) = self.list(&resource, namespace.as_deref(), &mut out).await {
                tracing::debug!(%resource, ?namespace, error = %e, "what exists is not known");
                continue;
            }
            out.listed.insert((resource, namespace));
        }
        out
    }

    async fn list(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        out: &mut Presence,
    ) -> Result<(), lifeboat_cluster::ClusterError> {
        let Some(found) = self.catalog.find(resource) else { return Ok(()) };
        let mut list = self.env.cluster.list(ListRequest {
            resource: Arc::clone(found),
            namespace: namespace.map(str::to_owned),
            selector: String::new(),
            metadata_only: true,
        });
        while let Some(bodies) = list.next().await? {
            for head in bodies.iter().filter_map(|body| Head::parse(body).ok()) {
                let key = ObjectKey::new(resource.clone(), head.namespace.as_deref(), &*head.name);
                out.found.insert(key.digest(), State::of(&head));
            }
        }
        Ok(())
    }
}

/// A look at the first level that is worth one, taken while the archive is still being read.
pub(crate) struct Ahead {
    /// Name of the level.
    pub(crate) level: String,
    pub(crate) presence: Presence,
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
