//! The order in which transfers that wait are taken. Pure.
//!
//! The bytes of each backup and restore that are being moved are compared: the one with the fewest is next, so that a large one holds
//! up no small one. Within one the oldest transfer is next.

use crate::transfer::{Transfer, TransferKey};
use jiff::Timestamp;
use lifeboat_api::DataPathPhase;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The bytes of a volume whose size is not known.
const ASSUMED: u64 = 1 << 30;
/// The most nodes that movers are kept away from.
const MOST_BUSY: usize = 20;

/// The keys of all transfers: those that wait for a place come last, in the order in which they are to have one.
pub(crate) fn order<'a>(transfers: impl Iterator<Item = &'a Transfer>) -> Vec<TransferKey> {
    let (mut others, mut waiting) = (Vec::new(), BTreeMap::<u8, Vec<Waiting>>::new());
    let mut moving = BTreeMap::<&str, u64>::new();
    for transfer in transfers {
        let place = match transfer.phase {
            DataPathPhase::Prepared => 0,
            DataPathPhase::New => 1,
            phase => {
                if phase == DataPathPhase::InProgress {
                    let bytes = moving.entry(owner_of(transfer)).or_default();
                    *bytes = bytes.saturating_add(size_of(transfer));
                }
                others.push(transfer.key());
                continue;
            }
        };
        waiting.entry(place).or_default().push(Waiting::of(transfer));
    }
    others.extend(waiting.into_values().flat_map(|waiting| fair(waiting, &moving)));
    others
}

/// A transfer that waits for a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting<'a> {
    made: Option<Timestamp>,
    key: TransferKey,
    owner: &'a str,
    bytes: u64,
}

impl<'a> Waiting<'a> {
    fn of(transfer: &'a Transfer) -> Self {
        let made = transfer.meta.creation_timestamp.map(lifeboat_api::Time::timestamp);
        Self { made, key: transfer.key(), owner: owner_of(transfer), bytes: size_of(transfer) }
    }
}

/// The UID of the backup or restore of a transfer.
fn owner_of(transfer: &Transfer) -> &str {
    transfer.meta.owner_references.first().map_or(transfer.meta.name.as_str(), |owner| &owner.uid)
}

fn size_of(transfer: &Transfer) -> u64 {
    let known = transfer.snapshot_size().max(transfer.progress.total_bytes);
    u64::try_from(known).ok().filter(|bytes| *bytes > 0).unwrap_or(ASSUMED)
}

/// The order in which transfers are taken, while so many bytes of each owner are being moved.
fn fair<'a>(mut waiting: Vec<Waiting<'a>>, moving: &BTreeMap<&'a str, u64>) -> Vec<TransferKey> {
    waiting.sort();
    let mut queues = BTreeMap::<&str, VecDeque<Waiting<'_>>>::new();
    for one in waiting {
        queues.entry(one.owner).or_default().push_back(one);
    }
    let loads = queues.iter().filter_map(|(owner, queue)| {
        let load = moving.get(owner).copied().unwrap_or_default();
        Some(Reverse((load, queue.front()?.clone())))
    });
    let mut next: BinaryHeap<Reverse<(u64, Waiting<'_>)>> = loads.collect();
    let mut ordered = Vec::new();
    while let Some(Reverse((load, one))) = next.pop() {
        if let Some(queue) = queues.get_mut(one.owner) {
            queue.pop_front();
            if let Some(after) = queue.front() {
                next.push(Reverse((load.saturating_add(one.bytes), after.clone())));
            }
        }
        ordered.push(one.key);
    }
    ordered
}

/// A node on which movers have bytes to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BusyNode {
    pub(crate) node: String,
    /// The weight of the preference for other nodes, from 1 to 100.
    pub(crate) weight: u64,
}

/// The nodes with the most bytes that are still to be moved there, the busiest first. The next movers rather go elsewhere.
pub(crate) fn busy_nodes<'a>(transfers: impl Iterator<Item = &'a Transfer>) -> Vec<BusyNode> {
    let mut left = BTreeMap::<&str, u64>::new();
    let is_there = |transfer: &&Transfer| matches!(transfer.phase, DataPathPhase::Prepared | DataPathPhase::InProgress);
    for transfer in transfers.filter(is_there).filter(|transfer| !transfer.node.is_empty()) {
        let done = u64::try_from(transfer.progress.bytes_done).unwrap_or_default();
        let bytes = left.entry(&transfer.node).or_default();
        *bytes = bytes.saturating_add(size_of(transfer).saturating_sub(done));
    }
    let most = left.values().copied().max().unwrap_or_default();
    let mut nodes: Vec<(u64, &str)> = left.into_iter().map(|(node, bytes)| (bytes, node)).collect();
    nodes.sort_by(|a, b| b.cmp(a));
    let weight = |bytes: u64| u64::try_from(u128::from(bytes) * 100 / u128::from(most)).unwrap_or(100).max(1);
    let busy = nodes.into_iter().filter(|(bytes, _)| *bytes > 0).take(MOST_BUSY);
    busy.map(|(bytes, node)| BusyNode { node: node.to_owned(), weight: weight(bytes) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferKind;
    use serde_json::json;

    /// A transfer of an owner, made at a second; a size of 0 is not known.
    fn transfer(name: &str, owner: &str, phase: &str, made: i64, bytes: u64) -> Transfer {
        let at = Timestamp::from_second(made).unwrap().to_string();
        let owners = json!([{"apiVersion": "velero.io/v1", "kind": "Restore", "name": owner, "uid": owner}]);
        let object = json!({
            "metadata": {"name": name, "creationTimestamp": at, "ownerReferences": owners},
            "spec": {"targetVolume": {"namespace": "shop", "pvc": name}, "snapshotSize": bytes},
            "status": {"phase": phase},
        });
        Transfer::parse(TransferKind::DataDownload, object.to_string().as_bytes()).unwrap()
    }

    fn names(transfers: &[Transfer]) -> Vec<String> {
        order(transfers.iter()).into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn a_large_backup_holds_up_no_small_one() {
        let mut all = vec![transfer("a-runs", "large", "InProgress", 0, 100)];
        all.extend((1..4).map(|n| transfer(&format!("b{n}"), "large", "Prepared", n, 50)));
        all.extend((5..7).map(|n| transfer(&format!("c{n}"), "small", "Prepared", n, 60)));
        all.push(transfer("d", "late", "New", 9, 1));
        assert_eq!(names(&all), ["a-runs", "c5", "c6", "b1", "b2", "b3", "d"]);
        // Without a known size each counts the same.
        let all = [("x1", "one", 1), ("x2", "one", 2), ("y", "two", 3)];
        let all = all.map(|(name, owner, made)| transfer(name, owner, "New", made, 0));
        assert_eq!(names(&all), ["x1", "y", "x2"]);
    }

    #[test]
    fn no_owner_gets_ahead_of_another_by_more_than_one_volume() {
        let mut seed = 7_u64;
        let mut below = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for history in 0..300 {
            let all: Vec<Transfer> = (0..below(20))
                .map(|n| {
                    let (owner, made, bytes) = (format!("o{}", below(4)), below(10) as i64, 1 + below(100));
                    transfer(&format!("t{n}"), &owner, ["New", "InProgress"][below(4) as usize / 3], made, bytes)
                })
                .collect();
            let of = |name: &str| all.iter().find(|one| one.meta.name == name).unwrap();
            let ordered: Vec<&Transfer> = names(&all).iter().map(|name| of(name)).collect();
            assert_eq!(ordered.len(), all.len(), "history {history}: each has its place");
            let moving = ordered.iter().take_while(|one| one.phase == DataPathPhase::InProgress).count();
            let (begun, waiting) = ordered.split_at(moving);
            let mut loads = BTreeMap::<&str, u64>::new();
            begun.iter().for_each(|one| *loads.entry(owner_of(one)).or_default() += size_of(one));
            for (at, one) in waiting.iter().enumerate() {
                let load = |one: &Transfer| loads.get(owner_of(one)).copied().unwrap_or_default();
                for other in &waiting[at..] {
                    assert!(load(one) <= load(other), "history {history}: {} goes before its turn", one.meta.name);
                    if owner_of(one) == owner_of(other) {
                        let made = |one: &Transfer| one.meta.creation_timestamp.map(lifeboat_api::Time::timestamp);
                        assert!(made(one) <= made(other), "history {history}");
                    }
                }
                *loads.entry(owner_of(one)).or_default() += size_of(one);
            }
        }
    }

    #[test]
    fn the_next_mover_rather_goes_where_fewer_bytes_are_left() {
        let on = |name: &str, phase: &str, node: &str, done: i64, bytes: u64| {
            let mut one = transfer(name, "r", phase, 0, bytes);
            (one.node, one.progress.bytes_done) = (node.to_owned(), done);
            one
        };
        let all = [
            on("a", "InProgress", "n1", 100, 1100),
            on("b", "Prepared", "n2", 0, 200),
            on("c", "InProgress", "n2", 50, 100),
            on("d", "InProgress", "n3", 100, 100),
            on("e", "InProgress", "n4", 0, 5),
            on("f", "Completed", "n5", 0, 5000),
            on("g", "New", "", 0, 5000),
        ];
        let busy = |node: &str, weight| BusyNode { node: node.to_owned(), weight };
        assert_eq!(busy_nodes(all.iter()), [busy("n1", 100), busy("n2", 25), busy("n4", 1)]);
        assert!(busy_nodes(std::iter::empty()).is_empty());
    }
}
