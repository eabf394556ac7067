//! StatefulSets whose storage could not be restored.
//!
//! A StatefulSet makes the claims of its templates that are missing, empty ones. So when the claim of the backup failed
//! for good, the set must not start: it would run on nothing and look well.

use crate::state::lock::lock;
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;

/// Claims that could not be restored, by target namespace, and pods.
#[derive(Debug, Default)]
pub(crate) struct LostClaims {
    claims: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Pods that could not be restored.
    pods: Mutex<HashSet<[u8; 16]>>,
}

impl LostClaims {
    /// Remembers an object of the cluster that could not be restored, when it is a claim or a pod.
    pub(crate) fn add(&self, target: &ObjectKey) {
        if target.resource == GroupResource::new("", "pods") {
            lock(&self.pods).insert(target.digest());
        }
        if target.resource == GroupResource::new("", "persistentvolumeclaims") {
            let namespace = target.namespace.clone().unwrap_or_default();
            lock(&self.claims).entry(namespace).or_default().insert(target.name.clone());
        }
    }

    /// Returns true if a pod of the cluster could not be restored.
    pub(crate) fn has_pod(&self, target: &ObjectKey) -> bool {
        lock(&self.pods).contains(&target.digest())
    }

    /// The claim whose loss holds a StatefulSet back; `None` for other objects.
    pub(crate) fn holding_back(&self, target: &ObjectKey, object: &Value) -> Option<String> {
        if target.resource != GroupResource::new("apps", "statefulsets") {
            return None;
        }
        lost_claim(object, lock(&self.claims).get(target.namespace.as_deref()?)?).map(str::to_owned)
    }
}

/// The first of the lost claims (names in the set's namespace) that the set would make anew.
fn lost_claim<'a>(stateful_set: &Value, lost: &'a BTreeSet<String>) -> Option<&'a str> {
    let name = stateful_set["metadata"]["name"].as_str()?;
    let spec = &stateful_set["spec"];
    let templates: Vec<&str> = spec["volumeClaimTemplates"]
        .as_array()?
        .iter()
        .filter_map(|template| template["metadata"]["name"].as_str())
        .collect();
    let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
    let replicas = spec["replicas"].as_u64().unwrap_or(1);
    let belongs = |claim: &&String| {
        templates.iter().any(|template| {
            let ordinal = claim.strip_prefix(template).and_then(|c| c.strip_prefix('-'));
            let ordinal = ordinal.and_then(|c| c.strip_prefix(name)).and_then(|c| c.strip_prefix('-'));
            let ordinal = ordinal.and_then(|text| text.parse::<u64>().ok().filter(|n| n.to_string() == text));
            ordinal.is_some_and(|n| n >= start && n - start < replicas)
        })
    };
    lost.iter().find(belongs).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_waits_for_the_claims_it_would_make_anew() {
        let set = |replicas: Option<u32>, start: u32| {
            let mut spec =
                json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "wal-data"}}]});
            if let Some(replicas) = replicas {
                spec["replicas"] = json!(replicas);
            }
            if start > 0 {
                spec["ordinals"] = json!({"start": start});
            }
            json!({"metadata": {"name": "db"}, "spec": spec})
        };
        for (set, lost, expected) in [
            (set(Some(2), 0), "data-db-1", Some("data-db-1")),
            (set(Some(2), 0), "wal-data-db-0", Some("wal-data-db-0")),
            (set(Some(2), 0), "data-db-2", None),
            (set(Some(2), 5), "data-db-6", Some("data-db-6")),
            (set(Some(2), 5), "data-db-0", None),
            (set(None, 0), "data-db-0", Some("data-db-0")),
            (set(None, 0), "data-db-00", None),
            (set(None, 0), "data-db", None),
            (set(Some(0), 0), "data-db-0", None),
            (set(Some(2), 0), "data-other-0", None),
            (json!({"metadata": {"name": "db"}, "spec": {}}), "data-db-0", None),
        ] {
            assert_eq!(lost_claim(&set, &BTreeSet::from([lost.to_owned()])), expected, "{lost} {set}");
        }
    }
}
