//! Files of repositories and claims that were in the cluster before the restore.

use super::repository_data::{CLAIM, RESTORES, ended, volumes, web, with_files};
use crate::plan::preview::preview;
use crate::stub::object;
use lifeboat_api::RestorePhase;
use lifeboat_api::well_known::ANNOTATION_OVERWRITE_VOLUMES;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The claim shop/data, in the cluster before the restore, with a volume of its own.
fn live_claim() -> Value {
    let spec = json!({"spec": {"volumeName": "live", "storageClassName": "fast"}, "status": {"phase": "Bound"}});
    object("v1", "PersistentVolumeClaim", "data", &spec)
}

const AWAITS: &str = "/metadata/annotations/lifeboat.io~1awaits-files";

#[tokio::test]
async fn files_are_not_written_into_a_claim_that_was_there_before() {
    let ground = with_files().await;
    ground.put(live_claim());
    let (phase, warnings, errors) = ended(&ground).await;
    assert_eq!((phase, errors), (RestorePhase::Completed, vec![]), "{warnings:?}");
    let expected = "the files of the volume files of pods/shop/web are not restored: its claim data was in the cluster before this restore \
                    and keeps what it holds; to write the files of the backup over that, delete the pod and make another Restore with \
                    --overwrite-volumes (the annotation lifeboat.io/overwrite-volumes: \"true\" of the restore)";
    assert!(warnings.iter().any(|one| one == expected), "{warnings:?}");
    let asked: Vec<Value> = ground.below(RESTORES).into_iter().map(|mut one| one["spec"]["volume"].take()).collect();
    assert_eq!(asked, ["cache"]);
    let mounts = web(&ground)["spec"]["initContainers"][0]["volumeMounts"].take();
    assert_eq!(mounts, json!([{"name": "cache", "mountPath": "/restores/cache"}]));
    let there = ground.at(CLAIM).unwrap();
    assert_eq!((&there["spec"]["volumeName"], there.pointer(AWAITS)), (&"live".into(), None));
    assert_eq!(
        volumes(&ground).await[0]["message"],
        "the claim was not made by this restore: what is there keeps what it holds"
    );
}

#[tokio::test]
async fn files_are_written_over_a_claim_when_the_user_allows_it() {
    let mut ground = with_files().await;
    let allowed = (ANNOTATION_OVERWRITE_VOLUMES.to_owned(), "true".to_owned());
    ground.request.restore.metadata.annotations.extend([allowed]);
    ground.put(live_claim());
    let (phase, _, errors) = ended(&ground).await;
    assert_eq!((phase, errors), (RestorePhase::Completed, vec![]));
    assert_eq!(ground.below(RESTORES).len(), 2);
    let told = volumes(&ground).await;
    assert_eq!(
        (&told[0]["message"], &told[0]["pvrInfo"]["snapshotHandle"], told[0].get("restoreMethod")),
        (
            &"its files are restored (7 bytes), through the pod shop/web; the claim was in the cluster before, and files that it had may be \
              overwritten"
                .into(),
            &"k-files".into(),
            None
        )
    );
}

#[tokio::test]
async fn another_restore_fills_a_claim_whose_files_have_not_come() {
    let ground = with_files().await;
    ground.react("PodVolumeRestore", |one| one["status"] = json!({"phase": "Failed", "message": "no space"}));
    assert_eq!(ended(&ground).await.0, RestorePhase::PartiallyFailed);
    assert_eq!(ground.at(CLAIM).unwrap().pointer(AWAITS), Some(&"true".into()));

    let again = with_files().await;
    again.put(ground.at(CLAIM).unwrap());
    assert_eq!(ended(&again).await.2, Vec::<String>::new());
    assert_eq!(again.below(RESTORES).len(), 2);
    assert_eq!(again.at(CLAIM).unwrap().pointer(AWAITS), None);
}

#[tokio::test]
async fn a_preview_says_that_a_claim_keeps_its_files() {
    for (allowed, expected) in [
        ("false", "the claim was not made by this restore: what is there keeps what it holds"),
        (
            "true",
            "the claim gets its files from a repository; the claim was in the cluster before, and files that it had may be overwritten",
        ),
    ] {
        let mut ground = with_files().await;
        let annotation = (ANNOTATION_OVERWRITE_VOLUMES.to_owned(), allowed.to_owned());
        ground.request.restore.metadata.annotations.extend([annotation]);
        ground.put(live_claim());
        let (sender, mut items) = mpsc::channel(16);
        let end = preview(&ground.request, &ground.env, sender).await.unwrap();
        while items.recv().await.is_some() {}
        let said: Vec<&str> = end.volumes.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(said, [expected]);
    }
}
