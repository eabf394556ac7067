//! The snapshot objects of a DataUpload, as the cluster has them.

use crate::exposer::handover::{ReleaseStep, source_content};
use crate::kube::{Kube, ObjectName};
use crate::resources;
use crate::transfer::Transfer;
use lifeboat_api::DataUploadSpec;
use lifeboat_cluster::ClusterError;
use serde_json::Value;

/// The snapshot objects of a DataUpload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UploadObjects {
    /// The VolumeSnapshot that it names.
    pub(crate) source: Option<Value>,
    /// The content of that.
    pub(crate) source_content: Option<Value>,
    /// The VolumeSnapshot of its own name.
    pub(crate) copy: Option<Value>,
    /// The VolumeSnapshotContent of its own name.
    pub(crate) copy_content: Option<Value>,
}

impl UploadObjects {
    /// Reads them.
    pub(crate) async fn read(kube: &Kube, transfer: &Transfer, spec: &DataUploadSpec) -> Result<Self, ClusterError> {
        let (snapshots, contents) = (resources::snapshots(), resources::snapshot_contents());
        let (name, namespace) = (&transfer.meta.name, &transfer.meta.namespace);
        let source = match spec.csi_snapshot.as_ref().map_or("", |snapshot| snapshot.volume_snapshot.as_str()) {
            "" => None,
            source => kube.find(&snapshots, Some(&spec.source_namespace), source).await?,
        };
        let copy = kube.find(&snapshots, Some(namespace), name).await?;
        let copy_content = kube.find(&contents, None, name).await?;
        let content = source_content(transfer, source.as_ref(), [copy_content.as_ref(), copy.as_ref()]);
        let source_content = match content.as_str() {
            "" => None,
            content => kube.find(&contents, None, content).await?,
        };
        Ok(Self { source, source_content, copy, copy_content })
    }
}

/// Does a step that takes the source of a snapshot out of the cluster; gives what is waited for.
pub(crate) async fn perform_release(
    kube: &Kube,
    spec: &DataUploadSpec,
    step: &ReleaseStep,
) -> Result<Option<String>, ClusterError> {
    let (snapshots, contents) = (resources::snapshots(), resources::snapshot_contents());
    let content = |name| ObjectName { resource: &contents, namespace: None, name };
    match step {
        ReleaseStep::PatchContent { name, patch } => kube.patch(content(name), patch).await.map(|_| None),
        ReleaseStep::DeleteContent { name, uid } => kube.delete(content(name), uid).await.map(|()| None),
        ReleaseStep::DeleteSource { uid } => {
            let name = spec.csi_snapshot.as_ref().map_or("", |snapshot| snapshot.volume_snapshot.as_str());
            let of = ObjectName { resource: &snapshots, namespace: Some(&spec.source_namespace), name };
            kube.delete(of, uid).await.map(|()| None)
        }
        ReleaseStep::Wait(reason) => Ok(Some(reason.clone())),
    }
}
