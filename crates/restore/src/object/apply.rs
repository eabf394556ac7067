//! Asks the restore item actions about one object (velero: pkg/restore/restore.go).

use crate::state::operations::Operations;
use crate::state::stop::{BrokenOff, Stop};
use lifeboat_action::{
    ActionError, ActionErrorKind, RestoreItemAction, RestoreItemInput, RestoreItemOutput, call, caught,
};
use lifeboat_api::{Restore, well_known};
use lifeboat_object::{Catalog, ObjectKey, labels};
use lifeboat_select::{ObjectScope, ScopeText};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The actions of a restore, their scopes resolved against the cluster.
pub(crate) struct Actions {
    all: Vec<Resolved>,
    restore: Arc<Restore>,
    stop: Arc<Stop>,
}

struct Resolved {
    action: Arc<dyn RestoreItemAction>,
    scope: ObjectScope,
}

/// Which actions are asked.
#[derive(Clone, Copy)]
pub(crate) enum ActionSelection<'a> {
    /// All of them: the object is about to be restored. What they begin is noted here.
    All(&'a Operations),
    /// Only those that change nothing anywhere.
    Pure,
    /// Only those that detach the object from its cluster.
    Detaching,
}

/// The result of running the restore item actions on an object.
pub(crate) struct Applied {
    /// The object as the actions have left it.
    pub(crate) item: Value,
    /// The action that leaves it out; those after it were not asked.
    pub(crate) left_out_by: Option<String>,
    /// Objects that must be there before it, by action.
    pub(crate) needs: Vec<Need>,
    /// Actions that were not asked.
    pub(crate) unasked: Vec<String>,
    /// Set when actions must not run on the object again: an action that ran is not pure, or its items would be waited
    /// for again.
    pub(crate) is_asked_once: bool,
}

/// Objects that an action wants to have restored before the object that it was asked about.
pub(crate) struct Need {
    pub(crate) action: Arc<dyn RestoreItemAction>,
    /// By their keys in the backup.
    pub(crate) items: Vec<ObjectKey>,
    /// True when they are restored even if the filters leave them out.
    pub(crate) is_past_filters: bool,
    /// Longest wait for them; zero for the time that any resource has.
    pub(crate) wait: Option<Duration>,
}

/// The reason why an object could not be prepared for the cluster.
#[derive(Debug)]
pub(crate) enum PrepareError {
    /// The error of the object, for people.
    Failed(String),
    /// The error of the object, for people, for a reason that can pass.
    ForNow(String),
    /// An action ends the restore with it.
    Fatal(Box<BrokenOff>),
    /// The restore ends early, and not all actions were asked.
    Stopped,
}

impl Actions {
    /// Resolves the scopes. Types that the cluster does not serve are never met.
    ///
    /// # Errors
    /// Which action has none, for people.
    pub(crate) fn resolve(
        actions: Vec<Arc<dyn RestoreItemAction>>,
        catalog: &Catalog,
        restore: Arc<Restore>,
        stop: Arc<Stop>,
    ) -> Result<Self, String> {
        let all = actions.into_iter().map(|action| Resolved::of(action, catalog)).collect::<Result<_, _>>()?;
        Ok(Self { all, restore, stop })
    }

    /// The same actions, in a cluster that serves these types.
    ///
    /// # Errors
    /// As of [`Self::resolve`].
    pub(crate) fn serving(&self, catalog: &Catalog) -> Result<Self, String> {
        let actions = self.all.iter().map(|one| Arc::clone(&one.action)).collect();
        Self::resolve(actions, catalog, Arc::clone(&self.restore), Arc::clone(&self.stop))
    }

    /// The names of the actions, in the order in which they are asked.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&str> {
        self.all.iter().map(|one| one.action.name()).collect()
    }

    /// Returns true if an action may change more of the object of this key in the cluster than its ties to the cluster
    /// of the backup.
    pub(crate) fn may_change(&self, target: &ObjectKey) -> bool {
        let namespace = target.namespace.as_deref();
        let covers = |one: &Resolved| one.scope.covers(&target.resource, namespace);
        self.all.iter().any(|one| !one.action.only_detaches(&self.restore) && covers(one))
    }

    /// Asks every action that applies, one after the other, each with what the one before made. Labels are tested as
    /// they are then, namespaces as the target's.
    pub(crate) async fn apply(
        &self,
        target: &ObjectKey,
        mut item: Value,
        from_backup: &Value,
        ask: ActionSelection<'_>,
    ) -> Result<Applied, PrepareError> {
        let (mut needs, mut unasked, mut is_asked_once) = (Vec::new(), Vec::new(), false);
        for one in &self.all {
            let action = &one.action;
            let is_covered = one.scope.covers(&target.resource, target.namespace.as_deref());
            if !(is_covered && one.scope.selects(&labels(&item))) {
                continue;
            }
            match ask {
                ActionSelection::Pure if !action.is_pure() => {
                    unasked.push(action.name().to_owned());
                    continue;
                }
                ActionSelection::Detaching if !(action.only_detaches(&self.restore) && action.is_pure()) => continue,
                _ => {}
            }
            let output = match self.execute(&**action, &item, from_backup).await {
                Ok(output) => output,
                Err(e) => return Err(self.unprepared(action.name(), target, &e)),
            };
            if let ActionSelection::All(operations) = ask
                && !output.operation_id.is_empty()
            {
                operations.begin(action.name(), target, &output.operation_id).await;
            }
            is_asked_once |= !action.is_pure() || output.wait_for_additional_items.is_some();
            if output.skip {
                let left_out_by = Some(action.name().to_owned());
                return Ok(Applied { item, left_out_by, needs, unasked, is_asked_once });
            }
            item = output.item;
            needs.extend(Need::of(action, &mut item, output.additional_items, output.wait_for_additional_items));
        }
        Ok(Applied { item, left_out_by: None, needs, unasked, is_asked_once })
    }

    async fn execute(
        &self,
        action: &dyn RestoreItemAction,
        item: &Value,
        from_backup: &Value,
    ) -> Result<RestoreItemOutput, ActionError> {
        let input = || RestoreItemInput { item: item.clone(), item_from_backup: from_backup, restore: &self.restore };
        call(self.stop.token(), || caught(async { action.execute(input()).await })).await
    }

    fn unprepared(&self, action: &str, target: &ObjectKey, error: &ActionError) -> PrepareError {
        match error.kind {
            ActionErrorKind::Fatal => PrepareError::Fatal(Box::new(fatal(action, target, error))),
            // The stop has cut short what might have passed.
            ActionErrorKind::Passing | ActionErrorKind::Gone if self.stop.has_come() => PrepareError::Stopped,
            _ => PrepareError::Failed(format!("error preparing {target}: {}", failed(action, error))),
        }
    }
}

impl Resolved {
    fn of(action: Arc<dyn RestoreItemAction>, catalog: &Catalog) -> Result<Self, String> {
        let scope = action.applies_to();
        let text = ScopeText {
            included_resources: &scope.included_resources,
            excluded_resources: &scope.excluded_resources,
            included_namespaces: &scope.included_namespaces,
            excluded_namespaces: &scope.excluded_namespaces,
            label_selector: &scope.label_selector,
        };
        let resolved = ObjectScope::resolve(text, catalog);
        let scope = resolved.map_err(|e| format!("invalid label selector of the action {}: {e}", action.name()))?;
        Ok(Self { action, scope })
    }
}

impl Need {
    /// Returns the additional items that an answer asks for; `None` when there are none. Takes the annotation of the
    /// answer off the object.
    fn of(
        action: &Arc<dyn RestoreItemAction>,
        item: &mut Value,
        items: Vec<ObjectKey>,
        wait: Option<Duration>,
    ) -> Option<Self> {
        let is_past_filters = take_must_include(item);
        let is_something = !items.is_empty() || wait.is_some();
        is_something.then(|| Self { action: Arc::clone(action), items, is_past_filters, wait })
    }
}

/// That an action has ended the restore.
pub(crate) fn fatal(action: &str, target: &ObjectKey, error: &ActionError) -> BrokenOff {
    BrokenOff::Action { action: action.to_owned(), object: target.clone(), why: error.message.clone() }
}

/// Describes, for people, the failure of an action on an object.
pub(crate) fn failed(action: &str, error: &ActionError) -> String {
    let then = match error.kind {
        ActionErrorKind::Passing => "; it was asked again for a minute: run the restore again when the reason is gone",
        ActionErrorKind::Gone => "; it was started anew and asked once more",
        ActionErrorKind::Item | ActionErrorKind::Fatal => "",
    };
    format!("the action {action} failed: {}{then}", error.message)
}

/// Takes the annotation off that says whether an action's additional items are restored past all filters.
fn take_must_include(item: &mut Value) -> bool {
    let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) else { return false };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return false };
    let Some(value) = annotations.remove(well_known::ANNOTATION_RESTORE_MUST_INCLUDE) else { return false };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    value == "true"
}

#[cfg(test)]
mod tests;
