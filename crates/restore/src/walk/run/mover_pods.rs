//! Claims that pods of the restore fill from repositories, on whole restores without a server.

use super::repository_data::{CLAIM, claimed, ended, objects, pod, saved, volumes};
use crate::stub::{RestoreFixture, Scripted, object};
use lifeboat_action::RestoreItemOutput;
use lifeboat_api::RestorePhase;
use lifeboat_archive::layout::BackupFile;
use lifeboat_select::RulesText;
use lifeboat_volume::mover_pod::{MoverPodSettings, MoverPods};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const PODS: &str = "/api/v1/namespaces/shop/pods/";
const SECRETS: &str = "/api/v1/namespaces/shop/secrets/";

/// A restore that starts movers, each of which ends with this status at once.
pub(super) async fn local(objects: &[Value], files: &[(BackupFile, Value)], status: Value) -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let mut ground = RestoreFixture::with_files(objects, files, &action).await;
    let settings = MoverPodSettings {
        image: "lifeboat:1".to_owned(),
        bucket: "s3://b".to_owned(),
        start_timeout: Duration::from_secs(60),
        ..MoverPodSettings::default()
    };
    ground.request.settings.movers.pods = Some(Arc::new(MoverPods::new(settings)));
    ground.react("Pod", move |one| {
        if one["spec"]["containers"][0]["name"] == "mover" {
            one["status"] = status.clone();
        }
    });
    ground
}

pub(super) fn ends(phase: &str, code: i64, message: &str) -> Value {
    let ended = json!({"terminated": {"exitCode": code, "message": message, "reason": "Error"}});
    json!({"phase": phase, "containerStatuses": [{"state": ended}]})
}

/// The files of a claim that a pod mounts.
async fn with_files(status: Value) -> RestoreFixture {
    let files = json!([saved("files", Some("data"))]);
    local(&objects(&[pod("web", &json!([claimed("files")]))]), &[(BackupFile::PodVolumeBackups, files)], status).await
}

/// The writes to the claim, the pods and the Secrets of the namespace, in order.
fn writes(ground: &RestoreFixture) -> Vec<String> {
    let of = |write: &String| [CLAIM, PODS, SECRETS].iter().any(|path| write.contains(path));
    let mover = |write: String| {
        let name = write.rsplit('/').next().unwrap_or_default().to_owned();
        if name.starts_with("r-") { write.replace(&name, "MOVER") } else { write }
    };
    ground.writes().into_iter().filter(of).map(mover).collect()
}

#[tokio::test]
async fn a_claim_is_full_before_the_pod_that_mounts_it_is_made() {
    let ground = with_files(ends("Succeeded", 0, r#"{"message": "1 entry"}"#)).await;
    let warning = "the data of persistentvolumeclaims/shop/data is restored: 1 entry".to_owned();
    assert_eq!(ended(&ground).await, (RestorePhase::Finalizing, vec![warning], vec![]));
    let claim = ground.at(CLAIM).unwrap();
    assert_eq!(claim["spec"], json!({"storageClassName": "fast"}));
    assert_eq!(claim["metadata"]["annotations"].get("lifeboat.io/awaits-files"), None);
    // Nothing is left, and the pod does not wait.
    assert_eq!(ground.below(SECRETS), Vec::<Value>::new());
    let names: Vec<Value> = ground.below(PODS).into_iter().map(|mut one| one["metadata"]["name"].take()).collect();
    assert_eq!(names, ["web"]);
    assert_eq!(ground.below(PODS)[0]["spec"].get("initContainers"), None);
    let writes = writes(&ground);
    let at = |end: &str| writes.iter().position(|write| write.ends_with(end));
    assert!(at("pods/MOVER") < at("secrets/MOVER") && at("secrets/MOVER") < at("pods/web"), "{writes:?}");
    let told = volumes(&ground).await;
    let expected = json!([{"pvcName": "data", "pvcNamespace": "shop", "restoreMethod": "PodVolumeRestore", "snapshotDataMoved": false,
        "message": "a pod of the restore has brought its data from a repository"}]);
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_mover_runs_where_the_pod_of_its_claim_is_to_run() {
    let files = json!([saved("files", Some("data"))]);
    let mut web = pod("web", &json!([claimed("files")]));
    web["spec"]["nodeSelector"] = json!({"disk": "old"});
    web["spec"]["tolerations"] = json!([{"key": "db", "operator": "Exists"}]);
    let mut ground =
        local(&objects(&[web]), &[(BackupFile::PodVolumeBackups, files)], json!({"phase": "Pending"})).await;
    ground.request.settings.movers.pods = Some(Arc::new(MoverPods::new(MoverPodSettings {
        start_timeout: Duration::ZERO,
        ..MoverPodSettings::default()
    })));
    // The new cluster has other nodes.
    let rules = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  mergePatches:\n  \
                 - patchData: '{\"spec\":{\"nodeSelector\":{\"disk\":\"new\"}}}'\n";
    ground.request.settings.resource_modifiers =
        Some(RulesText { source: "a file".to_owned(), text: rules.to_owned() });
    let (sender, mut seen) = tokio::sync::mpsc::channel(8);
    ground.react("Pod", move |one| drop(sender.try_send(one["spec"].clone())));
    let (_, _, errors) = ended(&ground).await;
    let mover = seen.try_recv().unwrap();
    assert_eq!(
        (&mover["nodeSelector"], &mover["tolerations"]),
        (&json!({"disk": "new"}), &json!([{"key": "db", "operator": "Exists"}]))
    );
    let told =
        "its pod has not started within 0 s (--resource-timeout); it may run only where the pod web of the restore may";
    assert!(errors.iter().any(|error| error.contains(told)), "{errors:?}");
}

#[tokio::test]
async fn moved_data_comes_without_a_data_mover_and_its_resources() {
    let upload = json!({"metadata": {"namespace": "velero"}, "spec": {"sourceNamespace": "shop"},
        "status": {"phase": "Completed", "snapshotID": "m1"}});
    let mut all = objects(&[object("velero.io/v2alpha1", "DataUpload", "du", &upload)]);
    all[2]["metadata"]["annotations"] =
        json!({"velero.io/data-upload-name": "velero/du", "velero.io/volume-snapshot-name": "vs"});
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "CSISnapshot",
        "snapshotDataMoved": true, "snapshotDataMovementInfo": {"dataMover": "velero"}}]);
    let ground = local(&all, &[(BackupFile::VolumeInfo, info)], ends("Succeeded", 0, "{}")).await;
    assert_eq!(ended(&ground).await, (RestorePhase::Finalizing, vec![], vec![]));
    assert_eq!(ground.at(CLAIM).unwrap()["spec"], json!({"storageClassName": "fast"}));
    assert_eq!(ground.below("/apis/velero.io/v2alpha1/namespaces/velero/datadownloads/"), Vec::<Value>::new());
    let told = volumes(&ground).await;
    assert_eq!((&told[0]["restoreMethod"], &told[0]["snapshotDataMoved"]), (&"CSISnapshot".into(), &true.into()));
}

#[tokio::test]
async fn a_claim_that_is_not_filled_is_an_error_and_does_not_stay() {
    for (status, why) in [
        (ends("Failed", 1, "no space"), "no space"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "data path pod was evicted, message: , 3 times"),
    ] {
        let ground = with_files(status).await;
        let (phase, _, errors) = ended(&ground).await;
        let error = format!(
            "error restoring persistentvolumeclaims/shop/data: its data is not brought from the repository: {why}; the claim is deleted, \
             so that nothing starts on half of its data; when the reason is gone, run the same command again"
        );
        assert_eq!((phase, errors), (RestorePhase::PartiallyFailed, vec![error]));
        assert_eq!((ground.at(CLAIM), ground.below(SECRETS)), (None, Vec::new()));
        assert!(ground.below(PODS).iter().all(|one| one["metadata"]["name"] == "web"));
    }
}

#[tokio::test]
async fn a_claim_that_is_not_full_in_time_stays_and_waits_for_another_run() {
    let mut ground = with_files(json!({"phase": "Running"})).await;
    let timeout = ("velero.io/pod-volume-timeout".to_owned(), "1s".to_owned());
    ground.request.restore.metadata.annotations.extend([timeout]);
    let (phase, _, errors) = ended(&ground).await;
    let error = "error restoring persistentvolumeclaims/shop/data: its data is not brought from the repository: it has taken longer than 1 s \
                 (velero.io/pod-volume-timeout); the claim is deleted, so that nothing starts on half of its data; when the reason is gone, run the same command \
                 again";
    assert_eq!((phase, errors), (RestorePhase::PartiallyFailed, vec![error.to_owned()]));
    // Its pods start on nothing: they wait for a claim that is not there.
    assert_eq!((ground.at(CLAIM), ground.below(SECRETS)), (None, Vec::<Value>::new()));
    assert!(ground.below(PODS).iter().all(|one| one["metadata"]["name"] == "web"), "{:?}", ground.below(PODS));
}

#[tokio::test]
async fn no_second_mover_starts_while_one_may_write_on_a_lost_node() {
    for (is_ready, expected) in
        [("Unknown", "of which nothing is heard (Kubelet stopped posting node status.)"), ("True", "3 times")]
    {
        let ground = with_files(json!({"phase": "Running"})).await;
        let ready = json!({"type": "Ready", "status": is_ready, "message": "Kubelet stopped posting node status."});
        let node = json!({"status": {"conditions": [ready]}});
        ground.put_at("/api/v1/nodes/n1".to_owned(), object("v1", "Node", "n1", &node));
        ground.react("Pod", |one| {
            one["spec"]["nodeName"] = "n1".into();
            one["status"] = json!({"phase": "Running"});
        });
        // Somebody deletes its pod by force, again and again.
        let lost = async {
            loop {
                tokio::time::sleep(Duration::from_millis(400)).await;
                let movers =
                    ground.below(PODS).into_iter().filter(|one| one["spec"]["containers"][0]["name"] == "mover");
                movers.for_each(|one| ground.remove(&format!("{PODS}{}", one["metadata"]["name"].as_str().unwrap())));
            }
        };
        let errors = tokio::select! {
            (_, _, errors) = ended(&ground) => errors,
            never = lost => never,
        };
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
    }
}

#[tokio::test]
async fn a_claim_that_was_there_before_keeps_what_it_holds() {
    let ground = with_files(ends("Failed", 1, "nothing may be written")).await;
    let claim = json!({"metadata": {"uid": "before"}, "spec": {"volumeName": "pv-1", "storageClassName": "fast"}});
    ground.put(object("v1", "PersistentVolumeClaim", "data", &claim));
    let (phase, _, errors) = ended(&ground).await;
    assert_eq!((phase, errors), (RestorePhase::Completed, vec![]));
    assert!(!writes(&ground).iter().any(|write| write.contains("MOVER")), "{:?}", writes(&ground));
}

#[tokio::test]
async fn a_restore_that_is_cancelled_leaves_no_mover_behind() {
    let ground = with_files(json!({"phase": "Running"})).await;
    let cancel = ground.env.operation.cancel.clone();
    ground.react("Pod", move |one| {
        one["status"] = json!({"phase": "Running"});
        cancel.cancel();
    });
    let outcome = ground.run().await.unwrap();
    assert_eq!(outcome.restore.status.phase, Some(RestorePhase::Failed));
    assert_eq!((ground.below(PODS), ground.below(SECRETS)), (Vec::new(), Vec::new()));
    // The next run fills it.
    assert_eq!(ground.at(CLAIM).unwrap()["metadata"]["annotations"]["lifeboat.io/awaits-files"], "true");
}

#[tokio::test]
async fn movers_that_an_earlier_restore_of_the_name_has_left_are_removed() {
    let ground = with_files(ends("Succeeded", 0, "{}")).await;
    for (name, restore, deadline) in [
        ("left", "r", "2999-01-01T00:00:00Z"),
        ("of-another", "other", "2999-01-01T00:00:00Z"),
        ("dead", "other", "2020-01-01T00:00:00Z"),
    ] {
        let labels = json!({"lifeboat.io/mover-of-restore": restore, "velero.io/restore-uid": "before"});
        let metadata = json!({"labels": labels, "annotations": {"lifeboat.io/mover-deadline": deadline}});
        ground.put(object("v1", "Pod", name, &json!({"metadata": metadata})));
        let secret = json!({"metadata": {"labels": metadata["labels"], "annotations": {"lifeboat.io/mover-deadline": "2999-01-01T00:00:00Z"}}});
        ground.put_at(format!("{SECRETS}{name}"), object("v1", "Secret", name, &secret));
    }
    assert_eq!(ended(&ground).await, (RestorePhase::Finalizing, vec![], vec![]));
    let names: Vec<Value> = ground.below(PODS).into_iter().map(|mut one| one["metadata"]["name"].take()).collect();
    assert_eq!(names, ["of-another", "web"]);
    let names: Vec<Value> = ground.below(SECRETS).into_iter().map(|mut one| one["metadata"]["name"].take()).collect();
    assert_eq!(names, ["of-another"], "a Secret goes with its pod");
}
