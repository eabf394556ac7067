//! Installing over what is there already: Velero's installation, or one of ours with other flags.

use super::{BUCKET, Ground, outcomes};
use crate::support::{ended_with_output, eventually, program, with_object};
use lifeboat_testbed::Proxy;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

impl Ground {
    /// A cluster with the objects that Velero 1.18 installs with many flags; the definitions are ours.
    fn with_velero() -> Self {
        let ground = Self::start();
        for name in ["high", "low"] {
            ground.bed.kubectl(&["create", "priorityclass", name, "--value=1"]);
        }
        assert_eq!(ground.run(&["install", "--crds-only"]).code, 0);
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/testbed/fixtures/velero/install/full.yaml");
        ground.bed.kubectl(&["create", "-f", &golden.display().to_string()]);
        ground
    }

    fn deployment(&self) -> Value {
        self.json(&["get", "deployment", "velero", "-n", "velero"])
    }

    /// The role that the server has, and the profile of its namespace.
    fn rights(&self) -> (String, String) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let binding = self.json(&["get", "clusterrolebinding", "velero"]);
        let namespace = self.json(&["get", "namespace", "velero"]);
        let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
        (text(&binding["roleRef"]["name"]), text(level))
    }
}

/// The installation of Velero is taken over by the same command line, and another one keeps its definitions.
///
/// scenario: Upgrade
#[test]
fn an_installation_of_velero_is_taken_over() {
    let ground = Ground::with_velero();
    assert_eq!(ground.deployment()["spec"]["strategy"]["type"], "RollingUpdate");

    // Without --apply it stays, and that is said.
    let image = format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION"));
    let left = ground.install(&[]);
    assert!(outcomes(&left).contains(&("Deployment/velero", "already exists, proceeding")), "{}", left.out);
    let said = format!(
        "warning: Deployment velero was there and was left as it is: image velero/velero:v1.18.2, not {image}; another args; "
    );
    assert!(left.err.contains(&said), "{}", left.err);
    assert!(
        left.err.contains("warning: BackupStorageLocation default was there and was left as it is: no config; ")
            && left.err.contains(&format!("objectStorage.bucket b, not {BUCKET}; --apply brings it up to date\n")),
        "{}",
        left.err
    );
    assert!(left.out.contains("Velero is installed!"), "{}", left.out);
    assert_eq!(ground.deployment()["spec"]["template"]["spec"]["containers"][0]["image"], "velero/velero:v1.18.2");

    ground.install(&["--apply"]);
    let container = &ground.deployment()["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], image);
    assert_eq!(ground.deployment()["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(ground.install(&[]).err, "", "all of it is what was asked for");
    ground.install(&["--apply", "--replicas", "2"]);
    assert_eq!(ground.deployment()["spec"]["replicas"], 2);

    // The way back that docs/install.md names: Velero's server has nothing that the probes ask for.
    let back = r#"{"spec":{"template":{"spec":{"containers":[{"name":"velero","image":"velero/velero:v1.18.2",
        "livenessProbe":null,"readinessProbe":null,"securityContext":{"readOnlyRootFilesystem":false}}]}}}}"#;
    ground.bed.kubectl(&["patch", "deployment", "velero", "-n", "velero", "-p", back]);
    let container = &ground.deployment()["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        [&container["image"], &container["livenessProbe"], &container["readinessProbe"]],
        [&json!("velero/velero:v1.18.2"), &Value::Null, &Value::Null]
    );
    let left = ground.install(&["--replicas", "2"]);
    assert!(left.err.contains("no livenessProbe; no readinessProbe; "), "{}", left.err);
    ground.install(&["--apply", "--replicas", "2"]);

    // Another key for the bucket, and definitions of another version.
    std::fs::write(ground.folder.path().join("credentials"), "[default]\naws_access_key_id = other\n").expect("write");
    let mut definition = ground.json(&["get", "customresourcedefinition", "backups.velero.io"]);
    let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    spec.as_object_mut().expect("fields").remove("cancel");
    with_object(&ground.kubectl(), &["replace"], &definition).expect("replace");
    let left = ground.install(&["--replicas", "2"]);
    assert_eq!(
        left.err,
        "warning: the definitions backups.velero.io are not those of this version and were left as they are, so that the \
         cluster may not know all fields: `lifeboat install --crds-only --apply` brings them up to date\n\
         warning: Secret cloud-credentials was there and was left as it is: another data.cloud; --apply brings it up to \
         date\n"
    );
    assert_eq!(ground.run(&["install", "--crds-only"]).err, left.err.lines().next().expect("a line").to_owned() + "\n");
    let applied = ground.run(&["install", "--crds-only", "--apply"]);
    assert_eq!((applied.code, applied.err.as_str()), (0, ""), "{applied:?}");
    assert_eq!(ground.run(&["install", "--crds-only"]).err, "");

    // Another installation that has no storage location, and then nothing but a Backup.
    ground.run(&[
        "install",
        "-n",
        "second",
        "--no-default-backup-location",
        "--use-volume-snapshots=false",
        "--no-secret",
    ]);
    let stay = "The definitions stay: they are used in other namespaces (second).\n";
    let gone = ground.run(&["uninstall", "--force"]);
    assert!(gone.code == 0 && gone.out.contains(stay), "{gone:?}");
    assert!(ground.json(&["get", "namespace", "velero"]).is_null());
    assert!(!ground.json(&["get", "deployment", "velero", "-n", "second"]).is_null());
    ground.bed.kubectl(&["delete", "deployment", "velero", "-n", "second"]);
    ground.create(&json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "kept", "namespace": "second"}, "spec": {}}));
    // What somebody has left behind of a namespace that is gone.
    ground.bed.kubectl(&[
        "create",
        "clusterrolebinding",
        "velero",
        "--clusterrole=view",
        "--serviceaccount=velero:velero",
    ]);
    let gone = ground.run(&["uninstall", "--force"]);
    assert!(gone.code == 0 && gone.out.contains("does not exist, skipping.\n") && gone.out.contains(stay), "{gone:?}");
    assert!(ground.json(&["get", "clusterrolebinding", "velero"]).is_null());
    let refused = ground.run(&["uninstall", "--force"]);
    assert!(refused.code == 1 && refused.err.contains("nothing was deleted; Velero is in second"), "{refused:?}");
    assert!(!ground.json(&["get", "backup", "kept", "-n", "second"]).is_null());

    assert_eq!(ground.run(&["uninstall", "--force", "-n", "second"]).code, 0);
    assert!(ground.is_clean("velero", "velero") && ground.is_clean("second", "velero-second"));
}

/// To smaller rights and back, over an installation that has all of them.
#[test]
fn rights_are_replaced_or_nothing_is_changed() {
    let ground = Ground::with_velero();
    let (all, less) = (("cluster-admin", "privileged"), ("velero", "restricted"));
    let rights = |expected: (&str, &str)| assert_eq!(ground.rights(), (expected.0.to_owned(), expected.1.to_owned()));
    let flags = ground.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let refused = ground.run(&[&["install", "--least-privilege"], &flags[..]].concat());
    assert_eq!(
        (refused.code, refused.out.as_str(), refused.err.as_str()),
        (
            1,
            "",
            "An error occurred: nothing was changed: ClusterRoleBinding velero gives the server ClusterRole/cluster-admin, \
             and it would keep these rights; with --apply it gets ClusterRole/velero\n"
        )
    );
    rights(all);
    assert!(ground.json(&["get", "clusterrole", "velero"]).is_null());

    let applied = ground.install(&["--least-privilege", "--apply"]);
    assert!(outcomes(&applied).contains(&("ClusterRoleBinding/velero", "replaced")), "{}", applied.out);
    rights(less);
    let pod = &ground.deployment()["spec"]["template"]["spec"];
    assert!(pod["initContainers"].is_null(), "the plugin of Velero is not restricted: {pod}");
    assert_eq!(pod["containers"][0]["securityContext"]["runAsUser"], 65532);
    // And the namespace takes such a pod.
    eventually("a pod of this template", || {
        let pods = ground.json(&["get", "pods", "-n", "velero", "-l", "deploy=velero"]);
        pods["items"][0]["spec"]["containers"][0]["image"] == pod["containers"][0]["image"]
    });
    let again = ground.install(&["--least-privilege", "--apply"]);
    assert!(outcomes(&again).iter().all(|(_, what)| *what == "applied"), "{}", again.out);

    // Back: left and told, or replaced.
    let left = ground.install(&[]);
    let said = "warning: ClusterRoleBinding velero was there and was left as it is: roleRef.name velero, not cluster-admin; \
                --apply brings it up to date\n";
    assert!(left.err.contains(said), "{}", left.err);
    rights(less);
    let applied = ground.install(&["--apply"]);
    assert!(outcomes(&applied).contains(&("ClusterRoleBinding/velero", "replaced")), "{}", applied.out);
    rights(all);

    // As Velero's Helm chart makes it: this can be no Deployment of ours.
    ground.bed.kubectl(&["delete", "deployment", "velero", "-n", "velero"]);
    let labels = json!({"app.kubernetes.io/name": "velero"});
    let server =
        json!({"name": "velero", "image": "velero/velero:v1.18.2", "command": ["/velero"], "args": ["server"]});
    ground.create(
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "velero", "namespace": "velero"},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [server]}}}}),
    );
    let refused = ground.run(&[&["install", "--apply", "--least-privilege"], &flags[..]].concat());
    assert!(
        refused.code == 1 && refused.err.contains("nothing was changed: Deployment velero was not made by"),
        "{refused:?}"
    );
    rights(all);
}

/// `--wait` waits for the pods that were asked for.
#[test]
fn pods_of_before_do_not_count() {
    let ground = Ground::start();
    ground.install(&[]);
    let pods = |image: &str| -> Vec<String> {
        let found = ground.json(&["get", "pods", "-n", "velero", "-l", "deploy=velero"]);
        let items = found["items"].as_array().cloned().unwrap_or_default();
        let of = items.iter().filter(|pod| pod["spec"]["containers"][0]["image"].as_str() == Some(image));
        of.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect()
    };
    // No kubelet does it.
    let start = |pod: &str| {
        let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        ground.bed.kubectl(&[
            "patch",
            "pod",
            pod,
            "-n",
            "velero",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ]);
    };
    let ours = format!("lifeboat/lifeboat:v{}", env!("CARGO_PKG_VERSION"));
    eventually("a pod", || pods(&ours).len() == 1);
    start(&pods(&ours)[0]);
    eventually("its availability", || ground.deployment()["status"]["availableReplicas"] == 1);

    let (proxy, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "wait.yaml").expect("a proxy");
    let mut installing = Command::new(program())
        .args(["install", "--apply", "--replicas", "2", "--image", "none:1", "--use-node-agent", "--wait"])
        .args(ground.flags())
        .current_dir(ground.folder.path())
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary");
    eventually("pods of the new image", || !pods("none:1").is_empty());
    let mut looks = 0;
    eventually("more looks than are enough", || {
        let of = |path: &str| path.contains("/deployments/velero");
        looks += proxy.take_seen().iter().filter(|seen| seen.method == "GET" && of(&seen.path)).count();
        looks > 12
    });
    assert_eq!(installing.try_wait().expect("its state"), None, "none of them runs");
    eventually("the end", || {
        pods("none:1").iter().for_each(|pod| start(pod));
        installing.try_wait().expect("its state").is_some()
    });
    let done = ended_with_output(installing);
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{out}");
    let status = &ground.deployment()["status"];
    assert_eq!((&status["updatedReplicas"], &status["availableReplicas"]), (&json!(2), &json!(2)), "{status}");
    assert!(out.contains("PodDisruptionBudget/velero: applied\n"), "{out}");
    // No node is there for a pod of it.
    let said = "DaemonSet/node-agent: applied\nWaiting for velero to be ready.\nWaiting for node-agent to be ready.\n";
    assert!(out.contains(said), "{out}");
    let budget = ground.json(&["get", "poddisruptionbudget", "velero", "-n", "velero"]);
    assert_eq!(
        budget["spec"],
        json!({"maxUnavailable": 1, "selector": {"matchLabels": {"deploy": "velero"}}}),
        "nodes are drained one server at a time"
    );
}
