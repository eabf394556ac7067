//! A backup as a store that cannot be written to.

use crate::contents::{TypeContents, contents};
use crate::rows::{ListPosition, Rows};
use crate::types::types;
use async_trait::async_trait;
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, chain, types_named};
use lifeboat_sandbox::{ListPage, ListQuery, ObjectStore, ServedTypes, StoreError, StoredObject};
use lifeboat_store::{Archive, ArchiveItem};
use std::sync::Arc;
use tokio::sync::watch;

/// The only revision of the store. No object of a cluster has a later one, so a client that has seen an object is never
/// told that the store is behind it.
const REVISION: u64 = i64::MAX as u64;
/// Objects that are read at once, where it is not known how many of them are selected.
const BATCH: usize = 500;

/// A backup, open for reading; it never changes. Cheap to ask for what is not in it.
#[derive(Debug)]
pub struct BackupStore {
    rows: Rows,
    types: Arc<ServedTypes>,
    /// Describes the store as this backup, which cannot be changed.
    what: String,
    only_namespace: Option<Arc<str>>,
    revision: watch::Sender<u64>,
}

impl BackupStore {
    /// Opens the archive of a backup as a store. `what` names the backup for people, such as `the backup "nightly"`. Reads the
    /// definitions of custom types, and an object of each type that neither Kubernetes nor these define.
    ///
    /// # Errors
    /// When the archive cannot be read, or is damaged.
    pub async fn open(archive: Archive, what: &str) -> Result<Self, lifeboat_store::StoreError> {
        let rows = Rows::new(archive);
        let only_namespace = rows.only_namespace();
        let types = Arc::new(types(&rows).await?);
        let what = format!("this is {what}, which can be read and not changed");
        Ok(Self { rows, types, what, only_namespace, revision: watch::Sender::new(REVISION) })
    }

    /// The contents of the backup, by type.
    #[must_use]
    pub fn contents(&self) -> Vec<TypeContents> {
        contents(&self.rows)
    }

    /// Returns true if the backup has objects of a type.
    #[must_use]
    pub fn holds(&self, resource: &GroupResource) -> bool {
        !self.rows.of_type(resource).is_empty()
    }

    /// Returns true if the backup has an object. Its index knows; nothing is read.
    #[must_use]
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.rows.find(key).is_some()
    }

    /// A type, as the backup is served with it.
    #[must_use]
    pub fn type_of(&self, resource: &GroupResource) -> Option<&Arc<ApiResource>> {
        self.types.all().find(|one| one.group == resource.group && one.resource == resource.resource)
    }

    /// The types that a word of a user names ([`types_named`]).
    #[must_use]
    pub fn resources_of(&self, word: &str) -> Vec<GroupResource> {
        types_named(word, self.types.all()).into_iter().map(|found| found.group_resource()).collect()
    }

    /// The archive of the backup.
    #[must_use]
    pub fn archive(&self) -> &Archive {
        self.rows.archive()
    }

    /// The index rows of its objects.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The namespace of all objects that have one, if it is the same for all.
    #[must_use]
    pub fn only_namespace(&self) -> Option<&str> {
        self.only_namespace.as_deref()
    }

    /// Reads rows, in the order in which they are given.
    async fn read(&self, numbers: &[u32]) -> Result<Vec<Arc<StoredObject>>, StoreError> {
        let mut read = self.rows.read(numbers).await.map_err(|e| StoreError::Unavailable(chain(&e)))?;
        // The archive has its own order.
        read.sort_by(|a, b| place(a).cmp(&place(b)));
        Ok(read.into_iter().filter_map(|item| self.stored(item)).collect())
    }

    fn stored(&self, item: ArchiveItem) -> Option<Arc<StoredObject>> {
        let row = self.rows.archive().row(item.row)?;
        Some(Arc::new(StoredObject {
            key: row.key(),
            revision: item.head.resource_version.parse().unwrap_or(REVISION),
            uid: item.head.uid,
            api_version: item.head.api_version.unwrap_or_default(),
            labels: item.head.labels,
            owners: Vec::new(),
            is_deleting: item.head.deleting,
            body: item.body,
        }))
    }
}

fn place(item: &ArchiveItem) -> ListPosition<'_> {
    ListPosition(item.head.namespace.as_deref().unwrap_or_default(), &item.head.name)
}

#[async_trait]
impl ObjectStore for BackupStore {
    fn read_only(&self) -> Option<&str> {
        Some(&self.what)
    }

    fn types(&self) -> Arc<ServedTypes> {
        self.types.clone()
    }

    fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<StoredObject>>, StoreError> {
        let Some(number) = self.rows.find(key) else { return Ok(None) };
        Ok(self.read(&[number]).await?.pop())
    }

    async fn list(&self, query: &ListQuery) -> Result<ListPage, StoreError> {
        let mut rows = self.rows.after(&query.resource, query.namespace.as_deref(), query.after.as_ref());
        let named: Vec<u32>;
        if let Some(name) = query.selector.name() {
            named = rows.iter().copied().filter(|number| self.rows.place(*number).1 == name).collect();
            rows = &named;
        }
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let batch = if query.selector.is_everything() { limit } else { BATCH };
        let mut objects = Vec::new();
        while !rows.is_empty() && objects.len() < limit {
            let (first, rest) = rows.split_at(batch.min(rows.len()));
            let selected = self.read(first).await?.into_iter().filter(|object| query.selector.matches(object));
            objects.extend(selected);
            rows = rest;
        }
        let more = objects.len() > limit || !rows.is_empty();
        objects.truncate(limit);
        Ok(ListPage { objects, revision: REVISION, more })
    }
}
