//! `lifeboat plugin remove`.

use anyhow::Result;
use clap::Args;
use lifeboat_install::{PluginChange, change_plugins};
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// Which plugin to remove.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Its image, or the name of its init container
    which: String,
}

impl RemoveArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let change = PluginChange::Remove { which: &self.which };
        change_plugins(&globals.connect().await?, &globals.namespace, change).await?;
        Ok(ExitCode::SUCCESS)
    }
}
