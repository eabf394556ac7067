//! `lifeboat backup-location get`: the list and its rows.

use crate::requests::client;
use crate::resource::{GetArgs, TableKind, find, show};
use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, ObjectMeta};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::table::time;
use std::process::ExitCode;

/// Which locations to list.
#[derive(Debug, Args)]
pub(crate) struct LocationGetArgs {
    #[command(flatten)]
    which: GetArgs,
    /// Only the default one
    #[arg(long)]
    default: bool,
}

impl LocationGetArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let mut found: Vec<BackupStorageLocation> = find(&self.which, &client(globals).await?).await?;
        found.retain(|location| location.spec.default || !self.default);
        show(&found, &self.which.show)
    }
}

impl TableKind for BackupStorageLocation {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "PROVIDER", "BUCKET/PREFIX", "PHASE", "LAST VALIDATED", "ACCESS MODE", "DEFAULT"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let (spec, status) = (&self.spec, &self.status);
        let storage = &spec.object_storage;
        let slash = if storage.prefix.is_empty() { "" } else { "/" };
        vec![
            self.metadata.name.clone(),
            spec.provider.clone(),
            format!("{}{slash}{}", storage.bucket, storage.prefix),
            status.phase.map_or("Unknown", BackupStorageLocationPhase::as_str).to_owned(),
            status.last_validation_time.map_or_else(|| "Unknown".to_owned(), |at| time(Some(at))),
            spec.access_mode.map_or("ReadWrite", BackupStorageLocationAccessMode::as_str).to_owned(),
            if spec.default { "true".to_owned() } else { String::new() },
        ]
    }
}
