//! `lifeboat repo describe`.

use crate::resource::describe::{between, find};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use lifeboat_api::{BackupRepository, BackupStorageLocation};
use lifeboat_requests::describe::style;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_view::describe::repository::describe as repository_text;
use std::io::Write;
use std::process::ExitCode;

/// Which repositories to describe.
#[derive(Debug, Args)]
pub(crate) struct RepoDescribeArgs {
    /// Names; all when left out
    names: Vec<String>,
    /// Without names, only those with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
}

impl RepoDescribeArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let style = style(globals, false);
        let found: Vec<BackupRepository> = find(&client, &self.names, &self.selector).await?;
        let locations: Vec<BackupStorageLocation> = client.list("").await?;
        for (at, repository) in found.iter().enumerate() {
            let named = &repository.spec.backup_storage_location;
            let location = locations.iter().find(|location| location.metadata.name == *named);
            let text = repository_text(repository, location, Timestamp::now(), &style);
            write!(std::io::stdout(), "{}{text}", between(at))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
