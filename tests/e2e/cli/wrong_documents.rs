//! Wrong documents of every sort: each is refused before its operation starts, and the command and the server say why
//! in the same words.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Run, local};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// The kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// Resource policies of a backup.
    Policy,
    /// Filter policies of a restore.
    RestorePolicy,
    /// Resource modifiers.
    Modifiers,
    /// The spec of a backup.
    Backup,
    /// The spec of a restore, without the backup.
    Restore,
}
use Sort::{Backup, Modifiers, Policy, Restore, RestorePolicy};

impl Sort {
    fn is_of_restore(self) -> bool {
        matches!(self, RestorePolicy | Modifiers | Restore)
    }

    fn is_spec(self) -> bool {
        matches!(self, Backup | Restore)
    }
}

/// Documents, and what is said of each. PLACE stands for the name of the document, and … for the words of a library.
const WRONG: [(Sort, &str, &str); 57] = [
    (
        Policy,
        "version: [v1]\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 1 column 10: …",
    ),
    (
        Policy,
        "version: v1\nunknown: {}\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 2 column 1: …",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies: {}\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 2 column 17: …",
    ),
    (
        Policy,
        "volumePolicies: []\n",
        "fail to validate ResourcePolicies in PLACE with error incompatible version number  with supported version v1",
    ),
    (
        Policy,
        "version: v1\n---\nversion: v1\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 3 column 1: …",
    ),
    (
        Policy,
        "version: v1\n  - a: [\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 2 column 6: …",
    ),
    (
        Policy,
        "# nothing\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  EOF",
    ),
    (
        Policy,
        "version: v1\nversion: v1\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 2 column 1: …",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies:\n- {conditions: {capacity: 10Gi}, action: {type: skip}}\n",
        "fail to validate ResourcePolicies in PLACE with error volumePolicies[0]: wrong format of Capacity 10Gi (line 3)",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies:\n- {conditions: {capacity: \"20Gi,10Gi\"}, action: {type: skip}}\n",
        "fail to validate ResourcePolicies in PLACE with error volumePolicies[0]: illegal values for capacity 20Gi,10Gi: the upper bound is below the lower one (line 3)",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies:\n- {conditions: {csi: {volumeAttributes: {a: b}}}, action: {type: skip}}\n",
        "fail to validate ResourcePolicies in PLACE with error volumePolicies[0]: csi driver should not be empty when filtering by volume attributes (line 3)",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies:\n- {conditions: {volumeTypes: [floppy]}, action: {type: skip}}\n",
        "fail to validate ResourcePolicies in PLACE with error volumePolicies[0]: volumeTypes: \"floppy\" is none of awsAzureDisk, awsElasticBlockStore, azureDisk, azureFile, cephfs, cinder, configMap, csi, downwardAPI, emptyDir, ephemeral, fc, flexVolume, flocker, gcePersistentDisk, gitRepo, glusterfs, hostPath, image, iscsi, local, nfs, photonPersistentDisk, portworxVolume, projected, quobyte, rbd, scaleIO, secret, storageOS, vsphereVolume (line 3)",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies:\n- {conditions: {}, action: {type: skip, parameters: {dataMover: velero}}}\n",
        "fail to validate ResourcePolicies in PLACE with error volumePolicies[0]: the parameter dataMover is for snapshots only (line 3)",
    ),
    (
        Policy,
        "version: v1\nvolumePolicies:\n- conditions: {}\n",
        "fail to read the ResourcePolicies from PLACE with error failed to decode yaml data into resource policies  line 3 column 3: …",
    ),
    (
        Policy,
        "version: v1\nincludeExcludePolicy: {includedClusterScopedResources: [sc], excludedClusterScopedResources: [sc]}\n",
        "fail to validate ResourcePolicies in PLACE with error includeExcludePolicy: excludes list cannot contain an item in the includes list: sc (line 2)",
    ),
    (
        Policy,
        "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{names: [a]}]}\n",
        "fail to validate ResourcePolicies in PLACE with error clusterScopedFilterPolicy.resourceFilters[0]: kinds must be specified (catch-all is not supported) (line 2)",
    ),
    (
        Policy,
        "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [sc]}, {kinds: [SC]}]}\n",
        "fail to validate ResourcePolicies in PLACE with error clusterScopedFilterPolicy: kind \"SC\" appears in both resourceFilters[0] and resourceFilters[1] (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{resourceFilters: [{kinds: [cm]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0]: at least one namespace must be specified (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [\"lab-[\"], resourceFilters: [{kinds: [cm]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].namespaces[0]: wildcard pattern contains unclosed bracket '[' (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [\"*\"]}, {}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0]: only one catch-all resource filter is allowed (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{names: [b]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].resourceFilters[0]: names or excludedNames cannot be specified for catch-all filters (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm], labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{matchLabels: {a: b}}]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].resourceFilters[0]: labelSelector and orLabelSelectors cannot co-exist (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm], labelSelector: {matchExpressions: [{key: a, operator: Like}]}}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].resourceFilters[0]: invalid label selector: \"Like\" is not a valid label selector operator (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm], orLabelSelectors: [{matchExpressions: [{key: a, operator: In}]}]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].resourceFilters[0].orLabelSelectors[0]: invalid label selector: the requirement on \"a\" is In without values (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm], labelSelector: {matchLabels: {\"-a\": b}}}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].resourceFilters[0]: invalid label selector: \"-a\" is not a valid label key: a name has 1 to 63 alphanumeric characters, '-', '_' or '.' and begins and ends with an alphanumeric one (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm], names: [\"[a\"]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies[0].resourceFilters[0].names[0]: invalid glob pattern \"[a\": a character class is not closed, or empty (line 2)",
    ),
    (
        Policy,
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm]}]}, {namespaces: [a], resourceFilters: [{kinds: [cm]}]}]\n",
        "fail to validate ResourcePolicies in PLACE with error namespacedFilterPolicies: duplicate namespace pattern 'a' found in policies [0 1] (line 2)",
    ),
    (
        RestorePolicy,
        "version: v1\nvolumePolicies: []\nincludeExcludePolicy: {}\n",
        "fail to validate ResourcePolicies in PLACE: volumePolicies are not supported for restore (line 2); includeExcludePolicy is not supported for restore (line 3)",
    ),
    (
        RestorePolicy,
        "version: v1\nnamespacedFilterPolicy: []\n",
        "fail to read the ResourcePolicies from PLACE: failed to decode yaml data into resource policies  line 2 column 1: …",
    ),
    (
        RestorePolicy,
        "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [sc], names: sc}]}\n",
        "fail to read the ResourcePolicies from PLACE: failed to decode yaml data into resource policies  line 2 column 68: …",
    ),
    (
        Modifiers,
        "version: v2\nresourceModifierRules: []\n",
        "Validation error in resource modifiers provided in PLACE: unsupported resource modifier version v2",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRule: []\n",
        "Error in parsing resource modifiers provided in PLACE: failed to decode yaml data into resource modifiers, err: line 2 column 1: …",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods, resourceNameRegex: \"(\"}\n  patches: [{operation: remove, path: /a}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: error in matching regex …",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  patches: [{operation: remove, path: /a}]\n  mergePatches: [{patchData: \"{}\"}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: only one of patches, mergePatches, strategicPatches can be specified",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  patches: [{operation: explode, path: /a}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: unsupported operation explode",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  patches: [{operation: remove, path: a}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: the path \"a\" does not begin with a slash",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  patches: [{operation: add, path: /a, value: \"True\"}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: the value True is ambiguous: write true, or '\"True\"' for the text",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: \"[pods\"}\n  patches: [{operation: remove, path: /a}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: groupResource: \"[pods\" is no glob",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {}\n  patches: [{operation: remove, path: /a}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: groupkResource cannot be empty",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}\n  patches: [{operation: remove, path: /a}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: error in creating label selector \"Like\" is not a valid label selector operator",
    ),
    (
        Modifiers,
        "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n  mergePatches: [{patchData: \"a: [\"}]\n",
        "Validation error in resource modifiers provided in PLACE: rule 1: patchData is neither YAML nor JSON: line 1 column 4: …",
    ),
    (Modifiers, "", "Validation error in resource modifiers provided in PLACE: unsupported resource modifier version "),
    (
        Modifiers,
        "version: v1\nresourceModifierRules: []\n---\nversion: v1\n",
        "Error in parsing resource modifiers provided in PLACE: failed to decode yaml data into resource modifiers, err: line 4 column 1: …",
    ),
    (
        Backup,
        "hooks: {resources: [{name: h, labelSelector: {matchExpressions: [{key: a, operator: Like}]}, pre: [{exec: {command: [a]}}]}]}\n",
        "hook \"h\": invalid label selector: \"Like\" is not a valid label selector operator",
    ),
    (
        Backup,
        "labelSelector: {matchLabels: {a: b}}\norLabelSelectors: [{matchLabels: {a: b}}]\n",
        "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified",
    ),
    (
        Backup,
        "includedNamespaces: [\"a[\"]\n",
        "Invalid included/excluded namespace lists: wildcard pattern contains unclosed bracket '['",
    ),
    (
        Backup,
        "includedResources: [\"*\", pods]\n",
        "Invalid included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items",
    ),
    (
        Backup,
        "includedResources: [pods]\nexcludedResources: [pods]\n",
        "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: pods",
    ),
    (
        Backup,
        "includeClusterResources: false\nexcludedNamespaceScopedResources: [pods]\n",
        "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\ninclude-cluster-scoped-resources, exclude-cluster-scoped-resources, include-namespace-scoped-resources and exclude-namespace-scoped-resources are new filter parameters.\nThey cannot be used together",
    ),
    (
        Backup,
        "includedClusterScopedResources: [pv]\nexcludedClusterScopedResources: [\"*\"]\n",
        "Invalid cluster-scoped included/excluded resource lists: when exclude is '*', include cannot have value",
    ),
    (
        Backup,
        "labelSelector: {matchExpressions: [{key: a, operator: In}]}\n",
        "invalid label selector: the requirement on \"a\" is In without values",
    ),
    (Restore, "existingResourcePolicy: replace\n", "Invalid ExistingResourcePolicy: replace"),
    (
        Restore,
        "includedResources: [nodes]\n",
        "nodes are non-restorable resources; Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: nodes",
    ),
    (
        Restore,
        "includedNamespaces: [\"*\", a]\n",
        "Invalid included/excluded namespace lists: includes list must either contain '*' only, or a non-empty list of items",
    ),
    (Restore, "allowRecreate: [\"*\"]\n", "allowRecreate: \"*\" is no type: name each one"),
    (
        Restore,
        "hooks: {resources: [{name: h, postHooks: [{init: {initContainers: [{image: a}]}}]}]}\n",
        "hook \"h\": invalid InitContainer in restore hook, it doesn't have Command, Name or Image field",
    ),
    (
        Restore,
        "hooks: {resources: [{name: h, labelSelector: {matchLabels: {\"-a\": b}}, postHooks: [{exec: {command: [a]}}]}]}\n",
        "hook \"h\": invalid label selector: \"-a\" is not a valid label key: a name has 1 to 63 alphanumeric characters, '-', '_' or '.' and begins and ends with an alphanumeric one",
    ),
];

/// Specs that the API server refuses, so that the server never sees them; of these the command must say what is wrong.
const BARRED: [(Sort, &str, &str); 10] = [
    (
        Restore,
        "existingResourcePolicyOverrides: [{includedResources: [pods]}]\n",
        "the restore is not valid: existingResourcePolicyOverrides[0]: policy is required: none, update or recreate",
    ),
    (Backup, "includedNamespace: [a]\n", "--spec PLACE: a Backup has no field spec.includedNamespace"),
    (Backup, "includedNamespaces: a\n", "--spec PLACE: invalid type: string \"a\", expected a sequence"),
    (Backup, "includeClusterResources: \"yes\"\n", "--spec PLACE: invalid type: string \"yes\", expected a boolean"),
    (
        Backup,
        "hooks: {resources: [{name: h, pre: [{exec: {programs: [a]}}]}]}\n",
        "--spec PLACE: a Backup has no field spec.hooks.resources[0].pre[0].exec.programs",
    ),
    (
        Backup,
        "hooks: {resources: [{name: h, pre: [{exec: {command: []}}]}]}\n",
        "the backup is not valid: hook \"h\": a hook has no command: name the program and its arguments",
    ),
    (
        Backup,
        "hooks: {resources: [{name: h, pre: [{exec: {command: [a], onError: Perhaps}}]}]}\n",
        "--spec PLACE: unknown variant `Perhaps`, expected `Continue` or `Fail`",
    ),
    (Restore, "namespaceMapping: [a]\n", "--spec PLACE: invalid type: sequence, expected a map"),
    (
        Restore,
        "hooks: {resources: [{name: h, postHooks: [{exec: {command: []}}]}]}\n",
        "the restore is not valid: hook \"h\": a hook has no command: name the program and its arguments",
    ),
    (Restore, "preserveNodePort: true\n", "--spec PLACE: a Restore has no field spec.preserveNodePort"),
];

/// Returns true if a text is the expected one. A … at the end leaves the rest open.
fn is_as_expected(text: &str, expected: &str) -> bool {
    match expected.strip_suffix('…') {
        Some(begin) => text.len() > begin.len() && text.starts_with(begin),
        None => text == expected,
    }
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        out.extend(if path.is_dir() { files(&path) } else { BTreeSet::from([path.display().to_string()]) });
    }
    out
}

/// Runs a command with a wrong document on the bucket of the server.
fn by_command(ground: &Ground, (sort, text): (Sort, &str), name: &str) -> (Run, String) {
    let path = ground.directories.path().join(format!("{name}.yaml"));
    std::fs::write(&path, text).expect("a file");
    let path = path.display().to_string();
    let flag = match sort {
        Policy | RestorePolicy => "--resource-policies",
        Modifiers => "--resource-modifiers",
        Backup | Restore => "--spec",
    };
    let mut args = vec![if sort.is_of_restore() { "restore" } else { "backup" }, name];
    if sort.is_of_restore() {
        args.extend(["--from-backup", "good"]);
    }
    args.extend([flag, &path]);
    let folder = ground.directories.path().join("d");
    (local(&ground.bed.plane.kubeconfig(), &folder, &args), path)
}

/// A Backup or Restore with a wrong document, and the ConfigMap that has it, if there is one.
fn resources((sort, text): (Sort, &str), name: &str) -> Vec<Value> {
    let reference = json!({"kind": "configmap", "name": name});
    let mut spec = match sort {
        Policy | RestorePolicy => json!({"resourcePolicy": reference}),
        Modifiers => json!({"resourceModifier": reference}),
        Backup | Restore => serde_saphyr::from_str(text).expect("YAML"),
    };
    if sort.is_of_restore() {
        spec["backupName"] = json!("good");
    }
    let kind = if sort.is_of_restore() { "Restore" } else { "Backup" };
    let metadata = json!({"name": name, "namespace": "velero"});
    let resource = json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"document": text}});
    if sort.is_spec() { vec![resource] } else { vec![map, resource] }
}

fn ground() -> (Ground, crate::ground::Server) {
    let ground = Ground::start();
    ground.create(&namespace("shop"));
    let folder = ground.directory("d", &json!({"default": true}));
    let server = ground.server("one");
    ground.until("backupstoragelocation", "d", "Available");
    ground.velero("Backup", "good", &json!({"includedNamespaces": ["shop"]}));
    ground.until("backup", "good", "Completed");
    // Where the command looks for it.
    std::os::unix::fs::symlink(&folder, folder.with_file_name("bucket")).expect("a link");
    (ground, server)
}

#[test]
fn wrong_documents_are_refused_in_the_same_words_by_command_and_server() {
    let (ground, _server) = ground();
    let before = files(&ground.directories.path().join("d/b"));
    let name = |number: usize| format!("wrong-{number}");
    let all = WRONG.iter().enumerate().flat_map(|(number, (sort, text, _))| resources((*sort, text), &name(number)));
    ground.create(&json!({"apiVersion": "v1", "kind": "List", "items": all.collect::<Vec<_>>()}));
    let mut differences = Vec::new();
    for (number, (sort, text, expected)) in WRONG.iter().enumerate() {
        let name = name(number);
        let kind = if sort.is_of_restore() { "restore" } else { "backup" };
        let refused = ground.until(kind, &name, "FailedValidation");
        assert!(refused["status"]["startTimestamp"].is_null(), "it has not begun: {refused}");
        let errors = refused["status"]["validationErrors"].as_array().expect("errors").iter();
        let by_server = errors.map(|error| error.as_str().expect("a text")).collect::<Vec<_>>().join("; ");
        let word = if *sort == Modifiers { "configmap" } else { "ConfigMap" };
        let by_server = by_server.replace(&format!("{word} velero/{name}"), "PLACE");

        let (run, path) = by_command(&ground, (*sort, text), &name);
        let said = run.err.trim_start_matches("An error occurred: ").trim_end_matches('\n');
        let said = said.strip_prefix(&format!("the {kind} is not valid: ")).unwrap_or(said).replace(&path, "PLACE");
        if run.code != 1 || by_server != said || !is_as_expected(&said, expected) {
            differences.push(format!(
                "{sort:?} {text:?}\n  code {}\n  expected {expected:?}\n  server   {by_server:?}\n  command  {said:?}",
                run.code
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(files(&ground.directories.path().join("d/b")), before, "nothing was written");
}

#[test]
fn specs_that_the_api_server_does_not_take_are_refused_by_the_command_too() {
    let (ground, _server) = ground();
    let before = files(&ground.directories.path().join("d/b"));
    let mut differences = Vec::new();
    for (number, (sort, text, expected)) in BARRED.iter().enumerate() {
        let name = format!("barred-{number}");
        for resource in resources((*sort, text), &name) {
            let taken = ground.kubectl().create(&resource);
            if taken.is_ok() {
                differences.push(format!("{sort:?} {text:?} was taken"));
            }
        }
        let (run, path) = by_command(&ground, (*sort, text), &name);
        let said = run.err.trim_start_matches("An error occurred: ").trim_end_matches('\n').replace(&path, "PLACE");
        if run.code != 1 || !is_as_expected(&said, expected) {
            differences
                .push(format!("{sort:?} {text:?}\n  code {}\n  expected {expected:?}\n  command  {said:?}", run.code));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(files(&ground.directories.path().join("d/b")), before, "nothing was written");
}
