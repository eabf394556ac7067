//! The loop: see, decide, do.

use crate::client::Client;
use crate::event::{emit, event};
use crate::guard::wait_for_velero_to_end;
use crate::health::Health;
use crate::http::download::{Downloads, Signer};
use crate::http::{self, Site};
use crate::lead::{Candidate, LeaseTimes, LostLease};
use crate::metrics::Metrics;
use crate::mirror::mirror;
use crate::options::{Controller, Env, Listeners, Options};
use crate::phase::queue::{Move, moves};
use crate::phase::{self, Decision};
use crate::work::restore::Origin;
use crate::work::{self, Context, Finished, Unfinished};
use crate::world::{Change, Kind, World};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, Restore, RestorePhase};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Changes waiting to be seen.
const WAITING: usize = 256;
/// Longest pause between two looks at everything.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Pause after the first failure of a step; doubled with each further one, up to the longest.
const RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// After a backup has left the queue, the others keep their positions for so long: when many are refused one after the
/// other, each would cost a write to all behind it.
const SETTLED: Duration = Duration::from_secs(1);
/// Events on their way at once.
const MOST_EVENTS: usize = 32;
/// How long tasks may take to stop.
const STOPPING: Duration = Duration::from_secs(5);

/// The server ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another server may lead now.
    #[error(transparent)]
    LostLease(#[from] LostLease),
    /// An address to listen at.
    #[error("cannot listen: {0}")]
    Listener(std::io::Error),
    /// The metrics are not consistent.
    #[error("cannot count: {0}")]
    Metrics(String),
}

/// Serves until cancelled: waits for the leadership, then does what the resources of the namespace ask for.
///
/// Work in progress is stopped, not finished: whoever leads next takes it up.
///
/// # Errors
/// [`ServeError`]; the process should end then, and not act any more.
pub async fn serve(options: Options, env: Env, listeners: Listeners, times: LeaseTimes) -> Result<(), ServeError> {
    let metrics = Arc::new(Metrics::new().map_err(|e| ServeError::Metrics(e.to_string()))?);
    let health = Arc::new(Health::default());
    let client = Client { cluster: env.cluster.clone(), namespace: options.namespace.clone() };
    // Ends with this call.
    let mut sites = JoinSet::new();
    if let Some(listener) = listeners.status {
        sites.spawn(http::serve(listener, Site::Status { metrics: Arc::clone(&metrics), health: Arc::clone(&health) }));
    }
    let mut signer = None;
    if let Some(listener) = listeners.downloads {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let own = Signer::new(env.signing_key.0, address);
        let providers = Arc::clone(&env.providers);
        let downloads =
            Downloads { signer: own.clone(), client: client.clone(), providers, clock: Arc::clone(&env.clock.0) };
        sites.spawn(http::serve(listener, Site::Downloads(Box::new(downloads))));
        signer = Some(own);
    }
    let candidate = Candidate {
        cluster: env.cluster.clone(),
        namespace: options.namespace.clone(),
        identity: options.identity.clone(),
        times,
        now: Arc::clone(&env.clock.0),
    };
    health.waits("waiting for the end of a Velero server in this namespace");
    if !wait_for_velero_to_end(&env.cluster, &options.namespace, &options.identity, &env.cancel).await {
        return Ok(());
    }
    health.stands_by();
    tracing::info!(identity = options.identity, namespace = options.namespace, "waiting for the leadership");
    let Some(leadership) = candidate.acquire(&env.cancel).await else { return Ok(()) };
    health.leads();
    tracing::info!(identity = options.identity, "leading");
    let cancel = env.cancel.clone();
    // Stops the work when the leadership ends before the process does.
    let env = Env { cancel: cancel.child_token(), ..env };
    let stop = env.cancel.clone();
    let context = Context { client, env, options, leadership: leadership.clone(), metrics, signer };
    let mut server = Server::new(context, health);
    let ended = tokio::select! {
        () = server.run() => Ok(()),
        lost = candidate.keep(&leadership) => Err(lost.into()),
        () = cancel.cancelled() => Ok(()),
    };
    stop.cancel();
    server.stop().await;
    if ended.is_ok() {
        candidate.release(&leadership).await;
    }
    ended
}

/// One object and one kind of work on it: at most one task at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Queue(String),
    Backup(String),
    Restore(String),
    Validation(String),
    Default(String),
    Sync(String),
    Deletion(String),
    Download(String),
    Status(String),
}

struct Server {
    context: Arc<Context>,
    health: Arc<Health>,
    world: World,
    changes: mpsc::Receiver<Change>,
    mirrors: JoinSet<()>,
    tasks: JoinSet<(Key, Finished)>,
    /// Events on their way.
    events: JoinSet<()>,
    /// What is being worked on, and how to stop it.
    running: HashMap<Key, CancellationToken>,
    /// When a backup left the queue.
    started: Instant,
    /// Steps that failed: how often, and when to try again.
    failures: HashMap<Key, (u32, Instant)>,
    /// When there may be something to do next.
    next: Instant,
}

/// Work found to be done, and how to stop it.
type Work = (Key, CancellationToken, BoxFuture<'static, Finished>);

impl Server {
    fn new(context: Context, health: Arc<Health>) -> Self {
        let (sender, changes) = mpsc::channel(WAITING);
        let mut mirrors = JoinSet::new();
        for kind in Kind::ALL {
            mirrors.spawn(mirror(*kind, context.client.clone(), sender.clone()));
        }
        Self {
            context: Arc::new(context),
            health,
            world: World::default(),
            changes,
            mirrors,
            tasks: JoinSet::new(),
            events: JoinSet::new(),
            running: HashMap::new(),
            started: Instant::now(),
            failures: HashMap::new(),
            next: Instant::now(),
        }
    }

    async fn run(&mut self) {
        loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    Some(change) => self.see(change),
                    None => return,
                },
                Some(done) = self.tasks.join_next() => match done {
                    Ok((key, finished)) => self.ended(key, finished),
                    Err(e) => tracing::error!(error = %e, "a task died"),
                },
                () = sleep_until(self.next) => {}
            }
            self.emit_events();
            if self.world.is_complete() {
                self.pass();
                self.context.metrics.see(&self.world);
                self.health.looked(std::time::Instant::now());
            }
        }
    }

    async fn stop(&mut self) {
        self.mirrors.shutdown().await;
        // A write in flight is awaited, so that its outcome is known.
        let _ = tokio::time::timeout(STOPPING, async { while self.tasks.join_next().await.is_some() {} }).await;
        self.tasks.shutdown().await;
        // What became of the last ones is in their phases.
        self.events.shutdown().await;
    }

    /// Tells of changes of phase. Those of a storm are left out: events are for people.
    fn emit_events(&mut self) {
        while self.events.try_join_next().is_some() {}
        let (identity, now) = (&self.context.options.identity, self.context.env.now());
        let mut events: Vec<_> = self.world.backups.take_turned().iter().map(|b| event(b, identity, now)).collect();
        events.extend(self.world.restores.take_turned().iter().map(|r| event(r, identity, now)));
        events.extend(self.world.locations.take_turned().iter().map(|l| event(l, identity, now)));
        drop(self.world.delete_requests.take_turned());
        drop(self.world.download_requests.take_turned());
        drop(self.world.status_requests.take_turned());
        drop(self.world.schedules.take_turned());
        for event in events {
            if self.events.len() < MOST_EVENTS {
                let context = Arc::clone(&self.context);
                self.events.spawn(async move { emit(&context.client, event).await });
            }
        }
    }

    /// This change and all that wait.
    fn see(&mut self, change: Change) {
        self.world.see(change);
        while let Ok(change) = self.changes.try_recv() {
            self.world.see(change);
        }
    }

    fn ended(&mut self, key: Key, finished: Finished) {
        self.running.remove(&key);
        match finished {
            Ok(effects) => {
                self.failures.remove(&key);
                for effect in effects {
                    effect.apply(&mut self.world);
                }
            }
            Err(Unfinished::NotYet(pause)) => {
                self.failures.insert(key, (0, Instant::now() + pause));
            }
            Err(e) => {
                let (count, until) = self.failures.entry(key.clone()).or_insert((0, Instant::now()));
                *count += 1;
                let pause = (RETRY * 2u32.saturating_pow((*count - 1).min(16))).min(LONGEST_RETRY);
                *until = Instant::now() + pause;
                tracing::warn!(?key, error = %e, count, "a step was not finished, trying again in {pause:?}");
            }
        }
    }

    /// Looks at everything once and starts what is to be done.
    fn pass(&mut self) {
        self.stop_unwanted();
        let now = self.context.env.now();
        let mut plan = Plan { now, wake: None, work: Vec::new() };
        self.locations(&mut plan);
        // Before the backups: of two kinds of work on one name only the first is begun.
        self.sweeps(&mut plan);
        self.backups(&mut plan);
        self.restores(&mut plan);
        self.requests(&mut plan);
        let mut wake = Instant::now() + LONGEST_PAUSE;
        if let Some(at) = plan.wake {
            let left = at.duration_since(now).unsigned_abs();
            wake = wake.min(Instant::now() + left);
        }
        for (key, stop, work) in plan.work {
            if let Some((_, until)) = self.failures.get(&key).filter(|(_, until)| *until > Instant::now()) {
                wake = wake.min(*until);
                continue;
            }
            if !self.running.contains_key(&key) {
                self.running.insert(key.clone(), stop);
                self.tasks.spawn(async move { (key, work.await) });
            }
        }
        self.next = wake;
        // What is gone has no failures.
        if self.failures.len() > 1000 {
            let now = Instant::now();
            self.failures.retain(|_, (_, until)| *until > now);
        }
    }

    fn has(&self, part: Controller) -> bool {
        !self.context.options.disabled.contains(&part)
    }

    fn free(&self, key: &Key) -> bool {
        !self.running.contains_key(key)
    }

    /// Stops work on what the user has cancelled or deleted.
    fn stop_unwanted(&self) {
        for (key, stop) in &self.running {
            let wanted = match key {
                Key::Backup(name) => self.world.backups.get(name).is_some_and(|backup| !backup.spec.cancel),
                Key::Restore(name) => self
                    .world
                    .restores
                    .get(name)
                    .is_some_and(|restore| !restore.spec.cancel && restore.metadata.deletion_timestamp.is_none()),
                _ => true,
            };
            if !wanted {
                stop.cancel();
            }
        }
    }

    fn locations(&self, plan: &mut Plan) {
        let options = &self.context.options;
        for name in phase::location::surplus_defaults(self.world.locations.iter()) {
            if let Some(location) = self.world.locations.get(&name).cloned() {
                let context = Arc::clone(&self.context);
                plan.add(Key::Default(name), async move { work::location::unmark(&context, location).await });
            }
        }
        for location in self.world.locations.iter() {
            let name = &location.metadata.name;
            let key = Key::Validation(name.clone());
            // Both change the object: one at a time.
            let free = self.free(&key) && self.free(&Key::Sync(name.clone())) && self.free(&Key::Default(name.clone()));
            if !free {
                continue;
            }
            if plan.due(phase::location::validation(location, options.validation_frequency, plan.now)).is_some() {
                let (context, location) = (Arc::clone(&self.context), location.clone());
                plan.add(key, async move { work::location::validate(&context, location).await });
            } else if self.has(Controller::BackupSync)
                && plan.due(phase::location::sync(location, options.sync_period, plan.now)).is_some()
            {
                let (context, location) = (Arc::clone(&self.context), location.clone());
                let known = work::sync::Known::of(&self.world, name);
                plan.add(Key::Sync(name.clone()), async move { work::sync::sync(&context, location, known).await });
            }
        }
    }

    fn backups(&mut self, plan: &mut Plan) {
        let options = &self.context.options;
        let queue = if self.has(Controller::BackupQueue) {
            moves(self.world.backups.iter(), options.concurrent_backups)
        } else {
            Vec::new()
        };
        for (name, to) in queue {
            match to {
                Move::Renumber(_) if self.started.elapsed() < SETTLED => {
                    plan.wake_at(SignedDuration::try_from(SETTLED).unwrap_or_default());
                    continue;
                }
                Move::Start => self.started = Instant::now(),
                _ => {}
            }
            let Some(backup) = self.world.backups.get(&name).cloned() else { continue };
            let context = Arc::clone(&self.context);
            plan.add(Key::Queue(name), async move { work::backup::queue(&context, backup, to).await });
        }
        for backup in self.world.backups.iter() {
            let key = Key::Backup(backup.metadata.name.clone());
            if !self.free(&key) || backup.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let Some(step) = plan.due(phase::backup::step(backup, options.fail_in_progress)) else { continue };
            let part = match step {
                phase::backup::Step::Operations => Controller::BackupOperations,
                phase::backup::Step::Adopt => Controller::BackupFinalizer,
                _ => Controller::Backup,
            };
            if !self.has(part) {
                continue;
            }
            let (context, target, backup) = (Arc::clone(&self.context), self.target(backup), backup.clone());
            let stop = context.env.cancel.child_token();
            plan.add_stoppable(key, stop.clone(), async move {
                use phase::backup::Step;
                match step {
                    Step::Run => work::backup::run(&context, backup, target, 1, stop).await,
                    Step::RunAgain { attempt } => work::backup::run(&context, backup, target, attempt, stop).await,
                    Step::Cancel => work::backup::cancel(&context, backup, target).await,
                    Step::Fail(reason) => work::backup::failed(&context, &backup, reason).await,
                    Step::FailVeleros(reason) => {
                        work::left::stop_backup(&context, &backup).await?;
                        work::backup::failed(&context, &backup, reason).await
                    }
                    Step::Operations => work::operations::backup(&context, backup, target).await,
                    Step::Adopt => work::backup::adopt(&context, backup, target).await,
                }
            });
        }
    }

    /// Removes what Backups left that are gone. It is work on their name: no backup of that name begins meanwhile, and
    /// what cannot begin now is found again by the next search.
    fn sweeps(&mut self, plan: &mut Plan) {
        for left in std::mem::take(&mut self.world.left) {
            if self.world.backups.get(&left.name).is_none() {
                let context = Arc::clone(&self.context);
                let key = Key::Backup(left.name.clone());
                plan.add(key, async move { work::sweep::sweep(&context, left).await });
            }
        }
    }

    /// Where a backup goes (api-and-controllers.md 5.2).
    fn target(&self, backup: &Backup) -> work::backup::Target {
        let named = &backup.spec.storage_location;
        let marked = self.world.locations.iter().find(|l| l.spec.default).map(|l| l.metadata.name.as_str());
        let default = marked.unwrap_or(&self.context.options.default_location);
        let name = if named.is_empty() { default } else { named };
        let what = if named.is_empty() { "the server default" } else { "the default" };
        let missing = if named.is_empty() { "does not exist" } else { "was not found" };
        self.world.locations.get(name).cloned().ok_or_else(|| {
            format!(
                "an existing backup storage location was not specified at backup creation time and {what} {name} {missing}. Please address this issue (see `velero backup-location -h` for options) and create a new backup. Error: backupstoragelocations.velero.io \"{name}\" not found"
            )
        })
    }

    fn restores(&self, plan: &mut Plan) {
        let options = &self.context.options;
        let running = |restore: &&Restore| {
            restore.status.phase == Some(RestorePhase::InProgress)
                || !self.free(&Key::Restore(restore.metadata.name.clone()))
        };
        let mut free =
            options.concurrent_restores.max(1).saturating_sub(self.world.restores.iter().filter(running).count());
        let mut waiting: Vec<&Restore> = self.world.restores.iter().collect();
        waiting.sort_by_key(|r| (r.metadata.creation_timestamp, r.metadata.name.clone()));
        for restore in waiting {
            let key = Key::Restore(restore.metadata.name.clone());
            if !self.free(&key) {
                continue;
            }
            let Some(step) = plan.due(phase::restore::step(restore, options.fail_in_progress)) else { continue };
            let part = match step {
                phase::restore::Step::Operations => Controller::RestoreOperations,
                phase::restore::Step::Finish => Controller::RestoreFinalizer,
                _ => Controller::Restore,
            };
            if !self.has(part) {
                continue;
            }
            // One that is in progress has its place already.
            if step == phase::restore::Step::Run {
                if free == 0 {
                    continue;
                }
                free -= 1;
            }
            let context = Arc::clone(&self.context);
            let origin = step.runs().then(|| Origin::of(restore, &self.world));
            let backup = self.world.backups.get(&restore.spec.backup_name);
            let place =
                backup.and_then(|b| Some((b.clone(), self.world.locations.get(&b.spec.storage_location)?.clone())));
            let restore = restore.clone();
            let stop = context.env.cancel.child_token();
            plan.add_stoppable(key, stop.clone(), async move {
                use phase::restore::Step;
                let origin = origin.unwrap_or_else(|| Err(String::new()));
                match step {
                    Step::CleanUp => work::restore::clean_up(&context, restore, place).await,
                    Step::Hold => work::restore::hold(&context, restore).await,
                    Step::Run => work::restore::run(&context, restore, origin, 1, stop).await,
                    Step::RunAgain { attempt } => work::restore::run(&context, restore, origin, attempt, stop).await,
                    Step::Fail(reason) => work::restore::failed(&context, &restore, reason).await,
                    Step::FailVeleros(reason) => {
                        work::left::stop_restore(&context, &restore).await?;
                        work::restore::failed(&context, &restore, reason).await
                    }
                    Step::Operations => work::operations::restore(&context, restore, place).await,
                    Step::Finish => work::restore::finish(&context, restore).await,
                }
            });
        }
    }

    fn requests(&self, plan: &mut Plan) {
        use phase::request::Step;
        // One deletion of a backup at a time, however many ask for it.
        let mut begun = BTreeMap::new();
        for request in self.world.delete_requests.iter().filter(|_| self.has(Controller::BackupDeletion)) {
            let key = Key::Deletion(request.spec.backup_name.clone());
            let first = begun.entry(request.spec.backup_name.as_str()).or_insert(&request.metadata.name);
            if !self.free(&key) || *first != &request.metadata.name {
                continue;
            }
            let Some(step) = plan.due(phase::request::deletion(request, plan.now)) else {
                // A finished one does not hold up the next.
                begun.remove(request.spec.backup_name.as_str());
                continue;
            };
            let (context, request) = (Arc::clone(&self.context), request.clone());
            let target = work::deletion::Target::of(&request, &self.world);
            plan.add(key, async move {
                match step {
                    Step::Answer => work::deletion::delete(&context, request, target).await,
                    Step::Forget => work::deletion::expire(&context, request).await,
                }
            });
        }
        for request in self.world.download_requests.iter().filter(|_| self.has(Controller::DownloadRequest)) {
            let key = Key::Download(request.metadata.name.clone());
            if !self.free(&key) {
                continue;
            }
            let Some(step) = plan.due(phase::request::download(request, plan.now)) else { continue };
            let (context, request) = (Arc::clone(&self.context), request.clone());
            let target = work::download::Target::of(&request, &self.world);
            plan.add(key, async move {
                match step {
                    Step::Answer => work::download::answer(&context, request, target).await,
                    Step::Forget => work::download::expire(&context, request).await,
                }
            });
        }
        for request in self.world.status_requests.iter().filter(|_| self.has(Controller::ServerStatusRequest)) {
            let key = Key::Status(request.metadata.name.clone());
            if !self.free(&key) {
                continue;
            }
            let Some(step) = plan.due(phase::request::status(request, plan.now)) else { continue };
            let (context, request) = (Arc::clone(&self.context), request.clone());
            plan.add(key, async move {
                match step {
                    Step::Answer => work::status::answer(&context, request).await,
                    Step::Forget => work::status::expire(&context, request).await,
                }
            });
        }
    }
}

/// What one look at everything found.
struct Plan {
    now: Timestamp,
    /// The earliest time at which something is due.
    wake: Option<Timestamp>,
    work: Vec<Work>,
}

impl Plan {
    fn add(&mut self, key: Key, work: impl Future<Output = Finished> + Send + 'static) {
        self.add_stoppable(key, CancellationToken::new(), work);
    }

    fn add_stoppable(
        &mut self,
        key: Key,
        stop: CancellationToken,
        work: impl Future<Output = Finished> + Send + 'static,
    ) {
        self.work.push((key, stop, Box::pin(work)));
    }

    /// There may be something to do after this time.
    fn wake_at(&mut self, after: SignedDuration) {
        if let Ok(at) = self.now.checked_add(after) {
            self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
        }
    }

    /// The step, when it is for now; otherwise its time is noted.
    fn due<S>(&mut self, decision: Decision<S>) -> Option<S> {
        match decision {
            Decision::Do(step) => Some(step),
            Decision::Wait(until) => {
                self.wake = Some(self.wake.map_or(until, |wake| wake.min(until)));
                None
            }
            Decision::Rest => None,
        }
    }
}
