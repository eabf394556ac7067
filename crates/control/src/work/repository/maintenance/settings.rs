//! The settings of maintenance Jobs: those of the ConfigMap, else those of the server's flags. Pure.

use crate::options::MaintenanceJobSettings;
use lifeboat_api::LabelSelector;
use lifeboat_object::{ResourceTexts, container_resources};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The key of the settings for all repositories.
const GLOBAL: &str = "global";
/// The number of Jobs that stay of each repository.
const KEPT: usize = 3;

/// The settings of the Jobs of one repository.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobSettings {
    /// Nodes for the pods: those that one of these selects; all where there are none.
    pub(super) nodes: Vec<LabelSelector>,
    /// The `resources` of the container; `None` for none.
    pub(super) resources: Option<Value>,
    /// The number of Jobs that stay.
    pub(super) kept: usize,
    /// The priority class; empty for none.
    pub(super) priority_class: String,
    /// Labels of the pods, instead of those that they inherit.
    pub(super) labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pods, instead of those that they inherit.
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSettings {
    load_affinity: Option<Vec<RawAffinity>>,
    pod_resources: Option<RawResources>,
    keep_latest_maintenance_jobs: Option<i64>,
    priority_class_name: String,
    pod_labels: Option<BTreeMap<String, String>>,
    pod_annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAffinity {
    node_selector: LabelSelector,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawResources {
    cpu_request: String,
    cpu_limit: String,
    memory_request: String,
    memory_limit: String,
    ephemeral_storage_request: String,
    ephemeral_storage_limit: String,
}

/// The settings for the repository with this key, and warnings about those without a meaning, which do not count.
pub(super) fn settings(
    data: &BTreeMap<String, String>,
    key: &str,
    flags: &MaintenanceJobSettings,
) -> (JobSettings, Vec<String>) {
    let mut warnings = Vec::new();
    let mut read = |key: &str| {
        let Some(text) = data.get(key) else { return RawSettings::default() };
        serde_json::from_str(text).unwrap_or_else(|e| {
            warnings.push(format!("key {key} is no JSON of maintenance settings, and does not count: {e}"));
            RawSettings::default()
        })
    };
    let (global, own) = (read(GLOBAL), read(key));
    // What a key says of nodes or resources replaces all that the other one says of them.
    let nodes = own.load_affinity.or(global.load_affinity).unwrap_or_default();
    let raw = own.pod_resources.or(global.pod_resources);
    let resources = match &raw {
        Some(raw) => resources(raw),
        None => resources(&of_flags(flags)),
    };
    let resources = resources.unwrap_or_else(|why| {
        warnings.push(format!("the resources of maintenance Jobs are ignored as a whole: {why}"));
        None
    });
    let kept = own.keep_latest_maintenance_jobs.or(global.keep_latest_maintenance_jobs);
    let kept = kept.or(flags.kept.map(i64::from)).map_or(KEPT, |kept| usize::try_from(kept).unwrap_or_default());
    let filled = |labels: Option<BTreeMap<String, String>>| labels.filter(|labels| !labels.is_empty());
    let settings = JobSettings {
        nodes: nodes.into_iter().map(|entry| entry.node_selector).collect(),
        resources,
        kept,
        // compat: of these the global ones win, and others count where there are none.
        priority_class: Some(global.priority_class_name)
            .filter(|name| !name.is_empty())
            .unwrap_or(own.priority_class_name),
        labels: filled(global.pod_labels).or(filled(own.pod_labels)),
        annotations: filled(global.pod_annotations).or(filled(own.pod_annotations)),
    };
    (settings, warnings)
}

fn of_flags(flags: &MaintenanceJobSettings) -> RawResources {
    RawResources {
        cpu_request: flags.cpu_request.clone(),
        cpu_limit: flags.cpu_limit.clone(),
        memory_request: flags.memory_request.clone(),
        memory_limit: flags.memory_limit.clone(),
        ..RawResources::default()
    }
}

/// An empty text is no limit and no request. (Velero fails each Job for it.)
fn resources(raw: &RawResources) -> Result<Option<Value>, String> {
    let or_zero = |text| if str::is_empty(text) { "0" } else { text };
    let texts = |name, request, limit| ResourceTexts { name, request: or_zero(request), limit: or_zero(limit) };
    container_resources(&[
        texts("cpu", &raw.cpu_request, &raw.cpu_limit),
        texts("memory", &raw.memory_request, &raw.memory_limit),
        texts("ephemeral-storage", &raw.ephemeral_storage_request, &raw.ephemeral_storage_limit),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(data: &[(&str, Value)], flags: &MaintenanceJobSettings) -> (JobSettings, Vec<String>) {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), text(value))).collect();
        settings(&data, "shop-default-kopia", flags)
    }

    fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
        [(key.to_owned(), value.to_owned())].into()
    }

    fn selector(value: &str) -> LabelSelector {
        LabelSelector { match_labels: labels("disk", value), ..LabelSelector::default() }
    }

    #[test]
    fn settings_of_a_repository_go_before_those_of_all() {
        let flags = MaintenanceJobSettings::default();
        let none = JobSettings { kept: 3, ..JobSettings::default() };
        assert_eq!(of(&[], &flags), (none.clone(), vec![]));
        let global = json!({
            "loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "a"}}}, {"nodeSelector": {"matchLabels": {"disk": "b"}}}],
            "podResources": {"cpuRequest": "100m", "memoryLimit": "1Gi"}, "keepLatestMaintenanceJobs": 1,
            "priorityClassName": "low", "podLabels": {"l": "1"}, "podAnnotations": {"a": "1"},
        });
        let expected = JobSettings {
            nodes: vec![selector("a"), selector("b")],
            resources: Some(json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}})),
            kept: 1,
            priority_class: "low".into(),
            labels: Some(labels("l", "1")),
            annotations: Some(labels("a", "1")),
        };
        assert_eq!(of(&[("global", global.clone())], &flags), (expected.clone(), vec![]));
        let own = json!({
            "loadAffinity": [{"nodeSelector": {"matchLabels": {"disk": "c"}}}],
            "podResources": {"memoryRequest": "1Gi", "memoryLimit": "2Gi"}, "keepLatestMaintenanceJobs": 0,
            "priorityClassName": "high", "podLabels": {"l": "2"}, "podAnnotations": {"a": "2"},
        });
        let merged = JobSettings {
            nodes: vec![selector("c")],
            resources: Some(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}})),
            kept: 0,
            ..expected
        };
        assert_eq!(of(&[("global", global), ("shop-default-kopia", own.clone())], &flags), (merged.clone(), vec![]));
        let alone = JobSettings {
            priority_class: "high".into(),
            labels: Some(labels("l", "2")),
            annotations: Some(labels("a", "2")),
            ..merged
        };
        assert_eq!(of(&[("shop-default-kopia", own.clone())], &flags), (alone, vec![]));
        assert_eq!(of(&[("other-default-kopia", own)], &flags), (none, vec![]));
    }

    #[test]
    fn flags_of_older_servers_count_where_the_config_map_says_nothing() {
        let flags = MaintenanceJobSettings {
            kept: Some(5),
            cpu_request: "1".into(),
            memory_limit: "0".into(),
            ..MaintenanceJobSettings::default()
        };
        let of_flags =
            JobSettings { kept: 5, resources: Some(json!({"requests": {"cpu": "1"}})), ..Default::default() };
        assert_eq!(of(&[], &flags), (of_flags, vec![]));
        let said = json!({"keepLatestMaintenanceJobs": 2, "podResources": {"memoryLimit": "1Gi"}});
        let said_instead =
            JobSettings { kept: 2, resources: Some(json!({"limits": {"memory": "1Gi"}})), ..Default::default() };
        assert_eq!(of(&[("global", said)], &flags), (said_instead, vec![]));
    }

    #[test]
    fn settings_without_a_meaning_do_not_keep_a_repository_from_maintenance() {
        let flags = MaintenanceJobSettings::default();
        let kept = |kept| JobSettings { kept, ..JobSettings::default() };
        let (settings, warnings) =
            of(&[("global", json!({"keepLatestMaintenanceJobs": 2})), ("shop-default-kopia", json!("{"))], &flags);
        assert_eq!((settings, warnings.len()), (kept(2), 1));
        assert!(warnings[0].starts_with("key shop-default-kopia is no JSON of maintenance settings"), "{warnings:?}");
        for (resources, why) in [
            (json!({"cpuRequest": "much", "memoryLimit": "1Gi"}), "cpu \"much\" is no quantity"),
            (
                json!({"memoryRequest": "2Gi", "memoryLimit": "1Gi"}),
                "the memory request 2Gi must be less than or equal to the limit 1Gi",
            ),
        ] {
            let told = format!("the resources of maintenance Jobs are ignored as a whole: {why}");
            assert_eq!(of(&[("global", json!({"podResources": resources}))], &flags), (kept(3), vec![told]));
        }
        assert_eq!(of(&[("global", json!({"keepLatestMaintenanceJobs": -1}))], &flags).0, kept(0));
    }
}
