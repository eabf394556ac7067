//! The index rows of each type in an archive, in the order in which an API server lists the objects.

use lifeboat_archive::index::Row;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_store::{Archive, ArchiveItem, StoreError};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Objects that are read at once, at most.
pub(crate) const BATCH: usize = 500;
/// Bytes of objects that are read at once; one object may be larger.
pub(crate) const BATCH_BYTES: u64 = 16 << 20;

/// The objects of an archive by type, namespace and name: each once, in its preferred version.
#[derive(Debug)]
pub(crate) struct Rows {
    archive: Archive,
    /// Numbers of rows, by their places.
    of_types: HashMap<GroupResource, Vec<u32>>,
}

/// Namespace, empty without one, and name of an object. Places have the order of `NAMESPACE/NAME`, under which an API server keeps and
/// lists objects: those of `a-b` come before those of `a`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPosition<'a>(pub(crate) &'a str, pub(crate) &'a str);

impl Ord for ListPosition<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.0 == other.0 {
            return self.1.cmp(other.1);
        }
        // No namespace has a slash: where two differ, they do so at the latest where the shorter one has it.
        self.0.bytes().chain([b'/']).cmp(other.0.bytes().chain([b'/']))
    }
}

impl PartialOrd for ListPosition<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Rows {
    pub(crate) fn new(archive: Archive) -> Self {
        let mut of_types: HashMap<GroupResource, Vec<u32>> = HashMap::new();
        for (number, row) in archive.rows().enumerate().filter(|(_, row)| row.preferred) {
            // An archive has no more entries than fit: the index was held to the limits of readers.
            let Ok(number) = u32::try_from(number) else { break };
            match of_types.get_mut(&*row.resource) {
                Some(numbers) => numbers.push(number),
                None => drop(of_types.insert((*row.resource).clone(), vec![number])),
            }
        }
        for numbers in of_types.values_mut() {
            numbers.sort_by_key(|number| archive.row(*number as usize).map(place));
            numbers.shrink_to_fit();
        }
        Self { archive, of_types }
    }

    pub(crate) fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The types that the archive holds objects of, each with one of these.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&GroupResource, &Row)> {
        self.of_types.iter().filter_map(|(resource, numbers)| Some((resource, self.row(*numbers.first()?)?)))
    }

    /// The namespace of all objects that have one, if it is the same for all.
    pub(crate) fn only_namespace(&self) -> Option<Arc<str>> {
        let mut namespaces = self.archive.rows().map(|row| &row.namespace).filter(|name| !name.is_empty());
        let first = namespaces.next()?;
        namespaces.all(|other| other == first).then(|| first.clone())
    }

    /// All rows of a type, by their places.
    pub(crate) fn of_type(&self, resource: &GroupResource) -> &[u32] {
        self.of_types.get(resource).map(Vec::as_slice).unwrap_or_default()
    }

    /// All rows of objects of one namespace, or of all objects.
    pub(crate) fn within(&self, namespace: Option<&str>) -> Vec<usize> {
        let is_within = |row: &Row| row.preferred && namespace.is_none_or(|name| &*row.namespace == name);
        self.archive.rows().enumerate().filter(|(_, row)| is_within(row)).map(|(number, _)| number).collect()
    }

    /// The rows of a type, or of one namespace of it, that come after a namespace and name.
    pub(crate) fn after(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        after: Option<&(String, String)>,
    ) -> &[u32] {
        let mut rows = self.of_type(resource);
        if let Some(namespace) = namespace {
            rows = &rows[rows.partition_point(|n| self.place(*n) < ListPosition(namespace, ""))..];
            rows = &rows[..rows.partition_point(|n| self.place(*n).0 == namespace)];
        }
        if let Some((namespace, name)) = after {
            let begin = rows.partition_point(|n| self.place(*n) <= ListPosition(namespace, name));
            rows = &rows[begin..];
        }
        rows
    }

    /// The row of an object.
    pub(crate) fn find(&self, key: &ObjectKey) -> Option<u32> {
        let at = self.position(&key.resource, ListPosition(key.namespace.as_deref().unwrap_or_default(), &key.name))?;
        self.of_type(&key.resource).get(at).copied()
    }

    /// At which place of [`Rows::of_type`] an object stands.
    pub(crate) fn position(&self, resource: &GroupResource, wanted: ListPosition<'_>) -> Option<usize> {
        self.of_type(resource).binary_search_by(|n| self.place(*n).cmp(&wanted)).ok()
    }

    /// Reads these rows, in the order of the archive.
    ///
    /// # Errors
    /// When the archive cannot be read, or is damaged.
    pub(crate) async fn read(&self, numbers: &[u32]) -> Result<Vec<ArchiveItem>, StoreError> {
        let mut tasks = JoinSet::new();
        let mut contents = self.archive.read(numbers.iter().map(|number| *number as usize).collect(), &mut tasks);
        let mut items = Vec::with_capacity(numbers.len());
        while let Some(item) = contents.next().await? {
            items.push(item);
        }
        Ok(items)
    }

    /// Reads these rows, by their numbers.
    ///
    /// # Errors
    /// When the archive cannot be read, or is damaged.
    pub(crate) async fn read_by_number(
        &self,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<HashMap<u32, ArchiveItem>, StoreError> {
        let items = self.read(&numbers.collect::<Vec<_>>()).await?;
        Ok(items.into_iter().filter_map(|item| Some((u32::try_from(item.row).ok()?, item))).collect())
    }

    /// The namespace and name of the object of a row.
    pub(crate) fn place(&self, number: u32) -> ListPosition<'_> {
        self.row(number).map(place).unwrap_or_default()
    }

    /// The row of this number.
    pub(crate) fn row(&self, number: u32) -> Option<&Row> {
        self.archive.row(number as usize)
    }
}

fn place(row: &Row) -> ListPosition<'_> {
    ListPosition(&row.namespace, &row.name)
}
