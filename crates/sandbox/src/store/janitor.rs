//! Does what the controllers of a real cluster do to objects that go: empties namespaces, and deletes dependents whose owners
//! are gone.

use crate::encoding::error::ApiError;
use crate::encoding::selector::Selector;
use crate::server::shared::Server;
use crate::store::object_store::{ChangeKind, ListQuery, StoreChange, StoreError};
use crate::store::stored::StoredObject;
use crate::types::known::{is_namespace, namespace_key};
use crate::types::served::ServedTypes;
use crate::verbs::delete::{self, Deletion};
use crate::verbs::write::has_finalizers;
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Changes read at once.
const BATCH: usize = 500;

/// Reads the history and cleans up after it, until the server stops.
pub(crate) struct Janitor {
    server: Arc<Server>,
    seen: u64,
    /// Namespaces on their way out.
    terminating: BTreeSet<String>,
}

impl Janitor {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        // From the beginning: too old for the history, so that the first turn looks at everything.
        Self { server, seen: 0, terminating: BTreeSet::new() }
    }

    pub(crate) async fn run(mut self) {
        let mut revisions = self.server.store.revisions();
        let mut stop = self.server.stop.clone();
        loop {
            revisions.borrow_and_update();
            if let Err(error) = self.turn().await {
                tracing::warn!(error = error.message, "cannot clean up; the next change is the next try");
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                changed = revisions.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Works off the history up to now.
    async fn turn(&mut self) -> Result<(), ApiError> {
        loop {
            let changes = match self.server.store.changes(self.seen, None, BATCH) {
                Err(StoreError::Expired { newest, .. }) => {
                    self.seen = newest;
                    self.look_at_everything().await?;
                    continue;
                }
                other => other?,
            };
            if changes.through == self.seen && changes.changes.is_empty() {
                return Ok(());
            }
            self.seen = changes.through;
            let mut touched = BTreeSet::new();
            for change in &changes.changes {
                self.look_at(change, &mut touched).await?;
            }
            for namespace in touched {
                self.empty(&namespace).await?;
            }
        }
    }

    async fn look_at(&mut self, change: &StoreChange, touched: &mut BTreeSet<String>) -> Result<(), ApiError> {
        let object = &change.object;
        if is_namespace(&object.key) {
            self.note_namespace(object, change.kind, touched);
        }
        if let Some(namespace) = object.key.namespace.as_ref().filter(|n| self.terminating.contains(*n)) {
            touched.insert(namespace.clone());
        }
        match change.kind {
            ChangeKind::Deleted => {
                for key in self.server.store.dependents(&object.uid) {
                    self.collect(&key).await?;
                }
            }
            _ if object.owners.is_empty() => {}
            _ => self.collect(&object.key).await?,
        }
        Ok(())
    }

    fn note_namespace(&mut self, object: &StoredObject, kind: ChangeKind, touched: &mut BTreeSet<String>) {
        let name = &object.key.name;
        if kind == ChangeKind::Deleted || !object.is_deleting {
            self.terminating.remove(name);
        } else {
            self.terminating.insert(name.clone());
            touched.insert(name.clone());
        }
    }

    /// Looks at all objects, because the history that would have told of the changes is lost.
    async fn look_at_everything(&mut self) -> Result<(), ApiError> {
        let types = self.server.store.types();
        let mut all: Vec<GroupResource> = types.all().filter(|r| r.can("list")).map(|r| r.group_resource()).collect();
        all.sort();
        all.dedup();
        let mut touched = BTreeSet::new();
        for resource in all {
            for object in self.list(resource, None).await? {
                if is_namespace(&object.key) {
                    self.note_namespace(&object, ChangeKind::Modified, &mut touched);
                }
                if !object.owners.is_empty() {
                    self.collect(&object.key).await?;
                }
            }
        }
        for namespace in touched {
            self.empty(&namespace).await?;
        }
        Ok(())
    }

    async fn list(&self, resource: GroupResource, namespace: Option<&str>) -> Result<Vec<Arc<StoredObject>>, ApiError> {
        let query = ListQuery {
            resource,
            namespace: namespace.map(str::to_owned),
            selector: Selector::default(),
            after: None,
            limit: 0,
            revision: None,
        };
        Ok(self.server.store.list(&query).await?.objects)
    }

    /// Deletes an object whose owners are all gone.
    async fn collect(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let Some(object) = self.server.store.get(key).await? else { return Ok(()) };
        let types = self.server.store.types();
        if object.is_deleting || object.owners.is_empty() || self.has_owner(&object, &types) {
            return Ok(());
        }
        self.delete(key).await
    }

    /// Returns true if an owner of the object is there. An owner of a type that is not served cannot be looked up, and
    /// counts as there.
    fn has_owner(&self, object: &StoredObject, types: &ServedTypes) -> bool {
        let store = &self.server.store;
        let is_there = |uid: &str| {
            store.with_uid(uid).is_some_and(|o| o.namespace.is_none() || o.namespace == object.key.namespace)
        };
        object.owners.iter().any(|o| types.of_kind(&o.api_version, &o.kind).is_none() || is_there(&o.uid))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let now = (self.server.options.now)();
        match delete::delete(&*self.server.store, now, key, &Deletion::default()).await {
            Err(error) if error.code == 404 => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes what is in a namespace and, when nothing is left, the namespace.
    async fn empty(&mut self, name: &str) -> Result<(), ApiError> {
        for resource in self.server.store.types().namespaced() {
            for object in self.list(resource, Some(name)).await? {
                if !object.is_deleting {
                    self.delete(&object.key).await?;
                }
            }
        }
        if self.release(name).await? {
            self.terminating.remove(name);
        }
        Ok(())
    }

    /// Takes the server's finalizer off an empty namespace, and removes the namespace when that was the last finalizer. Gives
    /// whether it is gone. A namespace that is not empty is looked at again after the next change in it.
    async fn release(&self, name: &str) -> Result<bool, ApiError> {
        let store = &self.server.store;
        for resource in store.types().namespaced() {
            if !self.list(resource, Some(name)).await?.is_empty() {
                return Ok(false);
            }
        }
        let key = namespace_key(name);
        let Some(old) = store.get(&key).await? else { return Ok(true) };
        if !old.is_deleting {
            return Ok(true);
        }
        let mut object = old.value();
        if let Some(finalizers) = object["spec"]["finalizers"].as_array_mut() {
            finalizers.retain(|f| f != "kubernetes");
        }
        let done = if has_finalizers(&object, true) {
            if object == old.value() { Ok(()) } else { self.write(&key, old.revision, &object).await }
        } else {
            store.remove(&key, old.revision).await.map(drop)
        };
        match done {
            Ok(()) => Ok(store.get(&key).await?.is_none()),
            Err(StoreError::NotFound(_)) => Ok(true),
            // Written meanwhile; that change brings us here again.
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn write(&self, key: &ObjectKey, revision: u64, object: &Value) -> Result<(), StoreError> {
        self.server.store.update(key, revision, object).await.map(drop)
    }
}
