//! The PersistentVolumes that storage makes for the claims of transfers. Pure.

use crate::kube::{text, uid};
use crate::transfer::Transfer;
use jiff::Timestamp;
use lifeboat_api::Time;
use serde_json::{Value, json};

/// On PersistentVolumes: the provisioner that has made it. Those that an administrator makes have none.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Returns true if a volume was made by a provisioner since the transfer exists. Any other was there before, and its bytes are somebody's.
fn is_made_for(transfer: &Transfer, volume: &Value) -> bool {
    let is_provisioned = !text(volume, &["metadata", "annotations", PROVISIONED_BY]).is_empty();
    let made = text(volume, &["metadata", "creationTimestamp"]).parse::<Timestamp>().ok();
    let asked = transfer.meta.creation_timestamp.map(Time::timestamp);
    is_provisioned && made.zip(asked).is_some_and(|(made, asked)| made >= asked)
}

/// Returns true if a volume is bound to, or was released by, the claim of a transfer.
pub(crate) fn is_of_claim(volume: &Value, transfer: &Transfer) -> bool {
    let claim = &volume["spec"]["claimRef"];
    claim["namespace"] == *transfer.meta.namespace && claim["name"] == *transfer.meta.name
}

/// The patch of this very version of a volume by which it goes with its claim, whatever the storage class says; `None` where it does, and
/// where it was not made for the transfer.
pub(crate) fn deletion_patch(transfer: &Transfer, volume: &Value, claim: &Value) -> Option<Value> {
    let is_bound = volume["spec"]["claimRef"]["uid"] == uid(claim);
    let needs_it = is_bound && is_made_for(transfer, volume) && policy_of(volume) != "Delete";
    needs_it.then(|| with_policy(volume, "Delete"))
}

/// The reclaim policy of a volume.
pub(crate) fn policy_of(volume: &Value) -> &str {
    text(volume, &["spec", "persistentVolumeReclaimPolicy"])
}

/// The patch of this very version of a volume that gives it a reclaim policy.
pub(crate) fn with_policy(volume: &Value, policy: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": volume["metadata"]["resourceVersion"]},
        "spec": {"persistentVolumeReclaimPolicy": policy},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferKind;

    fn transfer() -> Transfer {
        let spec = json!({
            "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "backupStorageLocation": "default",
            "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "10m0s",
        });
        let metadata = json!({"name": "dd", "namespace": "velero", "creationTimestamp": "2026-11-28T12:00:00Z"});
        let object =
            json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": metadata, "spec": spec});
        Transfer::parse(TransferKind::DataDownload, object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn only_a_volume_that_was_provisioned_for_a_transfer_goes_with_its_claim() {
        let claim = json!({"metadata": {"uid": "c"}});
        let volume = |by: &str, made: &str, policy: &str, claim: &str| {
            json!({
                "metadata": {"resourceVersion": "5", "creationTimestamp": made, "annotations": {PROVISIONED_BY: by}},
                "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"uid": claim}},
            })
        };
        let patch = json!({"metadata": {"resourceVersion": "5"}, "spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        for (volume, expected) in [
            (volume("d", "2026-11-28T12:00:00Z", "Retain", "c"), Some(patch)),
            (volume("d", "2026-11-28T12:00:00Z", "Delete", "c"), None),
            // Another claim has it.
            (volume("d", "2026-11-28T12:00:00Z", "Retain", "other"), None),
            // An administrator has made it, or it was there before.
            (volume("", "2026-11-28T12:00:00Z", "Retain", "c"), None),
            (volume("d", "2026-11-28T11:59:59Z", "Retain", "c"), None),
            (volume("d", "", "Retain", "c"), None),
        ] {
            assert_eq!(deletion_patch(&transfer(), &volume, &claim), expected, "{volume}");
        }
    }
}
