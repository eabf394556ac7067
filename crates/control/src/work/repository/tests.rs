//! Repositories made ready, in a bucket in memory and a cluster in memory.

use super::*;
use crate::stub::{OneBucket, context, sandbox};
use crate::world::MirroredObject;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_api::{BackupRepositoryPhase, BackupStorageLocationAccessMode, Duration};
use lifeboat_bucket::{BlobStore, ListOptions, Memory};
use lifeboat_kopia::crypto::Password;
use lifeboat_object::ApiResource;
use lifeboat_sandbox::Sandbox;
use serde_json::{Value, json};
use std::sync::Arc;

/// A server, a location `main` with this bucket, and a new repository of the namespace `shop` in it.
pub(super) struct Ground {
    pub(super) context: Context,
    pub(super) bucket: Arc<Memory>,
    pub(super) sandbox: Sandbox,
    pub(super) location: BackupStorageLocation,
    repository: BackupRepository,
}

impl Ground {
    pub(super) async fn start(objects: Vec<Value>) -> Self {
        let (sandbox, cluster) = sandbox().await;
        let bucket = Arc::new(Memory::default());
        let mut context = context(cluster, Arc::new(OneBucket(bucket.clone())));
        context.options.repository.config_map = Some("settings".into());
        let named = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name, "namespace": "velero"}, "spec": spec});
        let location = json!({"provider": "aws", "objectStorage": {"bucket": "b"}});
        let repository = json!({"volumeNamespace": "shop", "backupStorageLocation": "main", "repositoryType": "kopia",
            "maintenanceFrequency": "0s"});
        let own = [
            named("BackupStorageLocation", "main", location),
            named("BackupRepository", "shop-main-kopia", repository),
        ];
        sandbox.apply(own.into_iter().chain(objects).collect()).await.unwrap();
        let location = context.client.get("main").await.unwrap().unwrap();
        let repository = context.client.get("shop-main-kopia").await.unwrap().unwrap();
        Self { context, bucket, sandbox, location, repository }
    }

    /// Prepares the repository, and gives its phase and message.
    async fn prepare(&mut self) -> (Option<BackupRepositoryPhase>, String) {
        let done = prepare(&self.context, &self.repository, &self.location).await;
        self.repository = self.context.client.get("shop-main-kopia").await.unwrap().unwrap();
        let status = &self.repository.status;
        match done {
            Ok(effects) => assert!(
                matches!(&effects[..], [Effect::Stored(MirroredObject::BackupRepository(stored))] if **stored == self.repository)
            ),
            Err(why) => assert_eq!(why.to_string(), status.message),
        }
        (status.phase, status.message.clone())
    }

    /// Makes a repository with this password, as an earlier installation has left it.
    pub(super) async fn with_repository(&self, namespace: &str, password: &str) {
        let options = EnsureOptions { may_create: true, ..look_options(&self.context) };
        ensure(blobs_of(self.bucket.clone(), namespace), &Password::new(password.into()), &options).await.unwrap();
    }

    /// The password in the Secret; none when there is no Secret.
    async fn password(&self) -> Option<String> {
        let secrets = ApiResource::new("", "v1", "secrets", "Secret");
        let found =
            self.context.client.cluster.get(&secrets, Some("velero"), "velero-repo-credentials").await.unwrap()?;
        let secret: Value = serde_json::from_slice(&found).unwrap();
        let data = STANDARD.decode(secret["data"]["repository-password"].as_str().unwrap()).unwrap();
        Some(String::from_utf8(data).unwrap())
    }
}

pub(super) fn secret(password: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "velero-repo-credentials", "namespace": "velero"},
        "data": {"repository-password": STANDARD.encode(password)}})
}

const READY: (Option<BackupRepositoryPhase>, String) = (Some(BackupRepositoryPhase::Ready), String::new());

#[tokio::test]
async fn a_first_repository_is_made_with_a_random_password() {
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "velero"},
        "data": {"kopia": r#"{"cacheLimitMB": 100, "fullMaintenanceInterval": "fastGC"}"#}});
    let mut ground = Ground::start(vec![settings]).await;
    assert_eq!(ground.prepare().await, READY);
    assert_eq!(ground.password().await.as_deref(), Some("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH"));
    let spec = &ground.repository.spec;
    assert_eq!(spec.maintenance_frequency, Duration::from_secs(3600));
    let config = json!({"cacheLimitMB": "100", "fullMaintenanceInterval": "fastGC"});
    assert_eq!(json!(spec.repository_config), config);
    let now = Time::new(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(ground.repository.status.last_maintenance_time, Some(now));
    let keys =
        ground.bucket.list(ListOptions { prefix: "kopia/shop/".into(), ..ListOptions::default() }).await.unwrap();
    assert!(keys.entries.len() > 2, "{keys:?}");
    // The schedule that the maintenance of the repository follows.
    let (blobs, password) =
        (blobs_of(ground.bucket.clone(), "shop"), Password::new("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH".into()));
    let opened = lifeboat_repository::open(blobs, password, open::writer_options(&ground.context).open).await.unwrap();
    let full = opened.maintenance_parameters().await.unwrap().full;
    assert_eq!(full.interval, 12 * 3600 * 1_000_000_000);
    // Looked at again it is as it was, with the same password.
    let before = ground.repository.clone();
    assert_eq!(ground.prepare().await, READY);
    assert_eq!(ground.repository, before);
}

#[tokio::test]
async fn repositories_of_velero_open_in_a_cluster_that_never_saw_it() {
    let mut ground = Ground::start(vec![]).await;
    ground.with_repository("other", "static-passw0rd").await;
    assert_eq!(ground.prepare().await, READY);
    assert_eq!(ground.password().await.as_deref(), Some("static-passw0rd"));
}

#[tokio::test]
async fn no_password_is_invented_where_a_repository_has_another() {
    let mut ground = Ground::start(vec![]).await;
    ground.with_repository("other", "of somebody").await;
    let (phase, why) = ground.prepare().await;
    assert_eq!((phase, ground.password().await), (Some(BackupRepositoryPhase::NotReady), None));
    assert_eq!(
        why,
        "location main has repositories (that of namespace other is one), and there is no Secret velero-repo-credentials with their \
         password: it is not the one that Velero gives; make it with the password that they were made with: kubectl create secret \
         generic velero-repo-credentials -n velero --from-literal=repository-password=…"
    );
}

#[tokio::test]
async fn a_wrong_password_is_told_and_the_right_one_makes_the_repository_ready() {
    let mut ground = Ground::start(vec![secret("wrong")]).await;
    ground.with_repository("shop", "right").await;
    let (phase, why) = ground.prepare().await;
    assert_eq!(phase, Some(BackupRepositoryPhase::NotReady));
    assert!(
        why.contains("the password does not open the repository in ")
            && why.contains("the Secret velero-repo-credentials"),
        "{why}"
    );
    ground.sandbox.apply(vec![secret("  right\n")]).await.unwrap();
    assert_eq!(ground.prepare().await, READY);
}

#[tokio::test]
async fn a_read_only_location_gets_no_repository_and_keeps_the_one_it_has() {
    let mut ground = Ground::start(vec![secret("p")]).await;
    ground.location.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
    let why = "cannot create new backup repo for read-only backup storage location velero/main";
    assert_eq!(ground.prepare().await, (Some(BackupRepositoryPhase::NotReady), why.to_owned()));
    let all = ground.bucket.list(ListOptions::default()).await.unwrap();
    assert!(all.entries.is_empty(), "{all:?}");
    ground.with_repository("shop", "p").await;
    assert_eq!(ground.prepare().await, READY);
}

#[tokio::test]
async fn settings_without_a_meaning_are_refused_until_they_are_corrected() {
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "velero"},
        "data": {"kopia": r#"{"fullMaintenanceInterval": "neverGC"}"#}});
    let mut ground = Ground::start(vec![settings]).await;
    let (phase, why) = ground.prepare().await;
    assert_eq!(phase, Some(BackupRepositoryPhase::NotReady));
    assert!(
        why.starts_with("--backup-repository-configmap settings: invalid full maintenance interval option neverGC: "),
        "{why}"
    );
    assert_eq!(ground.password().await, None);
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "velero"},
        "data": {"kopia": r#"{"fullMaintenanceInterval": "eagerGC"}"#}});
    ground.sandbox.apply(vec![settings]).await.unwrap();
    assert_eq!(ground.prepare().await, READY);
    assert_eq!(json!(ground.repository.spec.repository_config), json!({"fullMaintenanceInterval": "eagerGC"}));
}

#[tokio::test]
async fn a_repository_whose_location_has_changed_says_so() {
    let mut ground = Ground::start(vec![]).await;
    assert_eq!(ground.prepare().await, READY);
    reestablish(&ground.context, &ground.repository).await.unwrap();
    ground.repository = ground.context.client.get("shop-main-kopia").await.unwrap().unwrap();
    let status = &ground.repository.status;
    assert_eq!(
        (status.phase, status.message.as_str()),
        (Some(BackupRepositoryPhase::NotReady), "re-establish on BSL change, create or delete")
    );
    assert_eq!(ground.prepare().await, READY);
}
