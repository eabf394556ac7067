//! `lifeboat plugin add`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use lifeboat_install::{PluginChange, change_plugins};
use lifeboat_terminal::flags::confirm::{self, ConfirmationTarget};
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

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

impl AddArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
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
