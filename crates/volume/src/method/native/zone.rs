//! The zone of a volume, and the tags of its snapshots (velero: pkg/plugin/velero/volumesnapshotter). Pure.

use lifeboat_api::Backup;
use serde_json::Value;
use std::collections::BTreeMap;

/// The tag of a snapshot with the name of its backup.
pub const TAG_BACKUP: &str = "velero.io/backup";
/// The tag of a snapshot with the name of its PersistentVolume.
pub const TAG_VOLUME: &str = "velero.io/pv";

/// The labels of a PersistentVolume that name its zone; the first one takes precedence.
const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// The key by which the driver of GKE requires a zone: a regional volume has two.
const GKE: &str = "topology.gke.io/zone";
/// The other keys by which drivers require one, beside the labels.
const KEYS: [&str; 4] = [
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    "topology.manila.csi.openstack.org/zone",
    "topology.cinder.csi.openstack.org/zone",
];
/// Separator between the zones of a regional volume.
const AND: &str = "__";

/// The zone of a PersistentVolume: that of a label, else the one that its node affinity requires; empty when neither
/// names one. The protocol knows no regions: the configuration of a location has that.
#[must_use]
pub fn zone_of(volume: &Value) -> String {
    let label = |key: &&str| volume["metadata"]["labels"][*key].as_str().filter(|zone| !zone.is_empty());
    match LABELS.iter().find_map(label) {
        Some(zone) => zone.to_owned(),
        None => required(volume),
    }
}

/// The zone that the node affinity requires; of the regional volumes of GKE all of them, joined.
fn required(volume: &Value) -> String {
    let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms").and_then(Value::as_array);
    let expressions = terms.into_iter().flatten().filter_map(|term| term["matchExpressions"].as_array()).flatten();
    let mut of_gke = Vec::new();
    for expression in expressions.filter(|one| one["operator"] == "In") {
        let (Some(key), Some(zone)) = (expression["key"].as_str(), expression["values"][0].as_str()) else { continue };
        if key == GKE {
            of_gke.push(zone);
        } else if KEYS.contains(&key) || LABELS.contains(&key) {
            return zone.to_owned();
        }
    }
    of_gke.join(AND)
}

/// The tags of the snapshot of a volume: all labels of the Backup, its name, and that of the PersistentVolume.
#[must_use]
pub fn tags(backup: &Backup, volume: &str) -> BTreeMap<String, String> {
    let mut tags = backup.metadata.labels.clone();
    tags.insert(TAG_BACKUP.to_owned(), backup.metadata.name.clone());
    tags.insert(TAG_VOLUME.to_owned(), volume.to_owned());
    tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A term with these expressions: key, operator and values of each.
    fn term(expressions: &[(&str, &str, &[&str])]) -> Value {
        let all: Vec<Value> = expressions
            .iter()
            .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
            .collect();
        json!({"matchExpressions": all})
    }

    #[test]
    fn a_zone_stands_in_a_label_or_in_the_node_affinity() {
        let [new, old] = LABELS;
        let ebs: (&str, &str, &[&str]) = (KEYS[0], "In", &["a", "b"]);
        let gke = |zone: &'static [&'static str]| (GKE, "In", zone);
        for (labels, terms, expected) in [
            (json!({new: "n", old: "o"}), vec![term(&[ebs])], "n"),
            (json!({old: "o"}), vec![term(&[ebs])], "o"),
            (json!({new: "", old: 7}), vec![term(&[ebs])], "a"),
            (json!(null), vec![term(&[ebs])], "a"),
            (json!(null), vec![term(&[("host", "In", &["h"]), (KEYS[1], "In", &["b"])])], "b"),
            (json!(null), vec![term(&[(KEYS[2], "In", &["c"])])], "c"),
            (json!(null), vec![term(&[(KEYS[3], "In", &["d"])])], "d"),
            (json!(null), vec![term(&[(new, "In", &["e"])])], "e"),
            (json!(null), vec![term(&[(old, "In", &["f"])])], "f"),
            // What forbids a zone, or names none, requires none.
            (json!(null), vec![term(&[(KEYS[0], "NotIn", &["a"])]), term(&[(KEYS[0], "In", &[])])], ""),
            (json!(null), vec![json!({"matchFields": []}), term(&[ebs])], "a"),
            // A regional volume is in two zones.
            (json!(null), vec![term(&[gke(&["x", "no"])])], "x"),
            (json!(null), vec![term(&[gke(&["x"])]), term(&[gke(&["y"])])], "x__y"),
            (json!(null), vec![term(&[gke(&["x"])]), term(&[ebs]), term(&[gke(&["y"])])], "a"),
            (json!(null), vec![], ""),
        ] {
            let affinity = json!({"required": {"nodeSelectorTerms": terms}});
            let volume = json!({"metadata": {"labels": labels}, "spec": {"nodeAffinity": affinity}});
            assert_eq!(zone_of(&volume), expected, "{volume}");
        }
        for odd in [json!({}), json!("odd"), json!({"metadata": [], "spec": {"nodeAffinity": {"required": []}}})] {
            assert_eq!(zone_of(&odd), "", "{odd}");
        }
    }

    #[test]
    fn a_snapshot_is_tagged_with_its_backup_and_its_volume() {
        let mut backup = Backup::default();
        backup.metadata.name = "nightly".into();
        backup.metadata.labels = [("team", "shop"), (TAG_VOLUME, "another")].map(|(k, v)| (k.into(), v.into())).into();
        let expected = [("team", "shop"), (TAG_BACKUP, "nightly"), (TAG_VOLUME, "pv-1")];
        assert_eq!(tags(&backup, "pv-1"), expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}
