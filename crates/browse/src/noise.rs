//! Objects and fields that tell nothing about a change of a cluster, because servers, controllers and backups write
//! them.

use lifeboat_api::well_known::{ANNOTATION_BACKUP_MUST_INCLUDE, LABEL_BACKUP_NAME, LABEL_VOLUME_SNAPSHOT_NAME};
use lifeboat_object::{GroupResource, Quantity};
use lifeboat_patch::owned::is_bound;
use lifeboat_patch::restored::{SOURCES, group, is_made_anew};
use serde_json::{Map, Value};

/// Types of which every object is made by servers and controllers: what passes, and what a server notes of its work.
const TYPES: [(&str, &str); 15] = [
    ("", "events"),
    ("events.k8s.io", "events"),
    ("", "nodes"),
    ("coordination.k8s.io", "leases"),
    ("networking.k8s.io", "ipaddresses"),
    ("velero.io", "backups"),
    ("velero.io", "restores"),
    ("velero.io", "deletebackuprequests"),
    ("velero.io", "downloadrequests"),
    ("velero.io", "serverstatusrequests"),
    ("velero.io", "backuprepositories"),
    ("velero.io", "podvolumebackups"),
    ("velero.io", "podvolumerestores"),
    ("velero.io", "datauploads"),
    ("velero.io", "datadownloads"),
];

/// Groups of the snapshots that a backup takes of volumes and has deleted again.
const SNAPSHOTS: [&str; 2] = ["snapshot.storage.k8s.io", "groupsnapshot.storage.k8s.io"];

/// Labels and annotations that a backup puts on its copy of an object.
const MARKS: [&str; 2] = [ANNOTATION_BACKUP_MUST_INCLUDE, LABEL_VOLUME_SNAPSHOT_NAME];

/// Returns true if no object of the type is compared.
pub(crate) fn is_noise_type(resource: &GroupResource) -> bool {
    TYPES.iter().any(|(group, name)| resource.group == *group && resource.resource == *name)
}

/// Returns true if an object of any other type is not compared either.
pub(crate) fn is_noise(object: &Value) -> bool {
    let is_of_backup =
        SNAPSHOTS.contains(&group(object)) && object["metadata"]["labels"][LABEL_BACKUP_NAME].is_string();
    is_of_backup || is_made_anew(object)
}

/// Returns true if a cluster makes the object in each namespace and deletes it together with that. Changes in it may be
/// a user's doing.
pub(crate) fn comes_with_namespace(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "ServiceAccount" && object["metadata"]["name"] == "default"
}

/// Takes out of an object what a backup puts on its copy or leaves out of it.
pub(crate) fn without_marks(object: &mut Value) {
    for place in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(map) = object.pointer_mut(place).and_then(Value::as_object_mut) {
            MARKS.iter().for_each(|mark| drop(map.remove(*mark)));
        }
    }
    if object["apiVersion"] == "v1" && object["kind"] == "PersistentVolumeClaim" {
        bound_claim(object);
    }
}

fn bound_claim(claim: &mut Value) {
    if !is_bound(claim) {
        return;
    }
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    SOURCES.iter().for_each(|field| drop(spec.remove(*field)));
    if spec.get("storageClassName").is_none_or(|class| class != "") {
        spec.remove("selector");
    } else if let Some(labels) = spec.get_mut("selector").and_then(labels_of_selector) {
        labels.retain(|name, _| !name.starts_with("velero.io/"));
    }
}

/// Lets the copy of a claim, whose snapshot was taken, ask for no more than the claim does later: a backup raises what it asks for to what a
/// volume from the snapshot needs, and nobody else can make it less.
pub(crate) fn without_raised_request(copy: &mut Value, later: &Value) {
    let is_claim = copy["apiVersion"] == "v1" && copy["kind"] == "PersistentVolumeClaim";
    if !is_claim || !copy["metadata"]["annotations"][LABEL_VOLUME_SNAPSHOT_NAME].is_string() {
        return;
    }
    let asked = |claim: &Value| claim.pointer(REQUEST).and_then(Value::as_str).and_then(Quantity::parse);
    let is_raised = asked(copy).zip(asked(later)).is_some_and(|(copy, later)| copy.exceeds(later));
    if let (true, Some(request), Some(later)) = (is_raised, copy.pointer_mut(REQUEST), later.pointer(REQUEST)) {
        request.clone_from(later);
    }
}

/// JSON pointer to the storage request of a claim.
const REQUEST: &str = "/spec/resources/requests/storage";

fn labels_of_selector(selector: &mut Value) -> Option<&mut Map<String, Value>> {
    selector.get_mut("matchLabels")?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_of_servers_are_not_compared_and_requests_of_users_are() {
        for (group, name, expected) in [
            ("", "events", true),
            ("coordination.k8s.io", "leases", true),
            ("velero.io", "backups", true),
            ("velero.io", "schedules", false),
            ("velero.io", "backupstoragelocations", false),
            ("example.com", "backups", false),
            ("", "pods", false),
        ] {
            assert_eq!(is_noise_type(&GroupResource::new(group, name)), expected, "{name}.{group}");
        }
        let snapshot = |labels: Value| json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "s", "labels": labels}});
        assert!(is_noise(&snapshot(json!({"velero.io/backup-name": "b"}))));
        assert!(!is_noise(&snapshot(json!({}))));
        assert!(!is_noise(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"velero.io/backup-name": "b"}}})
        ));
    }

    #[test]
    fn what_a_backup_notes_on_its_copy_is_no_part_of_the_object() {
        let claim = |metadata: Value, spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec});
        let mark = json!({"backup.velero.io/must-include-additional-items": "true", "velero.io/volume-snapshot-name": "s", "a": "b"});
        let source = json!({"volumeName": "pv", "storageClassName": "fast", "dataSource": {"name": "s"}, "dataSourceRef": {"name": "s"}, "selector": {}});
        let mut marked = claim(json!({"labels": mark, "annotations": mark}), source);
        without_marks(&mut marked);
        let left = json!({"a": "b"});
        let bound = json!({"volumeName": "pv", "storageClassName": "fast"});
        assert_eq!(marked, claim(json!({"labels": left, "annotations": left}), bound));
        // A claim that waits for its volume says where its data shall come from.
        let unbound =
            claim(json!({}), json!({"dataSource": {"name": "s"}, "selector": {"matchLabels": {"velero.io/a": "b"}}}));
        let mut same = unbound.clone();
        without_marks(&mut same);
        assert_eq!(same, unbound);
        let mut selected = claim(
            json!({}),
            json!({"volumeName": "pv", "storageClassName": "", "selector": {"matchLabels": {"velero.io/a": "b", "c": "d"}}}),
        );
        without_marks(&mut selected);
        assert_eq!(selected["spec"]["selector"], json!({"matchLabels": {"c": "d"}}));
    }

    #[test]
    fn what_a_backup_made_a_claim_ask_for_is_no_change_and_what_a_user_did_is() {
        let claim = |is_copy: bool, storage: &str| {
            let annotations = if is_copy { json!({"velero.io/volume-snapshot-name": "s"}) } else { json!({}) };
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": annotations},
                "spec": {"resources": {"requests": {"storage": storage}}}})
        };
        for (is_copy, before, after, expected) in [
            (true, "11Gi", "10Gi", "10Gi"),
            (true, "10Gi", "11Gi", "10Gi"),
            (true, "10Gi", "odd", "10Gi"),
            (false, "11Gi", "10Gi", "11Gi"),
        ] {
            let mut copy = claim(is_copy, before);
            without_raised_request(&mut copy, &claim(false, after));
            assert_eq!(copy, claim(is_copy, expected), "{before} {after}");
        }
    }
}
