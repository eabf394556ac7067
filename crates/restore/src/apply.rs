//! Runs the restore item actions on one object (restore.md 2.11).

use crate::desired::Ask;
use lifeboat_action::{ActionError, RestoreItemAction, RestoreItemInput};
use lifeboat_api::Restore;
use lifeboat_object::{Catalog, GroupResource, ObjectKey};
use lifeboat_select::{Globs, Selector, SelectorError, parse_selector};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The actions of a restore, their scopes resolved against the cluster.
pub(crate) struct Actions {
    all: Vec<Resolved>,
}

struct Resolved {
    action: Arc<dyn RestoreItemAction>,
    included: BTreeSet<GroupResource>,
    everything: bool,
    excluded: BTreeSet<GroupResource>,
    namespaces: Globs,
    excluded_namespaces: Globs,
    selector: Selector,
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
            let resolve = |names: &[String]| -> BTreeSet<GroupResource> {
                names.iter().filter_map(|n| catalog.resolve(n)).map(|r| r.group_resource()).collect()
            };
            let selector = match scope.label_selector.as_str() {
                "" => Selector::default(),
                text => Selector::compile(&parse_selector(text)?)?,
            };
            all.push(Resolved {
                included: resolve(&scope.included_resources),
                everything: scope.included_resources.is_empty() || scope.included_resources.iter().any(|r| r == "*"),
                excluded: resolve(&scope.excluded_resources),
                namespaces: Globs::new(&scope.included_namespaces),
                excluded_namespaces: Globs::new(&scope.excluded_namespaces),
                selector,
                action,
            });
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
        self.all.iter().any(|one| !one.action.only_detaches(restore) && one.covers(resource, target_namespace))
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
            if !one.applies(resource, target_namespace, &item) {
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

impl Resolved {
    fn applies(&self, resource: &GroupResource, namespace: Option<&str>, item: &Value) -> bool {
        self.covers(resource, namespace) && self.selector.matches(&labels(item))
    }

    fn covers(&self, resource: &GroupResource, namespace: Option<&str>) -> bool {
        if !(self.everything || self.included.contains(resource)) || self.excluded.contains(resource) {
            return false;
        }
        match namespace {
            Some(namespace) => {
                (self.namespaces.is_empty() || self.namespaces.matches(namespace))
                    && !self.excluded_namespaces.matches(namespace)
            }
            None => self.namespaces.is_empty(),
        }
    }
}

fn labels(item: &Value) -> BTreeMap<String, String> {
    let labels = item.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}
