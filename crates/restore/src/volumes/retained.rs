//! Volumes that come back on their old storage, and objects whose data the backup does not have: the treatment of
//! these, of their claims, and of the pods that would start without their data. Decided from the state of the cluster,
//! each time anew.

use crate::state::env::Env;
use crate::volumes::report::{VolumeTreatments, allows_empty};
use crate::walk::scope::RestoreScope;
use lifeboat_api::well_known::{ANNOTATION_ALLOW_EMPTY_VOLUMES, ANNOTATION_REBIND_RELEASED, ANNOTATION_REUSE_VOLUMES};
use lifeboat_api::{NamespacedName, permission};
use lifeboat_cluster::{Cluster, ClusterError, MergePatch};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, first_names};
use lifeboat_volume::{
    BackupOrigin, ClaimOfVolume, FilesOfPods, PodFiles, RetainedFacts, RetainedPlan, RetainedVolume, VolumeHere,
    VolumePermissions, plan_retained,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Retained volumes and lost data of a restore.
#[derive(Debug, Default)]
pub(crate) struct RetainedVolumes {
    /// Volumes that come back as they are, by their names.
    pub(crate) volumes: BTreeMap<String, RetainedVolume>,
    /// The volumes of pods whose files lie in a repository.
    pub(crate) files: Arc<FilesOfPods>,
    /// The treatments of all volumes.
    pub(crate) treatments: Arc<VolumeTreatments>,
    /// Of which cluster the backup is.
    pub(crate) origin: BackupOrigin,
    /// True when the backup names its cluster.
    pub(crate) names_cluster: bool,
}

/// A retained volume that an object is about, as it is in the cluster.
pub(crate) struct PlannedVolume {
    /// The way in which it comes back.
    pub(crate) plan: RetainedPlan,
    /// The volume in the cluster; `None` when it is not there.
    pub(crate) existing: Option<Value>,
    /// True when its claim is in the cluster, stays, and does without this volume.
    pub(crate) is_dispensable: bool,
}

impl PlannedVolume {
    /// Says whether a refusal is no error of this object: it is the PersistentVolume itself, and its claim has the error, or does
    /// without the volume.
    pub(crate) fn is_left_out(&self, target: &ObjectKey) -> bool {
        is_volume(target) && (self.existing.is_some() || self.is_dispensable)
    }
}

impl RetainedVolumes {
    /// The retained volume of a PersistentVolume, or of the claim that asks for it.
    fn of(&self, target: &ObjectKey, desired: &Value) -> Option<&RetainedVolume> {
        match (target.resource.group.as_str(), target.resource.resource.as_str()) {
            ("", "persistentvolumes") => self.volumes.get(&target.name),
            ("", "persistentvolumeclaims") => self.volumes.get(desired["spec"]["volumeName"].as_str()?),
            _ => None,
        }
    }

    /// Plans the retained volume that an object is about; `None` for other objects, and for a claim that is in the cluster and stays.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(crate) async fn plan(
        &self,
        target: &ObjectKey,
        desired: &Value,
        scope: &RestoreScope,
        env: &Env,
    ) -> Result<Option<PlannedVolume>, ClusterError> {
        let Some(volume) = self.of(target, desired) else { return Ok(None) };
        let namespace = volume.claim.as_ref().map_or("", |claim| claim.key.namespace.as_str());
        let namespace = scope.namespace(namespace);
        let claims = ApiResource::persistent_volume_claims();
        let claim = match (is_volume(target), &volume.claim) {
            (false, _) => read(&env.cluster, &claims, target.namespace.as_deref(), &target.name).await?,
            (true, Some(claim)) => read(&env.cluster, &claims, Some(namespace), &claim.key.name).await?,
            (true, None) => None,
        };
        let claim = claim.filter(stays);
        if claim.is_some() && !is_volume(target) {
            return Ok(None);
        }
        let existing = read(&env.cluster, &volumes(), None, &volume.name).await?;
        let user = match existing.as_ref().and_then(ClaimOfVolume::of) {
            Some(ClaimOfVolume { key, .. }) => read(&env.cluster, &claims, Some(&key.namespace), &key.name).await?,
            None => None,
        };
        let here = VolumeHere::of(existing.as_ref(), user.as_ref());
        let allowed = VolumePermissions {
            rebinds_released: scope.restore.metadata.says_true(ANNOTATION_REBIND_RELEASED),
            reuses_volumes: scope.restore.metadata.says_true(ANNOTATION_REUSE_VOLUMES),
        };
        let of_claim = claim.as_ref().map(|claim| claim["spec"]["volumeName"].as_str().unwrap_or_default());
        let facts = RetainedFacts { volume, target: namespace, here: &here, of_claim, origin: &self.origin, allowed };
        let is_dispensable = of_claim.is_some_and(|name| name != volume.name);
        Ok(Some(PlannedVolume { plan: plan_retained(facts), existing, is_dispensable }))
    }

    /// The warning of retained volumes among those that were made, where nothing says of which cluster the backup is.
    pub(crate) fn warning<'a>(&self, made: impl Iterator<Item = &'a str>) -> Option<String> {
        let names: Vec<&str> = made.filter(|name| !self.names_cluster && self.volumes.contains_key(*name)).collect();
        let (what, their) = match names.len() {
            0 => return None,
            1 => ("PersistentVolume was", "its"),
            _ => ("PersistentVolumes were", "their"),
        };
        let (count, first) = (names.len(), first_names(&names));
        Some(format!(
            "{count} {what} made again on {their} old storage, and nothing says of which cluster the backup is: if another one that still runs uses that storage, both write to it: {first}"
        ))
    }

    /// Gives the retained volume that an object is about back to its claim.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(crate) async fn rebind(
        &self,
        target: &ObjectKey,
        desired: &Value,
        patch: &Value,
        env: &Env,
    ) -> Result<(), ClusterError> {
        let Some(volume) = self.of(target, desired) else { return Ok(()) };
        env.cluster.patch(&volumes(), None, &volume.name, MergePatch::of(patch.to_string().into())).await.map(drop)
    }

    /// Returns the reason to hold back an object of the backup that would start without its data: a claim or a pod
    /// whose data the backup does not have. `None` for other objects, for volumes that the user wants empty, and for
    /// objects that are in the cluster already.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(crate) async fn lost(
        &self,
        target: &ObjectKey,
        from_backup: &Value,
        scope: &RestoreScope,
        env: &Env,
    ) -> Result<Option<String>, ClusterError> {
        if allows_empty(&scope.restore) {
            return Ok(None);
        }
        let namespace = from_backup["metadata"]["namespace"].as_str().unwrap_or_default();
        let why = match (target.resource.group.as_str(), target.resource.resource.as_str()) {
            ("", "persistentvolumeclaims") => {
                let key = ObjectKey { namespace: Some(namespace.to_owned()), ..target.clone() };
                self.treatments.loss(&key, from_backup, &scope.restore)
            }
            ("", "pods") => self.files.of(&NamespacedName::new(namespace, &target.name)).and_then(unread),
            _ => None,
        };
        let Some((why, next)) = why else { return Ok(None) };
        let Some(resource) = scope.catalog.find(&target.resource) else { return Ok(None) };
        let there = read(&env.cluster, resource, target.namespace.as_deref(), &target.name).await?;
        let is_there = there.as_ref().is_some_and(stays);
        Ok((!is_there).then(|| {
            format!(
                "held back, because {why}; {next}, or restore it with {} to get it without its data",
                permission(ANNOTATION_ALLOW_EMPTY_VOLUMES)
            )
        }))
    }
}

/// The reason why a pod would start without the files of its volumes, and the next step; `None` when they come.
fn unread(pod: &PodFiles) -> Option<(String, &'static str)> {
    let (_, how) = pod.unread.first_key_value()?;
    let same = pod.unread.iter().filter(|(_, other)| *other == how);
    let volumes: Vec<&str> = same.map(|(volume, _)| volume.as_str()).collect();
    let their = if volumes.len() == 1 { "its volume" } else { "its volumes" };
    Some((format!("the data of {their} {} is in {}", volumes.join(", "), how.why()), how.next()))
}

/// Says whether an object is a PersistentVolume.
pub(crate) fn is_volume(key: &ObjectKey) -> bool {
    key.resource == GroupResource::new("", "persistentvolumes")
}

/// The warning of a claim whose volume this user may not look at.
pub(crate) fn unseen_volume(claim: &ObjectKey, error: &ClusterError) -> String {
    format!("{claim} is restored without a look at its PersistentVolume, which may be another claim's by now: {error}")
}

/// Says whether an object of the cluster is not being deleted.
fn stays(there: &Value) -> bool {
    there["metadata"]["deletionTimestamp"].is_null()
}

fn volumes() -> ApiResource {
    ApiResource { namespaced: false, ..ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume") }
}

async fn read(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Value>, ClusterError> {
    let body = cluster.get(resource, namespace, name).await?;
    // An answer that is no JSON is an object of which nothing is known.
    Ok(body.map(|body| serde_json::from_slice(&body).unwrap_or_default()))
}
