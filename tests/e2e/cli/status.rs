//! `lifeboat status`: what is protected and what is not.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Run, comes_to_be, eventually, program, run};
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use lifeboat_testbed::{Fault, Kubectl, Nth, Proxy, Rule};
use serde_json::{Deserializer, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn lifeboat(ground: &Ground, line: &str) -> Run {
    let mut command = Command::new(program());
    command.args(line.split(' ').map(|word| word.replace('~', " ")));
    run(command.env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC"))
}

fn attention(status: &Value) -> Vec<&str> {
    let all = status["attention"].as_array().expect("a list").iter();
    all.map(|one| one["what"].as_str().expect("text")).collect()
}

#[test]
fn a_cluster_comes_to_be_protected() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Mi"}}}});
    ground.create(&claim);
    let bare = lifeboat(&ground, "status --timeout 1s");
    assert_eq!((bare.code, bare.err.as_str()), (2, ""));
    assert!(bare.out.starts_with("No server answers in namespace velero: "), "{}", bare.out);
    let missing = "\n! there is no backup storage location: nothing can be backed up\n    next: `lifeboat backup-location create default --provider aws --bucket BUCKET --default`\n";
    assert!(bare.out.contains(missing), "{}", bare.out);
    let uncovered = "\n! no schedule saves default, shop (1 claim of volumes)\n    next: `lifeboat schedule create NAME --schedule '0 3 * * *' \
                     --include-namespaces default,shop`, or label a namespace that is to stay out: velero.io/exclude-from-backup=true\n";
    assert!(bare.out.ends_with(uncovered), "{}", bare.out);

    ground.directory("main", &json!({"default": true}));
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    ground.bed.kubectl(&["label", "namespace", "default", "velero.io/exclude-from-backup=true"]);
    let create = "schedule create yearly --schedule @yearly --include-namespaces shop --snapshot-volumes=false";
    assert_eq!(lifeboat(&ground, create).code, 0);
    assert_eq!(lifeboat(&ground, "backup create b --from-schedule yearly --wait").code, 0);
    let mut run = lifeboat(&ground, "status -o json");
    let is_enabled = |out: &str| out.contains("\"state\": \"Enabled\"");
    let _ = comes_to_be(|| {
        run = lifeboat(&ground, "status -o json");
        is_enabled(&run.out)
    });
    assert_eq!(run.code, 2, "{run:?}");
    let status: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(attention(&status), ["the schedules of shop leave the data of volumes out"]);
    assert!(status["server"]["version"].is_string(), "{status}");
    let [namespace] = &status["namespaces"].as_array().expect("a list")[..] else { panic!("{status}") };
    assert_eq!((&namespace["name"], &namespace["lastGood"]["backup"]), (&json!("shop"), &json!("b")));
    assert_eq!((&namespace["claims"], &namespace["schedules"]), (&json!(1), &json!(["yearly"])));

    let patch = r#"{"spec":{"template":{"snapshotVolumes":null}}}"#;
    ground.bed.kubectl(&["patch", "schedule", "yearly", "-n", "velero", "--type=merge", "-p", patch]);
    let run = lifeboat(&ground, "status -o json");
    let status: Value = serde_json::from_str(&run.out).expect("JSON");
    let to_come = "the good backups of shop leave the data of volumes out, and schedule yearly, which is to save it, has none yet";
    assert_eq!(attention(&status), [to_come]);
    assert_eq!(lifeboat(&ground, "backup create with-volumes --from-schedule yearly --wait").code, 0);
    let run = lifeboat(&ground, "status");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(run.out.contains("\nLOCATION   PHASE       LAST VALIDATED "), "{}", run.out);
    assert!(run.out.contains("\nNAMESPACE   LAST GOOD BACKUP   STARTED"), "{}", run.out);
    assert!(run.out.ends_with("\n\nNothing needs attention.\n"), "{}", run.out);
}

/// A cluster in memory, whose status is watched through a proxy until this value is dropped.
struct Watched {
    command: Child,
    proxy: Proxy,
    /// Past the proxy.
    kubectl: Kubectl,
    folder: TempDir,
    // Before the runtime that it runs on.
    sandbox: Option<Sandbox>,
    _runtime: Runtime,
}

impl Watched {
    fn start(rules: Vec<Rule>) -> Self {
        let (runtime, folder) = (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
        let mut objects = lifeboat_api::crds();
        objects.extend(["velero", "shop"].map(namespace));
        let sandbox = runtime.block_on(async {
            let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.expect("a sandbox");
            sandbox.apply(objects).await.expect("its objects");
            sandbox
        });
        let url = format!("https://{}", sandbox.address());
        let proxy = Proxy::start(&url, Some(sandbox.authority_pem())).expect("a proxy");
        proxy.script(rules);
        let [direct, through] = ["direct", "through"].map(|name| folder.path().join(name));
        std::fs::write(&direct, sandbox.kubeconfig()).expect("write");
        std::fs::write(&through, proxy.kubeconfig("token")).expect("write");
        let [out, err] = ["out", "err"].map(|name| File::create(folder.path().join(name)).expect("a file"));
        let mut command = Command::new(program());
        command.args(["status", "--watch", "--output=json", "--timeout=1s", "--request-timeout=2s"]);
        command.env("KUBECONFIG", &through).stdin(Stdio::null()).stdout(out).stderr(err);
        let command = command.spawn().expect("the binary");
        let kubectl = Kubectl::new(&direct).expect("kubectl");
        Self { command, proxy, kubectl, folder, sandbox: Some(sandbox), _runtime: runtime }
    }

    /// The output in the file `out` or `err`.
    fn printed(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).expect("what was printed")
    }

    /// The namespaces that were shown last, each with its schedules and claims; nothing before the first time.
    fn last(&self) -> Vec<String> {
        let text = self.printed("out");
        let last = Deserializer::from_str(&text).into_iter::<Value>().filter_map(Result::ok).last().unwrap_or_default();
        let line = |one: &Value| format!("{} {} {}", one["name"], one["schedules"], one["claims"]).replace('"', "");
        last["namespaces"].as_array().into_iter().flatten().map(line).collect()
    }

    /// Makes a namespace, a schedule of it and a claim in it, and waits until they are shown; then they go one after
    /// the other.
    fn sees_what_comes_and_goes(&self) {
        let shows = |what: &str, expected: &[&str]| eventually(what, || self.last() == expected);
        shows("the status", &["default [] 0", "shop [] 0"]);
        self.ok(&["create", "namespace", "web"]);
        let schedule = json!({"apiVersion": "velero.io/v1", "kind": "Schedule",
            "metadata": {"name": "daily", "namespace": "velero"},
            "spec": {"schedule": "@daily", "template": {"includedNamespaces": ["web"]}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "web"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
        for object in [&schedule, &claim] {
            self.kubectl.create(object).expect("it is made");
        }
        shows("what was made", &["default [] 0", "shop [] 0", "web [daily] 1"]);
        self.ok(&["delete", "pvc", "data", "--namespace=web", "--wait=false"]);
        self.ok(&["delete", "schedule", "daily", "--namespace=velero"]);
        shows("what was deleted", &["default [] 0", "shop [] 0", "web [] 0"]);
    }

    fn ok(&self, args: &[&str]) {
        self.kubectl.try_run(args).unwrap_or_else(|e| panic!("{e:#}"));
    }

    /// The number of lists of each type since the last call.
    fn lists(&self) -> BTreeMap<String, usize> {
        let mut lists = BTreeMap::new();
        for seen in self.proxy.take_seen() {
            let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
            // One object, whose UID is that of the cluster.
            let is_of_cluster = path.ends_with("/namespaces/kube-system");
            let is_read = seen.method == "GET" && !query.contains("watch=true");
            if is_read && !is_of_cluster && !path.contains("serverstatusrequests") {
                *lists.entry(path.rsplit('/').next().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        lists
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// The types that a status follows.
const FOLLOWED: [&str; 13] = [
    "backuprepositories",
    "backups",
    "backupstoragelocations",
    "daemonsets",
    "datadownloads",
    "datauploads",
    "deletebackuprequests",
    "namespaces",
    "persistentvolumeclaims",
    "podvolumebackups",
    "podvolumerestores",
    "restores",
    "schedules",
];

#[test]
fn status_that_is_watched_shows_each_change_and_reads_nothing_twice() {
    let watched = Watched::start(Vec::new());
    watched.sees_what_comes_and_goes();
    assert_eq!(watched.lists(), FOLLOWED.map(|name| (name.to_owned(), 1)).into());
}

#[test]
fn who_may_not_watch_sees_each_change_by_lists() {
    let body = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}).to_string();
    let forbidden = Fault::Answer { status: 403, headers: vec![], body };
    let watched = Watched::start(vec![Rule::new("GET", "*watch=true*", Nth::Every, forbidden)]);
    watched.sees_what_comes_and_goes();
    let lists = watched.lists();
    assert_eq!(lists.keys().collect::<Vec<_>>(), FOLLOWED, "all are listed");
    assert!(lists.values().all(|times| *times > 1), "{lists:?}");
}

#[test]
fn status_that_is_watched_tells_when_the_cluster_cannot_be_read_any_more() {
    let mut watched = Watched::start(Vec::new());
    eventually("the status", || !watched.last().is_empty());
    watched.sandbox.take();
    // Of several types that cannot be listed the first one is named, after the part of the status that is missing
    // without it.
    let is_told = |line: &str| line.starts_with("The status is not known now: ") && line.contains("cannot list ");
    let told = |watched: &Watched| watched.printed("err").lines().filter(|line| is_told(line)).count();
    assert!(comes_to_be(|| told(&watched) > 0), "{}", watched.printed("err"));
    let shown = watched.printed("out");
    let before = told(&watched);
    eventually("what is wrong once more", || told(&watched) > before + 1);
    assert_eq!(watched.printed("out"), shown, "nothing that is old is shown");
}

#[test]
fn who_may_not_list_the_namespaces_sees_the_rest() {
    let body = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}).to_string();
    let forbidden = || Fault::Answer { status: 403, headers: vec![], body: body.clone() };
    let rules = ["/api/v1/namespaces?*", "/api/v1/persistentvolumeclaims?*"];
    let watched = Watched::start(rules.map(|path| Rule::new("GET", path, Nth::Every, forbidden())).into());
    let hidden = "you may not list the namespaces of the cluster, so nobody knows which of them are not protected";
    eventually("the status", || watched.printed("out").contains(hidden));
    let mut command = Command::new(program());
    command.args(["status", "--timeout=1s"]).env("KUBECONFIG", watched.folder.path().join("through"));
    let run = run(&mut command);
    assert_eq!((run.code, run.err.as_str()), (2, ""), "{run:?}");
    let next = "ask for the right to list the namespaces of the cluster (`kubectl auth can-i list namespaces` tells whether you have it), or have \
         somebody run `lifeboat status` who has it";
    assert!(run.out.ends_with(&format!("! {hidden}\n    next: {next}\n")), "{}", run.out);
}
