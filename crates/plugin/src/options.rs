//! How plugins are found and run.

use crate::identity::PluginIdentity;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How plugins are found and run.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The folder that holds the programs (`--plugin-dir`). One that is missing holds none.
    pub directory: PathBuf,
    /// What each program is started with: the server's own arguments after `server`, as they were given
    /// (plugin-protocol.md 1.5).
    pub arguments: Vec<OsString>,
    /// The environment of each program, besides what the protocol adds and takes away (plugin-protocol.md 1.6).
    pub environment: Vec<(OsString, OsString)>,
    /// What is built in, whose names plugins cannot take: a program that reports one of them is refused by
    /// [`crate::PluginHost::discover`], with advice.
    pub built_in: Vec<PluginIdentity>,
    /// Those of `built_in` that programs may have too: whoever asks for one decides which is used.
    pub replaceable: Vec<PluginIdentity>,
    /// How long one call may take, and how long a stream may be silent. A call that takes longer is an error; when the process
    /// does not answer the simplest question either, it is ended, and started anew for the next call.
    pub call_timeout: Duration,
    /// How long a process is kept that nothing uses.
    pub idle_timeout: Duration,
}
