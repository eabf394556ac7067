//! `velero.io/change-storage-class` (velero: pkg/restore/actions).

use super::edit::list_mut;
use super::known;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, RestoreItemAction, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::Restore;
use lifeboat_cluster::Cluster;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Gives volumes and claims another storage class.
pub(super) struct ChangeStorageClass {
    cluster: Cluster,
    classes: BTreeMap<String, String>,
    /// Classes that were found. One that is missing may be restored yet.
    found: Mutex<BTreeSet<String>>,
}

impl ChangeStorageClass {
    pub(super) fn new(cluster: Cluster, classes: BTreeMap<String, String>) -> Self {
        Self { cluster, classes, found: Mutex::default() }
    }

    async fn must_exist(&self, class: &str) -> Result<(), ActionError> {
        if self.found.lock().unwrap_or_else(PoisonError::into_inner).contains(class) {
            return Ok(());
        }
        let failed = |why: &str| ActionError::item(format!("error getting storage class {class} from API: {why}"));
        if class.is_empty() {
            return Err(failed("resource name may not be empty"));
        }
        match self.cluster.get(&known::storage_classes(), None, class).await {
            Ok(Some(_)) => {
                self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(class.to_owned());
                Ok(())
            }
            Ok(None) => Err(failed(&format!("storageclasses.storage.k8s.io {class:?} not found"))),
            Err(e) => Err(failed(&e.failure.to_string())),
        }
    }
}

#[async_trait]
impl RestoreItemAction for ChangeStorageClass {
    fn name(&self) -> &str {
        "velero.io/change-storage-class"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["persistentvolumeclaims", "persistentvolumes", "statefulsets.apps"])
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, _: &Restore) -> bool {
        self.classes.is_empty()
    }

    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let (item, new) = change(input.item, &self.classes);
        for class in new {
            self.must_exist(&class).await?;
        }
        Ok(RestoreItemOutput::with(item))
    }
}

/// The object with its classes changed, and the names of the new ones.
fn change(mut item: Value, classes: &BTreeMap<String, String>) -> (Value, BTreeSet<String>) {
    let mut new = BTreeSet::new();
    if item["kind"] == "StatefulSet" {
        for template in list_mut(&mut item, "/spec/volumeClaimTemplates").into_iter().flatten() {
            new.extend(change_one(template, classes));
        }
    } else {
        new.extend(change_one(&mut item, classes));
    }
    (item, new)
}

/// Where a volume, a claim or a template of one names its class: the annotation is of before Kubernetes 1.6, is still read, and goes
/// before the field.
const CLASS: [&str; 2] = ["/spec/storageClassName", "/metadata/annotations/volume.beta.kubernetes.io~1storage-class"];

fn change_one(claim: &mut Value, classes: &BTreeMap<String, String>) -> Vec<String> {
    let mut changed = Vec::new();
    for place in CLASS {
        let Some(class) = claim.pointer_mut(place) else { continue };
        let new = class.as_str().filter(|name| !name.is_empty()).and_then(|name| classes.get(name));
        if let Some(new) = new {
            *class = new.as_str().into();
            changed.push(new.clone());
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::super::test_server::{FixedResponse, TestServer};
    use super::super::tests::input;
    use super::*;
    use lifeboat_api::Restore;
    use serde_json::json;

    fn classes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
    }

    fn claim(class: &Value) -> Value {
        json!({"kind": "PersistentVolumeClaim", "spec": {"storageClassName": class, "volumeName": "v"}})
    }

    #[test]
    fn classes_are_changed_where_a_rule_says_so() {
        let set = |a: &str, b: &str| {
            json!({"kind": "StatefulSet", "spec": {"storageClassName": "slow", "volumeClaimTemplates": [
                {"metadata": {"name": "a"}, "spec": {"storageClassName": a, "x": 1}}, {"spec": {"storageClassName": b}}, {"spec": {}}, "odd"]}})
        };
        let volume = |class: &str| json!({"kind": "PersistentVolume", "spec": {"storageClassName": class}});
        let beta = |class: &str| json!({"volume.beta.kubernetes.io/storage-class": class, "x": "slow"});
        let old = |kind: &str, class: &str| json!({"kind": kind, "metadata": {"annotations": beta(class)}, "spec": {}});
        let templates = |class: &str| {
            let template = json!({"metadata": {"annotations": beta(class)}, "spec": {}});
            json!({"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [template]}})
        };
        let cases = [
            (claim(&json!("slow")), claim(&json!("fast")), &["fast"][..]),
            (volume("slow"), volume("fast"), &["fast"]),
            (set("slow", "cold"), set("fast", "warm"), &["fast", "warm"]),
            (set("slow", "other"), set("fast", "other"), &["fast"]),
            (old("PersistentVolumeClaim", "slow"), old("PersistentVolumeClaim", "fast"), &["fast"]),
            (old("PersistentVolume", "cold"), old("PersistentVolume", "warm"), &["warm"]),
            (old("PersistentVolumeClaim", "other"), old("PersistentVolumeClaim", "other"), &[]),
            (templates("cold"), templates("warm"), &["warm"]),
            (claim(&json!("other")), claim(&json!("other")), &[]),
            (claim(&json!("")), claim(&json!("")), &[]),
            (claim(&json!(5)), claim(&json!(5)), &[]),
            (
                json!({"kind": "PersistentVolumeClaim", "spec": {}}),
                json!({"kind": "PersistentVolumeClaim", "spec": {}}),
                &[],
            ),
            (json!({"kind": "StatefulSet", "spec": {}}), json!({"kind": "StatefulSet", "spec": {}}), &[]),
        ];
        let rules = classes(&[("slow", "fast"), ("cold", "warm"), ("", "never")]);
        for (item, expected, new) in cases {
            let new = new.iter().map(|n| (*n).to_owned()).collect();
            assert_eq!(change(item, &rules), (expected, new));
        }
    }

    #[tokio::test]
    async fn the_new_class_must_exist_and_is_asked_for_once() {
        let base = "/apis/storage.k8s.io/v1/storageclasses/";
        let server = TestServer::start(vec![
            FixedResponse::object(format!("{base}fast"), &json!({"metadata": {"name": "fast"}})),
            FixedResponse::status(format!("{base}denied"), 403, "Forbidden", "you may not"),
        ])
        .await;
        let rules = classes(&[("slow", "fast"), ("a", "gone"), ("b", "denied"), ("c", "")]);
        let action = ChangeStorageClass::new(server.cluster.clone(), rules);
        let restore = Restore::default();
        let fails = |why: &str| Err(format!("error getting storage class {why}"));
        let cases = [
            ("slow", Ok(RestoreItemOutput::with(claim(&json!("fast"))))),
            ("slow", Ok(RestoreItemOutput::with(claim(&json!("fast"))))),
            ("other", Ok(RestoreItemOutput::with(claim(&json!("other"))))),
            ("a", fails("gone from API: storageclasses.storage.k8s.io \"gone\" not found")),
            ("b", fails("denied from API: you may not")),
            ("c", fails(" from API: resource name may not be empty")),
        ];
        for (class, expected) in cases {
            let item = claim(&json!(class));
            assert_eq!(action.execute(input(&item, &restore)).await.map_err(|e| e.to_string()), expected, "{class}");
        }
        assert_eq!(server.requests(), ["fast", "gone", "denied"].map(|name| format!("{base}{name}")));
    }
}
