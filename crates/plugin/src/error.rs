//! Errors of plugins, outside the calls of actions.

use std::path::PathBuf;

/// Reasons for which a plugin cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// No program has it; the words are Velero's (velero: pkg/plugin/clientmgmt/manager.go).
    #[error("{0}")]
    Unknown(String),
    /// Its program cannot be started, or says what no plugin says.
    #[error("the plugin {program} cannot be started: {why}", program = program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The reason, and what to do.
        why: String,
    },
    /// A call failed: `rpc error: code = … desc = …`, as Velero writes it
    /// (velero: pkg/plugin/framework/common/server_errors.go).
    #[error("{0}")]
    Call(String),
}

/// All problems of the plugins of a directory, when there are any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugins in {directory} cannot be used: {problems}", directory = directory.display(), problems = problems.join("; "))]
pub struct DiscoveryError {
    /// The folder.
    pub directory: PathBuf,
    /// A sentence for each, with the program and what to do.
    pub problems: Vec<String>,
}
