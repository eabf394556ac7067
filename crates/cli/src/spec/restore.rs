//! What to restore.

use super::config_map;
use crate::flags::{self, List, OrSelectors, Pairs};
use clap::Args;
use lifeboat_api::{Duration, LabelSelector, Restore, RestoreStatusSpec, UploaderConfigForRestore};

/// What to restore: the flags of `velero restore create`.
#[derive(Debug, Args)]
pub(crate) struct RestoreSpecArgs {
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
    namespace_mappings: Option<Pairs>,
    /// Only objects with these labels
    #[arg(long, short = 'l', value_parser = flags::selector, value_name = "SELECTOR")]
    selector: Option<LabelSelector>,
    /// Only objects that match one of the selectors, joined by ' or '
    #[arg(long, value_parser = flags::or_selectors, value_name = "SELECTORS")]
    or_selector: Option<OrSelectors>,
    /// Include cluster-scoped objects: true, false, or as needed when left out
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    include_cluster_resources: Option<bool>,
    /// What to do with objects that exist: none leaves them, update makes them match the backup
    #[arg(long, value_parser = ["none", "update"], value_name = "POLICY")]
    existing_resource_policy: Option<String>,
    /// Types whose status is restored
    #[arg(long, value_parser = flags::list, value_name = "TYPES")]
    status_include_resources: Option<List>,
    /// Types whose status is not restored; needs --status-include-resources
    #[arg(long, value_parser = flags::list, requires = "status_include_resources", value_name = "TYPES")]
    status_exclude_resources: Option<List>,
    /// Keep the node ports of services
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    preserve_nodeports: Option<bool>,
    /// Restore volumes from snapshots (this version restores none and says so for each volume)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    restore_volumes: Option<bool>,
    /// Labels for the restore
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Option<Pairs>,
    /// Annotations for the restore
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    annotations: Option<Pairs>,
    /// How long asynchronous operations may take; the server's default when 0
    #[arg(long, value_parser = flags::duration, default_value = "0s", value_name = "DURATION")]
    item_operation_timeout: Duration,
    /// A ConfigMap with resource modifiers (refused by this version)
    #[arg(long, value_name = "NAME")]
    resource_modifier_configmap: Option<String>,
    /// A ConfigMap with fine-grained filters (refused by this version)
    #[arg(long, value_name = "NAME")]
    resource_policies_configmap: Option<String>,
    /// Leave out the server's default resource modifiers
    #[arg(long)]
    skip_default_resource_modifier: bool,
    /// Write volume files with holes where the data is zero
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    write_sparse_files: Option<bool>,
    /// Files of a volume downloaded at once; the node agent's default when 0
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..), value_name = "N")]
    parallel_files_download: i64,
}

impl RestoreSpecArgs {
    /// Puts the flags into a Restore.
    pub(crate) fn apply(&self, restore: &mut Restore) {
        let list = |given: &Option<List>| given.clone().unwrap_or_default().0;
        let pairs = |given: &Option<Pairs>| given.clone().unwrap_or_default().0;
        restore.metadata.labels = pairs(&self.labels);
        restore.metadata.annotations = pairs(&self.annotations);
        let spec = &mut restore.spec;
        spec.included_namespaces.clone_from(&self.include_namespaces.0);
        spec.excluded_namespaces = list(&self.exclude_namespaces);
        spec.included_resources = list(&self.include_resources);
        spec.excluded_resources = list(&self.exclude_resources);
        spec.namespace_mapping = pairs(&self.namespace_mappings);
        spec.label_selector.clone_from(&self.selector);
        spec.or_label_selectors = self.or_selector.clone().unwrap_or_default().0;
        spec.include_cluster_resources = self.include_cluster_resources;
        spec.existing_resource_policy = self.existing_resource_policy.clone().unwrap_or_default().into();
        spec.restore_status = self.status_include_resources.clone().map(|included| RestoreStatusSpec {
            included_resources: included.0,
            excluded_resources: list(&self.status_exclude_resources),
        });
        spec.preserve_node_ports = self.preserve_nodeports;
        spec.restore_pvs = self.restore_volumes;
        spec.item_operation_timeout = self.item_operation_timeout;
        spec.resource_modifier = self.resource_modifier_configmap.as_deref().map(config_map);
        spec.resource_policy = self.resource_policies_configmap.as_deref().map(config_map);
        spec.skip_default_resource_modifier = self.skip_default_resource_modifier.then_some(true);
        spec.uploader_config = Some(UploaderConfigForRestore {
            write_sparse_files: self.write_sparse_files,
            parallel_files_download: self.parallel_files_download,
        });
    }
}
