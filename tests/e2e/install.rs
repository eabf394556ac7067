//! `lifeboat install` and `uninstall` on a real control plane: what was installed works, and goes.

mod chart;
mod chart_over;
mod ending;
mod golden;
mod kustomize;
mod over;
mod own_pod;

use crate::faults::{config_maps, namespace};
use crate::support::{Bed, Run, comes_to_be, ended, eventually, program, run, spawn_logged, until_types_are_served};
use lifeboat_testbed::{Kubectl, Proxy, S3Server};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const BUCKET: &str = "install";
/// The flags of an installation that has nothing to back up to: those of the base of kustomize (`make deploy`).
const BASE: &str = "--no-default-backup-location --use-volume-snapshots=false --no-secret";

/// A control plane with nothing installed, a bucket, and a file with its credentials.
struct Ground {
    bed: Bed,
    s3: S3Server,
    folder: tempfile::TempDir,
}

/// A server process in the place of the pod that no kubelet starts; killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ground {
    fn start() -> Self {
        let (bed, s3) = (Bed::start(), S3Server::start().expect("an S3 server"));
        s3.make_bucket(BUCKET).expect("a bucket");
        let folder = tempfile::tempdir().expect("a folder");
        let credentials = format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            s3.access_key(),
            s3.secret_key()
        );
        std::fs::write(folder.path().join("credentials"), credentials).expect("write");
        Self { bed, s3, folder }
    }

    fn kubectl(&self) -> Kubectl {
        self.bed.plane.kubectl()
    }

    fn run(&self, args: &[&str]) -> Run {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.folder.path()).env("KUBECONFIG", self.bed.plane.kubeconfig());
        run(&mut command)
    }

    /// The flags of an installation that uses the bucket.
    fn flags(&self) -> Vec<String> {
        let config = format!("region={},s3ForcePathStyle=true,s3Url={}", self.s3.region(), self.s3.endpoint());
        ["--provider", "aws", "--bucket", BUCKET, "--secret-file", "credentials", "--use-volume-snapshots=false"]
            .map(str::to_owned)
            .into_iter()
            .chain(["--backup-location-config".to_owned(), config])
            .collect()
    }

    fn install(&self, more: &[&str]) -> Run {
        let flags = self.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let run = self.run(&[&["install"], &flags[..], more].concat());
        assert_eq!(run.code, 0, "{run:?}");
        run
    }

    /// The server as the Deployment starts it: with its arguments and its environment, as the pod that waits for a
    /// node.
    fn server(&self, namespace: &str, kubeconfig: &Path) -> Server {
        let mut pods = Value::Null;
        eventually("the server's pod", || {
            pods = self.json(&["get", "pods", "-n", namespace, "-l", "deploy=velero"]);
            pods["items"].as_array().is_some_and(|pods| pods.len() == 1)
        });
        let pod = &pods["items"][0];
        let args: Vec<String> =
            serde_json::from_value(pod["spec"]["containers"][0]["args"].clone()).expect("arguments");
        let mut command = Command::new(program());
        command
            .args(args)
            // Each pod has its own network; the servers of tests that run side by side share one.
            .args(["--metrics-address=127.0.0.1:0", "--download-address=127.0.0.1:0"])
            .env("KUBECONFIG", kubeconfig)
            .env("VELERO_NAMESPACE", namespace)
            .env("POD_NAME", pod["metadata"]["name"].as_str().expect("a name"))
            .env("AWS_SHARED_CREDENTIALS_FILE", self.folder.path().join("credentials"));
        Server(spawn_logged(&mut command, &self.folder.path().join("server.log")))
    }

    fn json(&self, args: &[&str]) -> Value {
        let out = self.bed.kubectl(&[args, &["--output=json", "--ignore-not-found"]].concat());
        serde_json::from_str(&out).unwrap_or_default()
    }

    /// The names of the objects of a type.
    fn names(&self, args: &[&str]) -> Vec<String> {
        let out = self.bed.kubectl(&[&["get"], args, &["--output=name"]].concat());
        out.lines().map(str::to_owned).collect()
    }

    fn create(&self, object: &Value) {
        self.kubectl().create(object).unwrap_or_else(|e| panic!("{e:#}"));
    }

    fn until(&self, namespace: &str, kind: &str, name: &str, phase: &str) {
        let mut found = Value::Null;
        let came = comes_to_be(|| {
            found = self.json(&["get", kind, name, "-n", namespace]);
            found["status"]["phase"] == phase
        });
        assert!(
            came,
            "{kind} {name} is not in phase {phase} after a minute: {found}\nlog of the server:\n{}",
            log(self)
        );
    }

    /// Returns true if nothing of an installation is left.
    fn is_clean(&self, namespace: &str, cluster_name: &str) -> bool {
        self.json(&["get", "namespace", namespace]).is_null()
            && self.json(&["get", "clusterrolebinding", cluster_name]).is_null()
            && self.json(&["get", "clusterrole", cluster_name]).is_null()
            && self.names(&["customresourcedefinitions", "-l", "component=velero"]).is_empty()
    }

    /// A kubeconfig with the rights of a service account.
    fn as_account(&self, namespace: &str, name: &str) -> PathBuf {
        let token = self.bed.kubectl(&["create", "token", name, "-n", namespace]);
        let (url, authority) = (self.bed.plane.url(), self.bed.plane.authority());
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"{url}\", certificate-authority: \"{}\"}}}}]\n\
             users: [{{name: c, user: {{token: {}}}}}]\n",
            authority.display(),
            token.trim()
        );
        let file = self.folder.path().join("account.yaml");
        std::fs::write(&file, config).expect("write");
        file
    }
}

/// `Kind/name: what became of it` of every object, in their order.
fn outcomes(run: &Run) -> Vec<(&str, &str)> {
    let lines = run.out.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(_, what)| !what.starts_with("attempting")).collect()
}

/// scenario: (installation)
#[test]
fn what_is_installed_works_and_goes() {
    let ground = Ground::start();

    // Definitions alone, as the first step of an upgrade.
    let run = ground.run(&["install", "--crds-only"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let all = outcomes(&run);
    assert_eq!((all.len(), all[0]), (13, ("CustomResourceDefinition/backuprepositories.velero.io", "created")));
    assert!(run.out.contains("\nWaiting for resources to be ready in cluster...\n"), "{}", run.out);
    assert!(
        run.out
            .ends_with("Velero is installed! ⛵ Use 'kubectl logs deployment/velero -n velero' to view the status.\n")
    );
    assert!(ground.json(&["get", "namespace", "velero"]).is_null());

    // What is printed can be applied by others, and what is there already stays.
    let printed = ground.install(&["--dry-run", "-o", "yaml"]);
    assert_eq!(printed.err, "", "nothing of this is left undone");
    assert!(ground.json(&["get", "namespace", "velero"]).is_null(), "a dry run sends nothing");
    let manifest = ground.folder.path().join("manifest.yaml");
    std::fs::write(&manifest, &printed.out).expect("write");
    ground.kubectl().apply(&manifest).unwrap_or_else(|e| panic!("{e:#}"));
    let again = ground.install(&[]);
    let all = outcomes(&again);
    assert_eq!((all.len(), again.err.as_str()), (13 + 6, ""), "{}", again.out);
    assert!(all.iter().all(|(_, what)| *what == "already exists, proceeding"), "{}", again.out);
    let applied = ground.install(&["--apply", "--restore-only"]);
    assert!(outcomes(&applied).iter().all(|(_, what)| *what == "applied"), "{}", applied.out);
    let deployment = ground.json(&["get", "deployment", "velero", "-n", "velero"]);
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args, &json!(["server", "--features=", "--uploader-type=kopia", "--restore-only"]));
    ground.install(&["--apply"]);

    // Settings that are named must be there.
    let flags = ground.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let refused = ground.run(&[&["install", "--dry-run", "--node-agent-configmap", "nope"], &flags[..]].concat());
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("--node-agent-configmap nope: there is no such ConfigMap"), "{refused:?}");
    // With this one no node agent would start.
    let data = json!({"config": r#"{"movers": {"podSecurity": "strict"}}"#});
    let metadata = json!({"name": "strict", "namespace": "velero"});
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}));
    let refused = ground.run(&[&["install", "--dry-run", "--node-agent-configmap", "strict"], &flags[..]].concat());
    let why = "movers.podSecurity \"strict\" is neither default nor restricted";
    assert!(refused.code == 1 && refused.err.contains(why), "{refused:?}");

    // It works.
    ground.create(&namespace("shop"));
    ground.create(&json!({"apiVersion": "v1", "kind": "List", "items": config_maps("shop", 3).collect::<Vec<_>>()}));
    let server = ground.server("velero", &ground.bed.plane.kubeconfig());
    ground.until("velero", "backupstoragelocation", "default", "Available");
    let run = ground.run(&["backup", "create", "b", "--include-namespaces", "shop", "--wait"]);
    assert!(run.out.contains("Backup completed with status: Completed."), "{run:?}");
    ground.bed.kubectl(&["delete", "namespace", "shop", "--timeout=180s"]);
    let run = ground.run(&["restore", "create", "r", "--from-backup", "b", "--wait"]);
    assert!(run.out.contains("Restore completed with status: Completed."), "{run:?}");
    let restore = ground.json(&["get", "restore", "r", "-n", "velero"]);
    assert_eq!(restore["metadata"]["finalizers"], json!(["restores.velero.io/external-resources-finalizer"]));

    assert!(!log(&ground).contains("access_key"), "{}", log(&ground));

    // It goes, though nobody is there to let go of the restore. The bucket keeps what it has.
    drop(server);
    let asked = ground.run(&["uninstall"]);
    assert_eq!((asked.code, asked.err.as_str()), (0, "error reading user input: EOF\n"));
    let (url, context) = (ground.bed.plane.url(), ground.bed.kubectl(&["config", "current-context"]));
    assert_eq!(
        asked.out,
        format!(
            "You are about to uninstall Velero.\n\
             The namespace velero of the cluster {}, context {} goes, with everything in it.\n\
             The definitions go, and with them all their resources.\n\
             Are you sure you want to continue (Y/N)? ",
            url.trim_end_matches('/'),
            context.trim()
        )
    );
    assert!(!ground.is_clean("velero", "velero"));
    let wrong = ground.run(&["uninstall", "--force", "-n", "shop"]);
    assert!(wrong.code == 1 && wrong.err.contains("the namespace shop holds no Velero"), "{wrong:?}");
    assert!(wrong.err.contains("; Velero is in velero: name one with -n"), "{wrong:?}");
    // A slip of the finger.
    let wrong = ground.run(&["uninstall", "--force", "-n", "velro"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (
            1,
            "An error occurred: there is no namespace velro, and nothing was deleted; Velero is in velero: name one with \
             -n\n"
        )
    );
    assert!(!ground.json(&["get", "backup", "b", "-n", "velero"]).is_null());
    let gone = ground.run(&["uninstall", "--force"]);
    assert_eq!(gone.code, 0, "{gone:?}");
    assert!(gone.out.contains("1 restores and data movements are not let go of by a server"), "{gone:?}");
    assert!(gone.out.ends_with("Velero uninstalled ⛵\n"), "{gone:?}");
    assert!(ground.is_clean("velero", "velero"));
    assert!(ground.s3.file(BUCKET, "backups/b/velero-backup.json").exists());
    assert_eq!(ground.names(&["configmaps", "-n", "shop"]).len(), 4);
    let again = ground.run(&["uninstall", "--force"]);
    assert_eq!(again.out, "Velero namespace \"velero\" does not exist, skipping.\nVelero uninstalled ⛵\n");

    // And comes again, and finds its backup.
    let back = ground.install(&[]);
    assert!(outcomes(&back).iter().all(|(_, what)| *what == "created"), "{}", back.out);
    let _server = ground.server("velero", &ground.bed.plane.kubeconfig());
    ground.until("velero", "backup", "b", "Completed");

    // With a server, that lets go of restores: with their files.
    let run = ground.run(&["restore", "create", "again", "--from-backup", "b", "--wait"]);
    assert!(run.out.contains("Restore completed with status: Completed."), "{run:?}");
    let log = ground.s3.file(BUCKET, "restores/again/restore-again-logs.gz");
    assert!(log.exists());
    let gone = ground.run(&["uninstall", "--force"]);
    assert!(gone.code == 0 && !gone.out.contains("not let go of"), "{gone:?}");
    assert!(!log.exists() && ground.is_clean("velero", "velero"));
}

/// An application with everything that the smaller rights must suffice for.
fn application() -> Value {
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role_ref = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "all"});
    let subjects = json!([{"kind": "ServiceAccount", "name": "app", "namespace": "shop"}]);
    let rbac = "rbac.authorization.k8s.io/v1";
    let labels = json!({"app": "shop"});
    let own = |name: &str| json!({"name": name, "namespace": "shop"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own("app")},
        {"apiVersion": "v1", "kind": "Secret", "metadata": own("password"), "stringData": {"a": "b"}},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "all"}, "rules": rules},
        {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": "all"}, "roleRef": role_ref("ClusterRole"),
            "subjects": subjects},
        {"apiVersion": rbac, "kind": "Role", "metadata": own("all"), "rules": rules},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": own("all"), "roleRef": role_ref("Role"),
            "subjects": subjects},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own("data"),
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own("web"), "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "app",
                "containers": [{"name": "web", "image": "web:1"}]}}}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": own("deny"),
            "spec": {"podSelector": {}}},
    ]})
}

#[test]
fn the_smaller_rights_are_enough_and_are_smaller() {
    let ground = Ground::start();
    let own = "rescue";
    ground.create(&application());
    until_types_are_served(&ground.bed.plane, &[]);
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "spec": {"size": 1},
        "metadata": {"name": "g", "namespace": "shop", "annotations": {"velero.io/restore-status": "true"}}});
    ground.create(&gadget);
    ground.bed.kubectl(&[
        "patch",
        "gadget",
        "g",
        "-n",
        "shop",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"ready":true}}"#,
    ]);
    let printed = ground.install(&["--least-privilege", "-n", own]);
    assert_eq!(printed.err, "");
    let labels = ground.json(&["get", "namespace", own])["metadata"]["labels"].clone();
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    let account = ground.as_account(own, "velero");
    let (proxy, kubeconfig) = Proxy::before_api_server(&account, "account-proxy.yaml").expect("a proxy");
    let _server = ground.server(own, &kubeconfig);
    ground.until(own, "backupstoragelocation", "default", "Available");
    let done = |args: &[&str], text: &str| {
        let run = ground.run(&[args, &["-n", own]].concat());
        assert!(run.code == 0 && run.out.contains(text), "{args:?}: {run:?}\n{}", log(&ground));
    };
    // Everything that the cluster has, and the definitions and rights of the application.
    done(&["backup", "create", "all", "--wait"], "Backup completed with status: Completed.");
    for gone in [
        ["namespace", "shop"],
        ["clusterrole", "all"],
        ["clusterrolebinding", "all"],
        ["customresourcedefinition", "gadgets.example.com"],
    ] {
        ground.bed.kubectl(&[&["delete"], &gone[..], &["--timeout=180s"]].concat());
    }
    let restore = ["restore", "create", "r", "--from-backup", "all", "--include-namespaces", "shop"];
    let more = ["--include-cluster-resources", "--status-include-resources", "gadgets.example.com", "--wait"];
    done(&[&restore[..], &more].concat(), "Restore completed with status: Completed.");
    let template = "--output=jsonpath={.spec.size} {.status.ready}";
    assert_eq!(ground.bed.kubectl(&["get", "gadget", "g", "-n", "shop", template]), "1 true");
    for (kind, name) in [("role", "all"), ("rolebinding", "all"), ("deployment", "web"), ("secret", "password")] {
        assert!(!ground.json(&["get", kind, name, "-n", "shop"]).is_null(), "{kind} {name}");
    }
    assert!(!ground.json(&["get", "clusterrolebinding", "all"]).is_null());
    // What drifted is put right: a patch of each kind of rights.
    ground.bed.kubectl(&["patch", "clusterrole", "all", "--type=merge", "-p", r#"{"rules":[]}"#]);
    ground.bed.kubectl(&["patch", "role", "all", "-n", "shop", "--type=merge", "-p", r#"{"rules":[]}"#]);
    let update = ["restore", "create", "u", "--from-backup", "all", "--existing-resource-policy", "update"];
    let more = ["--include-resources", "roles,clusterroles", "--include-cluster-resources", "--wait"];
    done(&[&update[..], &more].concat(), "Restore completed with status: Completed.");
    assert_eq!(ground.json(&["get", "clusterrole", "all"])["rules"][0]["verbs"], json!(["*"]));
    done(&["backup", "delete", "all", "--confirm"], "submitted successfully");
    eventually("the end of the backup", || ground.json(&["get", "backup", "all", "-n", own]).is_null());
    eventually("the end of the restores", || ground.names(&["restores", "-n", own]).is_empty());
    let seen = proxy.take_seen();
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        assert!(seen.iter().any(|request| request.method == method && request.status < 300), "{method}");
    }
    let refused: Vec<_> = seen.iter().filter(|request| request.status == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");

    // What it does not need it may not.
    let account = Kubectl::new(&account).expect("kubectl");
    for (question, expected) in [
        ("delete pods -n shop", "no"),
        ("update pods -n shop", "no"),
        ("deletecollection pods -n shop", "no"),
        ("watch secrets -n shop", "no"),
        ("approve certificatesigningrequests", "no"),
        ("impersonate users", "no"),
        ("delete backups.velero.io -n shop", "no"),
        ("delete configmaps -n shop", "no"),
        // What docs/install.md says that it may.
        ("delete backups.velero.io -n rescue", "yes"),
        ("delete configmaps -n rescue", "yes"),
        ("create pods/eviction -n shop", "yes"),
        ("create pods/exec -n shop", "yes"),
        ("watch pods -n shop", "yes"),
        ("create serviceaccounts/token -n shop", "yes"),
        ("patch deployments/scale -n shop", "yes"),
    ] {
        // A no is an error to kubectl.
        let words: Vec<&str> = ["auth", "can-i"].into_iter().chain(question.split_whitespace()).collect();
        let answer = account.try_run(&words).map_or_else(|_| "no".to_owned(), |out| out.trim().to_owned());
        assert_eq!(answer, expected, "{question}");
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    ground.create(&node);
    for forbidden in [
        "delete node n1",
        "delete namespace shop",
        "delete secret password -n shop",
        "delete deployment web -n shop",
        "delete lease lifeboat-server -n rescue",
        "delete deployment velero -n rescue",
        "get --raw /api/v1/secrets?watch=true&timeoutSeconds=1",
        "get --raw /metrics",
        "get nodes --as=system:admin",
    ] {
        let words: Vec<&str> = forbidden.split_whitespace().collect();
        let error = account.try_run(&words).expect_err(forbidden).to_string();
        assert!(error.contains("orbidden"), "{forbidden}: {error}");
    }
    assert_eq!(ground.run(&["uninstall", "--force", "-n", own]).code, 0);
    assert!(ground.is_clean(own, "velero-rescue"));
}

/// The names of the binary in the image.
#[test]
fn other_programs_go_by_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let called = |name: &str, args: &[&str]| {
        let link = folder.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(program(), &link).expect("a link");
        }
        let mut command = Command::new(link);
        command.args(args);
        command
    };
    for (name, args, why) in [
        ("velero-helper", &[][..], "velero-helper needs a mode: pause"),
        ("velero-helper", &["sleep"][..], "velero-helper knows no mode but pause"),
        ("velero-restore-helper", &[][..], "ERROR: exactly one argument must be provided, the restore's UID"),
    ] {
        let run = run(&mut called(name, args));
        assert!(run.code == 1 && run.out.is_empty() && run.err.contains(why), "{name} {args:?}: {run:?}");
    }
    let version = run(&mut called("velero", &["--version"]));
    assert_eq!((version.code, version.out), (0, format!("velero {}\n", env!("CARGO_PKG_VERSION"))));
    // It pauses until it is told to end.
    let mut pausing = Server(called("velero-helper", &["pause"]).spawn().expect("the binary"));
    let status = format!("/proc/{}/status", pausing.0.id());
    eventually("the handler of SIGTERM", || {
        let status = std::fs::read_to_string(&status).expect("its status");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).expect("caught signals");
        u64::from_str_radix(caught, 16).expect("a mask") & (1 << 14) != 0
    });
    assert_eq!(pausing.0.try_wait().expect("its state"), None);
    assert!(Command::new("kill").arg(pausing.0.id().to_string()).status().expect("kill").success());
    assert_eq!(ended(&mut pausing.0).code(), Some(0));
}

fn log(ground: &Ground) -> String {
    std::fs::read_to_string(ground.folder.path().join("server.log")).expect("a log")
}
