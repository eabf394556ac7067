//! Brings the volume of a download to its claim, by the steps of [`crate::delivery`].

use crate::agent::act::{Acted, Actor};
use crate::agent::patch::{self, joined};
use crate::delivery::{
    DeliveryStep, DeliveryView, KEPT, begin, has_restored_data, mode_of, next_delivery_step, remade_volume,
};
use crate::exposer::remove::remove_pod;
use crate::fs_type::KnownTypes;
use crate::kube::{ObjectName, is_owned_by, text, uid};
use crate::outcome::TransferResult;
use crate::resources;
use crate::rules::Ending;
use crate::transfer::{Delivery, RemadeVolume, Transfer, TransferRequest};
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_api::well_known::{ANNOTATION_DELIVERY, ANNOTATION_TARGET_CLAIM_UID};
use lifeboat_api::{DataPathPhase, TargetVolumeSpec, Time};
use lifeboat_cluster::ClusterError;
use serde_json::Value;
use std::time::Duration;

/// The pause between two steps of a delivery that waits for others.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);

/// The beginning of the message about a step that the cluster refuses.
const REFUSED: &str = "the restored volume cannot be brought to its claim yet";
/// The pause after a step that the cluster has refused.
const REFUSAL_PAUSE: Duration = Duration::from_secs(10);

/// The objects of a delivery as they were read.
struct DeliveryObjects {
    volume: Option<Value>,
    remade: Option<Value>,
    restore_claim: Option<Value>,
    target: Option<Value>,
    pod: Option<Value>,
    is_attached: bool,
}

/// A delivery that was begun, and its objects.
struct SeenDelivery {
    delivery: Delivery,
    objects: DeliveryObjects,
}

/// The result of a look at a delivery.
enum Looked {
    Seen(Box<SeenDelivery>),
    /// Something was written down, and the next look goes on.
    Acted(Acted),
}

impl DeliveryObjects {
    fn view<'a>(
        &'a self,
        transfer: &'a Transfer,
        target_spec: &'a TargetVolumeSpec,
        delivery: &'a Delivery,
    ) -> DeliveryView<'a> {
        // A restore that begins again gives the download to the claim that it has made anew.
        let named = transfer.meta.annotations.get(ANNOTATION_TARGET_CLAIM_UID);
        DeliveryView {
            target_spec,
            delivery,
            target_uid: named.unwrap_or(&delivery.target_uid),
            volume: self.volume.as_ref(),
            remade: self.remade.as_ref(),
            restore_claim: self.restore_claim.as_ref(),
            target: self.target.as_ref(),
            has_pod: self.pod.is_some(),
            is_attached: self.is_attached,
        }
    }
}

/// The volume that replaces one that was filled as a device.
struct PlannedVolume {
    volume: RemadeVolume,
    /// Its difference from the storage class, for people; empty for none.
    difference: String,
}

/// The answer to an error of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterError {
    GiveUp,
    Tell,
    TryAgain,
}

/// Finds what follows on an error. One of the server itself does not always pass, as where a webhook is away.
fn after_error(error: &ClusterError, is_late: bool, is_creation: bool) -> AfterError {
    let is_answer = error.status().is_some_and(|status| status.code != 429) && !error.is_conflict();
    match error.can_pass() || error.is_conflict() {
        _ if is_late && is_answer => AfterError::GiveUp,
        // Until the volume is made no PersistentVolume names the restored bytes.
        true if is_creation && is_answer => AfterError::Tell,
        true => AfterError::TryAgain,
        false => AfterError::Tell,
    }
}

/// Returns true if a webhook knows no dry runs. A denial of a webhook has the code 400 too, where it names no other.
fn knows_no_dry_runs(error: &ClusterError) -> bool {
    error.status().is_some_and(|status| status.code == 400 && status.message.contains("does not support dry run"))
}

/// The message of a delivery that is given up. The bytes of the volume are whole, so the PersistentVolumes of it stay.
fn undelivered(volume: &str, why: &str, kept: &[&str]) -> String {
    let given_up = format!("error rebinding the restored volume {volume}: {why}");
    match kept {
        [] => given_up,
        [one] => format!("{given_up}; {}{KEPT}", has_restored_data(one)),
        several => format!(
            "{given_up}; the PersistentVolumes {}, of one volume in the storage, have the restored data and are kept (reclaim policy Retain): \
             delete all but one, remove its spec.claimRef and name it in spec.volumeName of a claim",
            several.join(" and ")
        ),
    }
}

/// The message of a restore whose volume is this one: a file system of another type than that of the backup is told
/// too.
fn with_file_system(transfer: &Transfer, volume: &Value, message: &str) -> String {
    let TransferRequest::DataDownload(spec) = &transfer.request else { return message.to_owned() };
    let (asked, made) = (spec.target_volume.fs_type.as_str(), text(volume, &["spec", "csi", "fsType"]));
    // What is restored in blocks has the file system of the backup.
    if asked.is_empty() || made.is_empty() || asked == made || transfer.is_in_blocks() {
        return message.to_owned();
    }
    let other = format!(
        "the file system of the new volume is {made}, as its storage class says, and was {asked} when it was saved"
    );
    joined(message, &other)
}

impl Actor {
    /// Does one step of a delivery.
    pub(super) async fn deliver(
        &self,
        transfer: &Transfer,
        result: &TransferResult,
        since: Timestamp,
    ) -> Result<Acted, ClusterError> {
        let limit = transfer.at_least_operation_timeout(self.settings.resource_timeout);
        // It counts from the first look of this agent: nobody has waited while there was none.
        let is_late = self.now.duration_since(since) >= limit;
        let seen = match self.look(transfer, result).await {
            Ok(Looked::Seen(seen)) => seen,
            Ok(Looked::Acted(acted)) => return Ok(acted),
            Err(e) => return self.after_look(transfer, e, is_late).await,
        };
        let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(Acted::More) };
        let SeenDelivery { delivery, objects } = *seen;
        let view = objects.view(transfer, &spec.target_volume, &delivery);
        let step = next_delivery_step(&view);
        let is_creation = matches!(step, DeliveryStep::CreateVolume(_));
        match step {
            DeliveryStep::Wait(reason) if is_late => self.give_up(transfer, &view, &reason).await,
            DeliveryStep::Wait(reason) => Ok(Acted::Waits(reason, DELIVERY_PAUSE)),
            DeliveryStep::Failed(why) => self.give_up(transfer, &view, &why).await,
            step => match self.perform_delivery(transfer, &objects, &delivery, step).await {
                Err(e) => match after_error(&e, is_late, is_creation) {
                    AfterError::GiveUp => self.give_up(transfer, &view, &e.to_string()).await,
                    AfterError::Tell => self.note_refusal(transfer, &e).await,
                    AfterError::TryAgain => Err(e),
                },
                done => done,
            },
        }
    }

    /// Reads what there is of a delivery, and writes down what is not written yet.
    async fn look(&self, transfer: &Transfer, result: &TransferResult) -> Result<Looked, ClusterError> {
        let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(Looked::Acted(Acted::More)) };
        let Some(delivery) = transfer.delivery() else {
            return self.begin_delivery(transfer, &spec.target_volume, result).await.map(Looked::Acted);
        };
        let objects = self.objects_of(transfer, &spec.target_volume, &delivery).await?;
        if let Some(planned) = self.find_missing_remade(transfer, &objects, &delivery).await? {
            let message = joined(&delivery.message, &planned.difference);
            let delivery = Delivery { remade: Some(planned.volume), message, ..delivery };
            return self.store(transfer, begin(transfer, &delivery)).await.map(Looked::Acted);
        }
        Ok(Looked::Seen(Box::new(SeenDelivery { delivery, objects })))
    }

    /// Does what follows on an error of a look.
    async fn after_look(&self, transfer: &Transfer, error: ClusterError, is_late: bool) -> Result<Acted, ClusterError> {
        match (after_error(&error, is_late, false), transfer.delivery()) {
            (AfterError::GiveUp, Some(delivery)) => {
                self.fail(transfer, undelivered(&delivery.volume, &error.to_string(), &[])).await
            }
            // Without a delivery nothing keeps the volume when the claim in which it was filled goes.
            (AfterError::GiveUp | AfterError::Tell, _) => self.note_refusal(transfer, &error).await,
            (AfterError::TryAgain, _) => Err(error),
        }
    }

    async fn perform_delivery(
        &self,
        transfer: &Transfer,
        objects: &DeliveryObjects,
        delivery: &Delivery,
        step: DeliveryStep,
    ) -> Result<Acted, ClusterError> {
        let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(Acted::More) };
        let (volumes, claims) = (resources::volumes(), resources::claims());
        let own = Some(transfer.meta.namespace.as_str());
        match step {
            DeliveryStep::PatchVolume(patch) => {
                let current = objects.remade.as_ref().or(objects.volume.as_ref());
                let name = current.map_or(delivery.volume.as_str(), |volume| text(volume, &["metadata", "name"]));
                self.patched(ObjectName { resource: &volumes, namespace: None, name }, &patch).await
            }
            DeliveryStep::CreateVolume(made) => self.create_volume(&made).await.map(|()| Acted::More),
            DeliveryStep::RemoveVolume => self.remove_volume(transfer, objects, delivery).await,
            DeliveryStep::PatchTarget(patch) => {
                let namespace = Some(spec.target_volume.namespace.as_str());
                self.patched(ObjectName { resource: &claims, namespace, name: &spec.target_volume.pvc }, &patch).await
            }
            DeliveryStep::RemovePod => {
                if let Some(pod) = &objects.pod {
                    self.copy_log(transfer, pod).await;
                }
                remove_pod(&self.kube, transfer).await.map(|()| Acted::More)
            }
            DeliveryStep::RemoveClaim => {
                let of = ObjectName { resource: &claims, namespace: own, name: &transfer.meta.name };
                self.kube.delete(of, objects.restore_claim.as_ref().map_or("", uid)).await.map(|()| Acted::More)
            }
            DeliveryStep::Done => {
                let (phase, message) = (DataPathPhase::Completed, String::new());
                let result = Some(delivery.result());
                self.end(transfer, &Ending { phase, message, result, has_no_pod: false }).await
            }
            DeliveryStep::Wait(_) | DeliveryStep::Failed(_) => Ok(Acted::More),
        }
    }

    async fn objects_of(
        &self,
        transfer: &Transfer,
        target: &TargetVolumeSpec,
        delivery: &Delivery,
    ) -> Result<DeliveryObjects, ClusterError> {
        let (own, name) = (Some(transfer.meta.namespace.as_str()), transfer.meta.name.as_str());
        let is_own = |object: &Value| is_owned_by(object, &transfer.meta.uid);
        let volume = self.kube.find(&resources::volumes(), None, &delivery.volume).await?;
        let remade = match &delivery.remade {
            Some(remade) => self.kube.find(&resources::volumes(), None, &remade.name).await?,
            None => None,
        };
        let restore_claim = self.kube.find(&resources::claims(), own, name).await?.filter(is_own);
        let target = self.kube.find(&resources::claims(), Some(&target.namespace), &target.pvc).await?;
        let pod = self.kube.find(&resources::pods(), own, name).await?.filter(is_own);
        let is_attached = pod.is_none() && restore_claim.is_some() && self.is_attached(&delivery.volume).await?;
        Ok(DeliveryObjects { volume, remade, restore_claim, target, pod, is_attached })
    }

    /// Removes the volume that was filled, once the cluster says that it takes the one that replaces it.
    async fn remove_volume(
        &self,
        transfer: &Transfer,
        objects: &DeliveryObjects,
        delivery: &Delivery,
    ) -> Result<Acted, ClusterError> {
        let volumes = resources::volumes();
        if let (Some(remade), None) = (&delivery.remade, &objects.remade) {
            let body = Bytes::from(remade.manifest.to_string());
            match self.kube.0.dry_run_create(&volumes, None, &remade.name, body).await {
                Err(e) if !e.is_already_exists() && !knows_no_dry_runs(&e) => return Err(e),
                Ok(_) | Err(_) => {}
            }
        }
        if !self.goes_on(transfer).await? {
            return Ok(Acted::Waits("it has ended meanwhile".to_owned(), DELIVERY_PAUSE));
        }
        let of = ObjectName { resource: &volumes, namespace: None, name: &delivery.volume };
        // One that was changed since is looked at again.
        self.kube.delete_as_read(of, objects.volume.as_ref().unwrap_or(&Value::Null)).await?;
        Ok(Acted::More)
    }

    async fn create_volume(&self, made: &Value) -> Result<(), ClusterError> {
        let (resource, name) = (resources::volumes(), text(made, &["metadata", "name"]));
        self.kube.create(ObjectName { resource: &resource, namespace: None, name }, made).await.map(drop)
    }

    /// Tells about a step that the cluster refuses, and tries it again later.
    async fn note_refusal(&self, transfer: &Transfer, error: &ClusterError) -> Result<Acted, ClusterError> {
        if error.is_conflict() || transfer.message.starts_with(REFUSED) {
            return Ok(Acted::Waits(format!("{REFUSED}: {error}"), REFUSAL_PAUSE));
        }
        self.store(transfer, patch::note(transfer, &format!("{REFUSED}: {error}"))).await
    }

    /// Ends a delivery. The restored bytes have a PersistentVolume then.
    async fn give_up(&self, transfer: &Transfer, view: &DeliveryView<'_>, why: &str) -> Result<Acted, ClusterError> {
        let filled = &view.delivery.volume;
        let mut kept = view.volumes();
        if let Some(made) = view.volume_to_keep() {
            match self.create_volume(made).await {
                Ok(()) => kept.push(text(made, &["metadata", "name"])),
                Err(e) if e.can_pass() && e.status().is_some() => return self.note_refusal(transfer, &e).await,
                Err(e) if e.can_pass() => return Err(e),
                Err(e) => {
                    let csi = &made["spec"]["csi"];
                    let why = format!(
                        "{why}; no PersistentVolume has the restored data any more, because none could be made: {e}; it is in the volume {} of \
                         the driver {}: make the PersistentVolume that the annotation {ANNOTATION_DELIVERY} has, or delete the volume in the storage",
                        text(csi, &["volumeHandle"]),
                        text(csi, &["driver"])
                    );
                    return self.fail(transfer, undelivered(filled, &why, &[])).await;
                }
            }
        }
        self.fail(transfer, undelivered(filled, why, &kept)).await
    }

    /// The volume that has to be made of the filled one, where the agent that began the delivery has not written it
    /// down.
    async fn find_missing_remade(
        &self,
        transfer: &Transfer,
        objects: &DeliveryObjects,
        delivery: &Delivery,
    ) -> Result<Option<PlannedVolume>, ClusterError> {
        let is_written = delivery.remade.as_ref().is_some_and(|remade| remade.manifest.is_object());
        match (&objects.volume, &objects.target) {
            (Some(volume), Some(target)) if !is_written && objects.remade.is_none() => {
                // The agent that began the delivery has not written down what the mover found.
                self.find_remade(transfer, target, volume, "").await
            }
            _ => Ok(None),
        }
    }

    async fn begin_delivery(
        &self,
        transfer: &Transfer,
        target: &TargetVolumeSpec,
        result: &TransferResult,
    ) -> Result<Acted, ClusterError> {
        let own = Some(transfer.meta.namespace.as_str());
        let claim = self.kube.find(&resources::claims(), own, &transfer.meta.name).await?;
        let claim = claim.filter(|claim| is_owned_by(claim, &transfer.meta.uid));
        let volume = claim.as_ref().map_or("", |claim| text(claim, &["spec", "volumeName"]));
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
        let target = self.kube.find(&resources::claims(), Some(&target.namespace), &target.pvc).await?;
        let wanted_uid = transfer.meta.annotations.get(ANNOTATION_TARGET_CLAIM_UID).map(String::as_str);
        let planned = match &target {
            Some(target) => self.find_remade(transfer, target, &found, &result.fs_type).await?,
            None => None,
        };
        let difference = planned.as_ref().map_or("", |planned| planned.difference.as_str());
        let delivery = Delivery {
            volume: volume.to_owned(),
            reclaim_policy: text(&found, &["spec", "persistentVolumeReclaimPolicy"]).to_owned(),
            total_bytes: result.total_bytes,
            files: result.files,
            message: joined(&with_file_system(transfer, &found, &result.message), difference),
            begun: Time::new(self.now),
            // Velero's downloads do not say it.
            target_uid: wanted_uid.or(target.as_ref().map(uid)).unwrap_or_default().to_owned(),
            remade: planned.map(|planned| planned.volume),
        };
        self.store(transfer, begin(transfer, &delivery)).await
    }

    /// The volume that has to be made of one that was filled as a device, for a claim with a file system; the mover has
    /// found one of this type on it.
    async fn find_remade(
        &self,
        transfer: &Transfer,
        target: &Value,
        filled: &Value,
        found: &str,
    ) -> Result<Option<PlannedVolume>, ClusterError> {
        let TransferRequest::DataDownload(spec) = &transfer.request else { return Ok(None) };
        if !transfer.is_in_blocks() || mode_of(target) == mode_of(filled) {
            return Ok(None);
        }
        let class = match text(target, &["spec", "storageClassName"]) {
            "" => None,
            class => self.kube.find(&resources::storage_classes(), None, class).await?,
        };
        let known = KnownTypes { found, asked: &spec.target_volume.fs_type, class: class.as_ref() };
        let volume = remade_volume(filled, target, format!("pvc-{}", transfer.meta.uid), known.chosen());
        let difference = known.difference(&volume.manifest);
        Ok(Some(PlannedVolume { volume, difference }))
    }

    async fn is_attached(&self, volume: &str) -> Result<bool, ClusterError> {
        let all = self.kube.list(resources::attachments(), None, "", "").await?;
        Ok(all.iter().any(|attachment| text(attachment, &["spec", "source", "persistentVolumeName"]) == volume))
    }

    async fn patched(&self, of: ObjectName<'_>, patch: &Value) -> Result<Acted, ClusterError> {
        match self.kube.patch(of, patch).await {
            Ok(_) => Ok(Acted::More),
            Err(e) if e.is_conflict() || e.is_not_found() => {
                Ok(Acted::Waits("it has changed meanwhile".to_owned(), DELIVERY_PAUSE))
            }
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferKind;
    use lifeboat_cluster::{ApiStatus, Failure};
    use serde_json::json;

    #[test]
    fn a_step_that_the_cluster_refuses_is_told_and_given_up_in_the_end() {
        let error = |code: u16, reason: &str| ClusterError {
            verb: "create",
            what: "persistentvolumes pvc-1".to_owned(),
            failure: Failure::Api(Box::new(ApiStatus { code, reason: reason.to_owned(), ..ApiStatus::default() })),
        };
        for (code, reason, early, late) in [
            (403, "Forbidden", AfterError::Tell, AfterError::GiveUp),
            (422, "Invalid", AfterError::Tell, AfterError::GiveUp),
            (500, "InternalError", AfterError::TryAgain, AfterError::GiveUp),
            (429, "TooManyRequests", AfterError::TryAgain, AfterError::TryAgain),
            (409, "Conflict", AfterError::TryAgain, AfterError::TryAgain),
        ] {
            let error = error(code, reason);
            assert_eq!([false, true].map(|is_late| after_error(&error, is_late, false)), [early, late], "{code}");
            // A volume that is missing is told of at once.
            let early = if code == 500 { AfterError::Tell } else { early };
            assert_eq!([false, true].map(|is_late| after_error(&error, is_late, true)), [early, late], "{code}");
        }
    }

    #[test]
    fn a_denial_is_no_webhook_without_dry_runs() {
        for (code, message, expected) in [
            (400, "admission webhook \"a.b\" does not support dry run", true),
            (400, "admission webhook \"a.b\" denied the request: no", false),
            (403, "admission webhook \"a.b\" does not support dry run", false),
            (400, "", false),
        ] {
            let status = ApiStatus { code, message: message.to_owned(), ..ApiStatus::default() };
            let failure = Failure::Api(Box::new(status));
            let error = ClusterError { verb: "create", what: "persistentvolumes pvc-1".to_owned(), failure };
            assert_eq!(knows_no_dry_runs(&error), expected, "{code} {message}");
        }
    }

    #[test]
    fn a_delivery_that_is_given_up_names_every_volume_that_has_the_data() {
        let told = |kept: &[&str]| undelivered("pv-1", "why", kept);
        assert_eq!(told(&[]), "error rebinding the restored volume pv-1: why");
        let both = "error rebinding the restored volume pv-1: why; the PersistentVolumes pv-1 and pvc-2, of one volume in the storage, have the restored data and are kept (reclaim policy Retain): delete all but one, remove its spec.claimRef and name it in spec.volumeName of a claim";
        assert_eq!(told(&["pv-1", "pvc-2"]), both);
    }

    #[test]
    fn a_file_system_of_another_type_is_told() {
        let told_of = |asked: &str, made: Value, message: &str| {
            let target = json!({"namespace": "shop", "pvc": "data", "fsType": asked});
            let object = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": {"name": "t"}, "spec": {"targetVolume": target}});
            let transfer = Transfer::parse(TransferKind::DataDownload, object.to_string().as_bytes()).unwrap();
            with_file_system(&transfer, &json!({"spec": {"csi": {"fsType": made}}}), message)
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
