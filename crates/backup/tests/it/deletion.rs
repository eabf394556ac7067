//! Deletion of what a backup has outside its files.

use crate::ground::{Ground, NAME, Scripted};
use async_trait::async_trait;
use lifeboat_action::{
    ActionError, ActionScope, BackupItemOutput, DeleteItemAction, DeletedSnapshots, OperationProgress,
    SnapshotDeletion, SnapshotsToDelete, VolumeRepositories,
};
use lifeboat_api::Backup;
use lifeboat_api::well_known::ANNOTATION_BACKUP_MUST_INCLUDE;
use lifeboat_archive::layout::BackupFile;
use lifeboat_backup::{delete_listed_snapshots, remove_snapshots, run, run_delete_actions};
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// Repositories that say this of each snapshot, and remember what they were asked to delete.
struct ScriptedRepositories {
    ends: BTreeMap<&'static str, Result<SnapshotDeletion, &'static str>>,
    asked: Mutex<Vec<SnapshotsToDelete>>,
    /// The error of each.
    refusal: Option<&'static str>,
}

#[async_trait]
impl VolumeRepositories for ScriptedRepositories {
    async fn delete_snapshots(&self, snapshots: &SnapshotsToDelete) -> Result<DeletedSnapshots, String> {
        self.asked.lock().unwrap().push(snapshots.clone());
        if let Some(why) = self.refusal {
            return Err(why.to_owned());
        }
        let ends = snapshots.snapshot_ids.iter().map(|id| self.ends[id.as_str()].clone().map_err(str::to_owned));
        Ok(DeletedSnapshots { ends: ends.collect::<Result<_, _>>()?, unnamed: 0 })
    }
}

#[tokio::test]
async fn a_deleted_backup_takes_its_snapshots_in_repositories_along() {
    let ground = Ground::start(&["a"], Vec::new()).await;
    let mut backup = made(&ground).await;
    let store = ground.store();
    let pod_volume = |namespace: &str, id: &str, uploader: &str| {
        json!({"spec": {"pod": {"namespace": namespace, "name": "db"}, "volume": "data", "uploaderType": uploader},
            "status": {"phase": "Completed", "snapshotID": id}})
    };
    let all = json!([
        pod_volume("shop", "k-1", "kopia"),
        pod_volume("shop", "k-2", "kopia"),
        pod_volume("bank", "k-3", "kopia"),
        pod_volume("shop", "r-1", "restic")
    ]);
    let bytes = lifeboat_archive::sidecar::encode(&all).unwrap();
    store.replace_file(NAME, BackupFile::PodVolumeBackups, bytes).await.unwrap();
    // What a Velero that was cut off in the same deletion has noted.
    backup.spec.snapshot_move_data = Some(true);
    backup.metadata.namespace = "shop".to_owned();
    let label = json!({"velero.io/backup-name": NAME, "velero.io/data-upload-snapshot-info": "true"});
    let note = |name: &str, location: &str, id: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": backup.metadata.namespace, "labels": label},
            "data": {"volumeNamespace": "shop", "backupStorageLocation": location, "snapshotID": id, "repositoryType": "kopia"}})
    };
    ground.put(note("du-1-info", &backup.spec.storage_location, "k-4")).await;
    let mut env = ground.env(store.clone());
    let answers = [
        ("k-1", Ok(SnapshotDeletion::Deleted)),
        ("k-2", Ok(SnapshotDeletion::OfAnother("the backup \"c\"".to_owned()))),
        ("k-3", Err("the password does not open it")),
        ("k-4", Ok(SnapshotDeletion::Missing)),
    ];
    let repositories =
        Arc::new(ScriptedRepositories { ends: BTreeMap::from(answers), asked: Mutex::default(), refusal: None });
    env.actions.repositories = Some(repositories.clone());
    let key = format!("metadata/lifeboat-repository-snapshots/{NAME}-u.json");
    let errors = run_delete_actions(&backup, "u", &env).await.unwrap_err();
    let expected = format!(
        "error deleting 1 snapshot of backup {NAME} in the repository of namespace bank: the password does not open it; the IDs are kept in \
         {key}; delete the backup again when that is mended"
    );
    assert_eq!(errors, [expected]);
    let request = |namespace: &str, ids: &[&str]| SnapshotsToDelete {
        volume_namespace: namespace.to_owned(),
        snapshot_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        backup: NAME.to_owned(),
        backup_uid: "u".to_owned(),
    };
    let asked = std::mem::take(&mut *repositories.asked.lock().unwrap());
    assert_eq!(asked, [request("bank", &["k-3"]), request("shop", &["k-1", "k-2", "k-4"])]);
    let closed = env.operation.journal.close();
    let warnings: Vec<&str> = closed.results.warnings.messages().collect();
    let other = format!(
        "the snapshot k-2 in kopia/shop, which backup {NAME} names, stays there, because it belongs to the backup \"c\""
    );
    let stays = format!(
        "the data of 1 volume stays in repositories of another program, which this version cannot change; the snapshot IDs are kept in {key}"
    );
    assert_eq!(warnings, [other, stays]);
    let kept = store.repository_snapshots(NAME, "u").await.unwrap();
    let kept: Vec<&str> = kept.iter().map(|one| one.snapshot_id.as_str()).collect();
    assert_eq!(kept, ["k-3", "r-1"]);
    let notes = ground.list("configmaps").await;
    assert!(notes.iter().all(|one| one["metadata"]["name"] != "du-1-info"), "{notes:?}");

    // The repository opens again when the deletion is done again, or a server reads the list.
    let answers = [
        ("k-1", Ok(SnapshotDeletion::Missing)),
        ("k-2", Ok(SnapshotDeletion::Missing)),
        ("k-3", Ok(SnapshotDeletion::Deleted)),
    ];
    let repositories =
        Arc::new(ScriptedRepositories { ends: BTreeMap::from(answers), asked: Mutex::default(), refusal: None });
    let mut env = ground.env(store.clone());
    env.actions.repositories = Some(repositories);
    assert_eq!(delete_listed_snapshots(NAME, "u", &env).await, Ok(()));
    let kept = store.repository_snapshots(NAME, "u").await.unwrap();
    assert_eq!(kept.iter().map(|one| one.snapshot_id.as_str()).collect::<Vec<_>>(), ["r-1"]);
}

#[tokio::test]
async fn a_failed_backup_takes_the_snapshots_along_that_its_volumes_had_got() {
    let ground = Ground::start(&["a"], Vec::new()).await;
    let mut backup = made(&ground).await;
    let namespace = "shop";
    backup.metadata.namespace = namespace.to_owned();
    ground.apply_definitions().await;
    // Its record has none of it.
    let resource = |kind: &str, version: &str, name: &str, uid: &str, spec: Value, id: &str| {
        json!({"apiVersion": format!("velero.io/{version}"), "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "labels": {"velero.io/backup-uid": uid}},
            "spec": spec, "status": {"phase": "Completed", "snapshotID": id}})
    };
    let pod = json!({"pod": {"namespace": "shop", "name": "db"}, "volume": "data", "uploaderType": "kopia"});
    ground.put(resource("PodVolumeBackup", "v1", "p", "u", pod.clone(), "k-1")).await;
    ground.put(resource("PodVolumeBackup", "v1", "other", "v", pod, "k-9")).await;
    ground.put(resource("DataUpload", "v2alpha1", "d", "u", json!({"sourceNamespace": "bank"}), "m-1")).await;
    let answers = [("k-1", Ok(SnapshotDeletion::Deleted)), ("m-1", Ok(SnapshotDeletion::Deleted))];
    let repositories =
        Arc::new(ScriptedRepositories { ends: BTreeMap::from(answers), asked: Mutex::default(), refusal: None });
    let mut env = ground.env(ground.store());
    env.actions.repositories = Some(repositories.clone());
    assert_eq!(run_delete_actions(&backup, "u", &env).await, Ok(()));
    let asked = std::mem::take(&mut *repositories.asked.lock().unwrap());
    let ids: Vec<&str> = asked.iter().flat_map(|one| &one.snapshot_ids).map(String::as_str).collect();
    assert_eq!(ids, ["m-1", "k-1"]);
    assert_eq!(ground.store().lists_of_repository_snapshots().await.unwrap(), []);
}

#[tokio::test]
async fn movers_of_a_failed_backup_that_still_save_files_are_stopped() {
    let ground = Ground::start(&["a"], Vec::new()).await;
    let mut backup = made(&ground).await;
    backup.metadata.namespace = "shop".to_owned();
    ground.apply_definitions().await;
    for (name, uid, phase) in
        [("new", "u", "New"), ("runs", "u", "InProgress"), ("done", "u", "Completed"), ("other", "v", "InProgress")]
    {
        ground
            .put(json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
                "metadata": {"name": name, "namespace": "shop", "labels": {"velero.io/backup-uid": uid}},
                "spec": {"pod": {"namespace": "shop", "name": "db"}, "volume": "data"}, "status": {"phase": phase}}))
            .await;
    }
    assert!(remove_snapshots(&backup, &ground.env(ground.store())).await);
    let all = ground.list("podvolumebackups.velero.io").await;
    let told: BTreeMap<&str, bool> =
        all.iter().map(|one| (one["metadata"]["name"].as_str().unwrap(), one["spec"]["cancel"] == true)).collect();
    assert_eq!(told, [("new", true), ("runs", true), ("done", false), ("other", false)].into());
}

#[tokio::test]
async fn what_no_record_names_is_searched_in_repositories_of_its_volumes() {
    let ground = Ground::start(&["a"], Vec::new()).await;
    let backup = made(&ground).await;
    let store = ground.store();
    // Its movers were killed, and what they have left has the tags of the backup alone.
    let pod_volume = json!([{"spec": {"pod": {"namespace": "shop", "name": "db"}, "volume": "data", "uploaderType": "kopia"},
        "status": {"phase": "Failed"}}]);
    let bytes = lifeboat_archive::sidecar::encode(&pod_volume).unwrap();
    store.replace_file(NAME, BackupFile::PodVolumeBackups, bytes).await.unwrap();
    let run = async |refusal: Option<&'static str>| {
        let repositories = Arc::new(ScriptedRepositories { ends: BTreeMap::new(), asked: Mutex::default(), refusal });
        let mut env = ground.env(store.clone());
        env.actions.repositories = Some(repositories.clone());
        assert_eq!(run_delete_actions(&backup, "u", &env).await, Ok(()));
        let asked = std::mem::take(&mut *repositories.asked.lock().unwrap());
        let asked: Vec<(String, Vec<String>)> =
            asked.into_iter().map(|one| (one.volume_namespace, one.snapshot_ids)).collect();
        assert_eq!(asked, [("shop".to_owned(), Vec::new())]);
        let closed = env.operation.journal.close();
        let warnings: Vec<String> = closed.results.warnings.messages().map(str::to_owned).collect();
        (warnings, store.repository_snapshots(NAME, "u").await.unwrap().len())
    };
    // The deletion does not wait for a repository in which perhaps nothing is.
    let warning = format!(
        "the repository of namespace shop could not be searched for snapshots of backup {NAME} that no record names: the password does not \
         open it; a server tries it again once a day, by the list metadata/lifeboat-repository-snapshots/{NAME}-u.json"
    );
    assert_eq!(run(Some("the password does not open it")).await, (vec![warning], 1));
    assert_eq!(run(None).await, (Vec::new(), 0));
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
