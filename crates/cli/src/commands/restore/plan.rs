//! `lifeboat restore plan` and `restore diff`.

use super::create::RestoreContentArgs;
use crate::resource::preview::{PreviewArgs, preview_restore};
use anyhow::Result;
use clap::Args;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_view::preview;
use std::process::ExitCode;

/// A restore that is not made.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) wanted: RestoreContentArgs,
    #[command(flatten)]
    pub(crate) preview: PreviewArgs,
    /// Also list the objects that would be created or are unchanged
    #[arg(long)]
    pub(crate) details: bool,
    /// Form of the output: text when left out
    #[arg(long, short, value_enum)]
    pub(crate) output: Option<Output>,
}

/// A restore that is not made, of which only what differs is shown.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) wanted: RestoreContentArgs,
    #[command(flatten)]
    pub(crate) preview: PreviewArgs,
    /// Form of the output: text when left out
    #[arg(long, short, value_enum)]
    pub(crate) output: Option<Output>,
}

impl PlanArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let show = preview::ShownParts { details: self.details, output: self.output, ..self.preview.show(globals) };
        plan(&self.wanted, globals, show, &self.preview).await
    }
}

impl DiffArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let show = preview::ShownParts { only_differences: true, output: self.output, ..self.preview.show(globals) };
        plan(&self.wanted, globals, show, &self.preview).await
    }
}

/// Prints what a restore without a name of its own would do.
async fn plan(
    wanted: &RestoreContentArgs,
    globals: &Globals,
    show: preview::ShownParts,
    args: &PreviewArgs,
) -> Result<ExitCode> {
    let client = globals.client().await?;
    let mut restore = wanted.restore(&client).await?;
    restore.metadata.name = format!("{}-plan", wanted.source());
    restore.metadata.namespace.clone_from(&globals.namespace);
    Box::pin(preview_restore(restore, &client, globals, show, args)).await
}
