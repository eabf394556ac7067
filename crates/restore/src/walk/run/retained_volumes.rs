//! Volumes that come back as they are, and data that the backup does not have, on whole restores.

use super::tests::{files, messages, name};
use crate::plan::planned::{Planned, PreviewItem};
use crate::plan::preview::preview;
use crate::stub::{RestoreFixture, Scripted, backup, object};
use lifeboat_action::RestoreItemOutput;
use lifeboat_api::{RestorePhase, well_known};
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

const VOLUME: &str = "/api/v1/persistentvolumes/pv";
const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/data";

/// The volume of the claim shop/data, with this reclaim policy and phase, and this UID of its claim.
fn volume(policy: &str, phase: &str, uid: &str) -> Value {
    let claim = json!({"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": uid});
    object(
        "v1",
        "PersistentVolume",
        "pv",
        &json!({"metadata": {"namespace": null}, "status": {"phase": phase},
        "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": claim, "nfs": {"server": "nas", "path": "/data"}}}),
    )
}

fn claim() -> Value {
    object("v1", "PersistentVolumeClaim", "data", &json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}))
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

async fn ground(policy: &str, more: &[Value], files: &[(BackupFile, Value)]) -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let objects = [&[namespace("shop"), volume(policy, "Bound", "u"), claim()], more].concat();
    RestoreFixture::with_files(&objects, files, &action).await
}

fn allow(ground: &mut RestoreFixture, annotation: &str) {
    ground.request.restore.metadata.annotations.insert(annotation.to_owned(), "true".to_owned());
}

/// Phase, warnings and errors of a restore.
async fn restored(ground: &RestoreFixture) -> (RestorePhase, Vec<String>, Vec<String>) {
    let outcome = ground.run().await.unwrap();
    let [warnings, errors] = messages(&outcome.results);
    (outcome.restore.status.phase.unwrap(), warnings, errors)
}

/// The plans of a preview, by name.
async fn previewed(ground: &RestoreFixture) -> BTreeMap<String, Planned> {
    let (sender, mut items) = mpsc::channel(16);
    preview(&ground.request, &ground.env, sender).await.unwrap();
    let mut out = BTreeMap::new();
    while let Some(PreviewItem { key, planned, .. }) = items.recv().await {
        out.insert(key.name, planned);
    }
    out
}

const RELEASED: &str = "the PersistentVolume pv is still in the cluster, released by this claim, with what it holds; restore with \
                        --rebind-released (the annotation lifeboat.io/rebind-released: \"true\" of the restore) to bind the claim to it again, or delete the PersistentVolume (kubectl delete pv pv), which \
                        leaves its storage alone, and run the restore again";

#[tokio::test]
async fn a_claim_of_a_deleted_namespace_is_held_back_beside_its_volume() {
    let ground = ground("Retain", &[], &[]).await;
    ground.put(volume("Retain", "Released", "u"));
    assert_eq!(previewed(&ground).await["data"], Planned::Refused(RELEASED.to_owned()));
    let (phase, warnings, errors) = restored(&ground).await;
    let error = format!("error restoring persistentvolumeclaims/shop/data: held back, because {RELEASED}");
    assert_eq!((phase, warnings, errors), (RestorePhase::PartiallyFailed, vec![], vec![error]));
    assert_eq!((ground.at(CLAIM), ground.writes()), (None, vec![]));
    let (_, list) = files(&ground).await;
    assert_eq!(list["v1/PersistentVolumeClaim"], json!(["shop/data(failed)"]));
}

#[tokio::test]
async fn a_released_volume_is_bound_to_its_claim_again_where_the_user_allows_it() {
    let mut ground = ground("Retain", &[], &[]).await;
    ground.put(volume("Retain", "Released", "u"));
    allow(&mut ground, well_known::ANNOTATION_REBIND_RELEASED);
    let planned = previewed(&ground).await;
    assert!(matches!(planned["pv"], Planned::Update(_)), "{planned:?}");
    assert_eq!(planned["data"], Planned::Create);
    assert_eq!(restored(&ground).await, (RestorePhase::Completed, vec![], vec![]));
    let reference = ground.at(VOLUME).unwrap()["spec"]["claimRef"].take();
    assert_eq!(reference, json!({"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data"}));
    assert_eq!(name(&ground.at(CLAIM).unwrap()), "data");
}

#[tokio::test]
async fn a_claim_in_another_namespace_does_not_wait_for_a_volume_in_use() {
    let mut ground = ground("Retain", &[], &[]).await;
    ground.request.restore.spec.namespace_mapping.insert("shop".to_owned(), "copy".to_owned());
    let mut living = claim();
    living["metadata"]["uid"] = "x".into();
    ground.put(living);
    let uid = ground.at(CLAIM).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    ground.put(volume("Retain", "Bound", &uid));
    let before = ground.at(VOLUME);
    let (phase, warnings, errors) = restored(&ground).await;
    assert_eq!((phase, warnings), (RestorePhase::PartiallyFailed, vec![]));
    let begins = "error restoring persistentvolumeclaims/copy/data: held back, because the PersistentVolume pv is of the claim shop/data";
    assert!(errors.len() == 1 && errors[0].starts_with(begins), "{errors:?}");
    assert_eq!(ground.at(VOLUME), before);
}

#[tokio::test]
async fn a_disk_of_another_cluster_is_used_only_if_the_user_says_it_is_gone() {
    let mut ground = ground("Retain", &[], &[]).await;
    ground.put(namespace("kube-system"));
    let why = "the PersistentVolume pv stands for storage that the cluster of the backup (c) may still use";
    let planned = previewed(&ground).await;
    for name in ["pv", "data"] {
        let told = matches!(&planned[name], Planned::Refused(told) if told.starts_with(why));
        assert!(told, "{planned:?}");
    }
    let (phase, _, errors) = restored(&ground).await;
    assert_eq!((phase, errors.len()), (RestorePhase::PartiallyFailed, 2));
    assert!(errors.iter().all(|error| error.contains(why) && error.contains("--reuse-volumes")), "{errors:?}");
    assert_eq!((ground.at(VOLUME), ground.at(CLAIM)), (None, None));
    allow(&mut ground, well_known::ANNOTATION_REUSE_VOLUMES);
    ground.renew();
    assert_eq!(restored(&ground).await, (RestorePhase::Completed, vec![], vec![]));
    assert_eq!(name(&ground.at(CLAIM).unwrap()), "data");
}

/// A volume whose snapshot failed, with this reclaim policy, and a pod that mounts its claim.
async fn failed(policy: &str) -> RestoreFixture {
    let info = json!({"pvcNamespace": "shop", "pvcName": "data", "pvName": "pv", "backupMethod": "CSISnapshot", "result": "failed",
        "message": "no space"});
    ground(policy, &[], &[(BackupFile::VolumeInfo, json!([info]))]).await
}

const NO_SPACE: &str = "its data was not saved when the backup was made: no space";

async fn message_of_claim(ground: &RestoreFixture) -> Value {
    let infos: Option<Value> = ground.env.store.restore_file("r", RestoreFile::VolumeInfo).await.unwrap();
    infos.unwrap()[0]["message"].take()
}

#[tokio::test]
async fn a_claim_whose_snapshot_failed_gets_its_old_volume_where_it_is_kept() {
    let ground = failed("Retain").await;
    assert_eq!(restored(&ground).await, (RestorePhase::Completed, vec![], vec![]));
    assert_eq!(ground.at(CLAIM).unwrap()["spec"]["volumeName"], "pv");
    let told = format!("{NO_SPACE}; the volume is made again on its storage, where its data is");
    assert_eq!(message_of_claim(&ground).await, told);
}

#[tokio::test]
async fn a_claim_without_snapshot_and_storage_is_held_back_with_the_reason() {
    let mut ground = failed("Delete").await;
    let why = format!(
        "held back, because {NO_SPACE}; restore it from another backup, or restore it with --allow-empty-volumes (the annotation lifeboat.io/allow-empty-volumes: \"true\" of the restore) to get it without its data"
    );
    assert_eq!(previewed(&ground).await["data"], Planned::Refused(why.clone()));
    let (phase, _, errors) = restored(&ground).await;
    assert_eq!(errors, [format!("error restoring persistentvolumeclaims/shop/data: {why}")]);
    assert_eq!((phase, ground.at(CLAIM)), (RestorePhase::PartiallyFailed, None));
    assert_eq!(message_of_claim(&ground).await, format!("{NO_SPACE}: the claim was not restored"));
    allow(&mut ground, well_known::ANNOTATION_ALLOW_EMPTY_VOLUMES);
    ground.renew();
    let (phase, warnings, errors) = restored(&ground).await;
    assert_eq!((phase, errors), (RestorePhase::Completed, vec![]));
    assert!(
        warnings[0].starts_with("1 claim comes back empty, because its data was not saved: shop/data;"),
        "{warnings:?}"
    );
    assert_eq!(ground.at(CLAIM).unwrap()["spec"], json!({}));
}

/// A backup of Velero's: the data of a claim, and of an emptyDir of a pod, lie in a repository.
async fn in_repository() -> RestoreFixture {
    let saved = |annotations: Value, volume: &str| {
        json!({"metadata": {"annotations": annotations}, "spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": volume},
            "status": {"phase": "Completed", "snapshotID": "s"}})
    };
    let saved = json!([saved(json!({"velero.io/pvc-name": "data"}), "files"), saved(json!({}), "cache")]);
    let pods = ["web", "other"].map(|name| {
        let volumes = json!([{"name": "cache", "emptyDir": {}}]);
        object("v1", "Pod", name, &json!({"spec": {"containers": [], "volumes": volumes}}))
    });
    ground("Retain", &pods, &[(BackupFile::PodVolumeBackups, saved)]).await
}

#[tokio::test]
async fn nothing_starts_on_empty_volumes_whose_data_lies_in_a_repository() {
    let ground = in_repository().await;
    let (phase, _, mut errors) = restored(&ground).await;
    errors.sort();
    let next = "and no node agent is there that brings its files back; install the node agent (install --use-node-agent) and make \
                another Restore for the server, or restore it with --allow-empty-volumes (the annotation \
                lifeboat.io/allow-empty-volumes: \"true\" of the restore) to get it without its data";
    let of_claim = format!(
        "error restoring persistentvolumeclaims/shop/data: held back, because its data is in a pod volume backup, {next}"
    );
    let of_pod = format!(
        "error restoring pods/shop/web: held back, because the data of its volume cache is in a pod volume backup, {next}"
    );
    assert_eq!((phase, errors), (RestorePhase::PartiallyFailed, vec![of_claim, of_pod]));
    let there = ["web", "other"].map(|name| ground.at(&format!("/api/v1/namespaces/shop/pods/{name}")).is_some());
    assert_eq!((there, ground.at(CLAIM)), ([false, true], None));
}

#[tokio::test]
async fn empty_volumes_are_made_where_volumes_are_unwanted_or_may_be_empty() {
    for allows in [true, false] {
        let mut ground = in_repository().await;
        match allows {
            true => allow(&mut ground, well_known::ANNOTATION_ALLOW_EMPTY_VOLUMES),
            false => ground.request.restore.spec.restore_pvs = Some(false),
        }
        let (phase, warnings, errors) = restored(&ground).await;
        assert_eq!((phase, errors), (RestorePhase::Completed, vec![]));
        assert_eq!(warnings.len(), usize::from(allows), "{warnings:?}");
        assert_eq!(ground.at(CLAIM).unwrap()["spec"], json!({}));
        assert!(ground.at("/api/v1/namespaces/shop/pods/web").is_some());
    }
}

#[tokio::test]
async fn a_claim_that_is_there_keeps_what_it_holds_whatever_the_backup_lacks() {
    let ground = failed("Delete").await;
    ground.put(claim());
    let (phase, _, errors) = restored(&ground).await;
    assert_eq!((phase, errors), (RestorePhase::Completed, vec![]));
}

/// The claim of the backup, bound to another volume in the cluster.
fn moved() -> Value {
    let mut moved = claim();
    moved["spec"]["volumeName"] = "pv2".into();
    moved
}

#[tokio::test]
async fn a_claim_bound_to_another_volume_is_no_error_and_reserves_nothing() {
    for rebinds in [false, true] {
        let mut ground = ground("Retain", &[], &[]).await;
        for there in [namespace("shop"), moved(), volume("Retain", "Released", "u")] {
            ground.put(there);
        }
        if rebinds {
            allow(&mut ground, well_known::ANNOTATION_REBIND_RELEASED);
        }
        let before = [VOLUME, CLAIM].map(|path| ground.at(path));
        let planned = previewed(&ground).await;
        assert!(matches!(planned["data"], Planned::Conflict(_) | Planned::Unchanged), "{planned:?}");
        assert!(matches!(planned["pv"], Planned::Skip(_)), "{planned:?}");
        let (phase, _, errors) = restored(&ground).await;
        assert_eq!((phase, errors), (RestorePhase::Completed, vec![]), "{rebinds}");
        assert_eq!([VOLUME, CLAIM].map(|path| ground.at(path)), before, "{rebinds}");
    }
}

#[tokio::test]
async fn a_claim_made_by_hand_in_another_cluster_is_no_error_of_later_restores() {
    let ground = ground("Retain", &[], &[]).await;
    for there in [namespace("kube-system"), namespace("shop"), moved()] {
        ground.put(there);
    }
    assert!(matches!(previewed(&ground).await["pv"], Planned::Skip(_)));
    let (phase, _, errors) = restored(&ground).await;
    assert_eq!((phase, errors), (RestorePhase::Completed, vec![]));
    assert_eq!(ground.at(VOLUME), None);
}

#[tokio::test]
async fn a_claim_pending_for_a_volume_of_another_cluster_stays_an_error() {
    let ground = ground("Retain", &[], &[]).await;
    for there in [namespace("kube-system"), namespace("shop"), claim()] {
        ground.put(there);
    }
    let (phase, _, errors) = restored(&ground).await;
    assert_eq!((phase, errors.len()), (RestorePhase::PartiallyFailed, 1), "{errors:?}");
    assert!(errors[0].starts_with("error restoring persistentvolumes/pv: not made"), "{errors:?}");
}

#[tokio::test]
async fn who_may_not_look_at_volumes_gets_the_claim_and_a_warning() {
    let ground = ground("Retain", &[], &[]).await;
    ground.answer("GET", VOLUME, (403, "Forbidden"));
    assert_eq!(previewed(&ground).await["data"], Planned::Create);
    let (_, warnings, errors) = restored(&ground).await;
    let begins = "persistentvolumeclaims/shop/data is restored without a look at its PersistentVolume";
    assert_eq!(warnings.iter().filter(|warning| warning.starts_with(begins)).count(), 1, "{warnings:?}");
    assert!(errors.iter().all(|error| error.starts_with("error restoring persistentvolumes/pv: ")), "{errors:?}");
    assert_eq!(name(&ground.at(CLAIM).unwrap()), "data");
}

#[tokio::test]
async fn a_backup_with_a_damaged_claim_is_restored_as_if_it_recorded_nothing() {
    let (mut ground, memory) = (ground("Retain", &[], &[]).await, Arc::new(Memory::default()));
    let objects = [namespace("shop"), volume("Retain", "Bound", "u"), claim()];
    ground.env.store = backup(Store::new(Arc::clone(&memory) as _), &objects).await;
    let nothing = Vec::<u8>::new().into();
    memory.put(&BackupFile::Claim.key("b"), nothing, PutOptions::default()).await.unwrap();
    let warning = "1 PersistentVolume was made again on its old storage, and nothing says of which cluster the backup is: if another one \
                   that still runs uses that storage, both write to it: pv";
    assert_eq!(restored(&ground).await, (RestorePhase::Completed, vec![warning.to_owned()], vec![]));
    assert_eq!(name(&ground.at(VOLUME).unwrap()), "pv");
}
