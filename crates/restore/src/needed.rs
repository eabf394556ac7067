//! Namespaces that a restore would make although it does not select them: objects that it would create need them.

use crate::mapping::Mapping;
use crate::planned::{Planned, PreviewItem};
use crate::reader::Reader;
use crate::target_namespaces::TargetNamespaces;
use lifeboat_object::{GroupResource, Head, ObjectKey};
use lifeboat_select::RestoredFacts;
use lifeboat_store::StoreError;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// How many objects of each type are left out, by reason.
type LeftOut = BTreeMap<(GroupResource, &'static str), u64>;

/// The namespaces of a preview.
pub(crate) struct Needed {
    mapping: Arc<Mapping>,
    reader: Reader,
    namespaces: Arc<TargetNamespaces>,
    /// Target namespaces that were looked for.
    known: HashSet<String>,
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

    /// What is left out, without the namespaces that would be made all the same.
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
        self.is_not_left_out(source).await?;
        Ok(vec![found, item])
    }

    /// Takes a namespace of the backup out of what is left out.
    async fn is_not_left_out(&mut self, name: &str) -> Result<(), StoreError> {
        let key = ObjectKey::new(GroupResource::new("", "namespaces"), None, name);
        let Some(row) = self.mapping.find(&key) else { return Ok(()) };
        let labels = Head::parse(&self.reader.load(row).await?).map(|head| head.labels).unwrap_or_default();
        let facts = RestoredFacts {
            resource: &key.resource,
            kind: Some("Namespace"),
            namespace: Some(name),
            name,
            labels: Some(&labels),
        };
        let Err(reason) = self.mapping.filter.includes_item(facts) else { return Ok(()) };
        let left_out = (key.resource, reason);
        if let Some(count) = self.left_out.get_mut(&left_out) {
            *count -= 1;
            if *count == 0 {
                self.left_out.remove(&left_out);
            }
        }
        Ok(())
    }
}
