//! Resources that are refused, or that nobody can read: each is told, and holds nobody up.

use super::left_behind::object;
use crate::ground::Ground;
use crate::support::eventually;
use serde_json::{Value, json};

/// Invalid specs are refused with all their errors, and hold nobody up.
#[test]
fn wrong_specs_are_refused() {
    let ground = Ground::start();
    ground.many("shop", 1);
    ground.directory("default", &json!({"default": true}));
    ground.directory("sealed", &json!({"accessMode": "ReadOnly"}));
    ground.velero("VolumeSnapshotLocation", "v1", &json!({"provider": "one"}));
    ground.velero("VolumeSnapshotLocation", "v2", &json!({"provider": "one"}));
    ground.velero("VolumeSnapshotLocation", "w", &json!({"provider": "two"}));
    let _server =
        ground.server_with("one", &ground.bed.plane.kubeconfig(), &["--default-volume-snapshot-locations", "one:v2"]);
    ground.until("backupstoragelocation", "sealed", "Available");
    ground.velero("Backup", "source", &json!({"includedNamespaces": ["shop"]}));
    let source = ground.until("backup", "source", "Completed");
    assert_eq!(source["spec"]["volumeSnapshotLocations"], json!(["v2", "w"]));

    let namespaces = "Invalid included/excluded namespace lists: ";
    let no_location = |name: &str| {
        format!(
            "an existing backup storage location was not specified at backup creation time and the default {name} was not found. Please address this issue (see `velero backup-location -h` for options) and create a new backup. Error: backupstoragelocations.velero.io \"{name}\" not found"
        )
    };
    let selectors =
        json!({"labelSelector": {"matchLabels": {"a": "b"}}, "orLabelSelectors": [{"matchLabels": {"c": "d"}}]});
    let backups: Vec<(Value, Vec<String>)> = vec![
        (
            json!({"storageLocation": "nowhere"}),
            vec![no_location("nowhere")],
        ),
        (
            json!({"storageLocation": "sealed"}),
            vec!["backup can't be created because backup storage location sealed is currently in read-only mode".into()],
        ),
        (
            json!({"volumeSnapshotLocations": ["v1", "v2"]}),
            vec!["more than one VolumeSnapshotLocation name specified for provider one: v2; unexpected name was v1".into()],
        ),
        (
            json!({"volumeSnapshotLocations": ["none"]}),
            vec!["a VolumeSnapshotLocation CRD for the location none with the name specified in the backup spec needs to be created before this snapshot can be executed. Error: volumesnapshotlocations.velero.io \"none\" not found".into()],
        ),
        (
            json!({"includedResources": ["pods"], "includedClusterScopedResources": ["nodes"]}),
            vec!["include-resources, exclude-resources and include-cluster-resources are old filter parameters.\ninclude-cluster-scoped-resources, exclude-cluster-scoped-resources, include-namespace-scoped-resources and exclude-namespace-scoped-resources are new filter parameters.\nThey cannot be used together".into()],
        ),
        (
            json!({"includedNamespaces": ["a", "*"], "excludedNamespaces": ["*"]}),
            vec![
                format!("{namespaces}includes list must either contain '*' only, or a non-empty list of items"),
                format!("{namespaces}excludes list cannot contain '*'"),
                format!("{namespaces}excludes list cannot contain an item in the includes list: *"),
            ],
        ),
        (
            json!({"includedNamespaces": ["a**"], "excludedNamespaces": ["b[]", "c|d"]}),
            vec![
                format!("{namespaces}wildcard pattern contains consecutive asterisks (only single * allowed)"),
                format!("{namespaces}wildcard pattern contains empty bracket pattern '[]'"),
                format!("{namespaces}wildcard pattern contains unsupported characters: |, (, ), !, {{, }}, ,"),
            ],
        ),
        (
            json!({"includedResources": ["pods"], "excludedResources": ["pods"]}),
            vec!["Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: pods".into()],
        ),
        (
            json!({"includedClusterScopedResources": ["a"], "excludedClusterScopedResources": ["*"]}),
            vec!["Invalid cluster-scoped included/excluded resource lists: when exclude is '*', include cannot have value".into()],
        ),
        (
            json!({"includedNamespaceScopedResources": ["*", "a"]}),
            vec!["Invalid namespace-scoped included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items".into()],
        ),
        (
            selectors.clone(),
            vec!["encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified".into()],
        ),
        // No label can hold them.
        (json!({"storageLocation": "$(id)"}), vec![no_location("$(id)")]),
        (json!({"storageLocation": "a,b"}), vec![no_location("a,b")]),
        (json!({"storageLocation": "-".repeat(80)}), vec![no_location(&"-".repeat(80))]),
    ];
    for (n, (spec, _)) in backups.iter().enumerate() {
        ground.velero("Backup", &format!("wrong-{n}"), spec);
    }
    for (n, (spec, expected)) in backups.iter().enumerate() {
        let refused = ground.until("backup", &format!("wrong-{n}"), "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!(expected), "{spec}");
        assert!(
            refused["status"]["startTimestamp"].is_null() && refused["status"]["expiration"].is_string(),
            "{refused}"
        );
    }

    // What no type can hold is refused too, and says why.
    ground.velero("Backup", "long", &json!({"ttl": "30d"}));
    ground.velero("Restore", "long", &json!({"backupName": "source", "itemOperationTimeout": "soon"}));
    ground.directory("rarely", &json!({"validationFrequency": "1d"}));
    for (kind, word) in [("backup", "30d"), ("restore", "soon")] {
        let errors = ground.until(kind, "long", "FailedValidation")["status"]["validationErrors"].to_string();
        assert!(errors.contains("cannot be read: ") && errors.contains(word), "{errors}");
    }
    let rarely = ground.until("backupstoragelocation", "rarely", "Unavailable");
    assert!(rarely["status"]["message"].as_str().unwrap_or_default().contains("1d"), "{rarely}");

    let one_source = "Either a backup or schedule must be specified as a source for the restore, but not both";
    let from = |rest: Value| {
        let mut spec = json!({"backupName": "source"});
        spec.as_object_mut().expect("a map").extend(rest.as_object().cloned().unwrap_or_default());
        spec
    };
    let restores: Vec<(Value, Vec<&str>)> = vec![
        (json!({}), vec![one_source]),
        (json!({"backupName": "source", "scheduleName": "s"}), vec![one_source]),
        (
            json!({"scheduleName": "s"}),
            vec!["No backups found for schedule", "No completed backups found for schedule"],
        ),
        (
            json!({"backupName": "gone"}),
            vec!["Error retrieving backup: can't find backup velero/gone: backups.velero.io \"gone\" not found"],
        ),
        (
            json!({"backupName": "gone", "includedResources": ["pods"], "existingResourcePolicy": "x"}),
            vec![
                "Invalid ExistingResourcePolicy: x",
                "Error retrieving backup: can't find backup velero/gone: backups.velero.io \"gone\" not found",
            ],
        ),
        (
            json!({"backupName": "wrong-0"}),
            vec!["Error retrieving backup: backupstoragelocations.velero.io \"nowhere\" not found"],
        ),
        (
            json!({"backupName": "wrong-1"}),
            vec!["backup \"wrong-1\" is in phase \"FailedValidation\" and cannot be used as a restore source"],
        ),
        (
            from(json!({"includedResources": ["events"]})),
            vec![
                "events are non-restorable resources",
                "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: events",
            ],
        ),
        (
            from(json!({"includedNamespaces": ["*", "a"]})),
            vec![
                "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
            ],
        ),
        (
            from(selectors),
            vec!["encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified"],
        ),
        (from(json!({"existingResourcePolicy": "replace"})), vec!["Invalid ExistingResourcePolicy: replace"]),
    ];
    for (n, (spec, _)) in restores.iter().enumerate() {
        ground.velero("Restore", &format!("wrong-{n}"), spec);
    }
    for (n, (spec, expected)) in restores.iter().enumerate() {
        let refused = ground.until("restore", &format!("wrong-{n}"), "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!(expected), "{spec}");
    }

    // Two hundred that are refused, and then one that is not.
    let wrong = |n: usize| {
        json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": format!("bad-{n}"), "namespace": "velero"},
            "spec": {"storageLocation": "sealed"}})
    };
    ground.create(&json!({"apiVersion": "v1", "kind": "List", "items": (0..200).map(wrong).collect::<Vec<_>>()}));
    ground.velero("Backup", "after", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "after", "Completed");
    let template = "{range .items[*]}{.metadata.name} {.status.phase}{\"\\n\"}{end}";
    let all = ground.bed.kubectl(&["get", "backups", "-n", "velero", &format!("--output=jsonpath={template}")]);
    let refused = all.lines().filter(|line| line.starts_with("bad-") && line.ends_with(" FailedValidation")).count();
    assert_eq!(refused, 200);
}

/// Work that an admission policy forbids fails, or stays as it is when not even that can be noted; it holds nobody up.
#[test]
fn what_the_api_server_refuses_for_ever_holds_nobody_up() {
    let ground = Ground::start();
    ground.many("shop", 2);
    ground.directory("default", &json!({"default": true}));
    let server = ground.server("one");
    ground.velero("Backup", "source", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "source", "Completed");
    assert_eq!(server.stop(), Some(0));
    let (shop, source) = (json!({"includedNamespaces": ["shop"]}), json!({"backupName": "source"}));
    ground.create(&object("Backup", "stubborn-before", &shop, "InProgress", "1"));
    ground.create(&object("Restore", "stubborn-before", &source, "InProgress", "1"));
    for (kind, spec) in [("Backup", &shop), ("Restore", &source)] {
        ground.velero(kind, "stubborn", spec);
        ground.velero(kind, "picky", spec);
    }
    forbid(
        &ground,
        "!object.metadata.name.startsWith('stubborn') && !(object.metadata.name == 'picky' && has(object.metadata.annotations) && 'lifeboat.io/attempt' in object.metadata.annotations)",
    );
    let stubborn = |kind: &str| (ground.get(kind, "stubborn"), ground.get(kind, "stubborn-before"));
    let before = (stubborn("backup"), stubborn("restore"));

    let _server = ground.server("two");
    for (kind, spec) in [("Backup", &shop), ("Restore", &source)] {
        ground.velero(kind, "after", spec);
        let refused = ground.until(&kind.to_lowercase(), "picky", "FailedValidation");
        let why = refused["status"]["validationErrors"][0].as_str().unwrap_or_default();
        assert!(why.contains("the API server refuses") && why.contains("not today"), "{why}");
        ground.until(&kind.to_lowercase(), "after", "Completed");
    }
    assert_eq!((stubborn("backup"), stubborn("restore")), before);
}

/// Forbids all updates of Backups and Restores of which this does not hold.
fn forbid(ground: &Ground, expression: &str) {
    ground.create(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "refuse"},
        "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["velero.io"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["backups", "restores"]}]},
            "validations": [{"expression": expression, "message": "not today"}]}}));
    ground.create(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "refuse"}, "spec": {"policyName": "refuse", "validationActions": ["Deny"]}}));
    let patch = ["patch", "backup", "stubborn", "--namespace=velero", "--type=merge", "--dry-run=server", "--patch"];
    eventually("the policy", || {
        ground.kubectl().try_run(&[&patch[..], &[r#"{"metadata":{"labels":{"a":"b"}}}"#]].concat()).is_err()
    });
}

/// An object that somebody has edited so that no type can hold it.
#[test]
fn what_can_no_longer_be_read_can_be_deleted() {
    let ground = Ground::start();
    ground.many("shop", 2);
    let bucket = ground.directory("default", &json!({"default": true}));
    let _server = ground.server("one");
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "b", "Completed");
    for name in ["r", "s"] {
        ground.velero("Restore", name, &json!({"backupName": "b"}));
        ground.until("restore", name, "Completed");
    }
    ground.create(&object("Backup", "running", &json!({"ttl": "30d"}), "InProgress", "1"));
    let failed = ground.until("backup", "running", "Failed");
    let why = failed["status"]["failureReason"].as_str().unwrap_or_default();
    assert!(why.contains("the Backup cannot be read: ") && why.contains("30d"), "{why}");
    let spoil = |kind: &str, name: &str, spec: &str| {
        let patch = format!(r#"{{"spec":{spec}}}"#);
        ground.bed.kubectl(&["patch", kind, name, "--namespace=velero", "--type=merge", "--patch", &patch]);
    };
    spoil("backup", "b", r#"{"ttl":"30d"}"#);
    spoil("restore", "r", r#"{"itemOperationTimeout":"soon"}"#);
    spoil("restore", "s", r#"{"itemOperationTimeout":"soon"}"#);
    ground.bed.kubectl(&["delete", "restore", "r", "--namespace=velero", "--timeout=180s"]);
    assert!(!bucket.join("restores/r/restore-r-logs.gz").exists());
    assert!(bucket.join("restores/s/restore-s-logs.gz").exists());
    ground.velero("DeleteBackupRequest", "d", &json!({"backupName": "b"}));
    for (kind, name) in [("backup", "b"), ("restore", "s"), ("deletebackuprequest", "d")] {
        ground.until_gone(kind, name);
    }
    for file in ["backups/b/velero-backup.json", "restores/s/restore-s-logs.gz"] {
        assert!(!bucket.join(file).exists(), "{file}");
    }
}
