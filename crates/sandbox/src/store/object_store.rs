//! The store that a server serves.

use crate::encoding::selector::Selector;
use crate::store::stored::StoredObject;
use crate::types::served::ServedTypes;
use async_trait::async_trait;
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;

/// A query for a list.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// The type.
    pub resource: GroupResource,
    /// A single namespace; `None` for all.
    pub namespace: Option<String>,
    /// The objects that are selected.
    pub selector: Selector,
    /// Only objects after this namespace and name, in the order of lists.
    pub after: Option<(String, String)>,
    /// At most so many; 0 for all.
    pub limit: usize,
    /// The state at this revision; otherwise the present one.
    pub revision: Option<u64>,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The objects, in the order of `NAMESPACE/NAME`, so that those of `a-b` come before those of `a`.
    pub objects: Vec<Arc<StoredObject>>,
    /// The revision of the state they are from.
    pub revision: u64,
    /// True when objects may follow.
    pub more: bool,
}

/// Kinds of changes to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was made.
    Added,
    /// It was written again.
    Modified,
    /// It is gone; the change holds its last state.
    Deleted,
}

/// A write of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreChange {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The object, with the revision of the change.
    pub object: Arc<StoredObject>,
    /// The object before.
    pub previous: Option<Arc<StoredObject>>,
}

/// A part of the history.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The changes, in the order in which they were made.
    pub changes: Vec<Arc<StoreChange>>,
    /// The revision up to which the history was read: ask for what comes after it next.
    pub through: u64,
}

/// Errors of a store, told apart by the caller's next step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such object.
    #[error("{0} does not exist")]
    NotFound(ObjectKey),
    /// There is such an object already.
    #[error("{0} exists already")]
    Exists(ObjectKey),
    /// It is not of the expected revision, or a namespace that is not empty: read again.
    #[error("{0} was changed by someone else")]
    Conflict(ObjectKey),
    /// The namespace of a new object does not exist.
    #[error("namespace {0} does not exist")]
    NoNamespace(String),
    /// The revision is no longer, or not yet, known.
    #[error("revision {asked} is not known: history begins at {oldest} and ends at {newest}")]
    Expired {
        /// The revision that was asked for.
        asked: u64,
        /// The first revision that is known.
        oldest: u64,
        /// The present revision.
        newest: u64,
    },
    /// The store cannot be written to.
    #[error("the store is read-only")]
    ReadOnly,
    /// The store cannot be read.
    #[error("cannot read the store: {0}")]
    Unavailable(String),
}

/// A store of objects. The server has written its own fields into each object before it hands the object over; the resource
/// version alone is written by the store.
///
/// A write is atomic and raises the revision by at least one. Revisions are of the whole store.
///
/// A store that cannot be written to says so in [`ObjectStore::read_only`], and leaves out the methods below
/// [`ObjectStore::list`]: the server does not call them then.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Describes a store that cannot be written to, and why, as a sentence without its full stop; `None` when it can be
    /// written to. When this gives a text, the server refuses each write, and every request that only a running cluster
    /// could answer; and it does not do the work of controllers. The server asks such a store for a list without limit
    /// in pages, all of the revision of the first.
    fn read_only(&self) -> Option<&str> {
        None
    }

    /// The types served now. A store that takes CustomResourceDefinitions adds their types as they are written, and
    /// removes types and objects as they go.
    fn types(&self) -> Arc<ServedTypes>;

    /// The present revision. A change of it tells waiting watches that there is more to read.
    fn revisions(&self) -> watch::Receiver<u64>;

    /// Reads one object.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<StoredObject>>, StoreError>;

    /// Lists objects in the order of namespace and name.
    ///
    /// # Errors
    /// [`StoreError::Expired`] when the state at the revision asked for is not known, [`StoreError::Unavailable`].
    async fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError>;

    /// Creates an object.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::NoNamespace`], [`StoreError::ReadOnly`].
    async fn insert(&self, key: &ObjectKey, object: &Value) -> Result<Arc<StoredObject>, StoreError> {
        let _ = (key, object);
        Err(StoreError::ReadOnly)
    }

    /// Replaces an object of revision `expected`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::ReadOnly`].
    async fn update(&self, key: &ObjectKey, expected: u64, object: &Value) -> Result<Arc<StoredObject>, StoreError> {
        let _ = (key, expected, object);
        Err(StoreError::ReadOnly)
    }

    /// Removes an object of revision `expected` and returns its last state. A namespace that is not empty is a
    /// conflict.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::ReadOnly`].
    async fn remove(&self, key: &ObjectKey, expected: u64) -> Result<Arc<StoredObject>, StoreError> {
        let _ = (key, expected);
        Err(StoreError::ReadOnly)
    }

    /// Reads the history after a revision, of one type or of all, at most `most` changes.
    ///
    /// # Errors
    /// [`StoreError::Expired`] when the history does not reach back so far.
    fn changes(&self, after: u64, resource: Option<&GroupResource>, most: usize) -> Result<Changes, StoreError> {
        let _ = (resource, most);
        Ok(Changes { changes: Vec::new(), through: after.max(*self.revisions().borrow()) })
    }

    /// The key of the object with this uid.
    fn with_uid(&self, uid: &str) -> Option<ObjectKey> {
        let _ = uid;
        None
    }

    /// The keys of the objects that name this uid as an owner.
    fn dependents(&self, uid: &str) -> Vec<ObjectKey> {
        let _ = uid;
        Vec::new()
    }
}
