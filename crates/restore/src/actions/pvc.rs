//! `velero.io/pvc`: lets a claim be bound anew, after its volume.

use super::edit::{remove_keys, text};
use super::known;
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::well_known::{ANNOTATION_DATA_UPLOAD_NAME, LABEL_VOLUME_SNAPSHOT_NAME};

/// Annotations that the old cluster and the backup have put on the claim.
const ANNOTATIONS: [&str; 7] = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    LABEL_VOLUME_SNAPSHOT_NAME,
    ANNOTATION_DATA_UPLOAD_NAME,
];

/// Removes notes of the old binding and asks for the volume of a claim that was bound (velero: pkg/restore/actions).
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mut item = input.item;
    remove_keys(&mut item, "/metadata", "annotations", &ANNOTATIONS);
    // The status is gone from the item itself.
    let backup = input.item_from_backup;
    let volume = text(&backup["spec"], "volumeName");
    let is_bound = text(&backup["status"], "phase") == "Bound" && !volume.is_empty();
    let additional_items = if is_bound { vec![known::volume(volume)] } else { Vec::new() };
    Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, run_from};
    use super::*;
    use lifeboat_api::Restore;
    use serde_json::{Value, json};

    fn claim(annotations: &Value, spec: &Value) -> Value {
        json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "shop", "annotations": annotations}, "spec": spec})
    }

    #[test]
    fn notes_of_the_old_binding_go() {
        let all: Value =
            ANNOTATIONS.iter().map(|a| ((*a).to_owned(), json!("x"))).collect::<serde_json::Map<_, _>>().into();
        let mut more = all.clone();
        more["note"] = json!("mine");
        let output = run(restore, &claim(&more, &json!({}))).unwrap();
        assert_eq!(output, RestoreItemOutput::with(claim(&json!({"note": "mine"}), &json!({}))));
        let output = run(restore, &claim(&all, &json!({}))).unwrap();
        let bare = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "shop"}, "spec": {}});
        assert_eq!(output, RestoreItemOutput::with(bare));
        let odd = claim(&json!(["pv.kubernetes.io/bind-completed"]), &json!("odd"));
        assert_eq!(run(restore, &odd).unwrap(), RestoreItemOutput::with(odd));
    }

    #[test]
    fn a_claim_that_was_bound_asks_for_its_volume() {
        let item = claim(&json!({"a": "b"}), &json!({"volumeName": "changed"}));
        let cases = [
            (json!({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}), vec![known::volume("pv-1")]),
            (json!({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Lost"}}), vec![]),
            (json!({"spec": {"volumeName": "pv-1"}}), vec![]),
            (json!({"spec": {}, "status": {"phase": "Bound"}}), vec![]),
            (json!({"spec": {"volumeName": ""}, "status": {"phase": "Bound"}}), vec![]),
            (json!({"spec": {"volumeName": 5}, "status": {"phase": "Bound"}}), vec![]),
        ];
        for (backup, additional_items) in cases {
            let output = run_from(restore, &item, &backup, &Restore::default()).unwrap();
            assert_eq!(output, RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item.clone()) });
        }
    }
}
