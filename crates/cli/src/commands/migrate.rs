//! `lifeboat migrate check`: effects of replacing an installation of Velero by Lifeboat.

mod server_flags;

use crate::commands::migrate::server_flags::read_flags;
use anyhow::Result;
use clap::{Args, Subcommand};
use lifeboat_migrate::installation::VeleroInstallation;
use lifeboat_migrate::report::Report;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::exit_code::ATTENTION;
use lifeboat_terminal::output::{Output, print_resource};
use std::io::Write;
use std::process::ExitCode;

/// Look at an installation of Velero before Lifeboat takes its place.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Say what works, what differs and what is to be done before Lifeboat takes the place of the Velero of this namespace; reads only
    Check(CheckArgs),
}

/// Output format of the check.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print also in which behaviour the two differ, as far as it concerns what was found
    #[arg(long)]
    differences: bool,
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Output>,
}

impl MigrateCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Check(args) => args.run(globals).await,
        }
    }
}

impl CheckArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let report = Report::of(&VeleroInstallation::read(&client, read_flags).await?, &globals.program.name);
        match self.output {
            Some(output) => print_resource(&report, output)?,
            None => {
                let mut text = Vec::new();
                report.write(&mut text, self.differences)?;
                std::io::stdout().write_all(&text)?;
            }
        }
        Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::from(ATTENTION) })
    }
}
