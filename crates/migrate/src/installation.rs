//! Inventory of an installation of Velero.

use super::differences::UsedFeatures;
use super::workload::{FlagReader, VeleroServer, Workload};
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
use lifeboat_backup::{CheckedPolicies, check_policies};
use lifeboat_client::{Client, Object, api_resource};
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_install::server_deployment;
use lifeboat_object::ApiResource;
use lifeboat_restore::check_modifiers;
use std::collections::{BTreeMap, BTreeSet};

/// The resources and programs of an installation.
#[derive(Debug, Default)]
pub struct VeleroInstallation {
    pub(crate) namespace: String,
    pub(crate) server: Option<VeleroServer>,
    /// The DaemonSets of node agents.
    pub(super) node_agents: Vec<Workload>,
    pub(crate) locations: Vec<BackupStorageLocation>,
    pub(super) snapshot_locations: Vec<VolumeSnapshotLocation>,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) backups: Vec<Backup>,
    pub(crate) restores: Vec<Restore>,
    /// The backups of which data of volumes lies in repositories, or may: of one that came from a bucket the cluster knows only
    /// what was asked for.
    pub(crate) moved: BTreeSet<String>,
    /// The names of the repositories.
    pub(crate) repositories: BTreeSet<String>,
    /// The labels of the ConfigMaps that configure actions, by their names.
    pub(super) action_config_maps: BTreeMap<String, BTreeMap<String, String>>,
    /// By the name of each ConfigMap with resource policies: what these come to, or what is wrong with it.
    pub(crate) policies: BTreeMap<String, Result<CheckedPolicies, String>>,
    /// By the name of each ConfigMap with resource modifiers of the server: what is wrong with it, if anything is.
    pub(crate) modifiers: BTreeMap<String, Option<String>>,
    pub(crate) pods: Pods,
}

/// Returns true if a backup was to move the data of volumes.
fn asked_to_move(backup: &Backup) -> bool {
    let spec = &backup.spec;
    [spec.snapshot_move_data, spec.default_volumes_to_fs_backup, spec.default_volumes_to_restic].contains(&Some(true))
}

/// The pods of the cluster that have annotations of Velero, by namespace and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pods {
    pub(super) with_backup_hooks: BTreeSet<(String, String)>,
    pub(super) with_restore_hooks: BTreeSet<(String, String)>,
    /// Pods that name volumes to save by their files.
    pub(super) with_volumes_by_files: BTreeSet<(String, String)>,
}

impl VeleroInstallation {
    /// Reads all of it, and changes nothing. Types that the cluster does not serve are as if there were none.
    pub async fn read(client: &Client, read_flags: FlagReader) -> Result<Self> {
        let mut found = Self { namespace: client.namespace.clone(), ..Self::default() };
        let deployment = server_deployment(&client.cluster, &client.namespace).await;
        let deployment =
            deployment.with_context(|| format!("look at the deployments of namespace {}", client.namespace))?;
        found.server = deployment.as_ref().map(|deployment| VeleroServer::of(deployment, read_flags));
        found.node_agents = node_agents(client).await?;
        found.locations = list(client).await?;
        found.snapshot_locations = list(client).await?;
        found.schedules = list(client).await?;
        found.backups = list(client).await?;
        found.restores = list(client).await?;
        let (cluster, own) = (&client.cluster, Some(&*client.namespace));
        for resource in [api_resource::<PodVolumeBackup>(), api_resource::<DataUpload>()] {
            let of_backup = |meta: ObjectMeta| found.moved.extend(meta.labels.get(LABEL_BACKUP_NAME).cloned());
            each_metadata(cluster, &resource, own, of_backup).await?;
        }
        found.moved.extend(found.backups.iter().filter(|one| asked_to_move(one)).map(|one| one.metadata.name.clone()));
        let take = |meta: ObjectMeta| found.repositories.extend([meta.name]);
        each_metadata(cluster, &api_resource::<BackupRepository>(), own, take).await?;
        let config_maps = ApiResource::new("", "v1", "configmaps", "ConfigMap");
        each_metadata(cluster, &config_maps, own, |meta| {
            if meta.labels.contains_key(LABEL_PLUGIN_CONFIG) {
                found.action_config_maps.insert(meta.name, meta.labels);
            }
        })
        .await?;
        found.read_rules(client).await;
        found.pods = Pods::of(&client.cluster).await?;
        Ok(found)
    }

    /// The images that bring plugins to its server.
    pub(super) fn plugin_images(&self) -> &[String] {
        self.server.as_ref().map_or(&[], |server| &server.workload.plugin_images)
    }

    async fn read_rules(&mut self, client: &Client) {
        let (cluster, namespace) = (&client.cluster, &client.namespace);
        let flags = self.server.as_ref().map(|server| server.flags.clone()).unwrap_or_default();
        let of_schedules = self.schedules.iter().filter_map(|one| one.spec.template.resource_policy.as_ref());
        let of_schedules =
            of_schedules.filter(|one| one.kind.eq_ignore_ascii_case("configmap")).map(|one| one.name.clone());
        let names: BTreeSet<String> = of_schedules.chain(flags.policies).collect();
        for name in names {
            let checked = check_policies(namespace, &name, cluster).await;
            self.policies.insert(name, checked);
        }
        if let Some(name) = flags.modifiers {
            let wrong = check_modifiers(namespace, &name, cluster).await.err();
            self.modifiers.insert(name, wrong);
        }
    }

    /// Which of the differences concern it.
    pub(super) fn concerns(&self) -> UsedFeatures {
        let features = self.server.as_ref().map(|server| server.flags.features).unwrap_or_default();
        let has_hooks = |one: &Schedule| !one.spec.template.hooks.resources.is_empty();
        UsedFeatures {
            hooks: !self.pods.with_backup_hooks.is_empty()
                || !self.pods.with_restore_hooks.is_empty()
                || self.schedules.iter().any(has_hooks)
                || self.restores.iter().any(|one| !one.spec.hooks.resources.is_empty()),
            csi: features.csi,
            snapshot_locations: !self.snapshot_locations.is_empty(),
            policies: !self.policies.is_empty() || self.backups.iter().any(|one| one.spec.resource_policy.is_some()),
            modifiers: !self.modifiers.is_empty()
                || self.restores.iter().any(|one| one.spec.resource_modifier.is_some()),
            schedules: !self.schedules.is_empty(),
            plugins: !self.plugin_images().is_empty(),
            group_versions: features.api_group_versions,
        }
    }
}

impl Pods {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let mut pods = Self::default();
        let resource = ApiResource::new("", "v1", "pods", "Pod");
        each_metadata(cluster, &resource, None, |meta| pods.add(&meta)).await?;
        Ok(pods)
    }

    fn add(&mut self, meta: &ObjectMeta) {
        let add = |to: &mut BTreeSet<(String, String)>, annotations: &[&str]| {
            if annotations.iter().any(|name| meta.annotations.contains_key(*name)) {
                to.insert((meta.namespace.clone(), meta.name.clone()));
            }
        };
        add(
            &mut self.with_backup_hooks,
            &[ANNOTATION_BACKUP_HOOK_COMMAND, ANNOTATION_BACKUP_PRE_HOOK_COMMAND, ANNOTATION_BACKUP_POST_HOOK_COMMAND],
        );
        add(
            &mut self.with_restore_hooks,
            &[ANNOTATION_RESTORE_HOOK_COMMAND, ANNOTATION_INIT_HOOK_COMMAND, ANNOTATION_INIT_HOOK_CONTAINER_IMAGE],
        );
        add(&mut self.with_volumes_by_files, &[ANNOTATION_BACKUP_VOLUMES]);
    }
}

/// The objects of a type; none where it is not served.
async fn list<T: Object>(client: &Client) -> Result<Vec<T>> {
    match client.list("").await {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        found => found.with_context(|| format!("look at the {} of Velero", api_resource::<T>().resource)),
    }
}

/// The DaemonSets of node agents, of all releases.
async fn node_agents(client: &Client) -> Result<Vec<Workload>> {
    let what = format!("look at the daemonsets of namespace {}", client.namespace);
    let mut list = client.cluster.list(
        ListRequest::all(ApiResource::new("apps", "v1", "daemonsets", "DaemonSet"))
            .in_namespace(client.namespace.clone()),
    );
    let mut out = Vec::new();
    while let Some(bodies) = list.next().await.with_context(|| what.clone())? {
        for body in bodies {
            out.push(Workload::of(&serde_json::from_slice(&body).with_context(|| what.clone())?));
        }
    }
    out.retain(|one| one.name.starts_with("node-agent") || one.name == "restic");
    Ok(out)
}

/// The metadata of the objects of a type, of one namespace or of all; none where it is not served.
async fn each_metadata(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    take: impl FnMut(ObjectMeta),
) -> Result<()> {
    match cluster.each_metadata(resource, namespace, "", take).await {
        Err(e) if e.is_not_found() => Ok(()),
        read => {
            let of = namespace.map_or("all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
            read.with_context(|| format!("look at the {} of {of}", resource.resource))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_known_by_what_their_annotations_ask_for() {
        let mut pods = Pods::default();
        for (name, annotations) in [
            ("none", json!({})),
            ("both", json!({"pre.hook.backup.velero.io/command": "[]", "post.hook.backup.velero.io/command": "[]"})),
            ("files", json!({"hook.backup.velero.io/command": "[]", "backup.velero.io/backup-volumes": "a"})),
            ("init", json!({"init.hook.restore.velero.io/container-image": "i"})),
            ("excludes", json!({"backup.velero.io/backup-volumes-excludes": "a"})),
        ] {
            let meta = json!({"name": name, "namespace": "n", "annotations": annotations});
            pods.add(&serde_json::from_value(meta).unwrap());
        }
        let named = |names: &[&str]| names.iter().map(|name| ("n".to_owned(), (*name).to_owned())).collect();
        let expected = Pods {
            with_backup_hooks: named(&["both", "files"]),
            with_restore_hooks: named(&["init"]),
            with_volumes_by_files: named(&["files"]),
        };
        assert_eq!(pods, expected);
    }

    #[test]
    fn a_backup_that_was_to_move_data_may_have_moved_it() {
        for (spec, moved) in [
            (json!({}), false),
            (json!({"snapshotMoveData": false, "defaultVolumesToFsBackup": false}), false),
            (json!({"snapshotMoveData": true}), true),
            (json!({"defaultVolumesToFsBackup": true}), true),
            (json!({"defaultVolumesToRestic": true}), true),
        ] {
            let backup =
                json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"}, "spec": spec});
            assert_eq!(asked_to_move(&serde_json::from_value(backup).unwrap()), moved, "{spec}");
        }
    }
}
