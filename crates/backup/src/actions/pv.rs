//! `velero.io/pv`: what belongs to a claim, and what is taken out of it (backup.md 1.11, 2.3).

use crate::actions::read::{key, text};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput};
use lifeboat_api::well_known::{ANNOTATION_BACKUP_MUST_INCLUDE, LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_object::ObjectKey;
use serde_json::Value;

/// A claim and what the volume information says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Name of its volume, when it is bound.
    pub(crate) volume: Option<String>,
    /// `Pending`, `Lost`, …
    pub(crate) phase: String,
    /// Value of the label that groups claims, when it has one.
    pub(crate) group: Option<String>,
}

/// The facts of a claim.
pub(crate) fn claim(namespace: &str, name: &str, claim: &Value, group_label: &str) -> Claim {
    let group = claim.pointer("/metadata/labels").and_then(|l| l.get(group_label)).and_then(Value::as_str);
    Claim {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        volume: bound_to(claim).map(str::to_owned),
        phase: text(claim, "/status/phase").to_owned(),
        group: group.filter(|g| !g.is_empty()).map(str::to_owned),
    }
}

/// The volume of a claim that is bound.
pub(crate) fn bound_to(claim: &Value) -> Option<&str> {
    let volume = text(claim, "/spec/volumeName");
    (text(claim, "/status/phase") == "Bound" && !volume.is_empty()).then_some(volume)
}

/// The key of a volume.
pub(crate) fn volume_key(name: &str) -> ObjectKey {
    key("", "persistentvolumes", None, name)
}

/// Takes out of a bound claim what ties it to where its data came from (backup.md 2.3 `velero.io/pv`). Works on the
/// untyped object: Velero loses unknown fields here, we do not. Says whether anything was taken out.
fn clean_claim(claim: &mut Value, backup: &str) -> bool {
    let mut changed = false;
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        changed |= spec.remove("dataSource").is_some();
        changed |= spec.remove("dataSourceRef").is_some();
        let no_class = spec.get("storageClassName").is_some_and(|c| c == "");
        if !no_class {
            changed |= spec.remove("selector").is_some();
        } else if let Some(labels) =
            spec.get_mut("selector").and_then(|s| s.get_mut("matchLabels")).and_then(Value::as_object_mut)
        {
            let before = labels.len();
            labels.retain(|k, _| !k.starts_with("velero.io/"));
            changed |= labels.len() < before;
        }
    }
    if let Some(labels) = claim.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        for stale in [LABEL_RESTORE_NAME, ANNOTATION_BACKUP_MUST_INCLUDE, "velero.io/volume-snapshot-name"] {
            changed |= labels.remove(stale).is_some();
        }
        if labels.get(LABEL_BACKUP_NAME).is_some_and(|v| v != backup) {
            changed |= labels.remove(LABEL_BACKUP_NAME).is_some();
        }
        if changed
            && labels.is_empty()
            && let Some(metadata) = claim.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("labels");
        }
    }
    changed
}

/// Names the volume of a bound claim, and takes out what ties the claim to where its data came from.
pub(crate) struct Pv;

#[async_trait]
impl BackupItemAction for Pv {
    fn name(&self) -> &str {
        "velero.io/pv"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["persistentvolumeclaims"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let BackupItemInput { mut item, backup } = input;
        let Some(volume) = bound_to(&item) else { return Ok(BackupItemOutput::unchanged(item)) };
        let additional_items = vec![volume_key(volume)];
        let is_changed = clean_claim(&mut item, &backup.metadata.name);
        Ok(BackupItemOutput { additional_items, is_changed, ..BackupItemOutput::unchanged(item) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_bound_claim_needs_its_volume() {
        let object =
            json!({"metadata": {"labels": {"g": "x"}}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
        let bound = claim("s", "c", &object, "g");
        assert_eq!(
            (bound.volume.as_deref().map(|v| volume_key(v).to_string()), bound.group),
            (Some("persistentvolumes/pv".to_owned()), Some("x".into()))
        );
        let pending = claim("s", "c", &json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Pending"}}), "g");
        assert_eq!((pending.volume.as_deref(), pending.phase.as_str()), (None, "Pending"));
    }

    #[test]
    fn a_claim_forgets_where_its_data_came_from() {
        let mut claim = json!({
            "metadata": {"labels": {"app": "x", "velero.io/restore-name": "r", "velero.io/backup-name": "old"}},
            "spec": {"dataSource": {}, "dataSourceRef": {}, "selector": {"matchLabels": {"velero.io/x": "1"}}, "storageClassName": "slow", "unknown": 1}
        });
        assert!(clean_claim(&mut claim, "new"));
        assert_eq!(
            claim,
            json!({"metadata": {"labels": {"app": "x"}}, "spec": {"storageClassName": "slow", "unknown": 1}})
        );
        let mut without_class = json!({
            "metadata": {"labels": {"velero.io/backup-name": "new"}},
            "spec": {"storageClassName": "", "selector": {"matchLabels": {"velero.io/x": "1", "disk": "a"}}}
        });
        assert!(clean_claim(&mut without_class, "new"));
        assert_eq!(
            without_class,
            json!({"metadata": {"labels": {"velero.io/backup-name": "new"}}, "spec": {"storageClassName": "", "selector": {"matchLabels": {"disk": "a"}}}})
        );
    }

    #[test]
    fn a_claim_without_such_ties_stays_as_it_is() {
        let before = json!({"metadata": {"labels": {}}, "spec": {"storageClassName": "", "selector": {"matchLabels": {"disk": "a"}}}});
        let mut after = before.clone();
        assert!(!clean_claim(&mut after, "new"));
        assert_eq!(after, before);
    }
}
