//! The loop: see, decide, do.

mod codes;
mod explain;
mod key;
mod memory;
mod perform;
mod plan;
mod plan_bench;
mod queue_log;
mod step;
mod wait;
mod words;

use crate::buckets::Buckets;
use crate::census::{Census, look_again_and_again};
use crate::event::{emit, event, of_loss};
use crate::guard::{OwnPodMarks, wait_for_velero_to_end};
use crate::health::Health;
use crate::http::download::{Downloads, Signer};
use crate::http::plan::Plans;
use crate::http::profile::Profiles;
use crate::http::{self, Site};
use crate::member::member_in;
use crate::metrics::Metrics;
use crate::options::{Env, Listeners, Options, ProfileListener};
use crate::terminating::{let_all_go, nobody_can_lead, part, until_nobody_can_lead};
use crate::work::{Context, StepError, StepResult};
use crate::world::{MirrorChange, MirroredKind, World};
pub use explain::{AtRest, ExplainedStep, ExplainedWait, Explanation, explain};
use key::Key;
use lifeboat_api::well_known::LABEL_EXCLUDE_FROM_BACKUP;
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_client::Client;
use lifeboat_client::SERVER_LEASE;
use lifeboat_lifecycle::coverage::{good_newest_first, namespaces};
use lifeboat_lifecycle::phase::request::ByBackup;
use lifeboat_lifecycle::phase::shrunken::{Loss, losses_of_newest};
use lifeboat_reconcile::{Candidate, Leadership, LeaseTimes, LostLease, MirroredType, TaskPanic, Tasks};
use memory::Memory;
use perform::perform;
use plan::{PlanInput, is_wanted, plan};
#[doc(hidden)]
pub use plan_bench::PlanBench;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Changes waiting to be seen.
const WAITING: usize = 256;
/// Events on their way at once.
const MOST_EVENTS: usize = 32;
/// The health message of a server that waits for one of Velero's to end.
const VELERO_RUNS: &str = "waiting for the end of a Velero server in this namespace";
/// Number of attempts to read the UID of the cluster before the first decision.
const ATTEMPTS_AT_UID: u32 = 5;
/// The pause between two of these attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(2);
/// Longest pause between two looks at everything.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Interval between two comparisons of the namespaces with the backups.
const BETWEEN_COMPARISONS: Duration = Duration::from_secs(15);
/// Time limit for tasks to stop: work that hangs is given up after four seconds, and then its end is noted. The
/// leadership holds for longer than that.
const STOPPING: Duration = Duration::from_secs(6);

/// The server ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another server may lead now.
    #[error("the lease {SERVER_LEASE} was lost: another server may lead now, so this one ends")]
    LostLease(#[from] LostLease),
    /// An address to listen at.
    #[error("cannot listen: {0}")]
    Listener(std::io::Error),
    /// The namespace is being deleted.
    #[error(
        "the namespace {0} is being deleted: its restores were let go, and nothing else can be done there, so this server ends"
    )]
    NamespaceEnds(String),
    /// The metrics are not consistent.
    #[error("cannot count: {0}")]
    Metrics(String),
}

/// Serves until cancelled: waits for the leadership, then does what the resources of the namespace ask for.
///
/// Work in progress is stopped, not finished: the next leader takes it up.
///
/// # Errors
/// [`ServeError`]; the process should end then, and not act any more.
pub async fn serve(options: Options, env: Env, listeners: Listeners, times: LeaseTimes) -> Result<(), ServeError> {
    let metrics = Arc::new(Metrics::new().map_err(|e| ServeError::Metrics(e.to_string()))?);
    let health = Arc::new(Health::default());
    let client = Client { cluster: env.cluster.clone(), namespace: options.namespace.clone() };
    let buckets = Arc::new(Buckets::default());
    // Ends with this call.
    let mut sites = JoinSet::new();
    if let Some(listener) = listeners.status {
        sites.spawn(http::serve(listener, Site::Status { metrics: Arc::clone(&metrics), health: Arc::clone(&health) }));
    }
    if let Some(ProfileListener { listener, command_line }) = listeners.profiles {
        sites.spawn(http::serve(listener, Site::Profiles(Profiles { command_line })));
    }
    let mut signer = None;
    if let Some(listener) = listeners.downloads {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let own = Signer::new(env.process.signing_key.0, address);
        let providers = Arc::clone(&env.providers);
        let downloads = Downloads {
            signer: own.clone(),
            client: client.clone(),
            providers,
            buckets: Arc::clone(&buckets),
            clock: Arc::clone(&env.clock.0),
        };
        let plans = Plans::new(client.clone(), Arc::clone(&buckets), options.restore.clone(), &env);
        let files = Site::Files { downloads: Box::new(downloads), plans: Box::new(plans) };
        sites.spawn(http::serve(listener, files));
        signer = Some(own);
    }
    let candidate = Candidate {
        cluster: env.cluster.clone(),
        namespace: options.namespace.clone(),
        name: SERVER_LEASE.to_owned(),
        // It is of this cluster and of now: no backup takes it along.
        labels: BTreeMap::from([(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]),
        holder: format!("{}_{}", options.identity, env.process.instance),
        times,
        now: Arc::clone(&env.clock.0),
    };
    let own = OwnPodMarks { pod: env.process.pod.as_ref(), identity: &options.identity };
    health.waits(VELERO_RUNS);
    if !wait_for_velero_to_end(&env.cluster, &options.namespace, own, &env.cancel).await {
        return Ok(());
    }
    health.stands_by();
    tracing::info!(
        identity = options.identity,
        holder = candidate.holder,
        namespace = options.namespace,
        "waiting for the leadership"
    );
    let context = Context {
        client,
        env: env.clone(),
        options: options.clone(),
        leadership: Leadership::lost(),
        metrics,
        buckets,
        signer,
        notes: Arc::default(),
    };
    let acquired = tokio::select! {
        acquired = candidate.acquire(&env.cancel) => acquired,
        () = until_nobody_can_lead(&env.cluster, &options.namespace) => return let_go(&context).await,
    };
    let Some(leadership) = acquired else { return Ok(()) };
    let mut keeping = keep(&candidate, &leadership);
    health.waits(VELERO_RUNS);
    let alone = tokio::select! {
        _ = keeping.join_next() => return Err(LostLease.into()),
        alone = wait_for_velero_to_end(&env.cluster, &options.namespace, own, &env.cancel) => alone,
    };
    if !alone {
        keeping.shutdown().await;
        candidate.release(&leadership).await;
        return Ok(());
    }
    health.leads();
    tracing::info!(identity = options.identity, "leading");
    let cancel = env.cancel.clone();
    // Stops the work when the leadership ends before the process does.
    let stop = cancel.child_token();
    let leading =
        Context { env: Env { cancel: stop.clone(), ..env }, leadership: leadership.clone(), ..context.clone() };
    let mut server = Server::new(leading, health);
    let ended = tokio::select! {
        () = server.run() => Ok(()),
        _ = keeping.join_next() => Err(LostLease.into()),
        () = cancel.cancelled() => Ok(()),
    };
    stop.cancel();
    server.stop().await;
    if ended.is_ok() {
        part(&Context { leadership: leadership.clone(), ..context.clone() }).await;
    }
    // A renewal on its way would take back the Lease that is released below.
    keeping.shutdown().await;
    if ended.is_ok() {
        candidate.release(&leadership).await;
    } else if nobody_can_lead(&context.client.cluster, &context.options.namespace).await {
        return let_go(&context).await;
    }
    ended
}

/// Ends a server of a namespace that is being deleted, when its Restores were let go.
async fn let_go(context: &Context) -> Result<(), ServeError> {
    let namespace = context.options.namespace.clone();
    tracing::warn!(namespace, "the namespace is being deleted: its restores are let go, and nothing else is done");
    let without_lease = Context { leadership: Leadership::for_ever(), ..context.clone() };
    match Box::pin(let_all_go(&without_lease, &context.env.cancel)).await {
        true => Err(ServeError::NamespaceEnds(namespace)),
        false => Ok(()),
    }
}

/// Renews the Lease in a task of its own, so that a long look at many resources does not hold it up. It ends when the Lease is lost.
fn keep(candidate: &Candidate, leadership: &Leadership) -> JoinSet<()> {
    let (candidate, leadership) = (candidate.clone(), leadership.clone());
    let mut keeping = JoinSet::new();
    keeping.spawn(async move {
        candidate.renew_until_lost(&leadership).await;
    });
    keeping
}

/// The UID of the cluster, before the first decision; empty when it cannot be read for now: tasks ask again.
async fn own_cluster(context: &Context) -> String {
    for attempt in 1..=ATTEMPTS_AT_UID {
        match context.cluster_uid().await {
            Ok(cluster) => return cluster,
            Err(why) => {
                tracing::warn!(attempt, error = %why, "the UID of the cluster (of its namespace kube-system) cannot be read");
            }
        }
        tokio::time::sleep(BETWEEN_ATTEMPTS).await;
    }
    String::new()
}

struct Server {
    context: Arc<Context>,
    health: Arc<Health>,
    world: World,
    changes: mpsc::Receiver<MirrorChange>,
    mirrors: JoinSet<()>,
    /// The namespaces of the cluster, and when they were compared with the backups last.
    census: watch::Receiver<Census>,
    compared: Option<Instant>,
    tasks: Tasks<Key, StepResult>,
    /// Events on their way.
    events: JoinSet<()>,
    memory: Memory,
    /// When there may be something to do next.
    next: Instant,
}

impl Server {
    fn new(context: Context, health: Arc<Health>) -> Self {
        let (sender, changes) = mpsc::channel(WAITING);
        let mut mirrors = JoinSet::new();
        for kind in MirroredKind::ALL {
            let client = &context.client;
            let (cluster, namespace) = (client.cluster.clone(), Some(client.namespace.clone()));
            let mirrored = MirroredType {
                cluster,
                resource: kind.resource(),
                namespace,
                fields: String::new(),
                metadata_only: false,
            };
            mirrors.spawn(mirrored.mirror(|what| MirrorChange { kind: *kind, what }, sender.clone()));
        }
        let (found, census) = watch::channel(None);
        let (cluster, own) = (context.client.cluster.clone(), context.options.namespace.clone());
        mirrors.spawn(look_again_and_again(cluster, own, found));
        Self {
            world: World::default(),
            census,
            compared: None,
            context: Arc::new(context),
            health,
            changes,
            mirrors,
            tasks: Tasks::default(),
            events: JoinSet::new(),
            memory: Memory::default(),
            next: Instant::now(),
        }
    }

    async fn run(&mut self) {
        self.world.cluster = own_cluster(&self.context).await;
        loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    Some(change) => self.world.see(change),
                    None => return,
                },
                Some((key, finished)) = self.tasks.next() => self.ended(key, finished),
                Ok(()) = self.census.changed() => self.compared = None,
                () = sleep_until(self.next) => {}
            }
            // Everything that has come meanwhile: a look at the whole world is not for each.
            while let Ok(change) = self.changes.try_recv() {
                self.world.see(change);
            }
            while let Some((key, finished)) = self.tasks.next_now() {
                self.ended(key, finished);
            }
            self.emit_events();
            if self.world.is_complete() {
                // Before the steps, which count for the schedules that are known.
                self.context.metrics.observe(&self.world, &self.context.options.zone, self.context.env.now());
                self.pass();
                self.compare();
                self.health.looked(std::time::Instant::now());
            }
        }
    }

    /// Counts which namespaces have a good backup: not at each look, because it may be a lot.
    fn compare(&mut self) {
        let now = Instant::now();
        if self.compared.is_some_and(|at| now.duration_since(at) < BETWEEN_COMPARISONS) {
            return;
        }
        let Some(census) = self.census.borrow().clone() else { return };
        self.compared = Some(now);
        let requests = self.world.delete_requests.iter().collect();
        let good = good_newest_first(self.world.backups.iter(), &requests, &self.world.cluster);
        let states = namespaces(&good, self.world.schedules.iter(), &census, self.context.env.now());
        self.context.metrics.observe_namespaces(&states);
    }

    async fn stop(&mut self) {
        self.mirrors.shutdown().await;
        // A write in flight is awaited, so that its outcome is known.
        let _ = tokio::time::timeout(STOPPING, async { while self.tasks.next().await.is_some() {} }).await;
        self.tasks.shutdown().await;
        // What became of the last ones is in their phases.
        self.events.shutdown().await;
    }

    /// Tells of changes of phase. Those of a storm are left out: events are for people.
    fn emit_events(&mut self) {
        while self.events.try_join_next().is_some() {}
        let (identity, now) = (&self.context.options.identity, self.context.env.now());
        let turned = self.world.backups.take_turned();
        let losses = self.losses_of(&turned);
        let of_backup = |backup: &Backup| {
            let told = event(backup, identity, now);
            match losses.get(&backup.metadata.name) {
                Some(loss) => of_loss(told, loss),
                None => told,
            }
        };
        let mut events: Vec<_> = turned.iter().map(of_backup).collect();
        events.extend(self.world.restores.take_turned().iter().map(|r| event(r, identity, now)));
        events.extend(self.world.locations.take_turned().iter().map(|l| event(l, identity, now)));
        events.extend(self.world.schedules.take_turned().iter().map(|s| event(s, identity, now)));
        events.extend(self.world.repositories.take_turned().iter().map(|r| event(r, identity, now)));
        self.world.forget_turned();
        for event in events {
            if self.events.len() < MOST_EVENTS {
                let context = Arc::clone(&self.context);
                self.events.spawn(async move { emit(&context.client, event).await });
            }
        }
    }

    /// The losses of those of these backups that are the newest good ones of their schedules, by their names.
    fn losses_of(&self, turned: &[Backup]) -> BTreeMap<String, String> {
        let mut ended = turned.iter().filter(|backup| backup.status.phase == Some(BackupPhase::Completed)).peekable();
        if ended.peek().is_none() {
            return BTreeMap::new();
        }
        let requests: ByBackup<'_> = self.world.delete_requests.iter().collect();
        let default = self.context.options.default_location.as_deref();
        let member = |backup| member_in(&self.world, backup, requests.of(backup), default);
        let losses = losses_of_newest(self.world.schedules.iter(), self.world.backups.iter(), member);
        let lost: BTreeMap<&str, &Loss> = losses.values().map(|lost| (lost.backup, &lost.loss)).collect();
        let told = ended.filter_map(|backup| {
            let name = &backup.metadata.name;
            Some((name.clone(), lost.get(name.as_str())?.to_string()))
        });
        told.collect()
    }

    /// Looks at everything once and starts what is to be done.
    fn pass(&mut self) {
        if self.world.cluster.is_empty()
            && let Some(cluster) = self.context.notes.cluster_uid.get()
        {
            // A task has asked again.
            self.world.cluster.clone_from(cluster);
        }
        for running in self.tasks.running().filter(|running| !is_wanted(&running.key, &self.world)) {
            running.stop.cancel();
        }
        let now = (self.context.env.now(), Instant::now());
        let view =
            PlanInput { world: &self.world, options: &self.context.options, memory: &self.memory, now, explain: false };
        let plan = plan(view, self.tasks.running().map(|running| &running.key));
        self.world.left.clear();
        self.memory.looked(&self.world);
        self.context.buckets.keep_only(|location| self.world.locations.is_there(location));
        self.context.notes.locations.keep_only(|location| self.world.locations.is_there(location));
        self.next = now.1 + LONGEST_PAUSE;
        if let Some(at) = plan.wake {
            self.next = self.next.min(now.1 + at.duration_since(now.0).unsigned_abs());
        }
        if let Some(at) = plan.retry {
            self.next = self.next.min(at);
        }
        for work in plan.work {
            queue_log::tell(&work, &self.world, now.0);
            self.memory.begins(&work, now.1);
            let key = work.key.clone();
            let (context, stop) = (Arc::clone(&self.context), self.context.env.cancel.child_token());
            self.tasks.spawn(key, stop.clone(), async move { perform(&context, work, stop).await });
        }
    }

    fn ended(&mut self, key: Key, finished: Result<StepResult, TaskPanic>) {
        match finished.unwrap_or_else(|died| Err(StepError::Because(died.to_string()))) {
            Ok(effects) => {
                self.memory.succeeded(&key, &effects, Instant::now());
                for effect in effects {
                    effect.apply(&mut self.world);
                }
            }
            Err(why) => self.memory.failed(key, &why, Instant::now()),
        }
    }
}
