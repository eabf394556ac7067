//! Writes one object: creates it, or brings the one that is there in line (restore.md 2.8, 2.13, 2.14).

use crate::action::Action;
use crate::apply::{Ask, Unprepared};
use crate::desired::{Desired, DesiredObject};
use crate::existing::{is_made_since, is_same_state, merge_service_account};
use crate::item::{Context, Source};
use crate::leaving::Leaving;
use crate::managed_fields::{Owners, decide};
use crate::namespaces::Missing;
use crate::wait::established;
use bytes::Bytes;
use lifeboat_api::{ExistingResourcePolicy, Time, label_value, well_known};
use lifeboat_cluster::{ClusterError, Create, PatchKind};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey};
use serde_json::{Value, json};
use std::sync::Arc;

/// An object on its way, with what messages need.
struct Target<'a> {
    /// `resource/target namespace/name`.
    key: ObjectKey,
    source: &'a ObjectKey,
    resource: Arc<ApiResource>,
}

/// What was written of an object, and what has yet to follow.
struct Written<'a> {
    owners: Owners,
    from_backup: &'a Value,
    status: Option<&'a Value>,
}

/// Why an object was not written.
pub(crate) enum Refused {
    /// The journal has it.
    Reported,
    /// The server's word; nobody has reported it yet.
    Because(Box<ClusterError>),
    /// Its namespace is not there; nobody has reported that yet.
    Namespace(Missing),
    /// The one in the cluster is being deleted; nobody has reported that yet.
    Leaving(Leaving),
    /// The restore ends early, and what has to be there before it is not.
    Stopped,
    /// It needs to wait for others, and too many do.
    Crowded,
}

impl Context {
    pub(crate) async fn write(&self, source: &Source, key: ObjectKey, from_backup: Value) -> Result<Action, Refused> {
        if let Some(claim) = self.held_back_by(&key, &from_backup) {
            let why = "could not be restored and would be made anew, empty";
            let next = "restore the claim, then run the restore again";
            self.error(&key, &format!("error restoring {key}: held back, because its claim {claim} {why}; {next}"));
            return Err(Refused::Reported);
        }
        let mut desired = match self.kept.take(source.row) {
            Some(desired) => desired,
            None => match self.desired(&key, &from_backup, Ask::All(&self.operations)).await {
                Ok(Desired::Object(object)) => *object,
                Ok(Desired::Skip { mut needs, .. }) => {
                    needs.iter_mut().for_each(|need| need.wait = None);
                    self.additional(&source.key, &mut needs).await?;
                    return Ok(Action::Skipped);
                }
                Err(e) => return Err(self.unprepared(&key, e)),
            },
        };
        let written = self.write_desired(source, key, &from_backup, &mut desired).await;
        if desired.is_asked_once && !matches!(written, Ok(_) | Err(Refused::Reported)) {
            self.kept.keep(source.row, desired);
        }
        written
    }

    /// Tells why an object could not be made for the cluster.
    fn unprepared(&self, key: &ObjectKey, why: Unprepared) -> Refused {
        match why {
            Unprepared::Failed(e) => {
                self.error(key, &e);
                Refused::Reported
            }
            Unprepared::Fatal(why) => {
                self.stop.break_off(why);
                Refused::Stopped
            }
            Unprepared::Stopped => Refused::Stopped,
        }
    }

    async fn write_desired(
        &self,
        source: &Source,
        key: ObjectKey,
        from_backup: &Value,
        desired: &mut DesiredObject,
    ) -> Result<Action, Refused> {
        if let Some(namespace) = &source.key.namespace {
            self.ensure_namespace(namespace).await.map_err(Refused::Namespace)?;
        }
        self.additional(&source.key, &mut desired.needs).await?;
        let resource = match self.served(&key, &desired.item) {
            Ok(resource) => resource,
            Err(e) => {
                self.error(&key, &format!("error restoring {key}: {e}"));
                return Err(Refused::Reported);
            }
        };
        let owners = decide(&from_backup["metadata"]["managedFields"]);
        let target = Target { key, source: &source.key, resource };
        let written = Written { owners, from_backup, status: desired.status.as_ref() };
        if source.exists
            && let Ok(Some(body)) =
                self.env.cluster.get(&target.resource, target.key.namespace.as_deref(), &target.key.name).await
        {
            let existing = staying(&body)?;
            if self.resumed && self.is_ours(&existing) {
                self.after_create(&target, &written).await;
                return Ok(Action::Created);
            }
            return self.existing(&target, &desired.item, &written, &existing).await;
        }
        let body = Bytes::from(desired.item.to_string());
        let how = Create { field_manager: &written.owners.field_manager, dry_run: false };
        let namespace = target.key.namespace.as_deref();
        match self.env.cluster.create(&target.resource, namespace, &target.key.name, body, how).await {
            Ok(_) => {
                self.after_create(&target, &written).await;
                Ok(Action::Created)
            }
            Err(e) => self.not_created(&target, &desired.item, &written, e).await,
        }
    }

    /// Whether this very restore made the object: an earlier run of it that was cut off, or a create whose answer was
    /// lost.
    fn is_ours(&self, existing: &Value) -> bool {
        let labels = &existing["metadata"]["labels"];
        let began = self.restore.metadata.creation_timestamp.map(Time::timestamp);
        labels[well_known::LABEL_RESTORE_NAME] == label_value(&self.restore.metadata.name).as_str()
            && labels[well_known::LABEL_BACKUP_NAME] == label_value(&self.restore.spec.backup_name).as_str()
            && is_made_since(existing, began)
    }

    /// The writes that follow a create; making them again does no harm.
    async fn after_create(&self, target: &Target<'_>, written: &Written<'_>) {
        let Target { key, source, resource } = target;
        let Written { owners, from_backup, status } = written;
        let namespace = key.namespace.as_deref();
        if let Some(status) = status
            && self.wants_status(source, from_backup)
        {
            let patch = Bytes::from(json!({ "status": status }).to_string());
            let subresource = resource.has_subresource("status").then_some("status");
            let written =
                self.env.cluster.patch(resource, namespace, &key.name, subresource, PatchKind::Merge, patch).await;
            if let Err(e) = written {
                self.warning(key, &format!("status of {key} could not be restored: {}", e.failure));
            }
        }
        if owners.second_write {
            let managed_fields = &from_backup["metadata"]["managedFields"];
            let patch = Bytes::from(json!({"metadata": {"managedFields": managed_fields}}).to_string());
            let written = self.env.cluster.patch(resource, namespace, &key.name, None, PatchKind::Merge, patch).await;
            match written {
                Ok(_) => {}
                Err(e) if e.is_not_found() => {
                    self.warning(key, &format!("error restoring managedFields of {key}: {}", e.failure));
                }
                Err(e) => self.error(key, &format!("error restoring managedFields of {key}: {}", e.failure)),
            }
        }
        if key.resource.resource == "customresourcedefinitions"
            && let Err(e) = established(resource, &key.name, self.resource_timeout, &self.env).await
        {
            self.error(key, &e);
        }
    }

    /// The annotation on the object decides, then the restore's list of types (restore.md 2.14).
    fn wants_status(&self, source: &ObjectKey, from_backup: &Value) -> bool {
        let annotation = from_backup["metadata"]["annotations"][well_known::ANNOTATION_RESTORE_STATUS].as_str();
        match annotation.map(|v| v.trim().to_lowercase()).as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => self.filter.restores_status(&source.resource),
        }
    }

    /// The object is there already, or it was refused.
    async fn not_created(
        &self,
        target: &Target<'_>,
        desired: &Value,
        written: &Written<'_>,
        error: ClusterError,
    ) -> Result<Action, Refused> {
        let Target { key, resource, .. } = target;
        match self.env.cluster.get(resource, key.namespace.as_deref(), &key.name).await {
            Ok(Some(body)) => {
                let existing = staying(&body)?;
                // A controller may have made it meanwhile, with our labels copied from its parent: then it differs.
                let same = || crate::update::patch(desired, &existing).is_none();
                if error.is_already_exists() && self.is_ours(&existing) && (self.resumed || same()) {
                    self.after_create(target, written).await;
                    return Ok(Action::Created);
                }
                self.existing(target, desired, written, &existing).await
            }
            Ok(None) => Err(Refused::Because(Box::new(error))),
            Err(e) => {
                self.error(key, &format!("error restoring {key}: {}; reading it: {}", error.failure, e.failure));
                Err(Refused::Reported)
            }
        }
    }

    async fn existing(
        &self,
        target: &Target<'_>,
        desired: &Value,
        written: &Written<'_>,
        existing: &Value,
    ) -> Result<Action, Refused> {
        let Target { key, resource, .. } = target;
        if is_same_state(existing, written.from_backup) {
            match self.is_to_change(key, written.from_backup, desired).await {
                Ok(true) => {}
                Ok(false) => return Ok(Action::Skipped),
                Err(e) => return Err(self.unprepared(key, e)),
            }
        }
        let Some(difference) = crate::update::patch(desired, existing) else { return Ok(Action::Skipped) };
        let policy = &self.restore.spec.existing_resource_policy;
        let patch = if key.resource == GroupResource::new("", "serviceaccounts") {
            merge_service_account(desired, existing)
        } else if *policy == ExistingResourcePolicy::Update {
            Some(difference)
        } else {
            // compat: two wordings, as Velero's; scripts look for them.
            let subject = match policy {
                ExistingResourcePolicy::None => format!("{} {:?}", resource.kind, key.name),
                _ => format!("{}:{}", resource.kind, key.name),
            };
            self.warning(
                key,
                &format!(
                    "could not restore, {subject} already exists. Warning: the in-cluster version is different than the backed-up version"
                ),
            );
            None
        };
        let Some(patch) = patch else { return Ok(Action::Skipped) };
        let body = Bytes::from(patch.to_string());
        let namespace = key.namespace.as_deref();
        match self.env.cluster.patch(resource, namespace, &key.name, None, PatchKind::Merge, body).await {
            Ok(_) => Ok(Action::Updated),
            Err(e) => {
                self.warning(key, &format!("could not update {key} to match the backup: {}", e.failure));
                Ok(Action::Failed)
            }
        }
    }
}

/// An object of the cluster, unless it is being deleted.
fn staying(body: &[u8]) -> Result<Value, Refused> {
    let existing = serde_json::from_slice(body).unwrap_or_default();
    match Leaving::of(&existing) {
        Some(leaving) => Err(Refused::Leaving(leaving)),
        None => Ok(existing),
    }
}
