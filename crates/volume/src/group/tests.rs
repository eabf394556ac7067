use super::*;
use crate::decide::Rules;
use crate::inventory::{GroupNote, Verdicts, VolumeInventory};
use crate::verdict::{Flags, Group, Method, MethodReason, Verdict};
use lifeboat_api::NamespacedName;
use lifeboat_object::{ApiResource, Item};
use lifeboat_select::{PolicyUse, ResourcePolicies, VolumeFacts};
use serde_json::json;
use std::sync::Arc;

fn claim(name: &str, bound: bool, class: &str) -> Claim {
    Claim {
        key: NamespacedName::new("n", name),
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

/// The ways to name the class of a group in Velero's order, each against those below it.
#[test]
fn the_first_named_class_is_chosen_and_must_be_one_of_the_driver() {
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
        // A list that was interrupted has brought it twice.
        (&[all[0].clone(), all[0].clone()], "", ["", ""], Ok("a".to_owned())),
        (
            &all[..2],
            "",
            ["", ""],
            named(
                "the cluster has several VolumeGroupSnapshotClasses of the driver D.example, a, b, and nothing says which to take",
            ),
        ),
        (
            &[class("k", "d.example", true), class("l", "d.example", true), class("m", "d.example", false)],
            "",
            ["", ""],
            named(
                "the cluster has several VolumeGroupSnapshotClasses of the driver D.example, k, l, and nothing says which to take",
            ),
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

/// A claim of the namespace `n` with labels, bound to a volume of a driver or not bound.
fn objects(name: &str, labels: &Value, driver: &str) -> Vec<Item> {
    let item = |resource: &str, kind: &str, object: Value| {
        Item::parse(Arc::new(ApiResource::new("", "v1", resource, kind)), object.to_string().into()).unwrap()
    };
    let volume = if driver.is_empty() { String::new() } else { format!("pv-{name}") };
    let phase = if driver.is_empty() { "Pending" } else { "Bound" };
    let claim = json!({"metadata": {"name": name, "namespace": "n", "labels": labels}, "spec": {"volumeName": volume},
        "status": {"phase": phase}});
    let mut out = vec![item("persistentvolumeclaims", "PersistentVolumeClaim", claim)];
    if !driver.is_empty() {
        let spec =
            json!({"claimRef": {"namespace": "n", "name": name}, "csi": {"driver": driver, "volumeHandle": name}});
        out.push(item("persistentvolumes", "PersistentVolume", json!({"metadata": {"name": volume}, "spec": spec})));
    }
    out
}

/// Two claims of the group `db`, one of the group `odd` with one that is not bound, and one by itself; `junk` is of `db` and skipped.
fn settled(flags: &Flags) -> (Verdicts, Vec<GroupNote>) {
    let text = "version: v1\nvolumePolicies: [{conditions: {pvcLabels: {tier: junk}}, action: {type: skip}}]";
    let policies = ResourcePolicies::parse(text, PolicyUse::Backup).unwrap().from_source("ConfigMap v/p");
    let decide = Rules { policies: Some(&policies), flags };
    let mut inventory = VolumeInventory::new(decide);
    for (name, labels, driver) in [
        ("a", json!({"g": "db"}), "d"),
        ("b", json!({"g": "db"}), "d"),
        ("junk", json!({"g": "db", "tier": "junk"}), "d"),
        ("o", json!({"g": "odd"}), "d"),
        ("open", json!({"g": "odd"}), ""),
        ("alone", json!({"g": ""}), "d"),
    ] {
        objects(name, &labels, driver).iter().for_each(|item| inventory.take(item));
    }
    let mut verdicts = inventory.decide(decide);
    assert_eq!(verdicts.namespaces_of_groups(), ["n".to_owned()].into());
    let outside = |name: &str, group: &str, namespace: &str| Claim {
        key: NamespacedName::new(namespace, name),
        labels: BTreeMap::from([("g".into(), group.into())]),
        ..claim(name, true, "")
    };
    let all = [("a", "db", "n"), ("far", "db", "m"), ("out", "db", "n"), ("x", "y", "n"), ("out", "db", "n")];
    let outside = all.map(|(name, group, namespace)| outside(name, group, namespace)).into();
    let rules = rules(&[class("c", "d", true)], "").with_outside(outside);
    let notes = verdicts.settle_groups(flags, &rules);
    (verdicts, notes)
}

fn flags() -> Flags {
    Flags {
        snapshots: true,
        csi: true,
        serves_snapshots: true,
        saves_claims: true,
        group_label: "g".into(),
        serves_groups: true,
        ..Flags::default()
    }
}

fn of(verdicts: &Verdicts, name: &str) -> Verdict {
    verdicts.of_claim(&NamespacedName::new("n", name)).unwrap().verdict.clone()
}

#[test]
fn claims_of_a_group_are_snapshotted_together_or_not_at_all() {
    let (verdicts, notes) = settled(&flags());
    let by_default = || MethodReason::SnapshotByDefault { blocker: None };
    let together = Group { value: "db".into(), class: "c".into() };
    let snapshot = |group: Option<Group>| Method::CsiSnapshot { class: String::new(), group };
    for name in ["a", "b"] {
        assert_eq!(
            of(&verdicts, name),
            Verdict { method: snapshot(Some(together.clone())), why: by_default() },
            "{name}"
        );
    }
    assert_eq!(of(&verdicts, "a").method.describe(), "CSI snapshot with the group db, of the class c");
    assert_eq!(of(&verdicts, "alone"), Verdict { method: snapshot(None), why: by_default() });
    assert_eq!(of(&verdicts, "junk").method, Method::Skip);
    let group = GroupKey { namespace: "n".into(), value: "db".into() };
    assert_eq!(verdicts.beside_group(&group), ["junk", "out"]);
    assert_eq!(verdicts.groups().into_keys().collect::<Vec<_>>(), [group]);
    let odd = of(&verdicts, "o");
    assert_eq!(odd.method, Method::Skip);
    let reason = "snapshots are taken by default, but the group odd cannot be snapshotted: not bound, of the claims with its label: open";
    assert_eq!(odd.reason(), reason);
    assert_eq!(odd.skipped_reason(), format!("csiSnapshot: {reason};"));
    let advice = "let all claims with this label be bound, or take the label off those that are not; or let each claim be snapshotted by \
         itself, at different moments (--volume-group-fallback=single)";
    assert_eq!(odd.advice().as_deref(), Some(advice));
    let along = "the group db takes volumes of claims along that this backup does not snapshot, because they have the label g too: junk, \
         out; their snapshots stay in the storage until the backup is deleted";
    assert_eq!(notes, [GroupNote { namespace: "n".into(), text: along.into() }]);
}

#[test]
fn claims_of_an_impossible_group_are_snapshotted_singly_where_allowed() {
    let (verdicts, notes) = settled(&Flags { falls_back: true, ..flags() });
    let odd = of(&verdicts, "o");
    assert_eq!(odd.method, Method::CsiSnapshot { class: String::new(), group: None });
    let reason = "snapshots are taken by default; by itself, because the group odd cannot be snapshotted: not bound, of the claims with \
         its label: open (volumeGroupFallback is single)";
    assert_eq!((odd.reason(), odd.advice()), (reason.to_owned(), None));
    let apart = "the snapshots of o are of different moments: the group odd cannot be snapshotted: not bound, of the claims with its label: \
         open (volumeGroupFallback is single)";
    assert_eq!(notes.last(), Some(&GroupNote { namespace: "n".into(), text: apart.into() }));
    // Claims of a group are none without the API.
    let (verdicts, _) = settled(&Flags { serves_groups: false, ..flags() });
    assert!(verdicts.groups().is_empty());
    assert!(of(&verdicts, "a").reason().ends_with("the cluster serves no VolumeGroupSnapshots"));
}
