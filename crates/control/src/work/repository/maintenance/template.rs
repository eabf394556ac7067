//! The pod of the server, from which maintenance Jobs inherit.

use crate::work::{Context, StepError};
use lifeboat_api::server_container;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

/// The volumes in which a cluster puts the token of a service account into each pod.
const TOKENS: &str = "kube-api-access-";
/// Tolerations that a cluster gives to each pod.
const TOLERATED_BY_ALL: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The parts of the server's pod that maintenance Jobs inherit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PodTemplate {
    /// `metadata` and `spec`.
    pod: Value,
    container: Value,
}

impl PodTemplate {
    /// The template of the pod in which this server runs: that of its ReplicaSet, else the pod itself, less what the cluster has put
    /// into it. `None` for a server that runs in no pod of its namespace.
    pub(super) async fn of_own_pod(context: &Context) -> Result<Option<Self>, StepError> {
        let Some(own) = &context.env.process.pod else { return Ok(None) };
        let client = &context.client;
        let pods = ApiResource::new("", "v1", "pods", "Pod");
        let Some(body) = client.cluster.get(&pods, Some(&client.namespace), &own.name).await? else { return Ok(None) };
        let pod: Value = serde_json::from_slice(&body)
            .map_err(|e| StepError::Because(format!("the pod {} of this server is no JSON: {e}", own.name)))?;
        if pod["metadata"]["uid"] != own.uid.as_str() {
            return Ok(None);
        }
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.clone().find(|owner| owner["kind"] == "ReplicaSet").and_then(|owner| owner["name"].as_str());
        if let Some(name) = owner {
            let sets = ApiResource::new("apps", "v1", "replicasets", "ReplicaSet");
            match client.cluster.get(&sets, Some(&client.namespace), name).await {
                Ok(Some(body)) => {
                    let set: Value = serde_json::from_slice(&body).unwrap_or_default();
                    if set["spec"]["template"]["spec"]["containers"].is_array() {
                        return Ok(Some(Self::of(set["spec"]["template"].clone())));
                    }
                }
                Ok(None) => {}
                Err(e) if e.is_denied() => {
                    tracing::debug!(error = %e, "maintenance Jobs inherit from the server's pod, not from its ReplicaSet");
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Some(Self::of(stripped(pod))))
    }

    /// The template of a pod with the server's container.
    pub(super) fn of(pod: Value) -> Self {
        let container = server_container(&pod).clone();
        Self { pod, container }
    }

    /// A field of the pod's spec.
    pub(super) fn spec(&self, field: &str) -> &Value {
        &self.pod["spec"][field]
    }

    /// A field of the container.
    pub(super) fn container(&self, field: &str) -> &Value {
        &self.container[field]
    }

    /// A label of the pod.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.pod["metadata"]["labels"][key].as_str()
    }

    /// An annotation of the pod.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod["metadata"]["annotations"][key].as_str()
    }

    /// The value of an argument of the server that is written `--name=value`, or as two words.
    pub(super) fn argument(&self, name: &str) -> Option<&str> {
        let words: Vec<&str> =
            self.container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let joined = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        joined.or_else(|| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied())
    }

    /// The volumes that the container mounts, and its mounts.
    pub(super) fn volumes(&self) -> (Vec<Value>, Vec<Value>) {
        let mounts = self.container["volumeMounts"].as_array().cloned().unwrap_or_default();
        let volumes = self.spec("volumes").as_array().cloned().unwrap_or_default();
        let is_mounted = |volume: &Value| mounts.iter().any(|mount| mount["name"] == volume["name"]);
        (volumes.into_iter().filter(is_mounted).collect(), mounts)
    }

    /// Returns true if the container mounts claims.
    pub(super) fn has_claims(&self) -> bool {
        self.volumes().0.iter().any(|volume| !volume["persistentVolumeClaim"].is_null())
    }
}

/// A pod without what a cluster puts into each.
fn stripped(mut pod: Value) -> Value {
    let is_token = |volume: &Value| volume["name"].as_str().is_some_and(|name| name.starts_with(TOKENS));
    let without = |list: &Value, is_out: &dyn Fn(&Value) -> bool| {
        json!(list.as_array().into_iter().flatten().filter(|entry| !is_out(entry)).collect::<Vec<_>>())
    };
    let spec = &mut pod["spec"];
    spec["volumes"] = without(&spec["volumes"], &is_token);
    let of_all = |toleration: &Value| TOLERATED_BY_ALL.iter().any(|key| toleration["key"] == *key);
    spec["tolerations"] = without(&spec["tolerations"], &of_all);
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        container["volumeMounts"] = without(&container["volumeMounts"], &is_token);
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gives_what_its_template_had() {
        let pod = json!({
            "metadata": {"labels": {"deploy": "velero"}},
            "spec": {
                "serviceAccountName": "velero",
                "tolerations": [
                    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                    {"key": "dedicated", "operator": "Exists"},
                ],
                "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "kube-api-access-x1", "projected": {}}, {"name": "other"}],
                "containers": [
                    {"name": "sidecar", "image": "s", "volumeMounts": [{"name": "other", "mountPath": "/o"}]},
                    {"name": "velero", "image": "i", "command": ["/velero"], "args": ["server", "--directory-root", "/backups"],
                        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "kube-api-access-x1", "mountPath": "/t"}]},
                ],
            },
        });
        let template = PodTemplate::of(stripped(pod));
        assert_eq!(template.container("image"), "i");
        assert_eq!(template.spec("tolerations"), &json!([{"key": "dedicated", "operator": "Exists"}]));
        assert_eq!((template.argument("--directory-root"), template.argument("--no")), (Some("/backups"), None));
        let scratch = json!({"name": "scratch", "emptyDir": {}});
        assert_eq!(template.volumes(), (vec![scratch], vec![json!({"name": "scratch", "mountPath": "/scratch"})]));
        assert!(!template.has_claims());
        assert_eq!((template.label("deploy"), template.annotation("deploy")), (Some("velero"), None));
    }
}
