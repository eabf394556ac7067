//! The pod template of the node agent's DaemonSet, from which the movers' pods inherit. Pure.

use lifeboat_api::well_known::HOST_PODS;
use serde_json::Value;

/// The volume of the agent with the directories of the kubelet's plugins.
const HOST_PLUGINS: &str = "host-plugins";

/// The reason why a DaemonSet cannot be inherited from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error(
        "the DaemonSet {name} has {count} containers in its template, and the pods of movers inherit from exactly one"
    )]
    Containers { name: String, count: usize },
}

/// The parts of the template that the pods of movers inherit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Template {
    /// The template's pod: `metadata` and `spec`.
    pod: Value,
    container: Value,
}

impl Template {
    /// The template of a DaemonSet.
    pub(crate) fn of(daemon_set: &Value) -> Result<Self, TemplateError> {
        let pod = &daemon_set["spec"]["template"];
        match pod["spec"]["containers"].as_array().map(Vec::as_slice) {
            Some([container]) => Ok(Self { pod: pod.clone(), container: container.clone() }),
            other => Err(TemplateError::Containers {
                name: daemon_set["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                count: other.map_or(0, <[Value]>::len),
            }),
        }
    }

    /// A field of the pod's spec.
    pub(crate) fn spec(&self, field: &str) -> &Value {
        &self.pod["spec"][field]
    }

    /// A field of the container.
    pub(crate) fn container(&self, field: &str) -> &Value {
        &self.container[field]
    }

    /// A label of the pod.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.pod["metadata"]["labels"][key].as_str()
    }

    /// An annotation of the pod.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.pod["metadata"]["annotations"][key].as_str()
    }

    /// The volumes, and the mounts of the container. Other host paths come only where asked for, and those of the kubelet never: a
    /// mover has nothing but its own volume.
    pub(crate) fn volumes(&self, with_host_paths: bool) -> (Vec<Value>, Vec<Value>) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (mut volumes, mut mounts) = (list(self.spec("volumes")), list(self.container("volumeMounts")));
        let is_of_kubelet = |volume: &Value| {
            volume["name"] == HOST_PLUGINS
                || mounts.iter().any(|mount| mount["name"] == volume["name"] && mount["mountPath"] == HOST_PODS)
        };
        let is_left_out = |volume: &Value| !volume["hostPath"].is_null() && (!with_host_paths || is_of_kubelet(volume));
        let left_out: Vec<Value> =
            volumes.iter().filter(|volume| is_left_out(volume)).map(|v| v["name"].clone()).collect();
        mounts.retain(|mount| !left_out.contains(&mount["name"]));
        volumes.retain(|volume| !left_out.contains(&volume["name"]));
        (volumes, mounts)
    }

    /// The arguments that say how to log.
    pub(crate) fn log_arguments(&self) -> Vec<String> {
        let arguments = self.container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let of_log = |argument: &&str| ["--log-level", "--log-format"].iter().any(|flag| argument.starts_with(flag));
        arguments.filter(of_log).map(str::to_owned).collect()
    }

    /// The node's directory that the agent has at [`HOST_PODS`].
    pub(crate) fn host_pods(&self) -> Option<&str> {
        let mounts = self.container("volumeMounts").as_array()?;
        let mount = mounts.iter().find(|mount| mount["mountPath"] == HOST_PODS)?;
        let volumes = self.spec("volumes").as_array()?;
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"])?;
        volume["hostPath"]["path"].as_str()
    }
}
