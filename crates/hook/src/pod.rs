//! The facts about a pod that hooks need.

use lifeboat_object::{GroupResource, ObjectKey, labels, texts};
use serde_json::Value;
use std::collections::BTreeMap;

/// The facts about a pod that hooks need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: another pod of the name is another pod.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The containers in which a command can run, in their order: the regular ones, then init containers that go on
    /// running beside them (`restartPolicy: Always`).
    pub containers: Vec<String>,
    /// Containers among them whose process has ended and is never started again.
    pub ended: Vec<String>,
    /// True when it has ended, so that no command can run in it.
    pub is_over: bool,
}

impl HookPod {
    /// Reads a pod. Fields that are missing or of another type than in Kubernetes count as absent.
    #[must_use]
    pub fn of(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = |list: &Value, stays: fn(&Value) -> bool| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.filter(|c| stays(c)).filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
        };
        let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
        let mut containers = of(&spec["containers"], |_| true);
        containers.extend(of(&spec["initContainers"], |c| c["restartPolicy"] == "Always"));
        Self {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
            labels: labels(pod),
            annotations: texts(&metadata["annotations"]),
            containers,
            ended: [&pod["status"]["containerStatuses"], &pod["status"]["initContainerStatuses"]]
                .into_iter()
                .flat_map(|list| of(list, |status| status["state"]["terminated"].is_object()))
                .filter(|_| spec["restartPolicy"] == "Never")
                .collect(),
            is_over: matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        }
    }

    /// The pod as messages name it.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "pods"), Some(&self.namespace), self.name.clone())
    }

    /// The container that a hook names, or the first one.
    ///
    /// # Errors
    /// A message that the container is not there, or does not run.
    pub(crate) fn container(&self, named: &str) -> Result<&str, String> {
        let found = if named.is_empty() {
            self.containers.first()
        } else {
            self.containers.iter().find(|container| *container == named)
        };
        match found {
            Some(container) if self.ended.contains(container) => {
                Err(format!("the container {container} does not run: its process has ended"))
            }
            Some(container) => Ok(container),
            None if named.is_empty() => Err(format!("the pod {}/{} has no container", self.namespace, self.name)),
            None => Err(format!("no such container: {named:?} (the pod has {})", self.containers.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_run_in_regular_containers_and_in_running_init_containers() {
        let pod = HookPod::of(&json!({
            "metadata": {"namespace": "shop", "name": "db-0", "uid": "u", "labels": {"app": "db"}, "annotations": {"a": "b", "c": 1}},
            "spec": {
                "restartPolicy": "Never",
                "initContainers": [{"name": "init"}, {"name": "proxy", "restartPolicy": "Always"}],
                "containers": [{"name": "db"}, {"name": "log"}],
            },
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "db", "state": {"running": {}}}, {"name": "log", "state": {"terminated": {"exitCode": 0}}}]},
        }));
        let texts = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let expected = HookPod {
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            uid: "u".to_owned(),
            labels: texts("app", "db"),
            annotations: texts("a", "b"),
            containers: ["db", "log", "proxy"].map(str::to_owned).to_vec(),
            ended: vec!["log".to_owned()],
            is_over: false,
        };
        assert_eq!(pod, expected);
        for (named, found) in [("", Ok("db")), ("proxy", Ok("proxy")), ("init", Err(())), ("gone", Err(()))] {
            assert_eq!(pod.container(named).map_err(drop), found, "{named}");
        }
        let error = r#"no such container: "gone" (the pod has db, log, proxy)"#;
        assert_eq!(pod.container("gone"), Err(error.to_owned()));
        let error = "the container log does not run: its process has ended";
        assert_eq!(pod.container("log"), Err(error.to_owned()));
        let restarts = HookPod::of(&json!({"spec": {"restartPolicy": "Always", "containers": [{"name": "log"}]},
            "status": {"containerStatuses": [{"name": "log", "state": {"terminated": {"exitCode": 137}}}]}}));
        assert_eq!(restarts.container("log"), Ok("log"), "it is started again, and what it froze is frozen still");
        assert_eq!(HookPod::default().container(""), Err("the pod / has no container".to_owned()));
    }

    #[test]
    fn no_command_runs_in_a_pod_that_has_ended() {
        for (phase, expected) in [("Running", false), ("Pending", false), ("Succeeded", true), ("Failed", true)] {
            assert_eq!(HookPod::of(&json!({"status": {"phase": phase}})).is_over, expected, "{phase}");
        }
        assert!(!HookPod::of(&json!({})).is_over);
    }
}
