//! Brings the volume of a download to its claim, by the steps of [`crate::delivery`].

use crate::agent::act::{Acted, Actor};
use crate::delivery::{DeliveryStep, DeliveryView, begin, mode_of, next_delivery_step};
use crate::exposer::remove::remove_pod;
use crate::kube::{ObjectName, is_owned_by, text, uid};
use crate::outcome::TransferResult;
use crate::resources;
use crate::rules::Ending;
use crate::transfer::{Delivery, RemadeVolume, Transfer, TransferRequest};
use jiff::Timestamp;
use lifeboat_api::{DataPathPhase, TargetVolumeSpec, Time};
use lifeboat_cluster::ClusterError;
use serde_json::Value;
use std::time::Duration;

/// The pause between two steps of a delivery that waits for others.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);

/// The message of a delivery that is given up. The bytes of the volume are whole, so it stays.
fn undelivered(volume: &str, why: &str) -> String {
    format!(
        "error rebinding the restored volume {volume}: {why}; the PersistentVolume {volume} has the restored data and is kept (reclaim policy Retain): bind it to a claim, or delete it"
    )
}

/// The message of a restore whose volume is this one: a file system of another type than that of the backup is told too.
fn told(transfer: &Transfer, volume: &Value, message: &str) -> String {
    let TransferRequest::DataDownload(spec) = &transfer.request else { return message.to_owned() };
    let (asked, made) = (spec.target_volume.fs_type.as_str(), text(volume, &["spec", "csi", "fsType"]));
    // What is restored in blocks has the file system of the backup.
    if asked.is_empty() || made.is_empty() || asked == made || transfer.is_in_blocks() {
        return message.to_owned();
    }
    let other = format!(
        "the file system of the new volume is {made}, as its storage class says, and was {asked} when it was saved"
    );
    [message, &other].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

impl Actor {
    /// Does one step of a delivery.
    pub(super) async fn deliver(
        &self,
        transfer: &Transfer,
        result: &TransferResult,
        since: Timestamp,
    ) -> Result<Acted, ClusterError> {
        let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(Acted::More) };
        let target_spec = &spec.target_volume;
        let own = Some(transfer.meta.namespace.as_str());
        let claim = self.kube.find(&resources::claims(), own, &transfer.meta.name).await?;
        let claim = claim.filter(|claim| is_owned_by(claim, &transfer.meta.uid));
        let Some(delivery) = transfer.delivery() else {
            return self.begin_delivery(transfer, claim.as_ref(), target_spec, result).await;
        };
        let volume = self.kube.find(&resources::volumes(), None, &delivery.volume).await?;
        let remade = match &delivery.remade {
            Some(remade) => self.kube.find(&resources::volumes(), None, &remade.name).await?,
            None => None,
        };
        let current = remade.as_ref().or(volume.as_ref());
        let name = current.map_or(delivery.volume.as_str(), |volume| text(volume, &["metadata", "name"]));
        let target = self.kube.find(&resources::claims(), Some(&target_spec.namespace), &target_spec.pvc).await?;
        let pod = self.kube.find(&resources::pods(), own, &transfer.meta.name).await?;
        let has_pod = pod.is_some_and(|pod| is_owned_by(&pod, &transfer.meta.uid));
        let is_attached = !has_pod && claim.is_some() && self.is_attached(&delivery.volume).await?;
        let step = next_delivery_step(&DeliveryView {
            target_spec,
            delivery: &delivery,
            volume: volume.as_ref(),
            remade: remade.as_ref(),
            restore_claim: claim.as_ref(),
            target: target.as_ref(),
            has_pod,
            is_attached,
        });
        match step {
            DeliveryStep::PatchVolume(patch) => {
                let resource = resources::volumes();
                self.patched(ObjectName { resource: &resource, namespace: None, name }, &patch).await
            }
            DeliveryStep::CreateVolume(made) => {
                let (resource, name) = (resources::volumes(), text(&made, &["metadata", "name"]));
                let of = ObjectName { resource: &resource, namespace: None, name };
                self.kube.create(of, &made).await.map(|_| Acted::More)
            }
            DeliveryStep::RemoveVolume => {
                let resource = resources::volumes();
                let of = ObjectName { resource: &resource, namespace: None, name: &delivery.volume };
                // One that was changed since is looked at again.
                self.kube.delete_as_read(of, volume.as_ref().unwrap_or(&Value::Null)).await.map(|_| Acted::More)
            }
            DeliveryStep::PatchTarget(patch) => {
                let (resource, namespace) = (resources::claims(), Some(target_spec.namespace.as_str()));
                self.patched(ObjectName { resource: &resource, namespace, name: &target_spec.pvc }, &patch).await
            }
            DeliveryStep::RemovePod => {
                if let Some(pod) = self.kube.find(&resources::pods(), own, &transfer.meta.name).await? {
                    self.copy_log(transfer, &pod).await;
                }
                remove_pod(&self.kube, transfer).await.map(|()| Acted::More)
            }
            DeliveryStep::RemoveClaim => {
                let resource = resources::claims();
                let of = ObjectName { resource: &resource, namespace: own, name: &transfer.meta.name };
                self.kube.delete(of, claim.as_ref().map_or("", uid)).await.map(|()| Acted::More)
            }
            DeliveryStep::Wait(reason) => {
                let limit = transfer.at_least_operation_timeout(self.settings.resource_timeout);
                // It counts from the first look of this agent: nobody has waited while there was none.
                match self.now.duration_since(since) >= limit {
                    true => self.fail(transfer, undelivered(name, &reason)).await,
                    false => Ok(Acted::Waits(reason, DELIVERY_PAUSE)),
                }
            }
            DeliveryStep::Done => {
                let (phase, message) = (DataPathPhase::Completed, String::new());
                let result = Some(delivery.result());
                self.end(transfer, &Ending { phase, message, result, has_no_pod: false }).await
            }
            DeliveryStep::Failed(why) => self.fail(transfer, undelivered(name, &why)).await,
        }
    }

    async fn begin_delivery(
        &self,
        transfer: &Transfer,
        claim: Option<&Value>,
        target: &TargetVolumeSpec,
        result: &TransferResult,
    ) -> Result<Acted, ClusterError> {
        let volume = claim.map_or("", |claim| text(claim, &["spec", "volumeName"]));
        let found = match volume {
            "" => None,
            volume => self.kube.find(&resources::volumes(), None, volume).await?,
        };
        let Some(found) = found else {
            let message = format!(
                "error rebinding: the claim {} in which the volume was restored, or its volume, is gone",
                transfer.meta.name
            );
            return self.fail(transfer, message).await;
        };
        let delivery = Delivery {
            volume: volume.to_owned(),
            reclaim_policy: text(&found, &["spec", "persistentVolumeReclaimPolicy"]).to_owned(),
            total_bytes: result.total_bytes,
            files: result.files,
            message: told(transfer, &found, &result.message),
            begun: Time::new(self.now),
            remade: self.remade(transfer, target, &found).await?,
        };
        self.store(transfer, begin(transfer, &delivery)).await
    }

    /// The volume that has to be made of one that was filled as a device, for a claim with a file system.
    async fn remade(
        &self,
        transfer: &Transfer,
        target: &TargetVolumeSpec,
        filled: &Value,
    ) -> Result<Option<RemadeVolume>, ClusterError> {
        let claim = self.kube.find(&resources::claims(), Some(&target.namespace), &target.pvc).await?;
        let Some(claim) = claim.filter(|claim| transfer.is_in_blocks() && mode_of(claim) != mode_of(filled)) else {
            return Ok(None);
        };
        let class = match (target.fs_type.as_str(), text(&claim, &["spec", "storageClassName"])) {
            ("", class) if !class.is_empty() => self.kube.find(&resources::storage_classes(), None, class).await?,
            _ => None,
        };
        // The definitions of Velero 1.18 drop the one of the download.
        let of_class = class.as_ref().map_or("", |class| text(class, &["parameters", "csi.storage.k8s.io/fstype"]));
        let fs_type = if target.fs_type.is_empty() { of_class } else { &target.fs_type };
        Ok(Some(RemadeVolume { name: format!("pvc-{}", transfer.meta.uid), fs_type: fs_type.to_owned() }))
    }

    async fn is_attached(&self, volume: &str) -> Result<bool, ClusterError> {
        let all = self.kube.list(resources::attachments(), None, "", "").await?;
        Ok(all.iter().any(|attachment| text(attachment, &["spec", "source", "persistentVolumeName"]) == volume))
    }

    async fn patched(&self, of: ObjectName<'_>, patch: &Value) -> Result<Acted, ClusterError> {
        match self.kube.patch(of, patch).await {
            Ok(_) => Ok(Acted::More),
            Err(e) if e.is_conflict() => Ok(Acted::Waits("it has changed meanwhile".to_owned(), DELIVERY_PAUSE)),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferKind;
    use serde_json::json;

    #[test]
    fn a_file_system_of_another_type_is_told() {
        let told_of = |asked: &str, made: Value, message: &str| {
            let target = json!({"namespace": "shop", "pvc": "data", "fsType": asked});
            let object = json!({"metadata": {"name": "t"}, "spec": {"targetVolume": target}});
            let transfer = Transfer::parse(TransferKind::DataDownload, object.to_string().as_bytes()).unwrap();
            told(&transfer, &json!({"spec": {"csi": {"fsType": made}}}), message)
        };
        let other =
            "the file system of the new volume is xfs, as its storage class says, and was ext4 when it was saved";
        assert_eq!(told_of("ext4", json!("xfs"), ""), other);
        assert_eq!(told_of("ext4", json!("xfs"), "2 sockets"), format!("2 sockets; {other}"));
        for (asked, made) in [("ext4", json!("ext4")), ("", json!("xfs")), ("ext4", json!(null))] {
            assert_eq!(told_of(asked, made, "2 sockets"), "2 sockets");
        }
    }
}
