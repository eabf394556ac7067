//! `lifeboat uninstall`: takes out of a cluster what `install` has brought (cli-and-install.md 3.7).

use crate::confirm::confirmed;
use crate::globals::Globals;
use crate::install::say;
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use lifeboat_install::Removal;
use std::io::Write;
use std::process::ExitCode;

/// How to uninstall.
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
        if !self.force {
            let mut out = std::io::stdout();
            writeln!(out, "You are about to uninstall Velero.")?;
            for line in removal.warnings() {
                writeln!(out, "{line}")?;
            }
            if !confirmed()? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        removal.run(&Timestamp::now, &mut say).await?;
        writeln!(std::io::stdout(), "Velero uninstalled ⛵")?;
        Ok(ExitCode::SUCCESS)
    }
}
