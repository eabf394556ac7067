//! Decisions about an object of the backup: the part of a restore that handles it, and the change to make where one of its
//! name is in the cluster (velero: pkg/restore/restore.go). Pure: a restore carries them out, and a preview shows them.

use crate::object::definitions::newer;
use crate::object::recreate::refusal;
use crate::object::service_accounts::missing_fields;
use crate::object::update;
use crate::request::existing_policies::ExistingPolicies;
use crate::state::terminating::TerminatingObject;
use crate::walk::read::is_completed;
use crate::walk::same_target::SameTarget;
use crate::walk::scope::RestoreScope;
use lifeboat_api::well_known::ANNOTATION_UPDATE_DEFINITIONS;
use lifeboat_api::{ExistingResourcePolicy, permission};
use lifeboat_object::{ApiResource, GroupResource, ObjectKey};
use lifeboat_patch::restored::kept_up_by_cluster;
use serde_json::Value;

/// An object of the backup as it is to be written.
#[derive(Clone, Copy)]
pub(crate) struct ItemToDecide<'a> {
    /// Its key in the cluster.
    pub(crate) key: &'a ObjectKey,
    /// Its type, as the cluster serves it.
    pub(crate) resource: &'a ApiResource,
    pub(crate) from_backup: &'a Value,
    /// As it would be created.
    pub(crate) desired: &'a Value,
}

/// Rules of a restore for objects that exist already.
#[derive(Clone, Copy)]
pub(crate) struct ExistingRules<'a> {
    pub(crate) policies: &'a ExistingPolicies,
    /// Set when an older definition of a type may replace a newer one.
    pub(crate) updates_definitions: bool,
}

/// The change to make to the object of the cluster that has the name of one of the backup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemDecision {
    /// None yet: the one of the backup is made when the one in the cluster is gone.
    Wait(TerminatingObject),
    /// Nothing: it is as in the backup.
    Unchanged,
    /// The one in the cluster only gets the fields that it lacks, by this patch.
    Merge(Value),
    /// The one in the cluster becomes as in the backup, by this patch.
    Update(Value),
    /// The one in the cluster is deleted, and it is made anew.
    Recreate,
    /// The one in the cluster differs and stays as it is.
    Keep(KeepReason),
}

/// An object of the backup whose key in the cluster another one has, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherItem {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
    /// Its key in the backup.
    pub(crate) key: ObjectKey,
}

/// The part of a restore that handles an object of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ItemRoute {
    /// It is a namespace, which is made sure of.
    Namespace,
    /// It is a pod or a job that has ended: those are not started again.
    Ended,
    /// Another object of the backup has its key in the cluster.
    Second {
        other: OtherItem,
        /// True when its fields are added to the other one.
        is_merged: bool,
    },
    /// It is written.
    Write,
}

impl ItemRoute {
    /// The route of an object of this row and key in the backup.
    pub(crate) fn of(row: usize, key: &ObjectKey, object: &Value, scope: &RestoreScope) -> Self {
        if key.resource.is_namespaces() {
            return Self::Namespace;
        }
        if is_completed(&key.resource, object) {
            return Self::Ended;
        }
        match scope.taken_by(row) {
            Some((row, other)) => {
                let other = OtherItem { row, key: other };
                Self::Second { other, is_merged: SameTarget::are_merged(&key.resource) }
            }
            None => Self::Write,
        }
    }
}

impl<'a> ExistingRules<'a> {
    /// The rules of a restore.
    pub(crate) fn of(scope: &'a RestoreScope) -> Self {
        Self { policies: &scope.existing, updates_definitions: scope.updates_definitions() }
    }
}

/// The reason why an object of the cluster stays as it is, although it differs from the backup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeepReason {
    /// This policy says so.
    Policy(ExistingResourcePolicy),
    /// The cluster keeps it up to date itself, for this reason.
    OfCluster(&'static str),
    /// It defines a type, and has this, for people, which the definition of the backup lacks.
    Newer(String),
    /// It would be made anew, and must not be deleted, for this reason.
    NotRecreated(String),
}

/// Decides about an object whose name one of the cluster has. `is_same` tells that the one in the cluster is in the very state of the backup, and that nothing
/// in the restore changes it.
pub(crate) fn decide(
    item: ItemToDecide<'_>,
    in_cluster: &Value,
    is_same: bool,
    rules: ExistingRules<'_>,
) -> ItemDecision {
    let ItemToDecide { key, resource, from_backup, desired } = item;
    if let Some(terminating) = TerminatingObject::of(in_cluster) {
        return ItemDecision::Wait(terminating);
    }
    if is_same {
        return ItemDecision::Unchanged;
    }
    let Some(difference) = update::patch(desired, in_cluster) else { return ItemDecision::Unchanged };
    if key.resource == GroupResource::new("", "serviceaccounts") {
        return missing_fields(desired, in_cluster).map_or(ItemDecision::Unchanged, ItemDecision::Merge);
    }
    if let Some(why) = kept_up_by_cluster(in_cluster) {
        return ItemDecision::Keep(KeepReason::OfCluster(why));
    }
    match rules.policies.of(&key.resource, from_backup) {
        ExistingResourcePolicy::Update | ExistingResourcePolicy::Exact => {
            let newer = key.resource.is_definitions().then(|| newer(desired, in_cluster)).flatten();
            match newer.filter(|_| !rules.updates_definitions) {
                Some(what) => ItemDecision::Keep(KeepReason::Newer(what)),
                None => ItemDecision::Update(difference),
            }
        }
        ExistingResourcePolicy::Recreate => match refusal(rules.policies, resource, in_cluster, desired) {
            Some(why) => ItemDecision::Keep(KeepReason::NotRecreated(why)),
            None => ItemDecision::Recreate,
        },
        policy => ItemDecision::Keep(KeepReason::Policy(policy.clone())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::RestoreSpec;
    use lifeboat_object::Catalog;
    use serde_json::json;

    /// Facts beside both objects.
    #[derive(Clone, Copy, Default)]
    struct Given {
        is_same: bool,
        updates_definitions: bool,
    }

    /// The decision about an object of a type, where nothing says that both are the same.
    fn decided(policy: &str, resource: &ApiResource, desired: &Value, in_cluster: &Value) -> ItemDecision {
        decided_with(policy, resource, desired, in_cluster, Given::default())
    }

    fn decided_with(
        policy: &str,
        resource: &ApiResource,
        desired: &Value,
        in_cluster: &Value,
        given: Given,
    ) -> ItemDecision {
        let Given { is_same, updates_definitions } = given;
        let spec = RestoreSpec { existing_resource_policy: policy.to_owned().into(), ..RestoreSpec::default() };
        let policies = &ExistingPolicies::new(&spec, &Catalog::default()).unwrap();
        let key = &ObjectKey::new(resource.group_resource(), Some("n"), "a");
        let item = ItemToDecide { key, resource, from_backup: desired, desired };
        decide(item, in_cluster, is_same, ExistingRules { policies, updates_definitions })
    }

    fn core(resource: &str, kind: &str) -> ApiResource {
        ApiResource::new("", "v1", resource, kind)
    }

    fn map(data: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": data}})
    }

    const POLICIES: [&str; 5] = ["", "none", "update", "exact", "recreate"];

    #[test]
    fn each_policy_and_state_of_the_cluster_gives_one_decision() {
        let maps = core("configmaps", "ConfigMap");
        let mut leaving = map("2");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let waits = ItemDecision::Wait(TerminatingObject::of(&leaving).unwrap());
        let keep = |policy: &str| ItemDecision::Keep(KeepReason::Policy(policy.to_owned().into()));
        let update = ItemDecision::Update(json!({"data": {"a": "1"}}));
        let differing = [keep(""), keep("none"), update.clone(), update, ItemDecision::Recreate];
        for (policy, expected) in POLICIES.into_iter().zip(differing) {
            let decided = |in_cluster: &Value| decided(policy, &maps, &map("1"), in_cluster);
            assert_eq!(decided(&map("1")), ItemDecision::Unchanged, "{policy}");
            assert_eq!(decided(&map("2")), expected, "{policy}");
            assert_eq!(decided(&leaving), waits, "{policy}");
            let same = decided_with(policy, &maps, &map("1"), &map("2"), Given { is_same: true, ..Given::default() });
            assert_eq!(same, ItemDecision::Unchanged, "{policy}");
        }
    }

    #[test]
    fn service_accounts_only_gain_fields_whatever_the_policy_is() {
        let accounts = core("serviceaccounts", "ServiceAccount");
        let account = |secrets: Value| json!({"kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": secrets});
        let (poor, rich) = (account(json!([])), account(json!([{"name": "s"}])));
        for policy in POLICIES {
            assert_eq!(decided(policy, &accounts, &poor, &rich), ItemDecision::Unchanged, "{policy}");
            let merge = ItemDecision::Merge(json!({"secrets": [{"name": "s"}]}));
            assert_eq!(decided(policy, &accounts, &rich, &poor), merge, "{policy}");
        }
    }

    #[test]
    fn an_object_that_must_not_be_deleted_is_kept_with_the_reason() {
        let held = json!({"kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["f"]}, "data": {"a": "2"}});
        let decided = decided("recreate", &core("configmaps", "ConfigMap"), &map("1"), &held);
        let ItemDecision::Keep(KeepReason::NotRecreated(why)) = decided else { panic!("{decided:?}") };
        assert!(why.starts_with("it has the finalizer f, and what goes with it is not known"), "{why}");
    }

    #[test]
    fn an_older_definition_replaces_a_newer_one_only_on_request() {
        let definitions =
            ApiResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
        let definition = |versions: &[&str]| {
            let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name, "served": true})).collect();
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"}, "spec": {"versions": versions}})
        };
        let (old, new) = (definition(&["v1"]), definition(&["v1", "v2"]));
        let decided = |policy: &str, desired: &Value, live: &Value, is_asked_for| {
            let given = Given { updates_definitions: is_asked_for, ..Given::default() };
            decided_with(policy, &definitions, desired, live, given)
        };
        let update = |to: &Value| ItemDecision::Update(json!({"spec": {"versions": to["spec"]["versions"]}}));
        let newer = ItemDecision::Keep(KeepReason::Newer("serves the version v2".to_owned()));
        assert_eq!(decided("update", &old, &new, false), newer);
        assert_eq!(decided("exact", &old, &new, false), newer);
        assert_eq!(decided("update", &old, &new, true), update(&old));
        assert_eq!(decided("update", &new, &old, false), update(&new));
        let unset = ItemDecision::Keep(KeepReason::Policy(ExistingResourcePolicy::Unset));
        assert_eq!(decided("", &old, &new, false), unset);
    }

    #[test]
    fn what_the_api_server_keeps_up_to_date_is_never_overwritten() {
        let role = |rules: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules, "metadata": {"name": "system:node",
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}})
        };
        let roles = ApiResource::new("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
        for policy in POLICIES {
            let decided = decided(policy, &roles, &role(json!([1])), &role(json!([2])));
            let expected = ItemDecision::Keep(KeepReason::OfCluster("the API server keeps it up to date"));
            assert_eq!(decided, expected, "{policy}");
        }
    }
}
