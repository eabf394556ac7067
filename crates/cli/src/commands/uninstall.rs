//! `lifeboat uninstall`: removes the objects from a cluster that `install` has created (velero: pkg/cmd/cli/uninstall).

use crate::commands::install::say;
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use lifeboat_install::Removal;
use lifeboat_terminal::flags::confirm::asked;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Flags of an uninstallation.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Do not ask
    #[arg(long)]
    force: bool,
}

impl UninstallArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let cluster = globals.connect().await?;
        let removal = Removal::find(&cluster, &globals.namespace).await?;
        let mut question = "You are about to uninstall Velero.".to_owned();
        for line in removal.warnings() {
            question.push('\n');
            question.push_str(&line);
        }
        if !asked(&question, self.force)? {
            return Ok(ExitCode::SUCCESS);
        }
        removal.run(&Timestamp::now, &mut say).await?;
        writeln!(std::io::stdout(), "Velero uninstalled ⛵")?;
        Ok(ExitCode::SUCCESS)
    }
}
