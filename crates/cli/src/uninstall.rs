//! `lifeboat uninstall`: takes out of a cluster what `install` has brought (cli-and-install.md 3.7).
//!
//! Nothing is deleted where nothing is installed: the namespace may be a slip of the finger. Restores and data movements
//! are deleted first, while a server is there to let go of them; what holds a finalizer that nobody will remove is freed.
//! The namespace is gone before the definitions go, and they stay while anything of theirs is in another namespace.

use crate::confirm::confirmed;
use crate::globals::Globals;
use crate::install::{DEPLOYMENT, cluster_name};
use anyhow::{Result, bail};
use bytes::Bytes;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{FINALIZER_DATA_PATH, FINALIZER_RESTORE, LABEL_COMPONENT};
use lifeboat_api::{DataDownload, DataUpload, GROUP, Resource, Restore};
use lifeboat_cluster::{Cluster, ListRequest, PatchKind};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
        let uninstall = Uninstall { cluster: globals.connect().await?, namespace: &globals.namespace };
        let (state, others) = uninstall.look().await?;
        if !self.force {
            let mut out = std::io::stdout();
            writeln!(out, "You are about to uninstall Velero.")?;
            for line in announced(&uninstall.cluster, uninstall.namespace, state, &others) {
                writeln!(out, "{line}")?;
            }
            if !confirmed()? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        uninstall.run(state).await?;
        writeln!(std::io::stdout(), "Velero uninstalled ⛵")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What there is of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It does not exist any more.
    Gone,
    /// An installer has made it.
    Own,
    /// Somebody else has made it: other applications may be in it.
    Shared,
}

struct Uninstall<'a> {
    cluster: Cluster,
    namespace: &'a str,
}

impl Uninstall<'_> {
    /// What there is to uninstall, and other namespaces that hold an installation or resources of one.
    async fn look(&self) -> Result<(State, BTreeSet<String>)> {
        let others = self.elsewhere().await?;
        let namespace = self.get(&namespaces(), None, self.namespace).await?;
        let labelled = format!("{LABEL_COMPONENT}=velero");
        let installed = match &namespace {
            None => self.binding().await?.is_some() || self.role().await?.is_some(),
            Some(_) => {
                self.get(&deployments(), Some(self.namespace), DEPLOYMENT).await?.is_some()
                    || !self.list(&deployments(), Some(self.namespace), &labelled).await?.is_empty()
            }
        };
        let state = state(self.namespace, namespace.as_ref(), installed, &others).map_err(anyhow::Error::msg)?;
        Ok((state, others))
    }

    /// Other namespaces in which there is a Deployment of an installation, or anything of its types.
    async fn elsewhere(&self) -> Result<BTreeSet<String>> {
        let labelled = format!("{LABEL_COMPONENT}=velero");
        let mut types: BTreeMap<String, ApiResource> = BTreeMap::new();
        for definition in self.list(&definitions(), None, &labelled).await?.iter().chain(&lifeboat_api::crds()) {
            if let Some(resource) = served(definition) {
                types.entry(name(definition).to_owned()).or_insert(resource);
            }
        }
        let mut found = self.namespaces_of(&deployments(), &labelled).await?;
        for resource in types.values() {
            found.append(&mut self.namespaces_of(resource, "").await?);
        }
        found.remove(self.namespace);
        Ok(found)
    }

    /// The namespaces in which there is anything of this type; none when the cluster does not have the type.
    async fn namespaces_of(&self, resource: &ApiResource, selector: &str) -> Result<BTreeSet<String>> {
        let mut list = self.cluster.list(ListRequest {
            resource: Arc::new(resource.clone()),
            namespace: None,
            selector: selector.to_owned(),
            metadata_only: true,
        });
        let mut out = BTreeSet::new();
        loop {
            match list.next().await {
                Ok(Some(bodies)) => {
                    for body in bodies {
                        let object: Value = serde_json::from_slice(&body)?;
                        out.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
                    }
                }
                Ok(None) => return Ok(out),
                Err(e) if e.is_not_found() => return Ok(out),
                Err(e) => return Err(e.into()),
            }
        }
    }

    async fn run(&self, state: State) -> Result<()> {
        if state == State::Gone {
            writeln!(std::io::stdout(), "Velero namespace \"{}\" does not exist, skipping.", self.namespace)?;
        } else {
            self.release().await?;
            self.delete_namespace().await?;
        }
        for (kind, found) in [("ClusterRoleBinding", self.binding().await?), ("ClusterRole", self.role().await?)] {
            if let Some(object) = found {
                self.cluster.delete(&rbac(kind), None, name(&object)).await?;
            }
        }
        self.delete_definitions().await
    }

    /// The binding of this installation: the name may also be that of another one's.
    async fn binding(&self) -> Result<Option<Value>> {
        let binding = self.get(&rbac("ClusterRoleBinding"), None, &cluster_name(self.namespace)).await?;
        Ok(binding.filter(|binding| {
            let subjects = binding["subjects"].as_array();
            subjects.into_iter().flatten().any(|subject| subject["namespace"] == self.namespace)
        }))
    }

    /// Only the role that `--least-privilege` makes: the name is not ours alone.
    async fn role(&self) -> Result<Option<Value>> {
        let role = self.get(&rbac("ClusterRole"), None, &cluster_name(self.namespace)).await?;
        Ok(role.filter(|role| role["metadata"]["labels"][LABEL_COMPONENT] == "velero"))
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
        let others = self.elsewhere().await?;
        if !others.is_empty() {
            writeln!(std::io::stdout(), "{}", definitions_stay(&others))?;
            return Ok(());
        }
        let all = self.list(&definitions(), None, &format!("{LABEL_COMPONENT}=velero")).await?;
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

/// What there is to uninstall; otherwise why nothing may be deleted. `installed`: there is a Deployment in the namespace,
/// or of a namespace that is gone its rights are left.
fn state(name: &str, namespace: Option<&Value>, installed: bool, others: &BTreeSet<String>) -> Result<State, String> {
    let elsewhere = match others.is_empty() {
        true => String::new(),
        false => format!("; Velero is in {}: name one with -n", listed(others)),
    };
    match namespace {
        // What has no namespace any more is removed, as long as it is nobody else's.
        None if installed || others.is_empty() => Ok(State::Gone),
        None => Err(format!("there is no namespace {name}, and nothing was deleted{elsewhere}")),
        Some(namespace) if namespace["metadata"]["labels"][LABEL_COMPONENT] == "velero" => Ok(State::Own),
        Some(_) if installed => Ok(State::Shared),
        Some(_) => Err(format!(
            "the namespace {name} holds no Velero, and nothing was deleted: neither has it the label \
             {LABEL_COMPONENT}=velero nor a Deployment {DEPLOYMENT}{elsewhere}; if it shall go nevertheless, delete it with \
             kubectl"
        )),
    }
}

/// What somebody who is asked must know.
fn announced(cluster: &Cluster, namespace: &str, state: State, others: &BTreeSet<String>) -> Vec<String> {
    let context = cluster.context().map_or_else(String::new, |context| format!(", context {context}"));
    warning(&format!("{}{context}", cluster.url().trim_end_matches('/')), namespace, state, others)
}

fn warning(cluster: &str, namespace: &str, state: State, others: &BTreeSet<String>) -> Vec<String> {
    let mut out = match state {
        State::Gone => {
            vec![format!("The namespace {namespace} is gone; what is left of it in the cluster {cluster} goes.")]
        }
        _ => vec![format!("The namespace {namespace} of the cluster {cluster} goes, with everything in it.")],
    };
    if state == State::Shared {
        out.push("No installer has made this namespace: other applications in it go too.".to_owned());
    }
    out.push(match others.is_empty() {
        true => "The definitions go, and with them all their resources.".to_owned(),
        false => definitions_stay(others),
    });
    out
}

fn definitions_stay(others: &BTreeSet<String>) -> String {
    format!("The definitions stay: they are used in other namespaces ({}).", listed(others))
}

fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// How the objects of a definition are addressed.
fn served(definition: &Value) -> Option<ApiResource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let version = spec["versions"].as_array()?.iter().find(|version| version["served"] == true)?;
    let names = &spec["names"];
    Some(ApiResource::new(
        text(&spec["group"])?,
        text(&version["name"])?,
        text(&names["plural"])?,
        text(&names["kind"])?,
    ))
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
    fn nothing_goes_where_nothing_is() {
        let none = BTreeSet::new();
        let others: BTreeSet<String> = ["dr", "velero"].map(str::to_owned).into();
        let (own, plain) = (json!({"metadata": {"labels": {"component": "velero"}}}), json!({"metadata": {}}));
        let no_velero = |elsewhere: &str| {
            Err(format!(
                "the namespace n holds no Velero, and nothing was deleted: neither has it the label component=velero nor a \
                 Deployment velero{elsewhere}; if it shall go nevertheless, delete it with kubectl"
            ))
        };
        for (namespace, installed, others, expected) in [
            (Some(&own), false, &none, Ok(State::Own)),
            (Some(&own), true, &others, Ok(State::Own)),
            (Some(&plain), true, &none, Ok(State::Shared)),
            (Some(&plain), false, &none, no_velero("")),
            (Some(&plain), false, &others, no_velero("; Velero is in dr, velero: name one with -n")),
            (None, false, &none, Ok(State::Gone)),
            (None, true, &others, Ok(State::Gone)),
            (
                None,
                false,
                &others,
                Err("there is no namespace n, and nothing was deleted; Velero is in dr, velero: name one with -n"
                    .into()),
            ),
        ] {
            assert_eq!(state("n", namespace, installed, others), expected, "{namespace:?} {installed} {others:?}");
        }
    }

    #[test]
    fn who_is_asked_knows_what_goes() {
        let (none, others) = (BTreeSet::new(), BTreeSet::from(["dr".to_owned()]));
        let told = |state, others| warning("https://c:6443, context prod", "n", state, others).join("\n");
        assert_eq!(
            told(State::Own, &none),
            "The namespace n of the cluster https://c:6443, context prod goes, with everything in it.\n\
             The definitions go, and with them all their resources."
        );
        assert_eq!(
            told(State::Shared, &others),
            "The namespace n of the cluster https://c:6443, context prod goes, with everything in it.\n\
             No installer has made this namespace: other applications in it go too.\n\
             The definitions stay: they are used in other namespaces (dr)."
        );
        assert_eq!(
            told(State::Gone, &none),
            "The namespace n is gone; what is left of it in the cluster https://c:6443, context prod goes.\n\
             The definitions go, and with them all their resources."
        );
    }

    #[test]
    fn definitions_tell_how_their_objects_are_addressed() {
        let all: Vec<ApiResource> = lifeboat_api::crds().iter().filter_map(served).collect();
        assert_eq!(all.len(), 13);
        assert!(all.contains(&custom::<Restore>()) && all.contains(&custom::<DataUpload>()), "{all:?}");
        assert_eq!(served(&json!({"spec": {"versions": [{"name": "v1", "served": false}]}})), None);
    }

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
