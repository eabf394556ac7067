//! All objects of a cluster, and whether a later state lost any of them.

use anyhow::Result;
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_object::{Item, splice_type};
use lifeboat_patch::restored::{is_made_anew, losses};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects by key. The demo's are few enough to be held.
pub(crate) type Snapshot = BTreeMap<String, Value>;

/// Reads every object that can be listed and created, except objects that every cluster makes itself.
pub(crate) async fn take(cluster: &Cluster) -> Result<Snapshot> {
    let catalog = cluster.discover().await?;
    let mut out = Snapshot::new();
    for resource in catalog.preferred().filter(|r| r.can("list") && r.can("create") && r.can("get")) {
        let mut list = cluster.list(ListRequest::all(Arc::clone(resource)));
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                let item = Item::parse(Arc::clone(resource), body)?;
                let object: Value = serde_json::from_slice(&splice_type(&item).to_bytes())?;
                if !is_made_anew(&object) {
                    out.insert(item.key().to_string(), object);
                }
            }
        }
    }
    Ok(out)
}

/// Everything that is lost, changed or new in `after`, one line each.
pub(crate) fn compare(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut out = Vec::new();
    for (key, object) in before {
        match after.get(key) {
            None => out.push(format!("{key}: lost")),
            Some(found) => out.extend(losses(object, found).iter().map(|d| format!("{key}: {d}"))),
        }
    }
    out.extend(after.keys().filter(|key| !before.contains_key(*key)).map(|key| format!("{key}: was not there before")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_loss_a_change_and_an_addition_are_told() {
        let object = |value: u32| json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}});
        let before = Snapshot::from([("a".to_owned(), object(1)), ("b".to_owned(), object(1))]);
        let after = Snapshot::from([("a".to_owned(), object(2)), ("c".to_owned(), object(1))]);
        assert_eq!(compare(&before, &after), ["a: /data/x: 1 became 2", "b: lost", "c: was not there before"]);
        assert_eq!(compare(&before, &before), [""; 0]);
    }
}
