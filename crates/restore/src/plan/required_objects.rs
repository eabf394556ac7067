//! Objects that a restore creates without selecting them, because objects that it creates need them: namespaces, and
//! objects that the filters left out.

use crate::plan::planned::{Planned, PreviewItem};
use crate::plan::target_namespaces::TargetNamespaces;
use crate::walk::read::filter_namespace;
use crate::walk::scope::RestoreScope;
use lifeboat_object::{GroupResource, Head, ObjectKey};
use lifeboat_select::RestoredFacts;
use lifeboat_store::{ArchiveItem, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Number of objects of each type that are left out, by reason.
type LeftOut = BTreeMap<(GroupResource, &'static str), u64>;

/// The namespaces and left-out objects that objects of a preview need.
pub(crate) struct RequiredObjects {
    scope: Arc<RestoreScope>,
    namespaces: Arc<TargetNamespaces>,
    /// Target namespaces that were looked for.
    known: HashSet<String>,
    /// Objects that are left out, without the objects that were [taken out](Self::take_out_of_left_out), and with the
    /// namespaces that come.
    left_out: LeftOut,
    /// Rows of namespaces of the backup that come although the restore may not select them.
    coming: BTreeSet<usize>,
}

impl RequiredObjects {
    pub(crate) fn new(scope: Arc<RestoreScope>, namespaces: Arc<TargetNamespaces>, left_out: LeftOut) -> Self {
        Self { scope, namespaces, known: HashSet::new(), left_out, coming: BTreeSet::new() }
    }

    /// Returns the objects that are left out, without the namespaces that would be made all the same. Reads the
    /// namespaces for it, all at once.
    ///
    /// # Errors
    /// Returns the reason why the archive cannot be read.
    pub(crate) async fn left_out(mut self) -> Result<LeftOut, StoreError> {
        let (scope, mut reading) = (Arc::clone(&self.scope), JoinSet::new());
        let coming = std::mem::take(&mut self.coming);
        let mut namespaces = scope.archive.read(coming.into_iter().collect(), &mut reading);
        while let Some(ArchiveItem { row, head, .. }) = namespaces.next().await? {
            if let Some(row) = scope.archive.row(row) {
                self.take_out(&row.key(), &head);
            }
        }
        Ok(self.left_out)
    }

    /// The item of this object of the backup, after the namespace that would be made for it. A namespace comes once.
    pub(crate) async fn with(&mut self, source: &ObjectKey, item: PreviewItem) -> Vec<PreviewItem> {
        if item.key.resource.is_namespaces() {
            return if self.known.insert(item.key.name.clone()) { vec![item] } else { Vec::new() };
        }
        let (Some(source), Some(target)) = (&source.namespace, &item.key.namespace) else { return vec![item] };
        if item.planned != Planned::Create || !self.known.insert(target.clone()) {
            return vec![item];
        }
        let found = self.namespaces.item(target).await;
        if found.planned == Planned::Unchanged {
            return vec![item];
        }
        let namespace = ObjectKey::new(GroupResource::namespaces(), None, source.as_str());
        self.coming.extend(self.scope.find(&namespace));
        vec![found, item]
    }

    /// Removes an object of the backup from those that are left out: something needs it.
    pub(crate) fn take_out_of_left_out(&mut self, row: usize, key: &ObjectKey, head: &Head) {
        if key.resource.is_namespaces() {
            // It may come for what is in it, too, and counts once.
            self.coming.insert(row);
        } else {
            self.take_out(key, head);
        }
    }

    fn take_out(&mut self, key: &ObjectKey, head: &Head) {
        let facts = RestoredFacts {
            resource: &key.resource,
            kind: head.kind.as_deref(),
            namespace: filter_namespace(key),
            name: &key.name,
            labels: Some(&head.labels),
        };
        let Err(reason) = self.scope.filter.includes_item(facts) else { return };
        let left_out = (key.resource.clone(), reason);
        if let Some(count) = self.left_out.get_mut(&left_out) {
            *count -= 1;
            if *count == 0 {
                self.left_out.remove(&left_out);
            }
        }
    }
}
