//! `lifeboat backup describe`.

use crate::resource::describe::{DescribeArgs, between};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_api::Backup;
use lifeboat_requests::describe::{backup_facts, style};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_view::describe::backup::describe;
use lifeboat_view::describe::json;
use std::io::Write;
use std::process::ExitCode;

/// Which backups to describe, and in what form.
#[derive(Debug, Args)]
pub(crate) struct BackupDescribeArgs {
    #[command(flatten)]
    which: DescribeArgs,
    /// Form of the output: plaintext, or json for a single backup
    #[arg(long, short, default_value = "plaintext", value_name = "FORM")]
    output: String,
}

impl BackupDescribeArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let as_json = match self.output.as_str() {
            "plaintext" => false,
            "json" => true,
            other => bail!("invalid output format {other:?}: it is plaintext or json"),
        };
        let client = globals.client().await?;
        let style = style(globals, self.which.files.details);
        let found: Vec<Backup> = self.which.find(&client).await?;
        let single = found.len() == 1;
        let mut out = std::io::stdout();
        for (at, backup) in found.into_iter().enumerate() {
            let facts = Box::pin(backup_facts(&client, globals, &self.which.files, backup)).await?;
            if as_json && single {
                write!(out, "{}", json::describe(&facts, &style)?)?;
            } else {
                write!(out, "{}{}", between(at), describe(&facts, &style))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
