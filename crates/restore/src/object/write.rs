//! Writes one object: creates it, or brings the one that is there in line (velero: pkg/restore/restore.go).

use crate::object::best_effort::ToPatch;
use crate::object::create::{CreatedObject, ToCreate, unlabelled};
use crate::object::decision::{ExistingRules, ItemDecision, ItemToDecide, KeepReason, decide, told_newer};
use crate::object::existing::is_made_since;
use crate::object::managed_fields::FieldManagers;
use crate::object::recreate::{NotDeleted, Replacement, advice};
use crate::object::refused::{self, Refused};
use crate::object::repository_data::{self, Written};
use crate::object::{ephemeral_claims, orphaned_claims};
use crate::plan::confirmed::{ConfirmedPlan, PlannedWrite};
use crate::state::attempt::SourceObject;
use crate::state::item_result::ItemResult;
use crate::state::retry::can_pass;
use crate::state::terminating::TerminatingObject;
use crate::state::wait::established;
use crate::walk::context::RestoreContext;
use bytes::Bytes;
use lifeboat_api::{ExistingResourcePolicy, Time, well_known};
use lifeboat_cluster::{ClusterError, MergePatch};
use lifeboat_object::{ApiResource, ObjectKey};
use serde_json::{Value, json};
use std::sync::Arc;

/// Writes objects, and completes them after their creation.
#[derive(Clone, Copy)]
pub(crate) struct ClusterWriter<'a>(pub(crate) &'a RestoreContext);

/// An object that is to be written.
pub(crate) struct ToWrite<'a> {
    /// The object of the archive that it was read from.
    pub(crate) source: &'a SourceObject,
    /// Its key in the cluster, unless an action gives it another name.
    pub(crate) key: &'a ObjectKey,
    /// The object in the backup.
    pub(crate) from_backup: &'a Value,
    /// As it would be created, and as a plan knows it, and its status in the backup.
    pub(crate) desired: &'a Value,
    pub(crate) planned: &'a Value,
    pub(crate) status: Option<&'a Value>,
}

impl ToWrite<'_> {
    /// The name that it gets.
    pub(crate) fn name(&self) -> &str {
        self.desired["metadata"]["name"].as_str().unwrap_or(&self.key.name)
    }
}

/// An object on its way, with its type and the managers of its fields.
struct WriteTarget<'a> {
    object: &'a ToWrite<'a>,
    resource: Arc<ApiResource>,
    managers: FieldManagers,
}

impl ClusterWriter<'_> {
    /// Creates the object, or brings the one that is there in line.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) async fn write(&self, object: &ToWrite<'_>) -> Result<ItemResult, Refused> {
        let (ToWrite { source, key, desired, .. }, name) = (object, object.name());
        if name != key.name {
            self.0.state.notes.renamed.note(source.row, name);
        }
        let resource = match self.0.scope.served(key, desired) {
            Ok(resource) => resource,
            Err(e) => {
                self.0.state.messages.error(key, &format!("error restoring {key}: {e}"));
                return Err(Refused::Reported);
            }
        };
        let managers = FieldManagers::of(&object.from_backup["metadata"]["managedFields"]);
        let target = WriteTarget { object, resource, managers };
        let namespace = key.namespace.as_deref();
        let looks_first = source.exists || self.0.plan.as_ref().is_some_and(|pinned| !pinned.makes(key));
        if looks_first {
            match self.0.writes.get(&target.resource, namespace, name).await {
                Ok(Some(body)) => {
                    let existing: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let was_changed = self.0.plan.as_ref().is_some_and(|pinned| pinned.found_changed(key));
                    if self.0.state.is_resumed && !was_changed && self.is_ours(source, &existing) {
                        self.after_create(&target, &existing).await;
                        return Ok(ItemResult::Created);
                    }
                    return self.existing(&target, &existing).await;
                }
                // Nobody knows whether it is as in the plan.
                Err(e) if self.0.plan.is_some() => return Err(Refused::Because(Box::new(e))),
                Ok(None) | Err(_) => {}
            }
        }
        self.held(object, PlannedWrite::Create)?;
        match self.create(&target).await {
            Ok(()) => Ok(ItemResult::Created),
            Err(e) => self.not_created(&target, e).await,
        }
    }

    /// Creates the object, and completes it.
    async fn create(&self, target: &WriteTarget<'_>) -> Result<(), ClusterError> {
        let WriteTarget { object: ToWrite { key, desired, .. }, resource, managers } = target;
        let (namespace, name, field_manager) =
            (key.namespace.as_deref(), target.object.name(), &*managers.field_manager);
        let to_create = ToCreate { resource, namespace, name, object: desired, field_manager };
        let CreatedObject { object, is_labelled } = to_create.send(&self.0.writes).await?;
        if !is_labelled {
            self.0.state.messages.warning(key, &unlabelled(key));
        }
        self.after_create(target, &object).await;
        Ok(())
    }

    /// The object of the cluster that one of this key would become.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) async fn read(&self, key: &ObjectKey, desired: &Value) -> Result<Option<Value>, Refused> {
        let resource = self.0.scope.served(key, desired).map_err(|e| {
            self.0.state.messages.error(key, &format!("error restoring {key}: {e}"));
            Refused::Reported
        })?;
        let name = desired["metadata"]["name"].as_str().unwrap_or(&key.name);
        let found = self.0.writes.get(&resource, key.namespace.as_deref(), name).await;
        let found = found.map_err(|e| Refused::Because(Box::new(e)))?;
        Ok(found.map(|body| serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Refuses changes that the plan does not have, where the restore is held to one.
    fn held(&self, object: &ToWrite<'_>, change: PlannedWrite<'_>) -> Result<(), Refused> {
        let Some(pinned) = &self.0.plan else { return Ok(()) };
        self.allowed(pinned, object.key, change, object.planned)
    }

    /// Refuses to make an object that the plan does not say is made.
    pub(crate) fn may_create(&self, key: &ObjectKey, planned: &Value) -> Result<(), Refused> {
        let Some(pinned) = &self.0.plan else { return Ok(()) };
        self.allowed(pinned, key, PlannedWrite::Create, planned)
    }

    fn allowed(
        &self,
        pinned: &ConfirmedPlan,
        key: &ObjectKey,
        change: PlannedWrite<'_>,
        planned: &Value,
    ) -> Result<(), Refused> {
        pinned.allows(key, change, planned).map_err(|why| {
            self.0.state.messages.error(key, &format!("error restoring {key}: it was left as it is, because {why}"));
            Refused::Reported
        })
    }

    /// Returns true if this very restore made the object from this object of the backup: an earlier run of it that was
    /// cut off, or a create whose answer was lost.
    fn is_ours(&self, source: &SourceObject, existing: &Value) -> bool {
        if self.0.scope.taken_by(source.row).is_some() || TerminatingObject::of(existing).is_some() {
            return false;
        }
        let began = self.0.scope.restore.metadata.creation_timestamp.map(Time::timestamp);
        self.0.scope.has_labels(existing) && is_made_since(existing, began)
    }

    /// Completes a create: makes further writes, and runs the commands of a pod. Doing it again does no harm.
    async fn after_create(&self, target: &WriteTarget<'_>, in_cluster: &Value) {
        let WriteTarget { object: ToWrite { source, key, from_backup, desired, status, .. }, resource, managers } =
            target;
        let messages = &self.0.state.messages;
        let (namespace, name) = (key.namespace.as_deref(), target.object.name());
        // The pod waits for them, and all that follows for the pod.
        ephemeral_claims::give_to_pod(self.0, key, in_cluster).await;
        if let Some(pod) = self.0.builder.orphaned_claims.get(&source.key) {
            messages.warning(key, &orphaned_claims::warning(key, pod));
        }
        if let Some(status) = status
            && self.wants_status(&source.key, desired)
        {
            let body = Bytes::from(json!({ "status": status }).to_string());
            let patch = MergePatch { body, subresource: resource.has_subresource("status").then_some("status") };
            let written = self.0.writes.patch(resource, namespace, name, patch).await;
            if let Err(e) = written {
                self.0.state.messages.warning(key, &format!("status of {key} could not be restored: {}", e.failure));
            }
        }
        if managers.second_write {
            let managed_fields = &from_backup["metadata"]["managedFields"];
            let patch = Bytes::from(json!({"metadata": {"managedFields": managed_fields}}).to_string());
            let written = self.0.writes.patch(resource, namespace, name, MergePatch::of(patch)).await;
            match written {
                Ok(_) => {}
                Err(e) if e.is_not_found() => {
                    messages.warning(key, &format!("error restoring managedFields of {key}: {}", e.failure));
                }
                Err(e) => messages.error(key, &format!("error restoring managedFields of {key}: {}", e.failure)),
            }
        }
        if key.resource.is_definitions() {
            match established(resource, name, self.0.scope.options.resource_timeout, &self.0.env).await {
                Ok(definition) => self.0.state.notes.defined.note(&definition),
                Err(e) => self.0.state.messages.error(key, &e),
            }
        }
        if self.0.state.pods.commands.begin(key, in_cluster).await {
            // A run again has to know whether they have run.
            self.0.state.messages.leave_open(key);
        }
        repository_data::begin(self.0, &source.key, key, Written { from_backup, in_cluster }).await;
    }

    /// The annotation on the object decides, as actions and resource modifiers have left it, then the restore's list of
    /// types.
    fn wants_status(&self, source: &ObjectKey, desired: &Value) -> bool {
        let annotation = desired["metadata"]["annotations"][well_known::ANNOTATION_RESTORE_STATUS].as_str();
        match annotation.map(|v| v.trim().to_lowercase()).as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => self.0.scope.filter.restores_status(&source.resource),
        }
    }

    /// The object is there already, or it was refused.
    async fn not_created(&self, target: &WriteTarget<'_>, error: ClusterError) -> Result<ItemResult, Refused> {
        let WriteTarget { object: ToWrite { source, key, desired, .. }, resource, .. } = target;
        match self.0.writes.get(resource, key.namespace.as_deref(), target.object.name()).await {
            Ok(Some(body)) => {
                let existing: Value = serde_json::from_slice(&body).unwrap_or_default();
                // A controller may have made it meanwhile, with our labels copied from its parent: then it differs.
                let same = || crate::object::update::patch(desired, &existing).is_none();
                if error.is_already_exists() && self.is_ours(source, &existing) && (self.0.state.is_resumed || same()) {
                    self.after_create(target, &existing).await;
                    return Ok(ItemResult::Created);
                }
                self.existing(target, &existing).await
            }
            Ok(None) => Err(Refused::Because(Box::new(error))),
            // What keeps it from being read is what keeps it from being made.
            Err(_) if can_pass(&error) => Err(Refused::Because(Box::new(error))),
            Err(e) => {
                self.0
                    .state
                    .messages
                    .error(key, &format!("error restoring {key}: {}; reading it: {}", error.failure, e.failure));
                Err(Refused::Reported)
            }
        }
    }

    /// Carries out the decision about an object whose name one of the cluster has.
    async fn existing(&self, target: &WriteTarget<'_>, existing: &Value) -> Result<ItemResult, Refused> {
        let WriteTarget { object: ToWrite { key, from_backup, desired, .. }, resource, .. } = target;
        let scope = &self.0.scope;
        let item = ItemToDecide { key, resource, from_backup, desired };
        let is_same = self.0.builder.is_same(scope, item, existing).await.map_err(Refused::Unprepared)?;
        let decision = decide(item, existing, is_same, ExistingRules::of(scope));
        if !matches!(decision, ItemDecision::Wait(_) | ItemDecision::Recreate) {
            ephemeral_claims::give_to_pod(self.0, key, existing).await;
        }
        let patch = match decision {
            ItemDecision::Wait(terminating) => return Err(Refused::Leaving(terminating)),
            ItemDecision::Unchanged => return Ok(self.unchanged(target, existing).await),
            ItemDecision::Merge(patch) | ItemDecision::Update(patch) => patch,
            ItemDecision::Recreate => return self.recreate(target, existing).await,
            ItemDecision::Keep(reason) => return Ok(self.keep(target, &reason)),
        };
        self.held(target.object, PlannedWrite::Update(existing))?;
        self.update(target, existing, patch).await
    }

    /// Tells of an object that stays as it is, although it differs from the backup.
    fn keep(&self, target: &WriteTarget<'_>, reason: &KeepReason) -> ItemResult {
        let WriteTarget { object: ToWrite { key, .. }, resource, .. } = target;
        let messages = &self.0.state.messages;
        match reason {
            KeepReason::OfCluster(why) => {
                messages.left_out(key, why);
                return ItemResult::Skipped;
            }
            KeepReason::Newer(what) => {
                messages.warning(key, &format!("could not update {key} to match the backup: {}", told_newer(what)));
            }
            KeepReason::NotRecreated(why) => {
                messages.warning(key, &format!("could not recreate {key}, which differs from the backup: {why}"));
            }
            KeepReason::Policy(policy) => {
                // compat: two wordings, as Velero's; scripts look for them.
                let subject = match policy {
                    ExistingResourcePolicy::None => format!("{} {:?}", resource.kind, target.object.name()),
                    _ => format!("{}:{}", resource.kind, target.object.name()),
                };
                let why = "the in-cluster version is different than the backed-up version";
                messages.warning(key, &format!("could not restore, {subject} already exists. Warning: {why}"));
            }
        }
        ItemResult::Differs
    }

    /// Handles an object that is as in the backup already: it gets the labels of the restore where that is asked for.
    async fn unchanged(&self, target: &WriteTarget<'_>, existing: &Value) -> ItemResult {
        let WriteTarget { object: ToWrite { key, from_backup, desired, .. }, resource, .. } = target;
        self.0.state.messages.unchanged(key);
        let policy = self.0.scope.existing.of(&key.resource, from_backup);
        let is_updated = matches!(policy, ExistingResourcePolicy::Update | ExistingResourcePolicy::Exact);
        if !self.0.scope.relabels() || !is_updated || self.0.scope.has_labels(existing) {
            return ItemResult::Skipped;
        }
        let labels = &desired["metadata"]["labels"];
        let labels = [well_known::LABEL_BACKUP_NAME, well_known::LABEL_RESTORE_NAME].map(|name| (name, &labels[name]));
        let patch =
            json!({"metadata": {"labels": serde_json::Map::from_iter(labels.map(|(k, v)| (k.to_owned(), v.clone())))}});
        let patch = MergePatch::of(Bytes::from(patch.to_string()));
        if let Err(e) = self.0.writes.patch(resource, key.namespace.as_deref(), target.object.name(), patch).await {
            let text =
                format!("{key} is as in the backup, and could not be given the labels of the restore: {}", e.failure);
            self.0.state.messages.warning(key, &text);
        }
        ItemResult::Skipped
    }

    /// Makes an object match the backup, as far as the API server lets it.
    async fn update(
        &self,
        target: &WriteTarget<'_>,
        existing: &Value,
        mut patch: Value,
    ) -> Result<ItemResult, Refused> {
        let WriteTarget { object: ToWrite { key, .. }, resource, .. } = target;
        if self.0.plan.is_some() {
            // The API server refuses it when the object has changed meanwhile.
            lifeboat_patch::merge(
                &mut patch,
                &json!({"metadata": {
                "uid": existing["metadata"]["uid"], "resourceVersion": existing["metadata"]["resourceVersion"]}}),
            );
        }
        let (namespace, name, is_error) = (key.namespace.as_deref(), target.object.name(), self.0.plan.is_some());
        match (ToPatch { resource, namespace, name, patch: &patch, is_dry: false }).send(&self.0.writes).await {
            Ok(kept) => {
                if kept.labels {
                    self.0.state.messages.warning(key, &unlabelled(key));
                }
                if let Some(kept) = kept.told() {
                    let told = format!("could not update {key} to match the backup: {kept}; all the rest is updated");
                    self.0.state.messages.unequal(key, &told, is_error);
                }
                Ok(ItemResult::Updated)
            }
            // It has changed in that moment, perhaps in nothing that counts.
            Err(e) if e.is_conflict() && self.0.plan.is_some() => Err(Refused::Because(Box::new(e))),
            Err(e) => {
                let told = format!("could not update {key} to match the backup: {}", refused::error_text(&e));
                if can_pass(&e) {
                    return Err(Refused::Unequal { told, is_error });
                }
                self.0.state.messages.unequal(key, &told, is_error);
                Ok(ItemResult::Failed)
            }
        }
    }

    /// Deletes an object that differs and makes it anew, where it may be.
    async fn recreate(&self, target: &WriteTarget<'_>, in_cluster: &Value) -> Result<ItemResult, Refused> {
        let WriteTarget { object: ToWrite { key, desired, .. }, resource, .. } = target;
        self.held(target.object, PlannedWrite::Recreate(in_cluster))?;
        let restore = &self.0.scope.restore.metadata.name;
        let named = ObjectKey { name: target.object.name().to_owned(), ..ObjectKey::clone(key) };
        let replacement = Replacement { restore, key: &named, resource, in_cluster, desired };
        if let Some(pinned) = &self.0.plan {
            pinned.deletes(key);
        }
        let place = match replacement.remove(self.0.scope.options.resource_timeout, &self.0.env).await {
            Ok(place) => place,
            Err(NotDeleted::Leaving(terminating)) => return Err(Refused::Leaving(terminating)),
            Err(NotDeleted::Refused(e)) if can_pass(&e) => return Err(Refused::Because(Box::new(e))),
            Err(why) => {
                let told = format!("could not recreate {key}: {}", why.told());
                match why {
                    // It is read again, and decided about as it is then.
                    NotDeleted::Changed => return Err(Refused::Unequal { told, is_error: true }),
                    NotDeleted::Unknown { .. } => {
                        // The attempt that follows may end with a message that says nothing about this.
                        self.0.state.messages.warning(key, &format!("{told}; it is looked at again"));
                        return Err(Refused::Unequal { told, is_error: true });
                    }
                    _ => self.0.state.messages.error(key, &told),
                }
                return Ok(ItemResult::Failed);
            }
        };
        let fields = [("object", key.to_string()), ("manifest", place.clone())];
        let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.0.env.operation.journal.info("Deleted an object to make it anew", &fields);
        match self.create(target).await {
            Ok(()) => Ok(ItemResult::Recreated),
            Err(e) if can_pass(&e) => {
                let why = format!("was deleted, and cannot be made anew at once: {}; {}", e.failure, advice(&place));
                self.0.state.messages.warning(key, &format!("{key} {why}"));
                Err(Refused::Because(Box::new(e)))
            }
            Err(e) => {
                let why = format!("it was deleted, and could not be made anew: {}; {}", e.failure, advice(&place));
                self.0.state.messages.error(key, &format!("could not recreate {key}: {why}"));
                Ok(ItemResult::Failed)
            }
        }
    }
}
