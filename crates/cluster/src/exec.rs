//! Commands in containers, by the exec subresource.

use crate::path::{query, segment};
use crate::{ApiStatus, Cluster, ClusterError, Failure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use kube::client::UpgradeConnectionError;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Bytes that are kept of what a command prints to each of its streams. The rest is read and counted.
const MOST_PRINTED: usize = 32 << 10;

/// A command to run in a container.
#[derive(Clone, Copy, Debug)]
pub struct Exec<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The pod.
    pub pod: &'a str,
    /// The container.
    pub container: &'a str,
    /// The program and its arguments; no shell looks at them.
    pub command: &'a [String],
    /// Time limit of the command, from its start.
    pub timeout: Duration,
}

/// The outcome of a command.
#[derive(Debug)]
pub struct Executed {
    /// Its standard output.
    pub stdout: Printed,
    /// Its standard error.
    pub stderr: Printed,
    /// The result: success, or the reason of the failure.
    pub result: Result<(), ExecError>,
}

/// The beginning of what a command printed to one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// At most 32 KiB of it; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Bytes behind these.
    pub left_out: u64,
}

/// A command that did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It was refused, or there was no answer: where the API server has answered, or was not reached, it was not started.
    #[error(transparent)]
    Refused(#[from] ClusterError),
    /// It did not end in time; it may still run.
    #[error("timed out after {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// It ended with this code.
    #[error("command terminated with exit code {0}")]
    ExitCode(i64),
    /// The node could not run it.
    #[error("{0}")]
    NotRun(String),
    /// The connection ended before it was known how the command ends. It may have run.
    #[error("the connection to the command broke before its end: what it did is not known")]
    Broken,
}

impl ExecError {
    /// Returns true if the same call may succeed later: the API server or the node could not be reached.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        match self {
            Self::Refused(error) => error.can_pass(),
            Self::Broken => true,
            Self::TimedOut(_) | Self::ExitCode(_) | Self::NotRun(_) => false,
        }
    }

    /// Returns true if the API server reports that it had no connection to the node, so that the command was not begun.
    /// It reports that before it switches to the protocol of commands, or, when it translates that protocol itself, in
    /// its last message.
    #[must_use]
    pub fn had_no_node(&self) -> bool {
        let message = match self {
            Self::Refused(error) => error.status().map(|status| status.message.as_str()),
            Self::NotRun(message) => Some(message.as_str()),
            Self::TimedOut(_) | Self::ExitCode(_) | Self::Broken => None,
        };
        message.is_some_and(|message| NO_CONNECTION.iter().any(|words| message.contains(words)))
    }
}

/// The words of the API server, and of the library with which it connects, for a connection to a node that was not made.
const NO_CONNECTION: [&str; 2] = ["error dialing backend", ": dial tcp "];

impl Cluster {
    /// Runs a command in a container and waits for its end, over a WebSocket as `kubectl exec` does. Input there is none.
    /// Needs the right to `get` and, for older API servers, to `create` `pods/exec`. Dropping the future closes the connection;
    /// the command may go on.
    pub async fn exec(&self, exec: &Exec<'_>) -> Executed {
        let mut process = match self.start(exec).await {
            Ok(process) => process,
            Err(error) => {
                let result = Err(ExecError::Refused(error));
                return Executed { stdout: Printed::default(), stderr: Printed::default(), result };
            }
        };
        let (out, err, status) = (process.stdout(), process.stderr(), process.take_status());
        let (mut stdout, mut stderr) = (Capped::default(), Capped::default());
        let ended = async {
            let status = async {
                match status {
                    Some(status) => status.await,
                    None => None,
                }
            };
            tokio::join!(stdout.read(out), stderr.read(err), status).2
        };
        let result = match timeout(exec.timeout, ended).await {
            Err(_) => Err(ExecError::TimedOut(exec.timeout)),
            Ok(None) => Err(ExecError::Broken),
            Ok(Some(status)) => ending(&status),
        };
        Executed { stdout: stdout.printed(), stderr: stderr.printed(), result }
    }

    async fn start(&self, exec: &Exec<'_>) -> Result<AttachedProcess, ClusterError> {
        let failed = |failure| ClusterError {
            verb: "run a command in",
            what: format!("pods/{}/{} (container {})", exec.namespace, exec.pod, exec.container),
            failure,
        };
        let broken = |e: &kube::Error| failed(Failure::connection(e, &self.address.url));
        let client = kube::Client::try_from((*self.config).clone()).map_err(|e| broken(&e))?;
        let pods: Api<Pod> = Api::namespaced(client, exec.namespace);
        let params = AttachParams::default().container(exec.container).stdout(true).stderr(true).stdin(false);
        match timeout(self.patience, pods.exec(exec.pod, exec.command, &params)).await {
            Ok(Ok(started)) => Ok(started),
            Ok(Err(kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code)))) => {
                Err(failed(Failure::Api(Box::new(self.refusal(exec, code.as_u16()).await))))
            }
            Ok(Err(kube::Error::Api(told))) => {
                let (code, reason, message) = (told.code, told.reason.clone(), told.message.clone());
                Err(failed(Failure::Api(Box::new(ApiStatus { code, reason, message, ..ApiStatus::default() }))))
            }
            Ok(Err(e)) => Err(broken(&e)),
            Err(_) => Err(failed(Failure::Timeout(self.patience))),
        }
    }

    /// Finds out why the API server refused to switch to the protocol of commands. The library keeps only the code of
    /// the response, so the same request is sent once more without the wish to switch.
    async fn refusal(&self, exec: &Exec<'_>, code: u16) -> ApiStatus {
        let unknown = ApiStatus { code, ..ApiStatus::default() };
        if !(400..429).contains(&code) {
            return unknown;
        }
        let (namespace, pod) = (segment(exec.namespace), segment(exec.pod));
        let words: String = exec.command.iter().map(|word| format!("&command={}", query(word))).collect();
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/exec?stdout=true&stderr=true&container={}{words}",
            query(exec.container)
        );
        match self.read("run a command in", exec.pod, &path, None).await {
            Err(ClusterError { failure: Failure::Api(status), .. }) if status.code == code => *status,
            _ => unknown,
        }
    }
}

/// Reads the outcome of the command from the last message of the connection (Kubernetes' remotecommand protocol,
/// version 4 and later).
fn ending(status: &Status) -> Result<(), ExecError> {
    if status.status.as_deref() == Some("Success") {
        return Ok(());
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let mut codes = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    match codes.next().and_then(|cause| cause.message.as_deref()?.parse().ok()) {
        Some(code) if status.reason.as_deref() == Some("NonZeroExitCode") => Err(ExecError::ExitCode(code)),
        _ => {
            let message = status.message.clone().or_else(|| status.reason.clone());
            Err(ExecError::NotRun(message.unwrap_or_else(|| "the command failed for an unknown reason".to_owned())))
        }
    }
}

/// Keeps the beginning of a stream.
#[derive(Default)]
struct Capped {
    kept: Vec<u8>,
    left_out: u64,
}

impl Capped {
    async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut piece = [0; 4096];
        // A stream that breaks ends; how the command ended is said by its status alone.
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            let kept = read.min(MOST_PRINTED - self.kept.len());
            self.kept.extend_from_slice(&piece[..kept]);
            self.left_out += (read - kept) as u64;
        }
    }

    fn printed(self) -> Printed {
        Printed { text: String::from_utf8_lossy(&self.kept).into_owned(), left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn the_beginning_of_what_is_printed_is_kept_and_the_rest_counted() {
        let mut capped = Capped::default();
        capped.read(Some(&vec![b'a'; MOST_PRINTED + 5][..])).await;
        capped.read(None::<&[u8]>).await;
        let printed = capped.printed();
        assert_eq!((printed.text.len(), printed.left_out), (MOST_PRINTED, 5));
        let mut capped = Capped::default();
        capped.read(Some(&b"a\xff"[..])).await;
        assert_eq!(capped.printed(), Printed { text: "a\u{fffd}".to_owned(), left_out: 0 });
    }

    #[test]
    fn a_node_that_was_not_reached_has_begun_nothing() {
        let refused = |code, message: &str| {
            let status = ApiStatus { code, message: message.to_owned(), ..ApiStatus::default() };
            ExecError::Refused(ClusterError {
                verb: "run",
                what: String::new(),
                failure: Failure::Api(Box::new(status)),
            })
        };
        let translated = "Internal error occurred: error sending request: Post \"https://10.0.0.5:10250/exec/shop/db/db\": dial tcp \
                          10.0.0.5:10250: connect: connection refused";
        for (error, expected) in [
            (refused(502, "error dialing backend: dial tcp 10.0.0.5:10250: connect: connection refused"), true),
            (refused(500, "error dialing backend: No agent available"), true),
            (ExecError::NotRun(translated.to_owned()), true),
            // A proxy between us and the API server, which may have passed the request on.
            (refused(502, "Bad Gateway"), false),
            (refused(500, ""), false),
            (ExecError::NotRun("no such file".to_owned()), false),
            (ExecError::Broken, false),
            (ExecError::ExitCode(1), false),
            (ExecError::TimedOut(Duration::from_secs(30)), false),
        ] {
            assert_eq!(error.had_no_node(), expected, "{error}");
        }
    }

    #[test]
    fn the_last_message_says_how_the_command_ended() {
        let said = |status: Value| match ending(&serde_json::from_value(status).unwrap()) {
            Ok(()) => "ok".to_owned(),
            Err(e) => e.to_string(),
        };
        let code = |message: &str| json!({"causes": [{"reason": "ExitCode", "message": message}]});
        for (status, expected) in [
            (json!({"status": "Success"}), "ok"),
            (
                json!({"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code: exit status 3", "details": code("3")}),
                "command terminated with exit code 3",
            ),
            (
                json!({"status": "Failure", "reason": "InternalError", "message": "no such file", "details": code("x")}),
                "no such file",
            ),
            (json!({"status": "Failure", "reason": "InternalError"}), "InternalError"),
            (json!({}), "the command failed for an unknown reason"),
        ] {
            assert_eq!(said(status), expected);
        }
    }
}
