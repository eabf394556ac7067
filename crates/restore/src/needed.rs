//! What a restore would bring back although it does not select it, because objects that it would create need it: namespaces, and what
//! is left out no longer.

use crate::mapping::Mapping;
use crate::planned::{Planned, PreviewItem};
use crate::read::filter_namespace;
use crate::reader::Reader;
use crate::target_namespaces::TargetNamespaces;
use lifeboat_object::{GroupResource, Head, ObjectKey};
use lifeboat_select::RestoredFacts;
use lifeboat_store::StoreError;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// How many objects of each type are left out, by reason.
type LeftOut = BTreeMap<(GroupResource, &'static str), u64>;

/// What objects of a preview need.
pub(crate) struct Needed {
    mapping: Arc<Mapping>,
    reader: Reader,
    namespaces: Arc<TargetNamespaces>,
    /// Target namespaces that were looked for.
    known: HashSet<String>,
    /// What is left out, without the objects that were [taken out](Self::take_out_of_left_out).
    left_out: LeftOut,
}

impl Needed {
    pub(crate) fn new(
        mapping: Arc<Mapping>,
        reader: Reader,
        namespaces: Arc<TargetNamespaces>,
        left_out: LeftOut,
    ) -> Self {
        Self { mapping, reader, namespaces, known: HashSet::new(), left_out }
    }

    /// What is left out, without what would be made all the same.
    pub(crate) fn left_out(self) -> LeftOut {
        self.left_out
    }

    /// The item of this object of the backup, after the namespace that would be made for it. A namespace comes once.
    pub(crate) async fn with(&mut self, source: &ObjectKey, item: PreviewItem) -> Result<Vec<PreviewItem>, StoreError> {
        if item.key.resource.is_namespaces() {
            return Ok(if self.known.insert(item.key.name.clone()) { vec![item] } else { Vec::new() });
        }
        let (Some(source), Some(target)) = (&source.namespace, &item.key.namespace) else { return Ok(vec![item]) };
        if item.planned != Planned::Create || !self.known.insert(target.clone()) {
            return Ok(vec![item]);
        }
        let found = self.namespaces.item(target).await;
        if found.planned == Planned::Unchanged {
            return Ok(vec![item]);
        }
        let namespace = ObjectKey::new(GroupResource::namespaces(), None, source.as_str());
        if let Some(row) = self.mapping.find(&namespace) {
            let body = self.reader.load(row).await?;
            self.take_out_of_left_out(&namespace, &Head::parse(&body).unwrap_or_default());
        }
        Ok(vec![found, item])
    }

    /// Takes an object of the backup out of what is left out: something needs it.
    pub(crate) fn take_out_of_left_out(&mut self, key: &ObjectKey, head: &Head) {
        let facts = RestoredFacts {
            resource: &key.resource,
            kind: head.kind.as_deref(),
            namespace: filter_namespace(key),
            name: &key.name,
            labels: Some(&head.labels),
        };
        let Err(reason) = self.mapping.filter.includes_item(facts) else { return };
        let left_out = (key.resource.clone(), reason);
        if let Some(count) = self.left_out.get_mut(&left_out) {
            *count -= 1;
            if *count == 0 {
                self.left_out.remove(&left_out);
            }
        }
    }
}
