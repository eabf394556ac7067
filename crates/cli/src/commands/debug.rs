//! `lifeboat debug`: bundles the information for support in one file (velero: pkg/cmd/cli/debug).

use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_api::{Backup, Restore};
use lifeboat_client::{Client, Object};
use lifeboat_support::bundle::Bundle;
use lifeboat_support::gather::Gathering;
use lifeboat_terminal::flags::Optional;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::missing;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Contents of the bundle, and the file that it is written to.
#[derive(Debug, Args)]
pub(crate) struct DebugArgs {
    /// The file to write; bundle-DATE-TIME.tar.gz in this folder when left out
    #[arg(long, default_value = "", value_name = "FILE")]
    output: Optional<PathBuf>,
    /// A backup whose description and log shall be in it
    #[arg(long, default_value = "", value_name = "NAME")]
    backup: String,
    /// A restore whose description and log shall be in it
    #[arg(long, default_value = "", value_name = "NAME")]
    restore: String,
    /// Print each file that goes into it
    #[arg(long)]
    verbose: bool,
}

impl DebugArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let namespace = &client.namespace;
        if !lifeboat_install::is_installed(&client.cluster, namespace).await? {
            bail!(
                "no server is installed in namespace {namespace}: there is no Deployment with the label component=velero. If it is \
                 in another namespace, name that with --namespace"
            );
        }
        must_exist::<Backup>(&client, &self.backup).await?;
        must_exist::<Restore>(&client, &self.restore).await?;
        let path = match &*self.output {
            Some(path) => std::path::absolute(path)?,
            None => std::env::current_dir().context("find the current folder")?.join(default_name()),
        };
        let mut gathering = Gathering::new(&client, globals, Bundle::create(&path)?, self.verbose);
        let gathered = tokio::select! {
            gathered = gathering.all(&self.backup, &self.restore) => gathered,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted: no bundle was written")),
        };
        gathered?;
        let gaps = gathering.finish()?;
        let mut out = std::io::stdout();
        writeln!(out, "Generated debug information bundle: {}", path.display())?;
        if gaps > 0 {
            writeln!(out, "{gaps} of its parts could not be had; missing.txt in it says which, and why")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Fails when a name is given and no object has it.
async fn must_exist<T: Object>(client: &Client, name: &str) -> Result<()> {
    if !name.is_empty() && client.get::<T>(name).await?.is_none() {
        return Err(missing::<T>(name));
    }
    Ok(())
}

fn default_name() -> String {
    format!("bundle-{}.tar.gz", jiff::Zoned::now().strftime("%Y-%m-%d-%H-%M-%S"))
}
