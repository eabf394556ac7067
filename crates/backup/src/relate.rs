//! Which other objects belong to an object, and what is changed on its way into the archive: Velero's built-in backup
//! and item block actions (backup.md 1.11, 2.3). Pure; asks the cluster nothing.

use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_object::{GroupResource, ObjectKey};
use serde_json::Value;
use std::collections::HashSet;

/// A claim and what the volume information says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Name of its volume, when it is bound.
    pub(crate) volume: Option<String>,
    /// `Pending`, `Lost`, …
    pub(crate) phase: String,
    /// Value of the label that groups claims, when it has one.
    pub(crate) group: Option<String>,
}

fn key(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new(group, resource), namespace, name)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Names of the claims that a pod mounts.
pub(crate) fn claims_of_pod(pod: &Value) -> Vec<&str> {
    mounts_of_pod(pod).into_iter().map(|(claim, _)| claim).collect()
}

/// The claims that a pod mounts, and whether its annotation asks for the files of each to be saved.
pub(crate) fn mounts_of_pod(pod: &Value) -> Vec<(&str, bool)> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let asked = text(pod, "/metadata/annotations/backup.velero.io~1backup-volumes");
    volumes
        .iter()
        .map(|v| (text(v, "/persistentVolumeClaim/claimName"), asked.split(',').any(|name| name == text(v, "/name"))))
        .filter(|(claim, _)| !claim.is_empty())
        .collect()
}

/// Whether a pod runs: it has a node, the phase Running, and is not being deleted.
pub(crate) fn is_running(pod: &Value) -> bool {
    !text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/status/phase") == "Running"
        && pod.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null)
}

/// What a pod needs: its claims, and its priority class.
pub(crate) fn of_pod(namespace: &str, pod: &Value) -> Vec<ObjectKey> {
    let mut out: Vec<ObjectKey> =
        claims_of_pod(pod).into_iter().map(|name| key("", "persistentvolumeclaims", Some(namespace), name)).collect();
    let class = text(pod, "/spec/priorityClassName");
    if !class.is_empty() {
        out.push(key("scheduling.k8s.io", "priorityclasses", None, class));
    }
    out
}

/// The facts of a claim.
pub(crate) fn claim(namespace: &str, name: &str, claim: &Value, group_label: &str) -> Claim {
    let volume = text(claim, "/spec/volumeName");
    let phase = text(claim, "/status/phase");
    let group = claim.pointer("/metadata/labels").and_then(|l| l.get(group_label)).and_then(Value::as_str);
    Claim {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        volume: (phase == "Bound" && !volume.is_empty()).then(|| volume.to_owned()),
        phase: phase.to_owned(),
        group: group.filter(|g| !g.is_empty()).map(str::to_owned),
    }
}

/// What a bound claim needs: its volume.
pub(crate) fn of_claim(claim: &Claim) -> Vec<ObjectKey> {
    claim.volume.iter().map(|volume| key("", "persistentvolumes", None, volume)).collect()
}

/// Takes out of a bound claim what ties it to where its data came from (backup.md 2.3 `velero.io/pv`). Works on the
/// untyped object: Velero loses unknown fields here, we do not.
pub(crate) fn clean_claim(claim: &mut Value, backup: &str) {
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("dataSource");
        spec.remove("dataSourceRef");
        let no_class = spec.get("storageClassName").is_some_and(|c| c == "");
        if !no_class {
            spec.remove("selector");
        } else if let Some(labels) =
            spec.get_mut("selector").and_then(|s| s.get_mut("matchLabels")).and_then(Value::as_object_mut)
        {
            labels.retain(|k, _| !k.starts_with("velero.io/"));
        }
    }
    if let Some(labels) = claim.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        for stale in
            [LABEL_RESTORE_NAME, "backup.velero.io/must-include-additional-items", "velero.io/volume-snapshot-name"]
        {
            labels.remove(stale);
        }
        if labels.get(LABEL_BACKUP_NAME).is_some_and(|v| v != backup) {
            labels.remove(LABEL_BACKUP_NAME);
        }
        if labels.is_empty()
            && let Some(metadata) = claim.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("labels");
        }
    }
}

/// Stands for a service account in large sets.
pub(crate) fn account(namespace: &str, name: &str) -> [u8; 16] {
    key("", "serviceaccounts", Some(namespace), name).digest()
}

/// What is asked of a cluster role binding when it is known which service accounts were saved. Its object is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Its service accounts.
    accounts: Box<[[u8; 16]]>,
    role: String,
}

impl Binding {
    /// The facts of a cluster role binding; `None` when it names no service account.
    pub(crate) fn of(binding: &Value) -> Option<Self> {
        let subjects = binding.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let accounts = subjects.iter().filter(|s| text(s, "/kind") == "ServiceAccount");
        let accounts: Box<[_]> = accounts.map(|s| account(text(s, "/namespace"), text(s, "/name"))).collect();
        (!accounts.is_empty()).then(|| Self { accounts, role: text(binding, "/roleRef/name").to_owned() })
    }

    /// Whether it is of one of these service accounts.
    pub(crate) fn binds(&self, accounts: &HashSet<[u8; 16]>) -> bool {
        self.accounts.iter().any(|account| accounts.contains(account))
    }

    /// Its cluster role.
    pub(crate) fn role(&self) -> Option<ObjectKey> {
        (!self.role.is_empty()).then(|| key("rbac.authorization.k8s.io", "clusterroles", None, &self.role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(keys: &[ObjectKey]) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_needs_its_claims_and_its_priority_class() {
        let pod = json!({"spec": {"priorityClassName": "high", "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}}]}});
        assert_eq!(
            names(&of_pod("shop", &pod)),
            [
                "persistentvolumeclaims/shop/data",
                "persistentvolumeclaims/shop/logs",
                "priorityclasses.scheduling.k8s.io/high"
            ]
        );
        assert_eq!(names(&of_pod("shop", &json!({"spec": {"volumes": "odd"}}))), [""; 0]);
    }

    #[test]
    fn a_pod_asks_for_the_files_of_the_volumes_that_it_lists() {
        let pod = |annotations: Value| {
            json!({"metadata": {"annotations": annotations}, "spec": {"volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}}]}})
        };
        for (annotations, data, logs) in [
            (json!({"backup.velero.io/backup-volumes": "b,c"}), false, true),
            (json!({"backup.velero.io/backup-volumes": "a, c"}), true, false),
            (json!({"backup.velero.io/backup-volumes": ["a"]}), false, false),
            (json!({"backup.velero.io/backup-volumes-excludes": "a"}), false, false),
            (Value::Null, false, false),
        ] {
            assert_eq!(mounts_of_pod(&pod(annotations.clone())), [("data", data), ("logs", logs)], "{annotations}");
        }
    }

    #[test]
    fn only_a_bound_claim_needs_its_volume() {
        let object =
            json!({"metadata": {"labels": {"g": "x"}}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
        let bound = claim("s", "c", &object, "g");
        assert_eq!(
            (names(&of_claim(&bound)), bound.group),
            (vec!["persistentvolumes/pv".to_owned()], Some("x".into()))
        );
        let pending = claim("s", "c", &json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Pending"}}), "g");
        assert_eq!((names(&of_claim(&pending)), pending.phase.as_str()), (vec![], "Pending"));
    }

    #[test]
    fn a_claim_forgets_where_its_data_came_from() {
        let mut claim = json!({
            "metadata": {"labels": {"app": "x", "velero.io/restore-name": "r", "velero.io/backup-name": "old"}},
            "spec": {"dataSource": {}, "dataSourceRef": {}, "selector": {"matchLabels": {"velero.io/x": "1"}}, "storageClassName": "slow", "unknown": 1}
        });
        clean_claim(&mut claim, "new");
        assert_eq!(
            claim,
            json!({"metadata": {"labels": {"app": "x"}}, "spec": {"storageClassName": "slow", "unknown": 1}})
        );
        let mut without_class = json!({
            "metadata": {"labels": {"velero.io/backup-name": "new"}},
            "spec": {"storageClassName": "", "selector": {"matchLabels": {"velero.io/x": "1", "disk": "a"}}}
        });
        clean_claim(&mut without_class, "new");
        assert_eq!(
            without_class,
            json!({"metadata": {"labels": {"velero.io/backup-name": "new"}}, "spec": {"storageClassName": "", "selector": {"matchLabels": {"disk": "a"}}}})
        );
    }

    #[test]
    fn a_binding_is_found_by_its_service_accounts() {
        let binding = json!({"roleRef": {"name": "reader"}, "subjects": [
            {"kind": "User", "name": "web", "namespace": "shop"}, {"kind": "ServiceAccount", "name": "web", "namespace": "shop"}]});
        let found = Binding::of(&binding).unwrap();
        for (namespace, name, expected) in [("shop", "web", true), ("other", "web", false), ("shop", "we", false)] {
            assert_eq!(found.binds(&HashSet::from([account(namespace, name)])), expected, "{namespace} {name}");
        }
        assert_eq!(found.role().unwrap().to_string(), "clusterroles.rbac.authorization.k8s.io/reader");
        for none in [json!({}), json!({"subjects": "odd"}), json!({"subjects": [{"kind": "User", "name": "web"}]})] {
            assert_eq!(Binding::of(&none), None, "{none}");
        }
        let without_role = Binding::of(&json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}]})).unwrap();
        assert_eq!(without_role.role(), None);
    }

    #[test]
    fn what_is_kept_of_a_binding_does_not_grow_with_its_object() {
        let binding = json!({"metadata": {"annotations": {"a": "x".repeat(1 << 20)}}, "roleRef": {"name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "a".repeat(1 << 20), "namespace": "shop"}]});
        let Binding { accounts, role } = Binding::of(&binding).unwrap();
        assert_eq!((accounts.len(), role.as_str()), (1, "reader"));
    }
}
