//! Objects that an installation names must be there: pods of a priority class, service account or claim that is missing are never
//! made or never start, and nothing of the installation says why.

use crate::installation::{DirectoryVolume, Installation};
use crate::read::get;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;

/// The reason for which an object that an installation names cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// There is no such object.
    #[error("{flag} {name}: there is no such {kind}{place}; make it first")]
    Missing {
        /// The flag that names it.
        flag: &'static str,
        /// Its name.
        name: String,
        /// Its kind.
        kind: String,
        /// The place where it should be, for the sentence.
        place: String,
    },
    /// The cluster could not be asked.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// An object that an installation names.
struct Reference<'a> {
    flag: &'static str,
    name: &'a str,
    resource: ApiResource,
    is_namespaced: bool,
}

/// The objects that an installation names and does not make.
fn references(installation: &Installation) -> Vec<Reference<'_>> {
    let core = |plural, kind| ApiResource::new("", "v1", plural, kind);
    let claim = match &installation.directory {
        Some(DirectoryVolume::Claim(name)) => Some(name),
        _ => None,
    };
    let all = [
        (
            "--server-priority-class-name",
            installation.server_priority_class.as_ref(),
            ApiResource::new("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"),
        ),
        (
            "--node-agent-priority-class-name",
            installation.node_agent_priority_class.as_ref().filter(|_| installation.has_node_agent()),
            ApiResource::new("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"),
        ),
        ("--service-account-name", installation.service_account.as_ref(), core("serviceaccounts", "ServiceAccount")),
        ("--directory-claim", claim, core("persistentvolumeclaims", "PersistentVolumeClaim")),
        (
            "--default-resource-modifier-configmap",
            installation.server.modifier_config_map.as_ref(),
            core("configmaps", "ConfigMap"),
        ),
    ];
    let found = all.into_iter().filter_map(|(flag, name, resource)| {
        let is_namespaced = resource.group.is_empty();
        Some(Reference { flag, name: name?, resource, is_namespaced })
    });
    found.collect()
}

/// Refuses an installation that names an object which is not there. It only reads, and may be dropped at any time.
///
/// # Errors
/// [`ReferenceError`] for the first that is missing, or when the cluster cannot be asked.
pub async fn check_references(cluster: &Cluster, installation: &Installation) -> Result<(), ReferenceError> {
    for Reference { flag, name, resource, is_namespaced } in references(installation) {
        let namespace = is_namespaced.then_some(installation.namespace.as_str());
        if get(cluster, &resource, namespace, name).await?.is_none() {
            let place = namespace.map_or_else(String::new, |namespace| format!(" in the namespace {namespace}"));
            return Err(ReferenceError::Missing { flag, name: name.to_owned(), kind: resource.kind, place });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_installation_names_is_looked_for_where_it_must_be() {
        let text = |text: &str| Some(text.to_owned());
        let mut named = Installation {
            server_priority_class: text("high"),
            node_agent: true,
            node_agent_priority_class: text("low"),
            service_account: text("sa"),
            directory: Some(DirectoryVolume::Claim("backups".to_owned())),
            ..Installation::default()
        };
        named.server.modifier_config_map = text("modifiers");
        let found: Vec<(&str, &str, bool)> =
            references(&named).iter().map(|one| (one.flag, one.name, one.is_namespaced)).collect();
        assert_eq!(
            found,
            [
                ("--server-priority-class-name", "high", false),
                ("--node-agent-priority-class-name", "low", false),
                ("--service-account-name", "sa", true),
                ("--directory-claim", "backups", true),
                ("--default-resource-modifier-configmap", "modifiers", true),
            ]
        );
        let unused = Installation { node_agent_priority_class: text("low"), ..Installation::default() };
        assert!(references(&unused).is_empty());
    }
}
