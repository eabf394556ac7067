//! `lifeboat plugin get|add|remove`.

pub(crate) mod add;
pub(crate) mod get;
pub(crate) mod remove;

use add::AddArgs;
use anyhow::Result;
use clap::Subcommand;
use get::PluginGetArgs;
use lifeboat_terminal::flags::globals::Globals;
use remove::RemoveArgs;
use std::process::ExitCode;

/// Work with plugins.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// List the plugins of the server, the built-in ones among them
    Get(PluginGetArgs),
    /// Add a plugin to the server, whose pods are replaced then
    Add(AddArgs),
    /// Remove a plugin from the server, whose pods are replaced then
    Remove(RemoveArgs),
}

impl PluginCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Get(args) => args.run(globals).await,
            Self::Add(args) => args.run(globals).await,
            Self::Remove(args) => args.run(globals).await,
        }
    }
}
