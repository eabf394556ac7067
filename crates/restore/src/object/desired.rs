//! Computes the object that an object of the backup is to become (velero: pkg/restore/restore.go). Writes nothing, so
//! that a preview shows exactly what the restore does.

use crate::object::apply::{ActionSelection, Actions, Applied, Need, PrepareError};
use crate::object::decision::ItemToDecide;
use crate::object::existing::is_same_state;
use crate::object::identity_fields::strip;
use crate::object::job_pods::{JobPods, left_to};
use crate::object::orphaned_claims::OrphanedClaims;
use crate::object::references;
use crate::request::modifier::{Modified, ModifierTarget, Modifiers, NotKnown, Schemas};
use crate::state::terminating::TerminatingObject;
use crate::volumes::binding::{reset_claim, reset_volume};
use crate::volumes::restored::RestoredVolumes;
use crate::walk::existence::Existence;
use crate::walk::scope::RestoreScope;
use lifeboat_api::label_value;
use lifeboat_api::well_known::{self, RESTORE_WAIT};
use lifeboat_hook::{HookPod, RestoreHooks};
use lifeboat_object::{Catalog, GroupResource, ObjectKey};
use lifeboat_patch::restored::written_by_cluster;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The target state of an object of the backup.
pub(crate) enum Desired {
    /// It is not restored.
    Skip {
        /// The reason, for people.
        reason: String,
        /// Additional items of the actions that ran before another action left the object out.
        needs: Vec<Need>,
        /// The Job of the cluster that makes the pod anew.
        job: Option<ObjectKey>,
    },
    /// This object.
    Object(Box<DesiredObject>),
}

/// An object as it would be created.
#[derive(Default)]
pub(crate) struct DesiredObject {
    pub(crate) item: Value,
    /// Its status in the backup.
    pub(crate) status: Option<Value>,
    /// Objects that must be there before it.
    pub(crate) needs: Vec<Need>,
    /// Actions that were not asked, because they do more than answer.
    pub(crate) unasked: Vec<String>,
    /// Set when actions must not run on it again in this restore.
    pub(crate) is_asked_once: bool,
    /// Changes that the resource modifiers made to it.
    pub(crate) modified: Modified,
}

impl Desired {
    fn skip(reason: &str) -> Self {
        Self::Skip { reason: reason.to_owned(), needs: Vec::new(), job: None }
    }
}

/// Makes the objects to be written from those of the backup.
pub(crate) struct ObjectBuilder {
    pub(crate) actions: Actions,
    /// Pods that their Jobs make anew.
    pub(crate) job_pods: Arc<JobPods>,
    /// Claims of ephemeral volumes whose pods are not restored.
    pub(crate) orphaned_claims: Arc<OrphanedClaims>,
    pub(crate) volumes: Arc<RestoredVolumes>,
    pub(crate) modifiers: Arc<Modifiers>,
    /// Merge rules of types, for the strategic patches of the modifiers.
    pub(crate) schemas: Arc<Schemas>,
}

impl ObjectBuilder {
    /// The same builder in a cluster that serves these types.
    ///
    /// # Errors
    /// Which action has no scope there, for people.
    pub(crate) fn serving(&self, catalog: &Catalog) -> Result<Self, String> {
        let Self { actions, job_pods, orphaned_claims, volumes, modifiers, schemas } = self;
        Ok(Self {
            actions: actions.serving(catalog)?,
            job_pods: Arc::clone(job_pods),
            orphaned_claims: Arc::clone(orphaned_claims),
            volumes: Arc::clone(volumes),
            modifiers: Arc::clone(modifiers),
            schemas: Arc::clone(schemas),
        })
    }

    /// Makes the object that would be created under this key.
    ///
    /// # Errors
    /// Returns the reason why it cannot be made.
    pub(crate) async fn desired(
        &self,
        scope: &RestoreScope,
        key: &ObjectKey,
        from_backup: &Value,
        ask: ActionSelection<'_>,
    ) -> Result<Desired, PrepareError> {
        if is_mirror_pod(&key.resource, from_backup) {
            return Ok(Desired::skip("the kubelet makes this mirror pod itself"));
        }
        if let Some(why) = written_by_cluster(from_backup) {
            return Ok(Desired::skip(why));
        }
        if is_data_upload(&key.resource) {
            return Ok(Desired::skip("it stands for data in a repository, which comes back with its claim"));
        }
        if key.resource == GroupResource::new("", "persistentvolumes") && self.volumes.provisioned.contains(&key.name) {
            return Ok(Desired::skip("it is not made on its old storage: its claim is provisioned anew"));
        }
        // What ties an object to its cluster is compared without the mapping and the modifiers: they are one of the reasons why it is
        // to change.
        let is_detached_only = matches!(ask, ActionSelection::Detaching);
        if !is_detached_only {
            // Before actions are asked, which may begin something for an object that then has to wait.
            let prepared = self.modifiers.prepare(candidate(key, from_backup, from_backup), &self.schemas).await;
            prepared.map_err(|e| unmodified(key, e))?;
        }
        let mut item = from_backup.clone();
        let mut status = strip(&mut item);
        if scope.has_status_as_data(key, from_backup) {
            // Nobody else writes it.
            if let (Some(status), Some(map)) = (status.take(), item.as_object_mut()) {
                map.insert("status".to_owned(), status);
            }
        }
        let applied = self.actions.apply(key, item, from_backup, ask).await?;
        let Applied { mut item, left_out_by, needs, unasked, is_asked_once } = applied;
        if let Some(action) = left_out_by {
            return Ok(Desired::Skip { reason: format!("the action {action} leaves it out"), needs, job: None });
        }
        if let Some(job) = self.job_of(&scope.hooks, key, from_backup, &item) {
            let job = Some(scope.target_of(job));
            return Ok(Desired::Skip { reason: job.as_ref().map(left_to).unwrap_or_default(), needs, job });
        }
        if !is_detached_only {
            references::follow(&key.resource, &mut item, &scope.restore.spec.namespace_mapping);
        }
        match (key.resource.group.as_str(), key.resource.resource.as_str()) {
            ("", "persistentvolumes") => reset_volume(&mut item, &scope.restore.spec.namespace_mapping),
            ("", "persistentvolumeclaims") => reset_claim(&mut item, &self.volumes.provisioned),
            ("", "pods") => add_init_containers(&scope.hooks, key, &mut item),
            _ => {}
        }
        let modified = match is_detached_only {
            true => Modified::default(),
            // Actions that do more than answer are not asked twice.
            false => self.modify(key, from_backup, &mut item).await.map_err(|e| {
                let can_pass = e.can_pass && !is_asked_once;
                unmodified(key, NotKnown { can_pass, ..e })
            })?,
        };
        finish(scope, key, &mut item);
        Ok(Desired::Object(Box::new(DesiredObject { item, status, needs, unasked, is_asked_once, modified })))
    }

    /// Applies the resource modifiers, whose conditions are about the namespace of the backup.
    async fn modify(&self, key: &ObjectKey, from_backup: &Value, item: &mut Value) -> Result<Modified, NotKnown> {
        let (changed, modified) = self.modifiers.apply(candidate(key, from_backup, item), &self.schemas).await?;
        if let Some(changed) = changed {
            *item = changed;
        }
        Ok(modified)
    }

    /// The Job that makes a pod anew; `None` where hooks are for this very pod, and for all others.
    fn job_of(&self, hooks: &RestoreHooks, key: &ObjectKey, from_backup: &Value, item: &Value) -> Option<&ObjectKey> {
        if self.job_pods.is_empty() || key.resource != GroupResource::new("", "pods") {
            return None;
        }
        let in_backup =
            ObjectKey { namespace: from_backup["metadata"]["namespace"].as_str().map(str::to_owned), ..key.clone() };
        let job = self.job_pods.get(&in_backup)?;
        let mut pod = HookPod::of(item);
        pod.namespace = key.namespace.clone().unwrap_or_default();
        (hooks.init_containers(&pod).is_empty() && hooks.commands(&pod).0.is_empty()).then_some(job)
    }

    /// Returns true if objects under this key may be changed beyond losing their ties to the cluster of the backup.
    fn may_change(&self, scope: &RestoreScope, target: &ObjectKey) -> bool {
        let is_mapped = !scope.restore.spec.namespace_mapping.is_empty();
        self.actions.may_change(target)
            || self.modifiers.may_change(&target.resource)
            || is_mapped && (references::is_mapped(&target.resource) || self.volumes.native.has(target))
    }

    /// Returns true if the object in the cluster is in the very state of the backup, is not being deleted, and nothing in the
    /// restore changes it.
    ///
    /// # Errors
    /// Returns the reason why the object to be written cannot be made.
    pub(crate) async fn is_same(
        &self,
        scope: &RestoreScope,
        item: ItemToDecide<'_>,
        in_cluster: &Value,
    ) -> Result<bool, PrepareError> {
        let ItemToDecide { key, from_backup, desired, .. } = item;
        if TerminatingObject::of(in_cluster).is_some() || !is_same_state(in_cluster, from_backup) {
            return Ok(false);
        }
        Ok(!self.is_to_change(scope, key, from_backup, desired).await?)
    }

    /// Returns true if the namespace mapping or an action changes more of an object than its ties to its cluster, so
    /// that an object in the cluster that is still in the state of the backup must be written all the same. Compares
    /// the object to be written with the result of the detaching actions alone.
    ///
    /// # Errors
    /// Returns the reason why it cannot be made.
    async fn is_to_change(
        &self,
        scope: &RestoreScope,
        key: &ObjectKey,
        from_backup: &Value,
        desired: &Value,
    ) -> Result<bool, PrepareError> {
        if !self.may_change(scope, key) {
            return Ok(false);
        }
        Ok(match self.desired(scope, key, from_backup, ActionSelection::Detaching).await? {
            Desired::Skip { .. } => false,
            Desired::Object(as_it_is) => crate::object::update::patch(desired, &as_it_is.item).is_some(),
        })
    }

    /// Returns true if an object in the cluster is in the state of the backup, and nothing in the restore may change
    /// it.
    pub(crate) fn stays(&self, scope: &RestoreScope, target: &ObjectKey, seen: Existence) -> bool {
        seen == Existence::Unchanged && !self.may_change(scope, target) && !scope.relabels()
    }
}

/// Puts the init containers of hooks before those of the pod, behind the one that waits for volumes
/// (velero: internal/hook).
fn add_init_containers(hooks: &RestoreHooks, key: &ObjectKey, item: &mut Value) {
    let mut pod = HookPod::of(item);
    pod.namespace = key.namespace.clone().unwrap_or_default();
    let containers = hooks.init_containers(&pod);
    if containers.is_empty() || !item["spec"].is_object() {
        return;
    }
    let own = item["spec"]["initContainers"].take();
    let own = own.as_array().cloned().unwrap_or_default();
    let waits = own.first().is_some_and(|first| first["name"] == RESTORE_WAIT);
    let (before, behind) = own.split_at(usize::from(waits));
    item["spec"]["initContainers"] = [before, &containers, behind].concat().into();
}

/// Namespace and labels of the restored object.
fn finish(scope: &RestoreScope, key: &ObjectKey, item: &mut Value) {
    let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.remove("managedFields");
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
    if !labels.is_object() {
        *labels = Value::Object(Map::new());
    }
    labels[well_known::LABEL_BACKUP_NAME] = label_value(&scope.restore.spec.backup_name).into();
    labels[well_known::LABEL_RESTORE_NAME] = label_value(&scope.restore.metadata.name).into();
}

/// Describes an object to the conditions of resource modifiers.
fn candidate<'a>(key: &'a ObjectKey, from_backup: &'a Value, object: &'a Value) -> ModifierTarget<'a> {
    let namespace = from_backup["metadata"]["namespace"].as_str().filter(|_| key.namespace.is_some());
    ModifierTarget { resource: &key.resource, namespace, object }
}

/// That an object is not made, because it would be made without a rule that is for it.
fn unmodified(key: &ObjectKey, NotKnown { why, can_pass }: NotKnown) -> PrepareError {
    let why = format!(
        "error restoring {key}: it is not made without its resource modifiers, and these cannot be applied: {why}"
    );
    if can_pass { PrepareError::ForNow(why) } else { PrepareError::Failed(why) }
}

/// A mirror pod is the kubelet's shadow of a static one.
fn is_mirror_pod(resource: &GroupResource, object: &Value) -> bool {
    *resource == GroupResource::new("", "pods")
        && object["metadata"]["annotations"]["kubernetes.io/config.mirror"].as_str().is_some_and(|v| !v.is_empty())
}

/// Returns true for DataUploads, with which Velero moves snapshot data.
fn is_data_upload(resource: &GroupResource) -> bool {
    *resource == GroupResource::new(lifeboat_api::GROUP, "datauploads")
}
