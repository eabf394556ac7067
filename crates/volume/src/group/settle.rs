//! What follows for the claims of a group, and what people are told, when it is decided whether the group can be snapshotted. Pure.

use super::members::Member;
use crate::facts::{Claim, ClaimKey, PersistentVolume};
use crate::verdict::{Group, GroupTrouble, Verdict, Way, Why};
use lifeboat_object::first_names;
use std::collections::{BTreeMap, BTreeSet};

/// The label of a group, which is of one namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    /// The namespace.
    pub(crate) namespace: &'a str,
    /// The key.
    pub(crate) key: &'a str,
    /// The value.
    pub(crate) value: &'a str,
}

/// The claims with the label of a group.
#[derive(Clone, Debug)]
pub(crate) struct Labelled<'a> {
    /// Those whose snapshots are wanted.
    pub(crate) members: Vec<Member<'a>>,
    /// All others.
    pub(crate) others: Vec<Member<'a>>,
}

/// Finds the claims with a label among these, each with its volume.
pub(crate) fn members_of<'a>(
    claims: impl Iterator<Item = &'a Claim>,
    volumes: &'a BTreeMap<String, PersistentVolume>,
    label: Label<'_>,
    due: &[ClaimKey],
) -> Labelled<'a> {
    let due: BTreeSet<&ClaimKey> = due.iter().collect();
    let has_label = |claim: &&Claim| {
        claim.key.namespace == label.namespace && claim.labels.get(label.key).is_some_and(|value| value == label.value)
    };
    let member = |claim: &'a Claim| Member { claim, volume: claim.volume.as_ref().and_then(|name| volumes.get(name)) };
    let (members, others) = claims.filter(has_label).map(member).partition(|one| due.contains(&one.claim.key));
    Labelled { members, others }
}

/// Brings into what is to be done with a claim whether its group can be snapshotted, with which class: without one it is not snapshotted, or
/// by itself where the backup allows that.
pub(crate) fn apply(verdict: &mut Verdict, value: &str, settled: &Result<String, GroupTrouble>, falls_back: bool) {
    let Verdict { way, why } = verdict;
    let Way::CsiSnapshot { group, .. } = way else { return };
    match settled {
        Ok(class) => *group = Some(Group { value: value.to_owned(), class: class.clone() }),
        Err(trouble) => {
            if falls_back {
                *group = None;
            } else {
                *way = Way::Skip;
            }
            let because = Box::new(std::mem::replace(why, Why::NotAskedFor));
            *why = Why::Group { because, value: value.to_owned(), trouble: trouble.clone() };
        }
    }
}

/// That claims of a group have their snapshots by themselves, and why.
pub(crate) fn fallback_note(names: &[String], why: &str) -> String {
    format!("the snapshots of {} are of different moments: {why} (volumeGroupFallback is single)", first_names(names))
}

/// That a group takes claims along that nobody wants.
pub(crate) fn beside_note(value: &str, label: &str, names: &[String]) -> String {
    format!(
        "the group {value} takes volumes of claims along that this backup does not snapshot, because they have the label {label} too: {}; \
         their snapshots stay in the storage until the backup is deleted",
        first_names(names)
    )
}
