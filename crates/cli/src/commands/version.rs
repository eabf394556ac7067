//! `lifeboat version`: the versions of this program and of the server.

use anyhow::Result;
use clap::Args;
use lifeboat_api::Duration;
use lifeboat_requests::version::{PATIENCE, versions, versions_with_server};
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Which versions to print.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Longest wait for the server
    #[arg(long, value_parser = flags::duration, default_value_t = PATIENCE, value_name = "DURATION")]
    timeout: Duration,
    /// Do not ask the server
    #[arg(long)]
    client_only: bool,
}

impl VersionArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let text = if self.client_only { versions(None) } else { versions_with_server(globals, self.timeout).await };
        write!(std::io::stdout(), "{text}")?;
        Ok(ExitCode::SUCCESS)
    }
}
