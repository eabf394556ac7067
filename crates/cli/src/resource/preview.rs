//! Preview of a backup or restore of the server, computed on this machine: with the user's own rights in the cluster,
//! and with the credentials of the storage location that these let the user read.

use super::server_plan::print_plan;
use crate::commands::server::providers::StorageProviders;
use crate::requests::missing;
use crate::view::preview::{PlanFiles, ShownParts, Validate, print_backup, print_restore};
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_action::Actions;
use lifeboat_api::{Backup, BackupStorageLocation, Restore, label_value, well_known};
use lifeboat_api::{NoneOfSchedule, SourceCluster, choose_of_schedule};
use lifeboat_bucket::Memory;
use lifeboat_client::Client;
use lifeboat_control::open_location;
use lifeboat_operation::Operation;
use lifeboat_store::Store;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::errors;
use lifeboat_terminal::output::progress::watched;
use lifeboat_terminal::process::clock::clock;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

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
        ShownParts { secrets: self.show_secrets, ..ShownParts::of(globals) }
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
    let backup = source(&restore, client).await?;
    restore.spec.backup_name.clone_from(&backup.metadata.name);
    restore.spec.schedule_name.clear();
    if args.by_server {
        if args.validate.is_some() || args.show_secrets {
            bail!("the server hides the values of Secrets and asks for no dry runs: leave --by-server out for these");
        }
        return Box::pin(print_plan(&restore, client, &args.server_address, show, &args.files)).await;
    }
    let store = store(&backup.spec.storage_location, client, globals).await?;
    let subject = format!("restore={}/{}", restore.metadata.namespace, restore.metadata.name);
    let (cluster, operation) = (client.cluster.clone(), Operation::new(clock(), &subject, std::env::temp_dir()));
    let env = lifeboat_restore::Env { cluster, store, actions: Actions::default(), operation };
    let asks_server = args.validate == Some(Validate::Server);
    let settings = lifeboat_restore::Settings {
        asks_server,
        features: globals.features(),
        ..lifeboat_restore::Settings::default()
    };
    Box::pin(print_restore(&lifeboat_restore::Request { restore, settings }, &env, show, &args.files)).await
}

/// Prints what a backup would hold.
pub(crate) async fn preview_backup(
    backup: Backup,
    client: &Client,
    globals: &Globals,
    output: Option<Output>,
) -> Result<ExitCode> {
    let location = location(&backup.spec.storage_location, client).await?;
    let store = match open(&location, client, globals).await {
        Ok(store) => store,
        // The server writes there, and a plan needs no more of it than the names of its backups.
        Err(why) => {
            let name = &backup.metadata.name;
            errors::warn(Some(&format!("warning: {why:#}, so it is not known whether a backup {name} lies there")));
            Store::new(Arc::new(Memory::default()))
        }
    };
    let subject = format!("backup={}/{}", backup.metadata.namespace, backup.metadata.name);
    let (cluster, operation) = (client.cluster.clone(), Operation::new(clock(), &subject, std::env::temp_dir()));
    let env = lifeboat_backup::Env { cluster, store, actions: Actions::default(), operation };
    let settings = lifeboat_backup::Settings {
        served: true,
        features: globals.features(),
        movers: lifeboat_backup::FileMoverSettings { may_be_used: true, ..lifeboat_backup::FileMoverSettings::default() },
        ..lifeboat_backup::Settings::default()
    };
    let request = lifeboat_backup::Request { backup, settings };
    let operation = lifeboat_backup::preview(&request, &env);
    let preview = watched("dry run", &env.operation.progress, &env.operation.cancel, operation).await?;
    print_backup(&preview, output)
}

/// The backup that would be restored: the one that is named, or the newest one of the schedule that is complete.
async fn source(restore: &Restore, client: &Client) -> Result<Backup> {
    let (name, schedule) = (&restore.spec.backup_name, &restore.spec.schedule_name);
    if schedule.is_empty() {
        return client.get(name).await?.ok_or_else(|| missing::<Backup>(name));
    }
    let label = format!("{}={}", well_known::LABEL_SCHEDULE_NAME, label_value(schedule));
    let backups: Vec<Backup> = client.list(&label).await?;
    let from = SourceCluster::of(restore);
    let this = client.cluster.uid().await?;
    let admits = |backup: &Backup| from.admits(backup, &this);
    choose_of_schedule(&backups, schedule, false, admits).cloned().map_err(|none| match none {
        NoneOfSchedule::Usable => anyhow::anyhow!("no backup of the schedule {schedule} is complete"),
        NoneOfSchedule::Admitted(why) => anyhow::anyhow!(why),
    })
}

/// Opens the store of a storage location, or of the default one when none is named.
async fn store(name: &str, client: &Client, globals: &Globals) -> Result<Store> {
    open(&location(name, client).await?, client, globals).await
}

/// The storage location of this name, or the default one when none is named.
async fn location(location: &str, client: &Client) -> Result<BackupStorageLocation> {
    let found = if location.is_empty() {
        let locations: Vec<BackupStorageLocation> = client.list("").await?;
        locations.into_iter().find(|location| location.spec.default)
    } else {
        client.get::<BackupStorageLocation>(location).await?
    };
    match found {
        Some(found) => Ok(found),
        None if location.is_empty() => bail!("no storage location is the default one: name one"),
        None => Err(missing::<BackupStorageLocation>(location)),
    }
}

/// Opens the store of this storage location.
async fn open(found: &BackupStorageLocation, client: &Client, globals: &Globals) -> Result<Store> {
    // Whatever the user may read on this machine.
    let providers = StorageProviders::new(Some(Path::new("/")), globals.patience())?;
    let bucket = open_location(client, &providers, found).await.map_err(|why| {
        anyhow::anyhow!("the storage location {:?} cannot be read from here: {why}", found.metadata.name)
    })?;
    Ok(Store::new(bucket).with_patience(globals.patience()))
}
