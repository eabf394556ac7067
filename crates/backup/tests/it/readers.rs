//! Claims that no running pod mounts, and the reader pods through which their files are saved. The test itself is the node agent, the
//! scheduler and the kubelet.

use crate::ground::{Ground, NAME, open};
use lifeboat_api::{BackupPhase, DataPathPhase, NamespacedName, PodVolumeBackup};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_backup::{BackupError, FileMoverSettings, Request, run};
use lifeboat_client::Client;
use lifeboat_volume::fs_backup::reader_pod_name;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// A cluster with a node agent, a claim that no pod mounts (`archive`), and one of a pod that has ended (`job`).
async fn ground() -> Ground {
    let ground = Ground::start(&[], Vec::new()).await;
    ground.put_backup_and_definitions().await;
    ground.put_node_agent().await;
    ground
        .put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done", "namespace": "shop"},
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "volumeMounts": [{"name": "v"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "job"}}]},
            "status": {"phase": "Succeeded"}}))
        .await;
    for name in ["archive", "job"] {
        put_claim(&ground, name).await;
    }
    ground
}

/// A claim with its volume.
async fn put_claim(ground: &Ground, name: &str) {
    let volume = format!("pv-{name}");
    ground
        .put(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"nfs": {"server": "nas", "path": "/"}, "claimRef": {"namespace": "shop", "name": name}}}))
        .await;
    ground
        .put(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}")},
            "spec": {"volumeName": volume}, "status": {"phase": "Bound"}}))
        .await;
}

fn request() -> Request {
    let mut request = Ground::request();
    "velero".clone_into(&mut request.backup.metadata.namespace);
    request.backup.spec.default_volumes_to_fs_backup = Some(true);
    let image = "example.io/lifeboat:1".to_owned();
    request.settings.movers = FileMoverSettings { may_be_used: true, image, ..FileMoverSettings::default() };
    request
}

/// The part of the cluster that the test takes.
#[derive(Clone, Copy)]
struct Cluster {
    /// False when the scheduler finds no node for reader pods.
    schedules: bool,
    /// The phase that PodVolumeBackups come to.
    ends_in: DataPathPhase,
}

impl Cluster {
    /// Goes on for ever.
    async fn serve(self, ground: &Ground) {
        let client = Client { cluster: ground.cluster().await, namespace: "velero".to_owned() };
        loop {
            for mut one in ground.list("backuprepositories.velero.io").await {
                one["status"]["phase"] = json!("Ready");
                ground.put(one).await;
            }
            for mut pod in readers(ground).await {
                // Written once: it would come back after its end.
                if pod["status"]["phase"] == "Running" || !pod["status"]["conditions"].is_null() {
                    continue;
                }
                if self.schedules {
                    pod["spec"]["nodeName"] = json!("n1");
                    pod["status"] = json!({"phase": "Running"});
                } else {
                    pod["status"] = json!({"phase": "Pending", "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]});
                }
                ground.put(pod).await;
            }
            for before in client.list::<PodVolumeBackup>("").await.expect("a list") {
                if before.status.phase.is_some() {
                    continue;
                }
                let mut after = before.clone();
                after.status.phase = Some(self.ends_in);
                if self.ends_in == DataPathPhase::Completed {
                    after.status.snapshot_id = format!("snap-{}", before.metadata.annotations["velero.io/pvc-name"]);
                }
                client.change(&before, &after).await.expect("a change");
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The reader pods in the cluster.
async fn readers(ground: &Ground) -> Vec<Value> {
    let mut pods = ground.list("pods").await;
    pods.retain(|pod| !pod["metadata"]["labels"]["lifeboat.io/reader-of-backup"].is_null());
    pods
}

async fn pod_volumes(ground: &Ground) -> Vec<Value> {
    let found: Option<Vec<Value>> =
        ground.store().backup_file(NAME, BackupFile::PodVolumeBackups).await.expect("a file").expect("a file");
    found.unwrap_or_default()
}

#[tokio::test]
async fn claims_without_a_running_pod_are_read_by_reader_pods_that_go() {
    let ground = ground().await;
    let request = request();
    let cluster = Cluster { schedules: true, ends_in: DataPathPhase::Completed };
    let outcome = ground.run_backup_beside(&request, cluster.serve(&ground)).await;
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::Completed), "{:?}", outcome.results);
    assert_eq!(outcome.backup.status.unprotected_volumes, 0);
    let mut saved: Vec<(Value, Value, Value)> = pod_volumes(&ground)
        .await
        .iter()
        .map(|one| {
            let annotations = &one["metadata"]["annotations"];
            let ids = [
                &annotations["velero.io/pvc-name"],
                &annotations["lifeboat.io/by-reader-pod"],
                &one["status"]["snapshotID"],
            ];
            ids.map(Clone::clone).into()
        })
        .collect();
    saved.sort_by_key(|(claim, ..)| claim.to_string());
    let expected = |claim: &str| (json!(claim), json!("true"), json!(format!("snap-{claim}")));
    assert_eq!(saved, [expected("archive"), expected("job")]);
    let infos: Vec<BackupVolumeInfo> =
        ground.store().backup_file(NAME, BackupFile::VolumeInfo).await.expect("a file").expect("a file");
    let facts = infos.iter().map(|info| (info.pvc_name.as_str(), info.backup_method.as_str(), info.result.as_str()));
    assert_eq!(
        facts.collect::<Vec<_>>(),
        [("archive", "PodVolumeBackup", "succeeded"), ("job", "PodVolumeBackup", "succeeded")]
    );
    assert_eq!(readers(&ground).await, Vec::<Value>::new());
    let archive = ground.store().open_archive(NAME, &open()).await.expect("an archive");
    let pods = archive.rows().filter(|row| row.resource.resource == "pods").map(|row| row.name.to_string());
    assert_eq!(pods.collect::<Vec<_>>(), ["done"]);
    ground.verify("it has ended").await;
}

#[tokio::test]
async fn a_reader_pod_that_no_node_takes_is_an_error_with_its_words() {
    let ground = ground().await;
    let mut request = request();
    request.settings.resource_timeout = lifeboat_api::Duration::from_secs(5);
    let cluster = Cluster { schedules: false, ends_in: DataPathPhase::Completed };
    let outcome = ground.run_backup_beside(&request, cluster.serve(&ground)).await;
    let status = &outcome.backup.status;
    assert_eq!((status.phase, status.unprotected_volumes), (Some(BackupPhase::PartiallyFailed), 2));
    let told = serde_json::to_string(&outcome.results).expect("JSON");
    let words = "does not run after 5 s (--resource-timeout): Unschedulable: 0/3 nodes are available";
    assert_eq!(told.matches(words).count(), 2, "{told}");
    assert_eq!((readers(&ground).await, pod_volumes(&ground).await), (Vec::new(), Vec::new()));
}

/// A hundred claims whose pods no node takes would otherwise wait one after the other.
#[tokio::test]
async fn when_no_reader_pod_runs_the_others_are_not_waited_for() {
    let ground = ground().await;
    for n in 0..10 {
        put_claim(&ground, &format!("more-{n}")).await;
    }
    let mut request = request();
    request.settings.resource_timeout = lifeboat_api::Duration::from_secs(5);
    let cluster = Cluster { schedules: false, ends_in: DataPathPhase::Completed };
    let outcome = ground.run_backup_beside(&request, cluster.serve(&ground)).await;
    let told = serde_json::to_string(&outcome.results).expect("JSON");
    let passed_over =
        "no reader pod is made for the claim, because none of this backup has run so far: the reader pod shop/";
    assert_eq!((outcome.backup.status.unprotected_volumes, told.matches(passed_over).count()), (12, 4), "{told}");
    assert_eq!((readers(&ground).await, pod_volumes(&ground).await), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_cancelled_backup_leaves_no_reader_pod() {
    let ground = ground().await;
    let (env, request) = (ground.env(ground.store()), request());
    let cluster = Cluster { schedules: true, ends_in: DataPathPhase::InProgress };
    let client = Client { cluster: ground.cluster().await, namespace: "velero".to_owned() };
    let watched = async {
        loop {
            let all = client.list::<PodVolumeBackup>("").await.expect("a list");
            if all.iter().filter(|one| one.status.phase.is_some()).count() == 2 {
                env.operation.cancel.cancel();
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::select! {
        outcome = Box::pin(run(&request, &env)) => outcome,
        () = cluster.serve(&ground) => unreachable!("it serves for ever"),
        () = watched => unreachable!("it watches for ever"),
    };
    assert!(matches!(outcome, Err(BackupError::Cancelled)), "{outcome:?}");
    let asked = client.list::<PodVolumeBackup>("").await.expect("a list").iter().filter(|one| one.spec.cancel).count();
    assert_eq!((asked, readers(&ground).await), (2, Vec::new()));
}

#[tokio::test]
async fn the_next_attempt_takes_up_reader_pods_and_removes_those_of_no_claim() {
    let ground = ground().await;
    let mut request = request();
    request.settings.take_over = true;
    let left = |claim: &str| {
        let key = NamespacedName::new("shop", claim);
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": reader_pod_name(&request.backup, &key), "namespace": "shop", "uid": format!("r-{claim}"),
                "labels": {"velero.io/backup-uid": "u", "lifeboat.io/reader-of-backup": NAME, "velero.io/exclude-from-backup": "true"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "archive", "uid": "u-archive"}]},
            "spec": {"nodeName": "n1", "containers": [{"name": "reader", "image": "i"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]},
            "status": {"phase": "Running"}})
    };
    for claim in ["archive", "gone"] {
        ground.put(left(claim)).await;
    }
    let cluster = Cluster { schedules: true, ends_in: DataPathPhase::Completed };
    let outcome = ground.run_backup_beside(&request, cluster.serve(&ground)).await;
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::Completed), "{:?}", outcome.results);
    let saved = pod_volumes(&ground).await;
    let archive = saved.iter().find(|one| one["metadata"]["annotations"]["velero.io/pvc-name"] == "archive");
    assert_eq!(archive.expect("a PodVolumeBackup")["spec"]["pod"]["uid"], "r-archive");
    assert_eq!(readers(&ground).await, Vec::<Value>::new());
}
