//! Movers against an API server in memory, a bucket in a folder, and folders in place of volumes.

use super::failure::Failure;
use super::role::{Done, Work, perform};
use super::{MoverEnv, Transfer, backup, restore};
use crate::repo_maintenance::{MaintainedRepository, maintain};
use base64::Engine;
use bytes::Bytes;
use lifeboat_api::well_known::PROVIDER_DIRECTORY;
use lifeboat_api::{BackupRepository, DataUpload, PodVolumeBackup, PodVolumeRestore};
use lifeboat_bucket::Gates;
use lifeboat_client::Client;
use lifeboat_cluster::{Cluster, ConnectOptions, ListRequest, WriteBody};
use lifeboat_mover::protocol::{
    AccessPoint, BackupResult, LOST_SIGHT, PodEnd, REPLACED, RestoreResult, VolumeMode, pod_end,
};
use lifeboat_object::ApiResource;
use lifeboat_provider::ProviderSettings;
use lifeboat_sandbox::{Sandbox, SandboxOptions};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A cluster with a location, a password and a folder for volumes.
struct Ground {
    folder: tempfile::TempDir,
    client: Client,
    _sandbox: Sandbox,
}

impl Ground {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["buckets", "scratch"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let sandbox = Sandbox::start(SandboxOptions::for_tests()).await.unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "velero"}});
        sandbox.apply(std::iter::once(namespace).chain(lifeboat_api::crds()).collect()).await.unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let cluster = Cluster::connect(&options).await.unwrap();
        let client = Client { cluster, namespace: "velero".to_owned() };
        let ground = Self { folder, client, _sandbox: sandbox };
        ground
            .create(
                ("velero.io", "v1", "backupstoragelocations", "BackupStorageLocation"),
                json!({"metadata": {"name": "default", "namespace": "velero"}, "spec": {"provider": PROVIDER_DIRECTORY,
                    "objectStorage": {"bucket": "b"}, "config": {"path": ground.path("buckets")}}}),
            )
            .await;
        ground
    }

    async fn with_password(self, password: &str) -> Self {
        let password = base64::engine::general_purpose::STANDARD.encode(password);
        let secret = json!({"metadata": {"name": "velero-repo-credentials", "namespace": "velero"}, "data":
            {"repository-password": password}});
        self.create(("", "v1", "secrets", "Secret"), secret).await;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    async fn create(&self, (group, version, plural, kind): (&str, &str, &str, &str), mut object: Value) {
        let resource = ApiResource::new(group, version, plural, kind);
        object["apiVersion"] = json!(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
        object["kind"] = json!(kind);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let body = WriteBody::of(Bytes::from(object.to_string()));
        self.client.cluster.create(&resource, Some("velero"), &name, body).await.unwrap();
    }

    async fn create_restore(&self, snapshot: &str, phase: &str) {
        // The API server in memory deletes what has an owner that is not there.
        let labels = json!({"velero.io/restore-uid": "restore-uid"});
        self.create(
            ("velero.io", "v1", "podvolumerestores", "PodVolumeRestore"),
            json!({"metadata": {"name": "r-1", "namespace": "velero", "labels": labels}, "spec": {"pod": {}, "volume": "data",
                "backupStorageLocation": "default", "repoIdentifier": "", "snapshotID": snapshot, "sourceNamespace": "vol",
                "uploaderType": "kopia"}, "status": {"phase": phase}}),
        )
        .await;
    }

    async fn create_backup(&self, name: &str) {
        self.create(
            ("velero.io", "v1", "podvolumebackups", "PodVolumeBackup"),
            json!({"metadata": {"name": name, "namespace": "velero"}, "spec": {"node": "n", "volume": "data",
                "backupStorageLocation": "default", "repoIdentifier": "", "pod": {"namespace": "vol", "name": "web-0"}},
                "status": {"phase": "InProgress"}}),
        )
        .await;
    }

    fn env(&self) -> MoverEnv {
        let state = Mutex::new(1_u64);
        MoverEnv {
            client: self.client.clone(),
            clock: Arc::new(jiff::Timestamp::now),
            random: Arc::new(move |bytes: &mut [u8]| {
                let mut state = state.lock().unwrap();
                for byte in bytes {
                    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    *byte = (*state >> 56) as u8;
                }
            }),
            storage: ProviderSettings {
                directory_root: Some(self.path("buckets")),
                gates: Gates::default(),
                patience: Duration::from_secs(60),
            },
            scratch: self.path("scratch"),
            termination_file: self.path("termination"),
            threads: 2,
            stop: CancellationToken::new(),
        }
    }

    /// A folder in place of a volume.
    fn volume(&self, name: &str) -> AccessPoint {
        let path = self.path(name);
        let _ = std::fs::create_dir(&path);
        AccessPoint { by_path: path.to_str().unwrap().to_owned(), volume_mode: VolumeMode::Filesystem }
    }

    fn transfer(&self, name: &str, volume: &str) -> Transfer {
        Transfer { name: name.to_owned(), volume: self.volume(volume), attempt: Some(1) }
    }

    fn termination(&self) -> String {
        std::fs::read_to_string(self.path("termination")).unwrap()
    }

    /// The reasons of the Events with their messages.
    async fn events(&self) -> BTreeMap<String, String> {
        let mut list = self.client.cluster.list(ListRequest {
            resource: Arc::new(ApiResource::new("", "v1", "events", "Event")),
            namespace: Some("velero".to_owned()),
            selector: String::new(),
            metadata_only: false,
        });
        let mut events = BTreeMap::new();
        while let Some(bodies) = list.next().await.unwrap() {
            for body in bodies {
                let event: Value = serde_json::from_slice(&body).unwrap();
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                events.insert(text("reason"), text("message"));
            }
        }
        events
    }

    async fn backed_up(&self, name: &str, volume: &str) -> BackupResult {
        self.create_backup(name).await;
        let has_succeeded = backup::<PodVolumeBackup>(&self.env(), &self.transfer(name, volume)).await.unwrap();
        match pod_end::<BackupResult>(has_succeeded, &self.termination()) {
            PodEnd::Completed(result) => result,
            end => panic!("{end:?}"),
        }
    }
}

/// Unpacks the bucket that Velero 1.18 has written (without the packs of its large volumes).
fn unpack_golden(ground: &Ground) {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/velero-pod-volume.tar.gz");
    let file = std::io::BufReader::new(std::fs::File::open(archive).unwrap());
    let bucket = ground.path("buckets/b");
    std::fs::create_dir(&bucket).unwrap();
    tar::Archive::new(flate2::bufread::GzDecoder::new(file)).unpack(bucket).unwrap();
}

/// A snapshot of the golden bucket.
const SCRATCH: &str = "39bc96795aaf31cc568c96dc224ddf78";

#[tokio::test]
async fn a_volume_that_velero_saved_comes_back_as_it_was() {
    let ground = Ground::start().await.with_password("static-passw0rd\n").await;
    unpack_golden(&ground);
    ground.create_restore(SCRATCH, "InProgress").await;
    let transfer = ground.transfer("r-1", "volume");
    std::fs::write(ground.path("volume/extra"), "stays").unwrap();
    assert!(restore::<PodVolumeRestore>(&ground.env(), &transfer).await.unwrap(), "{}", ground.termination());
    // As Velero's own record of the volume has them.
    for (path, mode, time, hash) in [
        ("e1", 0o644, 1_795_253_453_549_562_562, "c896fe114f7d33783275365da8c56d298dcd256a8d17378fcded25f5be10bdc0"),
        ("zero", 0o644, 1_795_253_402_876_026_294, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("d/e2", 0o644, 1_795_253_402_876_026_294, "fc3edd6c9fea6af8e8cc61940325f78ba8e25ebcdd2ea422e0c1d73958fe13c2"),
    ] {
        let file = ground.path("volume").join(path);
        let (bytes, metadata) = (std::fs::read(&file).unwrap(), file.metadata().unwrap());
        let modified = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let is = (metadata.permissions().mode() & 0o7777, modified, hex::encode(Sha256::digest(&bytes)));
        assert_eq!(is, (mode, time, hash.to_owned()), "{path}");
    }
    let mode = |path: &str| ground.path(path).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("volume"), mode("volume/d")), (0o777, 0o755));
    assert_eq!(std::fs::read_to_string(ground.path("volume/extra")).unwrap(), "stays");
    assert!(ground.path("volume/.velero/restore-uid").is_file());
    let result = RestoreResult { target: transfer.volume, total_bytes: 11, files: 3, ..RestoreResult::default() };
    assert_eq!(pod_end(true, &ground.termination()), PodEnd::Completed(result));
    let events = ground.events().await;
    assert_eq!(events["Data-Path-Completed"], ground.termination());
    assert_eq!(events["Data-Path-Progress"], r#"{"totalBytes":11,"doneBytes":11,"totalFiles":3,"doneFiles":3}"#);
    assert!(events.contains_key("Data-Path-Started") && events.contains_key("Data-Path-Stopped"), "{events:?}");
}

#[tokio::test]
async fn a_mover_waits_until_its_resource_is_in_progress() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    unpack_golden(&ground);
    ground.create_restore(SCRATCH, "Prepared").await;
    let (env, transfer) = (ground.env(), ground.transfer("r-1", "volume"));
    let begin = async {
        // Nothing of the resource tells that somebody follows it.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(ground.events().await.is_empty());
        let status = json!({"status": {"phase": "InProgress"}});
        ground.client.patch::<PodVolumeRestore>("r-1", &status).await.unwrap();
    };
    let (ended, ()) = tokio::join!(restore::<PodVolumeRestore>(&env, &transfer), begin);
    assert!(ended.unwrap(), "{}", ground.termination());
}

#[tokio::test]
async fn a_restore_that_cannot_be_says_why_and_marks_nothing() {
    for (password, snapshot, phase, expected) in [
        (
            Some("wrong"),
            SCRATCH,
            "InProgress",
            "the Secret velero-repo-credentials, key repository-password, has to have",
        ),
        (None, SCRATCH, "InProgress", "unable to get secret velero-repo-credentials"),
        (Some("static-passw0rd"), "0123", "InProgress", "cannot find snapshot 0123 in the repository: it is not there"),
        (Some("static-passw0rd"), "", "InProgress", "the resource names no snapshot"),
        (Some("static-passw0rd"), SCRATCH, "Failed", "PodVolumeRestore r-1 is in phase Failed already"),
        // A large volume, of whose packs the bucket has none.
        (Some("static-passw0rd"), "8bd37908fbb6b769f1a5bbc07016801a", "InProgress", "cannot restore snapshot 8bd3"),
    ] {
        let mut ground = Ground::start().await;
        if let Some(password) = password {
            ground = ground.with_password(password).await;
        }
        unpack_golden(&ground);
        ground.create_restore(snapshot, phase).await;
        let ended = restore::<PodVolumeRestore>(&ground.env(), &ground.transfer("r-1", "volume")).await;
        let text = ground.termination();
        assert!(!ended.unwrap() && text.contains(expected), "{text}");
        assert!(!ground.path("volume/.velero").exists(), "{text}");
        if phase == "InProgress" {
            assert!(ground.events().await["Data-Path-Failed"].contains(text.get(..60).unwrap()), "{text}");
        }
    }
}

/// Runs a transfer that does nothing until it is stopped, and changes its resource when it has begun.
async fn stopped_by(ground: &Ground, change: impl Future<Output = ()>) -> (bool, String) {
    let (env, transfer) = (ground.env(), ground.transfer("r-1", "volume"));
    let begun = tokio::sync::Notify::new();
    let moving = perform(&env, &transfer, async |_: Work<'_, PodVolumeRestore>| {
        begun.notify_one();
        std::future::pending::<Result<Done, Failure>>().await
    });
    let changing = async {
        begun.notified().await;
        change.await;
    };
    let (ended, ()) = tokio::join!(moving, changing);
    (ended.unwrap(), ground.termination())
}

#[tokio::test]
async fn a_canceled_transfer_ends_and_says_what_was_moved() {
    let ground = Ground::start().await;
    ground.create_restore(SCRATCH, "InProgress").await;
    let cancel = async {
        ground.client.patch::<PodVolumeRestore>("r-1", &json!({"spec": {"cancel": true}})).await.unwrap();
    };
    let expected = "0 of 0 bytes were moved: data path is canceled";
    assert_eq!(stopped_by(&ground, cancel).await, (false, expected.to_owned()));
    let reasons: Vec<String> = ground.events().await.into_keys().collect();
    let names = ["Canceled", "Canceling", "Started", "Stopped"].map(|name| format!("Data-Path-{name}"));
    assert_eq!(reasons, names);
}

#[tokio::test]
async fn a_mover_that_is_canceled_before_its_turn_ends() {
    let ground = Ground::start().await;
    ground.create_restore(SCRATCH, "Prepared").await;
    ground.client.patch::<PodVolumeRestore>("r-1", &json!({"spec": {"cancel": true}})).await.unwrap();
    assert!(!restore::<PodVolumeRestore>(&ground.env(), &ground.transfer("r-1", "volume")).await.unwrap());
    assert_eq!(ground.termination(), "nothing was moved: data path is canceled");
}

#[tokio::test]
async fn a_mover_in_whose_place_another_one_was_begun_ends() {
    let ground = Ground::start().await;
    ground.create_restore(SCRATCH, "InProgress").await;
    let replace = async {
        let killed = json!([{"pod": "p1", "reason": "its node was lost"}]).to_string();
        let again = json!({"metadata": {"annotations": {"lifeboat.io/killed-movers": killed}}, "status": {"phase": "Accepted"}});
        ground.client.patch::<PodVolumeRestore>("r-1", &again).await.unwrap();
    };
    assert_eq!(stopped_by(&ground, replace).await, (false, REPLACED.to_owned()));
    // The Events are those of the other one.
    let reasons: Vec<String> = ground.events().await.into_keys().collect();
    assert_eq!(reasons, ["Data-Path-Started"]);
    // One that comes late does not begin.
    ground.client.patch::<PodVolumeRestore>("r-1", &json!({"status": {"phase": "InProgress"}})).await.unwrap();
    assert!(!restore::<PodVolumeRestore>(&ground.env(), &ground.transfer("r-1", "volume")).await.unwrap());
    assert_eq!(ground.termination(), REPLACED);
    assert_eq!(std::fs::read_dir(ground.path("volume")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_mover_that_no_longer_sees_its_resource_ends_in_time() {
    let ground = Ground::start().await;
    ground.create_restore(SCRATCH, "InProgress").await;
    let transfer = ground.transfer("r-1", "volume");
    let (began, at) = (tokio::time::Instant::now(), jiff::Timestamp::now());
    let clock = Arc::new(move || at + jiff::SignedDuration::try_from(began.elapsed()).unwrap());
    let env = MoverEnv { clock: clock.clone(), ..ground.env() };
    let termination = ground.path("termination");
    let Ground { folder: _folder, _sandbox: sandbox, .. } = ground;
    let moving = perform(&env, &transfer, async |_: Work<'_, PodVolumeRestore>| {
        drop(sandbox);
        // Nothing but the clock goes on.
        tokio::time::pause();
        std::future::pending::<Result<Done, Failure>>().await
    });
    assert!(!moving.await.unwrap());
    assert_eq!(std::fs::read_to_string(termination).unwrap(), LOST_SIGHT);
    assert!(clock().duration_since(at) < jiff::SignedDuration::from_mins(5));
}

#[tokio::test]
async fn a_transfer_ends_with_the_resource_that_asked_for_it() {
    let ground = Ground::start().await;
    ground.create_restore(SCRATCH, "InProgress").await;
    let delete = async {
        assert!(ground.client.delete::<PodVolumeRestore>("r-1").await.unwrap());
    };
    assert_eq!(stopped_by(&ground, delete).await, (false, "PodVolumeRestore r-1 was deleted".to_owned()));
}

#[tokio::test]
async fn a_saved_volume_is_found_by_the_next_backup_and_comes_back() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    let volume = ground.volume("source");
    std::fs::write(ground.path("source/one"), "1").unwrap();
    std::fs::write(ground.path("source/two"), "22").unwrap();
    for name in ["source/one", "source/two"] {
        // The times of files that were written just before a snapshot are not believed.
        let file = std::fs::File::options().write(true).open(ground.path(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }
    let first = ground.backed_up("b-1", "source").await;
    let expected = BackupResult {
        snapshot_id: first.snapshot_id.clone(),
        empty_snapshot: false,
        source: volume,
        total_bytes: 3,
        incremental_bytes: 3,
        files: 2,
        message: String::new(),
    };
    assert_eq!(first, expected);
    std::fs::write(ground.path("source/three"), "333").unwrap();
    let second = ground.backed_up("b-2", "source").await;
    assert_eq!(
        (second.files, second.total_bytes, second.incremental_bytes),
        (3, 6, 3),
        "files of the first backup are not read again"
    );
    let known = ground.client.list::<BackupRepository>("").await.unwrap();
    let names: Vec<&str> = known.iter().map(|known| known.metadata.name.as_str()).collect();
    assert_eq!(names, ["vol-default-kopia"]);
    ground.create_restore(&second.snapshot_id, "InProgress").await;
    assert!(restore::<PodVolumeRestore>(&ground.env(), &ground.transfer("r-1", "volume")).await.unwrap());
    let read = ["one", "two", "three"].map(|name| std::fs::read_to_string(ground.path("volume").join(name)).unwrap());
    assert_eq!(read, ["1", "22", "333"]);
}

#[tokio::test]
async fn a_backup_says_what_of_the_volume_is_not_in_the_snapshot() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    ground.volume("source");
    std::fs::write(ground.path("source/one"), "1").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ground.path("source/socket")).unwrap();
    let cache = ground.path("source/cache");
    std::fs::create_dir(&cache).unwrap();
    std::fs::write(cache.join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    std::fs::write(cache.join("thumbnail"), "x").unwrap();
    let saved = ground.backed_up("b-1", "source").await;
    assert!(
        saved.message.contains("1 sockets, pipes and devices are not in the snapshot: socket"),
        "{}",
        saved.message
    );
    let caches =
        "1 directories say of themselves that they are caches, and are in the snapshot without what is in them: cache";
    assert!(saved.message.contains(caches), "{}", saved.message);
}

#[tokio::test]
async fn a_parent_that_is_gone_and_wrong_settings_are_told() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    ground.volume("source");
    std::fs::write(ground.path("source/one"), "1").unwrap();
    ground.create_backup("b-1").await;
    let asked = json!({"spec": {"parentSnapshot": "0123", "uploaderSettings": {"ParallelFilesUpload": "many"}}});
    ground.client.patch::<PodVolumeBackup>("b-1", &asked).await.unwrap();
    assert!(backup::<PodVolumeBackup>(&ground.env(), &ground.transfer("b-1", "source")).await.unwrap());
    let PodEnd::Completed(result) = pod_end::<BackupResult>(true, &ground.termination()) else {
        panic!("it has failed")
    };
    let expected = "the setting ParallelFilesUpload has no effect: \"many\" is no number above 0; spec.parentSnapshot names 0123, which is no finished \
                    snapshot of the repository: all files were read";
    assert_eq!((result.total_bytes, result.message.as_str()), (1, expected));
}

#[tokio::test]
async fn a_backup_that_fails_leaves_no_pinned_snapshot() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    ground.volume("source");
    std::fs::write(ground.path("source/one"), "1").unwrap();
    let [first, second] = [ground.backed_up("b-1", "source").await, ground.backed_up("b-2", "source").await];
    let env = ground.env();
    // Packs are named by random bytes, which were all used from the beginning before.
    (env.random)(&mut [0; 4096]);
    let found = super::repository::VolumeRepository::find(&env, "default", "vol").await.unwrap();
    let repository = found.open(1).await.unwrap();
    let writer = repository.writer(backup::write_options(&env)).await.unwrap();
    let said = backup::forget(&writer, &second.snapshot_id).await;
    assert_eq!(said, "the snapshot of the rest was deleted again");
    let left = found.open(1).await.unwrap().snapshots().await.unwrap();
    assert_eq!(left.into_iter().map(|one| one.id).collect::<Vec<_>>(), [first.snapshot_id]);
}

#[tokio::test]
async fn an_empty_volume_gives_no_snapshot_and_no_repository() {
    let ground = Ground::start().await;
    let result = ground.backed_up("b-1", "source").await;
    let expected = BackupResult { empty_snapshot: true, source: ground.volume("source"), ..BackupResult::default() };
    assert_eq!(result, expected);
    assert!(!ground.path("buckets/b").exists());
}

#[tokio::test]
async fn a_backup_into_a_read_only_location_is_refused() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    let read_only = json!({"spec": {"accessMode": "ReadOnly"}});
    ground.client.patch::<lifeboat_api::BackupStorageLocation>("default", &read_only).await.unwrap();
    ground.create(
        ("velero.io", "v2alpha1", "datauploads", "DataUpload"),
        json!({"metadata": {"name": "d-1", "namespace": "velero"}, "spec": {"snapshotType": "CSI", "sourcePVC": "data",
            "sourceNamespace": "vol", "backupStorageLocation": "default", "operationTimeout": "10m"},
            "status": {"phase": "InProgress"}}),
    )
    .await;
    let transfer = ground.transfer("d-1", "source");
    std::fs::write(ground.path("source/one"), "1").unwrap();
    assert!(!backup::<DataUpload>(&ground.env(), &transfer).await.unwrap());
    assert_eq!(ground.termination(), "the backup storage location default is read-only: nothing is saved there");
}

#[tokio::test]
async fn a_repository_is_maintained_and_the_report_is_the_termination_message() {
    let ground = Ground::start().await.with_password("static-passw0rd").await;
    ground.create_backup("b-1").await;
    std::fs::write(ground.path(ground.transfer("b-1", "data").volume.by_path.as_str()).join("file"), "x").unwrap();
    assert!(backup::<PodVolumeBackup>(&ground.env(), &ground.transfer("b-1", "data")).await.unwrap());
    let repository = |namespace: &str| MaintainedRepository { namespace: namespace.into(), location: "default".into() };
    assert_eq!(maintain(&ground.env(), &repository("vol")).await.unwrap(), None);
    let report: Value = serde_json::from_str(&ground.termination()).unwrap();
    assert_eq!((&report["mode"], &report["reason"]), (&json!("full"), &json!("full maintenance has not run yet")));
    // Nothing is due any more.
    assert_eq!(maintain(&ground.env(), &repository("vol")).await.unwrap(), None);
    let report: Value = serde_json::from_str(&ground.termination()).unwrap();
    assert_eq!((&report["mode"], &report["deletedBlobs"]), (&json!(""), &json!(0)));

    let error = maintain(&ground.env(), &repository("other")).await.unwrap().unwrap();
    assert!(error.starts_with("Repo maintenance error: cannot maintain the repository in "), "{error}");
    assert_eq!(ground.termination(), error);
}
