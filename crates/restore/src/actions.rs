//! The built-in restore item actions (velero: pkg/restore/actions).
//!
//! Each is a function over untyped objects, so that fields that no action knows survive; only three ask the cluster. A
//! field of another type than the API's is left alone.

mod admission;
mod api_service;
mod bindings;
mod config;
mod crd;
mod edit;
mod images;
mod job;
pub(crate) mod known;
mod pod;
mod pod_volumes;
mod pvc;
pub(crate) mod restore_wait;
mod secret;
mod service;
mod service_account;
mod storage_class;
#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;

pub(crate) use config::ActionConfig;
pub(crate) use pod_volumes::{FilesToRestore, awaits_files};

use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, RestoreItemAction, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::Restore;
use lifeboat_cluster::Cluster;
use std::sync::Arc;

/// The names of the built-in actions, in the order in which they are called; after them come those of CSI snapshots.
pub const BUILT_IN_ACTIONS: [&str; 15] = [
    "velero.io/add-pvc-from-pod",
    "velero.io/admission-webhook-configuration",
    "velero.io/apiservice",
    "velero.io/change-image-name",
    "velero.io/change-storage-class",
    "velero.io/cluster-role-bindings",
    "velero.io/crd-preserve-fields",
    "velero.io/job",
    "velero.io/pod",
    "velero.io/pod-volume-restore",
    "velero.io/pvc",
    "velero.io/role-bindings",
    "velero.io/secret",
    "velero.io/service",
    "velero.io/service-account",
];

/// The built-in actions, in the order in which they are called; the actions of CSI snapshots follow them. They cache
/// answers of the cluster: make new ones for each restore.
#[must_use]
pub(crate) fn built_in_actions(
    cluster: &Cluster,
    config: &ActionConfig,
    files: FilesToRestore,
) -> Vec<Arc<dyn RestoreItemAction>> {
    let rules = config.image_rules.clone();
    vec![
        computed("velero.io/add-pvc-from-pod", &["pods"], pod::add_claims),
        computed("velero.io/admission-webhook-configuration", &admission::RESOURCES, admission::restore),
        Arc::new(Computed {
            name: "velero.io/apiservice",
            follows: ActionDependency::Nothing,
            scope: ActionScope {
                label_selector: api_service::SELECTOR.to_owned(),
                ..ActionScope::resources(&["apiservices.apiregistration.k8s.io"])
            },
            work: api_service::restore,
        }),
        Arc::new(Computed {
            name: "velero.io/change-image-name",
            scope: ActionScope::resources(&images::RESOURCES),
            follows: if rules.is_empty() { ActionDependency::Nothing } else { ActionDependency::Configuration },
            work: move |input: RestoreItemInput<'_>| Ok(images::restore(input, &rules)),
        }),
        Arc::new(storage_class::ChangeStorageClass::new(cluster.clone(), config.storage_classes.clone())),
        bindings("velero.io/cluster-role-bindings", "clusterrolebindings.rbac.authorization.k8s.io"),
        computed("velero.io/crd-preserve-fields", &["customresourcedefinitions.apiextensions.k8s.io"], crd::restore),
        computed("velero.io/job", &["jobs.batch"], job::restore),
        computed("velero.io/pod", &["pods"], pod::restore),
        Arc::new(pod_volumes::PodVolumeRestoreAction::new(cluster.clone(), files)),
        computed("velero.io/pvc", &["persistentvolumeclaims"], pvc::restore),
        bindings("velero.io/role-bindings", "rolebindings.rbac.authorization.k8s.io"),
        Arc::new(secret::Secret::new(cluster.clone())),
        computed("velero.io/service", &["services"], service::restore),
        computed("velero.io/service-account", &["serviceaccounts"], service_account::restore),
    ]
}

fn computed<W>(name: &'static str, resources: &[&str], work: W) -> Arc<dyn RestoreItemAction>
where
    W: Fn(RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> + Send + Sync + 'static,
{
    Arc::new(Computed { name, scope: ActionScope::resources(resources), follows: ActionDependency::Nothing, work })
}

fn bindings(name: &'static str, resource: &str) -> Arc<dyn RestoreItemAction> {
    let scope = ActionScope::resources(&[resource]);
    Arc::new(Computed { name, scope, follows: ActionDependency::NamespaceMapping, work: bindings::restore })
}

/// An action that needs nothing but its input.
struct Computed<W> {
    name: &'static str,
    scope: ActionScope,
    follows: ActionDependency,
    work: W,
}

/// The input of an action that decides, beside the object itself, whether it changes anything.
#[derive(Clone, Copy)]
enum ActionDependency {
    /// Nothing: it detaches the object from its cluster, or has no rules.
    Nothing,
    /// The restore's namespace mapping.
    NamespaceMapping,
    /// Configuration that a user wrote for this action.
    Configuration,
}

#[async_trait]
impl<W> RestoreItemAction for Computed<W>
where
    W: Fn(RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> + Send + Sync,
{
    fn name(&self) -> &str {
        self.name
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        (self.work)(input)
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, restore: &Restore) -> bool {
        match self.follows {
            ActionDependency::Nothing => true,
            ActionDependency::NamespaceMapping => restore.spec.namespace_mapping.is_empty(),
            ActionDependency::Configuration => false,
        }
    }
}
