//! The order in which transfers that wait are taken. Pure.
//!
//! The bytes that the running transfers of each backup and restore have still to move are compared: the one with the
//! fewest is next, so that a large one holds up no small one. Within one the oldest transfer is next. A backup or restore
//! of which none was taken for an hour goes before, so that many small ones do not hold up a large one.

use crate::transfer::{Transfer, TransferKey};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// The bytes of a volume whose size is not known.
const ASSUMED: u64 = 1 << 30;
/// The most nodes that movers are kept away from.
const MOST_BUSY: usize = 20;
/// The wait after which a backup or restore goes before those with fewer bytes.
const LONG_WAIT: SignedDuration = SignedDuration::from_hours(1);

/// The times at which transfers of each backup and restore were last begun on each node, and accepted by any agent: these
/// are kept for the node "".
#[derive(Clone, Debug, Default)]
pub(crate) struct LastTaken(BTreeMap<String, BTreeMap<String, Timestamp>>);

impl LastTaken {
    /// Notes when a transfer was taken, also one that has ended.
    pub(crate) fn note(&mut self, transfer: &Transfer) {
        for (node, at) in [("", transfer.accepted), (transfer.node.as_str(), transfer.started)] {
            let Some(at) = at.map(Time::timestamp) else { continue };
            let last = self.0.entry(node.to_owned()).or_default().entry(owner_of(transfer).to_owned()).or_insert(at);
            *last = at.max(*last);
        }
    }

    /// Forgets the backups and restores of which there is no transfer any more.
    pub(crate) fn retain_owners<'a>(&mut self, transfers: impl Iterator<Item = &'a Transfer>) {
        let owners: BTreeSet<&str> = transfers.map(owner_of).collect();
        self.0.retain(|_, last| {
            last.retain(|owner, _| owners.contains(owner.as_str()));
            !last.is_empty()
        });
    }

    fn of(&self, node: &str, owner: &str) -> Option<Timestamp> {
        self.0.get(node)?.get(owner).copied()
    }
}

/// The keys of all transfers: those that wait for a place come last, in the order in which they are to have one.
pub(crate) fn order<'a>(
    transfers: impl Iterator<Item = &'a Transfer>,
    taken: &LastTaken,
    now: Timestamp,
) -> Vec<TransferKey> {
    let (mut others, mut waiting) = (Vec::new(), BTreeMap::<(u8, &str), Vec<Waiting<'_>>>::new());
    let mut moving = BTreeMap::<&str, u64>::new();
    for transfer in transfers {
        // Those that are prepared wait for their node, new ones for the queue of all nodes.
        let place = match transfer.phase {
            _ if transfer.is_foreign() => None,
            DataPathPhase::Prepared => Some((0, transfer.node.as_str())),
            DataPathPhase::New => Some((1, "")),
            DataPathPhase::InProgress => {
                let bytes = moving.entry(owner_of(transfer)).or_default();
                *bytes = bytes.saturating_add(left_of(transfer));
                None
            }
            _ => None,
        };
        match place {
            Some(place) => waiting.entry(place).or_default().push(Waiting::of(transfer)),
            None => others.push(transfer.key()),
        }
    }
    let long_ago = now.saturating_sub(LONG_WAIT).unwrap_or(Timestamp::MIN);
    others.extend(waiting.into_iter().flat_map(|((_, node), waiting)| {
        let starves = |first: &Waiting<'_>| {
            let since = taken.of(node, first.owner).max(first.made)?;
            (since <= long_ago).then_some(since)
        };
        order_fairly(waiting, &moving, starves)
    }));
    others
}

/// A transfer that waits for a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting<'a> {
    made: Option<Timestamp>,
    key: TransferKey,
    owner: &'a str,
    bytes: u64,
    /// It may go before others when its owner has waited for long.
    may_age: bool,
}

impl<'a> Waiting<'a> {
    fn of(transfer: &'a Transfer) -> Self {
        let made = transfer.meta.creation_timestamp.map(Time::timestamp);
        // A new one of another node cannot be taken here, and would keep the place from those that can.
        let may_age = transfer.phase != DataPathPhase::New || transfer.kind.is_of_any_node();
        Self { made, key: transfer.key(), owner: owner_of(transfer), bytes: size_of(transfer), may_age }
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

/// The bytes that are still to be moved.
fn left_of(transfer: &Transfer) -> u64 {
    size_of(transfer).saturating_sub(u64::try_from(transfer.progress.bytes_done).unwrap_or_default())
}

/// The order in which transfers are taken, while so many bytes of each owner are left to move. `starves` gives the time
/// since which the owner of one that may go first has waited, where that is too long.
fn order_fairly<'a>(
    mut waiting: Vec<Waiting<'a>>,
    moving: &BTreeMap<&'a str, u64>,
    starves: impl Fn(&Waiting<'a>) -> Option<Timestamp>,
) -> Vec<TransferKey> {
    waiting.sort();
    let mut queues = BTreeMap::<&str, VecDeque<Waiting<'_>>>::new();
    for one in waiting {
        queues.entry(one.owner).or_default().push_back(one);
    }
    let mut starving = Vec::new();
    let mut next = BinaryHeap::new();
    for (owner, queue) in &mut queues {
        let mut load = moving.get(owner).copied().unwrap_or_default();
        if let Some(at) = queue.iter().position(|one| one.may_age)
            && let Some(since) = queue.get(at).and_then(&starves)
            && let Some(first) = queue.remove(at)
        {
            load = load.saturating_add(first.bytes);
            starving.push((since, first));
        }
        if let Some(first) = queue.front() {
            next.push(Reverse((load, first.clone())));
        }
    }
    starving.sort();
    let mut ordered: Vec<TransferKey> = starving.into_iter().map(|(_, first)| first.key).collect();
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

/// The nodes with the most bytes that are still to be moved there, the busiest first. Movers prefer nodes where fewer
/// bytes are left to move.
pub(crate) fn busy_nodes<'a>(transfers: impl Iterator<Item = &'a Transfer>) -> Vec<BusyNode> {
    let mut left = BTreeMap::<&str, u64>::new();
    let is_there = |transfer: &&Transfer| matches!(transfer.phase, DataPathPhase::Prepared | DataPathPhase::InProgress);
    for transfer in transfers.filter(is_there).filter(|transfer| !transfer.node.is_empty()) {
        let bytes = left.entry(&transfer.node).or_default();
        *bytes = bytes.saturating_add(left_of(transfer));
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
            "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
            "metadata": {"name": name, "creationTimestamp": at, "ownerReferences": owners},
            "spec": {"targetVolume": {"namespace": "shop", "pvc": name}, "snapshotSize": bytes},
            "status": {"phase": phase},
        });
        Transfer::parse(TransferKind::DataDownload, object.to_string().as_bytes()).unwrap()
    }

    fn names(transfers: &[Transfer]) -> Vec<String> {
        names_after(transfers, 0)
    }

    /// The order at a second.
    fn names_after(transfers: &[Transfer], second: i64) -> Vec<String> {
        let mut taken = LastTaken::default();
        transfers.iter().for_each(|one| taken.note(one));
        let now = Timestamp::from_second(second).unwrap();
        order(transfers.iter(), &taken, now).into_iter().map(|key| key.name).collect()
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
    fn a_backup_of_which_nothing_was_begun_for_an_hour_goes_first() {
        let at = |second: i64| Some(Time::new(Timestamp::from_second(second).unwrap()));
        let mut runs = transfer("a-runs", "large", "InProgress", 0, 1000);
        (runs.node, runs.started) = ("n1".to_owned(), at(5));
        let mut all = vec![runs];
        for (name, owner, node, made) in [
            ("l1", "large", "n1", 1),
            ("l2", "large", "n1", 2),
            ("s1", "small", "n1", 3000),
            ("s2", "small", "n1", 3001),
        ] {
            let mut one = transfer(name, owner, "Prepared", made, 10);
            node.clone_into(&mut one.node);
            all.push(one);
        }
        assert_eq!(names_after(&all, 3604), ["a-runs", "s1", "s2", "l1", "l2"]);
        // One, and then those with fewer bytes.
        assert_eq!(names_after(&all, 3605), ["a-runs", "l1", "s1", "s2", "l2"]);
        // Who has waited for longest is the first of all, even if both have waited too long.
        assert_eq!(names_after(&all, 9000), ["a-runs", "l1", "s1", "s2", "l2"]);
        // What was begun on another node is no turn on this one.
        all[0].node = "n2".to_owned();
        assert_eq!(names_after(&all, 3601), ["a-runs", "l1", "s1", "s2", "l2"]);
        all[0].node = "n1".to_owned();
        // What has been moved is no load any more.
        all[0].progress.bytes_done = 995;
        assert_eq!(names_after(&all, 3604), ["a-runs", "s1", "l1", "s2", "l2"]);
        // An hour later the last turn is another one, also after its end.
        let mut ended = transfer("a-ended", "large", "Completed", 0, 10);
        (ended.node, ended.started) = ("n1".to_owned(), at(3600));
        let mut taken = LastTaken::default();
        all.iter().chain([&ended]).for_each(|one| taken.note(one));
        taken.retain_owners(all.iter());
        let ordered = order(all.iter(), &taken, Timestamp::from_second(4000).unwrap());
        assert_eq!(ordered[1].name, "s1");
        taken.retain_owners(all[3..].iter());
        assert_eq!(taken.of("n1", "large"), None);
    }

    #[test]
    fn a_new_one_of_a_single_node_does_not_take_the_turn_of_its_restore() {
        let mut of_node = transfer("p", "large", "New", 1, 10);
        of_node.kind = TransferKind::PodVolumeRestore;
        let mut all = vec![transfer("a-runs", "large", "InProgress", 0, 1000), of_node];
        all.push(transfer("l", "large", "New", 2, 10));
        all.extend([3000, 3001].map(|made| transfer(&format!("s{made}"), "small", "New", made, 10)));
        assert_eq!(names_after(&all, 3600), ["a-runs", "s3000", "s3001", "p", "l"]);
        assert_eq!(names_after(&all, 3605), ["a-runs", "l", "s3000", "s3001", "p"]);
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
                        let made = |one: &Transfer| one.meta.creation_timestamp.map(Time::timestamp);
                        assert!(made(one) <= made(other), "history {history}");
                    }
                }
                *loads.entry(owner_of(one)).or_default() += size_of(one);
            }
        }
    }

    #[test]
    fn the_next_mover_prefers_nodes_with_fewer_bytes_left() {
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
