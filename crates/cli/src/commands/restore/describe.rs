//! `lifeboat restore describe`.

use crate::requests::client;
use crate::requests::describe::{restore_facts, style};
use crate::resource::describe::{DescribeArgs, between};
use crate::view::describe::restore::describe as restore_text;
use anyhow::Result;
use lifeboat_api::Restore;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Describes restores.
pub(crate) async fn describe(args: DescribeArgs, globals: &Globals) -> Result<ExitCode> {
    let client = client(globals).await?;
    let style = style(globals, args.files.details);
    let found: Vec<Restore> = args.find(&client).await?;
    for (at, restore) in found.into_iter().enumerate() {
        let facts = Box::pin(restore_facts(&client, globals, &args.files, restore)).await?;
        write!(std::io::stdout(), "{}{}", between(at), restore_text(&facts, &style))?;
    }
    Ok(ExitCode::SUCCESS)
}
