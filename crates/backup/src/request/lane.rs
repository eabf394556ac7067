//! The action lane: the objects that actions look at. All others go through as bytes.

use crate::actions::service_account::Bindings;
use crate::actions::{ActionContext, TYPES, built_in};
use crate::error::BackupError;
use lifeboat_action::{ActionScope, Actions, BackupItemAction, ItemBlockAction};
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head};
use lifeboat_select::{ObjectScope, ScopeText};
use lifeboat_volume::Verdicts;
use lifeboat_volume::csi::CsiSnapshots;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An action and the objects that it is called for.
pub(crate) struct ScopedAction<A: ?Sized> {
    pub(crate) action: Arc<A>,
    scope: ObjectScope,
}

impl<A: ?Sized> ScopedAction<A> {
    /// Resolves the scope of an action, which has this name, against these types.
    ///
    /// # Errors
    /// When its label selector cannot be read.
    pub(crate) fn new(action: &Arc<A>, named: (&str, ActionScope), catalog: &Catalog) -> Result<Self, BackupError> {
        let (name, scope) = named;
        Ok(Self { action: Arc::clone(action), scope: resolve(name, scope, catalog)? })
    }

    /// Returns true if it is called for objects of this type and place, when their labels are in its scope too.
    pub(crate) fn covers(&self, resource: &GroupResource, namespace: Option<&str>) -> bool {
        self.scope.covers(resource, namespace)
    }

    /// Returns true if it is called for an object of this type.
    pub(crate) fn applies(&self, resource: &GroupResource, head: &Head) -> bool {
        self.covers(resource, head.namespace.as_deref()) && self.scope.selects(&head.labels)
    }

    /// Returns true if it is called for objects of this type in any place.
    pub(crate) fn covers_type(&self, resource: &GroupResource) -> bool {
        self.scope.covers_type(resource)
    }
}

impl<A: ?Sized> Clone for ScopedAction<A> {
    fn clone(&self) -> Self {
        Self { action: Arc::clone(&self.action), scope: self.scope.clone() }
    }
}

/// The actions of a backup, and the types that are in the scope of any.
pub(crate) struct Lane {
    types: BTreeSet<GroupResource>,
    backup_item: Vec<ScopedAction<dyn BackupItemAction>>,
    pub(crate) item_block: Vec<ScopedAction<dyn ItemBlockAction>>,
    /// Takes CSI snapshots; `None` where none are taken.
    pub(crate) csi: Option<CsiSnapshots>,
    /// The number of blocks of objects that have their turn at once.
    pub(crate) workers: usize,
}

impl Lane {
    /// Resolves the scopes of the actions against the types that the cluster serves.
    ///
    /// # Errors
    /// When the label selector of an action cannot be read: its objects are not known then.
    pub(crate) fn new(catalog: &Catalog, actions: &Actions, csi: Option<CsiSnapshots>) -> Result<Self, BackupError> {
        let own = built_in(&ActionContext { csi: csi.clone(), ..ActionContext::default() });
        let backup_item = own
            .iter()
            .chain(&actions.backup_item)
            .map(|action| ScopedAction::new(action, (action.name(), action.applies_to()), catalog));
        let backup_item: Vec<ScopedAction<dyn BackupItemAction>> = backup_item.collect::<Result<_, BackupError>>()?;
        let item_block = actions
            .item_block
            .iter()
            .map(|action| ScopedAction::new(action, (action.name(), action.applies_to()), catalog));
        let item_block: Vec<ScopedAction<dyn ItemBlockAction>> = item_block.collect::<Result<_, BackupError>>()?;
        let looked_into = |resource: &GroupResource| {
            TYPES.contains(&(resource.group.as_str(), resource.resource.as_str()))
                || backup_item.iter().any(|action| action.covers_type(resource))
                || item_block.iter().any(|action| action.covers_type(resource))
        };
        let types = catalog.preferred().map(|r| r.group_resource()).filter(looked_into).collect();
        Ok(Self { types, backup_item, item_block, csi, workers: 1 })
    }

    /// Returns true if objects of this type are in the lane.
    pub(crate) fn takes(&self, resource: &ApiResource) -> bool {
        self.types.contains(&resource.group_resource())
    }

    /// The backup item actions in the order in which they are called, the engine's own with their context.
    pub(crate) fn backup_item(
        &self,
        bindings: Arc<Bindings>,
        verdicts: Arc<Verdicts>,
    ) -> Vec<ScopedAction<dyn BackupItemAction>> {
        let mut actions = self.backup_item.clone();
        let known = ActionContext { bindings, csi: self.csi.clone(), verdicts };
        for (scoped, own) in actions.iter_mut().zip(built_in(&known)) {
            scoped.action = own;
        }
        actions
    }
}

fn resolve(name: &str, scope: ActionScope, catalog: &Catalog) -> Result<ObjectScope, BackupError> {
    let text = ScopeText {
        included_resources: &scope.included_resources,
        excluded_resources: &scope.excluded_resources,
        included_namespaces: &scope.included_namespaces,
        excluded_namespaces: &scope.excluded_namespaces,
        label_selector: &scope.label_selector,
    };
    ObjectScope::resolve(text, catalog).map_err(|e| BackupError::ActionScope(name.to_owned(), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::BUILT_IN_ACTIONS;
    use crate::env::test_env;
    use async_trait::async_trait;
    use lifeboat_action::{ActionError, BackupItemInput, BackupItemOutput};
    use lifeboat_api::Backup;
    use lifeboat_volume::csi::{BACKUP_ACTIONS, CsiBackup, SNAPSHOT_API, SnapshotTypes};

    struct Given(&'static str);

    #[async_trait]
    impl BackupItemAction for Given {
        fn name(&self) -> &str {
            self.0
        }

        fn applies_to(&self) -> ActionScope {
            ActionScope::default()
        }

        async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
            Ok(BackupItemOutput::unchanged(input.item))
        }
    }

    #[tokio::test]
    async fn built_in_actions_come_first_then_csi_snapshots_then_given_ones() {
        let types = ["volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses"];
        let types = types.map(|name| Arc::new(ApiResource::new(SNAPSHOT_API, "v1", name, "Any")));
        let catalog = Catalog::new(types.into(), vec![]);
        let backup_item: Vec<Arc<dyn BackupItemAction>> = vec![Arc::new(Given("b/second")), Arc::new(Given("a/first"))];
        let given = Actions { backup_item, ..Actions::default() };
        let env = test_env().await;
        let csi = || {
            let of = CsiBackup { backup: Backup::default(), types: SnapshotTypes::of(&catalog).unwrap() };
            CsiSnapshots::new(&env.cluster, &env.operation, of)
        };
        for (csi, of_csi) in [(None, &[][..]), (Some(csi()), &BACKUP_ACTIONS)] {
            let lane = Lane::new(&catalog, &given, csi).unwrap();
            let expected: Vec<&str> =
                BUILT_IN_ACTIONS.iter().chain(of_csi).chain(&["b/second", "a/first"]).copied().collect();
            let called = lane.backup_item(Arc::default(), Arc::default());
            assert_eq!(called.iter().map(|one| one.action.name()).collect::<Vec<_>>(), expected);
        }
    }
}
