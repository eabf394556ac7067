//! Whole restores from backups that never came to their end.

use super::tests::messages;
use crate::end::outcome::RestoreError;
use crate::stub::{RestoreFixture, Scripted, config_map, object};
use lifeboat_action::RestoreItemOutput;
use lifeboat_api::{BackupPhase, RestorePhase};
use lifeboat_archive::layout::BackupFile;
use lifeboat_object::Results;
use serde_json::{Value, json};
use std::sync::Arc;

/// Volume and claim of this name in the namespace `shop`.
fn volume_with_claim(name: &str) -> [Value; 2] {
    let claim = json!({"kind": "PersistentVolumeClaim", "namespace": "shop", "name": name});
    let spec = json!({"persistentVolumeReclaimPolicy": "Delete", "claimRef": claim});
    let volume = json!({"metadata": {"namespace": null}, "spec": spec});
    let claim = json!({"spec": {"volumeName": name}, "status": {"phase": "Bound"}});
    [object("v1", "PersistentVolume", name, &volume), object("v1", "PersistentVolumeClaim", name, &claim)]
}

/// A backup of a ConfigMap and two claims, whose operations go on: one snapshot is ready, and the data of the other claim is being moved.
async fn ground(phase: BackupPhase) -> RestoreFixture {
    let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let objects =
        [vec![namespace, config_map("a")], volume_with_claim("ready").into(), volume_with_claim("moved").into()];
    let info = |name: &str, more: Value| {
        let mut info = json!({"pvcName": name, "pvcNamespace": "shop", "pvName": name, "backupMethod": "CSISnapshot"});
        lifeboat_patch::merge(&mut info, &more);
        info
    };
    let ready = json!({"csiSnapshotInfo": {"snapshotHandle": "h", "operationID": "op-ready"}});
    let moved = json!({"snapshotDataMoved": true, "snapshotDataMovementInfo": {"dataMover": "velero", "operationID": "op-moved"}});
    let operation = |id: &str, phase: &str| {
        let item = json!({"Group": "", "Resource": "persistentvolumeclaims", "Namespace": "shop", "Name": id});
        json!({"spec": {"backupItemAction": "velero.io/csi-pvc-backupper", "resourceIdentifier": item, "operationID": id},
            "status": {"phase": phase}})
    };
    let files = [
        (BackupFile::VolumeInfo, json!([info("ready", ready), info("moved", moved)])),
        (BackupFile::ItemOperations, json!([operation("op-ready", "Completed"), operation("op-moved", "InProgress")])),
    ];
    let ground = RestoreFixture::with_files(&objects.concat(), &files, &action).await;
    let mut record = ground.env.store.backup("b").await.unwrap();
    record.status.phase = Some(phase);
    record.metadata.namespace = "velero".to_owned();
    ground.env.store.replace_record(&record).await.unwrap();
    ground
}

fn never_ended(results: &Results) -> Vec<String> {
    let [warnings, _] = messages(results);
    warnings.into_iter().filter(|warning| warning.contains("never came to its end")).collect()
}

#[tokio::test]
async fn a_backup_that_waits_for_a_lost_cluster_is_restored_with_the_reasons() {
    use BackupPhase as P;
    for phase in [
        P::WaitingForPluginOperations,
        P::WaitingForPluginOperationsPartiallyFailed,
        P::Finalizing,
        P::FinalizingPartiallyFailed,
    ] {
        let ground = ground(phase).await;
        let outcome = ground.run().await.unwrap();
        let [_, errors] = messages(&outcome.results);
        let text = format!(
            "the backup b never came to its end (phase {}): 1 operation of it has not ended, and what they were to save is not in it: \
             velero.io/csi-pvc-backupper of persistentvolumeclaims shop/op-moved (op-moved)",
            phase.as_str()
        );
        assert_eq!(never_ended(&outcome.results), [text]);
        let why = "its data was not saved when the backup was made: it was being moved into a repository, and the backup does not say what \
                   lies there, because its operation op-moved had not ended";
        assert!(
            errors.iter().any(|error| error.contains("shop/moved: held back") && error.contains(why)),
            "{errors:?}"
        );
        assert_eq!(outcome.restore.status.phase, Some(RestorePhase::PartiallyFailed));
        assert!(ground.config_map("a").is_some());
        assert_eq!(ground.at("/api/v1/namespaces/shop/persistentvolumeclaims/moved"), None);
    }
}

#[tokio::test]
async fn a_backup_that_its_own_cluster_still_makes_is_no_source_yet() {
    let ground = ground(BackupPhase::WaitingForPluginOperations).await;
    let path = "/apis/velero.io/v1/namespaces/velero/backups/b";
    let here = |phase: &str| {
        let metadata = json!({"name": "b", "namespace": "velero"});
        ground.put(
            json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata, "status": {"phase": phase}}),
        );
        ground.change_at(path, |found| found["metadata"]["uid"] = "b".into());
    };
    here("WaitingForPluginOperations");
    let Err(RestoreError::Invalid(why)) = ground.run().await else { panic!("it is refused") };
    assert_eq!(
        why.0,
        [
            "backup \"b\" is still being made in this cluster (phase WaitingForPluginOperations), and cannot be used as a restore source until \
             it has ended"
        ]
    );
    assert_eq!(ground.config_map("a"), None);
    // One of another UID was taken over from the bucket, and one that has ended is not made any more.
    ground.change_at(path, |found| found["metadata"]["uid"] = "another".into());
    assert_eq!(never_ended(&ground.run().await.unwrap().results).len(), 1);
}
