//! The plugins of a server that runs: init containers that bring their programs into its pod (velero: pkg/cmd/cli).

use crate::kinds::deployments;
use crate::names::component_selector;
use crate::pod::{empty, mount};
use crate::workload::{PLUGINS, PLUGINS_AT, PLUGINS_TARGET, plugin_name};
use bytes::Bytes;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, MergePatch};
use serde_json::{Value, json};

/// The number of attempts at a change when others write the Deployment too.
const ATTEMPTS: usize = 8;
/// The container of the server.
const SERVER: &str = "velero";

/// A change to the plugins of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginChange<'a> {
    /// Add an init container of this image.
    Add {
        /// The image.
        image: &'a str,
        /// The pull policy: `Always`, `IfNotPresent` or `Never`.
        pull_policy: &'a str,
    },
    /// Remove the first init container of this name or image.
    Remove {
        /// Its name or image.
        which: &'a str,
    },
}

/// The reason for which the plugins of a server are not changed.
#[derive(Debug, thiserror::Error)]
pub enum PluginChangeError {
    /// A call to the cluster failed for good.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// There is no Deployment of a server.
    #[error("Velero deployment does not exist in namespace {0}, run 'install' first")]
    NoServer(String),
    /// No init container is meant.
    #[error("init container {which} not found in Velero server deployment; it has {there}", there = listed(there))]
    NoContainer {
        /// The name or image that was asked for.
        which: String,
        /// Names and images of those that are there.
        there: Vec<String>,
    },
    /// Others have changed the Deployment each time meanwhile; so many times it was tried.
    #[error("the deployment {0} was changed by others {1} times while its plugins were to be changed: try again")]
    Busy(String, usize),
}

fn listed(there: &[String]) -> String {
    if there.is_empty() { "none".to_owned() } else { there.join(", ") }
}

/// Changes the plugins of the server of a namespace; its pods are replaced then. Nobody else's change of the Deployment is lost.
///
/// # Errors
/// [`PluginChangeError`]; that an image is there already is what the API server says: `Duplicate value`.
pub async fn change_plugins(
    cluster: &Cluster,
    namespace: &str,
    change: PluginChange<'_>,
) -> Result<(), PluginChangeError> {
    let mut name = String::new();
    for _ in 0..ATTEMPTS {
        let deployment = server_deployment(cluster, namespace).await?;
        let deployment = deployment.ok_or_else(|| PluginChangeError::NoServer(namespace.to_owned()))?;
        let patch = patch(&deployment, change)?;
        name = deployment["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let patch = MergePatch::of(Bytes::from(patch.to_string()));
        match cluster.patch(&deployments(), Some(namespace), &name, patch).await {
            Err(e) if e.is_conflict() => {}
            patched => {
                patched?;
                return Ok(());
            }
        }
    }
    Err(PluginChangeError::Busy(name, ATTEMPTS))
}

/// Returns true if a namespace has a Deployment of Lifeboat's or Velero's server, by its label.
///
/// # Errors
/// [`ClusterError`].
pub async fn is_installed(cluster: &Cluster, namespace: &str) -> Result<bool, ClusterError> {
    let mut list = cluster.list(
        ListRequest::all(deployments())
            .in_namespace(namespace.to_owned())
            .labelled(component_selector())
            .metadata_only(),
    );
    Ok(list.next().await?.is_some())
}

/// The Deployment of Lifeboat's or Velero's server in a namespace, whatever it is called: that with its label (`component=velero`) and a
/// container `velero`. `None` where there is none.
///
/// # Errors
/// [`ClusterError`].
pub async fn server_deployment(cluster: &Cluster, namespace: &str) -> Result<Option<Value>, ClusterError> {
    let mut list =
        cluster.list(ListRequest::all(deployments()).in_namespace(namespace.to_owned()).labelled(component_selector()));
    let mut found = None;
    while let Some(bodies) = list.next().await? {
        let mut read = bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok());
        found = found.or_else(|| read.find(is_server));
    }
    Ok(found)
}

fn is_server(deployment: &Value) -> bool {
    all(pod(deployment), "containers").iter().any(|container| container["name"] == SERVER)
}

fn pod(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]
}

fn all<'a>(object: &'a Value, list: &str) -> &'a [Value] {
    object[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The merge patch of a change, on condition that the Deployment is as it was read.
fn patch(deployment: &Value, change: PluginChange<'_>) -> Result<Value, PluginChangeError> {
    let mut spec = match change {
        PluginChange::Add { image, pull_policy } => added(pod(deployment), image, pull_policy),
        PluginChange::Remove { which } => json!({"initContainers": without(pod(deployment), which)?}),
    };
    // A merge patch cannot empty a list but by taking it away.
    if spec["initContainers"] == json!([]) {
        spec["initContainers"] = Value::Null;
    }
    let revision = &deployment["metadata"]["resourceVersion"];
    Ok(json!({"metadata": {"resourceVersion": revision}, "spec": {"template": {"spec": spec}}}))
}

/// The patch of a pod that gets a plugin: the folder of plugins, where it has none, and the container.
fn added(pod: &Value, image: &str, pull_policy: &str) -> Value {
    let mut plugin = json!({
        "name": plugin_name(image), "image": image, "imagePullPolicy": pull_policy,
        "volumeMounts": [mount(PLUGINS, PLUGINS_TARGET)], "resources": {},
    });
    let mut containers = all(pod, "containers").to_vec();
    let mut volumes = all(pod, "volumes").to_vec();
    let mut spec = json!({});
    if let Some(server) = containers.iter_mut().find(|container| container["name"] == SERVER) {
        // What lets the server into its namespace lets the plugin in too.
        if !server["securityContext"].is_null() {
            plugin["securityContext"] = server["securityContext"].clone();
        }
        let mut mounts = all(server, "volumeMounts").to_vec();
        if !mounts.iter().any(|mount| mount["name"] == PLUGINS) {
            mounts.push(mount(PLUGINS, PLUGINS_AT));
            server["volumeMounts"] = json!(mounts);
            spec["containers"] = json!(containers);
        }
    }
    if !volumes.iter().any(|volume| volume["name"] == PLUGINS) {
        volumes.push(empty(PLUGINS));
        spec["volumes"] = json!(volumes);
    }
    let plugins: Vec<&Value> = all(pod, "initContainers").iter().chain([&plugin]).collect();
    spec["initContainers"] = json!(plugins);
    spec
}

fn without(pod: &Value, which: &str) -> Result<Vec<Value>, PluginChangeError> {
    let mut containers = all(pod, "initContainers").to_vec();
    let is_meant = |container: &Value| container["name"] == which || container["image"] == which;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match containers.iter().position(is_meant) {
        Some(place) => drop(containers.remove(place)),
        None => {
            let there = containers.iter().map(|one| format!("{} ({})", text(&one["name"]), text(&one["image"])));
            return Err(PluginChangeError::NoContainer { which: which.to_owned(), there: there.collect() });
        }
    }
    Ok(containers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: PluginChange<'_> = PluginChange::Add { image: "example.io/a/plugin:v1", pull_policy: "Never" };

    fn deployment(pod: Value) -> Value {
        json!({"metadata": {"name": "velero", "resourceVersion": "7"}, "spec": {"template": {"spec": pod}}})
    }

    fn patched(pod: Value) -> Value {
        json!({"metadata": {"resourceVersion": "7"}, "spec": {"template": {"spec": pod}}})
    }

    fn plugin(security: Option<Value>) -> Value {
        let mut plugin = json!({"name": "a-plugin", "image": "example.io/a/plugin:v1", "imagePullPolicy": "Never",
            "volumeMounts": [{"name": "plugins", "mountPath": "/target"}], "resources": {}});
        if let Some(security) = security {
            plugin["securityContext"] = security;
        }
        plugin
    }

    #[test]
    fn a_plugin_comes_behind_those_that_are_there() {
        let server = json!({"name": "velero", "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}]});
        let pod = json!({"containers": [server], "volumes": [{"name": "plugins", "emptyDir": {}}],
            "initContainers": [{"name": "other", "image": "o"}]});
        let expected = patched(json!({"initContainers": [{"name": "other", "image": "o"}, plugin(None)]}));
        assert_eq!(patch(&deployment(pod), ADD).unwrap(), expected);
    }

    #[test]
    fn a_server_gets_a_missing_plugins_folder_and_the_plugin_its_rights() {
        let restricted = json!({"runAsNonRoot": true});
        let pod = json!({"containers": [{"name": "sidecar"}, {"name": "velero", "securityContext": restricted}]});
        let mounts = json!([{"name": "plugins", "mountPath": "/plugins"}]);
        let server = json!({"name": "velero", "securityContext": restricted, "volumeMounts": mounts});
        let expected = patched(json!({"containers": [{"name": "sidecar"}, server],
            "volumes": [{"name": "plugins", "emptyDir": {}}], "initContainers": [plugin(Some(restricted))]}));
        assert_eq!(patch(&deployment(pod), ADD).unwrap(), expected);
    }

    #[test]
    fn a_plugin_is_removed_by_its_name_or_its_image() {
        let pod = json!({"initContainers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]});
        let remove = |which| patch(&deployment(pod.clone()), PluginChange::Remove { which });
        let left = |name, image| patched(json!({"initContainers": [{"name": name, "image": image}]}));
        assert_eq!(remove("a").unwrap(), left("b", "y"));
        assert_eq!(remove("y").unwrap(), left("a", "x"));
        let none = "init container c not found in Velero server deployment; it has a (x), b (y)";
        assert_eq!(remove("c").unwrap_err().to_string(), none);
        let only = json!({"initContainers": [{"name": "a", "image": "x"}]});
        let gone = patched(json!({"initContainers": null}));
        assert_eq!(patch(&deployment(only), PluginChange::Remove { which: "a" }).unwrap(), gone);
    }
}
