//! From what a user asked for to what will be done: validation (restore.md 1.3).

use crate::policy::ExistingPolicies;
use crate::priorities::Priorities;
use lifeboat_api::{Backup, BackupPhase, Duration, Features, Restore};
use lifeboat_archive::ReadLimits;
use lifeboat_hook::RestoreHooks;
use lifeboat_select::{Document, RestoreFilter};

/// A restore to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// The resource as the user wrote it, with name, namespace and UID.
    pub restore: Restore,
    /// What the server or the command line adds.
    pub settings: Settings,
}

/// Settings that are not of one restore.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which types come first and last.
    pub priorities: Priorities,
    /// How long to wait for a namespace that is being deleted.
    pub terminating_resource_timeout: Duration,
    /// How long to wait for a resource definition to be established.
    pub resource_timeout: Duration,
    /// Deadline of asynchronous operations when the restore names none.
    pub default_item_operation_timeout: Duration,
    /// What is switched on.
    pub features: Features,
    /// The versions in which objects are restored, by type, in place of a ConfigMap.
    pub version_priorities: Option<Document>,
    /// Resource modifiers in place of a ConfigMap.
    pub resource_modifiers: Option<Document>,
    /// The ConfigMap, in the namespace of the restore, with the resource modifiers of restores that name none; empty for none.
    pub default_resource_modifiers: String,
    /// Filter policies in place of a ConfigMap.
    pub resource_policies: Option<Document>,
    /// Whether a preview asks the API server, by a dry run, about each object that would be written.
    pub asks_server: bool,
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
            features: Features::default(),
            version_priorities: None,
            resource_modifiers: None,
            default_resource_modifiers: String::new(),
            resource_policies: None,
            asks_server: false,
            limits: ReadLimits::default(),
        }
    }
}

/// Why a restore was refused before anything was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the restore is not valid: {}", .0.join("; "))]
pub struct ValidationErrors(pub Vec<String>);

/// Types that are never restored (restore.md 1.3).
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

/// Fills in defaults, so that the stored resource shows what was done.
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
    errors.extend(ExistingPolicies::unseen_removal(&restore.spec));
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
    if spec.item_operation_timeout.is_zero() {
        spec.item_operation_timeout = request.settings.default_item_operation_timeout;
    }
    errors.extend(RestoreHooks::new(&spec.hooks).err().unwrap_or_default());
    (restore, errors)
}

/// Whether a backup can be restored from.
///
/// # Errors
/// Its phase, when not.
pub fn check_source(backup: &Backup) -> Result<(), ValidationErrors> {
    match backup.status.phase {
        Some(BackupPhase::Completed | BackupPhase::PartiallyFailed) => Ok(()),
        phase => Err(ValidationErrors(vec![format!(
            "backup \"{}\" is in phase \"{}\" and cannot be used as a restore source",
            backup.metadata.name,
            phase.map_or_else(String::new, |p| format!("{p:?}"))
        )])),
    }
}
