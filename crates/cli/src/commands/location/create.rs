//! `lifeboat backup-location create`.

use crate::resource::{OutputArgs, create};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationAccessMode, Duration, SecretKeySelector};
use lifeboat_client::Client;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, KeyValuePairs};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A location to be made.
#[derive(Debug, Args)]
pub(crate) struct LocationCreateArgs {
    /// Its name
    name: String,
    /// Provider of the storage, such as aws or lifeboat.io/directory
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The bucket
    #[arg(long, value_name = "NAME")]
    bucket: String,
    /// Prefix of all keys in the bucket
    #[arg(long, default_value = "", value_name = "PREFIX")]
    prefix: String,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Vec<KeyValuePairs>,
    /// Use it for backups that name no location
    #[arg(long)]
    default: bool,
    /// Interval at which the Backups of the cluster are brought in line with the bucket; 0 for never
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    backup_sync_period: Option<Duration>,
    /// Interval at which it is validated; 0 for once
    #[arg(long, value_parser = flags::duration, value_name = "DURATION")]
    validation_frequency: Option<Duration>,
    /// Settings of the provider
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    config: Vec<KeyValuePairs>,
    /// Labels for the location
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Vec<KeyValuePairs>,
    /// A file with certificates (PEM) to trust
    #[arg(long, value_parser = flags::path, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Access to the location; no backups are written to one that is read only
    #[arg(long, value_enum, default_value_t = AccessMode::ReadWrite)]
    access_mode: AccessMode,
    #[command(flatten)]
    show: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum AccessMode {
    ReadWrite,
    ReadOnly,
}

impl LocationCreateArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let location = self.location(globals)?;
        if self.default {
            refuse_second_default(&client, &self.name).await?;
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
        location.metadata.labels = flags::merged(&self.labels);
        let spec = &mut location.spec;
        spec.provider.clone_from(&self.provider);
        spec.object_storage.bucket.clone_from(&self.bucket);
        spec.object_storage.prefix.clone_from(&self.prefix);
        if let Some(file) = &self.cacert {
            spec.object_storage.ca_cert = certificates(file)?;
        }
        spec.credential = credential(&self.credential)?;
        spec.default = self.default;
        spec.backup_sync_period = self.backup_sync_period;
        spec.validation_frequency = self.validation_frequency;
        spec.config = flags::merged(&self.config);
        spec.access_mode = Some(match self.access_mode {
            AccessMode::ReadWrite => BackupStorageLocationAccessMode::ReadWrite,
            AccessMode::ReadOnly => BackupStorageLocationAccessMode::ReadOnly,
        });
        Ok(location)
    }
}

/// The certificates of a file, as a location holds them; nothing for no file.
pub(crate) fn certificates(file: &Path) -> Result<String> {
    use base64::Engine;
    if file.as_os_str().is_empty() {
        return Ok(String::new());
    }
    let pem = std::fs::read(file).with_context(|| format!("read --cacert {}", file.display()))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(pem))
}

pub(crate) fn credential(given: &[KeyValuePairs]) -> Result<Option<SecretKeySelector>> {
    let mut pairs = flags::merged(given).into_iter();
    let first = pairs.next().map(|(name, key)| SecretKeySelector { name, key, ..SecretKeySelector::default() });
    if pairs.next().is_some() {
        bail!("--credential can only contain 1 key/value pair");
    }
    Ok(first)
}

/// Only one location can be the default.
pub(crate) async fn refuse_second_default(client: &Client, name: &str) -> Result<()> {
    let all: Vec<BackupStorageLocation> = client.list("").await?;
    match all.iter().find(|location| location.spec.default && location.metadata.name != name) {
        Some(other) => bail!("there is already a default backup storage location: {}", other.metadata.name),
        None => Ok(()),
    }
}
