//! Parses the objects of a list.

use bytes::Bytes;
use lifeboat_object::{ApiResource, Item, ObjectKey, Severity};
use lifeboat_operation::Journal;
use std::sync::Arc;

/// The objects of a list. An element that is no object is an error in the journal.
pub(crate) fn items(resource: &Arc<ApiResource>, bodies: Vec<Bytes>, journal: &Journal) -> Vec<Item> {
    let mut items = Vec::with_capacity(bodies.len());
    for body in bodies {
        match Item::parse(Arc::clone(resource), body) {
            Ok(item) => items.push(item),
            Err(e) => {
                let key = ObjectKey::new(resource.group_resource(), None, "?");
                let message = "The API server listed something that is no object";
                journal.item(Severity::Error, &key, message, Some(&e.to_string()));
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::{ResultScope, Results};

    #[test]
    fn what_is_no_object_is_an_error_and_the_others_stay() {
        let journal = Journal::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), "backup=velero/b", &std::env::temp_dir());
        let resource = Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"));
        let bodies = [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{}}"#, r#"{"metadata":{"name":"b"}}"#];
        let items = items(&resource, bodies.map(Bytes::from).into(), &journal);
        assert_eq!(items.iter().map(|i| i.head.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let mut expected = Results::default();
        let text = " resource: /configmaps name: /? message: /The API server listed something that is no object error: \
                    /the object has no metadata.name";
        expected.add(Severity::Error, &ResultScope::Cluster, text);
        assert_eq!(journal.close().results, expected);
    }
}
