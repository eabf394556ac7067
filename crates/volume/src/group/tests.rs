use super::*;
use crate::facts::ClaimKey;
use lifeboat_select::VolumeFacts;
use serde_json::json;

fn claim(name: &str, bound: bool, class: &str) -> Claim {
    Claim {
        key: ClaimKey { namespace: "n".into(), name: name.into() },
        volume: bound.then(|| format!("pv-{name}")),
        group_snapshot_class: class.into(),
        ..Claim::default()
    }
}

fn volume(driver: &str) -> PersistentVolume {
    let csi = (!driver.is_empty()).then(|| (driver.to_owned(), BTreeMap::new()));
    PersistentVolume { facts: VolumeFacts { csi, ..VolumeFacts::default() }, ..PersistentVolume::default() }
}

fn class(name: &str, driver: &str, is_labelled: bool) -> GroupClass {
    GroupClass { name: name.into(), driver: driver.into(), is_labelled }
}

fn rules(classes: &[GroupClass], of_backup: &str) -> GroupRules {
    let key = "velero.io/csi-volumegroupsnapshot-class_d.example".to_owned();
    GroupRules::new(Ok(classes.to_vec()), &BTreeMap::from([(key, of_backup.to_owned())]))
}

#[test]
fn a_class_is_chosen_by_its_label_only_when_that_says_true() {
    let of = |label: Value| {
        GroupClass::of(
            &json!({"metadata": {"name": "a", "labels": {"velero.io/csi-volumegroupsnapshot-class": label}}, "driver": "d"}),
        )
    };
    assert_eq!(of(json!("true")), class("a", "d", true));
    assert_eq!([of(json!("false")), of(json!(null))], [class("a", "d", false), class("a", "d", false)]);
}

/// The rows of backup.md 3.7 step 4, each against those below it.
#[test]
fn the_first_that_names_a_class_chooses_it_and_it_must_be_one_of_the_driver() {
    let all = [
        class("a", "d.example", false),
        class("b", "d.example", false),
        class("l", "d.example", true),
        class("other", "e.example", true),
    ];
    let chosen = |classes: &[GroupClass], of_backup: &str, of_claims: [&str; 2]| {
        let claims = [claim("x", true, of_claims[0]), claim("y", true, of_claims[1])];
        let volume = volume("D.example");
        let members = claims.each_ref().map(|claim| Member { claim, volume: Some(&volume) });
        class_of(&members, &[], true, &rules(classes, of_backup)).map_err(|trouble| trouble.why)
    };
    let named = |why: &str| Err(why.to_owned());
    for (classes, of_backup, of_claims, expected) in [
        (&all[..], "b", ["", "a"], Ok("a".to_owned())),
        (&all, "b", ["a", "a"], Ok("a".to_owned())),
        (&all, "b", ["", ""], Ok("b".to_owned())),
        (&all, "", ["", ""], Ok("l".to_owned())),
        (&all[..1], "", ["", ""], Ok("a".to_owned())),
        (&all[..2], "", ["", ""], named("the VolumeGroupSnapshotClasses a, b of the driver D.example are alike")),
        (
            &[class("k", "d.example", true), class("l", "d.example", true), class("m", "d.example", false)],
            "",
            ["", ""],
            named("the VolumeGroupSnapshotClasses k, l of the driver D.example are alike"),
        ),
        (&all[3..], "", ["", ""], named("the cluster has no VolumeGroupSnapshotClass of the driver D.example")),
        (&all, "b", ["a", "b"], named("the claim x names the class a, and the claim y the class b")),
        (
            &all,
            "",
            ["", "gone"],
            named("the claim y names the VolumeGroupSnapshotClass gone, which the cluster does not have"),
        ),
        (
            &all,
            "other",
            ["", ""],
            named(
                "the backup names the VolumeGroupSnapshotClass other, which is of the driver e.example, and the volumes of D.example",
            ),
        ),
    ] {
        assert_eq!(chosen(classes, of_backup, of_claims), expected, "{of_backup} {of_claims:?}");
    }
    let unknown = GroupRules::new(Err("forbidden".into()), &BTreeMap::new());
    let (one, volume) = (claim("x", true, ""), volume("d"));
    let trouble = class_of(&[Member { claim: &one, volume: Some(&volume) }], &[], true, &unknown);
    assert_eq!(trouble.unwrap_err().why, "its classes are not known: forbidden");
}

#[test]
fn every_claim_with_the_label_must_be_fit_for_the_group() {
    let rules = rules(&[class("c", "d", false)], "");
    let (d, e, none) = (volume("d"), volume("e"), volume(""));
    let (bound, other, open) = (claim("a", true, ""), claim("b", true, ""), claim("c", false, ""));
    let due = [Member { claim: &bound, volume: Some(&d) }];
    let others = |claim, volume| [Member { claim, volume }];
    let trouble = |others: &[Member<'_>], is_served: bool| {
        class_of(&due, others, is_served, &rules).map_err(|trouble| trouble.why)
    };
    let named = |why: &str| Err(why.to_owned());
    for (others, is_served, expected) in [
        (vec![], true, Ok("c".to_owned())),
        (others(&other, Some(&d)).to_vec(), true, Ok("c".to_owned())),
        // What is not in the backup is not known by its volume.
        (others(&other, None).to_vec(), true, Ok("c".to_owned())),
        (vec![], false, named("the cluster serves no VolumeGroupSnapshots")),
        (others(&open, None).to_vec(), true, named("not bound, of the claims with its label: c")),
        (others(&other, Some(&none)).to_vec(), true, named("of no CSI driver, of the claims with its label: b")),
        (
            others(&other, Some(&e)).to_vec(),
            true,
            named("the claims with its label are of several drivers: a of d, b of e"),
        ),
    ] {
        assert_eq!(trouble(&others, is_served), expected, "{others:?}");
    }
}
