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
        let verdict = &verdicts.of_claim(&NamespacedName::new("n", name)).unwrap().verdict;
        (verdict.method.describe(), verdict.reason(), verdict.skipped_reason(), verdict.advice())
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

#[test]
fn the_files_of_a_claim_without_a_pod_are_saved_where_it_has_no_class() {
    let flags = Flags { snapshots: true, csi: true, serves_snapshots: true, ..by_files() };
    let rules = Rules { policies: None, flags: &flags };
    let mut inventory = VolumeInventory::new(rules);
    for (name, driver) in [("alone", "bare"), ("opted-out", "bare"), ("snapshotted", "single")] {
        claim(name, "", driver).iter().for_each(|item| inventory.take(item));
    }
    inventory.take(&pod("web", "opted-out", json!({"backup.velero.io/backup-volumes-excludes": "v"}), json!({})));
    let mut verdicts = inventory.decide(rules);
    let class = SnapshotClass { name: "s".into(), driver: "single".into(), ..SnapshotClass::default() };
    verdicts.settle_classes(&SnapshotClasses::new(vec![class], &BTreeMap::new()));
    let of = |name: &str| {
        let verdict = &verdicts.of_claim(&NamespacedName::new("n", name)).unwrap().verdict;
        (verdict.method.describe(), verdict.has_failed())
    };
    assert_eq!(of("alone"), ("file system backup by a reader pod".to_owned(), false));
    assert_eq!(of("opted-out"), ("nothing".to_owned(), true));
    assert_eq!(of("snapshotted"), ("CSI snapshot of the class s".to_owned(), false));
}

fn by_files() -> Flags {
    Flags { fs_backup_by_default: true, saves_claims: true, ..Flags::default() }
}

/// A running pod that mounts a claim as `v`.
fn pod(name: &str, claim: &str, annotations: Value, labels: Value) -> Item {
    let pod = json!({"metadata": {"name": name, "namespace": "n", "annotations": annotations, "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"volumeMounts": [{"name": "v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}, "status": {"phase": "Running"}});
    item("pods", "Pod", pod)
}

#[test]
fn pods_that_are_left_out_mount_their_claims_and_reader_pods_do_not() {
    let flags = by_files();
    let policies = ResourcePolicies::parse(
        "version: v1\nvolumePolicies: [{action: {type: fs-backup}}]",
        lifeboat_select::PolicyUse::Backup,
    );
    let policies = policies.unwrap();
    for (policies, expected) in [(Some(&policies), "file system backup from the pod web (volume v)"), (None, "nothing")]
    {
        let rules = Rules { policies, flags: &flags };
        let mut inventory = VolumeInventory::new(rules);
        claim("data", "", "d").iter().for_each(|item| inventory.take(item));
        let reader = pod("a", "data", json!({}), json!({"lifeboat.io/reader-of-backup": "other"}));
        inventory.take(&reader);
        inventory.take_left_out(&reader);
        // Its annotation asks for nothing.
        inventory.take_left_out(&pod("web", "data", json!({"backup.velero.io/backup-volumes": "v"}), json!({})));
        let verdicts = inventory.decide(rules);
        let verdict = &verdicts.of_claim(&NamespacedName::new("n", "data")).unwrap().verdict;
        assert_eq!(verdict.method.describe(), expected);
    }
}

/// The verdicts on a pod with an ephemeral volume `v`: of what, and what is done.
fn of_ephemeral(claim: &[Item], is_left_out: bool, annotations: &Value, rules: Rules<'_>) -> Vec<String> {
    let pod = json!({"metadata": {"name": "web", "namespace": "n", "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"volumeMounts": [{"name": "v"}]}],
            "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, "status": {"phase": "Running"}});
    let pod = item("pods", "Pod", pod);
    let mut inventory = VolumeInventory::new(rules);
    claim.iter().for_each(|item| inventory.take(item));
    if is_left_out {
        inventory.take_left_out(&pod);
    } else {
        inventory.take(&pod);
    }
    let verdicts = inventory.decide(rules);
    verdicts.iter().map(|decided| format!("{}: {}", decided.name(), decided.verdict.method.describe())).collect()
}

#[test]
fn an_ephemeral_volume_is_decided_about_once() {
    let saved = "file system backup from the pod web (volume v)";
    let (with_claim, of_pod) = (format!("n/web-v: {saved}"), format!("n/web:v: {saved}"));
    let claim = claim("web-v", "", "d");
    let excluded = json!({"backup.velero.io/backup-volumes-excludes": "v"});
    let files = by_files();
    let snapshots = Flags { snapshots: true, csi: true, serves_snapshots: true, ..by_files() };
    let policies = ResourcePolicies::parse(
        "version: v1\nvolumePolicies: [{action: {type: fs-backup}}]",
        lifeboat_select::PolicyUse::Backup,
    );
    let policies = policies.unwrap();
    let (none, all) = (json!({}), Some(&policies));
    for (claim, is_left_out, annotations, rules, expected) in [
        (&claim[..], false, &none, Rules { policies: None, flags: &files }, vec![with_claim.clone()]),
        (&claim[..], false, &none, Rules { policies: None, flags: &snapshots }, vec![with_claim.clone()]),
        (&claim[..], false, &excluded, Rules { policies: None, flags: &files }, vec!["n/web-v: nothing".to_owned()]),
        (
            &claim[..],
            false,
            &excluded,
            Rules { policies: None, flags: &snapshots },
            vec!["n/web-v: CSI snapshot".to_owned()],
        ),
        (&claim[..], true, &none, Rules { policies: None, flags: &files }, vec!["n/web-v: nothing".to_owned()]),
        (&claim[..], true, &none, Rules { policies: all, flags: &files }, vec![with_claim]),
        // Its claim is not part of the backup.
        (&claim[1..], false, &none, Rules { policies: None, flags: &files }, vec![format!("pv-web-v: {saved}")]),
        (&claim[..0], false, &none, Rules { policies: None, flags: &files }, vec![of_pod.clone()]),
        (&claim[..0], false, &excluded, Rules { policies: None, flags: &files }, vec![]),
        (&claim[..0], false, &none, Rules { policies: all, flags: &files }, vec![of_pod]),
        (&claim[..0], true, &none, Rules { policies: all, flags: &files }, vec![]),
    ] {
        let found = of_ephemeral(claim, is_left_out, annotations, rules);
        assert_eq!(found, expected, "{is_left_out} {annotations} {rules:?}");
    }
}
