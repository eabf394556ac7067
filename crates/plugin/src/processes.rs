//! All processes of plugins, and their use.

use crate::audience::Audience;
use crate::connection::Connection;
use crate::error::PluginError;
use crate::keeper::{Keeper, KeeperSettings, NotRunning, ProcessRequest, ProcessSpec, RunningProcess};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Questions that wait at one process.
const WAITING: usize = 64;
/// Time limit for all processes together to end: each has 2 seconds to answer, 2 to end, and 5 to be gone when it was
/// killed.
const END: Duration = Duration::from_secs(15);

/// All processes. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Processes {
    settings: Arc<KeeperSettings>,
    kept: Arc<Mutex<BTreeMap<ProcessSpec, Arc<ProcessHandle>>>>,
    keepers: Mutex<JoinSet<()>>,
    closing: CancellationToken,
}

/// A process that is kept; it may not run at this moment.
#[derive(Debug)]
struct ProcessHandle {
    requests: mpsc::Sender<ProcessRequest>,
    current: watch::Receiver<Option<Connection>>,
    users: watch::Sender<usize>,
    audience: Arc<Audience>,
}

/// The use of a process, until it is dropped.
#[derive(Debug)]
pub(crate) struct ProcessUse {
    kept: Arc<ProcessHandle>,
    work: ProcessSpec,
    processes: Arc<Processes>,
}

impl Processes {
    /// No process yet.
    pub(crate) fn new(settings: KeeperSettings) -> Self {
        Self {
            settings: Arc::new(settings),
            kept: Arc::default(),
            keepers: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// The settings with which they are run.
    pub(crate) fn settings(&self) -> &KeeperSettings {
        &self.settings
    }

    /// Uses the process for this work; it is started when it is asked for.
    ///
    /// # Errors
    /// When all have been ended.
    pub(crate) fn using(self: &Arc<Self>, work: ProcessSpec) -> Result<ProcessUse, PluginError> {
        if self.closing.is_cancelled() {
            return Err(over(&work).error);
        }
        // Under this lock, so that none is retired while it gets a user.
        let mut all = lock(&self.kept);
        let kept = Arc::clone(all.entry(work.clone()).or_insert_with(|| Arc::new(self.keep(&work))));
        kept.users.send_modify(|users| *users += 1);
        Ok(ProcessUse { kept, work, processes: Arc::clone(self) })
    }

    /// Begins to keep a process.
    fn keep(&self, work: &ProcessSpec) -> ProcessHandle {
        let (requests, asked) = mpsc::channel(WAITING);
        let (connected, current) = watch::channel(None);
        let (users, used) = watch::channel(0);
        let audience = Arc::new(Audience::of(&work.program));
        let keeper = Keeper {
            settings: Arc::clone(&self.settings),
            work: work.clone(),
            audience: Arc::clone(&audience),
            requests: asked,
            current: connected,
            users: used,
        };
        let kept = Arc::clone(&self.kept);
        let retire = move |work: &ProcessSpec| {
            let mut all = lock(&kept);
            let is_unused = all.get(work).is_none_or(|kept| *kept.users.borrow() == 0);
            if is_unused {
                all.remove(work);
            }
            is_unused
        };
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        while keepers.try_join_next().is_some() {}
        keepers.spawn(keeper.run(self.closing.clone(), retire));
        ProcessHandle { requests, current, users, audience }
    }

    /// Ends all processes and waits until they are gone.
    pub(crate) async fn shut_down(&self) {
        self.closing.cancel();
        let mut keepers = std::mem::take(&mut *self.keepers.lock().unwrap_or_else(PoisonError::into_inner));
        let ending = async { while keepers.join_next().await.is_some() {} };
        if timeout(END, ending).await.is_err() {
            tracing::error!("not all processes of plugins end: they are left to themselves");
        }
    }
}

impl ProcessUse {
    /// The settings with which the process is run.
    pub(crate) fn settings(&self) -> &KeeperSettings {
        self.processes.settings()
    }

    /// The program of the process, and its first calls.
    pub(crate) fn work(&self) -> &ProcessSpec {
        &self.work
    }

    /// The listeners to its log.
    pub(crate) fn audience(&self) -> &Arc<Audience> {
        &self.kept.audience
    }

    /// The process for somebody who begins to use it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) async fn begin(&self) -> Result<RunningProcess, PluginError> {
        self.ask(true).await.map_err(|e| e.error)
    }

    /// The connection to the process, which is started when it does not run.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) async fn connection(&self) -> Result<Connection, NotRunning> {
        let current = self.kept.current.borrow().clone();
        match current.filter(Connection::is_alive) {
            Some(connection) => Ok(connection),
            None => Ok(self.ask(false).await?.connection),
        }
    }

    async fn ask(&self, is_new_user: bool) -> Result<RunningProcess, NotRunning> {
        let (answer, answered) = oneshot::channel();
        let asked = self.kept.requests.send(ProcessRequest { is_new_user, answer }).await;
        asked.map_err(|_| over(&self.work))?;
        answered.await.map_err(|_| over(&self.work))?
    }
}

impl Drop for ProcessUse {
    fn drop(&mut self) {
        self.kept.users.send_modify(|users| *users = users.saturating_sub(1));
    }
}

fn over(work: &ProcessSpec) -> NotRunning {
    let why = "the server is ending, and has ended all plugins".to_owned();
    NotRunning { error: PluginError::Start { program: work.program.clone(), why }, is_final: true }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
