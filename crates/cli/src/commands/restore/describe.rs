//! `lifeboat restore describe`.

use crate::resource::describe::{DescribeArgs, between};
use anyhow::Result;
use lifeboat_api::Restore;
use lifeboat_requests::describe::{restore_facts, style};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_view::describe::restore::describe as restore_text;
use std::io::Write;
use std::process::ExitCode;

/// Describes restores.
pub(crate) async fn describe(args: DescribeArgs, globals: &Globals) -> Result<ExitCode> {
    let client = globals.client().await?;
    let style = style(globals, args.files.details);
    let found: Vec<Restore> = args.find(&client).await?;
    for (at, restore) in found.into_iter().enumerate() {
        let facts = Box::pin(restore_facts(&client, globals, &args.files, restore)).await?;
        write!(std::io::stdout(), "{}{}", between(at), restore_text(&facts, &style))?;
    }
    Ok(ExitCode::SUCCESS)
}
