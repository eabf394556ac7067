//! `velero.io/change-image-name` (velero: pkg/restore/actions).

use super::edit::list_mut;
use lifeboat_action::{RestoreItemInput, RestoreItemOutput};
use serde_json::Value;

pub(super) const RESOURCES: [&str; 8] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicasets.apps",
    "replicationcontrollers",
    "jobs.batch",
    "cronjobs.batch",
    "pods",
];

/// Changes the images of all containers by the rules.
pub(super) fn restore(input: RestoreItemInput<'_>, rules: &[(String, String)]) -> RestoreItemOutput {
    let mut item = input.item;
    let pod_spec = match item["kind"].as_str() {
        Some("Pod") => "/spec",
        Some("CronJob") => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    for containers in ["containers", "initContainers"] {
        for container in list_mut(&mut item, &format!("{pod_spec}/{containers}")).into_iter().flatten() {
            if let Some(Value::String(image)) = container.get_mut("image")
                && let Some(new) = changed(image, rules)
            {
                *image = new;
            }
        }
    }
    RestoreItemOutput::with(item)
}

/// The image after the first rule that matches. Velero takes any one of several that match; the order here is that of
/// the sorted keys of the ConfigMap, so that a restore can be repeated.
fn changed(image: &str, rules: &[(String, String)]) -> Option<String> {
    let (old, new) = rules.iter().find(|(old, _)| !old.is_empty() && image.contains(old.as_str()))?;
    Some(image.replace(old.as_str(), new))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use serde_json::json;

    fn rules(rules: &[(&str, &str)]) -> Vec<(String, String)> {
        rules.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect()
    }

    #[test]
    fn the_first_rule_that_matches_is_applied_everywhere_in_the_name() {
        let cases = [
            ("old.example/app:1", &[("old.example", "new.example")][..], Some("new.example/app:1")),
            ("a/a:a", &[("a", "b")], Some("b/b:b")),
            ("a/b:1", &[("c", "x"), ("b", "y"), ("a", "z")], Some("a/y:1")),
            ("a/b:1", &[("a", "")], Some("/b:1")),
            ("a/b:1", &[("x", "y")], None),
            ("a/b:1", &[("", "y")], None),
            ("", &[("x", "y")], None),
            ("a", &[], None),
        ];
        for (image, list, expected) in cases {
            assert_eq!(changed(image, &rules(list)).as_deref(), expected, "{image} {list:?}");
        }
    }

    #[test]
    fn images_are_found_in_every_kind() {
        let old = json!({"containers": [{"name": "a", "image": "old/a"}, {"name": "b", "image": "b"}, 1, {"image": 2}],
            "initContainers": [{"name": "i", "image": "old/i", "x": 1}], "ephemeralContainers": [{"image": "old/e"}]});
        let new = json!({"containers": [{"name": "a", "image": "new/a"}, {"name": "b", "image": "b"}, 1, {"image": 2}],
            "initContainers": [{"name": "i", "image": "new/i", "x": 1}], "ephemeralContainers": [{"image": "old/e"}]});
        let pod = |spec: &Value| json!({"kind": "Pod", "spec": spec});
        let cron_job = |spec: &Value| json!({"kind": "CronJob", "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}}});
        let mut cases = vec![(pod(&old), pod(&new)), (cron_job(&old), cron_job(&new))];
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"] {
            let object = |spec: &Value| json!({"kind": kind, "spec": {"replicas": 1, "template": {"metadata": {}, "spec": spec}}});
            cases.push((object(&old), object(&new)));
        }
        let odd = json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": "odd"}}}});
        cases.push((odd.clone(), odd));
        for (item, expected) in cases {
            let output = run(|input| Ok(restore(input, &rules(&[("old/", "new/")]))), &item);
            assert_eq!(output.unwrap(), RestoreItemOutput::with(expected));
        }
    }
}
