//! Makes calls of plugins: with a deadline, and with the consequences of a failure.

use crate::audience::{AudienceSeat, Calling};
use crate::client;
use crate::connection::Connection;
use crate::error::PluginError;
use crate::failure::{self, CallFailure, Cause};
use crate::first::FirstCall;
use crate::identity::PluginName;
use crate::processes::ProcessUse;
use crate::stderr::{Level, StderrLine};
use lifeboat_action::ActionScope;
use lifeboat_operation::Journal;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status};

/// Time limit for a process that has not answered a call to list its plugins, the simplest call.
const SIMPLEST: Duration = Duration::from_secs(10);
/// Time between the end of its connection and the end of a process: its output is read first.
const ENDING: Duration = Duration::from_secs(3);

/// Makes calls in a process, and uses it until it is dropped.
#[derive(Debug)]
pub(crate) struct PluginCaller {
    used: ProcessUse,
    /// The place of its operation among the listeners; log lines go there.
    seat: Option<Arc<AudienceSeat>>,
}

/// The way into a process for one call, until it is dropped: then everything that the plugin has logged for it was read.
#[derive(Debug)]
pub(crate) struct CallGuard {
    /// For the call.
    pub(crate) connection: Connection,
    _open: OwnedRwLockReadGuard<()>,
    _calling: Option<Calling>,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.connection.logs.drain();
    }
}

impl PluginCaller {
    /// A caller for an operation with this journal, or for none.
    pub(crate) fn new(used: ProcessUse, journal: Option<&Journal>) -> Self {
        let seat = journal.map(|journal| Arc::new(used.audience().seat(journal)));
        Self { used, seat }
    }

    /// Begins to use the process: starts it when it does not run, and makes the first calls again when it does. While others have
    /// calls in it, a configuration is not given again: plugins do not bear that, and they have the same already. One that answers nothing
    /// at all is ended, and another started.
    ///
    /// # Errors
    /// When the process cannot be started, or a first call fails.
    pub(crate) async fn begin(&self) -> Result<Vec<ActionScope>, PluginError> {
        let _calling = self.seat.as_ref().map(AudienceSeat::calling);
        let running = self.used.begin().await?;
        if let Some(answers) = running.answers {
            return Ok(answers);
        }
        match self.first_calls(&running.connection).await {
            Err(_) if !answers(&running.connection).await => {
                running.connection.kill().await;
                let running = self.used.begin().await?;
                match running.answers {
                    Some(answers) => Ok(answers),
                    None => self.first_calls(&running.connection).await,
                }
            }
            answers => answers,
        }
    }

    async fn first_calls(&self, connection: &Connection) -> Result<Vec<ActionScope>, PluginError> {
        let firsts = &self.used.work().firsts;
        let _alone = match firsts.iter().any(FirstCall::changes_state) {
            false => None,
            true => match Arc::clone(&connection.gate).try_write_owned() {
                Ok(alone) => Some(alone),
                Err(_) => return Ok(Vec::new()),
            },
        };
        let mut answers = Vec::with_capacity(firsts.len());
        for first in firsts {
            answers.push(first.call(connection, self.limit()).await?);
        }
        Ok(answers)
    }

    /// Time limit of a call, and of the silence of a stream.
    pub(crate) fn limit(&self) -> Duration {
        self.used.settings().call_timeout
    }

    /// The way into the process, which is started when it does not run.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) async fn enter(&self) -> Result<CallGuard, CallFailure> {
        let connection = self.used.connection().await.map_err(|e| match e.is_final {
            true => CallFailure::refused(e.error.to_string()),
            false => CallFailure::no_process(e.error.to_string()),
        })?;
        let open = Arc::clone(&connection.gate).read_owned().await;
        let calling = self.seat.as_ref().map(AudienceSeat::calling);
        Ok(CallGuard { connection, _open: open, _calling: calling })
    }

    /// Calls a plugin.
    ///
    /// # Errors
    /// The failure of the call.
    pub(crate) async fn call<T, F>(
        &self,
        plugin: &PluginName,
        make: impl FnOnce(Channel) -> F + Send,
    ) -> Result<T, CallFailure>
    where
        F: Future<Output = Result<Response<T>, Status>> + Send,
    {
        let entry = self.enter().await?;
        let failure = match timeout(self.limit(), make(entry.connection.channel.clone())).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => self.failed(&entry, plugin, &status).await,
            Err(_) => self.late(&entry, plugin).await,
        };
        Err(failure)
    }

    /// Turns the error status of a call into a failure. When nobody has answered, finds out whether the process still
    /// lives.
    pub(crate) async fn failed(&self, entry: &CallGuard, plugin: &PluginName, status: &Status) -> CallFailure {
        if !failure::is_of_transport(status) {
            let failure = CallFailure::said(status);
            self.tell(plugin, &failure);
            return failure;
        }
        let connection = &entry.connection;
        if let Ok(status) = timeout(ENDING, connection.exited()).await {
            return CallFailure::broken(Cause::Gone, &format!("the plugin's process has ended: {status}"));
        }
        match answers(connection).await {
            true => CallFailure::broken(Cause::Broken, &failure::chain(status)),
            false => {
                connection.kill().await;
                CallFailure::broken(Cause::Gone, "the plugin has closed its connection, and its process was ended")
            }
        }
    }

    /// The failure of a call that was not answered in time. A process that answers nothing at all is killed.
    pub(crate) async fn late(&self, entry: &CallGuard, plugin: &PluginName) -> CallFailure {
        let why = failure::unanswered(plugin, self.limit());
        if answers(&entry.connection).await {
            return CallFailure::late(&why);
        }
        entry.connection.kill().await;
        CallFailure::late(&format!(
            "{why}; its process did not say either which plugins it has, so it was ended, and the next call starts another"
        ))
    }

    /// Tells where in the plugin an error came about, as Velero does.
    fn tell(&self, plugin: &PluginName, failure: &CallFailure) {
        let Some(place) = &failure.place else { return };
        let line = StderrLine::new(Level::Info, format!("where the error of {plugin} came about"))
            .with("error", &*failure.text)
            .with("error.file", &*place.file)
            .with("error.function", &*place.function);
        match &self.seat {
            Some(seat) => seat.tell(line),
            None => self.used.audience().hear(line),
        }
    }
}

/// Returns true if a process answers the simplest call, to list its plugins, in whatever way.
async fn answers(connection: &Connection) -> bool {
    match timeout(SIMPLEST, client::list(connection.channel.clone())).await {
        Ok(Ok(_)) => true,
        Ok(Err(status)) => !failure::is_of_transport(&status),
        Err(_) => false,
    }
}
