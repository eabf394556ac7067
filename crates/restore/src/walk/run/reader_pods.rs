//! Claims whose files a reader pod has held when they were saved: they come back without a pod, on whole restores.

use super::mover_pods::{ends, local};
use super::repository_data::{CLAIM, DOWNLOADS, RESTORES, claimed, ended, objects, pod, saved, served, volumes, web};
use crate::plan::planned::PreviewItem;
use crate::plan::preview::preview;
use crate::stub::RestoreFixture;
use lifeboat_api::RestorePhase;
use lifeboat_archive::layout::BackupFile;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The files of the backup: a PodVolumeBackup of a reader pod, and the record of the volume.
fn files() -> [(BackupFile, Value); 2] {
    let mut one = saved("data", Some("data"));
    one["metadata"]["annotations"]["lifeboat.io/by-reader-pod"] = "true".into();
    one["spec"]["pod"]["name"] = "b-0123456789abcdef".into();
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "PodVolumeBackup",
        "result": "succeeded", "pvbInfo": {"snapshotHandle": "k-data", "podName": "b-0123456789abcdef", "podNamespace": "shop"}}]);
    [(BackupFile::PodVolumeBackups, json!([one])), (BackupFile::VolumeInfo, info)]
}

/// The claim and a pod that mounts it, which did not run.
fn all() -> Vec<Value> {
    objects(&[pod("web", &json!([claimed("files")]))])
}

#[tokio::test]
async fn a_data_mover_brings_it_back_also_where_a_pod_mounts_it() {
    for objects in [objects(&[]), all()] {
        let has_pod = objects.len() > 3;
        let ground = served(&objects, &files()).await;
        assert_eq!(ended(&ground).await, (RestorePhase::WaitingForPluginOperations, vec![], vec![]));
        let claim = ground.at(CLAIM).unwrap();
        assert_eq!(claim["spec"].get("volumeName"), None);
        assert!(claim["spec"]["selector"]["matchLabels"]["velero.io/dynamic-pv-restore"].is_string(), "{claim}");
        let made = ground.below(DOWNLOADS);
        let spec = &made[0]["spec"];
        let found =
            [&spec["snapshotID"], &spec["snapshotSize"], &spec["sourceNamespace"], &spec["targetVolume"]["pvc"]];
        assert_eq!(
            (made.len(), found.map(Clone::clone)),
            (1, [json!("k-data"), json!(7), json!("shop"), json!("data")])
        );
        assert_eq!(ground.below(RESTORES), Vec::<Value>::new());
        if has_pod {
            assert_eq!(web(&ground)["spec"].get("initContainers"), None);
        }
        let told = volumes(&ground).await;
        assert_eq!((told.as_array().unwrap().len(), &told[0]["snapshotDataMoved"]), (1, &true.into()));
    }
}

/// The messages of a preview about volumes.
async fn previewed(ground: &RestoreFixture) -> Vec<String> {
    let (sender, mut items) = mpsc::channel::<PreviewItem>(16);
    let end = preview(&ground.request, &ground.env, sender).await.unwrap();
    while items.recv().await.is_some() {}
    end.volumes.into_iter().map(|one| one.message).collect()
}

#[tokio::test]
async fn a_preview_says_that_a_data_mover_brings_it_back_or_why_nothing_does() {
    let ground = served(&all(), &files()).await;
    let said = previewed(&ground).await;
    assert!(
        said.len() == 1 && said[0].starts_with("the data mover velero brings its data from a repository"),
        "{said:?}"
    );
    let mut alone = served(&all(), &files()).await;
    alone.request.settings.movers.may_be_used = false;
    let why = "its data is in a repository, to which it was moved, and no node agent is there that brings it back: the claim is held back";
    assert_eq!(previewed(&alone).await, [why]);
}

#[tokio::test]
async fn a_restore_without_a_server_fills_it_from_the_repository() {
    let ground = local(&objects(&[]), &files(), ends("Succeeded", 0, "{}")).await;
    assert_eq!(ended(&ground).await, (RestorePhase::Finalizing, vec![], vec![]));
    assert_eq!(ground.at(CLAIM).unwrap()["spec"], json!({"storageClassName": "fast"}));
    let mover = ground.writes().into_iter().any(|write| write.contains("pods/r-"));
    assert!(mover && ground.below(DOWNLOADS).is_empty());
}
