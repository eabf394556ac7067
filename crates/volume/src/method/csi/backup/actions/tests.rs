//! Annotations that the actions put on objects, and the objects that they name; the whole path of a snapshot is tested
//! with the backup.

use super::*;

fn secret_of(action: &SecretAction, annotations: &Value) -> Option<ObjectKey> {
    named_secret(&json!({"metadata": {"name": "a", "annotations": annotations}}), action.annotations)
}

#[tokio::test]
async fn classes_and_contents_come_with_the_secret_of_both_their_annotations() {
    let classes = [ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAME, ANNOTATION_SNAPSHOTTER_LIST_SECRET_NAMESPACE];
    let contents = [ANNOTATION_SNAPSHOTTER_SECRET_NAME, ANNOTATION_SNAPSHOTTER_SECRET_NAMESPACE];
    for (annotations, others) in [(classes, contents), (contents, classes)] {
        let action = SecretAction { name: BACKUP_ACTIONS[2], resource: "any", annotations };
        let [name, namespace] = annotations;
        let secret = ObjectKey::new(GroupResource::new("", "secrets"), Some("vault"), "key");
        assert_eq!(secret_of(&action, &json!({name: "key", namespace: "vault"})), Some(secret.clone()));
        assert_eq!(secret_of(&action, &json!({name: "key"})), None);
        assert_eq!(secret_of(&action, &json!({namespace: "vault"})), None);
        assert_eq!(secret_of(&action, &json!({others[0]: "key", others[1]: "vault"})), None);
        assert_eq!(secret_of(&action, &Value::Null), None);

        let object = json!({"metadata": {"name": "a", "annotations": {name: "key", namespace: "vault"}}});
        let mut backup = Backup::default();
        let output = action.execute(BackupItemInput { item: object.clone(), backup: &backup }).await.unwrap();
        let mut annotated = object.clone();
        annotated["metadata"]["annotations"][ANNOTATION_BACKUP_MUST_INCLUDE] = "true".into();
        let expected = BackupItemOutput { additional_items: vec![secret], ..BackupItemOutput::changed(annotated) };
        assert_eq!(output, expected);
        backup.status.phase = Some(BackupPhase::Finalizing);
        let output = action.execute(BackupItemInput { item: object.clone(), backup: &backup }).await.unwrap();
        assert_eq!(output, BackupItemOutput::unchanged(object), "what was saved again has its Secret beside it");
    }
}

#[test]
fn a_snapshot_is_saved_with_its_handle_its_class_and_its_content() {
    let snapshot = json!({"metadata": {"name": "s", "namespace": "shop", "annotations": {"mine": "x"}},
        "spec": {"volumeSnapshotClassName": "class"}});
    let content = SnapshotContent {
        name: "content".to_owned(),
        deletion_policy: "Retain".to_owned(),
        driver: "d".to_owned(),
        handle: "snap-1".to_owned(),
        restore_size: 8 << 20,
        group_handle: "group-1".to_owned(),
        ..SnapshotContent::default()
    };
    let annotated = |annotations: Value| {
        let mut snapshot = snapshot.clone();
        extend(&mut snapshot["metadata"]["annotations"], annotations);
        snapshot
    };
    let item = annotated(json!({
        "velero.io/csi-vsc-deletion-policy": "Retain",
        "velero.io/csi-volumesnapshot-handle": "snap-1",
        "velero.io/csi-driver-name": "d",
        "velero.io/csi-volumesnapshot-restore-size": "8Mi",
        "velero.io/csi-volumegroupsnapshot-handle": "group-1",
        "backup.velero.io/must-include-additional-items": "true",
    }));
    let additional_items =
        vec![key("volumesnapshotclasses", None, "class"), key("volumesnapshotcontents", None, "content")];
    let expected = BackupItemOutput { additional_items, ..BackupItemOutput::changed(item) };
    assert_eq!(with_content(snapshot.clone(), &StandsFor { content, group: None }), expected);

    // One that is not taken yet, without a class.
    let mut plain = snapshot.clone();
    plain["spec"] = json!({});
    let content = SnapshotContent {
        name: "content".to_owned(),
        deletion_policy: "Delete".to_owned(),
        ..SnapshotContent::default()
    };
    let mut item = annotated(json!({"velero.io/csi-vsc-deletion-policy": "Delete",
        "backup.velero.io/must-include-additional-items": "true"}));
    item["spec"] = json!({});
    let additional_items = vec![key("volumesnapshotcontents", None, "content")];
    let expected = BackupItemOutput { additional_items, ..BackupItemOutput::changed(item) };
    assert_eq!(with_content(plain, &StandsFor { content, group: None }), expected);
}

fn extend(into: &mut Value, more: Value) {
    let Value::Object(more) = more else { panic!("an object") };
    into.as_object_mut().unwrap().extend(more);
}
