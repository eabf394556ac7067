//! Data that comes back from repositories, on whole restores with a node agent that does as it is told.

use super::tests::messages;
use crate::plan::planned::{Planned, PreviewItem};
use crate::plan::preview::preview;
use crate::stub::{RestoreFixture, Scripted, object};
use crate::{finalize, look_after_operations};
use lifeboat_action::RestoreItemOutput;
use lifeboat_api::{Duration, RestorePhase};
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

pub(super) const RESTORES: &str = "/apis/velero.io/v1/namespaces/velero/podvolumerestores/";
pub(super) const DOWNLOADS: &str = "/apis/velero.io/v2alpha1/namespaces/velero/datadownloads/";
const REPOSITORY: &str = "/apis/velero.io/v1/namespaces/velero/backuprepositories/shop-default-kopia";
pub(super) const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/data";

pub(super) fn pod(name: &str, volumes: &Value) -> Value {
    let spec = json!({"containers": [{"name": "main", "image": "app"}], "volumes": volumes});
    object("v1", "Pod", name, &json!({"spec": spec}))
}

/// A volume of a pod that is the claim shop/data.
pub(super) fn claimed(volume: &str) -> Value {
    json!({"name": volume, "persistentVolumeClaim": {"claimName": "data"}})
}

/// A pod volume backup of a volume of shop/web.
pub(super) fn saved(volume: &str, claim: Option<&str>) -> Value {
    let annotations = claim.map_or(json!({}), |claim| json!({"velero.io/pvc-name": claim}));
    json!({"metadata": {"annotations": annotations},
        "spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": volume, "uploaderType": "kopia"},
        "status": {"phase": "Completed", "snapshotID": format!("k-{volume}"), "progress": {"totalBytes": 7}}})
}

/// The claim shop/data and its volume, and these objects beside them.
pub(super) fn objects(more: &[Value]) -> Vec<Value> {
    let claim = json!({"namespace": "shop", "name": "data", "uid": "cu"});
    let volume = json!({"metadata": {"namespace": null}, "spec": {"persistentVolumeReclaimPolicy": "Delete", "claimRef": claim}});
    let claim = json!({"metadata": {"uid": "cu"}, "spec": {"volumeName": "pv", "storageClassName": "fast"}});
    let all = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        object("v1", "PersistentVolume", "pv", &volume),
        object("v1", "PersistentVolumeClaim", "data", &claim),
    ];
    [&all[..], more].concat()
}

/// A restore by a server, in a cluster whose node `n1` has a node agent that fills each volume at once.
pub(super) async fn served(objects: &[Value], files: &[(BackupFile, Value)]) -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let mut ground = RestoreFixture::with_files(objects, files, &action).await;
    let settings = &mut ground.request.settings.movers;
    settings.may_be_used = true;
    settings.image = "lifeboat:1".to_owned();
    settings.location = "default".to_owned();
    let of_velero = |api_version: &str, kind: &str, name: &str, rest: &Value| {
        let mut one = object(api_version, kind, name, rest);
        one["metadata"]["namespace"] = "velero".into();
        one
    };
    ground.put(of_velero("apps/v1", "DaemonSet", "node-agent", &json!({})));
    let agent = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    ground.put(of_velero("v1", "Pod", "node-agent-x", &agent));
    ground.react("BackupRepository", |one| one["status"]["phase"] = "Ready".into());
    ground.react("Pod", |one| one["spec"]["nodeName"] = "n1".into());
    ground.react("PodVolumeRestore", |one| {
        one["status"] = json!({"phase": "Completed", "progress": {"totalBytes": 7, "bytesDone": 7}});
    });
    ground
}

/// The same of a pod with the claim and a volume without one, whose files are in a repository.
pub(super) async fn with_files() -> RestoreFixture {
    let web =
        pod("web", &json!([claimed("files"), {"name": "cache", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]));
    let all = json!([saved("files", Some("data")), saved("cache", None)]);
    served(&objects(&[web]), &[(BackupFile::PodVolumeBackups, all)]).await
}

pub(super) async fn ended(ground: &RestoreFixture) -> (RestorePhase, Vec<String>, Vec<String>) {
    let outcome = ground.run().await.unwrap();
    let [warnings, errors] = messages(&outcome.results);
    (outcome.restore.status.phase.unwrap(), warnings, errors)
}

pub(super) async fn volumes(ground: &RestoreFixture) -> Value {
    ground.env.store.restore_file("r", RestoreFile::VolumeInfo).await.unwrap().unwrap()
}

pub(super) fn web(ground: &RestoreFixture) -> Value {
    ground.at("/api/v1/namespaces/shop/pods/web").unwrap()
}

#[tokio::test]
async fn files_come_back_into_the_volumes_of_a_pod_that_waits_for_them() {
    let ground = with_files().await;
    assert_eq!(ended(&ground).await, (RestorePhase::Finalizing, vec![], vec![]));
    assert_eq!(ground.at(CLAIM).unwrap()["spec"], json!({"storageClassName": "fast"}));
    assert_eq!(ground.at("/api/v1/persistentvolumes/pv"), None);
    let waits = web(&ground)["spec"]["initContainers"].take();
    let waits = waits.as_array().unwrap();
    assert_eq!((waits.len(), &waits[0]["name"], &waits[0]["args"]), (1, &"restore-wait".into(), &json!(["u"])));
    let mounts =
        json!([{"name": "files", "mountPath": "/restores/files"}, {"name": "cache", "mountPath": "/restores/cache"}]);
    assert_eq!(waits[0]["volumeMounts"], mounts);
    let made = ground.below(RESTORES);
    let asked: BTreeMap<&str, (&str, &Value, &Value)> = made
        .iter()
        .map(|one| {
            let (spec, labels) = (&one["spec"], &one["metadata"]["labels"]);
            (
                spec["volume"].as_str().unwrap(),
                (spec["snapshotID"].as_str().unwrap(), &spec["pod"]["uid"], &labels["velero.io/pvc-uid"]),
            )
        })
        .collect();
    let uid = "uid-of-web".into();
    let expected = [("cache", ("k-cache", &uid, &Value::Null)), ("files", ("k-files", &uid, &"uid-of-data".into()))];
    assert_eq!(asked, expected.into());
    assert!(ground.at(REPOSITORY).is_some());
    let record = |volume: &str| {
        json!({"snapshotHandle": format!("k-{volume}"), "size": 7, "uploaderType": "kopia", "volumeName": volume, "podName": "web",
            "podNamespace": "shop", "Phase": ""})
    };
    let expected = json!([
        {"pvcName": "data", "pvcNamespace": "shop", "restoreMethod": "PodVolumeRestore", "snapshotDataMoved": false,
            "pvrInfo": record("files"), "message": "its files are restored (7 bytes), through the pod shop/web"},
        {"restoreMethod": "PodVolumeRestore", "snapshotDataMoved": false, "pvrInfo": record("cache"),
            "message": "its files are restored (7 bytes)"},
    ]);
    assert_eq!(volumes(&ground).await, expected);
}

#[tokio::test]
async fn volumes_of_restored_files_get_the_reclaim_policy_of_the_backup() {
    let web = pod("web", &json!([claimed("files")]));
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "PodVolumeBackup",
        "pvInfo": {"reclaimPolicy": "Retain", "labels": {"a": "b"}}}]);
    let backups = json!([saved("files", Some("data"))]);
    let files = [(BackupFile::PodVolumeBackups, backups), (BackupFile::VolumeInfo, info)];
    let mut ground = served(&objects(&[web]), &files).await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Finalizing));
    ground.change_at(CLAIM, |claim| {
        claim["spec"]["volumeName"] = "pvc-1".into();
        claim["status"] = json!({"phase": "Bound"});
    });
    let claim = json!({"namespace": "shop", "name": "data"});
    let spec = json!({"persistentVolumeReclaimPolicy": "Delete", "claimRef": claim});
    let volume = json!({"metadata": {"namespace": null}, "spec": spec, "status": {"phase": "Bound"}});
    ground.put(object("v1", "PersistentVolume", "pvc-1", &volume));
    ground.renew();
    let ended = finalize(outcome.restore, std::time::Duration::from_secs(60), &ground.env).await.unwrap();
    assert_eq!(ended.status.phase, Some(RestorePhase::Completed));
    let there = ground.at("/api/v1/persistentvolumes/pvc-1").unwrap();
    assert_eq!(
        (&there["spec"]["persistentVolumeReclaimPolicy"], &there["metadata"]["labels"]["a"]),
        (&"Retain".into(), &"b".into())
    );
    let told = volumes(&ground).await;
    assert_eq!((&told[0]["pvName"], &told[0]["restoreMethod"]), (&"pvc-1".into(), &"PodVolumeRestore".into()));
}

#[tokio::test]
async fn a_preview_shows_what_the_node_agent_would_bring_back() {
    let ground = with_files().await;
    let (sender, mut items) = mpsc::channel(16);
    let end = preview(&ground.request, &ground.env, sender).await.unwrap();
    let mut planned = BTreeMap::new();
    while let Some(PreviewItem { key, planned: how, .. }) = items.recv().await {
        planned.insert(key.name, how);
    }
    assert_eq!([&planned["web"], &planned["data"]], [&Planned::Create, &Planned::Create]);
    assert!(matches!(planned["pv"], Planned::Skip(_)), "{planned:?}");
    let said: Vec<&str> = end.volumes.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(said, ["the claim gets its files from a repository"]);
    assert_eq!(ground.below(RESTORES), Vec::<Value>::new());
}

#[tokio::test]
async fn a_difference_from_the_saved_volume_is_a_warning_of_the_restore() {
    let ground = with_files().await;
    ground.react("PodVolumeRestore", |one| {
        let message = if one["spec"]["volume"] == "files" { "2 entries could not be saved" } else { "" };
        one["status"] =
            json!({"phase": "Completed", "message": message, "progress": {"totalBytes": 7, "bytesDone": 7}});
    });
    let (phase, warnings, errors) = ended(&ground).await;
    let expected = vec!["pod shop/web, volume files: 2 entries could not be saved".to_owned()];
    assert_eq!((phase, warnings, errors), (RestorePhase::Finalizing, expected, vec![]));
}

#[tokio::test]
async fn a_volume_that_is_not_filled_is_an_error_of_its_pod() {
    for (phase, said) in
        [("Failed", "pod volume restore failed: no space"), ("Canceled", "pod volume restore canceled: no space")]
    {
        let ground = with_files().await;
        ground.react("PodVolumeRestore", move |one| {
            let phase = if one["spec"]["volume"] == "files" { phase } else { "Completed" };
            one["status"] = json!({"phase": phase, "message": "no space"});
        });
        let (ended, _, errors) = ended(&ground).await;
        let error = format!(
            "pod shop/web, volume files: {said}; the pod waits in its init container restore-wait; when the reason is gone, delete the \
             pod and make another Restore; as long as the claim data has the annotation lifeboat.io/awaits-files, another restore fills it: \
             remove that where the claim is to keep what it holds"
        );
        assert_eq!((ended, errors), (RestorePhase::PartiallyFailed, vec![error]));
        assert_eq!(
            volumes(&ground).await[0]["message"],
            format!("its files are not restored: {said}, through the pod shop/web")
        );
    }
}

#[tokio::test]
async fn a_repository_that_is_not_ready_or_a_node_without_agent_is_an_error() {
    let refused = |one: &mut Value| one["status"] = json!({"phase": "NotReady", "message": "no password"});
    let ground = with_files().await;
    ground.react("BackupRepository", refused);
    let (_, _, errors) = ended(&ground).await;
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors.iter().all(|error| error.contains(": backup repository is not ready: no password; ")), "{errors:?}");
    assert_eq!(ground.below(RESTORES), Vec::<Value>::new());

    for (node, said) in [
        (json!("n2"), "node-agent pod is not running in node n2: the DaemonSet has no pod there; gave up after 0 s"),
        (json!(null), "the pod has no node: the scheduler has said nothing about it; gave up after 0 s"),
    ] {
        let mut ground = with_files().await;
        ground.request.settings.resource_timeout = Duration::from_secs(0);
        ground.put(object(
            "velero.io/v1",
            "BackupRepository",
            "shop-default-kopia",
            &json!({"metadata": {"namespace": "velero"},
            "status": {"phase": "Ready"}}),
        ));
        ground.react("Pod", move |one| one["spec"]["nodeName"] = node.clone());
        ground.react("PodVolumeRestore", |_| {});
        let (phase, _, errors) = ended(&ground).await;
        assert_eq!((phase, errors.len()), (RestorePhase::PartiallyFailed, 2), "{errors:?}");
        assert!(errors.iter().all(|error| error.contains(said)), "{errors:?}");
    }
}

#[tokio::test]
async fn a_restore_that_is_cut_off_finds_what_it_has_begun() {
    let mut ground = with_files().await;
    assert_eq!(ended(&ground).await.0, RestorePhase::Finalizing);
    let names = |ground: &RestoreFixture| -> Vec<Value> {
        ground.below(RESTORES).into_iter().map(|mut one| one["metadata"]["name"].take()).collect()
    };
    let before = names(&ground);
    // The end of one volume was not heard, and the resource of the other was not made yet.
    let path = |name: &Value| format!("{RESTORES}{}", name.as_str().unwrap());
    ground.remove(&path(&before[0]));
    let outcome = ground.run_again().await.unwrap();
    assert_eq!(messages(&outcome.results)[1], Vec::<String>::new());
    assert_eq!(names(&ground), before);
    let told = volumes(&ground).await;
    assert_eq!([&told[0]["restoreMethod"], &told[1]["restoreMethod"]], ["PodVolumeRestore"; 2]);
}

#[tokio::test]
async fn a_claim_of_two_pods_is_filled_once_and_the_second_pod_comes_after() {
    let pods = [pod("web", &json!([claimed("x")])), pod("app", &json!([claimed("y")]))];
    let all = json!([saved("x", Some("data"))]);
    let ground = served(&objects(&pods), &[(BackupFile::PodVolumeBackups, all)]).await;
    assert_eq!(ended(&ground).await, (RestorePhase::Finalizing, vec![], vec![]));
    let made = ground.below(RESTORES);
    assert_eq!(
        (made.len(), &made[0]["spec"]["pod"]["name"], &made[0]["spec"]["volume"]),
        (1, &"app".into(), &"y".into())
    );
    assert_eq!(web(&ground)["spec"].get("initContainers"), None);
    let writes = ground.writes();
    let at = |end: &str| writes.iter().position(|write| write.ends_with(end)).unwrap();
    let filled = writes.iter().position(|write| write.contains("podvolumerestores")).unwrap();
    assert!(at("pods/app") < filled && filled < at("pods/web"), "{writes:?}");
}

#[tokio::test]
async fn a_claim_without_a_pod_to_fill_it_is_held_back() {
    let all = json!([saved("files", Some("data"))]);
    let ground = served(&objects(&[]), &[(BackupFile::PodVolumeBackups, all)]).await;
    let (phase, _, errors) = ended(&ground).await;
    assert_eq!((phase, errors.len(), ground.at(CLAIM)), (RestorePhase::PartiallyFailed, 1, None), "{errors:?}");
    let begins = "error restoring persistentvolumeclaims/shop/data: held back, because its data is in a pod volume backup and comes with a \
                  pod that mounts it, and no such pod is part of this restore; restore the pod too, or restore it with";
    assert!(errors[0].starts_with(begins), "{errors:?}");
}

#[tokio::test]
async fn a_restore_that_its_user_cancels_stops_what_fills_volumes() {
    for by_user in [true, false] {
        let ground = with_files().await;
        let restore = json!({"metadata": {"namespace": "velero"}, "spec": {"cancel": by_user}});
        ground.put(object("velero.io/v1", "Restore", "r", &restore));
        ground.change_at("/apis/velero.io/v1/namespaces/velero/restores/r", |one| one["metadata"]["uid"] = "u".into());
        let cancel = ground.env.operation.cancel.clone();
        ground.react("PodVolumeRestore", move |one| {
            one["status"] = json!({"phase": "InProgress"});
            cancel.cancel();
        });
        let outcome = ground.run().await.unwrap();
        assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Failed));
        let made = ground.below(RESTORES);
        assert!(!made.is_empty());
        let expected = if by_user { json!(true) } else { Value::Null };
        assert!(made.iter().all(|one| one["spec"]["cancel"] == expected), "{by_user} {made:?}");
    }
}

/// A claim whose CSI snapshot was moved by this data mover.
async fn with_moved(data_mover: &str) -> RestoreFixture {
    let upload = json!({"metadata": {"namespace": "velero"}, "spec": {"datamover": data_mover, "sourceNamespace": "shop"},
        "status": {"phase": "Completed", "snapshotID": "m1", "progress": {"totalBytes": 9}, "nodeOS": "linux"}});
    let mut all = objects(&[object("velero.io/v2alpha1", "DataUpload", "du", &upload)]);
    all[2]["metadata"]["annotations"]["velero.io/data-upload-name"] = "velero/du".into();
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "CSISnapshot",
        "snapshotDataMoved": true, "snapshotDataMovementInfo": {"dataMover": data_mover}}]);
    served(&all, &[(BackupFile::VolumeInfo, info)]).await
}

#[tokio::test]
async fn moved_data_comes_back_by_an_operation_that_is_waited_for() {
    let mut ground = with_moved("").await;
    let outcome = ground.run().await.unwrap();
    assert_eq!(messages(&outcome.results), [Vec::<String>::new(), Vec::new()]);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::WaitingForPluginOperations));
    let claim = ground.at(CLAIM).unwrap();
    assert_eq!(claim["spec"].get("volumeName"), None);
    let label = claim["spec"]["selector"]["matchLabels"]["velero.io/dynamic-pv-restore"].as_str().unwrap();
    assert!(label.starts_with("shop.data."), "{label}");
    let made = ground.below(DOWNLOADS);
    let spec = &made[0]["spec"];
    assert_eq!(made.len(), 1);
    let found =
        [&spec["snapshotID"], &spec["snapshotSize"], &spec["targetVolume"]["pvc"], &spec["backupStorageLocation"]];
    assert_eq!(found.map(Clone::clone), [json!("m1"), json!(9), json!("data"), json!("default")]);
    assert!(ground.at(REPOSITORY).is_some());
    let told = volumes(&ground).await;
    assert_eq!(
        told[0]["snapshotDataMovementInfo"]["operationID"],
        made[0]["metadata"]["labels"]["velero.io/async-operation-id"]
    );

    // A run again begins nothing twice.
    ground.run_again().await.unwrap();
    assert_eq!(ground.below(DOWNLOADS).len(), 1);

    let path = format!("{DOWNLOADS}{}", made[0]["metadata"]["name"].as_str().unwrap());
    for (status, phase) in [
        (json!({"phase": "InProgress"}), RestorePhase::WaitingForPluginOperations),
        (json!({"phase": "Failed", "message": "no space"}), RestorePhase::FinalizingPartiallyFailed),
    ] {
        ground.change_at(&path, |one| one["status"] = status);
        ground.renew();
        let restore = look_after_operations(outcome.restore.clone(), &ground.env).await.unwrap();
        assert_eq!(restore.status.phase, Some(phase));
        if phase == RestorePhase::FinalizingPartiallyFailed {
            let ended = finalize(restore, std::time::Duration::from_secs(0), &ground.env).await.unwrap();
            assert_eq!(ended.status.phase, Some(RestorePhase::PartiallyFailed));
        }
    }
    let results: Value = ground.env.store.restore_file("r", RestoreFile::Results).await.unwrap().unwrap();
    let errors = results["errors"].to_string();
    assert!(errors.contains("for persistentvolumeclaims/shop/data has failed: no space"), "{errors}");
}

#[tokio::test]
async fn data_that_waits_for_a_node_agent_which_is_ready_nowhere_is_a_warning() {
    let ground = with_moved("").await;
    let agent = json!({"metadata": {"namespace": "velero"}, "status": {"numberReady": 0}});
    ground.put(object("apps/v1", "DaemonSet", "node-agent", &agent));
    let outcome = ground.run().await.unwrap();
    let expected = "the data of volumes in repositories waits for a node agent: that in namespace velero is ready on no node; `kubectl -n velero \
                    describe daemonset node-agent`, or `describe pods -l role=node-agent`, says why";
    assert_eq!(messages(&outcome.results), [vec![expected.to_owned()], Vec::new()]);
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::WaitingForPluginOperations));
}

#[tokio::test]
async fn what_a_data_mover_could_not_restore_as_it_was_is_a_warning() {
    let mut ground = with_moved("").await;
    let outcome = ground.run().await.unwrap();
    let path = format!("{DOWNLOADS}{}", ground.below(DOWNLOADS)[0]["metadata"]["name"].as_str().unwrap());
    let passed_over = "3 entries have owners that could not be set";
    ground.change_at(&path, |one| one["status"] = json!({"phase": "Completed", "message": passed_over}));
    ground.change_at(CLAIM, |claim| {
        claim["spec"]["volumeName"] = "pvc-1".into();
        claim["status"] = json!({"phase": "Bound"});
    });
    let spec = json!({"claimRef": {"namespace": "shop", "name": "data"}, "persistentVolumeReclaimPolicy": "Delete"});
    let volume = json!({"metadata": {"namespace": null}, "spec": spec, "status": {"phase": "Bound"}});
    ground.put(object("v1", "PersistentVolume", "pvc-1", &volume));
    let restore = look_after_operations(outcome.restore, &ground.env).await.unwrap();
    // Done again after a crash it is told once.
    for _ in 0..2 {
        ground.renew();
        let ended = finalize(restore.clone(), std::time::Duration::from_secs(60), &ground.env).await.unwrap();
        let status = (ended.status.phase, ended.status.warnings, ended.status.errors);
        assert_eq!(status, (Some(RestorePhase::Completed), 1, 0));
    }
    let results: Value = ground.env.store.restore_file("r", RestoreFile::Results).await.unwrap().unwrap();
    let expected = json!({"shop": [format!("claim data, whose data a data mover has restored: {passed_over}")]});
    assert_eq!(results["warnings"]["namespaces"], expected);
}

#[tokio::test]
async fn a_claim_that_was_made_anew_gets_a_download_of_its_own() {
    let mut ground = with_moved("").await;
    let outcome = ground.run().await.unwrap();
    let download = ground.below(DOWNLOADS).remove(0);
    let path = format!("{DOWNLOADS}{}", download["metadata"]["name"].as_str().unwrap());
    let place = "/metadata/annotations/lifeboat.io~1target-claim-uid";
    assert_eq!(download.pointer(place), Some(&"uid-of-data".into()));

    // It is complete, and the claim has no volume.
    ground.change_at(&path, |one| one["status"] = json!({"phase": "Completed"}));
    ground.renew();
    let restore = look_after_operations(outcome.restore.clone(), &ground.env).await.unwrap();
    assert_eq!(restore.status.phase, Some(RestorePhase::FinalizingPartiallyFailed));

    // A run again that makes the claim asks for its data again.
    for (phase, is_replaced) in [("InProgress", false), ("Completed", true)] {
        ground.change_at(&path, |one| {
            one["metadata"]["annotations"]["lifeboat.io/target-claim-uid"] = "uid-before".into();
            one["status"] = json!({"phase": phase});
        });
        ground.remove(CLAIM);
        ground.run_again().await.unwrap();
        let download = ground.at(&path).unwrap();
        assert_eq!(download.pointer(place), Some(&"uid-of-data".into()), "{phase}");
        assert_eq!(download["status"] != json!({"phase": phase}), is_replaced, "{phase}");
    }
}

#[tokio::test]
async fn a_foreign_data_mover_is_asked_whether_a_node_agent_is_there_or_not() {
    let mut ground = with_moved("kubevirt").await;
    ground.request.settings.movers.may_be_used = false;
    let outcome = ground.run().await.unwrap();
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::WaitingForPluginOperations));
    assert_eq!(ground.below(DOWNLOADS)[0]["spec"]["datamover"], "kubevirt");
    assert_eq!(ground.at(REPOSITORY), None);

    let mut own = with_moved("").await;
    own.request.settings.movers.may_be_used = false;
    let (phase, _, errors) = ended(&own).await;
    assert_eq!((phase, own.at(CLAIM)), (RestorePhase::PartiallyFailed, None));
    assert!(errors[0].contains("no node agent is there that brings it back; install the node agent"), "{errors:?}");
}
