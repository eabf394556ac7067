//! `lifeboat uninstall`: takes out of a cluster what `install` has brought (cli-and-install.md 3.7).
//!
//! Restores and data movements are deleted first, while a server is there to let go of them; what holds a finalizer
//! that nobody will remove is freed. The namespace is gone before the definitions go.

use crate::command::Globals;
use crate::confirm::confirmed;
use crate::install::{DEPLOYMENT, cluster_name};
use anyhow::{Result, bail};
use bytes::Bytes;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{FINALIZER_DATA_PATH, FINALIZER_RESTORE, LABEL_COMPONENT};
use lifeboat_api::{BackupStorageLocation, DataDownload, DataUpload, GROUP, Resource, Restore};
use lifeboat_cluster::{Cluster, ListRequest, PatchKind};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How to uninstall.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Do not ask
    #[arg(long)]
    force: bool,
}

const PAUSE: Duration = Duration::from_secs(1);
/// How long a server may take to let go of restores and data movements.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);
/// How long what was deleted may take to be gone.
const DELETION_LIMIT: Duration = Duration::from_secs(300);

impl UninstallArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if !self.force {
            writeln!(std::io::stdout(), "You are about to uninstall Velero.")?;
            if !confirmed()? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let uninstall = Uninstall { cluster: globals.connect().await?, namespace: &globals.namespace };
        uninstall.run().await?;
        writeln!(std::io::stdout(), "Velero uninstalled ⛵")?;
        Ok(ExitCode::SUCCESS)
    }
}

struct Uninstall<'a> {
    cluster: Cluster,
    namespace: &'a str,
}

impl Uninstall<'_> {
    async fn run(&self) -> Result<()> {
        match self.get(&namespaces(), None, self.namespace).await? {
            None => {
                writeln!(std::io::stdout(), "Velero namespace \"{}\" does not exist, skipping.", self.namespace)?;
            }
            Some(namespace) => {
                self.check(&namespace).await?;
                self.release().await?;
                self.delete_namespace().await?;
            }
        }
        let name = cluster_name(self.namespace);
        self.cluster.delete(&rbac("ClusterRoleBinding"), None, &name).await?;
        // Only the one that `--least-privilege` makes: the name is not ours alone.
        let role = self.get(&rbac("ClusterRole"), None, &name).await?;
        if role.is_some_and(|role| role["metadata"]["labels"][LABEL_COMPONENT] == "velero") {
            self.cluster.delete(&rbac("ClusterRole"), None, &name).await?;
        }
        self.delete_definitions().await
    }

    /// Refuses a namespace in which nothing was installed: the flag may name the wrong one, and all of it would go.
    async fn check(&self, namespace: &Value) -> Result<()> {
        let labelled = namespace["metadata"]["labels"][LABEL_COMPONENT] == "velero";
        if labelled || self.get(&deployments(), Some(self.namespace), DEPLOYMENT).await?.is_some() {
            return Ok(());
        }
        bail!(
            "the namespace {} holds no Velero: neither has it the label {LABEL_COMPONENT}=velero nor a Deployment \
             {DEPLOYMENT}; if it shall go nevertheless, delete it with kubectl",
            self.namespace
        )
    }

    /// Deletes restores and data movements, waits until a server has let go of them, and frees what is left.
    async fn release(&self) -> Result<()> {
        let mut kinds = Vec::new();
        for (resource, finalizer) in [
            (custom::<Restore>(), FINALIZER_RESTORE),
            (custom::<DataUpload>(), FINALIZER_DATA_PATH),
            (custom::<DataDownload>(), FINALIZER_DATA_PATH),
        ] {
            let name = resource.group_resource().to_string();
            if self.get(&definitions(), None, &name).await?.is_some() {
                kinds.push((resource, finalizer));
            }
        }
        for (resource, _) in &kinds {
            for object in self.list(resource, Some(self.namespace), "").await? {
                self.cluster.delete(resource, Some(self.namespace), name(&object)).await?;
            }
        }
        let mut out = std::io::stdout();
        let end = Instant::now() + RELEASE_LIMIT;
        loop {
            let mut left = Vec::new();
            for (resource, finalizer) in &kinds {
                let found = self.list(resource, Some(self.namespace), "").await?;
                left.extend(found.into_iter().map(|object| (resource, *finalizer, object)));
            }
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() < end && self.server_runs().await? {
                write!(out, ".")?;
                out.flush()?;
                sleep(PAUSE).await;
                continue;
            }
            writeln!(out, "{} restores and data movements are not let go of by a server: freeing them", left.len())?;
            // One that is only slow would write to what is freed.
            self.cluster.delete(&deployments(), Some(self.namespace), DEPLOYMENT).await?;
            self.until_gone(&deployments(), Some(self.namespace), DEPLOYMENT).await?;
            for (resource, finalizer, object) in left {
                self.free(resource, finalizer, &object).await?;
            }
            return Ok(());
        }
    }

    /// Removes a finalizer; others are other people's.
    async fn free(&self, resource: &ApiResource, finalizer: &str, object: &Value) -> Result<()> {
        let all = object["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let others: Vec<&Value> = all.iter().filter(|one| **one != finalizer).collect();
        if others.len() == all.len() {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "finalizers": others, "resourceVersion": object["metadata"]["resourceVersion"],
        }});
        let body = Bytes::from(patch.to_string());
        let patched = self.cluster.patch(resource, Some(self.namespace), name(object), None, PatchKind::Merge, body);
        match patched.await {
            Err(e) if !e.is_not_found() => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Whether somebody is there who could remove finalizers: a pod of the Deployment, or who holds the Lease.
    async fn server_runs(&self) -> Result<bool> {
        let deployment = self.get(&deployments(), Some(self.namespace), DEPLOYMENT).await?.unwrap_or_default();
        if deployment["status"]["readyReplicas"].as_u64().is_some_and(|ready| ready > 0) {
            return Ok(true);
        }
        let leases = ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease");
        let lease = self.get(&leases, Some(self.namespace), "lifeboat-server").await?.unwrap_or_default();
        let now = self.cluster.time().await?.unwrap_or_else(Timestamp::now);
        Ok(is_held(&lease, now))
    }

    async fn delete_namespace(&self) -> Result<()> {
        self.cluster.delete(&namespaces(), None, self.namespace).await?;
        writeln!(std::io::stdout(), "Waiting for velero namespace \"{}\" to be deleted", self.namespace)?;
        self.until_gone(&namespaces(), None, self.namespace).await
    }

    /// All definitions of an installation, unless another one still uses them: their objects would go with them.
    async fn delete_definitions(&self) -> Result<()> {
        let all = self.list(&definitions(), None, &format!("{LABEL_COMPONENT}=velero")).await?;
        let locations = custom::<BackupStorageLocation>();
        let plural = locations.group_resource().to_string();
        if all.iter().any(|definition| name(definition) == plural) {
            let found = self.list(&locations, None, "").await?;
            let others: BTreeSet<&str> =
                found.iter().filter_map(|location| location["metadata"]["namespace"].as_str()).collect();
            if !others.is_empty() {
                let others = others.into_iter().collect::<Vec<_>>().join(", ");
                writeln!(std::io::stdout(), "The definitions stay: they are used in other namespaces ({others}).")?;
                return Ok(());
            }
        }
        for definition in &all {
            self.cluster.delete(&definitions(), None, name(definition)).await?;
        }
        for definition in &all {
            self.until_gone(&definitions(), None, name(definition)).await?;
        }
        Ok(())
    }

    async fn until_gone(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) -> Result<()> {
        let end = Instant::now() + DELETION_LIMIT;
        while let Some(found) = self.get(resource, namespace, name).await? {
            if Instant::now() >= end {
                bail!("{}", stuck(&resource.kind, name, &found));
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn get(&self, resource: &ApiResource, namespace: Option<&str>, name: &str) -> Result<Option<Value>> {
        let found = self.cluster.get(resource, namespace, name).await?;
        Ok(found.map(|bytes| serde_json::from_slice(&bytes)).transpose()?)
    }

    async fn list(&self, resource: &ApiResource, namespace: Option<&str>, selector: &str) -> Result<Vec<Value>> {
        let mut list = self.cluster.list(ListRequest {
            resource: Arc::new(resource.clone()),
            namespace: namespace.map(str::to_owned),
            selector: selector.to_owned(),
            metadata_only: false,
        });
        let mut out = Vec::new();
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                out.push(serde_json::from_slice(&body)?);
            }
        }
        Ok(out)
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// What is said of an object that does not go.
fn stuck(kind: &str, name: &str, found: &Value) -> String {
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let why: Vec<&str> = conditions.filter(|c| c["status"] == "True").filter_map(|c| c["message"].as_str()).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    format!("{kind} {name} is not gone after {} s{why}; run the command again when it is", DELETION_LIMIT.as_secs())
}

/// Whether the holder of a Lease has renewed it lately.
fn is_held(lease: &Value, now: Timestamp) -> bool {
    let spec = &lease["spec"];
    let held = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    let renewed = spec["renewTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let lasts = SignedDuration::from_secs(spec["leaseDurationSeconds"].as_i64().unwrap_or(0));
    held && renewed.is_some_and(|renewed| now.duration_since(renewed) < lasts)
}

fn custom<T: Resource>() -> ApiResource {
    ApiResource::new(GROUP, T::VERSION, T::PLURAL, T::KIND)
}

fn deployments() -> ApiResource {
    ApiResource::new("apps", "v1", "deployments", "Deployment")
}

fn namespaces() -> ApiResource {
    cluster_wide(ApiResource::new("", "v1", "namespaces", "Namespace"))
}

fn definitions() -> ApiResource {
    let kind = "CustomResourceDefinition";
    cluster_wide(ApiResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", kind))
}

fn rbac(kind: &str) -> ApiResource {
    cluster_wide(ApiResource::new("rbac.authorization.k8s.io", "v1", format!("{}s", kind.to_lowercase()), kind))
}

fn cluster_wide(resource: ApiResource) -> ApiResource {
    ApiResource { namespaced: false, ..resource }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_while_it_is_renewed() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}});
        assert!(is_held(&lease("a", "2026-01-01T00:00:46.000000Z"), now));
        assert!(!is_held(&lease("a", "2026-01-01T00:00:45.000000Z"), now));
        assert!(!is_held(&lease("", "2026-01-01T00:00:59.000000Z"), now));
        assert!(!is_held(&Value::Null, now));
    }

    #[test]
    fn what_holds_a_namespace_is_told() {
        let found = json!({"status": {"conditions": [
            {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 1 resource instances"},
            {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "all fine"},
        ]}});
        assert_eq!(
            stuck("Namespace", "velero", &found),
            "Namespace velero is not gone after 300 s: pods. has 1 resource instances; run the command again when it is"
        );
    }
}
