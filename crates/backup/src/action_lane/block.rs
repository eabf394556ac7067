//! Groups objects of the action lane into blocks whose objects are saved together (velero: pkg/backup/itemblock.go).
//! Pure: from the index to blocks.
//!
//! Work that comes before any object of a block is saved, and after all of them, happens once for the block.

use crate::action_lane::index::{Index, Record, RelationFacts};
use crate::actions::service_account::{Bindings, Digest};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Objects by their numbers in the index, each in one block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Block after block.
    members: Vec<u32>,
    /// The end of each block among the members.
    ends: Vec<u32>,
    /// The number of blocks of objects in an order; they are the first.
    listed: usize,
}

impl Blocks {
    /// A block in the order of its objects.
    pub(crate) fn get(&self, block: usize) -> Option<&[u32]> {
        let end = *self.ends.get(block)? as usize;
        let start = block.checked_sub(1).map_or(0, |before| self.ends.get(before).map_or(0, |end| *end as usize));
        self.members.get(start..end)
    }

    /// The blocks of objects in an order, which go by themselves, one after the other.
    pub(crate) fn listed(&self) -> Range<usize> {
        0..self.listed
    }

    /// All others.
    pub(crate) fn unlisted(&self) -> Range<usize> {
        self.listed..self.ends.len()
    }
}

/// Relations between objects, beside the facts of each.
pub(crate) struct Relations<'a> {
    pub(crate) index: &'a Index,
    pub(crate) bindings: &'a Bindings,
    /// Related objects that actions of plugins have named, by the number of the object that they were asked about.
    pub(crate) named: &'a BTreeMap<u32, Vec<Digest>>,
}

/// Makes the blocks. Objects of one type that are in an order share a block, and such blocks come first; `ordered` has their numbers, type by
/// type.
pub(crate) fn blocks(relations: &Relations<'_>, ordered: &[Vec<u32>]) -> Blocks {
    let index = relations.index;
    let mut maker = BlockBuilder::new(relations);
    let is_of = |number: u32, rank: u8| index.record(number).is_some_and(|record| self::rank(record) == rank);
    for rank in 0..RANKS {
        for run in ordered.iter().filter(|run| run.first().is_some_and(|number| is_of(*number, rank))) {
            run.iter().for_each(|number| maker.add(*number));
            maker.close();
        }
    }
    maker.blocks.listed = maker.blocks.ends.len();
    for rank in 0..RANKS {
        let is_here = |number: u32| is_of(number, rank);
        for number in (0..u32::try_from(index.len()).unwrap_or(u32::MAX)).filter(|number| is_here(*number)) {
            maker.add(number);
            maker.close();
        }
    }
    maker.blocks
}

const RANKS: u8 = 4;

/// Pods come first, then claims, then volumes (velero: pkg/backup/item_collector.go).
fn rank(record: &Record) -> u8 {
    match (record.resource.group.as_str(), record.resource.resource.as_str()) {
        ("", "pods") => 0,
        ("", "persistentvolumeclaims") => 1,
        ("", "persistentvolumes") => 2,
        _ => RANKS - 1,
    }
}

struct BlockBuilder<'a> {
    relations: &'a Relations<'a>,
    blocks: Blocks,
    /// True, by number in the index, for objects that are in a block.
    used: Vec<bool>,
    /// The running pods that mount a claim, until one of them led to the others.
    mounts: HashMap<u32, Vec<u32>>,
    /// The claims of a group, until one of them led to the others.
    groups: HashMap<Digest, Vec<u32>>,
}

impl<'a> BlockBuilder<'a> {
    fn new(relations: &'a Relations<'a>) -> Self {
        let (mut mounts, mut groups) = (HashMap::<u32, Vec<u32>>::new(), HashMap::<Digest, Vec<u32>>::new());
        for (number, record) in (0..).zip(relations.index.records()) {
            match &record.facts {
                RelationFacts::Pod { is_running: true, claims, .. } => {
                    for claim in claims.iter().filter_map(|claim| relations.index.number(claim)) {
                        mounts.entry(claim).or_default().push(number);
                    }
                }
                RelationFacts::Claim { group: Some(group), .. } => groups.entry(*group).or_default().push(number),
                RelationFacts::Pod { .. } | RelationFacts::Claim { .. } | RelationFacts::Other => {}
            }
        }
        let used = vec![false; relations.index.len()];
        Self { relations, blocks: Blocks::default(), used, mounts, groups }
    }

    /// Adds an object to the open block, and all that belongs to it and is in none.
    fn add(&mut self, number: u32) {
        // A stack of ours, because a chain of relations may be as long as there are objects.
        let mut open = vec![number];
        while let Some(number) = open.pop() {
            match self.used.get_mut(number as usize) {
                Some(used) if !*used => *used = true,
                _ => continue,
            }
            self.blocks.members.push(number);
            let related = self.related(number);
            open.extend(related.into_iter().rev());
        }
    }

    fn related(&mut self, number: u32) -> Vec<u32> {
        let Relations { index, bindings, named } = self.relations;
        let Some(record) = index.record(number) else { return Vec::new() };
        let mut out: Vec<u32> = match &record.facts {
            RelationFacts::Pod { claims, .. } => claims.iter().filter_map(|claim| index.number(claim)).collect(),
            RelationFacts::Claim { volume: Some(volume), group } => {
                let mut out: Vec<u32> = index.number(volume).into_iter().collect();
                out.extend(self.mounts.remove(&number).unwrap_or_default());
                out.extend(group.and_then(|group| self.groups.remove(&group)).unwrap_or_default());
                out
            }
            RelationFacts::Claim { volume: None, .. } => Vec::new(),
            RelationFacts::Other => {
                bindings.of(&record.digest).iter().filter_map(|key| index.number(&key.digest())).collect()
            }
        };
        let named = named.get(&number).map(Vec::as_slice).unwrap_or_default();
        out.extend(named.iter().filter_map(|digest| index.number(digest)));
        out
    }

    /// Ends the open block, if anything is in it.
    fn close(&mut self) {
        let end = u32::try_from(self.blocks.members.len()).unwrap_or(u32::MAX);
        if self.blocks.ends.last().copied().unwrap_or_default() < end {
            self.blocks.ends.push(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action_lane::body_store::BodyLocation;
    use crate::action_lane::index::Body;
    use crate::actions::service_account::Binding;
    use lifeboat_hook::BackupHooks;
    use lifeboat_object::{ApiResource, Item};
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// Objects as `type/name` of namespace `n`, with what else they have.
    fn index(objects: &[(&str, Value)]) -> (Index, Bindings) {
        let (mut index, mut bindings) = (Index::default(), Bindings::default());
        for (name, rest) in objects {
            let (resource, name) = name.split_once('/').unwrap();
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let mut object = rest.clone();
            object["metadata"]["name"] = name.into();
            if !matches!(resource, "persistentvolumes" | "clusterrolebindings") {
                object["metadata"]["namespace"] = "n".into();
            }
            Binding::of(&object).into_iter().for_each(|binding| bindings.add(binding));
            let resource = Arc::new(ApiResource::new(group, "v1", resource, "X"));
            let item = Item::parse(resource, object.to_string().into()).unwrap();
            index.add(Record {
                digest: item.digest(),
                facts: RelationFacts::of(&item, "g", &BackupHooks::default()),
                resource: item.resource,
                body: Body::Stored(BodyLocation::Memory(item.body)),
            });
        }
        (index, bindings)
    }

    fn pod(phase: &str, claims: &[&str]) -> Value {
        let volumes: Vec<Value> = claims.iter().map(|c| json!({"persistentVolumeClaim": {"claimName": c}})).collect();
        json!({"spec": {"nodeName": "n1", "volumes": volumes}, "status": {"phase": phase}})
    }

    fn claim(volume: &str, group: &str) -> Value {
        let phase = if volume.is_empty() { "Pending" } else { "Bound" };
        json!({"metadata": {"labels": {"g": group}}, "spec": {"volumeName": volume}, "status": {"phase": phase}})
    }

    fn binding(accounts: &[&str]) -> Value {
        let subjects: Vec<Value> =
            accounts.iter().map(|a| json!({"kind": "ServiceAccount", "namespace": "n", "name": a})).collect();
        json!({"subjects": subjects, "roleRef": {"name": "r"}})
    }

    fn made(objects: &[(&str, Value)], named: &[(u32, u32)], ordered: &[&[u32]]) -> Vec<Vec<u32>> {
        let (index, bindings) = index(objects);
        let mut by_number = BTreeMap::<u32, Vec<Digest>>::new();
        for (from, to) in named {
            by_number.entry(*from).or_default().push(index.record(*to).unwrap().digest);
        }
        let ordered: Vec<Vec<u32>> = ordered.iter().map(|run| run.to_vec()).collect();
        let relations = Relations { index: &index, bindings: &bindings, named: &by_number };
        let blocks = blocks(&relations, &ordered);
        (0..).map_while(|block| blocks.get(block).map(<[u32]>::to_vec)).collect()
    }

    const CLAIM: &str = "persistentvolumeclaims";
    const BINDING: &str = "clusterrolebindings.rbac.authorization.k8s.io";

    #[test]
    fn objects_that_belong_together_share_a_block() {
        let claim_of = |name: &str| format!("{CLAIM}/{name}");
        let binding_of = |name: &str| format!("{BINDING}/{name}");
        let volumes = json!([{"name": "own", "ephemeral": {}}]);
        let with_ephemeral = json!({"spec": {"nodeName": "n1", "volumes": volumes}, "status": {"phase": "Running"}});
        type Objects = Vec<(String, Value)>;
        type Expected = Vec<Vec<u32>>;
        let table: Vec<(&str, Objects, Expected)> = vec![
            ("nothing", vec![], vec![]),
            (
                "strangers",
                vec![("pods/a".into(), pod("Running", &[])), ("pods/b".into(), pod("Running", &["gone"]))],
                vec![vec![0], vec![1]],
            ),
            (
                "a pod, its claims, their volumes, and the running pods that mount those, wherever they come",
                vec![
                    ("persistentvolumes/v".into(), json!({})),
                    (claim_of("c"), claim("v", "")),
                    ("pods/a".into(), pod("Running", &["c", "d"])),
                    (claim_of("d"), claim("w", "")),
                    ("pods/b".into(), pod("Running", &["d"])),
                    ("pods/done".into(), pod("Succeeded", &["d"])),
                ],
                vec![vec![2, 1, 0, 3, 4], vec![5]],
            ),
            (
                "a claim that is not bound leads to nothing, but its pod leads to it",
                vec![
                    (claim_of("c"), claim("", "x")),
                    (claim_of("d"), claim("", "x")),
                    ("pods/a".into(), pod("Running", &["c"])),
                ],
                vec![vec![2, 0], vec![1]],
            ),
            (
                "the claim of an ephemeral volume with its pod",
                vec![
                    ("pods/a".into(), with_ephemeral),
                    (claim_of("a-own"), claim("", "x")),
                    (claim_of("own"), claim("", "x")),
                ],
                vec![vec![0, 1], vec![2]],
            ),
            (
                "claims of a group, once one of them is bound",
                vec![
                    (claim_of("c"), claim("v", "x")),
                    (claim_of("other"), claim("w", "y")),
                    (claim_of("d"), claim("", "x")),
                    (claim_of("e"), claim("u", "x")),
                ],
                vec![vec![0, 2, 3], vec![1]],
            ),
            (
                "a service account and its bindings, which lead nowhere",
                vec![
                    (binding_of("both"), binding(&["a", "b"])),
                    ("serviceaccounts/b".into(), json!({})),
                    ("serviceaccounts/a".into(), json!({})),
                    (binding_of("none"), binding(&["c"])),
                ],
                vec![vec![0], vec![1], vec![2], vec![3]],
            ),
            (
                "accounts that come before their bindings",
                vec![
                    ("serviceaccounts/b".into(), json!({})),
                    ("serviceaccounts/a".into(), json!({})),
                    (binding_of("both"), binding(&["a", "b"])),
                    (binding_of("one"), binding(&["a"])),
                ],
                vec![vec![0, 2], vec![1, 3]],
            ),
        ];
        for (what, objects, expected) in table {
            let objects: Vec<(&str, Value)> = objects.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
            assert_eq!(made(&objects, &[], &[]), expected, "{what}");
        }
    }

    #[test]
    fn what_plugins_name_is_followed_also_in_a_circle() {
        let things: Vec<(&str, Value)> =
            ["things/a", "things/b", "things/c", "things/d"].map(|name| (name, json!({}))).into();
        assert_eq!(made(&things, &[(0, 2), (2, 0), (2, 3), (3, 2)], &[]), [vec![0, 2, 3], vec![1]]);
        let pods =
            [("pods/a", pod("Running", &["c"])), (&*format!("{CLAIM}/c"), claim("v", "")), ("things/t", json!({}))];
        assert_eq!(made(&pods, &[(1, 2), (2, 0)], &[]), [[0, 1, 2]]);
    }

    #[test]
    fn ordered_objects_of_a_type_share_a_block_in_their_order() {
        let claim_of = format!("{CLAIM}/c");
        let objects = [
            ("things/x", json!({})),
            ("pods/a", pod("Running", &[])),
            ("pods/b", pod("Running", &["c"])),
            ("pods/d", pod("Running", &[])),
            (&claim_of, claim("v", "")),
            ("things/y", json!({})),
        ];
        assert_eq!(made(&objects, &[], &[&[3, 2], &[5, 0]]), [vec![3, 2, 4], vec![5, 0], vec![1]]);
    }

    #[test]
    fn a_chain_of_many_objects_is_one_block() {
        let objects: Vec<(String, Value)> = (0..100_000).map(|n| (format!("things/{n}"), json!({}))).collect();
        let objects: Vec<(&str, Value)> = objects.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
        let named: Vec<(u32, u32)> = (0..99_999).map(|n| (n, n + 1)).collect();
        assert_eq!(made(&objects, &named, &[]), [(0..100_000).collect::<Vec<u32>>()]);
    }

    #[test]
    fn a_record_is_small() {
        assert!(size_of::<Record>() <= 128, "{}", size_of::<Record>());
    }
}
