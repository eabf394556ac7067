//! `lifeboat plugin get|add|remove`.

use super::{Format, client, server_status};
use crate::confirm::{self, ConfirmationTarget};
use crate::flags::{self, Optional};
use crate::globals::Globals;
use crate::output::print_resource;
use crate::resource::table::{Labels, print};
use anyhow::Result;
use clap::builder::EnumValueParser;
use clap::{Args, Subcommand, ValueEnum};
use lifeboat_api::{Duration, PluginInfo};
use lifeboat_install::{PluginChange, change_plugins};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

/// Work with plugins.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// List the plugins of the server, the built-in ones among them
    Get(PluginGetArgs),
    /// Add a plugin to the server, whose pods are replaced then
    Add(AddArgs),
    /// Remove a plugin from the server, whose pods are replaced then
    Remove(RemoveArgs),
}

/// Flags of the list of plugins.
#[derive(Debug, Args)]
pub(crate) struct PluginGetArgs {
    /// Longest wait for the server's answer
    #[arg(long, value_parser = flags::duration, default_value = "5s", value_name = "DURATION")]
    timeout: Duration,
    /// Form of the output
    #[arg(long, short, value_parser = flags::optional(EnumValueParser::<Format>::new()), default_value = "", value_name = "FORM")]
    output: Optional<Format>,
}

/// Which plugin to add.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its image: when it runs, it copies its programs into /target
    image: String,
    /// When the image is pulled
    #[arg(long, value_enum, default_value_t = PullPolicy::IfNotPresent)]
    image_pull_policy: PullPolicy,
    /// Do not ask
    #[arg(long)]
    confirm: bool,
}

/// Which plugin to remove.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Its image, or the name of its init container
    which: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

impl PluginCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Get(args) => args.run(globals).await,
            Self::Add(args) => args.run(globals).await,
            Self::Remove(args) => args.run(globals).await,
        }
    }
}

impl PluginGetArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let asked = async {
            let client = client(&globals.with_requests_within(self.timeout)).await?;
            server_status(&client, self.timeout.to_std()).await
        };
        let mut out = std::io::stdout();
        let mut plugins = match asked.await {
            Ok(status) => status.plugins,
            Err(e) => {
                // compat: on standard output and with 0, as Velero.
                writeln!(out, "<error getting plugin information: {e:#}>")?;
                return Ok(ExitCode::SUCCESS);
            }
        };
        plugins.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        match self.output.and_then(Format::machine) {
            Some(output) => {
                print_resource(&document(&plugins), output)?;
                // compat: an empty line at the end, as in Velero.
                writeln!(out)?;
            }
            None => {
                let none = BTreeMap::new();
                let rows = plugins.into_iter().map(|plugin| (vec![plugin.name, plugin.kind], &none));
                print(&mut out, &["NAME", "KIND"], rows, &Labels { columns: &[], all: false })?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The answer of a server, as the object in which it comes.
fn document(plugins: &[PluginInfo]) -> Value {
    json!({"apiVersion": "velero.io/v1", "kind": "ServerStatusRequest", "metadata": {},
        "status": {"plugins": plugins}})
}

impl AddArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let question = format!(
            "The plugin {} is added to the server in {}.\nThis command changes the Deployment of the server: its pods are replaced.\n\
             What is in progress goes on when the new pod leads.",
            self.image,
            ConfirmationTarget::of(&client)
        );
        if !confirm::asked(&question, self.confirm)? {
            return Ok(ExitCode::SUCCESS);
        }
        let change = PluginChange::Add { image: &self.image, pull_policy: self.image_pull_policy.as_str() };
        change_plugins(&client.cluster, &client.namespace, change).await?;
        Ok(ExitCode::SUCCESS)
    }
}

impl RemoveArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let change = PluginChange::Remove { which: &self.which };
        change_plugins(&globals.connect().await?, &globals.namespace, change).await?;
        Ok(ExitCode::SUCCESS)
    }
}
