use super::*;
use serde_json::json;

fn parsed(text: &str) -> ParsedConfig {
    NodeAgentConfig::parse("node-agent-config", &[("any".to_owned(), text.to_owned())].into()).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn every_key_is_read() {
    let text = json!({
        "loadConcurrency": {
            "globalConfig": 4, "prepareQueueLength": 7,
            "perNodeConfig": [
                {"nodeSelector": {"matchLabels": {"size": "s"}}, "number": 2},
                {"nodeSelector": {"matchExpressions": [{"key": "size", "operator": "Exists"}]}, "number": 3},
            ],
        },
        "loadAffinity": [
            {"nodeSelector": {"matchLabels": {"disk": "any"}}},
            {"nodeSelector": {"matchLabels": {"disk": "fast"}}, "storageClass": "fast"},
        ],
        "backupPVC": {"fast": {
            "storageClass": "slow", "readOnly": true, "spcNoRelabeling": true, "annotations": {"a": "b"},
            "secretNames": ["s"], "configMapNames": ["c"],
        }},
        "restorePVC": {"ignoreDelayBinding": true, "secretNames": ["s2"], "configMapNames": ["c2"]},
        "podResources": {"cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "2Gi", "ephemeralStorageLimit": "5Gi"},
        "priorityClassName": "high", "privilegedFsBackup": true,
        "cachePVC": {"storageClass": "fast", "residentThresholdInMB": 1024},
        "podLabels": {"l": "1"}, "podAnnotations": {"n": "2"},
        "csiSnapshotMetadataServiceConfigs": {"saName": "cbt"},
        "movers": {"podSecurity": "default", "hostUsers": false},
    });
    let selector =
        |key: &str, value: &str| LabelSelector { match_labels: labels(&[(key, value)]), ..LabelSelector::default() };
    let ParsedConfig { config, warnings } = parsed(&text.to_string());
    let no_effect = "csiSnapshotMetadataServiceConfigs has no effect: it is for changed block tracking, which this version does not use: it reads whole volumes";
    assert_eq!(warnings, [no_effect]);
    let per_node: Vec<u32> = config.concurrency_per_node.iter().map(|rule| rule.number).collect();
    assert_eq!(per_node, [2, 3]);
    let resources = json!({
        "requests": {"cpu": "100m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "5Gi"},
    });
    let backup = BackupClaim {
        storage_class: "slow".into(),
        is_read_only: true,
        without_relabeling: true,
        annotations: labels(&[("a", "b")]),
        secrets: vec!["s".into()],
        config_maps: vec!["c".into()],
    };
    let expected = NodeAgentConfig {
        concurrency: Some(4),
        concurrency_per_node: config.concurrency_per_node.clone(),
        prepare_queue_length: Some(7),
        affinity: vec![
            LoadAffinity { selector: selector("disk", "any"), storage_class: String::new() },
            LoadAffinity { selector: selector("disk", "fast"), storage_class: "fast".into() },
        ],
        backup_claims: [("fast".to_owned(), backup)].into(),
        restore_claim: RestoreClaim {
            ignores_delayed_binding: true,
            secrets: vec!["s2".into()],
            config_maps: vec!["c2".into()],
        },
        resources: Some(resources),
        priority_class: "high".into(),
        is_privileged: true,
        cache: Some(CacheClaim { storage_class: "fast".into(), threshold_mb: 1024 }),
        pod_labels: Some(labels(&[("l", "1")])),
        pod_annotations: Some(labels(&[("n", "2")])),
        security: MoverSecurity { has_own_users: true, ..MoverSecurity::default() },
    };
    assert_eq!(config, expected);
    let class = |name: &str| config.affinity_of(name).map(|s| s.match_labels["disk"].clone());
    assert_eq!([class("fast"), class("other"), class("")].map(Option::unwrap), ["fast", "any", "any"]);
    let at_once =
        [labels(&[("size", "s")]), labels(&[("size", "l")]), labels(&[])].map(|of| config.concurrency_of(Some(&of)));
    assert_eq!((at_once, config.concurrency_of(None)), ([2, 3, 4], 4));
}

#[test]
fn a_wrong_value_is_warned_of_and_the_default_holds() {
    for (text, config, warning) in [
        (
            json!({"loadConcurrency": {"globalConfig": 0}}),
            NodeAgentConfig { concurrency: Some(1), ..NodeAgentConfig::default() },
            "loadConcurrency.globalConfig 0 is not positive: 1 is used",
        ),
        (
            json!({"loadConcurrency": {"perNodeConfig": [{"number": -1}]}}),
            NodeAgentConfig::default(),
            "a rule of loadConcurrency.perNodeConfig has the number -1: it is skipped",
        ),
        (
            json!({"podResources": {"memoryLimit": "2Gi"}}),
            NodeAgentConfig::default(),
            "podResources is ignored as a whole: cpu \"\" is no quantity",
        ),
        (
            json!({"podResources": {"cpuRequest": "2", "cpuLimit": "1", "memoryRequest": "0", "memoryLimit": "0"}}),
            NodeAgentConfig::default(),
            "podResources is ignored as a whole: the cpu request 2 must be less than or equal to the limit 1",
        ),
        (
            json!({"cachePVC": {"residentThresholdInMB": 1}}),
            NodeAgentConfig::default(),
            "cachePVC has no storageClass: it is ignored",
        ),
        (
            json!({"backupPVC": {"fast": {"spcNoRelabeling": true}}}),
            NodeAgentConfig {
                backup_claims: [("fast".to_owned(), BackupClaim::default())].into(),
                ..NodeAgentConfig::default()
            },
            "backupPVC of fast: spcNoRelabeling is ignored without readOnly",
        ),
        (
            json!({"loadConcurrencies": {}}),
            NodeAgentConfig::default(),
            "the key loadConcurrencies is not known and has no effect",
        ),
    ] {
        let expected = ParsedConfig { config, warnings: vec![warning.to_owned()] };
        assert_eq!(parsed(&text.to_string()), expected, "{text}");
    }
    let nothing = json!({
        "loadConcurrency": {"prepareQueueLength": 0}, "podLabels": {}, "podAnnotations": null,
        "podResources": {"cpuRequest": "0", "cpuLimit": "0", "memoryRequest": "0", "memoryLimit": "0"},
    });
    assert_eq!(parsed(&nothing.to_string()), ParsedConfig::default());
}

#[test]
fn the_names_of_the_documents_are_understood_too() {
    let text = json!({"prepareQueueLength": 3, "cachePVC": {"storageClass": "fast", "thresholdInGB": 2}});
    let cache = CacheClaim { storage_class: "fast".into(), threshold_mb: 2048 };
    let config = NodeAgentConfig { prepare_queue_length: Some(3), cache: Some(cache), ..NodeAgentConfig::default() };
    assert_eq!(parsed(&text.to_string()), ParsedConfig { config, warnings: Vec::new() });
}

#[test]
fn a_config_map_that_is_no_json_under_one_key_is_refused() {
    for (data, why) in [
        (labels(&[]), "data is not available in config map n: give it one key whose value is JSON"),
        (
            labels(&[("a", "{}"), ("b", "{}")]),
            "more than one keys are found in config map n: a, b; leave one whose value is JSON",
        ),
        (labels(&[("a", "{")]), "error to unmarshall configs from n: EOF while parsing an object at line 1 column 1"),
        (
            labels(&[("a", r#"{"privilegedFsBackup": "yes"}"#)]),
            "error to unmarshall configs from n: invalid type: string \"yes\", expected a boolean",
        ),
    ] {
        assert_eq!(NodeAgentConfig::parse("n", &data).map_err(|e| e.to_string()), Err(why.to_owned()));
    }
}

#[test]
fn movers_get_no_more_rights_than_somebody_has_asked_for() {
    let read = |movers: Value| {
        let text = json!({"movers": movers}).to_string();
        let parsed = NodeAgentConfig::parse("c", &[("any".to_owned(), text)].into());
        parsed.map(|parsed| (parsed.config.security, parsed.warnings)).map_err(|e| e.to_string())
    };
    let security = |is_restricted, user, group| MoverSecurity { is_restricted, user, group, has_own_users: false };
    let none = Vec::<String>::new();
    assert_eq!(read(json!({})), Ok((MoverSecurity::default(), none.clone())));
    assert_eq!(read(json!({"hostUsers": true})), Ok((MoverSecurity::default(), none.clone())));
    let restricted = json!({"podSecurity": "restricted", "runAsUser": 70, "runAsGroup": 0});
    assert_eq!(read(restricted), Ok((security(true, Some(70), Some(0)), none)));
    let unknown = "the key movers.podsecurity is not known and has no effect".to_owned();
    assert_eq!(read(json!({"podsecurity": "restricted"})), Ok((MoverSecurity::default(), vec![unknown])));
    for (movers, why) in [
        (json!({"podSecurity": "strict"}), "movers.podSecurity \"strict\" is neither default nor restricted"),
        (json!({"podSecurity": "restricted", "runAsUser": 0}), "movers.runAsUser 0 is no ID from 1 to 2147483647"),
        (
            json!({"runAsUser": 70}),
            "movers.runAsUser counts with movers.podSecurity \"restricted\" only: by default movers are user 0",
        ),
    ] {
        assert_eq!(read(movers), Err(format!("error to unmarshall configs from c: {why}")));
    }
    let both = parsed(r#"{"privilegedFsBackup": true, "movers": {"podSecurity": "restricted"}}"#);
    assert_eq!(both.warnings, ["privilegedFsBackup has no effect with movers.podSecurity \"restricted\""]);
}
