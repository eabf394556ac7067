//! The scope of a restore: the objects of the backup that it restores, and their keys in the cluster. All stages read it,
//! none changes it.

use crate::request::existing_policies::ExistingPolicies;
use crate::state::env::Env;
use crate::walk::existence::ExistenceLookup;
use crate::walk::same_target::SameTarget;
use crate::walk::versions::ChosenRows;
use lifeboat_api::well_known::{
    ANNOTATION_RELABEL, ANNOTATION_RESTORE_STATUS, ANNOTATION_UPDATE_DEFINITIONS, LABEL_BACKUP_NAME, LABEL_RESTORE_NAME,
};
use lifeboat_api::{Restore, label_value};
use lifeboat_archive::index::Row;
use lifeboat_hook::RestoreHooks;
use lifeboat_object::{ApiResource, Catalog, GroupResource, ObjectKey};
use lifeboat_select::{ResourcePolicies, RestoreFilter, SelectorError};
use lifeboat_store::Archive;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The objects of the backup that are restored, and their keys in a cluster that serves these types.
pub(crate) struct RestoreScope {
    pub(crate) restore: Arc<Restore>,
    /// The types that the cluster serves.
    pub(crate) catalog: Catalog,
    /// The filters of the restore.
    pub(crate) filter: RestoreFilter,
    pub(crate) archive: Archive,
    /// Policies for objects that exist already.
    pub(crate) existing: ExistingPolicies,
    /// Init containers and commands for pods.
    pub(crate) hooks: Arc<RestoreHooks>,
    /// The rows of the archive that count.
    pub(crate) rows: Arc<SelectedRows>,
    pub(crate) options: RestoreOptions,
}

/// The rows of the archive that a restore looks at.
#[derive(Debug)]
pub(crate) struct SelectedRows {
    /// The rows of all objects, each in one version.
    pub(crate) chosen: ChosenRows,
    /// Objects whose key in the cluster another one of the backup has.
    pub(crate) same_target: SameTarget,
}

/// Settings of a restore that its stages read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoreOptions {
    /// Set when the objects that are in the cluster already are listed before a level is written.
    pub(crate) lists_existing: bool,
    /// Longest wait for all objects that are being deleted.
    pub(crate) terminating_timeout: Duration,
    /// Longest wait for one resource: a definition, additional items, an object that must be gone before it is made anew.
    pub(crate) resource_timeout: Duration,
    /// Longest time for the files of all volumes.
    pub(crate) files_timeout: Duration,
}

/// Filters of a restore in the form in which they do not depend on the types of the cluster.
pub(crate) struct FilterInput {
    pub(crate) policies: Option<ResourcePolicies>,
    /// The namespaces that hold objects in the backup.
    pub(crate) in_backup: BTreeSet<String>,
}

impl RestoreScope {
    /// The same scope in a cluster that serves these types.
    ///
    /// # Errors
    /// [`SelectorError`]: the restore selects with what is no selector.
    pub(crate) fn serving(&self, catalog: Catalog, filters: &FilterInput) -> Result<Self, SelectorError> {
        let filter = RestoreFilter::new(&self.restore.spec, filters.policies.as_ref(), &catalog, &filters.in_backup)?;
        let existing = ExistingPolicies::new(&self.restore.spec, &catalog)?;
        let Self { restore, archive, hooks, rows, options, .. } = self;
        let (restore, hooks, rows) = (Arc::clone(restore), Arc::clone(hooks), Arc::clone(rows));
        Ok(Self { restore, catalog, filter, archive: archive.clone(), existing, hooks, rows, options: *options })
    }

    /// The row of an object of the backup.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<usize> {
        self.rows.chosen.find(key, |number| self.archive.row(number))
    }

    /// The target of a namespace of the backup.
    pub(crate) fn namespace<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str)
    }

    /// Returns the key in the cluster of an object of the backup.
    pub(crate) fn target_of(&self, key: &ObjectKey) -> ObjectKey {
        let namespace = key.namespace.as_ref().map(|name| self.namespace(name).to_owned());
        ObjectKey { namespace, ..key.clone() }
    }

    /// The row that has the place of this one in the cluster, and its key; `None` when it has it itself.
    pub(crate) fn taken_by(&self, row: usize) -> Option<(usize, ObjectKey)> {
        let other = self.rows.same_target.taken_by(row)?;
        Some((other, self.archive.row(other)?.key()))
    }

    /// Returns true if an object of the cluster has the labels that this restore writes.
    pub(crate) fn has_labels(&self, in_cluster: &Value) -> bool {
        let (labels, restore) = (&in_cluster["metadata"]["labels"], &self.restore);
        labels[LABEL_RESTORE_NAME] == label_value(&restore.metadata.name).as_str()
            && labels[LABEL_BACKUP_NAME] == label_value(&restore.spec.backup_name).as_str()
    }

    /// The input of the existence check.
    pub(crate) fn lookup<'a>(&'a self, env: &'a Env) -> ExistenceLookup<'a> {
        let Self { archive, catalog, restore, options, .. } = self;
        let namespace_mapping = &restore.spec.namespace_mapping;
        ExistenceLookup { archive, catalog, namespace_mapping, lists: options.lists_existing, env }
    }

    /// The namespace of the backup that an object needs; a namespace needs itself.
    pub(crate) fn namespace_needed(row: &Row) -> Option<&str> {
        let is_namespace = row.resource.is_namespaces();
        row.namespace().or(is_namespace.then_some(&*row.name))
    }

    /// The type of an object as the cluster serves it. An action may have changed its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// That it does not, for people.
    pub(crate) fn served(&self, key: &ObjectKey, object: &Value) -> Result<Arc<ApiResource>, String> {
        let found = served(&self.catalog, &key.resource, object)?;
        match of_another_scope(&found, key) {
            Some(why) => Err(why),
            None => Ok(found),
        }
    }

    /// Returns true if the status of an object is data like its other fields: its type has no status that controllers
    /// write through a subresource. An annotation on an object or a type can exclude the status from the restore. The
    /// types of Velero have no such subresource, and their status records the work of a server in the cluster of the
    /// backup.
    pub(crate) fn has_status_as_data(&self, key: &ObjectKey, object: &Value) -> bool {
        let annotation = object["metadata"]["annotations"][ANNOTATION_RESTORE_STATUS].as_str();
        let is_unwanted = annotation.is_some_and(|text| text.trim().eq_ignore_ascii_case("false"))
            || self.filter.leaves_status_out(&key.resource);
        let served = || served(&self.catalog, &key.resource, object);
        let is_of_velero = key.resource.group == lifeboat_api::GROUP;
        object.get("status").is_some()
            && !is_of_velero
            && !is_unwanted
            && served().is_ok_and(|of| !of.has_subresource("status"))
    }

    /// Returns true if an older definition of a type may replace a newer one.
    pub(crate) fn updates_definitions(&self) -> bool {
        self.restore.metadata.says_true(ANNOTATION_UPDATE_DEFINITIONS)
    }

    /// Returns true if objects that are as in the backup already get the labels of this restore, where the policy is
    /// `update`.
    pub(crate) fn relabels(&self) -> bool {
        self.restore.metadata.says_true(ANNOTATION_RELABEL)
    }
}

/// Returns the reason why an object cannot be of a type: it was in a namespace when it was saved and the type has
/// none now, or the other way round.
fn of_another_scope(resource: &ApiResource, key: &ObjectKey) -> Option<String> {
    let name = resource.group_resource();
    let (now, then) = match (resource.namespaced, key.namespace.is_some()) {
        (true, false) => ("is in namespaces", "was not when the backup was made"),
        (false, true) => ("is in no namespace", "was in one when the backup was made"),
        _ => return None,
    };
    let next = "define the type as it was and run the restore again, or make the object by hand (lifeboat backup contents shows it)";
    Some(format!("in this cluster the type {name} {now}, and it {then}; {next}"))
}

fn served(catalog: &Catalog, in_backup: &GroupResource, object: &Value) -> Result<Arc<ApiResource>, String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let same_name = GroupResource::new(group, &*in_backup.resource);
    let of_name = catalog.find_version(&same_name, version);
    // One of a type that is not served at all stays of that type: another one of the same kind may be served under another name.
    let has_another_type = of_name.is_some() || group != in_backup.group;
    let found = match of_name.filter(|found| kind.is_empty() || found.kind == kind) {
        None if has_another_type => catalog.find_kind(api_version, kind),
        found => found,
    };
    found.cloned().ok_or_else(|| match of_name {
        Some(_) => format!("the cluster does not serve the kind {kind} in {api_version}"),
        None => format!("the cluster does not serve {same_name} in {api_version}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_of_a_type_whose_scope_has_changed_is_told_so() {
        let said = |namespaced, namespace| {
            let resource = ApiResource { namespaced, ..ApiResource::new("example.com", "v1", "doors", "Door") };
            of_another_scope(&resource, &ObjectKey::new(resource.group_resource(), namespace, "d"))
        };
        let begins = |said: Option<String>| said.map(|said| said.split(';').next().unwrap().to_owned());
        assert_eq!(
            begins(said(true, None)).as_deref(),
            Some(
                "in this cluster the type doors.example.com is in namespaces, and it was not when the backup was made"
            )
        );
        assert_eq!(
            begins(said(false, Some("n"))).as_deref(),
            Some(
                "in this cluster the type doors.example.com is in no namespace, and it was in one when the backup was made"
            )
        );
        assert_eq!((said(true, Some("n")), said(false, None)), (None, None));
    }

    #[test]
    fn an_object_is_written_to_the_type_that_its_version_and_kind_name() {
        let types = [
            ("", "v1", "pods", "Pod"),
            ("apps", "v1", "deployments", "Deployment"),
            ("apps", "v1beta1", "deployments", "Deployment"),
            ("extensions", "v1beta1", "deployments", "Deployment"),
            ("apps", "v1", "statefulsets", "StatefulSet"),
        ];
        let types = types.map(|(group, version, name, kind)| Arc::new(ApiResource::new(group, version, name, kind)));
        let catalog = Catalog::new(types.into(), vec![]);
        let found = |resource: &str, api_version: &str, kind: &str| {
            let object = json!({"apiVersion": api_version, "kind": kind});
            let found = served(&catalog, &resource.parse().unwrap(), &object);
            found.map(|found| format!("{} {}", found.api_version(), found.resource))
        };
        let is = |text: &str| Ok(text.to_owned());
        let fails = |text: &str| Err(format!("the cluster does not serve {text}"));
        assert_eq!(found("pods", "v1", "Pod"), is("v1 pods"));
        assert_eq!(found("deployments.apps", "apps/v1beta1", "Deployment"), is("apps/v1beta1 deployments"));
        // Of another version, another group, and another kind than in the backup.
        assert_eq!(found("deployments.apps", "apps/v1", "Deployment"), is("apps/v1 deployments"));
        assert_eq!(found("deployments.extensions", "apps/v1", "Deployment"), is("apps/v1 deployments"));
        assert_eq!(found("deployments.apps", "apps/v1", "StatefulSet"), is("apps/v1 statefulsets"));
        // A type that is not served stays itself, whatever else has its kind.
        assert_eq!(found("sets.apps", "apps/v1", "StatefulSet"), fails("sets.apps in apps/v1"));
        // The API server knows the kind by the place.
        assert_eq!(found("pods", "v1", ""), is("v1 pods"));
        assert_eq!(found("deployments.apps", "apps/v2", "Deployment"), fails("deployments.apps in apps/v2"));
        assert_eq!(found("deployments.apps", "apps/v1", "DaemonSet"), fails("the kind DaemonSet in apps/v1"));
        assert_eq!(
            found("widgets.example.com", "example.com/v1", "Widget"),
            fails("widgets.example.com in example.com/v1")
        );
    }
}
