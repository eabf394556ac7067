//! Where servers are tested: a cluster with the definitions, buckets, and processes that can be killed.

use crate::faults::{config_maps, namespace};
use crate::support::{Bed, comes_to_be, eventually, spawn_logged, until_types_are_served};
use lifeboat_testbed::{Kubectl, S3Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A control plane with the definitions, an S3 server with a bucket, and servers.
pub(crate) struct Ground {
    pub(crate) bed: Bed,
    pub(crate) s3: S3Server,
    pub(crate) directories: tempfile::TempDir,
}

pub(crate) const BUCKET: &str = "server";

const LOCATIONS: &str = "backupstoragelocations.velero.io";

/// A server process; killed when dropped.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("its end");
    }

    /// A signal by its name, such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill").success());
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
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
        Self::local(Bed::start())
    }

    /// The same with a control plane that no test has used before.
    pub(crate) fn fresh() -> Self {
        Self::local(Bed::fresh())
    }

    /// A second cluster for the same test, whose folders lie within those of the first: a location may lie where both reach it.
    pub(crate) fn beside(first: &Self) -> Self {
        let mut ground = Self::local(Bed::another(&first.bed));
        ground.directories = tempfile::tempdir_in(first.directories.path()).expect("a folder");
        ground
    }

    /// With the node that runs pods: the definitions are put in place by whichever test comes first, and each test has a
    /// namespace of its own for its server.
    pub(crate) fn with_node(own: &str) -> Self {
        let ground = Self::on(Bed::with_node(), own, S3Server::start_on_node());
        ground.bed.kubectl(&["wait", "--for=create", "serviceaccount/default", "-n", own, "--timeout=30s"]);
        ground
    }

    fn local(bed: Bed) -> Self {
        Self::on(bed, "velero", S3Server::start())
    }

    fn on(bed: Bed, own: &str, s3: anyhow::Result<S3Server>) -> Self {
        let definitions = lifeboat_api::crds();
        for definition in &definitions {
            bed.plane.client().apply(definition).expect("a definition");
        }
        bed.create(&namespace(own));
        // Those of others may be on their way out while a test of the node takes them away.
        let names: Vec<&str> = definitions.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
        until_types_are_served(&bed.plane, &names);
        let s3 = s3.expect("an S3 server");
        s3.make_bucket(BUCKET).expect("a bucket");
        let ground = Self { bed, s3, directories: tempfile::tempdir().expect("a folder") };
        ground.credentials(own);
        ground
    }

    /// The Secret that locations in the S3 server name.
    pub(crate) fn credentials(&self, namespace: &str) {
        let credentials = format!(
            "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
            self.s3.access_key(),
            self.s3.secret_key()
        );
        self.create(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": namespace},
            "stringData": {"cloud": credentials}}),
        );
    }

    pub(crate) fn kubectl(&self) -> Kubectl {
        self.bed.plane.kubectl()
    }

    pub(crate) fn server(&self, identity: &str) -> Server {
        self.server_with(identity, &self.bed.plane.kubeconfig(), &[])
    }

    /// A server with more flags that reaches the cluster by this kubeconfig.
    pub(crate) fn server_with(&self, identity: &str, kubeconfig: &Path, flags: &[&str]) -> Server {
        self.start_server(self.server_command(kubeconfig, flags), identity)
    }

    /// A server with more flags that reaches the cluster by this kubeconfig, not started yet.
    pub(crate) fn server_command(&self, kubeconfig: &Path, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        command
            .args(["server", "--metrics-address", "127.0.0.1:0", "--download-address", "127.0.0.1:0"])
            .arg("--directory-root")
            .arg(self.directories.path())
            .args(flags)
            .env("KUBECONFIG", kubeconfig);
        command
    }

    /// Starts a server under this identity.
    pub(crate) fn start_server(&self, mut command: Command, identity: &str) -> Server {
        command.args(["--identity", identity]);
        Server(spawn_logged(&mut command, &self.directories.path().join(format!("{identity}.log"))))
    }

    pub(crate) fn log(&self, identity: &str) -> String {
        std::fs::read_to_string(self.directories.path().join(format!("{identity}.log"))).expect("a log")
    }

    pub(crate) fn create(&self, object: &Value) {
        self.bed.create(object);
    }

    pub(crate) fn velero(&self, kind: &str, name: &str, spec: &Value) {
        self.velero_in("velero", kind, name, spec);
    }

    pub(crate) fn velero_in(&self, namespace: &str, kind: &str, name: &str, spec: &Value) {
        self.create(&json!({"apiVersion": "velero.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec}));
    }

    /// A location in the bucket, reached at this endpoint.
    pub(crate) fn s3_location(&self, name: &str, endpoint: &str) {
        self.s3_location_in("velero", name, endpoint);
    }

    pub(crate) fn s3_location_in(&self, namespace: &str, name: &str, endpoint: &str) {
        let spec = json!({"provider": "aws", "objectStorage": {"bucket": BUCKET, "prefix": name},
            "credential": {"name": "cloud", "key": "cloud"},
            "config": {"region": self.s3.region(), "s3ForcePathStyle": "true", "s3Url": endpoint}});
        self.velero_in(namespace, "BackupStorageLocation", name, &spec);
    }

    /// A location in a folder of its own, which is made.
    pub(crate) fn directory(&self, name: &str, rest: &Value) -> PathBuf {
        let folder = self.directories.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let mut spec = json!({"provider": "lifeboat.io/directory", "objectStorage": {"bucket": "b"},
            "config": {"path": folder.display().to_string()}});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        self.velero("BackupStorageLocation", name, &spec);
        folder.join("b")
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        self.get_in("velero", kind, name)
    }

    pub(crate) fn get_in(&self, namespace: &str, kind: &str, name: &str) -> Value {
        let found = self.bed.plane.client().get(kind, name, namespace).unwrap_or_else(|e| panic!("{e:#}"));
        found.unwrap_or_default()
    }

    /// Waits for a phase and gives the object.
    pub(crate) fn until(&self, kind: &str, name: &str, phase: &str) -> Value {
        self.until_in("velero", kind, name, phase)
    }

    /// The same in another namespace. An object that has ended in another phase fails the test at once.
    pub(crate) fn until_in(&self, namespace: &str, kind: &str, name: &str, phase: &str) -> Value {
        let ended = ["Completed", "PartiallyFailed", "Failed"];
        let mut last = Value::Null;
        let came = comes_to_be(|| {
            last = self.get_in(namespace, kind, name);
            let now = last["status"]["phase"].as_str().unwrap_or_default();
            assert!(now == phase || !ended.contains(&now), "{kind} {name}: {}", last["status"]);
            now == phase
        });
        assert!(came, "{kind} {name} did not come to the phase {phase} within a minute: {}", last["status"]);
        last
    }

    pub(crate) fn until_gone(&self, kind: &str, name: &str) {
        self.until_gone_in("velero", kind, name);
    }

    /// The same in another namespace.
    pub(crate) fn until_gone_in(&self, namespace: &str, kind: &str, name: &str) {
        eventually(&format!("the end of {kind} {name}"), || self.get_in(namespace, kind, name).is_null());
    }

    pub(crate) fn many(&self, name: &str, count: usize) {
        self.create(&namespace(name));
        let items: Vec<Value> = config_maps(name, count).collect();
        self.create(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
    }

    /// The ConfigMaps of a namespace and their data.
    pub(crate) fn maps(&self, name: &str) -> BTreeMap<String, String> {
        let found = self.bed.plane.client().list("configmaps", Some(name)).unwrap_or_else(|e| panic!("{e:#}"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let maps = found.iter().map(|map| (text(&map["metadata"]["name"]), text(&map["data"]["number"])));
        maps.filter(|(name, _)| *name != "kube-root-ca.crt").collect()
    }

    /// Lets the hour be over in which a location that was just found, or became writable, is not cleaned up.
    pub(crate) fn let_an_hour_pass(&self, namespace: &str, location: &str) {
        let found = self.get_in(namespace, LOCATIONS, location);
        let mut found: lifeboat_api::BackupStorageLocation = serde_json::from_value(found).expect("a location");
        found.metadata.annotations.clear();
        lifeboat_lifecycle::phase::writable::note_writable(&mut found, "2026-01-01T00:00:00Z".parse().expect("a time"));
        let since = &found.metadata.annotations[lifeboat_api::well_known::ANNOTATION_WRITABLE_SINCE];
        let patch = json!({"metadata": {"annotations": {"lifeboat.io/writable-since": since}}});
        let patched = self.bed.plane.client().merge(LOCATIONS, location, namespace, &patch);
        patched.unwrap_or_else(|e| panic!("{e:#}"));
    }

    pub(crate) fn lose(&self, name: &str) {
        self.bed.kubectl(&["delete", "namespace", name, "--timeout=60s"]);
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for file in std::fs::read_dir(from).expect("fixtures") {
        let file = file.expect("a fixture");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("copy");
    }
}
