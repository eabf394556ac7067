//! Contents of a restore.

use super::config_map::config_map;
use crate::flags::{self, KeyValuePairs, List, Optional, OrSelectors};
use clap::Args;
use clap::builder::PossibleValuesParser;
use lifeboat_api::well_known::{
    ANNOTATION_ALLOW_EMPTY_VOLUMES, ANNOTATION_OVERWRITE_VOLUMES, ANNOTATION_REBIND_RELEASED, ANNOTATION_RELABEL,
    ANNOTATION_REUSE_VOLUMES, ANNOTATION_UPDATE_DEFINITIONS,
};
use lifeboat_api::{
    Duration, ExistingResourcePolicyOverride, LabelSelector, Restore, RestoreStatusSpec, UploaderConfigForRestore,
};

/// Contents of a restore: the flags of `velero restore create`.
#[derive(Debug, Args)]
pub struct RestoreSpecArgs {
    /// Namespaces to include; use '*' for all
    #[arg(long, value_parser = flags::list, default_value = "*", value_name = "NAMES")]
    include_namespaces: List,
    /// Namespaces to exclude
    #[arg(long, value_parser = flags::list, value_name = "NAMES")]
    exclude_namespaces: Option<List>,
    /// Types to include, such as deployments.apps; all when left out
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    include_resources: Option<List>,
    /// Types to exclude
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    exclude_resources: Option<List>,
    /// Namespaces to restore under another name
    #[arg(long, value_parser = flags::mappings, value_name = "SOURCE:TARGET,…")]
    namespace_mappings: Vec<KeyValuePairs>,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_parser = flags::selector, value_name = "SELECTOR")]
    selector: Option<LabelSelector>,
    /// Only objects that match one of the selectors, joined by ' or '
    #[arg(long, value_parser = flags::or_selectors, value_name = "SELECTORS")]
    or_selector: Option<OrSelectors>,
    /// Include cluster-scoped objects: true, false, or as needed when left out
    #[arg(long, default_value = "")]
    include_cluster_resources: Optional<bool>,
    /// Policy for objects that exist: none leaves them, update makes them match the backup, recreate deletes those that
    /// differ and makes them anew, exact updates them and finds those that the backup lacks
    #[arg(long, value_parser = flags::optional(PossibleValuesParser::new(["none", "update", "recreate", "exact"])), default_value = "", value_name = "POLICY")]
    existing_resource_policy: Optional<String>,
    /// Policy for existing objects of some types, such as secrets=none; the first that names a type counts
    #[arg(long, value_parser = flags::policy_override, value_name = "TYPE,…=POLICY")]
    existing_resource_policy_override: Vec<ExistingResourcePolicyOverride>,
    /// Let objects of this type be recreated although more may go with them: custom resources, objects with finalizers,
    /// StatefulSets that delete their claims
    #[arg(long, value_name = "TYPE")]
    allow_recreate: Vec<String>,
    /// Give the labels of this restore also to objects that are as in the backup already, with --existing-resource-policy update
    #[arg(long)]
    relabel: bool,
    /// Let an older definition of a type take the place of a newer one, with --existing-resource-policy update: versions and fields
    /// that only the newer one has are lost
    #[arg(long)]
    update_definitions: bool,
    /// Carry out the plan of this digest and no other: the restore fails, with nothing changed, when it would do something else. A
    /// plan or dry run says whether it is that one; the exit code is 3 when it is not
    #[arg(long, default_value = "", value_name = "DIGEST")]
    plan_digest: String,
    /// Remove the objects that the backup lacks, with --existing-resource-policy exact; a restore needs --plan-digest for it
    #[arg(long)]
    prune: bool,
    /// Give restored objects their owners back, so that they are deleted with them; not pods, replica sets and others that
    /// their controllers adopt
    #[arg(long)]
    restore_owner_references: bool,
    /// Types whose status is restored
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    status_include_resources: Option<List>,
    /// Of the types of --status-include-resources, those whose status is not restored; ignored without it
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    status_exclude_resources: Option<List>,
    /// Keep the node ports of services
    #[arg(long, default_value = "")]
    preserve_nodeports: Optional<bool>,
    /// Restore volumes from the CSI snapshots that the backup has taken; with false, claims are made empty
    #[arg(long, default_value = "")]
    restore_volumes: Optional<bool>,
    /// Make claims empty whose data cannot be brought back: its snapshot failed, or it is in a repository and nothing is there that brings it back.
    /// Otherwise they and what would start on them are held back
    #[arg(long)]
    allow_empty_volumes: bool,
    /// Write files from repositories also into claims that are in the cluster already, over what they hold. Otherwise these keep it
    #[arg(long)]
    overwrite_volumes: bool,
    /// Bind claims again to the PersistentVolumes that they have released, which are still in the cluster with what they hold
    #[arg(long)]
    rebind_released: bool,
    /// Make PersistentVolumes of another cluster again on the storage that they had there; nothing there may use it any more
    #[arg(long)]
    reuse_volumes: bool,
    /// Labels for the restore
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Vec<KeyValuePairs>,
    /// Annotations for the restore
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    annotations: Vec<KeyValuePairs>,
    /// Longest time for asynchronous operations, past which DataUploads and DataDownloads go on while bytes are moved; the server's
    /// default when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    item_operation_timeout: Duration,
    /// A ConfigMap with resource modifiers
    #[arg(long, default_value = "", value_name = "NAME")]
    resource_modifier_configmap: String,
    /// A ConfigMap with resource policies
    #[arg(long, default_value = "", value_name = "NAME")]
    resource_policies_configmap: String,
    /// Leave out the server's default resource modifiers
    #[arg(long)]
    skip_default_resource_modifier: bool,
    /// Write volume files with holes where the data is zero.
    #[arg(long, default_value = "")]
    write_sparse_files: Optional<bool>,
    /// Files of a volume downloaded at once; the node agent's default when 0.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..), value_name = "N")]
    parallel_files_download: i64,
}

impl RestoreSpecArgs {
    /// Puts the flags into a Restore.
    pub fn apply(&self, restore: &mut Restore) {
        let list = |given: &Option<List>| given.clone().unwrap_or_default().0;
        restore.metadata.labels = flags::merged(&self.labels);
        restore.metadata.annotations = flags::merged(&self.annotations);
        for (given, annotation) in [
            (self.allow_empty_volumes, ANNOTATION_ALLOW_EMPTY_VOLUMES),
            (self.overwrite_volumes, ANNOTATION_OVERWRITE_VOLUMES),
            (self.rebind_released, ANNOTATION_REBIND_RELEASED),
            (self.relabel, ANNOTATION_RELABEL),
            (self.reuse_volumes, ANNOTATION_REUSE_VOLUMES),
            (self.update_definitions, ANNOTATION_UPDATE_DEFINITIONS),
        ] {
            if given {
                restore.metadata.annotations.insert(annotation.to_owned(), "true".to_owned());
            }
        }
        let spec = &mut restore.spec;
        spec.included_namespaces.clone_from(&self.include_namespaces.0);
        spec.excluded_namespaces = list(&self.exclude_namespaces);
        spec.included_resources = list(&self.include_resources);
        spec.excluded_resources = list(&self.exclude_resources);
        spec.namespace_mapping = flags::merged(&self.namespace_mappings);
        spec.label_selector.clone_from(&self.selector);
        spec.or_label_selectors = self.or_selector.clone().unwrap_or_default().0;
        spec.include_cluster_resources = *self.include_cluster_resources;
        spec.existing_resource_policy = self.existing_resource_policy.0.clone().unwrap_or_default().into();
        spec.existing_resource_policy_overrides.clone_from(&self.existing_resource_policy_override);
        spec.allow_recreate.clone_from(&self.allow_recreate);
        spec.plan_digest.clone_from(&self.plan_digest);
        spec.prune = self.prune;
        spec.restore_owner_references = self.restore_owner_references;
        let with_status = list(&self.status_include_resources);
        spec.restore_status = (!with_status.is_empty()).then(|| RestoreStatusSpec {
            included_resources: with_status,
            excluded_resources: list(&self.status_exclude_resources),
            ..RestoreStatusSpec::default()
        });
        spec.preserve_node_ports = *self.preserve_nodeports;
        spec.restore_pvs = *self.restore_volumes;
        spec.item_operation_timeout = self.item_operation_timeout;
        spec.resource_modifier = config_map(&self.resource_modifier_configmap);
        spec.resource_policy = config_map(&self.resource_policies_configmap);
        spec.skip_default_resource_modifier = self.skip_default_resource_modifier.then_some(true);
        spec.uploader_config = Some(UploaderConfigForRestore {
            write_sparse_files: *self.write_sparse_files,
            parallel_files_download: self.parallel_files_download,
            ..UploaderConfigForRestore::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::spec::tests::parsed;
    use serde_json::{Value, json};

    /// Returns the Restore that the flags make, without the fields that every Restore has.
    fn made(line: &str) -> Value {
        let mut restore = Restore::default();
        parsed::<RestoreSpecArgs>(line).apply(&mut restore);
        let mut spec = serde_json::to_value(&restore).unwrap()["spec"].take();
        let always = ["backupName", "includedNamespaces", "itemOperationTimeout", "hooks"];
        spec.as_object_mut().unwrap().retain(|key, _| !always.contains(&key.as_str()));
        spec
    }

    #[test]
    fn what_the_spec_has_no_field_for_is_an_annotation() {
        for (line, expected) in [
            ("", json!({})),
            ("--rebind-released=false --annotations a=b", json!({"a": "b"})),
            ("--relabel --annotations a=b", json!({"a": "b", "lifeboat.io/relabel": "true"})),
            ("--update-definitions", json!({"lifeboat.io/update-definitions": "true"})),
            (
                "--rebind-released --reuse-volumes --allow-empty-volumes --overwrite-volumes",
                json!({"lifeboat.io/rebind-released": "true", "lifeboat.io/reuse-volumes": "true",
                    "lifeboat.io/allow-empty-volumes": "true", "lifeboat.io/overwrite-volumes": "true"}),
            ),
        ] {
            let mut restore = Restore::default();
            parsed::<RestoreSpecArgs>(line).apply(&mut restore);
            assert_eq!(json!(restore.metadata.annotations), expected, "{line}");
        }
    }

    #[test]
    fn flags_make_the_spec() {
        let of = |mut spec: Value| {
            // As with Velero, also when it says nothing.
            spec.as_object_mut().unwrap().entry("uploaderConfig").or_insert(json!({}));
            spec
        };
        for (line, expected) in [
            ("", of(json!({}))),
            (
                "--namespace-mappings a:b,c:d --namespace-mappings c:e",
                of(json!({"namespaceMapping": {"a": "b", "c": "e"}})),
            ),
            ("--existing-resource-policy update --existing-resource-policy=", of(json!({}))),
            (
                "--existing-resource-policy= --existing-resource-policy none",
                of(json!({"existingResourcePolicy": "none"})),
            ),
            (
                "--existing-resource-policy-override a,b.c=none --existing-resource-policy-override d=recreate --allow-recreate e",
                of(json!({
                    "existingResourcePolicyOverrides": [
                        {"policy": "none", "includedResources": ["a", "b.c"]},
                        {"policy": "recreate", "includedResources": ["d"]}
                    ],
                    "allowRecreate": ["e"]
                })),
            ),
            ("--plan-digest sha256:1 --prune", of(json!({"planDigest": "sha256:1", "prune": true}))),
            ("--restore-owner-references", of(json!({"restoreOwnerReferences": true}))),
            ("--restore-owner-references=false", of(json!({}))),
            ("--status-exclude-resources pods", of(json!({}))),
            ("--status-include-resources= --status-exclude-resources pods", of(json!({}))),
            (
                "--status-include-resources a,b --status-exclude-resources b",
                of(json!({
                    "restoreStatus": {"includedResources": ["a", "b"], "excludedResources": ["b"]}
                })),
            ),
            ("--resource-modifier-configmap= --resource-policies-configmap=", of(json!({}))),
            ("--skip-default-resource-modifier=false --preserve-nodeports=F", of(json!({"preserveNodePorts": false}))),
            ("--skip-default-resource-modifier --restore-volumes=", of(json!({"skipDefaultResourceModifier": true}))),
            (
                "--write-sparse-files --parallel-files-download 3",
                of(json!({
                    "uploaderConfig": {"writeSparseFiles": true, "parallelFilesDownload": 3}
                })),
            ),
        ] {
            assert_eq!(made(line), expected, "{line}");
        }
    }
}
