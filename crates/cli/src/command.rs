//! The command tree.

use crate::demo::DemoArgs;
use crate::flags;
use crate::install::InstallArgs;
use crate::local::Local;
use crate::resource::backup::BackupCommand;
use crate::resource::location::LocationCommand;
use crate::resource::restore::RestoreCommand;
use crate::resource::verbs::{CreateCommand, DeleteCommand, GetCommand};
use crate::sandbox::SandboxArgs;
use crate::server::ServerArgs;
use crate::uninstall::UninstallArgs;
use clap::{Args, Parser, Subcommand};
use lifeboat_api::Duration;
use lifeboat_cluster::{Cluster, ConnectOptions, PaceOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// Backup and restore of Kubernetes objects and volumes, compatible with Velero.
#[derive(Debug, Parser)]
#[command(name = "lifeboat", version, max_term_width = 120, disable_help_subcommand = true)]
pub(crate) struct Lifeboat {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Globals {
    /// Path to the kubeconfig file; otherwise $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use; otherwise its current context
    #[arg(long, global = true, value_name = "NAME")]
    kubecontext: Option<String>,
    /// The namespace in which Velero's resources live
    #[arg(long, short, global = true, default_value = "velero", env = "VELERO_NAMESPACE")]
    pub(crate) namespace: String,
    /// How much to tell about what is done: 0 warnings, 1 steps, 4 and more everything
    #[arg(long = "v", short = 'v', global = true, default_value_t = 0, value_name = "LEVEL")]
    pub(crate) verbosity: u8,
    /// Writes a second to the cluster at most; unlimited when 0, then the server's answers set the pace
    #[arg(long, global = true, default_value_t = 0.0, value_name = "N")]
    client_qps: f64,
    /// Writes at once after a pause, when --client-qps is set
    #[arg(long, global = true, default_value_t = 100, value_name = "N")]
    client_burst: u32,
    /// How long one request to the cluster may take, all attempts together
    #[arg(long, global = true, value_parser = flags::duration, default_value = "3m", value_name = "DURATION")]
    request_timeout: Duration,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Back up and restore with nothing installed in the cluster
    Local(Local),
    /// Work with backups
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Work with restores
    #[command(subcommand)]
    Restore(RestoreCommand),
    /// Work with backup storage locations
    #[command(subcommand)]
    BackupLocation(LocationCommand),
    /// List backups, restores or storage locations
    #[command(subcommand)]
    Get(GetCommand),
    /// Make a backup, restore or storage location
    #[command(subcommand)]
    Create(CreateCommand),
    /// Delete backups or restores
    #[command(subcommand)]
    Delete(DeleteCommand),
    /// Bring the server into the cluster
    Install(Box<InstallArgs>),
    /// Take the server, its resources and its definitions out of the cluster; what lies in buckets stays
    Uninstall(UninstallArgs),
    /// Run the server: make what the velero.io resources of a namespace ask for
    Server(Box<ServerArgs>),
    /// Run an in-memory Kubernetes API server and write its kubeconfig to the file named by --kubeconfig
    Sandbox(SandboxArgs),
    /// Make an application in a sandbox, back it up, lose it, restore it, and compare every field
    Demo(DemoArgs),
}

impl Lifeboat {
    /// Whether the command starts its own log.
    pub(crate) fn logs_itself(&self) -> bool {
        matches!(self.command, Command::Server(_))
    }

    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Local(local) => local.run(&self.globals).await,
            Command::Demo(demo) => demo.run().await,
            Command::Backup(command) => command.run(&self.globals).await,
            Command::Restore(command) => command.run(&self.globals).await,
            Command::BackupLocation(command) => command.run(&self.globals).await,
            Command::Get(command) => command.run(&self.globals).await,
            Command::Create(command) => command.run(&self.globals).await,
            Command::Delete(command) => command.run(&self.globals).await,
            Command::Install(install) => install.run(&self.globals).await,
            Command::Uninstall(uninstall) => uninstall.run(&self.globals).await,
            Command::Server(server) => server.run(&self.globals).await,
            Command::Sandbox(sandbox) => sandbox.run(&self.globals).await,
        }
    }
}

impl Globals {
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        let qps = (self.client_qps > 0.0).then_some(self.client_qps);
        let options = ConnectOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.kubecontext.clone(),
            user_agent: format!(
                "lifeboat/{} ({}/{})",
                env!("CARGO_PKG_VERSION"),
                std::env::consts::OS,
                std::env::consts::ARCH
            ),
            pace: PaceOptions { qps, burst: self.client_burst, ..PaceOptions::default() },
            request_timeout: Some(self.request_timeout.to_std()).filter(|timeout| !timeout.is_zero()),
        };
        Ok(Cluster::connect(&options).await?)
    }
}
