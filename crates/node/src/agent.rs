//! The loop: see, decide, do.

mod act;
mod deliver;
mod memory;
mod patch;
mod world;

use crate::attachments::{FullClasses, class_to_attach};
use crate::config::NodeAgentConfig;
use crate::health::Health;
use crate::kube::Kube;
use crate::latency::BackupLatency;
use crate::pod::PodView;
use crate::resources;
use crate::rules::{Owner, Situation, Step, next_step};
use crate::settings::AgentSettings;
use crate::transfer::{Transfer, TransferKey, TransferKind};
use act::{Acted, Actor};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::DataPathPhase;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_mover::protocol::SIGHT_LIMIT;
use lifeboat_object::ApiResource;
use lifeboat_operation::Clock;
use lifeboat_reconcile::{MirroredType, TaskPanic, Tasks};
use memory::TransferMemory;
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use world::{Change, Mirrored, OtherTransfers, UserPodOfTransfer, World};

/// Changes waiting to be seen.
const WAITING: usize = 256;
/// Steps performed at once.
const MOST_STEPS: usize = 32;
/// Longest pause between two looks at everything.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Interval between two looks at how far a transfer has come, and so between two writes of that.
const BETWEEN_REPORTS: SignedDuration = SignedDuration::from_secs(10);
/// Pause before what a transfer waits for is written again.
const BETWEEN_NOTES: Duration = Duration::from_secs(10);
/// Time for which a node may be without a node agent before others end its transfers.
const ABANDONED: SignedDuration = SignedDuration::from_mins(5);
/// A mover that no longer sees its transfer ends before another agent acts for its node.
const _: () = assert!(SIGHT_LIMIT.as_secs() < ABANDONED.as_secs().unsigned_abs());
/// The time that each agent before this one has to act for such a node.
const TURN: SignedDuration = SignedDuration::from_mins(1);
/// Time limit for steps under way when the agent stops.
const STOPPING: Duration = Duration::from_secs(6);

/// A node agent that can run.
pub struct Agent {
    /// The cluster.
    pub cluster: Cluster,
    /// The settings of the process.
    pub settings: AgentSettings,
    /// The configuration.
    pub config: NodeAgentConfig,
    /// Transfers at once on this node.
    pub concurrency: usize,
    /// The time.
    pub clock: Clock,
    /// The health, for whoever asks.
    pub health: Arc<Health>,
}

/// The reason for which an agent ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// It sees nothing any more.
    #[error("the mirrors of the cluster have ended")]
    Blind,
}

/// Runs until it is stopped. Transfers go on without the agent, and the next one takes them up.
///
/// # Errors
/// [`AgentError`].
pub async fn run(agent: Agent, stop: CancellationToken) -> Result<(), AgentError> {
    tracing::info!(node = agent.settings.node, concurrency = agent.concurrency, "the node agent begins");
    let mut running = Running::new(agent);
    let ended = tokio::select! {
        ended = running.run() => ended,
        () = stop.cancelled() => Ok(()),
    };
    running.stop().await;
    ended
}

/// Room for one more transfer, and who says that there is none.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// In the queue of those that are prepared.
    in_queue: bool,
    /// On this node.
    on_node: bool,
    /// Others of its storage class wait for a node that can attach one more volume.
    class_is_full: bool,
    /// This agent is the first of those that work: it says of new transfers of any node what they wait for.
    tells_of_waits: bool,
    /// The time at which a transfer of the cluster last moved something.
    moved_anywhere: Option<Timestamp>,
    /// The same of this node.
    moved_here: Option<Timestamp>,
}

/// A step under way, and its transfer as it was when the step began.
#[derive(Clone, Copy, Debug)]
struct StepUnderWay {
    step: Discriminant<Step>,
    phase: DataPathPhase,
    has_started: bool,
}

impl StepUnderWay {
    fn of(transfer: &Transfer, step: &Step) -> Self {
        Self { step: discriminant(step), phase: transfer.phase, has_started: transfer.started.is_some() }
    }
}

/// A step and its result.
type Performed = (Discriminant<Step>, Result<Acted, ClusterError>);

struct Running {
    agent: Agent,
    world: World,
    changes: mpsc::Receiver<Change>,
    mirrors: JoinSet<()>,
    tasks: Tasks<TransferKey, Performed>,
    /// The steps under way.
    steps: HashMap<TransferKey, StepUnderWay>,
    memory: TransferMemory,
    next: Instant,
}

impl Running {
    fn new(agent: Agent) -> Self {
        let (sender, changes) = mpsc::channel(WAITING);
        let mut mirrors = JoinSet::new();
        let (own, node) = (Some(agent.settings.namespace.clone()), &agent.settings.node);
        let mut mirror = |of: Mirrored, resource: Arc<ApiResource>, namespace: Option<String>, fields: String| {
            let cluster = agent.cluster.clone();
            let mirrored = MirroredType { cluster, resource, namespace, fields, metadata_only: false };
            mirrors.spawn(mirrored.mirror(move |what| Change { of, what }, sender.clone()));
        };
        for kind in TransferKind::ALL {
            mirror(Mirrored::Transfers(kind), kind.resource(), own.clone(), String::new());
        }
        mirror(Mirrored::OwnPods, Arc::new(resources::pods()), own, String::new());
        mirror(Mirrored::PodsOfNode, Arc::new(resources::pods()), None, format!("spec.nodeName={node}"));
        Self {
            agent,
            world: World::default(),
            changes,
            mirrors,
            tasks: Tasks::default(),
            steps: HashMap::new(),
            memory: TransferMemory::default(),
            next: Instant::now(),
        }
    }

    async fn run(&mut self) -> Result<(), AgentError> {
        loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    Some(change) => self.world.see(change),
                    None => return Err(AgentError::Blind),
                },
                Some((key, ended)) = self.tasks.next() => self.ended(&key, ended),
                () = sleep_until(self.next) => {}
            }
            while let Ok(change) = self.changes.try_recv() {
                self.world.see(change);
            }
            while let Some((key, ended)) = self.tasks.next_now() {
                self.ended(&key, ended);
            }
            if self.world.is_complete() {
                self.pass();
                self.agent.health.looked();
            }
        }
    }

    async fn stop(&mut self) {
        self.mirrors.shutdown().await;
        // A write in flight is awaited, so that its outcome is known.
        let _ = tokio::time::timeout(STOPPING, async { while self.tasks.next().await.is_some() {} }).await;
        self.tasks.shutdown().await;
    }

    /// Looks at every transfer once, and starts what is to be done.
    fn pass(&mut self) {
        let (now, instant) = ((self.agent.clock)(), Instant::now());
        self.next = instant + LONGEST_PAUSE;
        let world = &self.world;
        self.memory.keep(|key| world.transfers.contains_key(key));
        let mut queued = self.world.prepared_now(&self.agent.config);
        queued += self.count_under_way(&Step::Accept);
        let mut running = self.world.running_on(&self.agent.settings.node);
        running += self.count_under_way(&Step::Begin);
        let keys = self.world.order(now);
        let mut full_classes = self.full_classes(now);
        let most = self.agent.config.prepare_queue_length;
        let tells_of_waits = self.world.agents_before(&self.agent.settings.node) == 0;
        let (moved_anywhere, moved_here) =
            (self.world.moved_at(None), self.world.moved_at(Some(&self.agent.settings.node)));
        let mut others = None;
        for key in keys {
            if self.steps.contains_key(&key) || self.steps.len() >= MOST_STEPS {
                continue;
            }
            let in_queue = most.is_none_or(|length| queued < length as usize);
            let on_node = running < self.agent.concurrency;
            let class = self.class_of(&key);
            let class_is_full = class.as_ref().is_some_and(|class| full_classes.contains(class, now));
            let room = Room { in_queue, on_node, class_is_full, tells_of_waits, moved_anywhere, moved_here };
            let Some(step) = self.decide(&key, room, now) else { continue };
            match &step {
                Step::Nothing => continue,
                Step::Wait { until, .. } => {
                    self.wake_at(instant + Duration::try_from(until.duration_since(now)).unwrap_or_default());
                    continue;
                }
                Step::Accept => {
                    queued += 1;
                    class.iter().for_each(|class| full_classes.accept(class, now));
                }
                Step::Begin => running += 1,
                _ => {}
            }
            if let Some(until) = self.memory.of(&key).retries.paused_until(&discriminant(&step), instant) {
                self.wake_at(until);
                continue;
            }
            self.start(key, step, now, &mut others);
        }
    }

    /// The storage class of the claim of a transfer.
    fn class_of(&self, key: &TransferKey) -> Option<String> {
        class_to_attach(self.world.transfers.get(key)?, &self.agent.config).map(str::to_owned)
    }

    /// The storage classes that are full, with the steps that are under way.
    fn full_classes(&self, now: Timestamp) -> FullClasses {
        let mut full = self.world.full_classes(&self.agent.config, now);
        let accepted = self.steps.iter().filter(|(_, under_way)| under_way.step == discriminant(&Step::Accept));
        for class in accepted.filter_map(|(key, _)| self.class_of(key)) {
            full.accept(&class, now);
        }
        full
    }

    /// The number of steps of this kind that are under way.
    fn count_under_way(&self, step: &Step) -> usize {
        self.steps.values().filter(|under_way| under_way.step == discriminant(step)).count()
    }

    fn wake_at(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    fn start(&mut self, key: TransferKey, step: Step, now: Timestamp, others: &mut Option<OtherTransfers>) {
        let Some(transfer) = self.world.transfers.get(&key).cloned() else { return };
        // Only these ask for the others.
        let others = match step {
            Step::Expose | Step::CleanUp => others.get_or_insert_with(|| self.world.others()).clone(),
            _ => OtherTransfers::default(),
        };
        let actor = Actor {
            kube: Kube(self.agent.cluster.clone()),
            settings: self.agent.settings.clone(),
            config: self.agent.config.clone(),
            others,
            now,
        };
        let kind = discriminant(&step);
        self.steps.insert(key.clone(), StepUnderWay::of(&transfer, &step));
        tracing::debug!(kind = key.kind.word(), name = key.name, ?step, "step");
        self.tasks.spawn(key, CancellationToken::new(), async move { (kind, actor.perform(&transfer, step).await) });
    }

    /// The next step of a transfer.
    fn decide(&mut self, key: &TransferKey, room: Room, now: Timestamp) -> Option<Step> {
        let transfer = self.world.transfers.get(key)?;
        let pod = self.world.pod_of(transfer);
        let node = node_of(transfer, pod);
        let own_node = &self.agent.settings.node;
        let owner = match node.is_empty() || node == own_node {
            // Nobody has begun it, or this agent has.
            true => Owner::Us,
            false => {
                let since = self.memory.without_agent(node, self.world.has_agent(node), now);
                let turn = ABANDONED + TURN * self.world.agents_before(own_node);
                owner_on(node, since.filter(|since| now.duration_since(*since) >= turn))
            }
        };
        let has_slot = match &owner {
            // Its mover is on the node whose agent is gone.
            Owner::Nobody(_) => self.world.running_on(node) < self.agent.concurrency,
            Owner::Us | Owner::Other => room.on_node,
        };
        if let Owner::Other = owner {
            // It is looked at again when its node may be given up.
            self.next = self.next.min(Instant::now() + LONGEST_PAUSE);
        }
        let remembered = self.memory.of(key);
        remembered.look(transfer, owner != Owner::Other, now);
        let report_at = remembered.reported.map_or(now, |at| at + BETWEEN_REPORTS);
        let UserPodOfTransfer { user_pod, lost_user_pod } = self.world.user_pod_of(transfer, owner == Owner::Us);
        let runs = transfer.phase == DataPathPhase::InProgress && owner != Owner::Other;
        let situation = Situation {
            transfer,
            pod,
            owner,
            user_pod,
            lost_user_pod,
            has_queue_room: room.in_queue,
            class_is_full: room.class_is_full,
            has_slot,
            tells_of_waits: room.tells_of_waits,
            cancel_seen: remembered.cancel_seen,
            delivery_seen: remembered.delivery_seen,
            moved_at: remembered.moved.map(|(at, _)| at),
            others_moved_at: match transfer.phase {
                DataPathPhase::New => room.moved_anywhere,
                _ => room.moved_here,
            },
            is_report_due: now >= report_at,
            prepare_timeout: transfer.at_least_operation_timeout(self.agent.settings.prepare_timeout),
            now,
        };
        let step = next_step(&situation);
        if step == Step::Report {
            remembered.reported = Some(now);
        }
        if runs {
            let wait = Duration::try_from(report_at.max(now + BETWEEN_REPORTS).duration_since(now));
            self.next = self.next.min(Instant::now() + wait.unwrap_or_default());
        }
        Some(step)
    }

    fn ended(&mut self, key: &TransferKey, ended: Result<Performed, TaskPanic>) {
        let under_way = self.steps.remove(key);
        let (now, instant) = ((self.agent.clock)(), Instant::now());
        let remembered = self.memory.of(key);
        let (step, acted) = match ended {
            Ok(performed) => performed,
            Err(died) => {
                tracing::error!(kind = key.kind.word(), name = key.name, error = %died, "a step failed");
                if let Some(under_way) = under_way {
                    remembered.retries.failed(under_way.step, instant);
                }
                return;
            }
        };
        match acted {
            Ok(Acted::Stored(stored)) => {
                remembered.retries.succeeded(&step);
                if step == discriminant(&Step::Again { killed: Vec::new() }) {
                    remembered.begin_again();
                }
                if step == discriminant(&Step::Note { message: String::new() }) {
                    remembered.retries.waits(step, BETWEEN_NOTES, instant);
                }
                self.store(*stored, under_way);
            }
            Ok(Acted::More) => remembered.retries.succeeded(&step),
            Ok(Acted::Waits(reason, pause)) => {
                tracing::debug!(kind = key.kind.word(), name = key.name, reason, "waits");
                remembered.retries.waits(step, pause, instant);
            }
            Ok(Acted::Moved(moved, stored)) => {
                remembered.retries.succeeded(&step);
                remembered.has_moved(moved, now);
                if let Some(stored) = stored {
                    self.store(*stored, under_way);
                }
            }
            Err(e) => {
                tracing::warn!(kind = key.kind.word(), name = key.name, error = %e, "a step failed, it is tried again");
                remembered.retries.failed(step, instant);
            }
        }
    }

    /// Takes in a transfer as it was stored by a step of this agent. The mirror may have shown it before, so that it is
    /// counted by what it was when the step began, whose version it is made of.
    fn store(&mut self, stored: Transfer, before: Option<StepUnderWay>) {
        if let Some(before) = before {
            if stored.has_ended() && before.phase != stored.phase {
                self.agent.health.count(stored.kind, stored.phase);
                if let (DataPathPhase::Completed, Some(latency)) = (stored.phase, BackupLatency::of(&stored)) {
                    self.agent.health.note_latency(latency);
                }
            }
            // Another attempt has the start of the first one.
            if stored.started.is_some() && !before.has_started {
                self.agent.health.count_begun(stored.kind);
            }
        }
        self.world.put(stored);
    }
}

/// The node of a transfer: that of its pod once it has begun, or that which is to do it; empty for none.
fn node_of<'a>(transfer: &'a Transfer, pod: Option<&'a PodView>) -> &'a str {
    match pod {
        Some(pod) if pod.is_running() || pod.has_ended() => &pod.node,
        _ if !transfer.node.is_empty() => &transfer.node,
        _ => &transfer.accepted_by,
    }
}

/// The agent that acts for a transfer of another node, which may be given up because it is without an agent since then.
fn owner_on(node: &str, given_up: Option<Timestamp>) -> Owner {
    match given_up {
        Some(since) => Owner::Nobody(format!(
            "the node {node}, on which it was, has no running node agent since {since}; nothing goes on with it there"
        )),
        None => Owner::Other,
    }
}

#[cfg(test)]
mod tests;
