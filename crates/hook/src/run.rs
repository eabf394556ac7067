//! Runs one hook.

use crate::hook::{Hook, Moment};
use crate::pod::HookPod;
use lifeboat_cluster::{Cluster, Exec, ExecError, Failure, Printed};
use lifeboat_operation::Journal;

/// A hook that did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The pod has no such container, or it does not run.
    #[error("{0}")]
    Container(String),
    /// The command did not end well.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

impl HookError {
    /// Returns true if the command was certainly not started: the API server was not reached, refused it, or did not
    /// reach the node, or the pod has no place for it.
    #[must_use]
    pub fn was_not_started(&self) -> bool {
        match self {
            Self::Container(_) => true,
            Self::Exec(error) if error.had_no_node() => true,
            Self::Exec(ExecError::Refused(error)) => match &error.failure {
                Failure::Unreachable { .. } => true,
                // A 5xx may be of something between us and the API server, which has passed the request on.
                Failure::Api(status) => status.code < 500,
                _ => false,
            },
            Self::Exec(_) => false,
        }
    }

    /// Returns true if the API server says that the pod is not there.
    #[must_use]
    pub fn says_gone(&self) -> bool {
        matches!(self, Self::Exec(ExecError::Refused(error)) if error.is_not_found())
    }

    /// Returns true if the command ran and ended with an exit code other than 0.
    #[must_use]
    pub fn ended_badly(&self) -> bool {
        matches!(self, Self::Exec(ExecError::ExitCode(_)))
    }

    /// Returns true if the command may not even have been started, because the API server or the node was not to be
    /// reached: the same call may go well later.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        matches!(self, Self::Exec(error) if error.can_pass() || error.had_no_node())
    }
}

/// Runs a hook in its pod, within its own time, and writes its output into the log. In a pod that has ended nothing is
/// run, and that is no error (velero: internal/hook). Dropping the future gives the command up; its process may go on.
///
/// # Errors
/// [`HookError`].
pub async fn run(
    hook: &Hook,
    pod: &HookPod,
    moment: Moment,
    cluster: &Cluster,
    journal: &Journal,
) -> Result<(), HookError> {
    let place = format!("{}/{}", pod.namespace, pod.name);
    if pod.is_over {
        journal.info("The pod has ended, so its hook does not run", &[("pod", &place), ("hook", &hook.name)]);
        return Ok(());
    }
    let container = pod.container(&hook.container).map_err(HookError::Container)?;
    let phase = moment.to_string();
    let fields = [("pod", place.as_str()), ("container", container), ("hook", &hook.name), ("phase", &phase)];
    journal.info("Running a hook", &[&fields[..], &[("command", &hook.command.join(" "))]].concat());
    let exec = Exec {
        namespace: &pod.namespace,
        pod: &pod.name,
        container,
        command: &hook.command,
        timeout: hook.timeout.to_std(),
    };
    let executed = cluster.exec(&exec).await;
    for (name, printed) in [("stdout", &executed.stdout), ("stderr", &executed.stderr)] {
        if !printed.text.is_empty() {
            journal.info("A hook printed", &[&fields[..], &[(name, &shown(printed))]].concat());
        }
    }
    Ok(executed.result?)
}

/// The output of a command as messages show it.
fn shown(printed: &Printed) -> String {
    match printed.left_out {
        0 => printed.text.clone(),
        more => format!("{} [{more} more bytes are left out]", printed.text),
    }
}
