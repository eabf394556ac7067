//! Description of the contents of a backup, also as a schedule's template
//! (velero: pkg/cmd/util/output/backup_describer.go).

use super::page::{NONE, Page, selector, three};
use lifeboat_api::{BackupHooks, BackupResourceHook, BackupResourceHookSpec, BackupSpec, TypedLocalObjectReference};

/// Everything that is asked for.
pub(crate) fn describe(page: &mut Page<'_>, spec: &BackupSpec) {
    page.line("Namespaces:");
    page.names("\tIncluded", &spec.included_namespaces, "*");
    page.names("\tExcluded", &spec.excluded_namespaces, NONE);
    page.blank();
    resources(page, spec);
    page.blank();
    page.field("Label selector", selector(spec.label_selector.as_ref()));
    page.blank();
    or_selectors(page, &spec.or_label_selectors);
    page.blank();
    page.field("Storage Location", &spec.storage_location);
    page.blank();
    page.field("Velero-Native Snapshot PVs", three(spec.snapshot_volumes, "true", "false", "auto"));
    if let Some(by_files) = spec.default_volumes_to_fs_backup {
        page.field("File System Backup (Default)", by_files);
    }
    page.field("Snapshot Move Data", three(spec.snapshot_move_data, "true", "false", "auto"));
    page.field("Data Mover", if spec.data_mover.is_empty() { "velero" } else { &spec.data_mover });
    page.blank();
    page.field("TTL", spec.ttl);
    page.blank();
    page.field("CSISnapshotTimeout", spec.csi_snapshot_timeout);
    page.field("ItemOperationTimeout", spec.item_operation_timeout);
    page.blank();
    hooks(page, &spec.hooks);
    if !spec.ordered_resources.is_empty() {
        page.blank();
        page.line("OrderedResources:");
        for (kind, names) in &spec.ordered_resources {
            page.line(format!("\t{kind}: {names}"));
        }
    }
}

/// Returns true if the filters of Velero before 1.11 are used.
fn has_old_filters(spec: &BackupSpec) -> bool {
    spec.include_cluster_resources.is_some()
        || !spec.included_resources.is_empty()
        || !spec.excluded_resources.is_empty()
}

fn resources(page: &mut Page<'_>, spec: &BackupSpec) {
    page.line("Resources:");
    if has_old_filters(spec) {
        page.names("\tIncluded", &spec.included_resources, "*");
        page.names("\tExcluded", &spec.excluded_resources, NONE);
        page.field("\tCluster-scoped", three(spec.include_cluster_resources, "included", "excluded", "auto"));
        return;
    }
    page.names("\tIncluded cluster-scoped", &spec.included_cluster_scoped_resources, NONE);
    page.names("\tExcluded cluster-scoped", &spec.excluded_cluster_scoped_resources, NONE);
    page.names("\tIncluded namespace-scoped", &spec.included_namespace_scoped_resources, "*");
    page.names("\tExcluded namespace-scoped", &spec.excluded_namespace_scoped_resources, NONE);
}

/// Selectors of which one must match.
pub(crate) fn or_selectors(page: &mut Page<'_>, selectors: &[lifeboat_api::LabelSelector]) {
    let texts: Vec<String> = selectors.iter().map(|one| selector(Some(one))).collect();
    page.field("Or label selector", if texts.is_empty() { NONE.to_owned() } else { texts.join(" or ") });
}

/// A ConfigMap that a spec refers to.
pub(crate) fn reference(page: &mut Page<'_>, title: &str, reference: &TypedLocalObjectReference) {
    page.blank();
    page.line(format!("{title}:"));
    page.field("\tType", &reference.kind);
    page.field("\tName", &reference.name);
}

/// Settings of the uploader, where there are some.
pub(crate) fn uploader(page: &mut Page<'_>, spec: &BackupSpec) {
    let files = spec.uploader_config.as_ref().map_or(0, |config| config.parallel_files_upload);
    if files > 0 {
        page.blank();
        page.line("Uploader config:");
        page.field("\tParallel files upload", files);
    }
}

fn hooks(page: &mut Page<'_>, hooks: &BackupHooks) {
    if hooks.resources.is_empty() {
        page.field("Hooks", NONE);
        return;
    }
    page.line("Hooks:");
    page.line("\tResources:");
    for spec in &hooks.resources {
        hook_spec(page, spec);
    }
}

fn hook_spec(page: &mut Page<'_>, spec: &BackupResourceHookSpec) {
    page.line(format!("\t\t{}:", spec.name));
    page.line("\t\t\tNamespaces:");
    page.names("\t\t\t\tIncluded", &spec.included_namespaces, "*");
    page.names("\t\t\t\tExcluded", &spec.excluded_namespaces, NONE);
    page.blank();
    page.line("\t\t\tResources:");
    page.names("\t\t\t\tIncluded", &spec.included_resources, "*");
    page.names("\t\t\t\tExcluded", &spec.excluded_resources, NONE);
    page.blank();
    page.field("\t\t\tLabel selector", selector(spec.label_selector.as_ref()));
    for (title, hooks) in [("Pre", &spec.pre_hooks), ("Post", &spec.post_hooks)] {
        for hook in hooks {
            exec_hook(page, title, hook);
        }
    }
}

fn exec_hook(page: &mut Page<'_>, title: &str, hook: &BackupResourceHook) {
    let exec = &hook.exec;
    page.blank();
    page.line(format!("\t\t\t{title} Exec Hook:"));
    page.field("\t\t\t\tContainer", &exec.container);
    page.field("\t\t\t\tCommand", exec.command.join(" "));
    page.field("\t\t\t\tOn Error", exec.on_error.map_or("", |mode| mode.as_str()));
    page.field("\t\t\t\tTimeout", exec.timeout);
}
