//! Which objects of the backup become which of the cluster. All stages read it, none changes it.

use crate::check::Lookout;
use crate::env::Env;
use crate::existing_policies::ExistingPolicies;
use crate::versions::Chosen;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_api::{Restore, label_value};
use lifeboat_archive::index::Row;
use lifeboat_hook::RestoreHooks;
use lifeboat_object::{ApiResource, Catalog, GroupResource, ObjectKey};
use lifeboat_select::RestoreFilter;
use lifeboat_store::Archive;
use serde_json::Value;
use std::sync::Arc;

/// The objects of the backup, and what they become in a cluster that serves these types.
pub(crate) struct Mapping {
    pub(crate) restore: Arc<Restore>,
    /// The types that the cluster serves.
    pub(crate) catalog: Catalog,
    /// What is restored.
    pub(crate) filter: RestoreFilter,
    pub(crate) archive: Archive,
    /// What is done with objects that exist already.
    pub(crate) existing: ExistingPolicies,
    /// Init containers and commands for pods.
    pub(crate) hooks: Arc<RestoreHooks>,
    /// The rows of all objects, each in one version.
    pub(crate) chosen: Arc<Chosen>,
}

impl Mapping {
    /// The row of an object of the backup.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<usize> {
        self.chosen.find(key, |number| self.archive.row(number))
    }

    /// The target of a namespace of the backup.
    pub(crate) fn namespace<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str)
    }

    /// What an object of the backup becomes.
    pub(crate) fn target_of(&self, key: &ObjectKey) -> ObjectKey {
        let namespace = key.namespace.as_ref().map(|name| self.namespace(name).to_owned());
        ObjectKey { namespace, ..key.clone() }
    }

    /// Whether an object of the cluster has the labels of what this restore writes.
    pub(crate) fn has_labels(&self, in_cluster: &Value) -> bool {
        let (labels, restore) = (&in_cluster["metadata"]["labels"], &self.restore);
        labels[LABEL_RESTORE_NAME] == label_value(&restore.metadata.name).as_str()
            && labels[LABEL_BACKUP_NAME] == label_value(&restore.spec.backup_name).as_str()
    }

    /// Where to look for what is there already.
    pub(crate) fn lookout<'a>(&'a self, env: &'a Env) -> Lookout<'a> {
        let Self { archive, catalog, restore, .. } = self;
        Lookout { archive, catalog, namespace_mapping: &restore.spec.namespace_mapping, env }
    }

    /// The namespace of the backup that an object needs; a namespace needs itself.
    pub(crate) fn namespace_needed(row: &Row) -> Option<&str> {
        let is_namespace = *row.resource == GroupResource::new("", "namespaces");
        row.namespace().or(is_namespace.then_some(&*row.name))
    }

    /// The type of an object as the cluster serves it.
    ///
    /// # Errors
    /// That it does not, for people.
    pub(crate) fn served(&self, key: &ObjectKey, object: &Value) -> Result<Arc<ApiResource>, String> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let found = self.catalog.find_version(&key.resource, version).cloned();
        found.ok_or_else(|| format!("the cluster does not serve {} in {api_version}", key.resource))
    }
}
