//! Makes what a transfer needs: the claims, then the pod.

use crate::exposer::claim::{SELECTED_NODE, restore_claim};
use crate::exposer::common::Exposer;
use crate::exposer::error::ExposeError;
use crate::exposer::make::ensure;
use crate::exposer::placement::{AllowedNodes, Placement};
use crate::exposer::pod::{MoverVolume, PodParts};
use crate::host_path::{HostPathError, directory_of, find, on_the_node};
use crate::kube::{text, uid};
use crate::resources;
use crate::transfer::{Transfer, TransferRequest};
use lifeboat_api::{ObjectReference, TargetVolumeSpec};
use lifeboat_volume::facts::claim_of_volume;
use lifeboat_volume::mover_pod::MoverPlacement;
use serde_json::Value;

impl Exposer<'_> {
    /// Makes the claims and the pod of a transfer; what is there already is taken.
    pub(crate) async fn expose(&self, transfer: &Transfer) -> Result<(), ExposeError> {
        match &transfer.request {
            TransferRequest::PodVolumeRestore(spec) => self.pod_volume(transfer, &spec.pod, &spec.volume).await,
            TransferRequest::PodVolumeBackup(spec) => self.pod_volume(transfer, &spec.pod, &spec.volume).await,
            TransferRequest::DataDownload(spec) => self.download(transfer, &spec.target_volume).await,
            TransferRequest::DataUpload(spec) => Box::pin(self.upload(transfer, spec)).await,
        }
    }

    async fn pod_volume(
        &self,
        transfer: &Transfer,
        of: &ObjectReference,
        volume_name: &str,
    ) -> Result<(), ExposeError> {
        let template = self.template(transfer.node_os()).await?;
        let host_root = template.host_pods().ok_or(HostPathError::NoHostPath)?;
        let (namespace, name) = (&of.namespace, &of.name);
        let pod = self.kube.find(&resources::pods(), Some(namespace), name).await?;
        let pod = pod.filter(|pod| uid(pod) == of.uid);
        let pod = pod.ok_or_else(|| ExposeError::Refused(format!("the pod {namespace}/{name} is gone")))?;
        let persistent = self.persistent_volume_of(&pod, volume_name).await?;
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let volume = volumes.into_iter().find(|volume| volume["name"] == volume_name);
        let volume = volume.ok_or_else(|| HostPathError::NoVolume(volume_name.to_owned()))?;
        let directory = directory_of(volume, persistent.as_ref());
        let path = find(&self.settings.host_root, &of.uid, &directory)?;
        let path = on_the_node(&path, &self.settings.host_root, host_root);
        let volume = MoverVolume::HostPath(path.to_string_lossy().into_owned());
        let node = text(&pod, &["spec", "nodeName"]);
        // Only restores read contents of the repository again.
        let cache = match transfer.kind.is_backup() {
            true => None,
            false => self.cache(transfer, Some(node)).await?,
        };
        let placement = Placement::Pinned(node.to_owned());
        let what = format!("the volume {volume_name} of pod {namespace}/{name}");
        let user = self.mover_user(&what, &[(&pod, volume_name)]).map_err(ExposeError::Refused)?;
        self.start(PodParts { volume, placement, cache, user, ..self.parts(transfer, &template) }).await
    }

    /// The PersistentVolume of a volume of a pod; `None` for one that has no claim.
    async fn persistent_volume_of(&self, pod: &Value, name: &str) -> Result<Option<Value>, ExposeError> {
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let Some(volume) = volumes.into_iter().find(|volume| volume["name"] == name) else { return Ok(None) };
        let Some(claim) = claim_of_volume(text(pod, &["metadata", "name"]), volume) else { return Ok(None) };
        let namespace = text(pod, &["metadata", "namespace"]);
        let found = self.kube.find(&resources::claims(), Some(namespace), &claim).await?;
        let found = found.ok_or_else(|| ExposeError::Refused(format!("the claim {namespace}/{claim} is gone")))?;
        let bound = text(&found, &["spec", "volumeName"]);
        if bound.is_empty() {
            return Err(ExposeError::Waits(format!("the claim {namespace}/{claim} is not bound to a volume")));
        }
        let persistent = self.kube.find(&resources::volumes(), None, bound).await?;
        let persistent = persistent.ok_or_else(|| ExposeError::Refused(format!("the volume {bound} is gone")))?;
        Ok(Some(persistent))
    }

    async fn download(&self, transfer: &Transfer, target: &TargetVolumeSpec) -> Result<(), ExposeError> {
        let template = self.template(transfer.node_os()).await?;
        let (namespace, name) = (&target.namespace, &target.pvc);
        let claim = self.kube.find(&resources::claims(), Some(namespace), name).await?;
        let claim = claim.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
        let claim =
            claim.ok_or_else(|| ExposeError::Refused(format!("the target claim {namespace}/{name} is gone")))?;
        if !text(&claim, &["spec", "volumeName"]).is_empty() {
            return Err(ExposeError::Refused(format!("Target PVC {namespace}/{name} has already been bound, abort")));
        }
        let class = text(&claim, &["spec", "storageClassName"]);
        let node = self.selected_node(&claim, class).await?;
        let settings = &self.config.restore_claim;
        self.copy_for_driver(transfer, namespace, [&settings.secrets, &settings.config_maps]).await?;
        let cache = self.cache(transfer, node.as_deref()).await?;
        ensure(self.kube, &resources::claims(), &restore_claim(transfer, &claim, node.as_deref())).await?;
        let is_block = claim["spec"]["volumeMode"] == "Block" || transfer.is_in_blocks();
        let volume = MoverVolume::claim(&transfer.meta.name, is_block);
        let ignores_pods = node.is_some() || !settings.ignores_delayed_binding;
        let pods = match ignores_pods && !self.config.security.is_restricted {
            true => Vec::new(),
            false => self.pods_of_claim(namespace, name).await?,
        };
        let placement = match node {
            Some(node) => Placement::Selected(node),
            None => {
                let selector = self.config.affinity_of(class).cloned();
                // Nobody else has asked where that pod may run.
                let first = pods.first().filter(|_| !ignores_pods);
                let of_pod = first.map(MoverPlacement::of_pod).unwrap_or_default();
                Placement::Any(AllowedNodes { selector, of_pod, busy: self.busy.to_vec(), ..AllowedNodes::default() })
            }
        };
        let user = self.user_of_claim([namespace, name], &pods, false)?;
        self.start(PodParts { volume, placement, cache, user, ..self.parts(transfer, &template) }).await
    }

    /// The node that the scheduler has chosen for the target's pod; `None` where the volume may be made on any node.
    async fn selected_node(&self, claim: &Value, class: &str) -> Result<Option<String>, ExposeError> {
        if self.config.restore_claim.ignores_delayed_binding || class.is_empty() {
            return Ok(None);
        }
        let found = self.kube.find(&resources::storage_classes(), None, class).await?;
        let found = found.ok_or_else(|| ExposeError::Refused(format!("the storage class {class} does not exist")))?;
        if found["volumeBindingMode"] != "WaitForFirstConsumer" {
            return Ok(None);
        }
        match claim["metadata"]["annotations"][SELECTED_NODE].as_str().filter(|node| !node.is_empty()) {
            Some(node) => Ok(Some(node.to_owned())),
            None => Err(ExposeError::Waits(format!(
                "the target claim waits for a pod that uses it, because its storage class {class} binds late; start one, or set restorePVC.ignoreDelayBinding"
            ))),
        }
    }
}
