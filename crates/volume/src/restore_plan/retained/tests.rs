use super::*;

const KEPT: VolumePermissions = VolumePermissions { rebinds_released: false, reuses_volumes: false };

fn claim(namespace: &str, name: &str, uid: &str) -> ClaimOfVolume {
    ClaimOfVolume { key: NamespacedName::new(namespace, name), uid: uid.into() }
}

fn released(by: ClaimOfVolume) -> VolumeHere {
    VolumeHere::Released { by, version: "7".into() }
}

/// The way in which the volume of the claim shop/data (UID u) comes back, in a word.
fn word(target: &str, here: &VolumeHere, origin: &BackupOrigin, allowed: VolumePermissions) -> String {
    let volume = RetainedVolume { name: "pv".into(), claim: Some(claim("shop", "data", "u")) };
    match plan_retained(RetainedFacts { volume: &volume, target, here, of_claim: None, origin, allowed }) {
        RetainedPlan::Make => "make".into(),
        RetainedPlan::Stays => "stays".into(),
        RetainedPlan::Rebind(patch) => format!("rebind {patch}"),
        RetainedPlan::Wait(why) => format!("wait: {why}"),
        RetainedPlan::Refused(VolumeRefusal { why, next }) => format!("refused: {why}; {next}"),
    }
}

#[test]
fn a_kept_volume_comes_back_only_where_nobody_else_can_have_it() {
    let all = VolumePermissions { rebinds_released: true, reuses_volumes: true };
    let other = BackupOrigin::OtherCluster("c-2".into());
    let here = BackupOrigin::ThisCluster;
    for (target, seen, origin, allowed, expected) in [
        ("shop", VolumeHere::Absent, &here, KEPT, "make"),
        ("copy", VolumeHere::Absent, &here, KEPT, "make"),
        ("shop", VolumeHere::Absent, &BackupOrigin::Unknown, KEPT, "make"),
        ("shop", VolumeHere::Absent, &other, all, "make"),
        (
            "shop",
            VolumeHere::Absent,
            &other,
            KEPT,
            "refused: the PersistentVolume pv stands for storage that the cluster of the backup (c-2) may",
        ),
        ("shop", VolumeHere::Free, &other, KEPT, "stays"),
        ("shop", VolumeHere::Leaving("goes".into()), &here, all, "wait: goes"),
        ("shop", VolumeHere::Claimed(claim("shop", "data", "u")), &here, KEPT, "stays"),
        ("shop", VolumeHere::Claimed(claim("shop", "data", "later")), &here, KEPT, "stays"),
        ("shop", VolumeHere::Claimed(claim("shop", "data", "")), &here, KEPT, "stays"),
        ("copy", VolumeHere::Claimed(claim("copy", "data", "")), &here, KEPT, "stays"),
        (
            "copy",
            VolumeHere::Claimed(claim("shop", "data", "u")),
            &here,
            all,
            "refused: the PersistentVolume pv is of the claim shop/data in the cluster",
        ),
        (
            "shop",
            VolumeHere::Claimed(claim("shop", "other", "v")),
            &here,
            all,
            "refused: the PersistentVolume pv is of the claim shop/other in the cluster",
        ),
        (
            "shop",
            released(claim("shop", "data", "u")),
            &here,
            KEPT,
            "refused: the PersistentVolume pv is still in the cluster, released by this claim, with what it holds; restore with --rebind-released (the annotation lifeboat.io/rebind-released: \"true\" of the restore)",
        ),
        (
            "shop",
            released(claim("shop", "data", "u")),
            &here,
            all,
            r#"rebind {"metadata":{"resourceVersion":"7"},"spec":{"claimRef":{"namespace":"shop","resourceVersion":null,"uid":null}}}"#,
        ),
        (
            "copy",
            released(claim("shop", "data", "u")),
            &here,
            all,
            r#"rebind {"metadata":{"resourceVersion":"7"},"spec":{"claimRef":{"namespace":"copy","resourceVersion":null,"uid":null}}}"#,
        ),
        (
            "shop",
            released(claim("shop", "data", "v")),
            &here,
            all,
            "refused: the PersistentVolume pv in the cluster was released by a later claim shop/data (UID v)",
        ),
        (
            "shop",
            released(claim("x", "y", "u")),
            &here,
            all,
            "refused: the PersistentVolume pv in the cluster was released by another claim, x/y",
        ),
    ] {
        let told = word(target, &seen, origin, allowed);
        assert!(told.starts_with(expected), "{target} {seen:?} {origin:?} {allowed:?}: {told}");
    }
}

#[test]
fn a_released_volume_is_given_back_unless_its_claim_has_another_one() {
    let volume = RetainedVolume { name: "pv".into(), claim: Some(claim("shop", "data", "u")) };
    let here = released(claim("shop", "data", "u"));
    let allowed = VolumePermissions { rebinds_released: true, reuses_volumes: false };
    let is_given_back = |of_claim| {
        let origin = &BackupOrigin::ThisCluster;
        let facts = RetainedFacts { volume: &volume, target: "shop", here: &here, of_claim, origin, allowed };
        matches!(plan_retained(facts), RetainedPlan::Rebind(_))
    };
    assert_eq!([None, Some(""), Some("pv"), Some("other")].map(is_given_back), [true, true, true, false]);
}

#[test]
fn a_volume_is_released_when_its_claim_is_gone_noticed_or_not() {
    let volume = |phase: &str, policy: &str, uid: &str| {
        json!({"metadata": {"resourceVersion": "7"}, "status": {"phase": phase},
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "shop", "name": "data", "uid": uid}}})
    };
    let live = json!({"metadata": {"uid": "u"}});
    let leaving = json!({"metadata": {"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let goes = "was released by its claim, and is to be deleted with it";
    for (volume, claim_here, expected) in [
        (None, None, VolumeHere::Absent),
        (Some(going), None, VolumeHere::Leaving("is being deleted".into())),
        (Some(json!({"status": {"phase": "Available"}})), None, VolumeHere::Free),
        (Some(volume("Bound", "Retain", "u")), Some(&live), VolumeHere::Claimed(claim("shop", "data", "u"))),
        (Some(volume("", "Retain", "u")), Some(&live), VolumeHere::Claimed(claim("shop", "data", "u"))),
        (Some(volume("Available", "Retain", "")), None, VolumeHere::Claimed(claim("shop", "data", ""))),
        (
            Some(volume("Bound", "Retain", "u")),
            Some(&leaving),
            VolumeHere::Leaving("is of a claim that is being deleted".into()),
        ),
        (Some(volume("Bound", "Retain", "u")), None, released(claim("shop", "data", "u"))),
        (Some(volume("Bound", "Retain", "before")), Some(&live), released(claim("shop", "data", "before"))),
        (Some(volume("Released", "Retain", "u")), None, released(claim("shop", "data", "u"))),
        (Some(volume("Released", "Retain", "")), None, VolumeHere::Claimed(claim("shop", "data", ""))),
        (Some(volume("Released", "Delete", "u")), None, VolumeHere::Leaving(goes.into())),
        (Some(volume("Bound", "Delete", "u")), None, VolumeHere::Leaving(goes.into())),
    ] {
        assert_eq!(VolumeHere::of(volume.as_ref(), claim_here), expected, "{volume:?} {claim_here:?}");
    }
}

#[test]
fn a_cluster_counts_as_another_one_only_when_both_are_known() {
    for (of_backup, here, expected) in [
        ("a", "a", BackupOrigin::ThisCluster),
        ("a", "b", BackupOrigin::OtherCluster("a".into())),
        ("", "b", BackupOrigin::Unknown),
        ("a", "", BackupOrigin::Unknown),
    ] {
        assert_eq!(BackupOrigin::of(of_backup, here), expected, "{of_backup} {here}");
    }
}
