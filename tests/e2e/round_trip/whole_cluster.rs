//! Back up a whole cluster such as people run, lose it, restore it, compare every field.

use crate::results::{self, named};
use crate::shop::{self, apply_as, flags};
use crate::snapshot::{self, Snapshot, appliers, written};
use crate::support::Bed;
use serde_json::Value;
use std::collections::BTreeMap;

/// Longer than a label can be: objects carry a shortened form.
const BACKUP: &str = "everything-in-the-tea-shop-before-the-move-to-the-house-across-the-street";
const RESTORE: &str = "everything-in-the-tea-shop-after-the-move-to-the-house-across-the-street";

#[test]
fn a_whole_shop_comes_back() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    shop::open(&bed);
    bed.kubectl(&[
        "debug",
        "pod/inspector",
        "--namespace=warehouse",
        "--image=busybox:1",
        "--container=lens",
        "--quiet",
        "--attach=false",
    ]);
    let before = snapshot::take(&bed);

    let run = bed.local(&["backup", BACKUP]);
    assert_eq!((run.code, run.err.as_str()), (0, BACKUP_SAYS), "{run:?}");
    let run = bed.local(&["verify", BACKUP]);
    assert_eq!(run.code, 0, "{run:?}");

    shop::lose(&kubectl);
    let run = bed.local(&["restore", RESTORE, "--from-backup", BACKUP]);
    assert_eq!(run.code, 0, "{run:?}");
    shop::bound(&kubectl);
    let after = snapshot::settled(&kubectl, &before, &NOT_BACK);
    assert_eq!(named(&bed.results(RESTORE), &results::kinds(&kubectl)), RESTORE_SAYS);
    owners_are_back(&bed, &before, &after);

    // Once more over what is unchanged.
    let after = snapshot::take(&bed);
    let run = bed.local(&["restore", "again", "--from-backup", BACKUP]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(written(&after, &snapshot::take(&bed)), [""; 0]);
    assert_eq!(named(&bed.results("again"), &results::kinds(&kubectl)), AGAIN_SAYS);
}

/// The data is on disks that this version does not read, and an API is down.
const BACKUP_SAYS: &str = "\
warning: the types of steam.example.org/v1alpha1 could not be discovered and are not in this backup: the aggregated API server behind it does not answer
warning: the data of 3 volumes is not in this backup, only their objects: storefront/pictures, warehouse/books-ledger-1, warehouse/books-ledger-2; describe --details and the volume information file list all with the reasons, and volume explain says what would have to change
";
/// Nobody can make a pod with such containers.
const NOT_BACK: [&str; 1] = [
    "Pod. warehouse inspector: /spec/ephemeralContainers: [{\"image\":\"busybox:1\",\"imagePullPolicy\":\"IfNotPresent\",\"name\":\"lens\",\"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\"}] became absent",
];
const RESTORE_SAYS: [&str; 0] = [];
const AGAIN_SAYS: [&str; 1] = [
    "warning velero the types of steam.example.org/v1alpha1 could not be discovered: the aggregated API server behind it does not answer",
];

/// Every manager that applied owns what it owned, and goes on without conflicts.
fn owners_are_back(bed: &Bed, before: &Snapshot, after: &Snapshot) {
    let of = |snapshot: &Snapshot| -> BTreeMap<String, BTreeMap<String, Value>> {
        let applied = |(name, object): (&String, &Value)| (name.clone(), appliers(object));
        snapshot.iter().filter(|(_, o)| snapshot::is_kept(o)).map(applied).filter(|(_, a)| !a.is_empty()).collect()
    };
    assert_eq!(of(after), of(before));
    let shared = appliers(&after["ConfigMap. storefront feature-flags"]);
    assert_eq!(shared.keys().collect::<Vec<_>>(), ["flux", "shop-operator"]);

    let kubectl = bed.plane.kubectl();
    apply_as(&kubectl, "flux", &flags("banner", "off")).expect("its own field");
    let conflict = apply_as(&kubectl, "flux", &flags("discount", "off")).expect_err("another's field");
    assert!(format!("{conflict:#}").contains("conflict with \"shop-operator\""), "{conflict:#}");
    apply_as(&kubectl, "flux", &flags("banner", "on")).expect("as it was");
}
