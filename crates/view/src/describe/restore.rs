//! `lifeboat restore describe` (velero: pkg/cmd/util/output/restore_describer.go).

use super::facts::{FetchedFile, OperationFiles};
use super::page::{NONE, Page, Style, Tone, selector, three};
use super::results::{self, OutcomeCounts};
use super::{spec, volumes};
use crate::transfer::VolumeTransfer;
use lifeboat_api::{ExistingResourcePolicyOverride, PodVolumeRestore, Restore, RestorePhase, RestoreSpec};

/// Everything that is known of a restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreFacts {
    /// The restore.
    pub restore: Restore,
    /// Its files.
    pub files: OperationFiles,
    /// Volumes restored through the file system.
    pub by_files: Vec<PodVolumeRestore>,
    /// Volumes whose data is moved back.
    pub moved: Vec<VolumeTransfer>,
    /// Warning about the certificate of its location.
    pub warning: Option<String>,
}

/// The whole text.
pub fn describe(facts: &RestoreFacts, style: &Style) -> String {
    let mut page = Page::new(style);
    let restore = &facts.restore;
    let (spec, status) = (&restore.spec, &restore.status);
    page.metadata(&restore.metadata);
    page.blank();
    phase(&mut page, restore);
    page.blank();
    page.field("Started", page.time(status.start_timestamp, "<n/a>"));
    page.field("Completed", page.time(status.completion_timestamp, "<n/a>"));
    page.validation_errors(&status.validation_errors);
    if let Some(warning) = &facts.warning {
        page.blank();
        page.line(warning);
    }
    messages(&mut page, facts);
    page.blank();
    page.field("Backup", &spec.backup_name);
    scope(&mut page, spec);
    volumes::pod_volume_restores(&mut page, &facts.by_files);
    if volumes::shows_moved(&facts.moved, page.style.details) {
        page.blank();
        volumes::moved(&mut page, "Data Downloads", &facts.moved);
    }
    volumes::of_restore(&mut page, &facts.files.volumes);
    volumes::messages(&mut page, &facts.files.volumes);
    manner(&mut page, spec);
    let counts = OutcomeCounts {
        attempted: status.restore_item_operations_attempted,
        completed: status.restore_item_operations_completed,
        failed: status.restore_item_operations_failed,
    };
    if counts.attempted > 0 {
        page.blank();
        results::operations(&mut page, "Restore", &counts, &facts.files.operations);
    }
    results::hooks(&mut page, status.hook_status.as_ref(), " ");
    if style.details {
        page.blank();
        results::resource_list(&mut page, "restore", &facts.files.resources);
    }
    page.finish()
}

fn phase(page: &mut Page<'_>, restore: &Restore) {
    use RestorePhase as P;
    let phase = restore.status.phase.unwrap_or(P::New);
    let deleting = if restore.metadata.deletion_timestamp.is_some() { " (Deleting)" } else { "" };
    let (tone, hint) = match phase {
        P::Completed => (Tone::Good, String::new()),
        P::FailedValidation => (Tone::Bad, String::new()),
        P::Failed | P::PartiallyFailed => {
            let (program, name) = (&page.style.program, &restore.metadata.name);
            (Tone::Bad, format!(" (run '{program} restore logs {name}' for more information)"))
        }
        _ => (Tone::Plain, String::new()),
    };
    page.field("Phase", format_args!("{}{deleting}{hint}", page.toned(phase.as_str(), tone)));
    page.attempt(restore.status.attempt);
    if let Some(progress) = &restore.status.progress {
        let (total, done) = match phase {
            P::InProgress => ("Estimated total items to be restored", "Items restored so far"),
            _ => ("Total items to be restored", "Items restored"),
        };
        page.field(total, progress.total_items);
        page.field(done, progress.items_restored);
    }
}

fn messages(page: &mut Page<'_>, facts: &RestoreFacts) {
    let (warnings, errors) = (facts.restore.status.warnings, facts.restore.status.errors);
    let (verb, why) = match &facts.files.results {
        FetchedFile::There(found) => return results::results(page, found, warnings, errors),
        _ if warnings == 0 && errors == 0 => return,
        FetchedFile::Missing => ("getting", "file not found"),
        FetchedFile::Ungotten(why) => ("getting", why.as_str()),
        FetchedFile::Unreadable(why) => ("decoding", why.as_str()),
    };
    page.blank();
    results::failed_results(page, verb, why);
}

fn scope(page: &mut Page<'_>, spec: &RestoreSpec) {
    page.blank();
    page.line("Namespaces:");
    let all = spec.included_namespaces.is_empty() || spec.included_namespaces == ["*"];
    let named = if all { &[] } else { spec.included_namespaces.as_slice() };
    page.names("\tIncluded", named, "all namespaces found in the backup");
    page.names("\tExcluded", &spec.excluded_namespaces, NONE);
    page.blank();
    page.line("Resources:");
    page.names("\tIncluded", &spec.included_resources, "*");
    page.names("\tExcluded", &spec.excluded_resources, NONE);
    page.field("\tCluster-scoped", three(spec.include_cluster_resources, "included", "excluded", "auto"));
    page.blank();
    page.pairs("Namespace mappings", &spec.namespace_mapping);
    page.blank();
    page.field("Label selector", selector(spec.label_selector.as_ref()));
    page.blank();
    spec::or_selectors(page, &spec.or_label_selectors);
    page.blank();
    page.field("Restore PVs", three(spec.restore_pvs, "true", "false", "auto"));
}

/// Which objects an entry of the policies for existing ones is about, beside their types.
fn limits(entry: &ExistingResourcePolicyOverride) -> String {
    let mut out = String::new();
    if !entry.excluded_resources.is_empty() {
        out.push_str(&format!(", not for {}", entry.excluded_resources.join(", ")));
    }
    if !entry.included_namespaces.is_empty() {
        out.push_str(&format!(", in namespaces {}", entry.included_namespaces.join(", ")));
    }
    if entry.label_selector.is_some() {
        out.push_str(&format!(", with labels {}", selector(entry.label_selector.as_ref())));
    }
    out
}

/// Describes the options of a restore.
fn manner(page: &mut Page<'_>, spec: &RestoreSpec) {
    page.blank();
    let policy = String::from(spec.existing_resource_policy.clone());
    // compat: these lines have a space before their column, which makes it wider.
    page.line(format!("Existing Resource Policy: \t{}", if policy.is_empty() { NONE } else { &policy }));
    for entry in &spec.existing_resource_policy_overrides {
        let types =
            if entry.included_resources.is_empty() { "*".to_owned() } else { entry.included_resources.join(", ") };
        page.line(format!("\t{types}: {}{}", String::from(entry.policy.clone()), limits(entry)));
    }
    if !spec.allow_recreate.is_empty() {
        page.line(format!("\tRecreated whatever goes with them: {}", spec.allow_recreate.join(", ")));
    }
    page.field("ItemOperationTimeout", spec.item_operation_timeout);
    page.blank();
    page.field("Preserve Service NodePorts", three(spec.preserve_node_ports, "true", "false", "auto"));
    if spec.restore_owner_references {
        page.field("Restore Owner References", true);
    }
    if let Some(reference) = &spec.resource_modifier {
        spec::reference(page, "Resource modifier", reference);
    }
    if spec.skip_default_resource_modifier == Some(true) {
        page.field("Skip Default Resource Modifier", true);
    }
    if let Some(reference) = &spec.resource_policy {
        spec::reference(page, "Resource policies", reference);
    }
    if let Some(config) = &spec.uploader_config {
        page.blank();
        page.line("Uploader config:");
        if config.write_sparse_files == Some(true) {
            page.field("\tWrite Sparse Files", true);
        }
        if config.parallel_files_download > 0 {
            page.field("\tParallel Restore", config.parallel_files_download);
        }
        page.blank();
    }
}
