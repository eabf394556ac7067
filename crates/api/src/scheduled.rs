//! The backups that a schedule makes (velero: pkg/controller/gc_controller.go), and the rules by which they are kept.

use crate::{Backup, OwnerReference, Resource, Retention, Schedule, label_value, well_known};
use std::collections::BTreeMap;

/// The annotation in which `kubectl apply` notes the schedule as it was applied. Copied to a backup, it would be taken
/// for the backup as it was applied.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

impl Schedule {
    /// Its rules: those of its field, or else of its annotation, where the definition has no such field; `None` when there are
    /// none.
    ///
    /// # Errors
    /// Rules that cannot be followed.
    pub fn retention(&self) -> Result<Option<Retention>, String> {
        match &self.spec.retention {
            Some(rules) => rules.refusal().map_or_else(|| Ok(Some(rules.clone())), Err),
            None => {
                let annotation = self.metadata.annotations.get(well_known::ANNOTATION_RETENTION);
                annotation.map(|text| Retention::parse(text)).transpose()
            }
        }
    }

    /// The share of objects, in percent of those of the backup before, below which a backup is not good for its
    /// retention: half when nothing is set; 0 turns the check off.
    ///
    /// # Errors
    /// An annotation that is no percentage.
    pub fn shrink_threshold(&self) -> Result<u8, String> {
        let name = well_known::ANNOTATION_SHRINK_THRESHOLD;
        let Some(text) = self.metadata.annotations.get(name) else { return Ok(DEFAULT_SHRINK_THRESHOLD) };
        let percent = text.trim().trim_end_matches('%').parse().ok().filter(|percent| *percent <= 100);
        percent.ok_or_else(|| format!("invalid annotation {name}: {text:?} is no number of percent from 0 to 100"))
    }

    /// The value of the label [`well_known::LABEL_SCHEDULE_NAME`] on its backups.
    #[must_use]
    pub fn label(&self) -> String {
        label_value(&self.metadata.name)
    }

    /// A backup of it, which has no name yet: its spec is the template; labels and annotations are those of the template, or
    /// else those of the schedule.
    #[must_use]
    pub fn backup(&self) -> Backup {
        let (own, template) = (&self.metadata, &self.spec.template);
        let either = |template: &BTreeMap<String, String>, own: &BTreeMap<String, String>| {
            if template.is_empty() { own.clone() } else { template.clone() }
        };
        let mut backup = Backup { spec: template.clone(), ..Backup::default() };
        if let Some(policy) = &mut backup.spec.resource_policy {
            policy.api_group = None;
            policy.kind = "configmap".to_owned();
        }
        let made = &mut backup.metadata;
        made.namespace.clone_from(&own.namespace);
        made.labels = either(&template.metadata.labels, &own.labels);
        made.labels.insert(well_known::LABEL_SCHEDULE_NAME.to_owned(), self.label());
        made.annotations = either(&template.metadata.annotations, &own.annotations);
        made.annotations.remove(APPLIED);
        made.annotations.remove(well_known::ANNOTATION_RETENTION);
        made.annotations.remove(well_known::ANNOTATION_SHRINK_THRESHOLD);
        if self.spec.use_owner_references_in_backup == Some(true) {
            made.owner_references.push(OwnerReference {
                api_version: Self::api_version(),
                kind: Self::KIND.to_owned(),
                name: own.name.clone(),
                uid: own.uid.clone(),
                controller: Some(true),
                block_owner_deletion: None,
            });
        }
        backup
    }
}

impl Backup {
    /// The label of the schedule of which it is: [`Schedule::label`]; `None` for one that no schedule has made, nor was made from one.
    #[must_use]
    pub fn schedule_label(&self) -> Option<&str> {
        self.metadata.labels.get(well_known::LABEL_SCHEDULE_NAME).map(String::as_str)
    }
}

/// The [threshold](Schedule::shrink_threshold) where nothing says another, in percent.
pub const DEFAULT_SHRINK_THRESHOLD: u8 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_backup_counts_with_half_of_the_objects_or_the_share_that_is_set() {
        let of = |text: Option<&str>| {
            let mut schedule = Schedule::default();
            let said = text.map(|text| (well_known::ANNOTATION_SHRINK_THRESHOLD.to_owned(), text.to_owned()));
            schedule.metadata.annotations = said.into_iter().collect();
            schedule.shrink_threshold()
        };
        for (text, expected) in [(None, 50), (Some("0"), 0), (Some("20"), 20), (Some(" 100% "), 100)] {
            assert_eq!(of(text), Ok(expected), "{text:?}");
        }
        for text in ["", "101", "-1", "half"] {
            let why = "is no number of percent from 0 to 100";
            assert_eq!(of(Some(text)), Err(format!("invalid annotation lifeboat.io/shrink-threshold: {text:?} {why}")));
        }
    }

    #[test]
    fn a_backup_of_a_schedule_is_its_template() {
        let made = |change: &dyn Fn(&mut Schedule)| {
            let mut schedule: Schedule = serde_json::from_value(json!({
                "apiVersion": "velero.io/v1", "kind": "Schedule",
                "metadata": {"name": "nightly", "namespace": "velero", "uid": "u", "labels": {"own": "1"},
                    "annotations": {"own": "2", APPLIED: "{}", well_known::ANNOTATION_RETENTION: "{}"}},
                "spec": {"schedule": "@daily", "template": {
                    "includedNamespaces": ["shop"], "resourcePolicy": {"apiGroup": "x", "kind": "Policy", "name": "p"}}},
            }))
            .unwrap();
            change(&mut schedule);
            let backup = schedule.backup();
            let spec = &backup.spec;
            assert_eq!(
                (&spec.included_namespaces[..], spec.ttl),
                (&["shop".to_owned()][..], schedule.spec.template.ttl)
            );
            assert_eq!(spec.metadata, schedule.spec.template.metadata);
            json!({"metadata": backup.metadata, "policy": spec.resource_policy})
        };
        let policy = json!({"kind": "configmap", "name": "p", "apiGroup": null});
        let label = well_known::LABEL_SCHEDULE_NAME;
        let expected = |labels: serde_json::Value, annotations: serde_json::Value| json!({"metadata": {"namespace": "velero", "labels": labels, "annotations": annotations}, "policy": policy});
        let plain = expected(json!({"own": "1", label: "nightly"}), json!({"own": "2"}));
        assert_eq!(made(&|_| {}), plain);
        assert_eq!(made(&|schedule| schedule.spec.use_owner_references_in_backup = Some(false)), plain);
        let mut owned = plain.clone();
        owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "velero.io/v1", "kind": "Schedule", "name": "nightly", "uid": "u", "controller": true}]);
        assert_eq!(made(&|schedule| schedule.spec.use_owner_references_in_backup = Some(true)), owned);
        let of_template = made(&|schedule| {
            schedule.spec.template.metadata.labels = [("t".to_owned(), "3".to_owned())].into();
            schedule.spec.template.metadata.annotations = [("t".to_owned(), "4".to_owned())].into();
        });
        assert_eq!(of_template, expected(json!({"t": "3", label: "nightly"}), json!({"t": "4"})));
        // The API server would refuse it as a label.
        let long = made(&|schedule| schedule.metadata.name = "n".repeat(70));
        assert_eq!(long["metadata"]["labels"][label], label_value(&"n".repeat(70)));
    }

    #[test]
    fn the_field_goes_before_the_annotation() {
        let daily = |number| Retention { keep_daily: Some(number), ..Retention::default() };
        let mut schedule = Schedule::default();
        assert_eq!(schedule.retention(), Ok(None));
        schedule.metadata.annotations.insert(well_known::ANNOTATION_RETENTION.into(), r#"{"keepDaily":7}"#.into());
        assert_eq!(schedule.retention(), Ok(Some(daily(7))));
        schedule.spec.retention = Some(daily(3));
        assert_eq!(schedule.retention(), Ok(Some(daily(3))));
        schedule.spec.retention = Some(daily(-3));
        let why = "invalid retention: keepDaily is -3, and must not be negative";
        assert_eq!(schedule.retention(), Err(why.to_owned()));
    }
}
