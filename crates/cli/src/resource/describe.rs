//! Arguments and the search that the verb `describe` has for all nouns.

use anyhow::Result;
use clap::Args;
use lifeboat_client::{Client, Object};
use lifeboat_requests::describe::FileArgs;
use lifeboat_terminal::output::errors::missing;

/// Which objects to describe, and how much of them.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// Names; all when left out
    names: Vec<String>,
    /// Without names, only those with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
    #[command(flatten)]
    pub(crate) files: FileArgs,
}

impl DescribeArgs {
    pub(crate) async fn find<T: Object>(&self, client: &Client) -> Result<Vec<T>> {
        find(client, &self.names, &self.selector).await
    }
}

/// The objects that are named, each of which must exist, or else those with the labels.
pub(crate) async fn find<T: Object>(client: &Client, names: &[String], selector: &str) -> Result<Vec<T>> {
    if names.is_empty() {
        return Ok(client.list(selector).await?);
    }
    let mut found = Vec::new();
    for name in names {
        found.push(client.get(name).await?.ok_or_else(|| missing::<T>(name))?);
    }
    Ok(found)
}

/// Separator before the description of an object that is not the first.
pub(crate) fn between(at: usize) -> &'static str {
    if at == 0 { "" } else { "\n\n" }
}
