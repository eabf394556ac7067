//! `velero.io/add-pvc-from-pod` and `velero.io/pod`.

use super::edit::{list_mut, original_namespace, remove, retain, text};
use super::known;
use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::well_known::{RESTIC_WAIT, RESTORE_WAIT};
use lifeboat_volume::facts::claim_of_volume;

/// The init containers by which Velero lets a pod wait for the files of its volumes.
const WAITS: [&str; 2] = [RESTORE_WAIT, RESTIC_WAIT];

/// The claims that a pod mounts come before it (velero: pkg/restore/actions).
pub(super) fn add_claims(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let (namespace, pod) = (original_namespace(&input), text(&input.item_from_backup["metadata"], "name"));
    let volumes = input.item["spec"]["volumes"].as_array().into_iter().flatten();
    let mut additional_items = Vec::new();
    for name in volumes.filter_map(|volume| claim_of_volume(pod, volume)) {
        let claim = known::claim(namespace, &name);
        // Two volumes of a pod may be one claim.
        if !additional_items.contains(&claim) {
            additional_items.push(claim);
        }
    }
    Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(input.item) })
}

/// Forgets where the pod ran, and the token volume that old clusters mounted: the new cluster decides on both
/// (velero: pkg/restore/actions). Containers that were added to look into it are refused in a new pod, which Velero
/// does not know.
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let mut item = input.item;
    remove(&mut item, "/spec", "nodeName");
    remove(&mut item, "/spec", "priority");
    remove(&mut item, "/spec", "ephemeralContainers");
    let tokens = format!("{}-token-", text(&item["spec"], "serviceAccountName"));
    retain(&mut item, "/spec", "volumes", |volume| !text(volume, "name").starts_with(&tokens));
    for containers in ["/spec/containers", "/spec/initContainers"] {
        for container in list_mut(&mut item, containers).into_iter().flatten() {
            retain(container, "", "volumeMounts", |mount| !text(mount, "name").starts_with(&tokens));
        }
    }
    // Left by a restore before: it would wait for files that nobody puts there
    // (velero: pkg/restore/actions/pod_volume_restore_action.go).
    retain(&mut item, "/spec", "initContainers", |container| !WAITS.contains(&text(container, "name")));
    let class = text(&item["spec"], "priorityClassName");
    let additional_items = if class.is_empty() { Vec::new() } else { vec![known::priority_class(class)] };
    Ok(RestoreItemOutput { additional_items, ..RestoreItemOutput::with(item) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use lifeboat_object::ObjectKey;
    use serde_json::{Value, json};

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": spec})
    }

    fn output(spec: &Value, additional_items: Vec<ObjectKey>) -> RestoreItemOutput {
        RestoreItemOutput { additional_items, ..RestoreItemOutput::with(pod(spec)) }
    }

    #[test]
    fn claims_of_the_original_namespace_come_along() {
        let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let cases = [
            (
                json!({"volumes": [claim("logs"), {"name": "e", "emptyDir": {}}, claim("data"), claim("logs")]}),
                vec![known::claim("shop", "logs"), known::claim("shop", "data")],
            ),
            (
                json!({"volumes": [{"name": "own", "ephemeral": {}}, claim("data")]}),
                vec![known::claim("shop", "p-own"), known::claim("shop", "data")],
            ),
            (json!({"volumes": ["odd", {"persistentVolumeClaim": {"claimName": 1}}, claim("")]}), vec![]),
            (json!({"volumes": {}}), vec![]),
            (json!({}), vec![]),
        ];
        for (spec, expected) in cases {
            assert_eq!(run(add_claims, &pod(&spec)).unwrap(), output(&spec, expected));
        }
    }

    #[test]
    fn what_waits_for_a_restore_before_goes() {
        let named = |names: &[&str]| json!(names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
        for (before, after) in [
            (
                json!({"initContainers": named(&["restore-wait", "own", "restic-wait"])}),
                json!({"initContainers": named(&["own"])}),
            ),
            (json!({"initContainers": named(&["restore-wait"])}), json!({})),
            (json!({"initContainers": named(&["own"])}), json!({"initContainers": named(&["own"])})),
        ] {
            assert_eq!(run(restore, &pod(&before)).unwrap(), output(&after, vec![]));
        }
    }

    #[test]
    fn node_priority_and_token_volumes_go() {
        let token = json!({"name": "web-token-abcde", "mountPath": "/t"});
        let data = json!({"name": "data", "mountPath": "/d"});
        let cases = [
            (
                json!({"nodeName": "n1", "priority": 5, "serviceAccountName": "web", "x": {}, "ephemeralContainers": [{"name": "dbg"}],
                    "volumes": [{"name": "web-token-abcde", "secret": {}}, {"name": "data"}, {"name": "api-token-abcde"}],
                    "containers": [{"name": "a", "volumeMounts": [token, data]}, {"name": "b", "volumeMounts": [token]}],
                    "initContainers": [{"name": "i", "volumeMounts": [data, token]}, {"name": "j"}]}),
                json!({"serviceAccountName": "web", "x": {}, "volumes": [{"name": "data"}, {"name": "api-token-abcde"}],
                    "containers": [{"name": "a", "volumeMounts": [data]}, {"name": "b"}],
                    "initContainers": [{"name": "i", "volumeMounts": [data]}, {"name": "j"}]}),
                vec![],
            ),
            (
                json!({"priorityClassName": "high", "priority": 1000, "containers": []}),
                json!({"priorityClassName": "high", "containers": []}),
                vec![known::priority_class("high")],
            ),
            (
                json!({"serviceAccountName": "web", "volumes": [{"name": "web-token-x"}]}),
                json!({"serviceAccountName": "web"}),
                vec![],
            ),
            (
                json!({"serviceAccountName": 1, "volumes": "odd", "containers": [3, {"volumeMounts": {}}], "priorityClassName": []}),
                json!({"serviceAccountName": 1, "volumes": "odd", "containers": [3, {"volumeMounts": {}}], "priorityClassName": []}),
                vec![],
            ),
        ];
        for (spec, expected, additional) in cases {
            assert_eq!(run(restore, &pod(&spec)).unwrap(), output(&expected, additional));
        }
    }
}
