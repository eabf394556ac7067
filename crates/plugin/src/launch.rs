//! Starts the programs of plugins (velero: pkg/plugin/clientmgmt/process/client_builder.go).

use crate::options::HostOptions;
use lifeboat_plugin_proto::PROTOCOL_VERSION;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Variables that the protocol adds to the environment. The first tells a program that it runs as a plugin; the others
/// are for plugins that listen on a port.
const ADDED: [(&str, &str); 4] = [
    ("VELERO_PLUGIN", "hello"),
    ("PLUGIN_MIN_PORT", "10000"),
    ("PLUGIN_MAX_PORT", "25000"),
    ("PLUGIN_PROTOCOL_VERSIONS", PROTOCOL_VERSION),
];
/// Variables that are removed from the environment: the first two would change the protocol of a plugin, the others are
/// for its host to set.
const TAKEN: [&str; 4] =
    ["PLUGIN_CLIENT_CERT", "PLUGIN_MULTIPLEX_GRPC", "PLUGIN_UNIX_SOCKET_DIR", "PLUGIN_UNIX_SOCKET_GROUP"];
/// The number of attempts to start a program that is open for writing, as it is for a moment in another process that
/// was just forked.
const BUSY: u32 = 50;
/// The pause between two of these.
const PAUSE: Duration = Duration::from_millis(20);

/// Arguments and environment of each program.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl Launch {
    /// Starts programs by these options.
    pub(crate) fn of(options: &HostOptions) -> Self {
        Self { arguments: options.arguments.clone(), environment: options.environment.clone() }
    }

    /// Starts a program, its output in pipes. It is killed when the child is dropped.
    pub(crate) async fn spawn(&self, program: &Path) -> io::Result<Child> {
        let mut command = Command::new(program);
        command.args(&self.arguments).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        for name in TAKEN {
            command.env_remove(name);
        }
        command.envs(ADDED).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut tried = 1;
        loop {
            match command.spawn() {
                Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tried < BUSY => tried += 1,
                spawned => return spawned,
            }
            sleep(PAUSE).await;
        }
    }
}

/// Explains why a program cannot be started, and what to do.
pub(crate) fn why(error: &io::Error) -> String {
    // `ENOEXEC`, for which there is no kind.
    const NO_PROGRAM: i32 = 8;
    let advice = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => "give the server the right to run it, or take it out of the folder",
        (io::ErrorKind::NotFound, _) => "it, what it links to, or the interpreter that it names is missing",
        (_, Some(NO_PROGRAM)) => "it is no program for this kind of machine: take the image of this architecture",
        _ => "take it out of the folder, or make it a program",
    };
    format!("{error}; {advice}")
}

/// The end of a process, as Go writes it.
pub(crate) fn ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(9)) => "signal: killed".to_owned(),
        (None, Some(11)) => "signal: segmentation fault".to_owned(),
        (None, Some(15)) => "signal: terminated".to_owned(),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "it is not known how".to_owned(),
    }
}
