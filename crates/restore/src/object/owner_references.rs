//! Owner references of an object in the backup, and their merge into the object of the cluster. Pure.

use lifeboat_archive::index::Row;
use lifeboat_object::{ApiResource, Catalog, GroupResource, Head};
use serde_json::{Value, json};
use std::sync::Arc;

/// Types whose owner references are not restored. Controllers take care of the objects that they make: they adopt those
/// that match their selectors, and count or delete those that they own. A namespace would be deleted with everything in
/// it when its owner is missing.
const WITHOUT_OWNERS: [(&str, &str); 5] = [
    ("", "namespaces"),
    ("", "pods"),
    ("apps", "replicasets"),
    ("apps", "controllerrevisions"),
    ("discovery.k8s.io", "endpointslices"),
];

/// Owners that do not come back, of types that have others too: the type, group and kind of the owner.
const LEFT_TO_CONTROLLERS: [(&str, &str, &str, &str); 3] = [
    ("batch", "jobs", "batch", "CronJob"),
    // A StatefulSet owns claims while its retention policy says so, and gives them to the pod that it takes away.
    ("", "persistentvolumeclaims", "apps", "StatefulSet"),
    ("", "persistentvolumeclaims", "", "Pod"),
];

/// Returns true if an object may have had owners in the backup that a restore brings back.
pub(crate) fn has_owners(row: &Row, head: &Head) -> bool {
    !head.owner_uids.is_empty() && are_restored(&row.resource)
}

fn are_restored(resource: &GroupResource) -> bool {
    !WITHOUT_OWNERS.iter().any(|(group, name)| *group == resource.group && *name == resource.resource)
}

/// A reference to an owner, from the backup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnerReference(Value);

impl OwnerReference {
    /// Returns the owner references of an object that a restore brings back; entries that are no references, or name no
    /// owner, are ignored.
    pub(crate) fn all(resource: &GroupResource, from_backup: &Value) -> Vec<Self> {
        let listed = from_backup["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let all = listed.map(|reference| Self(reference.clone()));
        all.filter(|one| !one.kind().is_empty() && !one.name().is_empty() && one.is_restored_in(resource)).collect()
    }

    fn is_restored_in(&self, resource: &GroupResource) -> bool {
        let is_left = |(group, name, owner_group, owner_kind): &(&str, &str, &str, &str)| {
            (*group, *name) == (&*resource.group, &*resource.resource)
                && (*owner_group, *owner_kind) == (self.group(), self.kind())
        };
        are_restored(resource) && !LEFT_TO_CONTROLLERS.iter().any(is_left)
    }

    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.text("kind")
    }

    pub(crate) fn name(&self) -> &str {
        self.text("name")
    }

    fn group(&self) -> &str {
        group(&self.0)
    }

    /// The type of the owner, in the version of the backup or in the one that the cluster prefers.
    pub(crate) fn served<'a>(&self, catalog: &'a Catalog) -> Option<&'a Arc<ApiResource>> {
        let in_another = || catalog.preferred().find(|one| one.group == self.group() && one.kind == self.kind());
        catalog.find_kind(self.text("apiVersion"), self.kind()).or_else(in_another)
    }

    /// The reference to this object of the cluster.
    pub(crate) fn to(&self, resource: &ApiResource, name: &str, uid: &str) -> Value {
        let mut reference =
            json!({"apiVersion": resource.api_version(), "kind": self.kind(), "name": name, "uid": uid});
        for flag in ["controller", "blockOwnerDeletion"] {
            if let Value::Bool(flagged) = self.0[flag] {
                reference[flag] = flagged.into();
            }
        }
        reference
    }
}

/// The owner references of an object of the cluster, merged with those of the backup.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Merged {
    /// All that it is to have; `None` when it has them.
    pub(crate) references: Option<Vec<Value>>,
    /// The reasons why some are not among them, for people.
    pub(crate) left_out: Vec<String>,
}

/// Adds references to those of an object of the cluster. One to the same owner in an earlier life of it goes; all others
/// stay, and an object has one controller at most.
pub(crate) fn merge(in_cluster: &Value, references: Vec<Value>) -> Merged {
    let mut all = in_cluster["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let (mut is_changed, mut left_out) = (false, Vec::new());
    for reference in references {
        if all.iter().any(|one| one["uid"] == reference["uid"]) {
            continue;
        }
        let is_same_owner = |one: &Value| {
            group(one) == group(&reference) && one["kind"] == reference["kind"] && one["name"] == reference["name"]
        };
        let controller = all.iter().find(|one| one["controller"] == true && !is_same_owner(one));
        if let Some(other) = controller.filter(|_| reference["controller"] == true) {
            left_out.push(format!("{} cannot be its controller, which is {}", name(&reference), name(other)));
            continue;
        }
        all.retain(|one| !is_same_owner(one));
        all.push(reference);
        is_changed = true;
    }
    Merged { references: is_changed.then_some(all), left_out }
}

fn group(reference: &Value) -> &str {
    reference["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// Kind and name of an owner, for people.
pub(crate) fn name(reference: &Value) -> String {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    format!("{} {}", text("kind"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "old", "controller": true})
    }

    #[test]
    fn what_controllers_adopt_themselves_is_left_to_them() {
        let restored = |group: &str, resource: &str, owner: &Value| {
            let object = json!({"metadata": {"ownerReferences": [owner]}});
            !OwnerReference::all(&GroupResource::new(group, resource), &object).is_empty()
        };
        for (group, resource, api_version, kind, expected) in [
            ("", "configmaps", "e.com/v1", "Widget", true),
            ("apps", "deployments", "e.com/v1", "Widget", true),
            ("", "namespaces", "e.com/v1", "Tenant", false),
            ("", "pods", "e.com/v1", "Widget", false),
            ("", "pods", "apps/v1", "ReplicaSet", false),
            ("apps", "replicasets", "apps/v1", "Deployment", false),
            ("apps", "controllerrevisions", "apps/v1", "DaemonSet", false),
            ("discovery.k8s.io", "endpointslices", "v1", "Service", false),
            ("batch", "jobs", "batch/v1", "CronJob", false),
            ("batch", "jobs", "e.com/v1", "CronJob", true),
            ("batch", "jobs", "e.com/v1", "Widget", true),
            ("", "persistentvolumeclaims", "apps/v1", "StatefulSet", false),
            ("", "persistentvolumeclaims", "v1", "Pod", false),
            ("", "persistentvolumeclaims", "e.com/v1", "Widget", true),
            ("e.com", "pods", "e.com/v1", "Widget", true),
        ] {
            let owner = reference(api_version, kind, "o");
            assert_eq!(restored(group, resource, &owner), expected, "{resource}.{group} of {kind}");
        }
        for odd in
            [json!(null), json!("odd"), json!({"kind": "Widget"}), json!({"name": "a"}), json!({"kind": 1, "name": []})]
        {
            assert!(!restored("", "configmaps", &odd), "{odd}");
        }
        let objects = [json!(null), json!({"metadata": {"ownerReferences": {"kind": "Widget"}}})];
        for object in objects {
            assert_eq!(OwnerReference::all(&GroupResource::new("", "configmaps"), &object), []);
        }
    }

    #[test]
    fn a_reference_names_the_owner_as_the_cluster_serves_it() {
        let catalog = Catalog::new(
            vec![
                Arc::new(ApiResource { preferred: true, ..ApiResource::new("e.com", "v2", "widgets", "Widget") }),
                Arc::new(ApiResource { preferred: false, ..ApiResource::new("e.com", "v1", "widgets", "Widget") }),
                Arc::new(ApiResource { preferred: true, ..ApiResource::new("", "v1", "secrets", "Secret") }),
            ],
            Vec::new(),
        );
        let made = |owner: Value| {
            let owner = OwnerReference(owner);
            owner.served(&catalog).map(|resource| owner.to(resource, "w", "new"))
        };
        let to =
            |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "name": "w", "uid": "new"});
        let mut controller = to("e.com/v1", "Widget");
        controller["controller"] = true.into();
        assert_eq!(made(reference("e.com/v1", "Widget", "w")), Some(controller));
        for (owner, expected) in [
            (
                json!({"apiVersion": "e.com/v1beta1", "kind": "Widget", "name": "w", "controller": "odd"}),
                Some(to("e.com/v2", "Widget")),
            ),
            (json!({"apiVersion": "v1", "kind": "Secret", "name": "w"}), Some(to("v1", "Secret"))),
            (json!({"apiVersion": "f.com/v1", "kind": "Widget", "name": "w"}), None),
            (json!({"kind": "Widget", "name": "w"}), None),
        ] {
            assert_eq!(made(owner.clone()), expected, "{owner}");
        }
    }

    #[test]
    fn references_are_added_to_those_that_are_there() {
        let of = |name: &str, uid: &str| json!({"apiVersion": "e.com/v1", "kind": "Widget", "name": name, "uid": uid});
        let controlling = |name: &str, uid: &str| {
            let mut one = of(name, uid);
            one["controller"] = true.into();
            one
        };
        let other_version = |name: &str, uid: &str| {
            let mut one = of(name, uid);
            one["apiVersion"] = "e.com/v2".into();
            one
        };
        let merged =
            |live: Vec<Value>, wanted: Vec<Value>| merge(&json!({"metadata": {"ownerReferences": live}}), wanted);
        let all = |references: Vec<Value>| Merged { references: Some(references), left_out: Vec::new() };
        let (a, b) = (of("a", "1"), of("b", "2"));
        assert_eq!(merge(&json!({"metadata": {}}), vec![a.clone()]), all(vec![a.clone()]));
        assert_eq!(merged(vec![], vec![a.clone(), b.clone()]), all(vec![a.clone(), b.clone()]));
        assert_eq!(merged(vec![b.clone()], vec![a.clone()]), all(vec![b.clone(), a.clone()]));
        assert_eq!(merged(vec![a.clone()], vec![a.clone()]), Merged::default(), "again");
        assert_eq!(merged(vec![a.clone()], vec![controlling("a", "1")]), Merged::default(), "what is there counts");
        assert_eq!(merged(vec![a.clone()], vec![]), Merged::default());
        assert_eq!(
            merged(vec![other_version("a", "gone"), b.clone()], vec![a.clone()]),
            all(vec![b.clone(), a.clone()])
        );
        assert_eq!(
            merged(vec![controlling("a", "gone")], vec![controlling("a", "1")]),
            all(vec![controlling("a", "1")])
        );
        let refused = "Widget a cannot be its controller, which is Widget c".to_owned();
        let expected = Merged { references: Some(vec![controlling("c", "3"), b.clone()]), left_out: vec![refused] };
        assert_eq!(merged(vec![controlling("c", "3")], vec![controlling("a", "1"), b]), expected);
    }
}
