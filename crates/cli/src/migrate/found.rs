//! What there is of an installation of Velero.

use super::differences::Concerns;
use super::workload::{Flags, Workload};
use anyhow::{Context, Result};
use lifeboat_api::well_known::{
    ANNOTATION_BACKUP_HOOK_COMMAND, ANNOTATION_BACKUP_POST_HOOK_COMMAND, ANNOTATION_BACKUP_PRE_HOOK_COMMAND,
    ANNOTATION_BACKUP_VOLUMES, ANNOTATION_INIT_HOOK_COMMAND, ANNOTATION_INIT_HOOK_CONTAINER_IMAGE,
    ANNOTATION_RESTORE_HOOK_COMMAND, LABEL_BACKUP_NAME, LABEL_PLUGIN_CONFIG,
};
use lifeboat_api::{
    Backup, BackupRepository, BackupStorageLocation, DataUpload, ObjectMeta, PodVolumeBackup, Restore, Schedule,
    VolumeSnapshotLocation,
};
use lifeboat_backup::check_policies;
use lifeboat_client::{Client, Object, api_resource};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use lifeboat_restore::check_modifiers;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) namespace: String,
    /// The Deployment of the server.
    pub(super) server: Option<Workload>,
    /// The DaemonSets of node agents.
    pub(super) node_agents: Vec<Workload>,
    pub(super) locations: Vec<BackupStorageLocation>,
    pub(super) snapshot_locations: Vec<VolumeSnapshotLocation>,
    pub(super) schedules: Vec<Schedule>,
    pub(super) backups: Vec<Backup>,
    pub(super) restores: Vec<Restore>,
    /// The backups of which data of volumes lies in repositories.
    pub(super) moved: BTreeSet<String>,
    /// How many repositories there are.
    pub(super) repositories: u64,
    /// The ConfigMaps that configure actions, with their labels.
    pub(super) action_config_maps: Vec<ObjectMeta>,
    /// By the name of each ConfigMap with resource policies: what is wrong with it, if anything is.
    pub(super) policies: BTreeMap<String, Option<String>>,
    /// The same of the resource modifiers of the server.
    pub(super) modifiers: BTreeMap<String, Option<String>>,
    pub(super) pods: Pods,
}

/// How many pods of the cluster have annotations of Velero.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pods {
    pub(super) with_backup_hooks: u64,
    pub(super) with_restore_hooks: u64,
    /// Those that name volumes to save by their files.
    pub(super) with_volumes_by_files: u64,
}

impl Found {
    /// Reads all of it, and changes nothing. Types that the cluster does not serve are as if there were none.
    pub(super) async fn read(client: &Client) -> Result<Self> {
        let mut found = Self { namespace: client.namespace.clone(), ..Self::default() };
        let deployments = ApiResource::new("apps", "v1", "deployments", "Deployment");
        found.server = workloads(client, deployments, "component=velero,deploy=velero").await?.into_iter().next();
        if found.server.is_none() {
            // Chart and installer label it differently.
            let deployments = ApiResource::new("apps", "v1", "deployments", "Deployment");
            let own = client.cluster.get(&deployments, Some(&client.namespace), "velero").await?;
            found.server =
                own.and_then(|body| serde_json::from_slice(&body).ok()).map(|value: Value| Workload::of(&value));
        }
        let daemon_sets = ApiResource::new("apps", "v1", "daemonsets", "DaemonSet");
        found.node_agents = workloads(client, daemon_sets, "").await?;
        found.node_agents.retain(|one| one.name.starts_with("node-agent") || one.name == "restic");
        found.locations = list(client).await?;
        found.snapshot_locations = list(client).await?;
        found.schedules = list(client).await?;
        found.backups = list(client).await?;
        found.restores = list(client).await?;
        let moved = &mut found.moved;
        let of_backup = |meta: ObjectMeta| moved.extend(meta.labels.get(LABEL_BACKUP_NAME).cloned());
        each_metadata(client, api_resource::<PodVolumeBackup>(), of_backup).await?;
        let of_backup = |meta: ObjectMeta| moved.extend(meta.labels.get(LABEL_BACKUP_NAME).cloned());
        each_metadata(client, api_resource::<DataUpload>(), of_backup).await?;
        let repositories = &mut found.repositories;
        each_metadata(client, api_resource::<BackupRepository>(), |_| *repositories += 1).await?;
        let config_maps = Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"));
        let action_config_maps = &mut found.action_config_maps;
        each_metadata(client, config_maps, |meta| {
            if meta.labels.contains_key(LABEL_PLUGIN_CONFIG) {
                action_config_maps.push(ObjectMeta { name: meta.name, labels: meta.labels, ..ObjectMeta::default() });
            }
        })
        .await?;
        found.read_rules(client).await;
        found.pods = Pods::count(&client.cluster).await?;
        Ok(found)
    }

    /// What the flags of its server are; none where there is no server.
    pub(super) fn flags(&self) -> Option<Flags> {
        self.server.as_ref().map(Workload::flags)
    }

    async fn read_rules(&mut self, client: &Client) {
        let (cluster, namespace) = (&client.cluster, &client.namespace);
        let flags = self.flags().unwrap_or_default();
        let of_schedules = self.schedules.iter().filter_map(|one| one.spec.template.resource_policy.as_ref());
        let of_schedules =
            of_schedules.filter(|one| one.kind.eq_ignore_ascii_case("configmap")).map(|one| one.name.clone());
        let of_server = flags.policies.filter(|name| !name.is_empty());
        let names: BTreeSet<String> = of_schedules.chain(of_server).collect();
        for name in names {
            let wrong = check_policies(namespace, &name, cluster).await.err();
            self.policies.insert(name, wrong);
        }
        if let Some(name) = flags.modifiers.filter(|name| !name.is_empty()) {
            let wrong = check_modifiers(namespace, &name, cluster).await.err();
            self.modifiers.insert(name, wrong);
        }
    }

    /// Which of the differences concern it.
    pub(super) fn concerns(&self) -> Concerns {
        let flags = self.flags().unwrap_or_default();
        let has_hooks = |one: &Schedule| !one.spec.template.hooks.resources.is_empty();
        Concerns {
            hooks: self.pods.with_backup_hooks + self.pods.with_restore_hooks > 0
                || self.schedules.iter().any(has_hooks)
                || self.restores.iter().any(|one| !one.spec.hooks.resources.is_empty()),
            csi: flags.features.csi,
            snapshot_locations: !self.snapshot_locations.is_empty(),
            policies: !self.policies.is_empty() || self.backups.iter().any(|one| one.spec.resource_policy.is_some()),
            modifiers: !self.modifiers.is_empty()
                || self.restores.iter().any(|one| one.spec.resource_modifier.is_some()),
            schedules: !self.schedules.is_empty(),
            plugins: self.server.as_ref().is_some_and(|server| !server.init_images.is_empty()),
            group_versions: flags.features.api_group_versions,
        }
    }
}

impl Pods {
    async fn count(cluster: &Cluster) -> Result<Self> {
        let mut pods = Self::default();
        let resource = Arc::new(ApiResource::new("", "v1", "pods", "Pod"));
        each_metadata_of(cluster, resource, None, |meta| pods.add(&meta)).await?;
        Ok(pods)
    }

    fn add(&mut self, meta: &ObjectMeta) {
        let has = |names: &[&str]| u64::from(names.iter().any(|name| meta.annotations.contains_key(*name)));
        self.with_backup_hooks += has(&[
            ANNOTATION_BACKUP_HOOK_COMMAND,
            ANNOTATION_BACKUP_PRE_HOOK_COMMAND,
            ANNOTATION_BACKUP_POST_HOOK_COMMAND,
        ]);
        self.with_restore_hooks +=
            has(&[ANNOTATION_RESTORE_HOOK_COMMAND, ANNOTATION_INIT_HOOK_COMMAND, ANNOTATION_INIT_HOOK_CONTAINER_IMAGE]);
        self.with_volumes_by_files += has(&[ANNOTATION_BACKUP_VOLUMES]);
    }
}

/// The objects of a type; none where it is not served.
async fn list<T: Object>(client: &Client) -> Result<Vec<T>> {
    match client.list("").await {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        found => found.with_context(|| format!("look at the {} of Velero", api_resource::<T>().resource)),
    }
}

async fn workloads(client: &Client, resource: ApiResource, selector: &str) -> Result<Vec<Workload>> {
    let what = format!("look at the {} of namespace {}", resource.resource, client.namespace);
    let mut list = client.cluster.list(ListRequest {
        resource: Arc::new(resource),
        namespace: Some(client.namespace.clone()),
        selector: selector.to_owned(),
        metadata_only: false,
    });
    let mut out = Vec::new();
    while let Some(bodies) = list.next().await.with_context(|| what.clone())? {
        for body in bodies {
            out.push(Workload::of(&serde_json::from_slice(&body).with_context(|| what.clone())?));
        }
    }
    Ok(out)
}

/// The metadata of the objects of a type in the namespace of Velero; none where it is not served.
async fn each_metadata(client: &Client, resource: Arc<ApiResource>, take: impl FnMut(ObjectMeta)) -> Result<()> {
    each_metadata_of(&client.cluster, resource, Some(&client.namespace), take).await
}

async fn each_metadata_of(
    cluster: &Cluster,
    resource: Arc<ApiResource>,
    namespace: Option<&str>,
    mut take: impl FnMut(ObjectMeta),
) -> Result<()> {
    #[derive(Deserialize)]
    struct Partial {
        metadata: ObjectMeta,
    }
    let what = format!("look at the {} of {}", resource.resource, namespace.unwrap_or("all namespaces"));
    let namespace = namespace.map(str::to_owned);
    let mut list = cluster.list(ListRequest { resource, namespace, selector: String::new(), metadata_only: true });
    loop {
        let bodies = match list.next().await {
            Ok(Some(bodies)) => bodies,
            Ok(None) => return Ok(()),
            Err(e) if ClusterError::is_not_found(&e) => return Ok(()),
            Err(e) => return Err(e).with_context(|| what.clone()),
        };
        for body in bodies {
            let one: Partial = serde_json::from_slice(&body).with_context(|| what.clone())?;
            take(one.metadata);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_counted_by_what_their_annotations_ask_for() {
        let mut pods = Pods::default();
        for annotations in [
            json!({}),
            json!({"pre.hook.backup.velero.io/command": "[]", "post.hook.backup.velero.io/command": "[]"}),
            json!({"hook.backup.velero.io/command": "[]", "backup.velero.io/backup-volumes": "a"}),
            json!({"init.hook.restore.velero.io/container-image": "i"}),
            json!({"backup.velero.io/backup-volumes-excludes": "a"}),
        ] {
            pods.add(&serde_json::from_value(json!({"name": "p", "annotations": annotations})).unwrap());
        }
        assert_eq!(pods, Pods { with_backup_hooks: 2, with_restore_hooks: 1, with_volumes_by_files: 1 });
    }
}
