use super::*;
use crate::class::SnapshotClass;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::sync::Arc;

fn item(resource: &str, kind: &str, object: Value) -> Item {
    Item::parse(Arc::new(ApiResource::new("", "v1", resource, kind)), object.to_string().into()).unwrap()
}

/// A claim of the namespace `n` that names a class, bound to a volume of a driver.
fn claim(name: &str, class: &str, driver: &str) -> [Item; 2] {
    let volume = format!("pv-{name}");
    let annotations = json!({"velero.io/csi-volumesnapshot-class": class});
    let claim = json!({"metadata": {"name": name, "namespace": "n", "annotations": annotations},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"}});
    let spec = json!({"claimRef": {"namespace": "n", "name": name}, "csi": {"driver": driver, "volumeHandle": name}});
    [
        item("persistentvolumeclaims", "PersistentVolumeClaim", claim),
        item("persistentvolumes", "PersistentVolume", json!({"metadata": {"name": volume}, "spec": spec})),
    ]
}

#[test]
fn a_claim_without_a_class_for_its_driver_is_skipped_and_says_why() {
    let flags = Flags { snapshots: true, csi: true, serves_snapshots: true, ..Flags::default() };
    let rules = Rules { policies: None, flags: &flags };
    let mut inventory = VolumeInventory::new(rules);
    for (name, class, driver) in
        [("one", "", "single"), ("named", "b", "several"), ("unnamed", "", "several"), ("none", "b", "bare")]
    {
        claim(name, class, driver).iter().for_each(|item| inventory.take(item));
    }
    let mut verdicts = inventory.decide(rules);
    assert!(verdicts.has_single_snapshots());
    let class =
        |name: &str, driver: &str| SnapshotClass { name: name.into(), driver: driver.into(), ..Default::default() };
    let classes = vec![class("s", "single"), class("a", "several"), class("b", "several")];
    verdicts.settle_classes(&SnapshotClasses::new(classes, &BTreeMap::new()));
    let of = |name: &str| {
        let verdict = &verdicts.of_claim(&ClaimKey { namespace: "n".into(), name: name.into() }).unwrap().verdict;
        (verdict.done(), verdict.reason(), verdict.skipped_reason(), verdict.advice())
    };
    let taken = |class: &str| {
        let reason = "snapshots are taken by default".to_owned();
        (format!("CSI snapshot of the class {class}"), reason.clone(), format!("volumeSnapshot: {reason};"), None)
    };
    assert_eq!(of("one"), taken("s"));
    assert_eq!(of("named"), taken("b"));
    let skipped = |driver: &str, why: &str, advice: &str| {
        let reason = format!(
            "snapshots are taken by default, but no VolumeSnapshotClass of the driver {driver} is chosen: {why}"
        );
        ("nothing".to_owned(), reason.clone(), format!("csiSnapshot: {reason};"), Some(advice.to_owned()))
    };
    let name_one = "name one in the annotation velero.io/csi-volumesnapshot-class of the claim, or put the label of that name on one";
    let several = "the cluster has several, a, b, and nothing says which to take";
    assert_eq!(of("unnamed"), skipped("several", several, name_one));
    let none = "the cluster has none, and none of the name b";
    assert_eq!(of("none"), skipped("bare", none, "make a VolumeSnapshotClass of the driver"));
}
