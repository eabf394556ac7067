//! Flags of the preview of a restore, which this machine or the server makes.

use anyhow::{Result, bail};
use clap::Args;
use lifeboat_api::Restore;
use lifeboat_client::Client;
use lifeboat_requests::plan::print_plan;
use lifeboat_standalone::preview::{RestorePreview, find_backup};
use lifeboat_terminal::flags::dry_run::{PlanFiles, Validate};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_view::preview::ShownParts;
use std::process::ExitCode;

/// Flags of the preview of a restore.
#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    /// Show the values of Secrets where they differ
    #[arg(long)]
    show_secrets: bool,
    /// Check each object that would be written: server asks the API server by a dry run
    #[arg(long, value_enum, value_name = "WHO")]
    validate: Option<Validate>,
    /// Let the server make the plan, with your rights in the cluster (a token of yours is handed to it) and its own in the storage
    /// location
    #[arg(long)]
    by_server: bool,
    /// With --by-server: where the server listens, its --download-address; it is reached through the API server when left out
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    server_address: String,
    #[command(flatten)]
    files: PlanFiles,
}

impl PreviewArgs {
    /// Refuses these flags, and `--details`, where there is no preview.
    pub(crate) fn refuse(&self, details: bool) -> Result<()> {
        if self.show_secrets || details || self.validate.is_some() || self.by_server || self.files.is_some() {
            bail!(
                "--show-secrets, --details, --validate, --by-server, --save and --compare are of a dry run: use them with --dry-run, or leave them out"
            );
        }
        Ok(())
    }

    pub(crate) fn show(&self, globals: &Globals) -> ShownParts {
        ShownParts { secrets: self.show_secrets, colours: globals.colour(), ..ShownParts::default() }
    }
}

/// Prints what a restore would do.
pub(crate) async fn preview_restore(
    mut restore: Restore,
    client: &Client,
    globals: &Globals,
    show: ShownParts,
    args: &PreviewArgs,
) -> Result<ExitCode> {
    let backup = find_backup(&restore, client).await?;
    restore.spec.backup_name.clone_from(&backup.metadata.name);
    restore.spec.schedule_name.clear();
    if args.by_server {
        if args.validate.is_some() || args.show_secrets {
            bail!("the server hides the values of Secrets and asks for no dry runs: leave --by-server out for these");
        }
        return Box::pin(print_plan(&restore, client, &args.server_address, show, &args.files)).await;
    }
    let asks_server = args.validate == Some(Validate::Server);
    let preview = RestorePreview { restore, backup, asks_server, show, files: &args.files };
    Box::pin(preview.print(client, globals)).await
}
