//! Keeps one process running for as long as something uses it
//! (velero: pkg/plugin/clientmgmt/process/restartable_process.go).

use crate::audience::Audience;
use crate::connection::Connection;
use crate::error::PluginError;
use crate::first::FirstCall;
use crate::launch::Launch;
use crate::process::Process;
use crate::stderr::{Level, StderrLine};
use lifeboat_action::ActionScope;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The number of failed restarts in a row after which a process is given up.
const MOST_FAILURES: u32 = 10;
/// The error that calls get after that, in Velero's words.
const GIVEN_UP: &str = "unable to restart plugin process: exceeded maximum number of reset failures";

/// Settings for running processes.
#[derive(Clone, Debug)]
pub(crate) struct KeeperSettings {
    /// Arguments and environment of the programs.
    pub(crate) launch: Launch,
    /// Time limit of a call.
    pub(crate) call_timeout: Duration,
    /// Time during which an unused process is kept.
    pub(crate) idle_timeout: Duration,
}

/// Identity and purpose of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessSpec {
    /// The program.
    pub(crate) program: PathBuf,
    /// The calls that each new process gets, in this order, before it counts as running.
    pub(crate) firsts: Vec<FirstCall>,
}

/// A running process.
#[derive(Clone, Debug)]
pub(crate) struct RunningProcess {
    /// The connection to it.
    pub(crate) connection: Connection,
    /// The results of the first calls, when they were made just now.
    pub(crate) answers: Option<Vec<ActionScope>>,
}

/// The error when no process runs.
#[derive(Clone, Debug)]
pub(crate) struct NotRunning {
    /// The error itself.
    pub(crate) error: PluginError,
    /// True when its present users cannot have it restarted.
    pub(crate) is_final: bool,
}

/// A question for a process that runs.
pub(crate) struct ProcessRequest {
    /// True for a new user, for whom a process that was given up is tried again.
    pub(crate) is_new_user: bool,
    /// Receives the answer.
    pub(crate) answer: oneshot::Sender<Result<RunningProcess, NotRunning>>,
}

/// Keeps one process.
pub(crate) struct Keeper {
    pub(crate) settings: Arc<KeeperSettings>,
    pub(crate) work: ProcessSpec,
    pub(crate) audience: Arc<Audience>,
    pub(crate) requests: mpsc::Receiver<ProcessRequest>,
    /// The connection to the process that runs.
    pub(crate) current: watch::Sender<Option<Connection>>,
    /// The number of its users.
    pub(crate) users: watch::Receiver<usize>,
}

/// The state of the process.
#[derive(Default)]
struct KeeperState {
    process: Option<Process>,
    /// True when a process has ended by itself.
    has_ended: bool,
    failures: u32,
}

impl Keeper {
    /// Starts the process when somebody asks for it, again after it has ended, and stops it when nobody uses it for a while. Ends
    /// then, when `retire` says that nobody can come any more, and when `closing` is set.
    pub(crate) async fn run(mut self, closing: CancellationToken, retire: impl Fn(&ProcessSpec) -> bool + Send) {
        let mut state = KeeperState::default();
        loop {
            let is_unused = *self.users.borrow_and_update() == 0;
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                request = self.requests.recv() => {
                    let Some(request) = request else { break };
                    let answering = self.answer(&mut state, request);
                    if closing.run_until_cancelled(answering).await.is_none() {
                        break;
                    }
                }
                () = ended(state.process.as_ref()) => {
                    state.process = None;
                    state.has_ended = true;
                    self.current.send_replace(None);
                }
                _ = self.users.changed() => {}
                () = sleep(self.settings.idle_timeout), if is_unused => {
                    if retire(&self.work) {
                        break;
                    }
                }
            }
        }
        self.current.send_replace(None);
        // Whoever still asks is told by the end of this that nothing runs any more.
        drop(self.requests);
        if let Some(process) = state.process {
            process.stop().await;
        }
    }

    /// Answers who asks; when the process cannot be started, also all who have asked meanwhile.
    async fn answer(&mut self, state: &mut KeeperState, request: ProcessRequest) {
        let answer = self.ready(state, request.is_new_user).await;
        let error = answer.as_ref().err().cloned();
        // Who does not wait any more needs no answer.
        let _ = request.answer.send(answer);
        let Some(error) = error else { return };
        while let Ok(other) = self.requests.try_recv() {
            let _ = other.answer.send(Err(error.clone()));
        }
    }

    async fn ready(&self, state: &mut KeeperState, is_new_user: bool) -> Result<RunningProcess, NotRunning> {
        if let Some(process) = &state.process {
            let connection = process.connection().clone();
            if connection.is_alive() {
                return Ok(RunningProcess { connection, answers: None });
            }
            connection.exited().await;
            state.has_ended = true;
        }
        state.process = None;
        self.current.send_replace(None);
        if state.failures >= MOST_FAILURES && !is_new_user {
            let error = PluginError::Start { program: self.work.program.clone(), why: GIVEN_UP.to_owned() };
            return Err(NotRunning { error, is_final: true });
        }
        if state.has_ended {
            self.audience.hear(StderrLine::new(Level::Info, "Plugin process exited - restarting."));
        }
        match self.start().await {
            Ok((process, answers)) => {
                let connection = process.connection().clone();
                self.current.send_replace(Some(connection.clone()));
                *state = KeeperState { process: Some(process), ..KeeperState::default() };
                Ok(RunningProcess { connection, answers: Some(answers) })
            }
            Err(error) => {
                state.failures += 1;
                Err(NotRunning { error, is_final: false })
            }
        }
    }

    /// Starts the process and makes the first calls, one after the other.
    async fn start(&self) -> Result<(Process, Vec<ActionScope>), PluginError> {
        let Self { settings, work, audience, .. } = self;
        let process = Process::start(&settings.launch, &work.program, audience).await?;
        let mut answers = Vec::with_capacity(work.firsts.len());
        for first in &work.firsts {
            match first.call(process.connection(), settings.call_timeout).await {
                Ok(answer) => answers.push(answer),
                Err(e) => {
                    process.stop().await;
                    return Err(e);
                }
            }
        }
        Ok((process, answers))
    }
}

/// Waits until the process is gone, when there is one.
async fn ended(process: Option<&Process>) {
    match process {
        Some(process) => drop(process.connection().exited().await),
        None => std::future::pending().await,
    }
}
