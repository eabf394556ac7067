//! `lifeboat demo`: make an application in a sandbox, back it up, lose it, restore it, compare.

mod application;
mod snapshot;

use crate::commands::sandbox::{options, write_kubeconfig};
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_action::Actions;
use lifeboat_api::{Backup, Restore};
use lifeboat_bucket::Directory;
use lifeboat_cluster::{Cluster, ConnectOptions};
use lifeboat_object::GroupResource;
use lifeboat_operation::Operation;
use lifeboat_sandbox::Sandbox;
use lifeboat_store::Store;
use lifeboat_terminal::output::results::print_results;
use lifeboat_terminal::process::clock::clock;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// `lifeboat demo [--objects N] [--keep]`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Least number of objects in the application
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(30..=200_000), value_name = "N")]
    objects: u32,
    /// Keep the folder with the bucket
    #[arg(long)]
    keep: bool,
}

/// Longest time for the deletion of the application.
const PATIENCE: Duration = Duration::from_secs(120);

impl DemoArgs {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let folder = tempfile::Builder::new().prefix("lifeboat-demo-").tempdir().context("make a folder")?;
        let equal = self.walk(folder.path()).await?;
        if self.keep {
            say(&format!("kept: {}", folder.keep().display()))?;
        }
        Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn walk(&self, folder: &Path) -> Result<bool> {
        let sandbox = Sandbox::start(options(([127, 0, 0, 1], 0).into())).await?;
        let kubeconfig = folder.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &sandbox.kubeconfig())?;
        sandbox.apply(application::objects(self.objects)).await?;
        let connect = ConnectOptions {
            kubeconfig: Some(kubeconfig),
            user_agent: format!("lifeboat/{}", env!("CARGO_PKG_VERSION")),
            ..ConnectOptions::default()
        };
        let demo = Demo {
            cluster: Cluster::connect(&connect).await?,
            store: Store::new(Arc::new(Directory::open(folder.join("bucket"))?)),
            scratch: folder.to_owned(),
        };
        let before = snapshot::take(&demo.cluster).await?;
        say(&format!("an application in a sandbox: {} objects in the cluster", before.len()))?;
        demo.backup().await?;
        demo.lose().await?;
        let lost = before.len() - snapshot::take(&demo.cluster).await?.len();
        say(&format!("lost: {lost} objects"))?;
        demo.restore().await?;
        let differences = snapshot::compare(&before, &snapshot::take(&demo.cluster).await?);
        for difference in &differences {
            say(&format!("different: {difference}"))?;
        }
        sandbox.shutdown().await;
        if differences.is_empty() {
            say(&format!("equal: all {} objects, field by field", before.len()))?;
        }
        Ok(differences.is_empty())
    }
}

struct Demo {
    cluster: Cluster,
    store: Store,
    scratch: std::path::PathBuf,
}

impl Demo {
    async fn backup(&self) -> Result<()> {
        let mut backup = Backup::default();
        "demo".clone_into(&mut backup.metadata.name);
        "velero".clone_into(&mut backup.metadata.namespace);
        backup.metadata.uid = uuid::Uuid::new_v4().to_string();
        let request = lifeboat_backup::Request { backup, settings: lifeboat_backup::Settings::default() };
        let operation = Operation::new(clock(), "backup=velero/demo", self.scratch.clone());
        let (cluster, store) = (self.cluster.clone(), self.store.clone());
        let env = lifeboat_backup::Env { cluster, store, actions: Actions::default(), operation };
        let began = Instant::now();
        let outcome = lifeboat_backup::run(&request, &env).await?;
        print_results(&outcome.results);
        let items = outcome.backup.status.progress.as_ref().map_or(0, |progress| progress.items_backed_up);
        say(&format!("backed up: {items} objects in {:.2} s", began.elapsed().as_secs_f64()))
    }

    /// Deletes what the application brought and waits until it is gone.
    async fn lose(&self) -> Result<()> {
        let catalog = self.cluster.discover().await?;
        let end = Instant::now() + PATIENCE;
        for (group, resource, names) in application::roots() {
            let resource = catalog.find(&GroupResource::new(group, resource)).context("a type of the demo")?;
            for name in &names {
                self.cluster.delete(resource, None, name).await?;
            }
            for name in &names {
                while self.cluster.get(resource, None, name).await?.is_some() {
                    if Instant::now() > end {
                        bail!("{}/{name} is still there after {} s", resource.resource, PATIENCE.as_secs());
                    }
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
        Ok(())
    }

    async fn restore(&self) -> Result<()> {
        let mut restore = Restore::default();
        "demo".clone_into(&mut restore.metadata.name);
        "velero".clone_into(&mut restore.metadata.namespace);
        restore.metadata.uid = uuid::Uuid::new_v4().to_string();
        "demo".clone_into(&mut restore.spec.backup_name);
        let request = lifeboat_restore::Request { restore, settings: lifeboat_restore::Settings::default() };
        let operation = Operation::new(clock(), "restore=velero/demo", self.scratch.clone());
        let (cluster, store) = (self.cluster.clone(), self.store.clone());
        let env = lifeboat_restore::Env { cluster, store, actions: Actions::default(), operation };
        let began = Instant::now();
        let outcome = lifeboat_restore::run(&request, &env).await?;
        print_results(&outcome.results);
        let items = outcome.restore.status.progress.as_ref().map_or(0, |progress| progress.items_restored);
        say(&format!("restored: {items} objects in {:.2} s", began.elapsed().as_secs_f64()))
    }
}

fn say(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
