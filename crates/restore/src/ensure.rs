//! The namespace that an object needs is there before the object (restore.md 2.7).

use crate::item::{Action, Attempt, Context, Why};
use crate::namespaces::Missing;
use futures::future::join_all;
use lifeboat_archive::index::Row;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_store::StoreError;
use serde_json::Value;
use std::collections::BTreeSet;

/// Namespaces that are ensured at the same time.
const AT_ONCE: usize = 16;

impl Context {
    /// A namespace object: its target is ensured. The resource list gets it from the namespaces that were made; one
    /// that was there is left untouched and not listed.
    pub(crate) async fn namespace(&self, key: &ObjectKey, object: Value, last: bool) -> Attempt {
        let target = self.mapped(&key.name);
        let done = |action| Attempt::Done { action, listed: false, settled: action != Action::Failed };
        match self.namespaces.ensure(target, async { Ok(Some(object)) }, &self.env).await {
            Ok(made) => done(if made { Action::Created } else { Action::Skipped }),
            Err(Missing::ForNow) if !last => Attempt::Later(Why::Namespace),
            Err(_) => {
                self.namespaces.give_up(target).await;
                done(Action::Failed)
            }
        }
    }

    /// Makes sure that the target of a namespace of the backup is there.
    pub(crate) async fn ensure_namespace(&self, needed: &str) -> Result<(), Missing> {
        let in_backup = self.namespace_in_backup(needed);
        self.namespaces.ensure(self.mapped(needed), in_backup, &self.env).await.map(drop)
    }

    /// Ends an object whose namespace does not come: the namespace has the error.
    pub(crate) async fn without_namespace(&self, row: &Row) -> Attempt {
        let Some(needed) = self.namespace_needed(row) else { return Attempt::FAILED };
        let target = self.mapped(needed);
        self.namespaces.give_up(target).await;
        if row.namespace().is_none() {
            return Attempt::Done { action: Action::Failed, listed: false, settled: false };
        }
        self.namespaces.miss(target);
        self.lost(&self.target_of(&row.key()));
        Attempt::FAILED
    }

    /// The namespace of the backup that an object needs; a namespace needs itself.
    pub(crate) fn namespace_needed<'a>(&self, row: &'a Row) -> Option<&'a str> {
        let is_namespace = *row.resource == GroupResource::new("", "namespaces");
        row.namespace().or(is_namespace.then_some(&*row.name))
    }

    /// Makes sure that the targets of these namespaces of the backup are there, side by side; gives those that are not.
    pub(crate) async fn missing_namespaces<'a>(&self, needed: BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        let needed: Vec<&str> = needed.into_iter().collect();
        let mut missing = BTreeSet::new();
        for some in needed.chunks(AT_ONCE) {
            let ensured = join_all(some.iter().map(|name| self.ensure_namespace(name))).await;
            missing.extend(some.iter().zip(ensured).filter(|(_, ensured)| ensured.is_err()).map(|(name, _)| *name));
        }
        missing
    }

    /// The target of a namespace of the backup.
    pub(crate) fn mapped<'a>(&'a self, namespace: &'a str) -> &'a str {
        self.restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str)
    }

    /// A namespace as the backup has it. compat: one that cannot be parsed counts as missing.
    async fn namespace_in_backup(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let Some(row) = self.find(&ObjectKey::new(GroupResource::new("", "namespaces"), None, name)) else {
            return Ok(None);
        };
        Ok(serde_json::from_slice(&self.load_to_restore(row).await?).ok())
    }
}
