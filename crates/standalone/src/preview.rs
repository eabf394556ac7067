//! Preview of a backup or restore of the server, computed on this machine: with the user's own rights in the cluster,
//! and with the credentials of the storage location that these let the user read.

use super::cluster_location::{location, open_location_here};
use super::dry_run::{print_backup_preview, print_restore};
use anyhow::Result;
use lifeboat_action::Actions;
use lifeboat_api::{Backup, BackupStorageLocation, Restore, label_value, well_known};
use lifeboat_api::{NoneOfSchedule, SourceCluster, choose_of_schedule};
use lifeboat_bucket::Memory;
use lifeboat_client::Client;
use lifeboat_operation::Operation;
use lifeboat_store::Store;
use lifeboat_terminal::flags::dry_run::PlanFiles;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::Output;
use lifeboat_terminal::output::errors::{self, missing};
use lifeboat_terminal::process::clock::clock;
use lifeboat_view::preview::ShownParts;
use std::process::ExitCode;
use std::sync::Arc;

/// A restore that is not made, and the parts of it that are shown.
pub struct RestorePreview<'a> {
    /// The restore. It names its backup.
    pub restore: Restore,
    /// The backup that it would restore.
    pub backup: Backup,
    /// True when the API server is asked, by dry runs, about each object that would be written.
    pub asks_server: bool,
    /// The parts that are shown.
    pub show: ShownParts,
    /// Files for its plan.
    pub files: &'a PlanFiles,
}

impl RestorePreview<'_> {
    /// Prints what the restore would do.
    ///
    /// # Errors
    /// As [`print_restore`], and when the storage location cannot be read from here.
    pub async fn print(self, client: &Client, globals: &Globals) -> Result<ExitCode> {
        let Self { restore, backup, asks_server, show, files } = self;
        let store = store(&backup.spec.storage_location, client, globals).await?;
        let subject = format!("restore={}/{}", restore.metadata.namespace, restore.metadata.name);
        let (cluster, operation) = (client.cluster.clone(), Operation::new(clock(), &subject, std::env::temp_dir()));
        let env = lifeboat_restore::Env { cluster, store, actions: Actions::default(), operation };
        let settings = lifeboat_restore::Settings {
            asks_server,
            features: globals.features(),
            ..lifeboat_restore::Settings::default()
        };
        Box::pin(print_restore(&lifeboat_restore::Request { restore, settings }, &env, show, files)).await
    }
}

/// Prints what a backup would hold.
///
/// # Errors
/// When there is no such storage location, the backup cannot be previewed, or standard output is closed.
pub async fn preview_backup(
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
        movers: lifeboat_backup::FileMoverSettings {
            may_be_used: true,
            ..lifeboat_backup::FileMoverSettings::default()
        },
        ..lifeboat_backup::Settings::default()
    };
    let request = lifeboat_backup::Request { backup, settings };
    print_backup_preview(&request, &env, output).await
}

/// Finds the backup that would be restored: the one that is named, or the newest one of the schedule that is complete.
///
/// # Errors
/// When there is none.
pub async fn find_backup(restore: &Restore, client: &Client) -> Result<Backup> {
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

/// Opens the store of this storage location.
async fn open(found: &BackupStorageLocation, client: &Client, globals: &Globals) -> Result<Store> {
    Ok(Store::new(open_location_here(found, client, globals).await?).with_patience(globals.patience()))
}
