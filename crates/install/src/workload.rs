//! The Deployment of the server, and the budget that keeps some of its pods running
//! (velero: pkg/install/deployment.go). Pure.

use crate::installation::{DirectoryVolume, Installation, ServerSettings};
use crate::names::{DEPLOYMENT, component, metadata};
use crate::pod::{
    METRICS_PORT, METRICS_PORT_NAME, NodeSystem, PROGRAM, add_credentials, empty, from_field, mount, node_affinity,
    pull_policy, resources, service_account, with,
};
use lifeboat_api::well_known::{LABEL_DEPLOY, SCRATCH_FOLDER, VARIABLE_SCRATCH};
use lifeboat_api::{Duration, label_value};
use serde_json::{Value, json};

/// User and group of the image, as `cargo xtask image` makes it.
const USER: u32 = 65532;
/// The folder in memory where the server keeps the credentials of locations, which no disk of a node shall hold.
const CREDENTIAL_FILES: &str = "/tmp";
const CREDENTIAL_FILES_LIMIT: &str = "64Mi";

/// The volume whose folders are buckets, and where the server finds it.
const DIRECTORY: &str = "backups";
pub(crate) const DIRECTORY_AT: &str = "/backups";
/// The volume in which plugins lie, and where the server finds it.
pub(crate) const PLUGINS: &str = "plugins";
pub(crate) const PLUGINS_AT: &str = "/plugins";
/// The folder at which an init container that brings plugins mounts the volume of plugins.
pub const PLUGINS_TARGET: &str = "/target";
pub(crate) fn deployment(installation: &Installation) -> Value {
    let selector = selector();
    let annotations = with(
        &json!({
            "prometheus.io/scrape": "true", "prometheus.io/port": METRICS_PORT.to_string(),
            "prometheus.io/path": "/metrics",
        }),
        &json!(installation.pod_annotations),
    );
    let mut env = vec![
        json!({"name": VARIABLE_SCRATCH, "value": SCRATCH_FOLDER}),
        from_field("VELERO_NAMESPACE", "metadata.namespace"),
        // By it the server knows which of the pods it is.
        from_field("POD_NAME", "metadata.name"),
        json!({"name": "LD_LIBRARY_PATH", "value": PLUGINS_AT}),
    ];
    let mut mounts =
        vec![mount(PLUGINS, PLUGINS_AT), mount("scratch", SCRATCH_FOLDER), mount("credential-files", CREDENTIAL_FILES)];
    let mut volumes = vec![empty(PLUGINS), empty("scratch"), in_memory("credential-files", CREDENTIAL_FILES_LIMIT)];
    add_credentials(installation, &mut env, &mut mounts, &mut volumes);
    let mut args = server_args(&installation.server);
    if let Some(directory) = &installation.directory {
        args.push(format!("--directory-root={DIRECTORY_AT}"));
        mounts.push(mount(DIRECTORY, DIRECTORY_AT));
        volumes.push(directory_volume(directory));
    }
    if installation.frequent_snapshot_polling {
        env.push(json!({"name": "CSI_SNAPSHOT_EARLY_FREQUENT_POLLING", "value": "true"}));
    }
    let container = json!({
        "name": DEPLOYMENT, "image": installation.image, "imagePullPolicy": pull_policy(&installation.image),
        "command": [PROGRAM], "args": args,
        "ports": [{"containerPort": METRICS_PORT, "name": METRICS_PORT_NAME}],
        // Whether its loop hangs the server knows itself; a processor that is only busy gets time to answer.
        "livenessProbe": probe("/healthz", 30, 5), "readinessProbe": probe("/readyz", 10, 3),
        "env": env, "volumeMounts": mounts,
        "securityContext": with(&restricted(), &json!({"readOnlyRootFilesystem": true})),
        "resources": resources(&installation.server_resources),
    });
    let mut affinity = node_affinity(NodeSystem::Linux);
    let mut strategy = json!({"type": "Recreate"});
    if installation.replicas > 1 {
        strategy = json!({"type": "RollingUpdate"});
        let apart = |weight: u32, topology: &str| {
            let term = json!({"labelSelector": {"matchLabels": selector}, "topologyKey": topology});
            json!({"weight": weight, "podAffinityTerm": term})
        };
        affinity["podAntiAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            apart(100, "kubernetes.io/hostname"), apart(50, "topology.kubernetes.io/zone"),
        ]});
    }
    let mut pod = json!({
        "restartPolicy": "Always", "os": {"name": "linux"}, "affinity": affinity,
        "serviceAccountName": service_account(installation), "containers": [container], "volumes": volumes,
    });
    if matches!(installation.directory, Some(DirectoryVolume::Claim(_))) {
        // A new volume belongs to root: so the server may write into it.
        pod["securityContext"] = json!({"fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"});
    }
    let plugins: Vec<Value> = installation.plugins.iter().map(|image| plugin(installation, image.trim())).collect();
    if !plugins.is_empty() {
        pod["initContainers"] = json!(plugins);
    }
    if let Some(class) = &installation.server_priority_class {
        pod["priorityClassName"] = json!(class);
    }
    let labels = with(&with(&json!(component()), &json!(installation.pod_labels)), &selector);
    let mut spec = json!({
        "selector": {"matchLabels": selector}, "strategy": strategy,
        "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
    });
    // One replica is the default. It is left out, so that a server that a user has scaled to 0 stays so at the next apply.
    if installation.replicas > 1 {
        spec["replicas"] = json!(installation.replicas);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": metadata(DEPLOYMENT, Some(&installation.namespace)), "spec": spec,
    })
}

/// The server's command line, in the order of Velero.
fn server_args(settings: &ServerSettings) -> Vec<String> {
    let mut out = vec!["server".to_owned(), format!("--features={}", settings.features)];
    let mut flag = |given: bool, text: &str| {
        if given {
            out.push(text.to_owned());
        }
    };
    flag(settings.volumes_by_files, "--default-volumes-to-fs-backup=true");
    flag(settings.move_snapshot_data, "--default-snapshot-move-data=true");
    flag(settings.no_informer_cache, "--disable-informer-cache=true");
    flag(settings.schedules_wait, "--schedule-skip-immediately=true");
    flag(true, &format!("--uploader-type={}", settings.uploader));
    flag(settings.restore_only, "--restore-only");
    for (name, duration) in [
        ("default-repo-maintain-frequency", settings.maintenance_frequency),
        ("garbage-collection-frequency", settings.garbage_collection_frequency),
        ("fs-backup-timeout", settings.pod_volume_timeout),
    ] {
        flag(duration > Duration::ZERO, &format!("--{name}={duration}"));
    }
    let jobs = &settings.maintenance_jobs;
    let number = |n: u32| (n > 0).then(|| n.to_string());
    for (name, value) in [
        ("keep-latest-maintenance-jobs", &number(jobs.keep_latest)),
        ("maintenance-job-cpu-limit", &jobs.cpu_limit),
        ("maintenance-job-cpu-request", &jobs.cpu_request),
        ("maintenance-job-mem-limit", &jobs.memory_limit),
        ("maintenance-job-mem-request", &jobs.memory_request),
        ("backup-repository-configmap", &settings.repository_config_map),
        ("repo-maintenance-job-configmap", &settings.maintenance_config_map),
        ("default-resource-modifier-configmap", &settings.modifier_config_map),
        ("item-block-worker-count", &number(settings.item_block_workers)),
        ("concurrent-backups", &number(settings.concurrent_backups)),
    ] {
        if let Some(value) = value {
            flag(true, &format!("--{name}={value}"));
        }
    }
    out
}

/// The budget that lets a drain of nodes evict one server at a time. A single server needs none.
pub(crate) fn disruption_budget(installation: &Installation) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": metadata(DEPLOYMENT, Some(&installation.namespace)),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector()}},
    })
}

/// The selector by which the Deployment finds its pods.
fn selector() -> Value {
    json!({LABEL_DEPLOY: DEPLOYMENT})
}

/// A probe that asks the server by HTTP every so many seconds, and fails after so many failures in a row.
fn probe(path: &str, period: u32, failures: u32) -> Value {
    json!({
        "httpGet": {"path": path, "port": METRICS_PORT_NAME},
        "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures,
    })
}

/// An init container that copies a plugin to where the server looks for it.
fn plugin(installation: &Installation, image: &str) -> Value {
    let mut container = json!({
        "name": plugin_name(image), "image": image, "imagePullPolicy": pull_policy(&installation.image),
        "volumeMounts": [mount(PLUGINS, PLUGINS_TARGET)], "resources": {},
    });
    // Without it the namespace would refuse the pod.
    if installation.is_restricted() {
        container["securityContext"] = restricted();
    }
    container
}

/// A name for the container of an image: the image without registry, tag and digest.
pub(crate) fn plugin_name(image: &str) -> String {
    let path = match image.split_once('/') {
        Some((_, rest)) if rest.contains('/') => rest,
        _ => image,
    };
    let end = path.find([':', '@']).unwrap_or(path.len());
    label_value(&path[..end].replace(['/', '_', '.'], "-"))
}

/// The security context that the restricted profile of pods demands. It names a user, because a kubelet that must not run
/// root starts no image whose user is a name, as in the images of Velero and its plugins, which a patch may bring back.
fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
        "runAsUser": USER, "runAsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// An empty folder in memory, so that its files are on no disk.
fn in_memory(name: &str, limit: &str) -> Value {
    json!({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": limit}})
}

fn directory_volume(directory: &DirectoryVolume) -> Value {
    match directory {
        DirectoryVolume::Claim(name) => json!({"name": DIRECTORY, "persistentVolumeClaim": {"claimName": name}}),
        DirectoryVolume::Nfs { server, path } => json!({"name": DIRECTORY, "nfs": {"server": server, "path": path}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::{Credentials, MaintenanceJobs};
    use std::collections::BTreeMap;

    fn with_replicas(replicas: u32) -> Installation {
        Installation { namespace: "n".into(), replicas, ..Installation::default() }
    }

    #[test]
    fn a_directory_is_mounted_where_the_server_looks_for_it() {
        let with = |directory| {
            let spec =
                deployment(&Installation { directory, ..Installation::default() })["spec"]["template"]["spec"].take();
            let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
            let container = &spec["containers"][0];
            let group = spec["securityContext"]["fsGroup"].clone();
            (last(&container["args"]), last(&container["volumeMounts"]), last(&spec["volumes"]), group)
        };
        let (args, at) = (json!("--directory-root=/backups"), json!({"name": "backups", "mountPath": "/backups"}));
        assert_eq!(
            with(Some(DirectoryVolume::Claim("c".into()))),
            (
                args.clone(),
                at.clone(),
                json!({"name": "backups", "persistentVolumeClaim": {"claimName": "c"}}),
                json!(USER)
            )
        );
        assert_eq!(
            with(Some(DirectoryVolume::Nfs { server: "s".into(), path: "/p".into() })),
            (args, at, json!({"name": "backups", "nfs": {"server": "s", "path": "/p"}}), Value::Null)
        );
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn settings_reach_the_command_line_in_the_order_of_velero() {
        assert_eq!(server_args(&ServerSettings::default()), ["server", "--features=", "--uploader-type=kopia"]);
        let text = |text: &str| Some(text.to_owned());
        let all = ServerSettings {
            features: "EnableCSI,B".into(),
            restore_only: true,
            volumes_by_files: true,
            move_snapshot_data: true,
            no_informer_cache: true,
            schedules_wait: true,
            uploader: "velero-block".into(),
            maintenance_frequency: Duration::from_secs(7200),
            garbage_collection_frequency: Duration::from_secs(1800),
            pod_volume_timeout: Duration::from_secs(90),
            maintenance_jobs: MaintenanceJobs {
                keep_latest: 3,
                cpu_limit: text("1"),
                cpu_request: text("2"),
                memory_limit: text("3Mi"),
                memory_request: text("4Mi"),
            },
            repository_config_map: text("a"),
            maintenance_config_map: text("b"),
            modifier_config_map: text("c"),
            item_block_workers: 4,
            concurrent_backups: 5,
        };
        assert_eq!(
            server_args(&all),
            [
                "server",
                "--features=EnableCSI,B",
                "--default-volumes-to-fs-backup=true",
                "--default-snapshot-move-data=true",
                "--disable-informer-cache=true",
                "--schedule-skip-immediately=true",
                "--uploader-type=velero-block",
                "--restore-only",
                "--default-repo-maintain-frequency=2h0m0s",
                "--garbage-collection-frequency=30m0s",
                "--fs-backup-timeout=1m30s",
                "--keep-latest-maintenance-jobs=3",
                "--maintenance-job-cpu-limit=1",
                "--maintenance-job-cpu-request=2",
                "--maintenance-job-mem-limit=3Mi",
                "--maintenance-job-mem-request=4Mi",
                "--backup-repository-configmap=a",
                "--repo-maintenance-job-configmap=b",
                "--default-resource-modifier-configmap=c",
                "--item-block-worker-count=4",
                "--concurrent-backups=5",
            ]
        );
    }

    #[test]
    fn containers_of_plugins_are_named_after_their_images() {
        for (image, name) in [
            ("velero/velero-plugin-for-aws:v1.2", "velero-velero-plugin-for-aws"),
            ("registry.example.com:5000/a/b_c.d:v1", "a-b-c-d"),
            ("registry.example.com/b@sha256:0", "registry-example-com-b"),
            ("plugin", "plugin"),
        ] {
            assert_eq!(plugin_name(image), name, "{image}");
        }
        assert_eq!(plugin_name(&format!("a/{}", "b".repeat(70))).len(), 63);
    }

    #[test]
    fn several_servers_keep_apart_and_roll() {
        let one = deployment(&with_replicas(1));
        assert_eq!((&one["spec"]["replicas"], &one["spec"]["strategy"]), (&Value::Null, &json!({"type": "Recreate"})));
        let three = deployment(&with_replicas(3));
        assert_eq!(
            (&three["spec"]["replicas"], &three["spec"]["strategy"]),
            (&json!(3), &json!({"type": "RollingUpdate"}))
        );
        assert_eq!(
            three["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"],
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {"deploy": "velero"}}, "topologyKey": "kubernetes.io/hostname",
                }},
                {"weight": 50, "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {"deploy": "velero"}}, "topologyKey": "topology.kubernetes.io/zone",
                }},
            ]})
        );
        assert_eq!(
            disruption_budget(&with_replicas(3)),
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "velero", "namespace": "n", "labels": {"component": "velero"}},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"deploy": "velero"}}},
            })
        );
    }

    #[test]
    fn a_server_that_hangs_is_started_anew_and_one_that_stands_by_is_ready() {
        let deployment = deployment(&Installation::default());
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let probe = |path: &str, period: u32, failures: u32| {
            json!({"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": period, "timeoutSeconds": 5,
                "failureThreshold": failures})
        };
        assert_eq!(container["livenessProbe"], probe("/healthz", 30, 5));
        assert_eq!(container["readinessProbe"], probe("/readyz", 10, 3));
        assert_eq!(container["ports"], json!([{"containerPort": 8085, "name": "metrics"}]));
    }

    /// The server writes data that memory cannot hold into its scratch folder, and credentials, which reach no disk.
    #[test]
    fn the_server_writes_into_its_volumes_and_nowhere_else() {
        let installation = Installation { secret: Some(Credentials(Vec::new())), ..Installation::default() };
        let pod = deployment(&installation)["spec"]["template"]["spec"].clone();
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["env"][0], json!({"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}));
        assert_eq!(
            container["volumeMounts"],
            json!([
                {"name": "plugins", "mountPath": "/plugins"},
                {"name": "scratch", "mountPath": "/scratch"},
                {"name": "credential-files", "mountPath": "/tmp"},
                {"name": "cloud-credentials", "mountPath": "/credentials"},
            ])
        );
        assert_eq!(
            pod["volumes"],
            json!([
                {"name": "plugins", "emptyDir": {}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "credential-files", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
                {"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials", "defaultMode": 292}},
            ])
        );
        assert_eq!(container["env"][4]["value"], "/credentials/cloud");
    }

    #[test]
    fn rare_values_reach_the_pods() {
        let mut installation = Installation {
            pod_labels: map(&[("deploy", "mine"), ("a", "b")]),
            pod_annotations: map(&[("prometheus.io/scrape", "false")]),
            frequent_snapshot_polling: true,
            least_privilege: true,
            plugins: vec!["x".into(), "y".into()],
            ..Installation::default()
        };
        installation.server_resources.cpu_limit = "0".into();
        let template = deployment(&installation)["spec"]["template"].clone();
        assert_eq!(template["metadata"]["labels"], json!({"a": "b", "component": "velero", "deploy": "velero"}));
        assert_eq!(template["metadata"]["annotations"]["prometheus.io/scrape"], "false");
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"], json!({"memory": "512Mi"}));
        assert_eq!(container["env"][4], json!({"name": "CSI_SNAPSHOT_EARLY_FREQUENT_POLLING", "value": "true"}));
        for plugin in template["spec"]["initContainers"].as_array().unwrap() {
            assert_eq!(plugin["securityContext"], restricted());
        }
    }
}
