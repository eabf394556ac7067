//! Runs the restore item actions on one object (restore.md 2.11).

use crate::desired::Ask;
use lifeboat_action::{ActionError, RestoreItemAction, RestoreItemInput};
use lifeboat_api::Restore;
use lifeboat_object::{Catalog, GroupResource, ObjectKey};
use lifeboat_select::{ObjectScope, ScopeText, SelectorError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The actions of a restore, their scopes resolved against the cluster.
pub(crate) struct Actions {
    all: Vec<Resolved>,
}

struct Resolved {
    action: Arc<dyn RestoreItemAction>,
    scope: ObjectScope,
}

/// What the actions made of an object.
#[derive(Debug)]
pub(crate) enum Applied {
    /// Go on with this object, after these others of the backup.
    Go {
        item: Value,
        additional: Vec<ObjectKey>,
        /// Actions that were not asked.
        unasked: Vec<String>,
    },
    /// An action leaves it out.
    Skip {
        /// Which.
        action: String,
    },
}

impl Actions {
    /// Resolves the scopes. Types that the cluster does not serve are never met.
    pub(crate) fn resolve(actions: Vec<Arc<dyn RestoreItemAction>>, catalog: &Catalog) -> Result<Self, SelectorError> {
        let mut all = Vec::new();
        for action in actions {
            let scope = action.applies_to();
            let text = ScopeText {
                included_resources: &scope.included_resources,
                excluded_resources: &scope.excluded_resources,
                included_namespaces: &scope.included_namespaces,
                excluded_namespaces: &scope.excluded_namespaces,
                label_selector: &scope.label_selector,
            };
            all.push(Resolved { scope: ObjectScope::resolve(text, catalog)?, action });
        }
        Ok(Self { all })
    }

    /// Whether an action may do more to an object of this type than to detach it from its cluster.
    pub(crate) fn may_change(
        &self,
        resource: &GroupResource,
        target_namespace: Option<&str>,
        restore: &Restore,
    ) -> bool {
        self.all.iter().any(|one| !one.action.only_detaches(restore) && one.scope.covers(resource, target_namespace))
    }

    /// Runs every action that applies, one after the other, each on what the one before made. Labels are tested as
    /// they are then, namespaces as the target's.
    pub(crate) async fn run(
        &self,
        resource: &GroupResource,
        target_namespace: Option<&str>,
        item: Value,
        from_backup: &Value,
        restore: &Restore,
        ask: Ask,
    ) -> Result<Applied, ActionError> {
        let mut item = item;
        let mut unasked = Vec::new();
        let mut additional = Vec::new();
        for one in &self.all {
            if !(one.scope.covers(resource, target_namespace) && one.scope.selects(&labels(&item))) {
                continue;
            }
            match ask {
                Ask::Pure if !one.action.is_pure() => {
                    unasked.push(one.action.name().to_owned());
                    continue;
                }
                Ask::Detaching if !(one.action.only_detaches(restore) && one.action.is_pure()) => continue,
                _ => {}
            }
            let input = RestoreItemInput { item, item_from_backup: from_backup, restore };
            let output = one.action.execute(input).await?;
            if output.skip {
                return Ok(Applied::Skip { action: one.action.name().to_owned() });
            }
            item = output.item;
            additional.extend(output.additional_items);
        }
        Ok(Applied::Go { item, additional, unasked })
    }
}

fn labels(item: &Value) -> BTreeMap<String, String> {
    let labels = item.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}
