//! The preview of one object: the decisions that a restore would make about it, without carrying them out.

use super::dry_run::DryRun;
use crate::object::apply::{ActionSelection, Need, PrepareError};
use crate::object::decision::{
    ExistingRules, ItemDecision, ItemRoute, ItemToDecide, KeepReason, OtherItem, decide, told_newer,
};
use crate::object::desired::{Desired, ObjectBuilder};
use crate::object::refused::Refused;
use crate::object::update;
use crate::plan::guard::PlanGuard;
use crate::plan::planned::{Planned, PreviewItem};
use crate::plan::target_namespaces::TargetNamespaces;
use crate::request::modifier::Modified;
use crate::state::attempt::SourceObject;
use crate::state::env::Env;
use crate::state::lock::lock;
use crate::state::reader::BackupReader;
use crate::state::terminating::TerminatingObject;
use crate::volumes::native::{NotPrepared, VolumeDestination};
use crate::volumes::retained::{PlannedVolume, is_volume, unseen_volume};
use crate::walk::existence::Existence;
use crate::walk::read::filter_namespace;
use crate::walk::same_target::taken;
use crate::walk::scope::RestoreScope;
use lifeboat_object::{ApiResource, ObjectKey, chain};
use lifeboat_volume::{RetainedPlan, VolumeRefusal};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Previews single objects.
pub(super) struct ItemPreviewer {
    pub(super) scope: Arc<RestoreScope>,
    pub(super) builder: Arc<ObjectBuilder>,
    pub(super) namespaces: Arc<TargetNamespaces>,
    pub(super) reader: BackupReader,
    pub(super) env: Env,
    /// Types that the restore would define itself.
    pub(super) defined: Mutex<HashSet<String>>,
    /// Set when the API server is asked about each write, by a dry run.
    pub(super) asks_server: bool,
}

impl ItemPreviewer {
    /// Plans what a restore would do with an object, which was seen like this in the cluster.
    pub(super) async fn preview(&self, source: SourceObject, seen: Existence) -> PreviewItem {
        let key = self.scope.target_of(&source.key);
        let mut beside = ItemFindings::default();
        let planned = match serde_json::from_slice::<Value>(&source.body) {
            Err(e) => Planned::Refused(format!("error decoding {}: {e}", source.key)),
            Ok(object) => {
                let planned = match ItemRoute::of(source.row, &source.key, &object, &self.scope) {
                    ItemRoute::Ended => Ok(ended()),
                    ItemRoute::Namespace => {
                        return self.namespaces.item(self.scope.namespace(&source.key.name)).await;
                    }
                    ItemRoute::Second { other, is_merged: false } => {
                        self.beside(&key, &object, &other, &mut beside).await
                    }
                    ItemRoute::Second { .. } | ItemRoute::Write => self.object(&key, &object, seen, &mut beside).await,
                };
                planned.unwrap_or_else(Planned::Refused)
            }
        };
        let planned = match beside.write.take() {
            Some(write) if self.asks_server => {
                let (planned, stays) = write.ask(&key, planned, &self.env.cluster).await;
                beside.modified.warnings.extend(stays);
                planned
            }
            _ => planned,
        };
        let ItemFindings { waits, unasked, modified, needs, pin, .. } = beside;
        let Modified { by: modifications, errors, warnings } = modified;
        PreviewItem { key, planned, waits, unasked, modifications, errors, warnings, needs, pin }
    }

    /// The objects of the backup that come before another one because an action wants them, as [`crate::object::additional`] decides.
    fn coming_along(&self, needs: &[Need]) -> Vec<ObjectKey> {
        let filter = &self.scope.filter;
        let comes = |need: &Need, key: &ObjectKey| {
            need.is_past_filters || filter.includes_additional(&key.resource, filter_namespace(key))
        };
        let keys = needs.iter().flat_map(|need| need.items.iter().filter(|key| comes(need, key)));
        keys.filter(|key| self.scope.find(key).is_some()).cloned().collect()
    }

    /// Plans an object whose key in the cluster another object of the backup has already.
    async fn beside(
        &self,
        key: &ObjectKey,
        from_backup: &Value,
        other: &OtherItem,
        beside: &mut ItemFindings,
    ) -> Result<Planned, String> {
        let own =
            match self.builder.desired(&self.scope, key, from_backup, ActionSelection::Pure).await.map_err(said)? {
                Desired::Skip { reason, .. } => return Ok(Planned::Skip(reason)),
                Desired::Object(object) => object.item,
            };
        let body = self.reader.load(other.row).await.map_err(|e| chain(&e))?;
        let there = serde_json::from_slice(&body).map_err(|e| format!("error decoding {}: {e}", other.key))?;
        let there = match self.builder.desired(&self.scope, key, &there, ActionSelection::Pure).await.map_err(said)? {
            Desired::Skip { .. } => Value::Null,
            Desired::Object(object) => object.item,
        };
        if update::patch(&own, &there).is_none() {
            return Ok(Planned::Unchanged);
        }
        beside.modified.warnings.push(taken(&other.key));
        Ok(Planned::Conflict(update::differences(&own, &there)))
    }

    async fn object(
        &self,
        key: &ObjectKey,
        from_backup: &Value,
        seen: Existence,
        beside: &mut ItemFindings,
    ) -> Result<Planned, String> {
        let retained = &self.builder.volumes.retained;
        if let Some(why) = retained.lost(key, from_backup, &self.scope, &self.env).await.map_err(|e| e.to_string())? {
            return Ok(Planned::Refused(why));
        }
        let desired =
            match self.builder.desired(&self.scope, key, from_backup, ActionSelection::Pure).await.map_err(said)? {
                Desired::Skip { reason, needs, .. } => {
                    beside.needs = self.coming_along(&needs);
                    return Ok(Planned::Skip(reason));
                }
                Desired::Object(object) => *object,
            };
        let (pin, needs) = (PlanGuard::of(None, &desired.item), self.coming_along(&desired.needs));
        *beside = ItemFindings {
            unasked: desired.unasked,
            modified: desired.modified,
            needs,
            pin,
            ..ItemFindings::default()
        };
        let volume = match retained.plan(key, &desired.item, &self.scope, &self.env).await {
            Err(e) if e.is_denied() && !is_volume(key) => {
                beside.modified.warnings.push(unseen_volume(key, &e));
                None
            }
            volume => volume.map_err(|e| e.to_string())?,
        };
        if let Some(planned) = volume.and_then(|volume| planned_volume(key, volume)) {
            return Ok(planned);
        }
        let resource = match self.scope.served(key, &desired.item) {
            Ok(resource) => resource,
            Err(_) if lock(&self.defined).contains(&key.resource.to_string()) => return Ok(Planned::Create),
            Err(e) => return Err(e),
        };
        let item = desired.item;
        beside.write = self.write(&resource, &item, None);
        if self.builder.volumes.native.has(key) {
            let room = self.builder.volumes.native.room(key, from_backup, &self.scope, &self.env).await;
            let is_made = match room {
                Ok(VolumeDestination::Free(_)) => true,
                Err(NotPrepared::Refused(Refused::Leaving(terminating))) => {
                    beside.wait_for(&terminating);
                    true
                }
                // What stays is compared as it is.
                _ => false,
            };
            if is_made {
                return self.builder.volumes.native.refusal(key).map_or(Ok(Planned::Create), Err);
            }
        } else if seen == Existence::Absent {
            return Ok(Planned::Create);
        }
        let name = item["metadata"]["name"].as_str().unwrap_or(&key.name);
        let found = self.env.cluster.get(&resource, key.namespace.as_deref(), name).await;
        let Some(existing) = found.map_err(|e| e.to_string())? else { return Ok(Planned::Create) };
        let existing: Value = serde_json::from_slice(&existing).unwrap_or_default();
        // The restore waits until it is gone, and makes it then.
        if self.namespaces.takes_along(key).await {
            // The API server takes nothing into that namespace now.
            beside.write = None;
            return Ok(Planned::Create);
        }
        let to_decide = ItemToDecide { key, resource: &resource, from_backup, desired: &item };
        let is_same = self.builder.is_same(&self.scope, to_decide, &existing).await.map_err(said)?;
        let decision = decide(to_decide, &existing, is_same, ExistingRules::of(&self.scope));
        if let ItemDecision::Merge(patch) | ItemDecision::Update(patch) = &decision {
            beside.write = self.write(&resource, &item, Some(patch.clone()));
        }
        Ok(beside.show(&decision, &item, &existing))
    }

    /// The write that the API server is asked about, where it is asked.
    fn write(&self, resource: &Arc<ApiResource>, desired: &Value, patch: Option<Value>) -> Option<DryRun> {
        let (resource, desired) = (Arc::clone(resource), desired.clone());
        self.asks_server.then_some(DryRun { resource, patch, desired, is_beside: false })
    }
}

/// Findings about an object, beside its planned change.
#[derive(Default)]
struct ItemFindings {
    waits: Option<String>,
    unasked: Vec<String>,
    modified: Modified,
    needs: Vec<ObjectKey>,
    pin: PlanGuard,
    write: Option<DryRun>,
}

impl ItemFindings {
    /// Plans the change of an object whose name one of the cluster has.
    fn show(&mut self, decision: &ItemDecision, desired: &Value, in_cluster: &Value) -> Planned {
        let differences = || update::differences(desired, in_cluster);
        if !matches!(decision, ItemDecision::Wait(_)) {
            self.pin = PlanGuard::of(Some(in_cluster), desired);
        }
        match decision {
            ItemDecision::Wait(terminating) => {
                self.wait_for(terminating);
                Planned::Create
            }
            ItemDecision::Unchanged => Planned::Unchanged,
            ItemDecision::Merge(patch) => {
                let mut merged = in_cluster.clone();
                lifeboat_patch::merge(&mut merged, patch);
                Planned::Update(lifeboat_patch::differences(in_cluster, &merged))
            }
            ItemDecision::Update(_) => Planned::Update(differences()),
            ItemDecision::Recreate => Planned::Recreate(differences()),
            ItemDecision::Keep(KeepReason::OfCluster(why)) => Planned::Skip((*why).to_owned()),
            ItemDecision::Keep(reason) => {
                self.modified.warnings.extend(match reason {
                    KeepReason::Newer(what) => Some(told_newer(what)),
                    KeepReason::NotRecreated(why) => Some(format!("it is not recreated: {why}")),
                    KeepReason::Policy(_) | KeepReason::OfCluster(_) => None,
                });
                Planned::Conflict(differences())
            }
        }
    }

    /// The object is made when the one in the cluster is gone.
    fn wait_for(&mut self, terminating: &TerminatingObject) {
        self.waits = Some(terminating.awaited_condition());
        if let Some(write) = &mut self.write {
            write.is_beside = true;
        }
    }
}

/// The reason why an object could not be made, for people.
fn said(why: PrepareError) -> String {
    match why {
        PrepareError::Failed(why) | PrepareError::ForNow(why) => why,
        PrepareError::Fatal(why) => format!("the restore would break off here: {why}"),
        PrepareError::Stopped => "the dry run was cancelled".to_owned(),
    }
}

pub(super) fn ended() -> Planned {
    Planned::Skip("it has ended, and is not started again".to_owned())
}

/// The plan for an object that follows from its volume, which comes back as it is; `None` when that changes nothing.
fn planned_volume(key: &ObjectKey, volume: PlannedVolume) -> Option<Planned> {
    let is_left_out = volume.is_left_out(key);
    let PlannedVolume { plan, existing, .. } = volume;
    match plan {
        RetainedPlan::Rebind(patch) if is_volume(key) => {
            let before = existing.unwrap_or_default();
            let mut after = before.clone();
            lifeboat_patch::merge(&mut after, &patch);
            Some(Planned::Update(lifeboat_patch::differences(&before, &after)))
        }
        RetainedPlan::Refused(VolumeRefusal { why, .. }) if is_left_out => Some(Planned::Skip(why)),
        RetainedPlan::Refused(VolumeRefusal { why, next }) => Some(Planned::Refused(format!("{why}; {next}"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::ExistingResourcePolicy;
    use lifeboat_patch::Difference;
    use serde_json::json;

    #[test]
    fn a_preview_shows_what_is_decided_about_an_object_that_is_there() {
        let object = |data: &str| json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": data}});
        let mut leaving = object("2");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let terminating = TerminatingObject::of(&leaving).unwrap();
        let difference = |path: &str, left: Option<Value>, right: Value| {
            vec![Difference { path: path.into(), left, right: Some(right) }]
        };
        let changed = || difference("/data/a", Some(json!("2")), json!("1"));
        let keep = ItemDecision::Keep;
        for (decision, expected, warning) in [
            (ItemDecision::Wait(terminating), Planned::Create, None),
            (ItemDecision::Unchanged, Planned::Unchanged, None),
            (
                ItemDecision::Merge(json!({"data": {"b": "3"}})),
                Planned::Update(difference("/data/b", None, json!("3"))),
                None,
            ),
            (ItemDecision::Update(json!({"data": {"a": "1"}})), Planned::Update(changed()), None),
            (ItemDecision::Recreate, Planned::Recreate(changed()), None),
            (keep(KeepReason::Policy(ExistingResourcePolicy::Unset)), Planned::Conflict(changed()), None),
            (keep(KeepReason::OfCluster("it is its own")), Planned::Skip("it is its own".to_owned()), None),
            (
                keep(KeepReason::NotRecreated("it has a finalizer".to_owned())),
                Planned::Conflict(changed()),
                Some("it is not recreated: it has a finalizer".to_owned()),
            ),
            (
                keep(KeepReason::Newer("serves the version v2".to_owned())),
                Planned::Conflict(changed()),
                Some(told_newer("serves the version v2")),
            ),
        ] {
            let mut findings = ItemFindings::default();
            assert_eq!(findings.show(&decision, &object("1"), &object("2")), expected, "{decision:?}");
            assert_eq!(findings.modified.warnings, Vec::from_iter(warning), "{decision:?}");
            let waits = matches!(decision, ItemDecision::Wait(_));
            assert_eq!(
                (findings.waits.is_some(), findings.pin == PlanGuard::default()),
                (waits, waits),
                "{decision:?}"
            );
        }
    }
}
