//! `lifeboat server`: what custom resources ask for comes to be, whoever dies.

use crate::faults::{config_maps, namespace};
use crate::support::{Bed, eventually, run, with_object};
use lifeboat_testbed::{Fault, Kill, Kubectl, Nth, Proxy, Rule, S3Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A control plane with the definitions, an S3 server with a bucket, and servers.
pub(crate) struct Ground {
    pub(crate) bed: Bed,
    pub(crate) s3: S3Server,
    directories: tempfile::TempDir,
}

pub(crate) const BUCKET: &str = "server";

/// A server process; killed when dropped.
pub(crate) struct Server(Child);

impl Server {
    fn kill(mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("its end");
    }

    /// SIGTERM, and its exit code.
    fn stop(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").arg(pid).status().expect("kill").success());
        self.0.wait().expect("its end").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Ground {
    pub(crate) fn start() -> Self {
        let bed = Bed::start();
        let kubectl = bed.plane.kubectl();
        for definition in lifeboat_api::crds() {
            with_object(&kubectl, &["create"], &definition).expect("a definition");
        }
        bed.kubectl(&["create", "namespace", "velero"]);
        bed.kubectl(&["wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=30s"]);
        let s3 = S3Server::start().expect("an S3 server");
        s3.make_bucket(BUCKET).expect("a bucket");
        let ground = Self { bed, s3, directories: tempfile::tempdir().expect("a folder") };
        let credentials = format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            ground.s3.access_key(),
            ground.s3.secret_key()
        );
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": "velero"},
            "stringData": {"cloud": credentials}});
        ground.create(&secret);
        ground
    }

    pub(crate) fn kubectl(&self) -> Kubectl {
        self.bed.plane.kubectl()
    }

    pub(crate) fn server(&self, identity: &str) -> Server {
        let log = std::fs::File::create(self.directories.path().join(format!("{identity}.log"))).expect("a log");
        let process = Command::new(env!("CARGO_BIN_EXE_lifeboat"))
            .args(["server", "--identity", identity, "--directory-root"])
            .arg(self.directories.path())
            .env("KUBECONFIG", self.bed.plane.kubeconfig())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the binary");
        Server(process)
    }

    fn log(&self, identity: &str) -> String {
        std::fs::read_to_string(self.directories.path().join(format!("{identity}.log"))).expect("a log")
    }

    fn create(&self, object: &Value) {
        with_object(&self.kubectl(), &["create"], object).unwrap_or_else(|e| panic!("{e:#}"));
    }

    pub(crate) fn velero(&self, kind: &str, name: &str, spec: &Value) {
        self.create(&json!({"apiVersion": "velero.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": "velero"}, "spec": spec}));
    }

    /// A location in the bucket, reached at this endpoint.
    fn s3_location(&self, name: &str, endpoint: &str) {
        let spec = json!({"provider": "aws", "objectStorage": {"bucket": BUCKET, "prefix": name},
            "credential": {"name": "cloud", "key": "cloud"},
            "config": {"region": self.s3.region(), "s3ForcePathStyle": "true", "s3Url": endpoint}});
        self.velero("BackupStorageLocation", name, &spec);
    }

    /// A location in a folder of its own, which is made.
    fn directory(&self, name: &str, rest: &Value) -> PathBuf {
        let folder = self.directories.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let mut spec = json!({"provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"},
            "config": {"path": folder.display().to_string()}});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        self.velero("BackupStorageLocation", name, &spec);
        folder.join("b")
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        let out = self.bed.kubectl(&["get", kind, name, "--namespace=velero", "--output=json", "--ignore-not-found"]);
        serde_json::from_str(&out).unwrap_or_default()
    }

    /// Waits for a phase and gives the object.
    pub(crate) fn until(&self, kind: &str, name: &str, phase: &str) -> Value {
        let mut last = Value::Null;
        eventually(&format!("{kind} {name} in phase {phase}"), || {
            last = self.get(kind, name);
            assert!(phase == "Failed" || last["status"]["phase"] != "Failed", "{kind} {name}: {}", last["status"]);
            last["status"]["phase"] == phase
        });
        last
    }

    pub(crate) fn until_gone(&self, kind: &str, name: &str) {
        eventually(&format!("the end of {kind} {name}"), || self.get(kind, name).is_null());
    }

    pub(crate) fn many(&self, name: &str, count: usize) {
        self.create(&namespace(name));
        let items: Vec<Value> = config_maps(name, count).collect();
        self.create(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    }

    /// The ConfigMaps of a namespace and their data.
    pub(crate) fn maps(&self, name: &str) -> BTreeMap<String, String> {
        let template = "{range .items[*]}{.metadata.name}={.data.number}{\"\\n\"}{end}";
        let out = self.bed.kubectl(&["get", "configmaps", "-n", name, &format!("--output=jsonpath={template}")]);
        let lines = out.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(name, _)| *name != "kube-root-ca.crt").map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    pub(crate) fn lose(&self, name: &str) {
        self.bed.kubectl(&["delete", "namespace", name, "--timeout=60s"]);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for file in std::fs::read_dir(from).expect("fixtures") {
        let file = file.expect("a fixture");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("copy");
    }
}

#[test]
fn custom_resources_are_all_it_takes() {
    let ground = Ground::start();
    ground.many("shop", 20);
    let before = ground.maps("shop");
    ground.s3_location("main", ground.s3.endpoint());
    let bucket = ground.directory("second", &json!({"default": true}));
    ground.directory("sealed", &json!({"accessMode": "ReadOnly"}));
    ground.velero(
        "BackupStorageLocation",
        "broken",
        &json!({"provider": "aws",
        "objectStorage": {"bucket": "nowhere"}, "config": {"region": "x", "s3Url": "http://127.0.0.1:1"}}),
    );
    ground.velero(
        "BackupStorageLocation",
        "strange",
        &json!({"provider": "example.com/x", "objectStorage": {"bucket": "b"}}),
    );
    let server = ground.server("one");
    for name in ["main", "second", "sealed"] {
        ground.until("backupstoragelocation", name, "Available");
    }
    for (name, why) in
        [("broken", "BackupStorageLocation \"broken\" is unavailable: "), ("strange", "there is no provider")]
    {
        let found = ground.until("backupstoragelocation", name, "Unavailable");
        assert!(found["status"]["message"].as_str().unwrap_or_default().contains(why), "{found}");
    }

    // Everything round, in both locations.
    for location in ["main", "second"] {
        let (backup, restore) = (format!("{location}-b"), format!("{location}-r"));
        ground.velero("Backup", &backup, &json!({"includedNamespaces": ["shop"], "storageLocation": location}));
        let done = ground.until("backup", &backup, "Completed");
        assert_eq!(done["metadata"]["labels"]["velero.io/storage-location"], location);
        assert_eq!(done["status"]["progress"]["itemsBackedUp"], done["status"]["progress"]["totalItems"]);
        ground.lose("shop");
        ground.velero("Restore", &restore, &json!({"backupName": backup}));
        ground.until("restore", &restore, "Completed");
        assert_eq!(ground.maps("shop"), before, "{location}");
    }

    // What cannot be done is said, and holds nobody up.
    for (name, spec, why) in [
        (
            "sealed-b",
            json!({"storageLocation": "sealed"}),
            "backup can't be created because backup storage location sealed is currently in read-only mode",
        ),
        (
            "broken-b",
            json!({"storageLocation": "broken"}),
            "backup can't be created because BackupStorageLocation broken is in Unavailable status.",
        ),
        (
            "lists-b",
            json!({"includedNamespaces": ["a", "*"]}),
            "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
        ),
    ] {
        ground.velero("Backup", name, &spec);
        let refused = ground.until("backup", name, "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!([why]));
    }
    for (name, spec, why) in [
        ("none-r", json!({"backupName": "none"}), "Error retrieving backup: backups.velero.io \"none\" not found"),
        (
            "bad-r",
            json!({"backupName": "lists-b"}),
            "Error retrieving backup: backupstoragelocations.velero.io \"\" not found",
        ),
        (
            "both-r",
            json!({"backupName": "main-b", "scheduleName": "x"}),
            "Either a backup or schedule must be specified as a source for the restore, but not both",
        ),
    ] {
        ground.velero("Restore", name, &spec);
        let refused = ground.until("restore", name, "FailedValidation");
        let errors = refused["status"]["validationErrors"].to_string();
        if name == "bad-r" {
            assert!(errors.contains("cannot be used as a restore source"), "{errors}");
        } else {
            assert_eq!(refused["status"]["validationErrors"], json!([why]));
        }
    }

    // Requests.
    ground.velero("DownloadRequest", "log", &json!({"target": {"kind": "BackupLog", "name": "main-b"}}));
    let answered = ground.until("downloadrequest", "log", "Processed");
    let url = answered["status"]["downloadURL"].as_str().unwrap_or_default();
    assert!(url.contains("/main/backups/main-b/main-b-logs.gz?") && url.contains("X-Amz-Signature="), "{url}");
    ground.velero("DownloadRequest", "nothing", &json!({"target": {"kind": "BackupLog", "name": "lists-b"}}));
    eventually("the expiration of a request for nothing", || {
        let found = ground.get("downloadrequest", "nothing");
        found["status"]["expiration"].is_string() && found["status"]["phase"].is_null()
    });
    ground.velero("ServerStatusRequest", "status", &json!({}));
    let answered = ground.until("serverstatusrequest", "status", "Processed");
    assert_eq!(answered["status"]["serverVersion"], format!("v{}", env!("CARGO_PKG_VERSION")));

    // Deletion takes the restores along, and the files of both.
    ground.velero("DeleteBackupRequest", "delete", &json!({"backupName": "second-b"}));
    for (kind, name) in [("deletebackuprequest", "delete"), ("backup", "second-b"), ("restore", "second-r")] {
        ground.until_gone(kind, name);
    }
    for folder in ["backups", "restores"] {
        let left: Vec<_> = std::fs::read_dir(bucket.join(folder)).map(|d| d.flatten().collect()).unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
    }
    assert_eq!(ground.maps("shop"), before);
    ground.velero("DeleteBackupRequest", "nothing", &json!({"backupName": "none"}));
    let refused = ground.until("deletebackuprequest", "nothing", "Processed");
    assert_eq!(refused["status"]["errors"], json!(["backup not found"]));
    // A restore goes with its files.
    ground.bed.kubectl(&["delete", "restore", "main-r", "--namespace=velero", "--timeout=30s"]);
    assert!(!ground.s3.file(BUCKET, "main/restores/main-r/restore-main-r-logs.gz").exists());

    assert_eq!(server.stop(), Some(0), "told to stop");
}

#[test]
fn commands_ask_for_the_same() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let before = ground.maps("shop");
    let folder = ground.directories.path().display().to_string();
    let _server = ground.server("one");
    let run = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        command.args(args.split_whitespace()).env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC");
        run(&mut command)
    };
    let says = |args: &str, code: i32, text: &str| {
        let run = run(args);
        assert_eq!(run.code, code, "{args}: {run:?}");
        assert!(run.out.contains(text) || run.err.contains(text), "{args}: {run:?} does not say {text:?}");
    };
    says(
        &format!(
            "backup-location create main --provider lifeboat.io/directory --bucket b --prefix p --config path={folder} --default"
        ),
        0,
        "Backup storage location \"main\" configured successfully.\n",
    );
    says(
        "backup-location create other --provider aws --bucket b --default",
        1,
        "already a default backup storage location: main",
    );
    ground.until("backupstoragelocation", "main", "Available");
    let table = run("backup-location get").out;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(
        rows[0],
        "NAME   PROVIDER                BUCKET/PREFIX   PHASE       LAST VALIDATED                  ACCESS MODE   DEFAULT"
    );
    assert!(rows[1].starts_with("main   lifeboat.io/directory   b/p             Available   20"), "{table}");
    assert!(rows[1].ends_with(" +0000 UTC   ReadWrite     true"), "{table}");

    says("backup get", 0, "");
    says("backup create", 1, "a backup name is required, unless you are creating based on a schedule");
    says("backup create one --storage-location nope", 1, "backupstoragelocations.velero.io \"nope\" not found");
    says("backup create one --include-namespaces a,*", 1, "includes list must either contain '*' only");
    says(
        "backup create one --include-namespaces shop --labels team=a --wait",
        0,
        "\nBackup completed with status: Completed. You may check for more information using the commands `lifeboat backup describe one` and `lifeboat backup logs one`.\n",
    );
    says("backup create one", 1, "backups.velero.io \"one\" already exists");
    says("backup create two --include-namespaces shop -o yaml", 0, "includedNamespaces:\n  - shop\n");
    assert!(ground.get("backup", "two").is_null(), "-o prints and sends nothing");
    says("backup get nope", 1, "backups.velero.io \"nope\" not found");
    let table = run("backup get -l team=a -L team").out;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(
        rows[0],
        "NAME   STATUS      ERRORS   WARNINGS   CREATED                         EXPIRES   STORAGE LOCATION   QUEUE POSITION   SELECTOR   TEAM"
    );
    assert!(
        rows[1].starts_with("one    Completed   0        0          20") && rows[1].contains("   29d       main  "),
        "{table}"
    );
    assert!(rows[1].ends_with("<none>     a"), "{table}");
    let one: Value = serde_json::from_str(&run("backup get one -o json").out).expect("JSON");
    assert_eq!((&one["kind"], &one["status"]["phase"]), (&json!("Backup"), &json!("Completed")));

    ground.lose("shop");
    says("restore create", 1, "either a backup or schedule must be specified, but not both");
    says("restore create --from-backup nope", 1, "backups.velero.io \"nope\" not found");
    says(
        "restore create r --from-backup one --wait",
        0,
        "\nRestore completed with status: Completed. You may check for more information using the commands `lifeboat restore describe r` and `lifeboat restore logs r`.\n",
    );
    assert_eq!(ground.maps("shop"), before);
    let table = run("get restores").out;
    assert!(table.lines().nth(1).is_some_and(|row| row.starts_with("r      one      Completed   20")), "{table}");

    says("restore delete", 1, "exactly one of");
    says("backup delete one", 0, "error reading user input: EOF");
    says("backup delete nope --confirm", 0, "No backups found\n");
    says("delete backup one nope --confirm", 1, "Request to delete backup \"one\" submitted successfully.\n");
    ground.until_gone("backup", "one");
    ground.until_gone("restore", "r");
    assert_eq!(ground.maps("shop"), before);
}

#[test]
fn a_bucket_that_velero_filled_shows_up() {
    let ground = Ground::start();
    let bucket = ground.directory("default", &json!({"default": true, "backupSyncPeriod": "1s"}));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/fixtures/velero/backups/one-ns");
    copy(&golden, &bucket.join("backups/one-ns"));
    // Half-written: no record yet.
    copy(&golden, &bucket.join("backups/half"));
    std::fs::remove_file(bucket.join("backups/half/velero-backup.json")).expect("a record");
    // Velero's server may still be there: it never asks who leads.
    ground.create(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "velero-1", "namespace": "velero", "labels": {"deploy": "velero"}},
        "spec": {"containers": [{"name": "velero", "image": "velero/velero:v1.18.2", "args": ["server"]}]}}));
    let _server = ground.server("one");
    eventually("a word about the other server", || ground.log("one").contains("waiting until it has ended"));
    assert!(ground.get("lease", "lifeboat-server").is_null());
    ground.bed.kubectl(&["delete", "pod", "velero-1", "--namespace=velero", "--force", "--grace-period=0"]);
    let found = ground.until("backup", "one-ns", "Completed");
    assert_eq!(found["spec"]["storageLocation"], "default");
    assert_eq!(found["metadata"]["labels"]["velero.io/storage-location"], "default");

    ground.velero("Restore", "r", &json!({"backupName": "one-ns", "includedResources": ["configmaps"]}));
    ground.until("restore", "r", "Completed");
    assert!(!ground.maps("app1").is_empty());
    assert!(ground.get("backup", "half").is_null());

    // Its files are lost: so is the object, and only then.
    std::fs::remove_dir_all(bucket.join("backups/one-ns")).expect("the files");
    ground.until_gone("backup", "one-ns");
}

/// Backups and restores whose server dies at a publishing call, or between its writes to the cluster, end by the hand
/// of the next one.
#[test]
fn who_comes_next_takes_up_what_a_dead_server_left() {
    let ground = Ground::start();
    ground.many("shop", 200);
    let before = ground.maps("shop");
    let proxy = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    ground.s3_location("main", proxy.url());
    let mut leader = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    for (n, (path, kill)) in
        [("*/b0.tar.gz?*", Kill::Before), ("*/b1-logs.gz?*", Kill::After), ("*/velero-backup.json?*", Kill::After)]
            .into_iter()
            .enumerate()
    {
        let next = ground.server(&format!("next-{n}"));
        proxy.victim(leader.0.id());
        proxy.script(vec![Rule::new("PUT", path, Nth::Only(1), Fault::Kill(kill))]);
        let name = format!("b{n}");
        ground.velero("Backup", &name, &json!({"includedNamespaces": ["shop"], "storageLocation": "main"}));
        leader.0.wait().expect("its end");
        let done = ground.until("backup", &name, "Completed");
        assert_eq!(done["metadata"]["annotations"]["lifeboat.io/attempt"], "2", "{path}");
        let key = format!("main/backups/{name}/{name}.tar.gz");
        assert_eq!(ground.s3.open_uploads(BUCKET, &key).expect("the uploads"), 0, "{path}");
        leader = next;
    }

    // A restore, killed when it stores its log: everything was made, and is made once.
    ground.lose("shop");
    let next = ground.server("last");
    proxy.victim(leader.0.id());
    proxy.script(vec![Rule::new("PUT", "*/restore-r-logs.gz?*", Nth::Only(1), Fault::Kill(Kill::Before))]);
    ground.velero("Restore", "r", &json!({"backupName": "b0"}));
    leader.0.wait().expect("its end");
    ground.until("restore", "r", "Completed");
    assert_eq!(ground.maps("shop"), before);
    let left = ground.bed.kubectl(&["get", "configmaps", "--namespace=velero", "--output=name"]);
    assert_eq!(left.trim(), "configmap/kube-root-ca.crt", "the checkpoint of the restore is left");
    next.kill();
}
