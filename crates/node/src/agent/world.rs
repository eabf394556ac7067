//! Transfers and pods as they were last seen.

use crate::attachments::{AcceptedUpload, FullClasses, class_to_attach, waits_for_attachment};
use crate::config::NodeAgentConfig;
use crate::exposer::copies::UnfinishedUids;
use crate::fairness::{BusyNode, LastTaken, busy_nodes, order};
use crate::pod::PodView;
use crate::transfer::{Transfer, TransferKey, TransferKind};
use crate::user_pod::{UserPod, loss_of_source, pod_readiness};
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_api::well_known::{LABEL_ROLE, NODE_AGENT};
use lifeboat_api::{DataPathPhase, Time};
use lifeboat_object::Head;
use lifeboat_reconcile::MirrorEvent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most turns that an agent waits for others to act for a node without one.
const MOST_TURNS: i32 = 10;

/// The most transfers that are known to have been warned of.
const MOST_WARNED: usize = 10_000;

/// The types that are mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Mirrored {
    Transfers(TransferKind),
    /// The pods of the agent's namespace: those of movers and of node agents.
    OwnPods,
    /// The pods of the agent's node: those of users.
    PodsOfNode,
}

/// A change that a mirror has seen.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) of: Mirrored,
    pub(super) what: MirrorEvent,
}

/// The facts about the other transfers that a step for one needs.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherTransfers {
    pub(super) unfinished: UnfinishedUids,
    pub(super) busy: Arc<[BusyNode]>,
}

/// The state of the pod of a user whose volume a transfer is asked for.
#[derive(Debug)]
pub(super) struct UserPodOfTransfer {
    /// The pod as a new transfer needs it; ready where it needs none.
    pub(super) user_pod: UserPod,
    /// The reason for which it is lost.
    pub(super) lost_user_pod: Option<String>,
}

/// Everything that was seen. Transfers that have ended and own nothing more are not kept.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) transfers: BTreeMap<TransferKey, Transfer>,
    own_pods: BTreeMap<String, PodView>,
    /// By UID.
    pods_of_node: BTreeMap<String, PodView>,
    listed: Vec<Mirrored>,
    taken: LastTaken,
    /// The UIDs of transfers that cannot be read and were warned of.
    warned: BTreeSet<String>,
}

impl World {
    pub(super) fn see(&mut self, change: Change) {
        match change.of {
            Mirrored::Transfers(kind) => self.see_transfers(kind, &change.what),
            Mirrored::OwnPods => see_pods(&mut self.own_pods, &change.what, |pod| pod.name.clone()),
            Mirrored::PodsOfNode => see_pods(&mut self.pods_of_node, &change.what, |pod| pod.uid.clone()),
        }
        if matches!(change.what, MirrorEvent::All(_)) && !self.listed.contains(&change.of) {
            self.listed.push(change.of);
        }
    }

    /// Returns true if every type was listed once. Before that a missing object may only be unknown.
    pub(super) fn is_complete(&self) -> bool {
        self.listed.len() == TransferKind::ALL.len() + 2
    }

    /// Takes in a transfer as it was stored.
    pub(super) fn put(&mut self, transfer: Transfer) {
        if !transfer.is_foreign() {
            self.taken.note(&transfer);
        }
        match transfer.has_ended() && !transfer.has_finalizer() {
            true => drop(self.transfers.remove(&transfer.key())),
            false => drop(self.transfers.insert(transfer.key(), transfer)),
        }
    }

    fn see_transfers(&mut self, kind: TransferKind, what: &MirrorEvent) {
        match what {
            MirrorEvent::All(all) => {
                self.transfers.retain(|key, _| key.kind != kind);
                all.iter().for_each(|body| self.see_transfer(kind, body));
            }
            MirrorEvent::Applied(body) => self.see_transfer(kind, body),
            MirrorEvent::Deleted(body) => {
                let Ok(gone) = Head::parse(body) else { return };
                self.warned.remove(&gone.uid);
                let key = TransferKey { kind, name: gone.name };
                // Another one of its name may be there already.
                if self.transfers.get(&key).is_some_and(|known| known.meta.uid == gone.uid) {
                    self.transfers.remove(&key);
                }
            }
        }
    }

    fn see_transfer(&mut self, kind: TransferKind, body: &Bytes) {
        match Transfer::parse(kind, body) {
            Ok(transfer) => {
                if let Some(why) = transfer.reason_left_alone() {
                    self.warn_once(kind, [&transfer.meta.name, &transfer.meta.uid], why);
                }
                self.put(transfer);
            }
            Err(e) => {
                let Ok(head) = Head::parse(body) else { return };
                self.warn_once(kind, [&head.name, &head.uid], &e.to_string());
                // What was known of it holds no longer.
                self.transfers.remove(&TransferKey { kind, name: head.name });
            }
        }
    }

    /// Warns of a transfer, by its name and UID, that is left alone.
    fn warn_once(&mut self, kind: TransferKind, [name, uid]: [&str; 2], why: &str) {
        if self.warned.len() >= MOST_WARNED {
            self.warned.clear();
        }
        if self.warned.insert(uid.to_owned()) {
            tracing::warn!(kind = kind.word(), name, error = why, "cannot be read and is left alone");
        }
    }

    /// The transfers that node agents of this kind do.
    fn ours(&self) -> impl Iterator<Item = &Transfer> {
        self.transfers.values().filter(|transfer| !transfer.is_foreign())
    }

    /// The keys of all transfers, in the order in which they are looked at.
    pub(super) fn order(&mut self, now: Timestamp) -> Vec<TransferKey> {
        self.taken.retain_owners(self.transfers.values());
        order(self.transfers.values(), &self.taken, now)
    }

    /// The facts about all transfers that a step for one of them needs.
    pub(super) fn others(&self) -> OtherTransfers {
        // All that are kept go on, or still have to clean up.
        let unfinished = self.transfers.values().map(|transfer| transfer.meta.uid.clone()).collect();
        OtherTransfers { unfinished: Arc::new(unfinished), busy: busy_nodes(self.ours()).into() }
    }

    /// The pod of a transfer.
    pub(super) fn pod_of(&self, transfer: &Transfer) -> Option<&PodView> {
        let pod = self.own_pods.get(&transfer.meta.name)?;
        pod.owners.contains(&transfer.meta.uid).then_some(pod)
    }

    /// The pod of a user, on this node, whose volume a transfer is asked for.
    pub(super) fn user_pod_of(&self, transfer: &Transfer, is_own: bool) -> UserPodOfTransfer {
        let kind = transfer.kind;
        let Some((pod, _)) = transfer.volume_of_pod() else {
            return UserPodOfTransfer { user_pod: UserPod::Ready, lost_user_pod: None };
        };
        let seen = self.pods_of_node.get(&pod.uid);
        let lost_user_pod = match seen {
            None if is_own => {
                let (namespace, name, participle) = (&pod.namespace, &pod.name, kind.participle());
                Some(format!("the pod {namespace}/{name}, whose volume is {participle}, is gone"))
            }
            Some(seen) if is_own && kind.is_backup() => loss_of_source(seen),
            _ => None,
        };
        UserPodOfTransfer { user_pod: pod_readiness(kind, seen), lost_user_pod }
    }

    /// Returns true if a node agent works on a node.
    pub(super) fn has_agent(&self, node: &str) -> bool {
        let is_agent = |pod: &PodView| pod.labels.get(LABEL_ROLE).is_some_and(|role| role == NODE_AGENT);
        self.own_pods.values().any(|pod| is_agent(pod) && pod.node == node && pod.is_running() && pod.is_ready)
    }

    /// The number of nodes before this one, by name, that have a working node agent. They are the first to act for a node without one; an
    /// agent that does not, such as one of Velero's, has its turn and no more.
    pub(super) fn agents_before(&self, own_node: &str) -> i32 {
        let nodes: BTreeSet<&str> = self.own_pods.values().map(|pod| pod.node.as_str()).collect();
        let before = nodes.into_iter().filter(|node| *node < own_node && self.has_agent(node)).count();
        i32::try_from(before).unwrap_or(i32::MAX).min(MOST_TURNS)
    }

    /// The number of transfers of the cluster that are prepared. Uploads that wait for an attachment take no place: their
    /// storage class limits them, and others would wait for them although they need none.
    pub(super) fn prepared_now(&self, config: &NodeAgentConfig) -> usize {
        let takes_place = |transfer: &&Transfer| {
            let is_limited = transfer.phase == DataPathPhase::Accepted && class_to_attach(transfer, config).is_some();
            transfer.is_prepared_now() && !(is_limited && self.pod_of(transfer).is_some_and(waits_for_attachment))
        };
        self.ours().filter(takes_place).count()
    }

    /// The storage classes of which volumes wait for an attachment now.
    pub(super) fn full_classes(&self, config: &NodeAgentConfig, now: Timestamp) -> FullClasses {
        let accepted = self.ours().filter(|transfer| transfer.phase == DataPathPhase::Accepted);
        let uploads = accepted.filter_map(|transfer| {
            let class = class_to_attach(transfer, config)?;
            let waits = self.pod_of(transfer).is_some_and(waits_for_attachment);
            Some(AcceptedUpload { class, accepted: transfer.accepted.map_or(now, Time::timestamp), waits })
        });
        FullClasses::of(uploads, now)
    }

    /// The time at which a transfer that runs, of a node or of any, last moved something.
    pub(super) fn moved_at(&self, node: Option<&str>) -> Option<Timestamp> {
        let all = self.ours().filter(|transfer| transfer.phase == DataPathPhase::InProgress);
        all.filter(|transfer| node.is_none_or(|node| transfer.node == node)).filter_map(Transfer::moved_at).max()
    }

    /// The number of transfers that run on a node.
    pub(super) fn running_on(&self, node: &str) -> usize {
        let runs = |transfer: &&Transfer| {
            matches!(transfer.phase, DataPathPhase::InProgress | DataPathPhase::Canceling) && transfer.node == node
        };
        self.ours().filter(runs).count()
    }
}

fn see_pods(pods: &mut BTreeMap<String, PodView>, what: &MirrorEvent, key: impl Fn(&PodView) -> String) {
    let read = |body: &Bytes| match PodView::parse(body) {
        Ok(pod) => Some(pod),
        Err(e) => {
            tracing::warn!(error = %e, "a pod cannot be read and is left alone");
            None
        }
    };
    match what {
        MirrorEvent::All(all) => {
            *pods = all.iter().filter_map(read).map(|pod| (key(&pod), pod)).collect();
        }
        MirrorEvent::Applied(body) => {
            if let Some(pod) = read(body) {
                pods.insert(key(&pod), pod);
            }
        }
        MirrorEvent::Deleted(body) => {
            if let Some(pod) = read(body) {
                // Another pod of its name may be there already.
                let of_name = key(&pod);
                if pods.get(&of_name).is_some_and(|known| known.uid == pod.uid) {
                    pods.remove(&of_name);
                }
            }
        }
    }
}
