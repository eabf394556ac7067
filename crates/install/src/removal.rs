//! Takes the objects of an installation out of a cluster (velero: pkg/cmd/cli/uninstall).
//!
//! It deletes nothing where nothing is installed: the user may have mistyped the namespace. It deletes restores and data
//! movements first, while there is a server to remove their finalizers. It deletes the definitions once the namespace is gone,
//! and leaves them when another namespace holds objects of theirs.

use crate::clock::Clock;
use crate::elsewhere::elsewhere;
use crate::error::RemovalError;
use crate::gone::until_gone;
use crate::kinds::{definitions, deployments, rbac};
use crate::names::{DEPLOYMENT, cluster_name, component_selector, is_component};
use crate::read::{get, list, name};
use crate::release::{is_held, release};
use crate::state::{InstalledNamespace, NamespaceCondition, is_ending, state, warning};
use crate::step::{InstallStep, StepReporter};
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::BTreeSet;

/// The objects that are deleted when an installation is removed from a namespace, by [`Removal::run`].
#[derive(Debug)]
pub struct Removal<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    state: NamespaceCondition,
    /// Other namespaces that hold an installation or resources of one.
    others: BTreeSet<String>,
}

impl<'a> Removal<'a> {
    /// Finds out what there is to remove. It only reads, and may be dropped at any time.
    ///
    /// # Errors
    /// [`RemovalError::NotInstalled`] when there is nothing, and failures to read.
    pub async fn find(cluster: &'a Cluster, namespace: &'a str) -> Result<Self, RemovalError> {
        let others = elsewhere(cluster, namespace).await?;
        let found = get(cluster, &ApiResource::namespaces(), None, namespace).await?;
        let has_rights = async || -> Result<bool, ClusterError> {
            Ok(binding(cluster, namespace).await?.is_some() || role(cluster, namespace).await?.is_some())
        };
        let installed = match &found {
            Some(found) if is_ending(found) => is_held(cluster, namespace).await? || has_rights().await?,
            None => has_rights().await?,
            Some(_) => {
                get(cluster, &deployments(), Some(namespace), DEPLOYMENT).await?.is_some()
                    || !list(cluster, &deployments(), Some(namespace), &component_selector()).await?.is_empty()
            }
        };
        let at = InstalledNamespace { name: namespace, namespace: found.as_ref(), installed };
        let state = state(at, &others).map_err(RemovalError::NotInstalled)?;
        Ok(Self { cluster, namespace, state, others })
    }

    /// Warnings for the user before the removal is confirmed, one line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let context = self.cluster.context().map_or_else(String::new, |context| format!(", context {context}"));
        let cluster = format!("{}{context}", self.cluster.url().trim_end_matches('/'));
        warning(&cluster, self.namespace, self.state, &self.others)
    }

    /// Deletes the restores and data movements, the namespace, the rights, and the definitions unless another namespace uses
    /// them by then, and waits until all are gone. `clock` tells the time when the cluster does not.
    ///
    /// When it is dropped, another removal goes on from there.
    ///
    /// # Errors
    /// [`RemovalError`] at the first thing that cannot be deleted or does not go.
    pub async fn run(&self, clock: &Clock<'_>, tell: &mut StepReporter<'_>) -> Result<(), RemovalError> {
        let (cluster, namespace) = (self.cluster, self.namespace);
        if self.state == NamespaceCondition::Gone {
            tell(InstallStep::NamespaceGone(namespace)).map_err(RemovalError::Tell)?;
        } else {
            release(cluster, namespace, clock, tell).await?;
            self.delete_namespace(tell).await?;
        }
        let (binding, role) = (binding(cluster, namespace).await?, role(cluster, namespace).await?);
        for (kind, found) in [("ClusterRoleBinding", binding), ("ClusterRole", role)] {
            if let Some(object) = found {
                cluster.delete(&rbac(kind), None, name(&object)).await?;
            }
        }
        self.delete_definitions(tell).await
    }

    async fn delete_namespace(&self, tell: &mut StepReporter<'_>) -> Result<(), RemovalError> {
        // One that is being deleted already may refuse to be deleted again.
        if self.state != NamespaceCondition::Ending {
            self.cluster.delete(&ApiResource::namespaces(), None, self.namespace).await?;
        }
        tell(InstallStep::NamespaceGoes(self.namespace)).map_err(RemovalError::Tell)?;
        until_gone(self.cluster, &ApiResource::namespaces(), None, self.namespace).await
    }

    /// Deletes the definitions, unless another installation still uses them: its objects would go with them.
    async fn delete_definitions(&self, tell: &mut StepReporter<'_>) -> Result<(), RemovalError> {
        let others = elsewhere(self.cluster, self.namespace).await?;
        if !others.is_empty() {
            return tell(InstallStep::DefinitionsStay(&others)).map_err(RemovalError::Tell);
        }
        let all = list(self.cluster, &definitions(), None, &component_selector()).await?;
        for definition in &all {
            self.cluster.delete(&definitions(), None, name(definition)).await?;
        }
        for definition in &all {
            until_gone(self.cluster, &definitions(), None, name(definition)).await?;
        }
        Ok(())
    }
}

/// Finds the binding of the installation in this namespace. A binding of the same name may belong to another installation.
async fn binding(cluster: &Cluster, namespace: &str) -> Result<Option<Value>, ClusterError> {
    let binding = get(cluster, &rbac("ClusterRoleBinding"), None, &cluster_name(namespace)).await?;
    Ok(binding.filter(|binding| {
        let subjects = binding["subjects"].as_array();
        subjects.into_iter().flatten().any(|subject| subject["namespace"] == namespace)
    }))
}

/// Finds the role that an installation of least privilege has made. A role of the same name may belong to another program.
async fn role(cluster: &Cluster, namespace: &str) -> Result<Option<Value>, ClusterError> {
    let role = get(cluster, &rbac("ClusterRole"), None, &cluster_name(namespace)).await?;
    Ok(role.filter(is_component))
}
