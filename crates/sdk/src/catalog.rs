//! The plugins that are served, by kind and name.

use crate::configured_instance::ConfiguredInstance;
use crate::object_store::ObjectStore;
use crate::{names, status};
use lifeboat_action::{BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction, VolumeSnapshotter};
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::Status;

/// All of one kind.
pub(crate) struct PluginsByName<T> {
    kind: &'static str,
    of: BTreeMap<String, T>,
}

/// All of what a program offers and can be registered.
pub(crate) struct Catalog {
    pub(crate) backup_item: PluginsByName<Arc<dyn BackupItemAction>>,
    pub(crate) volume_snapshotter: PluginsByName<ConfiguredInstance<dyn VolumeSnapshotter>>,
    pub(crate) object_store: PluginsByName<ConfiguredInstance<dyn ObjectStore>>,
    pub(crate) restore_item: PluginsByName<Arc<dyn RestoreItemAction>>,
    pub(crate) delete_item: PluginsByName<Arc<dyn DeleteItemAction>>,
    pub(crate) item_block: PluginsByName<Arc<dyn ItemBlockAction>>,
}

impl<T> PluginsByName<T> {
    /// Keeps the plugins whose names can be registered; the problems of the others are added to `problems`.
    pub(crate) fn new(kind: &'static str, offered: Vec<(String, T)>, problems: &mut Vec<String>) -> Self {
        let (of, wrong) = names::registered(kind, offered);
        problems.extend(wrong);
        Self { kind, of }
    }

    /// The one of this name.
    pub(crate) fn find(&self, name: &str) -> Result<&T, Status> {
        let unknown =
            || status::odd(format!("{} plugin: {name} was not found or has an invalid name format", self.kind));
        self.of.get(name).ok_or_else(unknown)
    }

    fn identities(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.of.keys().map(|name| (self.kind, name.clone()))
    }
}

impl Catalog {
    /// The kind and name of each. Servers call actions in this order, which is that of Velero's plugins: a fixed one of kinds, and by
    /// name within.
    pub(crate) fn identities(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        all.extend(self.backup_item.identities());
        all.extend(self.volume_snapshotter.identities());
        all.extend(self.object_store.identities());
        all.extend(self.restore_item.identities());
        all.extend(self.delete_item.identities());
        all.extend(self.item_block.identities());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named_with_its_kind() {
        let named = PluginsByName::new("ObjectStore", vec![("a.io/x".to_owned(), 1)], &mut Vec::new());
        assert_eq!(named.find("a.io/x").unwrap(), &1);
        let error = named.find("a.io/y").unwrap_err();
        let expected = "ObjectStore plugin: a.io/y was not found or has an invalid name format";
        assert_eq!((error.code(), error.message()), (tonic::Code::Unknown, expected));
    }
}
