//! `velero.io/pv`: names the volume of a claim, and takes fields out of the claim (velero: pkg/backup/itemblock.go,
//! pkg/backup/actions).

use crate::actions::read::key;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput};
use lifeboat_api::Backup;
use lifeboat_api::well_known::{
    ANNOTATION_BACKUP_MUST_INCLUDE, LABEL_BACKUP_NAME, LABEL_RESTORE_NAME, LABEL_VOLUME_SNAPSHOT_NAME,
};
use lifeboat_object::{Head, Item, ObjectKey, Text, is_there, view};
use serde::Deserialize;
use serde_json::Value;

/// The facts about a claim: its volume, its phase and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimFacts {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Name of its volume, when it is bound.
    pub(crate) volume: Option<String>,
    /// `Pending`, `Lost`, …
    pub(crate) phase: String,
    /// Value of the label that groups claims, when it has one.
    pub(crate) group: Option<String>,
}

/// The fields of a claim that backups read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimView {
    spec: Option<ClaimSpecView>,
    status: Option<ClaimStatusView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpecView {
    volume_name: Text,
    #[serde(deserialize_with = "is_there")]
    data_source: bool,
    #[serde(deserialize_with = "is_there")]
    data_source_ref: bool,
    #[serde(deserialize_with = "is_there")]
    selector: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatusView {
    phase: Text,
}

impl ClaimView {
    fn phase(&self) -> &str {
        self.status.as_ref().map_or("", |status| &status.phase.0)
    }

    /// Its volume, when it is bound.
    pub(crate) fn bound_to(&self) -> Option<&str> {
        let volume = self.spec.as_ref().map_or("", |spec| spec.volume_name.0.as_str());
        (self.phase() == "Bound" && !volume.is_empty()).then_some(volume)
    }

    /// True when [`clean_claim`] may find something in its spec.
    fn may_have_ties(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.data_source || spec.data_source_ref || spec.selector)
    }
}

/// The facts of a claim; a claim of another shape has none.
pub(crate) fn claim(item: &Item, group_label: &str) -> ClaimFacts {
    let view = view::<ClaimView>(&item.body).unwrap_or_default();
    let Head { namespace, name, labels, .. } = &item.head;
    ClaimFacts {
        namespace: namespace.clone().unwrap_or_default(),
        name: name.clone(),
        volume: view.bound_to().map(str::to_owned),
        phase: view.phase().to_owned(),
        group: labels.get(group_label).filter(|group| !group.is_empty()).cloned(),
    }
}

/// The key of a volume.
pub(crate) fn volume_key(name: &str) -> ObjectKey {
    key("", "persistentvolumes", None, name)
}

/// Labels that say where the data of a claim came from.
const STALE_LABELS: [&str; 3] = [LABEL_RESTORE_NAME, ANNOTATION_BACKUP_MUST_INCLUDE, LABEL_VOLUME_SNAPSHOT_NAME];

/// Takes out of a bound claim the fields that tie it to the source of its data (velero: pkg/backup/actions). Works on
/// the untyped object: Velero loses unknown fields here, we do not. Returns true if anything was taken out.
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
        for stale in STALE_LABELS {
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
        let view = ClaimView::deserialize(&item).unwrap_or_default();
        let Some(volume) = view.bound_to() else { return Ok(BackupItemOutput::unchanged(item)) };
        let additional_items = vec![volume_key(volume)];
        let is_changed = clean_claim(&mut item, &backup.metadata.name);
        Ok(BackupItemOutput { additional_items, is_changed, ..BackupItemOutput::unchanged(item) })
    }

    fn named_if_unchanged(&self, item: &Item, backup: &Backup) -> Option<Vec<ObjectKey>> {
        let view = view::<ClaimView>(&item.body)?;
        let Some(volume) = view.bound_to() else { return Some(Vec::new()) };
        let labels = &item.head.labels;
        let is_tied = view.may_have_ties()
            || STALE_LABELS.iter().any(|label| labels.contains_key(*label))
            || labels.get(LABEL_BACKUP_NAME).is_some_and(|name| *name != backup.metadata.name);
        (!is_tied).then(|| vec![volume_key(volume)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use lifeboat_object::ApiResource;
    use serde_json::json;
    use std::sync::Arc;

    fn item(claim: &Value) -> Item {
        let resource = ApiResource::persistent_volume_claims();
        Item::parse(Arc::new(resource), claim.to_string().into()).unwrap()
    }

    #[test]
    fn a_glance_at_a_claim_says_what_the_action_would_or_nothing() {
        let mut backup = Backup::default();
        backup.metadata.name = "new".to_owned();
        for (labels, spec, phase, is_clear) in [
            (json!({}), json!({"volumeName": "pv"}), "Bound", true),
            (json!({"velero.io/backup-name": "new"}), json!({"volumeName": "pv"}), "Bound", true),
            (json!({"velero.io/backup-name": "old"}), json!({"volumeName": "pv"}), "Bound", false),
            (json!({"velero.io/restore-name": "r"}), json!({"volumeName": "pv"}), "Bound", false),
            (json!({}), json!({"volumeName": "pv", "dataSource": null}), "Bound", false),
            (json!({}), json!({"volumeName": "pv", "dataSourceRef": {}}), "Bound", false),
            (json!({}), json!({"volumeName": "pv", "selector": {}}), "Bound", false),
            (json!({}), json!({"volumeName": "pv", "selector": {}}), "Lost", true),
            (json!({}), json!({}), "Bound", true),
            (json!({}), json!({"volumeName": 7}), "Bound", true),
            (json!({}), json!("odd"), "Bound", false),
        ] {
            let claim = json!({"metadata": {"name": "c", "labels": labels}, "spec": spec, "status": {"phase": phase}});
            let seen = Pv.named_if_unchanged(&item(&claim), &backup);
            let input = BackupItemInput { item: claim.clone(), backup: &backup };
            let answer = Pv.execute(input).now_or_never().unwrap().unwrap();
            assert_eq!(seen.is_some(), is_clear, "{claim}");
            if let Some(seen) = seen {
                assert_eq!((seen, false), (answer.additional_items, answer.is_changed), "{claim}");
            }
        }
    }

    #[test]
    fn only_a_bound_claim_needs_its_volume() {
        let bound = claim(
            &item(&json!({"metadata": {"name": "c", "namespace": "s", "labels": {"g": "x"}},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}})),
            "g",
        );
        assert_eq!(
            (bound.volume.as_deref().map(|v| volume_key(v).to_string()), bound.group),
            (Some("persistentvolumes/pv".to_owned()), Some("x".into()))
        );
        let pending = claim(
            &item(&json!({"metadata": {"name": "c"}, "spec": {"volumeName": "pv"},
            "status": {"phase": "Pending"}})),
            "g",
        );
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
    fn a_claim_loses_only_the_labels_that_name_the_source_of_its_data() {
        for (label, value, stays) in [
            ("velero.io/restore-name", "r", false),
            ("backup.velero.io/must-include-additional-items", "true", false),
            ("velero.io/volume-snapshot-name", "s", false),
            ("velero.io/backup-name", "old", false),
            ("velero.io/backup-name", "new", true),
            ("velero.io/exclude-from-backup", "false", true),
            ("app", "x", true),
        ] {
            let mut claim = json!({"metadata": {"labels": {label: value, "other": "y"}}, "spec": {}});
            assert_eq!(clean_claim(&mut claim, "new"), !stays, "{label}={value}");
            let expected = if stays { json!({label: value, "other": "y"}) } else { json!({"other": "y"}) };
            assert_eq!(claim["metadata"]["labels"], expected, "{label}={value}");
        }
    }

    #[test]
    fn a_claim_without_such_ties_stays_as_it_is() {
        let before = json!({"metadata": {"labels": {}}, "spec": {"storageClassName": "", "selector": {"matchLabels": {"disk": "a"}}}});
        let mut after = before.clone();
        assert!(!clean_claim(&mut after, "new"));
        assert_eq!(after, before);
    }
}
