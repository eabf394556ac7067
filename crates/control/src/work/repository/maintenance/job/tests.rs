//! The Jobs of servers that Velero and Lifeboat have installed.

use super::*;
use lifeboat_api::LabelSelector;

fn repository(name: &str) -> BackupRepository {
    let mut repository = BackupRepository::for_volumes("velero", "shop", "default");
    repository.metadata.name = name.to_owned();
    repository.metadata.uid = "u-1".to_owned();
    repository
}

/// As Velero 1.18 installs it, with a few fields that users add.
fn of_velero() -> Value {
    json!({
        "metadata": {
            "labels": {"component": "velero", "deploy": "velero", "azure.workload.identity/use": "true", "team": "x"},
            "annotations": {"iam.amazonaws.com/role": "r", "prometheus.io/scrape": "true"},
        },
        "spec": {
            "affinity": {"nodeAffinity": {}}, "nodeSelector": {"arch": "amd64"}, "restartPolicy": "Always",
            "serviceAccountName": "velero", "imagePullSecrets": [{"name": "pull"}], "securityContext": {"fsGroup": 7},
            "initContainers": [{"name": "plugin", "image": "p", "volumeMounts": [{"name": "plugins", "mountPath": "/target"}]}],
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "cloud-credentials", "secret": {"secretName": "c"}},
                {"name": "unused", "emptyDir": {}}],
            "containers": [{
                "name": "velero", "image": "velero/velero:v1.18.2", "imagePullPolicy": "Always", "command": ["/velero"],
                "args": ["server", "--features="], "ports": [{"containerPort": 8085}],
                "env": [{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}], "envFrom": [{"secretRef": {"name": "e"}}],
                "resources": {"limits": {"cpu": "1"}}, "securityContext": {"readOnlyRootFilesystem": true},
                "livenessProbe": {}, "readinessProbe": {},
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "cloud-credentials", "mountPath": "/credentials"}],
            }],
        },
    })
}

fn made(name: &str, pod: Value, settings: &JobSettings) -> (Value, Vec<String>) {
    job(&JobParts {
        repository: &repository(name),
        template: &PodTemplate::of(pod),
        settings,
        log_arguments: &["--log-level=info".to_owned(), "--log-format=text".to_owned()],
        now: Timestamp::from_millisecond(1_795_000_000_123).unwrap(),
    })
}

#[test]
fn a_job_inherits_from_the_server_that_velero_has_installed() {
    let (job, warnings) = made("shop-default-kopia", of_velero(), &JobSettings::default());
    let expected = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "shop-default-kopia-maintain-job-1795000000123", "namespace": "velero",
            "labels": {"velero.io/repo-name": "shop-default-kopia"},
            "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "BackupRepository", "name": "shop-default-kopia", "uid": "u-1"}],
        },
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 86400, "template": {
            "metadata": {
                "name": "velero-repo-maintenance-pod",
                "labels": {"velero.io/repo-name": "shop-default-kopia", "azure.workload.identity/use": "true"},
                "annotations": {"iam.amazonaws.com/role": "r"},
            },
            "spec": {
                "containers": [{
                    "name": "velero-repo-maintenance-container", "image": "velero/velero:v1.18.2", "imagePullPolicy": "IfNotPresent",
                    "command": ["/velero"],
                    "args": ["repo-maintenance", "--repo-name=shop", "--repo-type=kopia", "--backup-storage-location=default",
                        "--log-level=info", "--log-format=text"],
                    "env": [{"name": "VELERO_SCRATCH_DIR", "value": "/scratch"}], "envFrom": [{"secretRef": {"name": "e"}}],
                    "securityContext": {"readOnlyRootFilesystem": true}, "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"},
                        {"name": "cloud-credentials", "mountPath": "/credentials"}],
                }],
                "restartPolicy": "Never", "serviceAccountName": "velero", "imagePullSecrets": [{"name": "pull"}],
                "securityContext": {"fsGroup": 7}, "nodeSelector": {"arch": "amd64"},
                "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "cloud-credentials", "secret": {"secretName": "c"}}],
                "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
                    {"key": "CriticalAddonsOnly", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}]}]}}},
            },
        }},
    });
    assert_eq!((job, warnings), (expected, vec![]));
}

#[test]
fn settings_decide_nodes_resources_and_labels_of_the_pods() {
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let nodes = |disk: &str| LabelSelector { match_labels: pairs(&[("disk", disk)]), ..LabelSelector::default() };
    let settings = JobSettings {
        nodes: vec![nodes("a"), nodes("b")],
        resources: Some(json!({"limits": {"memory": "1Gi"}})),
        priority_class: "low".into(),
        labels: Some(pairs(&[("team", "y"), ("velero.io/repo-name", "mine"), ("bad key", "v"), ("k", "bad value")])),
        annotations: Some(pairs(&[("note", "any text, also with blanks"), ("/", "v")])),
        ..JobSettings::default()
    };
    let (job, warnings) = made("shop-default-kopia", of_velero(), &settings);
    let (metadata, spec) = (&job["spec"]["template"]["metadata"], &job["spec"]["template"]["spec"]);
    assert_eq!(metadata["labels"], json!({"team": "y", "velero.io/repo-name": "shop-default-kopia"}));
    assert_eq!(metadata["annotations"], json!({"note": "any text, also with blanks"}));
    assert_eq!(
        warnings,
        [
            "the label bad key: v is left out: Kubernetes takes no such label",
            "the label k: bad value is left out: Kubernetes takes no such label",
            "the label velero.io/repo-name is left out: by it the Jobs of a repository are found",
            "the annotation /: v is left out: Kubernetes takes no such annotation",
        ]
    );
    assert_eq!((&spec["priorityClassName"], &spec["nodeSelector"]), (&json!("low"), &Value::Null));
    assert_eq!(spec["containers"][0]["resources"], json!({"limits": {"memory": "1Gi"}}));
    let term = |disk: &str| {
        json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]},
            {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}]})
    };
    let terms =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms, &json!([term("a"), term("b")]));
}

#[test]
fn long_names_of_repositories_are_shortened_as_velero_does() {
    let long = "n".repeat(60);
    let (job, _) = made(&long, of_velero(), &JobSettings::default());
    assert_eq!(job["metadata"]["name"], "repo-maintain-job-1795000000123");
    assert_eq!(job["metadata"]["labels"], json!({"velero.io/repo-name": long}));
    assert_eq!(repository_label(&"a".repeat(63)), "a".repeat(63));
    // SHA3-224 of 64 times "a".
    let hash = repository_label(&"a".repeat(64));
    assert_eq!((hash.len(), repository_label("")), (56, String::new()));
    assert_eq!(hash, "ce06309528da04278a8072ca96610a47298cbca3a9b6a0ee7f581316");
}

#[test]
fn a_job_for_a_directory_finds_it_and_runs_beside_the_server() {
    let mut pod = of_velero();
    pod["spec"]["containers"][0]["args"] = json!(["server", "--directory-root=/backups"]);
    pod["spec"]["volumes"][0] = json!({"name": "scratch", "persistentVolumeClaim": {"claimName": "c"}});
    let (job, _) = made("shop-default-kopia", pod, &JobSettings::default());
    let spec = &job["spec"]["template"]["spec"];
    assert_eq!(spec["containers"][0]["args"][6], "--directory-root=/backups");
    let beside = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
        "labelSelector": {"matchLabels": {"deploy": "velero"}}, "topologyKey": "kubernetes.io/hostname"}}]});
    assert_eq!(spec["affinity"]["podAffinity"], beside);
}
