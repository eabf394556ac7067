//! What to back up or restore, as flags: those of `velero backup create` and `velero restore create` that make the
//! `spec` (cli-and-install.md 1.8).

mod backup;
mod restore;

pub(crate) use backup::BackupSpecArgs;
pub(crate) use restore::RestoreSpecArgs;

use lifeboat_api::TypedLocalObjectReference;

/// A reference to a ConfigMap as Velero writes it.
fn config_map(name: &str) -> TypedLocalObjectReference {
    TypedLocalObjectReference { api_group: None, kind: "configmap".to_owned(), name: name.to_owned() }
}
