//! The DaemonSets of the node agent (velero: pkg/install/daemonset.go). Pure.

use crate::installation::Installation;
use crate::names::{component, metadata};
use crate::pod::{
    METRICS_PORT, METRICS_PORT_NAME, NodeSystem, PROGRAM, add_credentials, empty, from_field, mount, node_affinity,
    pull_policy, resources, service_account, with,
};
use lifeboat_api::well_known::{
    HOST_PODS, LABEL_NAME, LABEL_ROLE, NODE_AGENT, NODE_AGENT_WINDOWS, SCRATCH_FOLDER, VARIABLE_SCRATCH,
};
use serde_json::{Value, json};

/// The folder at which it sees the volumes of block mode, whatever the kubelet's own folder is.
const HOST_PLUGINS: &str = "/var/lib/kubelet/plugins";

/// The DaemonSets that an installation asks for: each has the pods for nodes of one operating system.
pub(crate) fn daemon_sets(installation: &Installation) -> Vec<Value> {
    let asked = [
        (installation.node_agent, NODE_AGENT, NodeSystem::Linux),
        (installation.node_agent_windows, NODE_AGENT_WINDOWS, NodeSystem::Windows),
    ];
    asked
        .into_iter()
        .filter(|(is_asked, ..)| *is_asked)
        .map(|(_, name, on)| daemon_set(installation, name, on))
        .collect()
}

fn daemon_set(installation: &Installation, name: &str, system: NodeSystem) -> Value {
    let selector = json!({LABEL_NAME: name});
    let mut env = vec![
        from_field("NODE_NAME", "spec.nodeName"),
        from_field("VELERO_NAMESPACE", "metadata.namespace"),
        json!({"name": VARIABLE_SCRATCH, "value": SCRATCH_FOLDER}),
    ];
    let (mut mounts, mut volumes) = (Vec::new(), Vec::new());
    if installation.node_agent_host_paths {
        // Volumes that are mounted on the node later shall be seen too.
        let seen =
            |name: &str, path: &str| json!({"name": name, "mountPath": path, "mountPropagation": "HostToContainer"});
        let root = installation.kubelet_root.replace('\\', "/");
        let root = root.trim_end_matches('/');
        mounts.extend([seen("host-pods", HOST_PODS), seen("host-plugins", HOST_PLUGINS)]);
        volumes.extend(
            [("host-pods", "pods"), ("host-plugins", "plugins")]
                .map(|(name, folder)| json!({"name": name, "hostPath": {"path": format!("{root}/{folder}")}})),
        );
    }
    mounts.push(mount("scratch", SCRATCH_FOLDER));
    volumes.push(empty("scratch"));
    add_credentials(installation, &mut env, &mut mounts, &mut volumes);
    let mut container = json!({
        "name": name, "image": installation.image, "imagePullPolicy": pull_policy(&installation.image),
        "command": [PROGRAM], "args": args(installation),
        "ports": [{"containerPort": METRICS_PORT, "name": METRICS_PORT_NAME}],
        "env": env, "volumeMounts": mounts, "resources": resources(&installation.node_agent_resources),
    });
    let mut pod = json!({
        "affinity": node_affinity(system), "serviceAccountName": service_account(installation), "volumes": volumes,
    });
    match system {
        NodeSystem::Linux => {
            pod["securityContext"] = json!({"runAsUser": 0});
            container["securityContext"] = json!({"privileged": installation.privileged_node_agent});
        }
        NodeSystem::Windows => {
            pod["os"] = json!({"name": "windows"});
            pod["tolerations"] = ["NoSchedule", "NoExecute"]
                .map(|effect| json!({"key": "os", "operator": "Equal", "value": "windows", "effect": effect}))
                .into();
        }
    }
    pod["containers"] = json!([container]);
    if let Some(class) = &installation.node_agent_priority_class {
        pod["priorityClassName"] = json!(class);
    }
    let own = with(&selector, &json!({LABEL_ROLE: NODE_AGENT}));
    let labels = with(&with(&json!(component()), &json!(installation.pod_labels)), &own);
    let mut template = json!({"labels": labels});
    if !installation.pod_annotations.is_empty() {
        template["annotations"] = json!(installation.pod_annotations);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata(name, Some(&installation.namespace)),
        "spec": {
            "selector": {"matchLabels": selector}, "updateStrategy": {},
            "template": {"metadata": template, "spec": pod},
        },
    })
}

/// The node agent's command line, in the order of Velero.
fn args(installation: &Installation) -> Vec<String> {
    let settings = &installation.server;
    let mut out = vec!["node-agent".to_owned(), "server".to_owned(), format!("--features={}", settings.features)];
    for (flag, name) in [
        ("--node-agent-configmap", &installation.node_agent_config_map),
        ("--backup-repository-configmap", &settings.repository_config_map),
    ] {
        out.extend(name.iter().map(|name| format!("{flag}={name}")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::{Credentials, ServerSettings};

    fn with_agents() -> Installation {
        Installation { node_agent: true, node_agent_windows: true, ..Installation::default() }
    }

    fn pods(installation: &Installation) -> [Value; 2] {
        let pods: Vec<Value> =
            daemon_sets(installation).iter().map(|set| set["spec"]["template"]["spec"].clone()).collect();
        pods.try_into().unwrap()
    }

    #[test]
    fn a_node_agent_is_made_for_each_system_that_is_asked_for() {
        for (node_agent, node_agent_windows, expected) in [
            (false, false, vec![]),
            (true, false, vec!["node-agent"]),
            (false, true, vec!["node-agent-windows"]),
            (true, true, vec!["node-agent", "node-agent-windows"]),
        ] {
            let sets = daemon_sets(&Installation { node_agent, node_agent_windows, ..Installation::default() });
            let names: Vec<&str> = sets.iter().filter_map(|set| set["metadata"]["name"].as_str()).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn settings_of_the_node_agent_reach_its_command_line() {
        let text = |text: &str| Some(text.to_owned());
        let installation = Installation {
            node_agent_config_map: text("a"),
            server: ServerSettings {
                features: "EnableCSI".into(),
                repository_config_map: text("b"),
                ..ServerSettings::default()
            },
            ..with_agents()
        };
        for pod in pods(&installation) {
            assert_eq!(
                pod["containers"][0]["args"],
                json!([
                    "node-agent",
                    "server",
                    "--features=EnableCSI",
                    "--node-agent-configmap=a",
                    "--backup-repository-configmap=b"
                ])
            );
        }
    }

    #[test]
    fn only_the_linux_agent_is_privileged_and_only_on_request() {
        let contexts = |privileged_node_agent| {
            pods(&Installation { privileged_node_agent, ..with_agents() })
                .map(|pod| (pod["securityContext"].clone(), pod["containers"][0]["securityContext"].clone()))
        };
        let root = json!({"runAsUser": 0});
        let none = (Value::Null, Value::Null);
        assert_eq!(contexts(false), [(root.clone(), json!({"privileged": false})), none.clone()]);
        assert_eq!(contexts(true), [(root, json!({"privileged": true})), none]);
    }

    #[test]
    fn the_node_agent_sees_the_folders_of_the_kubelet_that_is_named() {
        let paths = |kubelet_root: &str, node_agent_host_paths| {
            let kubelet_root = kubelet_root.to_owned();
            let installation = Installation { kubelet_root, node_agent_host_paths, ..with_agents() };
            pods(&installation).map(|pod| {
                let volumes = pod["volumes"].as_array().unwrap().clone();
                volumes
                    .iter()
                    .filter_map(|volume| volume["hostPath"]["path"].as_str().map(str::to_owned))
                    .collect::<Vec<_>>()
            })
        };
        let usual = vec!["/var/lib/kubelet/pods".to_owned(), "/var/lib/kubelet/plugins".to_owned()];
        assert_eq!(paths("/var/lib/kubelet", true), [usual.clone(), usual]);
        let windows = vec!["C:/k/pods".to_owned(), "C:/k/plugins".to_owned()];
        assert_eq!(paths("C:\\k\\", true), [windows.clone(), windows]);
        assert_eq!(paths("/var/lib/kubelet", false), [Vec::<String>::new(), Vec::new()]);
    }

    #[test]
    fn rare_values_reach_the_pods_of_the_node_agent() {
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut installation = Installation {
            secret: Some(Credentials(b"x".to_vec())),
            pod_labels: pairs(&[("role", "mine"), ("a", "b")]),
            pod_annotations: pairs(&[("c", "d")]),
            node_agent_priority_class: Some("high".into()),
            service_account: Some("own".into()),
            ..with_agents()
        };
        installation.node_agent_resources.memory_limit = "1Gi".into();
        let set = &daemon_sets(&installation)[0];
        assert_eq!(
            set["spec"]["template"]["metadata"],
            json!({
                "labels": {"a": "b", "component": "velero", "name": "node-agent", "role": "node-agent"},
                "annotations": {"c": "d"},
            })
        );
        let pod = &set["spec"]["template"]["spec"];
        assert_eq!((&pod["priorityClassName"], &pod["serviceAccountName"]), (&json!("high"), &json!("own")));
        let container = &pod["containers"][0];
        assert_eq!(container["resources"], json!({"limits": {"memory": "1Gi"}}));
        assert_eq!(
            container["env"][3],
            json!({"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/credentials/cloud"})
        );
        assert_eq!(pod["volumes"][3]["name"], "cloud-credentials");
    }
}
