//! Request for a restore: settings, and validation of what the user asks for
//! (velero: pkg/controller/restore_controller.go).

use crate::request::existing_policies::ExistingPolicies;
use crate::request::priorities::Priorities;
use lifeboat_api::{Backup, BackupPhase, Duration, ExistingResourcePolicy, Features, Restore, RestoreSpec};
use lifeboat_archive::ReadLimits;
use lifeboat_hook::RestoreHooks;
use lifeboat_object::GroupResource;
use lifeboat_select::{RestoreFilter, RulesText};
use lifeboat_store::Archive;
use lifeboat_volume::mover_pod::MoverPods;
use std::sync::Arc;

/// A restore to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// The resource as the user wrote it, with name, namespace and UID.
    pub restore: Restore,
    /// Settings that the server or the command line adds.
    pub settings: Settings,
}

/// Default time for which the originals of objects that a restore recreates or removes are kept: 30 days.
const KEEP_REPLACED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Settings for the movement of volumes' data.
#[derive(Clone, Debug)]
pub struct MoverSettings {
    /// Set when a node agent in the namespace of the restore may be used: a server restores, and the restore is in the cluster.
    pub may_be_used: bool,
    /// Longest time for the files of all volumes of one restore.
    pub fs_backup_timeout: Duration,
    /// The image of the server, for the init container in which pods wait; empty for that of the Deployment `velero`.
    pub image: String,
    /// The version of the server, for an image without a tag.
    pub version: String,
    /// The movers that the restore starts itself, without a server; `None` where a node agent does so.
    pub pods: Option<Arc<MoverPods>>,
    /// The storage location of the backup by its name in the cluster; empty for the one that the backup names.
    pub location: String,
}

impl Default for MoverSettings {
    fn default() -> Self {
        Self {
            may_be_used: false,
            fs_backup_timeout: Duration::from_secs(4 * 3600),
            image: String::new(),
            version: String::new(),
            pods: None,
            location: String::new(),
        }
    }
}

/// Settings that are not of one restore.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which types come first and last.
    pub priorities: Priorities,
    /// Longest wait for objects and namespaces that are being deleted.
    pub terminating_resource_timeout: Duration,
    /// Longest wait for a single resource: for a definition to be established, for an object to be gone that is made
    /// anew, and for the items of an action to be ready where the action sets no time. Claims may take as long to get
    /// their volumes after everything is restored; the caller of [`crate::end::finalize`] sees to that.
    pub resource_timeout: Duration,
    /// Deadline of asynchronous operations when the restore names none.
    pub default_item_operation_timeout: Duration,
    /// The most time that commands of annotations of pods may ask for; `None` for as much as those of a spec.
    pub max_hook_timeout: Option<Duration>,
    /// The movement of volumes' data.
    pub movers: MoverSettings,
    /// Features that are enabled.
    pub features: Features,
    /// The versions in which objects are restored, by type, in place of a ConfigMap.
    pub version_priorities: Option<RulesText>,
    /// Resource modifiers in place of a ConfigMap.
    pub resource_modifiers: Option<RulesText>,
    /// The ConfigMap, in the namespace of the restore, with the resource modifiers of restores that name none; empty for none.
    pub default_resource_modifiers: String,
    /// Filter policies in place of a ConfigMap.
    pub resource_policies: Option<RulesText>,
    /// Set when a preview asks the API server, by a dry run, about each object that would be written.
    pub asks_server: bool,
    /// Set when a resumed restore looks at every object again, including those that its checkpoint marks as done:
    /// somebody may have changed or deleted them since. It is held to the plan that it names as if it were the first
    /// run.
    pub looks_again: bool,
    /// Set when the objects that are in the cluster already are listed, one level at a time, before it is written.
    /// Where many exist, that takes far fewer requests, but their keys stay in memory. Otherwise each object is created
    /// first, and read when it exists already.
    pub lists_existing: bool,
    /// Set when a server restores. The name identifies a single restore in its namespace then.
    pub served: bool,
    /// Least time for which the originals of objects that a restore recreates or removes stay in the bucket, even if
    /// the restore is deleted.
    pub keep_replaced: Duration,
    /// Set when objects that are left out by their type, namespace or name are not read at all: few are selected out of
    /// many. Objects that are not read are not checked, and not counted among those that are left out.
    pub reads_selected_only: bool,
    /// The archive of the backup that the spec names as `backupName`, and of no other, where the caller has opened it already: nobody
    /// compares the two. It is passed over where the index is ignored, since it was opened by that.
    pub archive: Option<Archive>,
    /// Bounds on the archive.
    pub limits: ReadLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            priorities: Priorities::default(),
            terminating_resource_timeout: Duration::from_secs(600),
            resource_timeout: Duration::from_secs(600),
            default_item_operation_timeout: Duration::from_secs(4 * 3600),
            max_hook_timeout: None,
            movers: MoverSettings::default(),
            features: Features::default(),
            version_priorities: None,
            resource_modifiers: None,
            default_resource_modifiers: String::new(),
            resource_policies: None,
            asks_server: false,
            looks_again: false,
            lists_existing: true,
            served: false,
            keep_replaced: KEEP_REPLACED,
            reads_selected_only: false,
            archive: None,
            limits: ReadLimits::default(),
        }
    }
}

/// The reasons why a restore was refused before anything was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the restore is not valid: {}", .0.join("; "))]
pub struct ValidationErrors(pub Vec<String>);

/// Types that are never restored (velero: pkg/controller/restore_controller.go).
pub(crate) const NON_RESTORABLE: [&str; 9] = [
    "nodes",
    "events",
    "events.events.k8s.io",
    "backups.velero.io",
    "restores.velero.io",
    "resticrepositories.velero.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "backuprepositories.velero.io",
];

/// Returns true if objects of a type are ever restored.
#[must_use]
pub fn is_restorable(resource: &GroupResource) -> bool {
    !NON_RESTORABLE.contains(&resource.to_string().as_str())
}

/// Fills in defaults, so that the stored resource shows the settings that were used.
///
/// # Errors
/// Everything that is wrong with the request, at once.
pub(crate) fn prepare(request: &Request) -> Result<Restore, ValidationErrors> {
    let (restore, errors) = prepared(request);
    if errors.is_empty() { Ok(restore) } else { Err(ValidationErrors(errors)) }
}

/// The same for a preview, which removes nothing.
pub(crate) fn prepare_preview(request: &Request) -> Result<Restore, ValidationErrors> {
    let (restore, errors) = filled_in(request);
    if errors.is_empty() { Ok(restore) } else { Err(ValidationErrors(errors)) }
}

/// The restore with every default filled in, and everything that is wrong with the request.
#[must_use]
pub fn prepared(request: &Request) -> (Restore, Vec<String>) {
    let (restore, mut errors) = filled_in(request);
    if restore.spec.prune && restore.spec.plan_digest.is_empty() {
        errors.push(
            "prune: objects are removed only by a plan that somebody has seen: give its planDigest too".to_owned(),
        );
    }
    (restore, errors)
}

fn filled_in(request: &Request) -> (Restore, Vec<String>) {
    let mut restore = request.restore.clone();
    let spec = &mut restore.spec;
    let mut errors = Vec::new();
    for resource in &spec.included_resources {
        if NON_RESTORABLE.contains(&resource.as_str()) {
            errors.push(format!("{resource} are non-restorable resources"));
        }
    }
    for resource in NON_RESTORABLE {
        if !spec.excluded_resources.iter().any(|r| r == resource) {
            spec.excluded_resources.push(resource.to_owned());
        }
    }
    errors.extend(RestoreFilter::validate(spec));
    if spec.backup_name.is_empty() == spec.schedule_name.is_empty() {
        errors
            .push("Either a backup or schedule must be specified as a source for the restore, but not both".to_owned());
    }
    errors.extend(ExistingPolicies::validate(spec));
    errors.extend(plan_problems(spec));
    if spec.item_operation_timeout.is_zero() {
        spec.item_operation_timeout = request.settings.default_item_operation_timeout;
    }
    errors.extend(RestoreHooks::new(&spec.hooks).err().unwrap_or_default());
    (restore, errors)
}

/// Returns the errors in the plan that a restore is held to, and in its selection of objects to remove.
fn plan_problems(spec: &RestoreSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if !spec.plan_digest.is_empty() && !is_digest(&spec.plan_digest) {
        problems.push(format!(
            "planDigest: {:?} is no digest of a plan: it is sha256: and 64 digits, as `restore plan` says",
            spec.plan_digest
        ));
    }
    if spec.prune && spec.existing_resource_policy != ExistingResourcePolicy::Exact {
        problems.push("prune: only existingResourcePolicy: exact finds objects that can be removed".to_owned());
    }
    problems
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Checks that a Backup of a cluster can be restored from: it has ended.
///
/// # Errors
/// Its phase, when not.
pub fn check_source(backup: &Backup) -> Result<(), ValidationErrors> {
    match backup.status.phase {
        Some(phase) if phase.has_contents() => Ok(()),
        phase => Err(refused(backup, phase)),
    }
}

/// Checks that the record of a backup in a bucket can be restored from. Also one that waits for operations: the cluster that waited may be
/// lost, and all that was saved before is there.
///
/// # Errors
/// Its phase, when not.
pub fn check_record(record: &Backup) -> Result<(), ValidationErrors> {
    match record.status.phase {
        Some(phase) if phase.has_contents() || is_waiting(phase) => Ok(()),
        phase => Err(refused(record, phase)),
    }
}

/// Returns true if the operations of a backup, or its end, are waited for in this phase.
pub(crate) fn is_waiting(phase: BackupPhase) -> bool {
    phase.waits_for_operations() || phase.is_finalizing()
}

fn refused(backup: &Backup, phase: Option<BackupPhase>) -> ValidationErrors {
    let is_made = phase.is_some_and(|phase| phase == BackupPhase::InProgress || is_waiting(phase));
    ValidationErrors(vec![format!(
        "backup \"{}\" is in phase \"{}\" and cannot be used as a restore source{}",
        backup.metadata.name,
        phase.map_or("", BackupPhase::as_str),
        if is_made { ": it is still being made" } else { "" }
    )])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_removed_without_a_plan_that_somebody_has_seen() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let no_digest =
            "planDigest: \"sha256:12\" is no digest of a plan: it is sha256: and 64 digits, as `restore plan` says";
        let not_exact = "prune: only existingResourcePolicy: exact finds objects that can be removed";
        let unseen = "prune: objects are removed only by a plan that somebody has seen: give its planDigest too";
        for (spec, expected) in [
            (json!({"existingResourcePolicy": "exact"}), vec![]),
            (json!({"existingResourcePolicy": "exact", "prune": true, "planDigest": digest}), vec![]),
            (json!({"existingResourcePolicy": "exact", "prune": true}), vec![unseen]),
            (json!({"existingResourcePolicy": "update", "prune": true, "planDigest": digest}), vec![not_exact]),
            (json!({"planDigest": "sha256:12", "prune": true}), vec![no_digest, not_exact]),
            (json!({"prune": true}), vec![not_exact, unseen]),
        ] {
            let mut restore = Restore { spec: serde_json::from_value(spec.clone()).unwrap(), ..Restore::default() };
            restore.spec.backup_name = "b".to_owned();
            let request = Request { restore, settings: Settings::default() };
            assert_eq!(prepared(&request).1, expected, "{spec}");
            // A preview removes nothing.
            let previewed = prepare_preview(&request).err().map_or(Vec::new(), |errors| errors.0);
            let expected: Vec<_> = expected.into_iter().filter(|problem| *problem != unseen).collect();
            assert_eq!(previewed, expected, "{spec}");
        }
    }
}
