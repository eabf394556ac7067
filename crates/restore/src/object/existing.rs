//! Treatment of objects that are in the cluster already (restore.md 2.13).

use crate::object::definitions::newer;
use crate::object::update;
use jiff::Timestamp;
use lifeboat_api::well_known::ANNOTATION_UPDATE_DEFINITIONS;
use lifeboat_api::{ExistingResourcePolicy, permission};
use lifeboat_object::GroupResource;
use lifeboat_patch::restored::kept_up_by_cluster;
use serde_json::Value;

/// The change to make to an object that is in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Treatment {
    /// Nothing: it is as in the backup.
    Unchanged,
    /// It only gets the fields that it lacks, by this patch.
    Merge(Value),
    /// It becomes as in the backup, by this patch.
    Update(Value),
    /// It is deleted and made anew, where it may be.
    Recreate,
    /// It differs and stays as it is.
    Stay,
    /// The cluster keeps it up to date itself, for this reason, and it stays as it is.
    OfCluster(&'static str),
    /// It defines a type, and has this, for people, which the definition of the backup lacks.
    Newer(String),
}

impl Treatment {
    /// Decides by the policy about an object of the cluster that is to become `desired`. An older definition replaces a
    /// newer one only where `updates_definitions` says so.
    pub(crate) fn of(
        policy: &ExistingResourcePolicy,
        resource: &GroupResource,
        desired: &Value,
        in_cluster: &Value,
        updates_definitions: bool,
    ) -> Self {
        let Some(difference) = update::patch(desired, in_cluster) else { return Self::Unchanged };
        if *resource == GroupResource::new("", "serviceaccounts") {
            return merge_service_account(desired, in_cluster).map_or(Self::Unchanged, Self::Merge);
        }
        if let Some(why) = kept_up_by_cluster(in_cluster) {
            return Self::OfCluster(why);
        }
        match policy {
            ExistingResourcePolicy::Update | ExistingResourcePolicy::Exact => {
                let newer = resource.is_definitions().then(|| newer(desired, in_cluster)).flatten();
                match newer.filter(|_| !updates_definitions) {
                    Some(what) => Self::Newer(what),
                    None => Self::Update(difference),
                }
            }
            ExistingResourcePolicy::Recreate => Self::Recreate,
            _ => Self::Stay,
        }
    }
}

/// Explains, for people, that a definition in the cluster is newer than the one of the backup.
pub(crate) fn told_newer(what: &str) -> String {
    format!(
        "it stays as it is, because it is newer than the one of the backup: it {what}, and objects there may need that; \
         {} lets the older one take its place",
        permission(ANNOTATION_UPDATE_DEFINITIONS)
    )
}

/// Returns true if both are the same object at the same revision.
pub(crate) fn is_same_state(left: &Value, right: &Value) -> bool {
    ["uid", "resourceVersion"].iter().all(|key| {
        let (left, right) = (left["metadata"][*key].as_str(), right["metadata"][*key].as_str());
        left == right && left.is_some_and(|text| !text.is_empty())
    })
}

/// Returns true if an object was created in or after the second in which the restore began: timestamps of objects have
/// whole seconds. Both times are the API server's.
pub(crate) fn is_made_since(object: &Value, began: Option<Timestamp>) -> bool {
    let made = object["metadata"]["creationTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    made.zip(began).is_some_and(|(made, began)| made.as_second() >= began.as_second())
}

/// Adds the secrets, labels and annotations of the backup that a service account in the cluster lacks (restore.md
/// 2.13). `None` when it lacks nothing.
fn merge_service_account(desired: &Value, in_cluster: &Value) -> Option<Value> {
    let mut merged = in_cluster.clone();
    for list in ["secrets", "imagePullSecrets"] {
        let Some(wanted) = desired.get(list).and_then(Value::as_array) else { continue };
        let Some(map) = merged.as_object_mut() else { continue };
        let Some(have) = map.entry(list).or_insert_with(|| Value::Array(Vec::new())).as_array_mut() else { continue };
        for entry in wanted {
            if !have.iter().any(|h| h.get("name") == entry.get("name")) {
                have.push(entry.clone());
            }
        }
        if have.is_empty() {
            map.remove(list);
        }
    }
    let metadata = merged.get_mut("metadata").and_then(Value::as_object_mut)?;
    for part in ["labels", "annotations"] {
        let Some(wanted) = desired["metadata"].get(part).and_then(Value::as_object) else { continue };
        let Some(have) = metadata.entry(part).or_insert_with(|| Value::Object(serde_json::Map::new())).as_object_mut()
        else {
            continue;
        };
        for (key, value) in wanted {
            have.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if have.is_empty() {
            metadata.remove(part);
        }
    }
    lifeboat_patch::merge_diff(in_cluster, &merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_policy_treats_what_differs_and_service_accounts_only_gain_fields() {
        let treated = |policy: &str, resource: &str, desired: &Value, in_cluster: &Value| {
            Treatment::of(&policy.to_owned().into(), &GroupResource::new("", resource), desired, in_cluster, false)
        };
        let map = |data: &str| json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": data}});
        let patch = json!({"data": {"a": "1"}});
        for (policy, expected) in [
            ("", Treatment::Stay),
            ("none", Treatment::Stay),
            ("update", Treatment::Update(patch.clone())),
            ("exact", Treatment::Update(patch)),
            ("recreate", Treatment::Recreate),
        ] {
            assert_eq!(treated(policy, "configmaps", &map("1"), &map("2")), expected, "{policy}");
            assert_eq!(treated(policy, "configmaps", &map("1"), &map("1")), Treatment::Unchanged, "{policy}");
            let account =
                |secrets: Value| json!({"kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": secrets});
            let (poor, rich) = (account(json!([])), account(json!([{"name": "s"}])));
            assert_eq!(treated(policy, "serviceaccounts", &poor, &rich), Treatment::Unchanged, "{policy}");
            let merge = Treatment::Merge(json!({"secrets": [{"name": "s"}]}));
            assert_eq!(treated(policy, "serviceaccounts", &rich, &poor), merge, "{policy}");
        }
    }

    #[test]
    fn an_older_definition_replaces_a_newer_one_only_on_request() {
        let definitions = GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions");
        let definition = |versions: &[&str]| {
            let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name, "served": true})).collect();
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"}, "spec": {"versions": versions}})
        };
        let (old, new) = (definition(&["v1"]), definition(&["v1", "v2"]));
        let treated = |policy: &str, desired: &Value, live: &Value, is_asked_for| {
            Treatment::of(&policy.to_owned().into(), &definitions, desired, live, is_asked_for)
        };
        let update = |to: &Value| Treatment::Update(json!({"spec": {"versions": to["spec"]["versions"]}}));
        let newer = Treatment::Newer("serves the version v2".to_owned());
        assert_eq!(treated("update", &old, &new, false), newer);
        assert_eq!(treated("exact", &old, &new, false), newer);
        assert_eq!(treated("update", &old, &new, true), update(&old));
        assert_eq!(treated("update", &new, &old, false), update(&new));
        assert_eq!(treated("", &old, &new, false), Treatment::Stay);
    }

    #[test]
    fn what_the_api_server_keeps_up_to_date_is_never_overwritten() {
        let role = |rules: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules, "metadata": {"name": "system:node",
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}})
        };
        let roles = GroupResource::new("rbac.authorization.k8s.io", "clusterroles");
        for policy in ["", "update", "recreate"] {
            let treated = Treatment::of(&policy.to_owned().into(), &roles, &role(json!([1])), &role(json!([2])), true);
            assert_eq!(treated, Treatment::OfCluster("the API server keeps it up to date"), "{policy}");
        }
    }

    #[test]
    fn a_service_account_keeps_what_it_has_and_gets_what_it_lacks() {
        let desired = json!({"metadata": {"name": "web", "labels": {"a": "backup", "b": "backup"}}, "secrets": [{"name": "s1"}], "imagePullSecrets": [{"name": "regcred"}]});
        let live = json!({"metadata": {"name": "web", "labels": {"a": "live"}}, "secrets": [{"name": "s0"}], "imagePullSecrets": [{"name": "regcred"}]});
        assert_eq!(
            merge_service_account(&desired, &live),
            Some(json!({"metadata": {"labels": {"b": "backup"}}, "secrets": [{"name": "s0"}, {"name": "s1"}]}))
        );
        assert_eq!(merge_service_account(&json!({"metadata": {"name": "web"}}), &live), None);
    }

    #[test]
    fn what_was_made_since_a_restore_began_may_be_its_own() {
        let began: Timestamp = "2026-01-01T00:00:10.5Z".parse().unwrap();
        let made = |at: &str| json!({"metadata": {"creationTimestamp": at}});
        for (object, began, expected) in [
            (made("2026-01-01T00:00:10Z"), Some(began), true),
            (made("2026-01-01T00:00:09Z"), Some(began), false),
            (made("2026-01-01T00:00:11Z"), None, false),
            (json!({}), Some(began), false),
        ] {
            assert_eq!(is_made_since(&object, began), expected, "{object}");
        }
    }
}
