//! Resolves the lists of types that a person wrote to the types of a cluster.

use crate::includes::IncludesExcludes;
use lifeboat_object::{ApiResource, Catalog};

/// Types of CSI snapshots, namespaced and cluster-scoped. They come into a backup with their volumes, never by
/// themselves.
pub(crate) const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
pub(crate) const SNAPSHOT_CONTENTS: &str = "volumesnapshotcontents.snapshot.storage.k8s.io";

/// Resolves entries of lists, and remembers entries that the user should be told of.
pub(crate) struct Resolver<'a> {
    catalog: &'a Catalog,
    /// Entries that are neither patterns nor known to discovery.
    pub(crate) unresolved: Vec<String>,
    /// Entries that name a type of the other scope than their list is for.
    pub(crate) wrong_scope: Vec<String>,
}

/// The entries of one list, as they are matched against [`GroupResource`] texts.
pub(crate) type Entries = Vec<String>;

impl<'a> Resolver<'a> {
    pub(crate) fn new(catalog: &'a Catalog) -> Self {
        Self { catalog, unresolved: Vec::new(), wrong_scope: Vec::new() }
    }

    /// Entries for types of both scopes. What discovery does not know stays as written, so that globs work.
    pub(crate) fn any(&mut self, list: &[String]) -> Entries {
        self.resolve(list, |_| true)
    }

    /// Entries for types of one scope; those of the other are dropped.
    pub(crate) fn scoped(&mut self, list: &[String], namespaced: bool) -> Entries {
        self.resolve(list, |r| r.namespaced == namespaced)
    }

    fn resolve(&mut self, list: &[String], fits: impl Fn(&ApiResource) -> bool) -> Entries {
        let mut entries = Vec::new();
        for entry in list {
            match self.catalog.resolve(entry) {
                Some(resource) if fits(resource) => entries.push(resource.group_resource().to_string()),
                Some(_) => self.wrong_scope.push(entry.clone()),
                None => {
                    // Clusters without snapshot support do not know the types every backup excludes.
                    let ours = [SNAPSHOTS, SNAPSHOT_CONTENTS].contains(&entry.as_str());
                    if !ours && !entry.contains(['*', '?', '[', '{']) {
                        self.unresolved.push(entry.clone());
                    }
                    entries.push(entry.clone());
                }
            }
        }
        entries
    }
}

/// Lists of types of both scopes. `*` excludes nothing in them.
pub(crate) fn unscoped_lists(
    resolver: &mut Resolver<'_>,
    includes: &[String],
    excludes: &[String],
) -> IncludesExcludes {
    let excludes: Vec<String> = excludes.iter().filter(|e| *e != "*").cloned().collect();
    IncludesExcludes::new(&resolver.any(includes), &resolver.any(&excludes))
}

/// A small cluster, in the order of its discovery.
#[cfg(test)]
pub(crate) fn test_catalog() -> Catalog {
    let resources = [
        ("", "pods", "Pod", "po", true),
        ("", "configmaps", "ConfigMap", "cm", true),
        ("", "namespaces", "Namespace", "ns", false),
        ("", "persistentvolumes", "PersistentVolume", "pv", false),
        ("apps", "deployments", "Deployment", "deploy", true),
        ("storage.k8s.io", "storageclasses", "StorageClass", "sc", false),
        ("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot", "vs", true),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents", "VolumeSnapshotContent", "vsc", false),
        ("example.com", "widgets", "Widget", "wd", true),
        ("example.com", "gadgets", "Gadget", "gd", false),
    ];
    let resources = resources.into_iter().map(|(group, resource, kind, short, namespaced)| {
        std::sync::Arc::new(ApiResource {
            short_names: vec![short.to_owned()],
            namespaced,
            ..ApiResource::new(group, "v1", resource, kind)
        })
    });
    Catalog::new(resources.collect(), vec![])
}
