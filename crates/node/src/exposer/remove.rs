//! Removes what was made for a transfer. Each part may be gone already.

use crate::exposer::claim::cache_name;
use crate::kube::{Kube, ObjectName, is_owned_by, text, uid};
use crate::resources;
use crate::transfer::{Transfer, TransferKind};
use lifeboat_api::well_known::LABEL_BACKUP_PVC_SECRET;
use lifeboat_cluster::ClusterError;
use serde_json::{Value, json};

/// Removes pod, claims with their volumes, and copies of Secrets and ConfigMaps.
pub(crate) async fn remove_all(kube: &Kube, transfer: &Transfer) -> Result<(), ClusterError> {
    let namespace = &transfer.meta.namespace;
    remove_pod(kube, transfer).await?;
    if transfer.kind == TransferKind::PodVolumeBackup {
        return Ok(());
    }
    undeliver(kube, transfer).await?;
    for name in [&transfer.meta.name, &cache_name(transfer)] {
        remove_claim(kube, transfer, name).await?;
    }
    if !transfer.kind.is_delivered() {
        return Ok(());
    }
    let selector = format!("{LABEL_BACKUP_PVC_SECRET}={}", transfer.meta.uid);
    for resource in [resources::secrets(), resources::config_maps()] {
        for copied in kube.list(resource.clone(), Some(namespace), &selector, "").await? {
            let name = text(&copied, &["metadata", "name"]);
            kube.delete(ObjectName { resource: &resource, namespace: Some(namespace), name }, uid(&copied)).await?;
        }
    }
    Ok(())
}

/// Removes the pod of a transfer.
pub(crate) async fn remove_pod(kube: &Kube, transfer: &Transfer) -> Result<(), ClusterError> {
    let resource = resources::pods();
    let of = ObjectName { resource: &resource, namespace: Some(&transfer.meta.namespace), name: &transfer.meta.name };
    match kube.get(of).await? {
        Some(pod) if is_owned_by(&pod, &transfer.meta.uid) => kube.delete(of, uid(&pod)).await,
        _ => Ok(()),
    }
}

/// Removes a claim of a transfer, and the volume that was made for it, whatever the storage class says of volumes.
async fn remove_claim(kube: &Kube, transfer: &Transfer, name: &str) -> Result<(), ClusterError> {
    let resource = resources::claims();
    let of = ObjectName { resource: &resource, namespace: Some(&transfer.meta.namespace), name };
    let Some(claim) = kube.get(of).await?.filter(|claim| is_owned_by(claim, &transfer.meta.uid)) else { return Ok(()) };
    let volume = text(&claim, &["spec", "volumeName"]);
    if !volume.is_empty() {
        set_reclaim_policy(kube, volume, "Delete", |volume| volume["spec"]["claimRef"]["uid"] == uid(&claim)).await?;
    }
    kube.delete(of, uid(&claim)).await
}

/// Gives a volume whose delivery was given up back to its storage: nobody would ask for it again.
async fn undeliver(kube: &Kube, transfer: &Transfer) -> Result<(), ClusterError> {
    let Some(delivery) = transfer.delivery() else { return Ok(()) };
    let own = |volume: &Value| {
        let claim = &volume["spec"]["claimRef"];
        claim["namespace"] == transfer.meta.namespace && claim["name"] == transfer.meta.name
    };
    set_reclaim_policy(kube, &delivery.volume, "Delete", own).await
}

/// Sets the reclaim policy of a volume, if it is still the one that is meant.
async fn set_reclaim_policy(
    kube: &Kube,
    name: &str,
    policy: &str,
    is_meant: impl Fn(&Value) -> bool,
) -> Result<(), ClusterError> {
    let resource = resources::volumes();
    let of = ObjectName { resource: &resource, namespace: None, name };
    let Some(volume) = kube.get(of).await? else { return Ok(()) };
    if !is_meant(&volume) || volume["spec"]["persistentVolumeReclaimPolicy"] == policy {
        return Ok(());
    }
    let resource_version = &volume["metadata"]["resourceVersion"];
    let patch =
        json!({"metadata": {"resourceVersion": resource_version}, "spec": {"persistentVolumeReclaimPolicy": policy}});
    kube.patch(of, &patch).await.map(drop)
}
