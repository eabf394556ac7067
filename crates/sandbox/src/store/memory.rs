//! A store that holds its objects in memory.

use crate::store::object_store::{ChangeKind, Changes, ListPage, ListQuery, ObjectStore, StoreChange, StoreError};
use crate::store::stored::StoredObject;
use crate::types::known::{is_definition, is_namespace, namespace_key};
use crate::types::served::{CustomType, ServedTypes};
use async_trait::async_trait;
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

/// Changes remembered for watches and for the later pages of lists.
const HISTORY: usize = 10_000;
/// Bytes of bodies that the history may keep alive.
const HISTORY_BYTES: usize = 64 << 20;

/// An [`ObjectStore`] in memory.
///
/// A list costs what it returns, not what the store holds, unless a selector has to be tried on every object.
pub struct MemoryStore {
    state: RwLock<MemoryState>,
    head: watch::Sender<u64>,
}

/// `NAMESPACE/NAME`, without a namespace `/NAME`: as a real server keeps its objects, and therefore the order in which it lists them.
type StorageKey = String;
type ObjectsByKey = BTreeMap<StorageKey, Arc<StoredObject>>;

struct MemoryState {
    revision: u64,
    types: Arc<ServedTypes>,
    custom: BTreeMap<String, Vec<CustomType>>,
    objects: BTreeMap<GroupResource, ObjectsByKey>,
    by_uid: HashMap<String, ObjectKey>,
    dependents: HashMap<String, BTreeSet<ObjectKey>>,
    history: VecDeque<Arc<StoreChange>>,
    history_bytes: usize,
    most_history: usize,
    /// The history holds every change after this revision.
    floor: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_history(HISTORY)
    }
}

impl MemoryStore {
    /// An empty store that remembers the last `changes` changes.
    #[must_use]
    pub fn with_history(changes: usize) -> Self {
        let state = MemoryState {
            revision: 1,
            types: Arc::default(),
            custom: BTreeMap::new(),
            objects: BTreeMap::new(),
            by_uid: HashMap::new(),
            dependents: HashMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
            most_history: changes,
            floor: 1,
        };
        Self { state: RwLock::new(state), head: watch::Sender::new(1) }
    }

    // Nothing below panics while it holds the lock; a poisoned one would hold a whole state anyway.
    fn read(&self) -> RwLockReadGuard<'_, MemoryState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, MemoryState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, state: RwLockWriteGuard<'_, MemoryState>) {
        self.head.send_replace(state.revision);
    }
}

#[async_trait]
impl ObjectStore for MemoryStore {
    fn types(&self) -> Arc<ServedTypes> {
        self.read().types.clone()
    }

    fn revisions(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<StoredObject>>, StoreError> {
        Ok(self.read().find(key).cloned())
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        self.read().list(query)
    }

    async fn insert(&self, key: &ObjectKey, object: &Value) -> Result<Arc<StoredObject>, StoreError> {
        let mut state = self.write();
        if state.find(key).is_some() {
            return Err(StoreError::Exists(key.clone()));
        }
        if let Some(namespace) = &key.namespace
            && state.find(&namespace_key(namespace)).is_none()
        {
            return Err(StoreError::NoNamespace(namespace.clone()));
        }
        let made = state.put(key, object, None);
        self.announce(state);
        Ok(made)
    }

    async fn update(&self, key: &ObjectKey, expected: u64, object: &Value) -> Result<Arc<StoredObject>, StoreError> {
        let mut state = self.write();
        let old = state.expect(key, expected)?;
        let made = state.put(key, object, Some(old));
        self.announce(state);
        Ok(made)
    }

    async fn remove(&self, key: &ObjectKey, expected: u64) -> Result<Arc<StoredObject>, StoreError> {
        let mut state = self.write();
        let old = state.expect(key, expected)?;
        if is_namespace(key) && state.has_content(&key.name) {
            return Err(StoreError::Conflict(key.clone()));
        }
        let last = state.take(&old);
        if is_definition(key) {
            state.undefine(&key.name);
        }
        self.announce(state);
        Ok(last)
    }

    fn changes(&self, after: u64, resource: Option<&GroupResource>, most: usize) -> Result<Changes, StoreError> {
        let state = self.read();
        if after < state.floor {
            return Err(StoreError::Expired { asked: after, oldest: state.floor, newest: state.revision });
        }
        let start = state.history.partition_point(|c| c.object.revision <= after);
        let mut changes = Vec::new();
        for change in state.history.range(start..) {
            if changes.len() == most {
                let through = changes.last().map_or(after, |c: &Arc<StoreChange>| c.object.revision);
                return Ok(Changes { changes, through });
            }
            if resource.is_none_or(|r| *r == change.object.key.resource) {
                changes.push(change.clone());
            }
        }
        Ok(Changes { changes, through: state.revision.max(after) })
    }

    fn with_uid(&self, uid: &str) -> Option<ObjectKey> {
        self.read().by_uid.get(uid).cloned()
    }

    fn dependents(&self, uid: &str) -> Vec<ObjectKey> {
        self.read().dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}

impl MemoryState {
    fn find(&self, key: &ObjectKey) -> Option<&Arc<StoredObject>> {
        self.objects.get(&key.resource)?.get(&place(key))
    }

    fn expect(&self, key: &ObjectKey, revision: u64) -> Result<Arc<StoredObject>, StoreError> {
        match self.find(key) {
            None => Err(StoreError::NotFound(key.clone())),
            Some(object) if object.revision != revision => Err(StoreError::Conflict(key.clone())),
            Some(object) => Ok(object.clone()),
        }
    }

    fn put(&mut self, key: &ObjectKey, object: &Value, old: Option<Arc<StoredObject>>) -> Arc<StoredObject> {
        self.revision += 1;
        let made = Arc::new(StoredObject::new(key.clone(), self.revision, object));
        if let Some(old) = &old {
            self.unlink(old);
        }
        self.by_uid.insert(made.uid.clone(), key.clone());
        for owner in &made.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        self.objects.entry(key.resource.clone()).or_default().insert(place(key), made.clone());
        let kind = if old.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.remember(StoreChange { kind, object: made.clone(), previous: old });
        if is_definition(key) {
            self.define(&key.name, CustomType::of_definition(object));
        }
        made
    }

    fn take(&mut self, old: &Arc<StoredObject>) -> Arc<StoredObject> {
        self.revision += 1;
        self.unlink(old);
        if let Some(objects) = self.objects.get_mut(&old.key.resource) {
            objects.remove(&place(&old.key));
        }
        let last = Arc::new(StoredObject::new(old.key.clone(), self.revision, &old.value()));
        self.remember(StoreChange { kind: ChangeKind::Deleted, object: last.clone(), previous: Some(old.clone()) });
        last
    }

    fn unlink(&mut self, old: &StoredObject) {
        if self.by_uid.get(&old.uid) == Some(&old.key) {
            self.by_uid.remove(&old.uid);
        }
        for owner in &old.owners {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(&old.key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    fn remember(&mut self, change: StoreChange) {
        self.history_bytes += weight(&change);
        self.history.push_back(Arc::new(change));
        while self.history.len() > self.most_history || self.history_bytes > HISTORY_BYTES {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= weight(&oldest);
            self.floor = oldest.object.revision;
        }
    }

    fn define(&mut self, name: &str, types: Vec<CustomType>) {
        if self.custom.get(name) != Some(&types) {
            self.custom.insert(name.to_owned(), types);
            self.types = Arc::new(ServedTypes::with_custom(self.custom.values().flatten().cloned().collect()));
        }
    }

    /// Removes the types of a definition, and their objects.
    fn undefine(&mut self, name: &str) {
        let gone = self.custom.remove(name).unwrap_or_default();
        self.types = Arc::new(ServedTypes::with_custom(self.custom.values().flatten().cloned().collect()));
        let resources: BTreeSet<GroupResource> = gone.iter().map(|gone| gone.resource.group_resource()).collect();
        for resource in resources {
            for object in self.objects.remove(&resource).unwrap_or_default().values() {
                self.take(object);
            }
        }
    }

    fn has_content(&self, namespace: &str) -> bool {
        self.objects
            .values()
            .filter_map(|objects| objects.range(from_namespace(namespace)).next())
            .any(|(_, object)| object.key.namespace.as_deref() == Some(namespace))
    }

    fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        let revision = query.revision.unwrap_or(self.revision);
        if revision < self.floor || revision > self.revision {
            return Err(StoreError::Expired { asked: revision, oldest: self.floor, newest: self.revision });
        }
        let empty = ObjectsByKey::new();
        let present = self.objects.get(&query.resource).unwrap_or(&empty);
        let past = self.differences_from(&query.resource, revision);
        let after = query.after.as_ref().map(|(namespace, name)| at(namespace, name));
        let start = match (after, &query.namespace) {
            (Some(after), Some(namespace)) if after < at(namespace, "") => from_namespace(namespace),
            (Some(after), _) => (Bound::Excluded(after), Bound::Unbounded),
            (None, Some(namespace)) => from_namespace(namespace),
            (None, None) => (Bound::Unbounded, Bound::Unbounded),
        };
        let mut objects = Vec::new();
        let walk = HistoryWalk { present: present.range(start.clone()).peekable(), past: past.range(start).peekable() };
        for object in walk {
            if query.namespace.is_some() && object.key.namespace != query.namespace {
                break;
            }
            if !query.selector.matches(object) {
                continue;
            }
            if query.limit > 0 && objects.len() == query.limit {
                return Ok(ListPage { objects, revision, more: true });
            }
            objects.push(object.clone());
        }
        Ok(ListPage { objects, revision, more: false })
    }

    /// The objects that have changed since `revision`, each in its state at that revision; `None` for an object that
    /// was not there.
    fn differences_from(&self, resource: &GroupResource, revision: u64) -> Past {
        let mut past = Past::new();
        for change in self.history.iter().rev().take_while(|c| c.object.revision > revision) {
            if change.object.key.resource == *resource {
                past.insert(place(&change.object.key), change.previous.clone());
            }
        }
        past
    }
}

type Past = BTreeMap<StorageKey, Option<Arc<StoredObject>>>;

/// The present state with what was otherwise in the past, in order.
struct HistoryWalk<'a, P, Q>
where
    P: Iterator<Item = (&'a StorageKey, &'a Arc<StoredObject>)>,
    Q: Iterator<Item = (&'a StorageKey, &'a Option<Arc<StoredObject>>)>,
{
    present: Peekable<P>,
    past: Peekable<Q>,
}

impl<'a, P, Q> Iterator for HistoryWalk<'a, P, Q>
where
    P: Iterator<Item = (&'a StorageKey, &'a Arc<StoredObject>)>,
    Q: Iterator<Item = (&'a StorageKey, &'a Option<Arc<StoredObject>>)>,
{
    type Item = &'a Arc<StoredObject>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((then, _)) = self.past.peek() else { return self.present.next().map(|(_, o)| o) };
            match self.present.peek() {
                Some((now, _)) if now < then => return self.present.next().map(|(_, o)| o),
                Some((now, _)) if now == then => {
                    self.present.next();
                }
                _ => {}
            }
            if let Some((_, Some(object))) = self.past.next() {
                return Some(object);
            }
        }
    }
}

fn weight(change: &StoreChange) -> usize {
    change.object.body.len() + change.previous.as_ref().map_or(0, |p| p.body.len())
}

fn place(key: &ObjectKey) -> StorageKey {
    at(key.namespace.as_deref().unwrap_or_default(), &key.name)
}

fn at(namespace: &str, name: &str) -> StorageKey {
    format!("{namespace}/{name}")
}

fn from_namespace(namespace: &str) -> (Bound<StorageKey>, Bound<StorageKey>) {
    (Bound::Included(at(namespace, "")), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::selector::Selector;
    use serde_json::json;

    fn key(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "configmaps"), Some(namespace), name)
    }

    fn object(uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"uid": uid}})
    }

    async fn store(history: usize) -> MemoryStore {
        let store = MemoryStore::with_history(history);
        for namespace in ["a", "b"] {
            store.insert(&namespace_key(namespace), &object(namespace)).await.unwrap();
        }
        store
    }

    async fn names(store: &MemoryStore, query: ListQuery) -> Result<Vec<String>, StoreError> {
        let page = store.list(&query).await?;
        let mut names: Vec<String> = page.objects.iter().map(|o| o.key.to_string()).collect();
        if page.more {
            names.push("more".to_owned());
        }
        Ok(names)
    }

    fn all() -> ListQuery {
        ListQuery {
            resource: GroupResource::new("", "configmaps"),
            namespace: None,
            selector: Selector::default(),
            after: None,
            limit: 0,
            revision: None,
        }
    }

    #[tokio::test]
    async fn pages_show_the_state_at_their_revision() {
        let store = store(100).await;
        for (namespace, name) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "3")] {
            store.insert(&key(namespace, name), &object(name)).await.unwrap();
        }
        let then = store.list(&all()).await.unwrap().revision;
        let old = store.get(&key("a", "2")).await.unwrap().unwrap();
        store.remove(&key("a", "2"), old.revision).await.unwrap();
        store.insert(&key("b", "2"), &object("x")).await.unwrap();
        let again = store.get(&key("b", "2")).await.unwrap().unwrap();
        store.update(&key("b", "2"), again.revision, &object("x")).await.unwrap();

        let at = |revision| ListQuery { revision, ..all() };
        assert_eq!(
            names(&store, at(Some(then))).await.unwrap(),
            ["configmaps/a/1", "configmaps/a/2", "configmaps/b/1", "configmaps/b/3"]
        );
        assert_eq!(
            names(&store, at(None)).await.unwrap(),
            ["configmaps/a/1", "configmaps/b/1", "configmaps/b/2", "configmaps/b/3"]
        );
        let second = ListQuery { after: Some(("a".into(), "1".into())), limit: 2, ..at(Some(then)) };
        assert_eq!(names(&store, second).await.unwrap(), ["configmaps/a/2", "configmaps/b/1", "more"]);
        let b = ListQuery { namespace: Some("b".into()), ..at(None) };
        assert_eq!(names(&store, b).await.unwrap(), ["configmaps/b/1", "configmaps/b/2", "configmaps/b/3"]);
    }

    #[tokio::test]
    async fn a_forgotten_revision_is_expired() {
        let store = store(2).await;
        let first = store.insert(&key("a", "1"), &object("1")).await.unwrap().revision;
        assert_eq!(store.changes(first - 1, None, 10).unwrap().changes.len(), 1);
        for n in 2..5 {
            store.insert(&key("a", &n.to_string()), &object(&n.to_string())).await.unwrap();
        }
        assert!(matches!(store.changes(first, None, 10), Err(StoreError::Expired { .. })));
        let query = ListQuery { revision: Some(first), ..all() };
        assert!(matches!(store.list(&query).await, Err(StoreError::Expired { .. })));
        let changes = store.changes(first + 1, None, 1).unwrap();
        assert_eq!((changes.changes.len(), changes.through), (1, first + 2));
    }

    #[tokio::test]
    async fn writes_check_revision_and_namespace() {
        let store = store(100).await;
        let made = store.insert(&key("a", "1"), &object("1")).await.unwrap();
        assert!(matches!(store.insert(&key("a", "1"), &object("1")).await, Err(StoreError::Exists(_))));
        assert!(
            matches!(store.insert(&key("c", "1"), &object("1")).await, Err(StoreError::NoNamespace(n)) if n == "c")
        );
        assert!(matches!(store.update(&key("a", "1"), 1, &object("1")).await, Err(StoreError::Conflict(_))));
        assert!(matches!(store.remove(&key("a", "2"), 1).await, Err(StoreError::NotFound(_))));
        let namespace = store.get(&namespace_key("a")).await.unwrap().unwrap();
        let removed = store.remove(&namespace_key("a"), namespace.revision).await;
        assert!(matches!(removed, Err(StoreError::Conflict(_))));
        store.remove(&key("a", "1"), made.revision).await.unwrap();
        store.remove(&namespace_key("a"), namespace.revision).await.unwrap();
    }

    #[tokio::test]
    async fn a_definition_brings_and_takes_its_type_and_objects() {
        let store = store(100).await;
        let definition = ObjectKey::new(GroupResource::definitions(), None, "w.e.com");
        let crd = json!({"metadata": {"uid": "crd"}, "spec": {"group": "e.com", "scope": "Namespaced",
            "names": {"plural": "w", "kind": "W"}, "versions": [{"name": "v1", "served": true}]}});
        let made = store.insert(&definition, &crd).await.unwrap();
        assert!(store.types().find("e.com", "v1", "w").is_some());
        let key = ObjectKey::new(GroupResource::new("e.com", "w"), Some("a"), "x");
        let owned = json!({"metadata": {"uid": "x", "ownerReferences": [{"uid": "o"}]}});
        store.insert(&key, &owned).await.unwrap();
        assert_eq!(store.dependents("o"), std::slice::from_ref(&key));
        store.remove(&definition, made.revision).await.unwrap();
        assert!(store.types().find("e.com", "v1", "w").is_none());
        assert_eq!(store.get(&key).await.unwrap(), None);
        assert_eq!((store.with_uid("x"), store.dependents("o")), (None, vec![]));
        let last = store.changes(made.revision + 2, None, 10).unwrap();
        assert_eq!(
            last.changes.iter().map(|c| (c.kind, &c.object.key)).collect::<Vec<_>>(),
            [(ChangeKind::Deleted, &key)]
        );
    }
}
