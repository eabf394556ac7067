//! `lifeboat backup-location create|get`.

use super::table::time;
use super::{GetArgs, Show, Shown, client, create, get};
use crate::command::Globals;
use crate::flags::{self, Pairs};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use lifeboat_api::{
    BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, Duration, ObjectMeta,
    SecretKeySelector,
};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Work with storage locations.
#[derive(Debug, Subcommand)]
pub(crate) enum LocationCommand {
    /// Make a storage location
    Create(Box<CreateArgs>),
    /// List storage locations
    Get(GetArgs),
}

/// A location to be made.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name
    name: String,
    /// Who provides the storage, such as aws or lifeboat.io/directory
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The bucket
    #[arg(long, value_name = "NAME")]
    bucket: String,
    /// What all keys in the bucket begin with
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PREFIX")]
    prefix: String,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Option<Pairs>,
    /// Use it for backups that name no location
    #[arg(long)]
    default: bool,
    /// How often it is searched for backups; 0 for never
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    backup_sync_period: Option<Duration>,
    /// How often it is checked; 0 for once
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    validation_frequency: Option<Duration>,
    /// Settings of the provider
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    config: Option<Pairs>,
    /// Labels for the location
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Option<Pairs>,
    /// A file with certificates (PEM) to trust
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Whether backups may be written
    #[arg(long, value_enum, default_value_t = AccessMode::ReadWrite)]
    access_mode: AccessMode,
    #[command(flatten)]
    show: Show,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum AccessMode {
    ReadWrite,
    ReadOnly,
}

impl LocationCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => get::<BackupStorageLocation>(&args, globals).await,
        }
    }
}

impl CreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let location = self.location(globals)?;
        if self.default {
            let all: Vec<BackupStorageLocation> = client.list("").await?;
            if let Some(other) = all.iter().find(|l| l.spec.default) {
                bail!("there is already a default backup storage location: {}", other.metadata.name);
            }
        }
        if create(&client, &location, &self.show).await? {
            writeln!(std::io::stdout(), "Backup storage location \"{}\" configured successfully.", self.name)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn location(&self, globals: &Globals) -> Result<BackupStorageLocation> {
        if self.backup_sync_period.is_some_and(|period| period.nanoseconds() < 0) {
            bail!("--backup-sync-period must be non-negative");
        }
        let mut location = BackupStorageLocation::default();
        location.metadata.name.clone_from(&self.name);
        location.metadata.namespace.clone_from(&globals.namespace);
        location.metadata.labels = self.labels.clone().unwrap_or_default().0;
        let spec = &mut location.spec;
        spec.provider.clone_from(&self.provider);
        spec.object_storage.bucket.clone_from(&self.bucket);
        spec.object_storage.prefix.clone_from(&self.prefix);
        if let Some(file) = &self.cacert {
            use base64::Engine;
            let pem = std::fs::read(file).with_context(|| format!("read --cacert {}", file.display()))?;
            spec.object_storage.ca_cert = base64::engine::general_purpose::STANDARD.encode(pem);
        }
        let mut credentials = self.credential.clone().unwrap_or_default().0.into_iter();
        if let Some((name, key)) = credentials.next() {
            spec.credential = Some(SecretKeySelector { name, key, ..SecretKeySelector::default() });
        }
        if credentials.next().is_some() {
            bail!("--credential can only contain 1 key/value pair");
        }
        spec.default = self.default;
        spec.backup_sync_period = self.backup_sync_period;
        spec.validation_frequency = self.validation_frequency;
        spec.config = self.config.clone().unwrap_or_default().0;
        spec.access_mode = Some(match self.access_mode {
            AccessMode::ReadWrite => BackupStorageLocationAccessMode::ReadWrite,
            AccessMode::ReadOnly => BackupStorageLocationAccessMode::ReadOnly,
        });
        Ok(location)
    }
}

impl Shown for BackupStorageLocation {
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
