//! Plugins: a server runs the programs of its plugin directory, and its operations use what they have.

use crate::ground::Ground;
use crate::support::{eventually, gunzip, program, run};
use futures::{StreamExt, TryStreamExt};
use lifeboat_plugin_sdk::{
    ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput, ByteStream, Config, ObjectStore,
    Plugin, VolumeFacts, VolumeRequest, VolumeSnapshotter, async_trait,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// No test: where a server has started this program as a plugin, it is one from here on.
#[test]
fn plays_a_plugin() {
    if std::env::var("VELERO_PLUGIN").as_deref() != Ok("hello") {
        return;
    }
    let plugin = Plugin::new()
        .backup_item_action(Mark)
        .object_store("example.io/files", async |config: Config| Files::of(&config))
        .volume_snapshotter("example.io/disks", async |config: Config| Disks::of(&config));
    std::process::exit(i32::from(plugin.serve() != ExitCode::SUCCESS));
}

/// Puts this program as a plugin into a folder. The harness of tests prints lines of its own, which are no handshake.
pub(crate) fn put_plugin(folder: &Path) {
    std::fs::create_dir_all(folder).expect("the folder of plugins");
    let own = std::env::current_exe().expect("this program");
    let (_, module) = module_path!().split_once("::").expect("a module of the crate");
    let script = format!(
        "#!/bin/sh\n'{}' {module}::plays_a_plugin --exact --nocapture --test-threads=2 | grep --line-buffered '^1|'\n",
        own.display()
    );
    let path = folder.join("disks-and-files");
    std::fs::write(&path, script).expect("the plugin");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
}

/// Writes into ConfigMaps which backup they are of.
struct Mark;

#[async_trait]
impl BackupItemAction for Mark {
    fn name(&self) -> &str {
        "example.io/mark"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope { included_namespaces: vec!["shop".to_owned()], ..ActionScope::resources(&["configmaps"]) }
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let mut item = input.item;
        item["metadata"]["annotations"]["example.io/saved-by"] = input.backup.metadata.name.as_str().into();
        tracing::info!(name = item["metadata"]["name"].as_str(), "marked");
        Ok(BackupItemOutput::changed(item))
    }
}

fn item(error: impl ToString) -> ActionError {
    ActionError::item(error.to_string())
}

fn setting(config: &Config, key: &str) -> Result<PathBuf, ActionError> {
    config.get(key).map(PathBuf::from).ok_or_else(|| item(format!("config.{key} is missing")))
}

/// An object store in a folder.
struct Files {
    root: PathBuf,
}

impl Files {
    fn of(config: &Config) -> Result<Self, ActionError> {
        Ok(Self { root: setting(config, "root")? })
    }

    fn path(&self, bucket: &str, key: &str) -> PathBuf {
        self.root.join(bucket).join(key)
    }
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}"))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

#[async_trait]
impl ObjectStore for Files {
    async fn put_object(&self, bucket: &str, key: &str, body: ByteStream) -> Result<(), ActionError> {
        let pieces: Vec<_> = body.try_collect().await?;
        let path = self.path(bucket, key);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.root)).map_err(item)?;
        std::fs::write(&path, pieces.concat()).map_err(item)
    }

    async fn object_exists(&self, bucket: &str, key: &str) -> Result<bool, ActionError> {
        Ok(self.path(bucket, key).is_file())
    }

    async fn get_object(&self, bucket: &str, key: &str) -> Result<ByteStream, ActionError> {
        let bytes = std::fs::read(self.path(bucket, key)).map_err(|_| item(format!("{key}: not found")))?;
        Ok(futures::stream::iter([Ok(bytes.into())]).boxed())
    }

    async fn list_common_prefixes(
        &self,
        bucket: &str,
        delimiter: &str,
        prefix: &str,
    ) -> Result<Vec<String>, ActionError> {
        let keys = self.list_objects(bucket, prefix).await?;
        let of =
            |key: &String| Some(format!("{prefix}{}{delimiter}", key.strip_prefix(prefix)?.split_once(delimiter)?.0));
        let mut all: Vec<String> = keys.iter().filter_map(of).collect();
        all.dedup();
        Ok(all)
    }

    async fn list_objects(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, ActionError> {
        let all = files(&self.root.join(bucket)).into_iter();
        Ok(all.filter(|key| key.starts_with(prefix)).collect())
    }

    async fn delete_object(&self, bucket: &str, key: &str) -> Result<(), ActionError> {
        match std::fs::remove_file(self.path(bucket, key)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(item(e)),
            _ => Ok(()),
        }
    }

    async fn create_signed_url(&self, _: &str, key: &str, _: Duration) -> Result<String, ActionError> {
        Err(item(format!("{key}: a folder signs no URLs")))
    }
}

/// Disks whose snapshots are files in a folder. A PersistentVolume names its disk in an annotation.
struct Disks {
    folder: PathBuf,
    /// True when each snapshot of a disk has a name of its own, by `config.each`.
    has_many: bool,
}

impl Disks {
    fn of(config: &Config) -> Result<Self, ActionError> {
        Ok(Self { folder: setting(config, "folder")?, has_many: config.contains_key("each") })
    }
}

/// The annotation that names the disk of a PersistentVolume.
pub(crate) const DISK: &str = "example.io/disk";

#[async_trait]
impl VolumeSnapshotter for Disks {
    fn name(&self) -> &str {
        "example.io/disks"
    }

    async fn volume_id(&self, persistent_volume: &Value) -> Result<Option<String>, ActionError> {
        Ok(persistent_volume["metadata"]["annotations"][DISK].as_str().map(str::to_owned))
    }

    async fn volume_facts(&self, _: &str, _: &str) -> Result<VolumeFacts, ActionError> {
        Ok(VolumeFacts { volume_type: "fast".to_owned(), iops: Some(7) })
    }

    async fn create_snapshot(
        &self,
        volume_id: &str,
        zone: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, ActionError> {
        let mut name = format!("snapshot-of-{volume_id}");
        if self.has_many {
            name.push_str(&format!("-{}", jiff::Timestamp::now().as_nanosecond()));
        }
        std::fs::write(self.folder.join(&name), format!("{zone} {}", tags["velero.io/pv"])).map_err(item)?;
        Ok(name)
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        let VolumeFacts { volume_type, iops } = &request.facts;
        Ok(format!("{volume_type}-{}-of-{}", iops.unwrap_or_default(), request.snapshot_id))
    }

    async fn set_volume_id(&self, mut persistent_volume: Value, volume_id: &str) -> Result<Value, ActionError> {
        persistent_volume["metadata"]["annotations"][DISK] = volume_id.into();
        Ok(persistent_volume)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError> {
        std::fs::remove_file(self.folder.join(snapshot_id)).map_err(item)
    }
}

/// An action, an object store and a snapshotter of one program, from the start of the server to the deletion of the
/// backup.
///
/// scenario: AdditionalBSL, Snapshot
/// scenario: BSL, Deletion, Snapshot
/// scenario: BackupVolumeInfo, NativeSnapshot
#[test]
fn a_backup_goes_through_the_plugins_of_its_server_and_comes_back() {
    let ground = Ground::start();
    let folder = |name: &str| ground.directories.path().join(name);
    for name in ["root", "snapshots"] {
        std::fs::create_dir(folder(name)).expect("a folder");
    }
    put_plugin(&folder("plugins"));
    ground.many("shop", 3);
    let before = ground.maps("shop");
    let size = json!({"storage": "1Gi"});
    ground.create(&json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "pv-of-shop", "annotations": {DISK: "disk-1"}, "labels": {"topology.kubernetes.io/zone": "z"}},
        "spec": {"capacity": size, "accessModes": ["ReadWriteMany"], "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "", "nfs": {"server": "nowhere.invalid", "path": "/"}}}));
    ground.create(
        &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "pv-of-shop",
            "resources": {"requests": size}}}),
    );
    eventually("the claim is bound", || {
        ground.get_in("shop", "persistentvolumeclaim", "data")["status"]["phase"] == "Bound"
    });
    let text = |path: PathBuf| path.display().to_string();
    ground.velero(
        "BackupStorageLocation",
        "main",
        &json!({"default": true, "provider": "example.io/files", "backupSyncPeriod": "1s", "objectStorage": {"bucket": "b", "prefix": "p"},
            "config": {"root": text(folder("root"))}}),
    );
    ground.velero(
        "VolumeSnapshotLocation",
        "disks",
        &json!({"provider": "example.io/disks", "config": {"folder": text(folder("snapshots"))}}),
    );
    let flags = ["--plugin-dir", &text(folder("plugins"))];
    let server = ground.server_with("one", &ground.bed.plane.kubeconfig(), &flags);
    ground.until("backupstoragelocation", "main", "Available");

    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    let mut done = Value::Null;
    eventually("the end of the backup", || {
        done = ground.get("backup", "b");
        !done["status"]["completionTimestamp"].is_null()
    });
    assert_eq!(done["status"]["phase"], "Completed", "{done} {}", ground.log("one"));
    let counts = (&done["status"]["volumeSnapshotsAttempted"], &done["status"]["volumeSnapshotsCompleted"]);
    assert_eq!(counts, (&json!(1), &json!(1)), "{done}");
    assert_eq!(files(&folder("snapshots")), ["snapshot-of-disk-1"]);
    let taken = std::fs::read_to_string(folder("snapshots").join("snapshot-of-disk-1")).expect("the snapshot");
    assert_eq!(taken, "z pv-of-shop");
    let infos: Value =
        serde_json::from_slice(&gunzip(&folder("root/b/p/backups/b/b-volumeinfo.json.gz"))).expect("JSON");
    let info = |key: &str| infos[0][key].clone();
    assert_eq!(
        (info("pvName"), info("backupMethod"), info("nativeSnapshotInfo")["snapshotHandle"].clone()),
        (json!("pv-of-shop"), json!("NativeSnapshot"), json!("snapshot-of-disk-1")),
        "{infos}"
    );

    let cli = |args: &str| {
        let mut command = Command::new(program());
        command.args(args.split_whitespace()).env("KUBECONFIG", ground.bed.plane.kubeconfig());
        let run = run(&mut command);
        assert_eq!(run.code, 0, "{args}: {run:?}");
        run.out
    };
    let plugins = cli("plugin get");
    let rows: Vec<Vec<&str>> = plugins.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        ["example.io/mark", "BackupItemActionV2"],
        ["example.io/files", "ObjectStore"],
        ["example.io/disks", "VolumeSnapshotter"],
        ["velero.io/pod", "BackupItemAction"],
    ] {
        assert!(rows.iter().any(|found| *found == row), "{row:?} is not in {plugins}");
    }

    ground.lose("shop");
    ground.bed.kubectl(&["delete", "persistentvolume", "pv-of-shop", "--timeout=180s"]);
    ground.velero("Restore", "r", &json!({"backupName": "b"}));
    ground.until("restore", "r", "Completed");
    assert_eq!(ground.maps("shop"), before);
    let map = ground.get_in("shop", "configmap", before.keys().next().expect("a ConfigMap"));
    assert_eq!(map["metadata"]["annotations"]["example.io/saved-by"], "b");
    let volume = ground.get("persistentvolume", "pv-of-shop");
    assert_eq!(volume["metadata"]["annotations"][DISK], "fast-7-of-snapshot-of-disk-1");
    let log = gunzip(&folder("root/b/p/backups/b/b-logs.gz"));
    let log = String::from_utf8_lossy(&log);
    let marked = log.lines().filter(|line| line.contains("msg=marked") && line.contains("pluginName=disks-and-files"));
    assert_eq!(marked.count(), before.len() + 1, "with kube-root-ca.crt: {log}");

    // The plugin signs no URLs: the server serves the files itself.
    let served = cli("backup logs b");
    assert_eq!(served.trim(), log.trim(), "the log by way of the server");

    what_a_backup_has_left_goes_with_its_snapshots(&ground, &folder("root/b/p/backups/left"), &folder("snapshots"));

    cli("backup delete b --confirm");
    ground.until_gone("backup", "b");
    assert_eq!(files(&folder("snapshots")), [""; 0]);
    assert_eq!(files(&folder("root/b/p/backups")), [""; 0]);

    the_backups_of_a_location_go_with_it_and_not_those_of_another(&ground, cli);
    assert_eq!(server.stop(), Some(0));
}

/// Without its location a backup leaves the cluster, and nothing else. The other location is in object storage and has
/// credentials of its own.
fn the_backups_of_a_location_go_with_it_and_not_those_of_another(ground: &Ground, cli: impl Fn(&str) -> String) {
    let folder = |name: &str| ground.directories.path().join(name);
    let before = ground.maps("shop");
    eventually("the claim is bound again", || {
        ground.get_in("shop", "persistentvolumeclaim", "data")["status"]["phase"] == "Bound"
    });
    ground.s3_location("more", ground.s3.endpoint());
    ground.until("backupstoragelocation", "more", "Available");
    for (name, location) in [("here", "main"), ("there", "more")] {
        ground.velero("Backup", name, &json!({"includedNamespaces": ["shop"], "storageLocation": location}));
        ground.until("backup", name, "Completed");
    }
    let kept = || (files(&folder("snapshots")), files(&folder("root/b/p/backups/here")));
    let (snapshots, archive) = kept();
    assert!(snapshots.len() == 1 && archive.contains(&"velero-backup.json".to_owned()), "{snapshots:?} {archive:?}");
    cli("backup-location delete main --confirm");
    ground.until_gone("backup", "here");
    assert_eq!(kept(), (snapshots.clone(), archive));

    ground.lose("shop");
    ground.bed.kubectl(&["delete", "persistentvolume", "pv-of-shop", "--timeout=180s"]);
    ground.velero("Restore", "s", &json!({"backupName": "there"}));
    ground.until("restore", "s", "Completed");
    assert_eq!(ground.maps("shop"), before);
    let volume = ground.get("persistentvolume", "pv-of-shop");
    assert_eq!(volume["metadata"]["annotations"][DISK], format!("fast-7-of-{}", snapshots[0]));
}

/// A backup whose Backup was deleted while no server ran, after its snapshot was taken.
fn what_a_backup_has_left_goes_with_its_snapshots(ground: &Ground, left: &Path, snapshots: &Path) {
    let here = ground.bed.kubectl(&["get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}"]);
    let claimed = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2);
    let claim = json!({"format": "lifeboat.io/claim/v1", "clusterUID": here, "backupUID": "gone", "namespace": "velero",
        "attempt": 1, "claimed": claimed});
    let note = json!({"attempt": 1, "persistentVolume": "pv-gone", "location": "disks", "volumeID": "disk-9",
        "snapshotID": "snapshot-of-disk-9"});
    std::fs::create_dir_all(left).expect("a folder");
    for (path, content) in [
        (snapshots.join("snapshot-of-disk-9"), "z pv-gone".to_owned()),
        (left.join("lifeboat-snapshot-9-1.json"), note.to_string()),
        (left.join("lifeboat-claim.json"), claim.to_string()),
    ] {
        std::fs::write(path, content).expect("a file");
    }
    eventually("the sweep", || !left.join("lifeboat-claim.json").exists());
    assert_eq!(files(left), [""; 0]);
    assert_eq!(files(snapshots), ["snapshot-of-disk-1"], "that of the backup that is there stays");
}

/// An unusable snapshot location refuses a backup that names it. For a backup that takes it by default it is an error
/// of the volume.
#[test]
fn a_snapshot_location_without_its_plugin_refuses_a_backup_that_names_it() {
    let ground = Ground::start();
    ground.many("shop", 1);
    ground.directory("main", &json!({"default": true}));
    ground.velero("VolumeSnapshotLocation", "disks", &json!({"provider": "example.io/disks"}));
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    ground.velero("Backup", "named", &json!({"includedNamespaces": ["shop"], "volumeSnapshotLocations": ["disks"]}));
    let refused = ground.until("backup", "named", "FailedValidation");
    let errors = &refused["status"]["validationErrors"];
    let expected =
        "volume snapshot location disks cannot be used: unable to get valid VolumeSnapshotter for \"example.io/disks\"";
    assert_eq!(*errors, json!([expected]));
    ground.velero("Backup", "other", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "other", "Completed");
}
