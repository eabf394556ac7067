//! Deletion of what a backup has outside its files.

use crate::ground::{Ground, NAME, Scripted};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemOutput, DeleteItemAction, OperationProgress};
use lifeboat_api::Backup;
use lifeboat_api::well_known::ANNOTATION_BACKUP_MUST_INCLUDE;
use lifeboat_archive::layout::BackupFile;
use lifeboat_backup::{run, run_delete_actions};
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// An action that answers as it is told, and notes for which objects it was called.
struct Told {
    scope: ActionScope,
    answer: fn(&str) -> Result<(), ActionError>,
    called: Mutex<Vec<String>>,
}

impl Told {
    fn new(scope: ActionScope, answer: fn(&str) -> Result<(), ActionError>) -> Arc<Self> {
        Arc::new(Self { scope, answer, called: Mutex::default() })
    }

    fn called(&self) -> Vec<String> {
        let mut called = std::mem::take(&mut *self.called.lock().unwrap());
        called.sort();
        called
    }
}

#[async_trait]
impl DeleteItemAction for Told {
    fn name(&self) -> &str {
        "test/told"
    }

    fn applies_to(&self) -> ActionScope {
        self.scope.clone()
    }

    async fn execute(&self, item: &Value, backup: &Backup) -> Result<(), ActionError> {
        let name = item["metadata"]["name"].as_str().unwrap();
        self.called.lock().unwrap().push(format!("{}/{name}", backup.metadata.name));
        (self.answer)(name)
    }
}

async fn made(ground: &Ground) -> Backup {
    let mut request = Ground::request();
    request.backup.spec.include_cluster_resources = Some(true);
    let outcome = Box::pin(run(&request, &ground.env(ground.store()))).await.unwrap();
    outcome.backup
}

#[tokio::test]
async fn every_object_has_its_turn_whatever_comes_of_the_others() {
    let mut ground = Ground::start(&["good", "bad", "odd"], Vec::new()).await;
    let backup = made(&ground).await;
    let scope = ActionScope {
        included_resources: vec!["cm".to_owned()],
        included_namespaces: vec!["shop".to_owned()],
        ..ActionScope::default()
    };
    let told = Told::new(scope, |name| match name {
        "bad" => Err(ActionError::item("the disk is stuck")),
        "odd" => panic!("what is this"),
        _ => Ok(()),
    });
    ground.actions.delete_item = vec![told.clone()];
    let env = ground.env(ground.store());
    let mut errors = run_delete_actions(&backup, "u", &env).await.unwrap_err();
    errors.sort();
    let expected = [
        "configmaps/shop/bad: error of the action test/told: the disk is stuck",
        "configmaps/shop/odd: error of the action test/told: it panicked: what is this",
    ];
    assert_eq!(errors, expected);
    let all = ["b/bad", "b/good", "b/kube-root-ca.crt", "b/odd"];
    assert_eq!(told.called(), all);
    // Again, as after a deletion that was cut off.
    assert_eq!(run_delete_actions(&backup, "u", &env).await.unwrap_err().len(), 2);
    assert_eq!(told.called(), all);
}

#[tokio::test]
async fn a_process_that_may_not_act_any_more_calls_nothing() {
    let mut ground = Ground::start(&["one"], Vec::new()).await;
    let backup = made(&ground).await;
    let told = Told::new(ActionScope::resources(&["configmaps"]), |_| Ok(()));
    ground.actions.delete_item = vec![told.clone()];
    let mut env = ground.env(ground.store());
    env.operation.fence = Arc::new(|| Err("another server leads".to_owned()));
    let errors = run_delete_actions(&backup, "u", &env).await.unwrap_err();
    assert!(!errors.is_empty() && errors.iter().all(|e| e.ends_with("another server leads")), "{errors:?}");
    assert_eq!(told.called(), Vec::<String>::new());
}

#[tokio::test]
async fn a_backup_without_an_archive_has_nothing_elsewhere() {
    let mut ground = Ground::start(&["one"], Vec::new()).await;
    let told = Told::new(ActionScope::default(), |_| Ok(()));
    ground.actions.delete_item = vec![told.clone()];
    let backup = Ground::request().backup;
    assert_eq!(run_delete_actions(&backup, "u", &ground.env(ground.store())).await, Ok(()));
    assert_eq!(told.called(), Vec::<String>::new());
}

/// They would be passed over, with what lies in the storage.
#[tokio::test]
async fn objects_of_types_that_the_cluster_does_not_serve_have_their_turn() {
    // Lists leave contents out: an action brings them in.
    let contents = |name: &str| {
        ObjectKey::new(GroupResource::new("snapshot.storage.k8s.io", "volumesnapshotcontents"), None, name)
    };
    let brings = Scripted::new(
        move |mut item| {
            item["metadata"]["annotations"] = json!({ANNOTATION_BACKUP_MUST_INCLUDE: "true"});
            let additional_items = vec![contents("ours"), contents("of-another")];
            Ok(BackupItemOutput { additional_items, ..BackupItemOutput::changed(item) })
        },
        |_, _| Ok(OperationProgress::default()),
    );
    let origin = Ground::start(&["one"], vec![brings]).await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let names = json!({"plural": "volumesnapshotcontents", "kind": "VolumeSnapshotContent"});
    origin
        .put(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "volumesnapshotcontents.snapshot.storage.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter"}},
            "spec": {"group": "snapshot.storage.k8s.io", "scope": "Cluster", "names": names,
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}))
        .await;
    for (name, label) in [("ours", NAME), ("of-another", "weekly")] {
        origin
            .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
                "metadata": {"name": name, "labels": {"velero.io/backup-name": label}},
                "spec": {"driver": "disk.example.com"}, "status": {"snapshotHandle": format!("snap-{name}")}}))
            .await;
    }
    let backup = made(&origin).await;
    let another = Ground::start(&[], Vec::new()).await;
    let errors = run_delete_actions(&backup, "u", &another.env(origin.store())).await.unwrap_err();
    let expected = "volumesnapshotcontents.snapshot.storage.k8s.io/ours: error of the action \
        velero.io/csi-volumesnapshotcontent-delete: the snapshot snap-ours of the driver disk.example.com cannot be deleted: the \
        cluster does not serve snapshot.storage.k8s.io";
    assert_eq!(errors, [expected]);
}

#[tokio::test]
async fn ids_of_repository_snapshots_outlive_the_deleted_backup() {
    let ground = Ground::start(&["a"], Vec::new()).await;
    let backup = made(&ground).await;
    let store = ground.store();
    let pod_volume = json!([{"spec": {"pod": {"namespace": "shop", "name": "db"}, "volume": "data", "uploaderType": "kopia"},
        "status": {"phase": "Completed", "snapshotID": "k-1"}}]);
    let bytes = lifeboat_archive::sidecar::encode(&pod_volume).unwrap();
    store.replace_file(NAME, BackupFile::PodVolumeBackups, bytes).await.unwrap();
    let env = ground.env(store.clone());
    run_delete_actions(&backup, "u", &env).await.unwrap();
    let closed = env.operation.journal.close();
    let warnings: Vec<&str> = closed.results.warnings.messages().collect();
    assert!(warnings.iter().any(|text| text.contains("the data of 1 volume stays in repositories")), "{warnings:?}");
    store.delete_backup(NAME).await.unwrap();
    let kept = store.repository_snapshots(NAME, "u").await.unwrap();
    let kept: Vec<(&str, &str)> = kept.iter().map(|one| (one.repository.as_str(), one.snapshot_id.as_str())).collect();
    assert_eq!(kept, [("kopia/shop", "k-1")]);
}
