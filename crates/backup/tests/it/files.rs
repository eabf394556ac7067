//! Volumes that are saved by their files, in a cluster in which the test itself is the node agent.

use crate::ground::{Ground, NAME};
use lifeboat_api::{BackupPhase, DataPathPhase, PodVolumeBackup};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_backup::{FileMoverSettings, Request};
use lifeboat_client::Client;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// A cluster with a node agent on its node, and a pod with a claim and an emptyDir, both listed by the annotation of the pod.
async fn ground() -> Ground {
    let ground = Ground::start(&[], Vec::new()).await;
    ground.put_backup_and_definitions().await;
    ground.put_node_agent().await;
    for object in [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
            "spec": {"nfs": {"server": "nas", "path": "/"}, "claimRef": {"namespace": "shop", "name": "data"}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop", "uid": "cu"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "pu",
                "annotations": {"backup.velero.io/backup-volumes": "data,scratch"}},
            "spec": {"nodeName": "n1",
                "containers": [{"name": "a", "volumeMounts": [{"name": "data"}, {"name": "scratch"}]}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "scratch", "emptyDir": {}}]},
            "status": {"phase": "Running"}}),
    ] {
        ground.put(object).await;
    }
    ground
}

fn request() -> Request {
    let mut request = Ground::request();
    "velero".clone_into(&mut request.backup.metadata.namespace);
    request.settings.movers = FileMoverSettings { may_be_used: true, ..FileMoverSettings::default() };
    request
}

/// Takes the part of the server and of the node agents, for ever: repositories are ready, and each PodVolumeBackup ends so.
async fn agent(ground: &Ground, phase: DataPathPhase) {
    let client = Client { cluster: ground.cluster().await, namespace: "velero".to_owned() };
    loop {
        for mut one in ground.list("backuprepositories.velero.io").await {
            one["status"]["phase"] = json!("Ready");
            ground.put(one).await;
        }
        for before in client.list::<PodVolumeBackup>("").await.expect("a list") {
            if before.status.phase.is_some() {
                continue;
            }
            let mut after = before.clone();
            after.status.phase = Some(phase);
            after.status.progress.total_bytes = 7;
            match phase {
                DataPathPhase::Completed => after.status.snapshot_id = format!("snap-{}", after.spec.volume),
                _ => "the disk is gone".clone_into(&mut after.status.message),
            }
            client.change(&before, &after).await.expect("a change");
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn records(ground: &Ground) -> (Vec<Value>, Vec<BackupVolumeInfo>) {
    let store = ground.store();
    let resources: Option<Vec<Value>> =
        store.backup_file(NAME, BackupFile::PodVolumeBackups).await.expect("a file").expect("a file");
    let infos: Vec<BackupVolumeInfo> =
        store.backup_file(NAME, BackupFile::VolumeInfo).await.expect("a file").expect("a file");
    (resources.unwrap_or_default(), infos)
}

#[tokio::test]
async fn files_of_volumes_are_saved_by_the_node_agent_and_recorded() {
    let ground = ground().await;
    let outcome = ground.run_backup_beside(&request(), agent(&ground, DataPathPhase::Completed)).await;
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::Completed), "{:?}", outcome.results);
    assert_eq!(outcome.backup.status.unprotected_volumes, 0);
    let (resources, infos) = records(&ground).await;
    let mut saved: Vec<(&Value, &Value)> =
        resources.iter().map(|one| (&one["spec"]["volume"], &one["status"]["snapshotID"])).collect();
    saved.sort_by_key(|(volume, _)| volume.to_string());
    assert_eq!(saved, [(&json!("data"), &json!("snap-data")), (&json!("scratch"), &json!("snap-scratch"))]);
    let facts = |info: &BackupVolumeInfo| {
        let text = |value: &str| value.to_owned();
        (
            text(&info.pvc_name),
            text(&info.backup_method),
            text(&info.result),
            info.other["pvbInfo"]["snapshotHandle"].clone(),
        )
    };
    let expected =
        |claim: &str, id: &str| (claim.to_owned(), "PodVolumeBackup".to_owned(), "succeeded".to_owned(), json!(id));
    let found: Vec<_> = infos.iter().map(facts).collect();
    assert_eq!(found, [expected("data", "snap-data"), expected("", "snap-scratch")]);
    let repositories = ground.list("backuprepositories.velero.io").await;
    assert_eq!(repositories.len(), 1);
    assert_eq!(repositories[0]["metadata"]["name"], "shop-default-kopia");
    ground.verify("it has ended").await;
}

#[tokio::test]
async fn files_that_are_not_saved_are_errors_and_volumes_that_nothing_protects() {
    let ground = ground().await;
    let outcome = ground.run_backup_beside(&request(), agent(&ground, DataPathPhase::Failed)).await;
    let status = &outcome.backup.status;
    assert_eq!((status.phase, status.unprotected_volumes), (Some(BackupPhase::PartiallyFailed), 2));
    let told = serde_json::to_string(&outcome.results).expect("JSON");
    assert_eq!(told.matches("pod volume backup failed: the disk is gone").count(), 2, "{told}");
}
