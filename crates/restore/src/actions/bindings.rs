//! `velero.io/role-bindings` and `velero.io/cluster-role-bindings`: map the namespaces of subjects by the namespace
//! mapping.

use super::edit::list_mut;
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use serde_json::Value;

/// Maps the namespace of each subject.
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mapping = &input.restore.spec.namespace_mapping;
    let mut item = input.item;
    for subject in list_mut(&mut item, "/subjects").into_iter().flatten() {
        // A subject without namespace is no service account, whatever the mapping says of the empty name.
        if let Some(Value::String(namespace)) = subject.get_mut("namespace")
            && let Some(target) = mapping.get(namespace.as_str()).filter(|_| !namespace.is_empty())
        {
            namespace.clone_from(target);
        }
    }
    Ok(RestoreItemOutput::with(item))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run_in, with_mapping};
    use super::*;
    use serde_json::json;

    #[test]
    fn subjects_follow_the_mapping_in_both_kinds() {
        let subjects = json!([{"kind": "ServiceAccount", "name": "a", "namespace": "shop", "x": 1},
            {"kind": "ServiceAccount", "name": "b", "namespace": "other"}, {"kind": "User", "name": "shop"},
            {"kind": "Group", "name": "system:serviceaccounts:shop"}, "odd", {"namespace": 5}]);
        let mapped = json!([{"kind": "ServiceAccount", "name": "a", "namespace": "copy", "x": 1},
            {"kind": "ServiceAccount", "name": "b", "namespace": "other"}, {"kind": "User", "name": "shop"},
            {"kind": "Group", "name": "system:serviceaccounts:shop"}, "odd", {"namespace": 5}]);
        let cases = [
            (&[("shop", "copy")][..], &subjects, &mapped),
            (&[("", "copy")], &subjects, &subjects),
            (&[], &subjects, &subjects),
            (&[("shop", "copy")], &json!({"namespace": "shop"}), &json!({"namespace": "shop"})),
        ];
        for kind in ["RoleBinding", "ClusterRoleBinding"] {
            for (mapping, subjects, expected) in cases {
                let object = |subjects| json!({"kind": kind, "metadata": {"name": "b"}, "roleRef": {"name": "r"}, "subjects": subjects});
                let output = run_in(restore, &object(subjects), &with_mapping(mapping));
                assert_eq!(output.unwrap(), RestoreItemOutput::with(object(expected)));
            }
        }
        let none = json!({"kind": "RoleBinding", "metadata": {"name": "b"}});
        let output = run_in(restore, &none, &with_mapping(&[("shop", "copy")]));
        assert_eq!(output.unwrap(), RestoreItemOutput::with(none));
    }
}
