//! The claims that have the label of a group, with their volumes. Pure.

use crate::facts::{Claim, PersistentVolume};
use lifeboat_api::NamespacedName;
use std::collections::{BTreeMap, BTreeSet};

/// A claim with the label of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// The claim.
    pub(crate) claim: &'a Claim,
    /// Its volume, as far as it is known.
    pub(crate) volume: Option<&'a PersistentVolume>,
}

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
    /// Claims whose snapshots are wanted.
    pub(crate) members: Vec<Member<'a>>,
    /// All others.
    pub(crate) others: Vec<Member<'a>>,
}

/// Finds the claims with a label among these, each with its volume.
pub(crate) fn members_of<'a>(
    claims: impl Iterator<Item = &'a Claim>,
    volumes: &'a BTreeMap<String, PersistentVolume>,
    label: Label<'_>,
    due: &[NamespacedName],
) -> Labelled<'a> {
    let due: BTreeSet<&NamespacedName> = due.iter().collect();
    let has_label = |claim: &&Claim| {
        claim.key.namespace == label.namespace && claim.labels.get(label.key).is_some_and(|value| value == label.value)
    };
    let member = |claim: &'a Claim| Member { claim, volume: claim.volume.as_ref().and_then(|name| volumes.get(name)) };
    let (members, others) = claims.filter(has_label).map(member).partition(|one| due.contains(&one.claim.key));
    Labelled { members, others }
}
