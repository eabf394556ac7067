//! Options for finding and running plugins.

use crate::identity::PluginIdentity;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Options for finding and running plugins.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The folder that holds the programs (`--plugin-dir`). One that is missing holds none.
    pub directory: PathBuf,
    /// The arguments of each program: the server's own arguments after `server`, as they were given
    /// (velero: pkg/plugin/clientmgmt/process/client_builder.go).
    pub arguments: Vec<OsString>,
    /// The environment of each program, besides what the protocol adds and takes away
    /// (velero: pkg/plugin/clientmgmt/process/client_builder.go).
    pub environment: Vec<(OsString, OsString)>,
    /// The built-in plugins, whose names programs cannot take: a program that reports one of them is refused by
    /// [`crate::PluginHost::discover`], with advice.
    pub built_in: Vec<PluginIdentity>,
    /// Members of `built_in` that programs may have too: the caller who asks for a plugin decides which is used.
    pub replaceable: Vec<PluginIdentity>,
    /// Time limit of one call, and of the silence of a stream. A call that takes longer is an error; when the process
    /// does not answer a request for its list of plugins either, it is killed, and started anew for the next call.
    pub call_timeout: Duration,
    /// Time during which an unused process is kept.
    pub idle_timeout: Duration,
}
