//! Makes what a DataUpload needs: the copy of its snapshot, a claim from it, and the pod.

use crate::config::BackupClaim;
use crate::exposer::backup_claim::{FAST_PROVISIONING, SnapshotSource, VolumeUsers, backup_claim, os_of, topology};
use crate::exposer::claim::SELECTED_NODE;
use crate::exposer::common::Exposer;
use crate::exposer::error::ExposeError;
use crate::exposer::handover::{HandoverStep, HandoverView, next_step};
use crate::exposer::make::ensure;
use crate::exposer::moved_snapshot::MovedSnapshot;
use crate::exposer::placement::{AllowedNodes, Placement};
use crate::exposer::pod::{MoverVolume, PodParts};
use crate::exposer::upload_objects::{UploadObjects, perform_release};
use crate::kube::{ObjectName, text};
use crate::resources;
use crate::transfer::Transfer;
use lifeboat_api::well_known::NODE_AGENT_WINDOWS;
use lifeboat_api::{DataUploadSpec, NodeOs};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The most steps of a handover that are done one after the other.
const MOST_STEPS: usize = 12;

impl Exposer<'_> {
    pub(super) async fn upload(&self, transfer: &Transfer, spec: &DataUploadSpec) -> Result<(), ExposeError> {
        let none = BackupClaim::default();
        let class = spec.csi_snapshot.as_ref().map_or("", |snapshot| snapshot.storage_class.as_str());
        let settings = self.config.backup_claims.get(class).unwrap_or(&none);
        let moved = self.hand_over(transfer, spec).await?;
        let namespace = &spec.source_namespace;
        self.copy_for_driver(transfer, namespace, [&settings.secrets, &settings.config_maps]).await?;
        let claim = self.kube.find(&resources::claims(), Some(namespace), &spec.source_pvc).await?;
        let volume = match claim.as_ref().map_or("", |claim| text(claim, &["spec", "volumeName"])) {
            "" => None,
            volume => self.kube.find(&resources::volumes(), None, volume).await?,
        };
        let storage_class = match class {
            "" => None,
            class => self.kube.find(&resources::storage_classes(), None, class).await?,
        };
        let source = SnapshotSource { claim: claim.as_ref(), class, moved: &moved, settings };
        let wanted = backup_claim(transfer, &source).map_err(ExposeError::Refused)?;
        let is_block = wanted["spec"]["volumeMode"] == "Block";
        let os = self.os_of_source(is_block, [claim.as_ref(), volume.as_ref(), storage_class.as_ref()]).await?;
        let nodes = AllowedNodes {
            selector: self.config.affinity_of(source.final_class()).cloned(),
            topology: topology(storage_class.as_ref(), volume.as_ref()),
            avoided: match (&volume, settings.annotations.contains_key(FAST_PROVISIONING)) {
                (Some(volume), true) => self.nodes_of(text(volume, &["metadata", "name"])).await?,
                _ => Vec::new(),
            },
            busy: self.busy.to_vec(),
            ..AllowedNodes::default()
        };
        let template = self.template(os).await?;
        ensure(self.kube, &resources::claims(), &wanted).await?;
        let volume = MoverVolume::Claim {
            name: transfer.meta.name.clone(),
            is_block,
            is_read_only: settings.is_read_only,
            without_relabeling: settings.without_relabeling,
        };
        let placement = Placement::Any(nodes);
        let pods = match self.config.security.is_restricted {
            true => self.pods_of_claim(namespace, &spec.source_pvc).await?,
            false => Vec::new(),
        };
        let user = self.user_of_claim([namespace, &spec.source_pvc], &pods, true)?;
        self.start(PodParts { os, volume, placement, user, ..self.parts(transfer, &template) }).await
    }

    /// Hands the snapshot over to the namespace of the DataUpload.
    async fn hand_over(&self, transfer: &Transfer, spec: &DataUploadSpec) -> Result<MovedSnapshot, ExposeError> {
        let (snapshots, contents) = (resources::snapshots(), resources::snapshot_contents());
        let own = Some(transfer.meta.namespace.as_str());
        for _ in 0..MOST_STEPS {
            let objects = UploadObjects::read(self.kube, transfer, spec).await?;
            let step = next_step(&HandoverView {
                transfer,
                spec,
                source: objects.source.as_ref(),
                source_content: objects.source_content.as_ref(),
                copy: objects.copy.as_ref(),
                copy_content: objects.copy_content.as_ref(),
            });
            match step {
                HandoverStep::CreateSnapshot(object) => self.create(&snapshots, own, &object).await?,
                HandoverStep::CreateContent(object) => self.create(&contents, None, &object).await?,
                HandoverStep::Release(step) => match perform_release(self.kube, spec, &step).await {
                    Ok(None) => {}
                    Ok(Some(reason)) => return Err(ExposeError::Soon(reason)),
                    Err(e) if e.is_conflict() || e.is_not_found() => {}
                    Err(e) => return Err(e.into()),
                },
                HandoverStep::Wait(reason) => return Err(ExposeError::Waits(reason)),
                HandoverStep::Failed(why) => return Err(ExposeError::Refused(why)),
                HandoverStep::Done(moved) => return Ok(moved),
            }
        }
        Err(ExposeError::Soon("the copy of the snapshot changes all the time".to_owned()))
    }

    /// Creates an object; one that is there is looked at in the next step.
    async fn create(&self, resource: &ApiResource, namespace: Option<&str>, object: &Value) -> Result<(), ExposeError> {
        let name = text(object, &["metadata", "name"]);
        self.kube.create(ObjectName { resource, namespace, name }, object).await?;
        Ok(())
    }

    /// The operating system of the nodes that use the source: claim, volume and class. Where no node agent is for Windows it is Linux.
    async fn os_of_source(
        &self,
        is_block: bool,
        [claim, volume, class]: [Option<&Value>; 3],
    ) -> Result<NodeOs, ExposeError> {
        let own = Some(self.settings.namespace.as_str());
        if is_block || self.kube.find(&resources::daemon_sets(), own, NODE_AGENT_WINDOWS).await?.is_none() {
            return Ok(NodeOs::Linux);
        }
        let mut names = match volume {
            Some(volume) => self.nodes_of(text(volume, &["metadata", "name"])).await?,
            None => Vec::new(),
        };
        let selected = claim.map_or("", |claim| text(claim, &["metadata", "annotations", SELECTED_NODE]));
        names.push(selected.to_owned());
        let mut nodes = Vec::new();
        for name in names.iter().filter(|name| !name.is_empty()) {
            nodes.extend(self.kube.find(&resources::nodes(), None, name).await?);
        }
        Ok(os_of(VolumeUsers { is_block, nodes: &nodes, class }))
    }

    /// The nodes at which a volume is attached.
    async fn nodes_of(&self, volume: &str) -> Result<Vec<String>, ExposeError> {
        let all = self.kube.list(resources::attachments(), None, "", "").await?;
        let of_volume = all.iter().filter(|one| text(one, &["spec", "source", "persistentVolumeName"]) == volume);
        Ok(of_volume.map(|one| text(one, &["spec", "nodeName"]).to_owned()).collect())
    }
}
