//! Results of a backup or restore: warnings and errors, operations of plugins, objects.

use super::facts::{FetchedFile, ItemOperation};
use super::page::{NONE, Page};
use lifeboat_api::{HookStatus, Time};
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_object::{ResultSet, Results};

/// Warnings and errors that could not be had.
pub(crate) fn failed_results(page: &mut Page<'_>, verb: &str, why: &str) {
    page.field("Warnings", format_args!("<error {verb} warnings: {why}>"));
    page.blank();
    page.field("Errors", format_args!("<error {verb} errors: {why}>"));
}

/// Warnings and errors, each below its heading and after a blank line, as far as the status counts some; then notes.
pub(crate) fn results(page: &mut Page<'_>, results: &Results, warnings: i64, errors: i64) {
    for (title, set, count) in [("Warnings", &results.warnings, warnings), ("Errors", &results.errors, errors)] {
        if count > 0 {
            page.blank();
            page.line(format!("{title}:"));
            messages(page, set);
        }
    }
    if !results.notes.is_empty() {
        page.blank();
        page.line("Notes:");
        results.notes.iter().for_each(|note| page.line(format!("\t{note}")));
    }
}

fn messages(page: &mut Page<'_>, set: &ResultSet) {
    for (name, messages) in [("\tVelero", &set.velero), ("\tCluster", &set.cluster)] {
        // compat: one column more than the messages have.
        page.field(name, if messages.is_empty() { format!("\t{NONE}") } else { messages.join("\n\t\t") });
    }
    if set.namespaces.is_empty() {
        page.line(format!("\tNamespaces: {NONE}"));
        return;
    }
    page.line("\tNamespaces:");
    for (namespace, messages) in &set.namespaces {
        page.field(&format!("\t\t{namespace}"), messages.join("\n\t\t\t"));
    }
}

/// Operations attempted, completed and failed.
pub(crate) struct OutcomeCounts {
    pub(crate) attempted: i64,
    pub(crate) completed: i64,
    pub(crate) failed: i64,
}

/// Operations of plugins: `title` is `Backup` or `Restore`.
pub(crate) fn operations(
    page: &mut Page<'_>,
    title: &str,
    counts: &OutcomeCounts,
    operations: &FetchedFile<Vec<ItemOperation>>,
) {
    let heading = format!("{title} Item Operations");
    if !page.style.details {
        let OutcomeCounts { attempted, completed, failed } = counts;
        page.field(
            &heading,
            format_args!(
                "{completed} of {attempted} completed successfully, {failed} failed (specify --details for more information)"
            ),
        );
        return;
    }
    match operations {
        FetchedFile::Ungotten(why) | FetchedFile::Unreadable(why) => {
            page.field(&heading, format_args!("<error getting operation info: {why}>"));
        }
        FetchedFile::Missing => page.field(&heading, "<error getting operation info: file not found>"),
        FetchedFile::There(operations) => {
            page.line(format!("{heading}:"));
            for one in operations {
                operation(page, title, one);
            }
        }
    }
}

fn operation(page: &mut Page<'_>, title: &str, operation: &ItemOperation) {
    let (spec, status) = (&operation.spec, &operation.status);
    page.line(format!("\tOperation for {}:", spec.resource_identifier));
    let plugin = if spec.backup_item_action.is_empty() { &spec.restore_item_action } else { &spec.backup_item_action };
    page.field(&format!("\t\t{title} Item Action Plugin"), plugin);
    page.field("\t\tOperation ID", &spec.operation_id);
    let items = spec.post_operation_items.as_deref().unwrap_or_default();
    if !items.is_empty() {
        page.line("\t\tItems to Update:");
        for item in items {
            page.line(format!("\t\t\t{item}"));
        }
    }
    page.field("\t\tPhase", &status.phase);
    if !status.error.is_empty() {
        page.field("\t\tOperation Error", &status.error);
    }
    if status.n_completed > 0 || status.n_total > 0 {
        let (done, total, units) = (status.n_completed, status.n_total, &status.operation_units);
        page.field("\t\tProgress", format_args!("{done} of {total} complete ({units})"));
    }
    if !status.description.is_empty() {
        page.field("\t\tProgress description", &status.description);
    }
    for (name, time) in [("Created", status.created), ("Started", status.started), ("Updated", status.updated)] {
        if let Some(time) = time {
            page.field(&format!("\t\t{name}"), page.style.time(Time::new(time)));
        }
    }
}

/// Objects by type; `word` is `backup` or `restore`.
pub(crate) fn resource_list(page: &mut Page<'_>, word: &str, list: &FetchedFile<ResourceList>) {
    match list {
        FetchedFile::Missing => page.field("Resource List", format_args!("<{word} resource list not found>")),
        FetchedFile::Ungotten(why) => {
            page.field("Resource List", format_args!("<error getting {word} resource list: {why}>"));
        }
        FetchedFile::Unreadable(why) => {
            page.field("Resource List", format_args!("<error reading {word} resource list: {why}>"));
        }
        FetchedFile::There(list) => {
            page.line("Resource List:");
            for (kind, names) in &list.0 {
                page.line(format!("\t{kind}:"));
                for name in names {
                    page.line(format!("\t\t- {name}"));
                }
            }
        }
    }
}

/// Hooks run; `space` stands between the colon and the column.
pub(crate) fn hooks(page: &mut Page<'_>, status: Option<&HookStatus>, space: &str) {
    if let Some(HookStatus { hooks_attempted, hooks_failed, .. }) = status {
        page.blank();
        page.line(format!("HooksAttempted:{space}\t{hooks_attempted}"));
        page.line(format!("HooksFailed:{space}\t{hooks_failed}"));
    }
}
